"""Sets of points of a random algorithm: boxes, triangles, bands and pieces; and where reads lie inside of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import islpy as isl

PARAMS = ("N", "M")
#: Iterators of values, and those of the terms of reductions.
ITERATORS = ("i", "j", "k", "l")
TERMS = ("m", "n")


@dataclass(frozen=True)
class Bounds:
    """One dimension: its iterator, from `low` up to `high`, as expressions that both isl and the declaration take."""

    iterator: str
    low: str
    high: str

    @property
    def declared(self) -> str:
        """The entry of a domain."""
        return f"{self.iterator}: {self.high}" if self.low == "0" else f"{self.iterator}: ({self.low}, {self.high})"

    @property
    def condition(self) -> str:
        """The condition on the iterator."""
        return f"{self.low} <= {self.iterator} < {self.high}"

    @property
    def is_free(self) -> bool:
        """Whether it depends on no other dimension."""
        return not set(f"{self.low} {self.high}".replace("+", " ").replace("-", " ").split()) & {*ITERATORS, *TERMS}


@dataclass(frozen=True)
class Region:
    """Points of these iterators: their declaration, and the set."""

    bounds: tuple[Bounds, ...]
    points: isl.Set
    #: The declaration, where bounds alone do not say it.
    text: str = ""

    @property
    def declared(self) -> str:
        """The text of a domain."""
        return self.text or f"{{{', '.join(each.declared for each in self.bounds)}}}"

    @property
    def iterators(self) -> tuple[str, ...]:
        """The names of its dimensions."""
        return tuple(each.iterator for each in self.bounds)

    def inside(self, reads: Sequence[isl.Set]) -> isl.Set:
        """The points at which all reads find a value."""
        found = self.points
        for each in reads:
            found = found.intersect(each)
        return found


def _space(iterators: Sequence[str]) -> str:
    return f"[{', '.join(PARAMS)}] -> {{ [{', '.join(iterators)}]"


def region(bounds: Sequence[Bounds], condition: str = "") -> Region:
    """The points within bounds, which hold a condition."""
    conditions = " and ".join([*(each.condition for each in bounds), *([condition] if condition else [])])
    text = f"{_space([each.iterator for each in bounds])}{' : ' + conditions if conditions else ''} }}"
    return Region(tuple(bounds), isl.Set(text), text if condition else "")


def narrowed(of: Region, points: isl.Set) -> Region | None:
    """The region with fewer points, as a set in isl's text; None where that is too complicated to be of use."""
    made = points.coalesce()
    if made.n_basic_set() > 3 or len(str(made)) > 240:
        return None
    return Region(of.bounds, points, str(made))


def where_inside(iterators: Sequence[str], indices: Sequence[str | None], source: isl.Set) -> isl.Set:
    """Where a read at affine indices lies inside its source; None is an index that lies inside wherever it is."""
    outs = [f"o{d}" for d in range(len(indices))]
    conditions = [f"{out} = {index}" for out, index in zip(outs, indices, strict=True) if index is not None]
    condition = f" : {' and '.join(conditions)}" if conditions else ""
    heads = f"[{', '.join(PARAMS)}] -> {{ [{', '.join(iterators)}] -> [{', '.join(outs)}]"
    return isl.Map(f"{heads}{condition} }}").intersect_range(source).domain()


class Regions:
    """Makes random regions."""

    def __init__(self, choice: random.Random, params: Sequence[str]) -> None:
        self.choice = choice
        self.params = params

    def extent(self) -> str:
        """The number of points along a dimension: a size, a bit more, or a constant."""
        if self.choice.random() < 0.3:
            return self.choice.choice(("1", "2", "3", "4"))
        more = self.choice.choice((0, 0, 0, 1, 2))
        return f"{self.choice.choice(self.params)}{f' + {more}' if more else ''}"

    def bounds(self, iterator: str, outer: Sequence[str]) -> Bounds:
        """One dimension, now and then within bounds that depend on one around it."""
        high = self.extent()
        if outer and self.choice.random() < 0.25:
            x = self.choice.choice(outer)
            return self.choice.choice(
                (
                    Bounds(iterator, "0", f"{x} + 1"),
                    Bounds(iterator, "0", x),
                    Bounds(iterator, x, high),
                    Bounds(iterator, x, f"{x} + 3"),
                )
            )
        low = self.choice.choice(("0", "0", "0", "0", "1", "2" if high not in ("1", "2") else "0"))
        return Bounds(iterator, low, high)

    def values(self) -> Region:
        """The domain of a computation: of no dimension up to four, the inner ones short."""
        rank = self.choice.choice((0, 1, 1, 1, 2, 2, 2, 2, 3, 4))
        found: list[Bounds] = []
        for d, iterator in enumerate(ITERATORS[:rank]):
            made = self.bounds(iterator, ITERATORS[:d])
            if d >= 2 and not made.high.isdigit():
                made = Bounds(iterator, "0", self.choice.choice(("2", "3")))
            found.append(made)
        condition = ""
        if rank and self.choice.random() < 0.12:
            i, size = found[0].iterator, self.choice.choice(self.params)
            condition = self.choice.choice(
                (f"({i} mod 2 = 0)", f"({i} < 1 or {i} > 2)", f"({i} != 1)", f"(2*{i} <= {size} or {i} = {size} - 1)")
            )
        return region(found, condition)

    def terms(self, of: Region) -> tuple[Bounds, ...]:
        """The loops over the terms of a reduction."""
        first = self.bounds(TERMS[0], of.iterators)
        if self.choice.random() < 0.8:
            return (first,)
        return first, Bounds(TERMS[1], "0", self.choice.choice(("2", "3", f"{TERMS[0]} + 1")))
