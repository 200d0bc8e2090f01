"""Binomial checkpoints (Revolve): the fewest levels that a recurrence computes again when a few places hold them.

A *node* is a run of units (levels, or as many as a level reads), whose first one is in a place. A sweep from there puts
the first units of its children in the places after it; children are reversed from the last one to the first, each by a
sweep of its own, in the places that the later ones have left. With s places and r sweeps a node has up to
``C(s + r, s)`` units, and its i-th child up to ``C(s - i + r - 1, s - i)``. So a unit is the path of its children,
(k1, .., kr), and is kept in place ``k1 + .. + kr``: an affine form. Its number is none, but the number of units is
known, so that a table of paths, made here, relates the two. Source: Griewank and Walther, "Algorithm 799: Revolve",
ACM TOMS 26, 2000.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from math import comb

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.records import dataclass

Path = tuple[int, ...]
Node = tuple[Path, int, int]


@dataclass(frozen=True)
class BinomialTree:
    """The paths of all units, in order: as many numbers each as there are sweeps over the whole run."""

    paths: tuple[Path, ...]

    @property
    def sweeps(self) -> int:
        """How many sweeps there are, one inside of the other."""
        return len(self.paths[0])

    def nodes(self, depth: int) -> list[Node]:
        """The nodes of a depth, in order: the path of each, its first unit, and how many it has."""
        firsts = dict[Path, int]()
        for number, path in enumerate(self.paths):
            firsts.setdefault(path[:depth], number)
        ends = [*list(firsts.values())[1:], len(self.paths)]
        return [(path, first, end - first) for (path, first), end in zip(firsts.items(), ends, strict=True)]

    def again(self) -> int:
        """The units that sweeps after the first one compute."""
        return sum(count for depth in range(1, self.sweeps) for _, _, count in self._steps(depth))

    def whole(self, depth: int) -> list[TableRow]:
        """All units of the nodes of a depth."""
        return _rows(self.nodes(depth))

    def firsts(self, depth: int) -> list[TableRow]:
        """The first units of the nodes of a depth."""
        return _rows([(path, first, 1) for path, first, _ in self.nodes(depth)])

    def steps(self, depth: int) -> list[TableRow]:
        """The units that the sweep of a node computes on the way to the first one of each child but the first."""
        return _rows(self._steps(depth))

    def ends(self, depth: int) -> list[TableRow]:
        """The first units of these children."""
        return _rows([(path, first + count - 1, 1) for path, first, count in self._steps(depth)])

    def _steps(self, depth: int) -> list[Node]:
        children = self.nodes(depth + 1)
        pairs = [(one, other) for one, other in pairwise(children) if one[0][:-1] == other[0][:-1]]
        return [(path, before + 1, first - before) for (_, before, _), (path, first, _) in pairs]


@dataclass(frozen=True)
class TableRow:
    """Paths ``(*parent, k)`` for k from `low` to `high`: each has `count` units from ``start + step * k`` on."""

    parent: Path
    low: int
    high: int
    start: int
    step: int
    count: int


def _rows(nodes: Iterable[Node]) -> list[TableRow]:
    """Nodes as rows: those with one parent that have single units one after another are one row."""
    rows: list[TableRow] = []
    for (*parent, k), first, count in nodes:
        last = rows[-1] if rows else None
        own = TableRow(tuple(parent), k, k, first - k if count == 1 else first, int(count == 1), count)
        if last is not None and own.step and replace(last, high=k, low=k) == own and last.high + 1 == k:
            rows[-1] = replace(last, high=k)
        else:
            rows.append(own)
    return rows


def most_units(places: int, sweeps: int) -> int:
    """The most units that are reversed with some places in so many sweeps."""
    return comb(places + sweeps, places) if places >= 0 else 0


def sweeps_needed(units: int, places: int) -> int:
    """The least number of sweeps with which some units are reversed."""
    sweeps = 0
    while most_units(places, sweeps) < units:
        sweeps += 1
    return sweeps


def binomial_tree(units: int, places: int) -> BinomialTree:
    """The tree with the fewest units computed again; `places` hold units beside the one that a sweep ends with."""
    return BinomialTree(tuple(_paths(units, places, sweeps_needed(units, places))))


def _paths(units: int, places: int, sweeps: int) -> Iterable[Path]:
    """The paths of a node's units: its first one has one of the places, and `places` include that.

    Each sweep goes on to the last unit, so that no later one has to. A node that needs fewer sweeps is its own only
    child until then, so that single units are next to each other in the innermost loop.
    """
    needed = sweeps_needed(units, places)
    outer, child = (0,) * (sweeps - needed), 0
    if not needed:
        yield outer
        return
    while units:
        least = sweeps_needed(units, places)
        count = 1 if units == 1 else min(most_units(places, least - 1), units - most_units(places - 1, least - 1))
        for path in _paths(count, places, needed - 1):
            yield (*outer, child, *path)
        units, places, child = units - count, places - 1, child + 1


def as_relation(rows: Iterable[TableRow], like: isl.Space, signs: Path, width: int, base: int) -> isl.Map:
    """``[k1, ..] -> [level]``: the levels of each row's units, of `width` levels, from `base` on; k has these signs."""
    parts: list[isl.Map] = []
    for row in rows:
        space = sets.sized_frame(like, None, len(row.parent) + 2)
        *coords, level = sets.variables(space)
        *outer, k = (sets.scaled(coordinate, sign) for coordinate, sign in zip(coords, signs, strict=True))
        inside = _where_equal(space, outer, row.parent).intersect(sets.within(k, row.low, row.high + 1))
        first = sets.plus(sets.scaled(k, row.step * width), row.start * width + base)
        inside = inside.intersect(sets.within(level.sub(first), 0, row.count * width))
        parts.append(sets.relating(sets.function(space, None, coords), sets.function(space, None, [level]), inside))
    return sets.union_of(parts)


def beyond(before: tuple[Path, int], after: tuple[Path, int], like: isl.Space, signs: Path) -> isl.Map:
    """``[k1, ..] -> [level]``: one path for all levels below a number, and one for all from another number on."""
    space = sets.sized_frame(like, None, len(signs) + 1)
    *coords, level = sets.variables(space)
    path = [sets.scaled(coordinate, sign) for coordinate, sign in zip(coords, signs, strict=True)]
    below = sets.plus(level, -before[1]).lt_set(sets.constant(space, 0))
    from_on = sets.plus(level, -after[1]).ge_set(sets.constant(space, 0))
    inside = _where_equal(space, path, before[0]).intersect(below)
    inside = inside.union(_where_equal(space, path, after[0]).intersect(from_on))
    return sets.relating(sets.function(space, None, coords), sets.function(space, None, [level]), inside)


def _where_equal(space: isl.Space, forms: Iterable[isl.Aff], numbers: Path) -> isl.Set:
    inside = sets.universe(space)
    for form, number in zip(forms, numbers, strict=True):
        inside = inside.intersect(sets.within(form, number, number + 1))
    return inside
