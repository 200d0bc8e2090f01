"""Rewrites of a layer, and the choice between ways to compute it by the work on a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import product

from tiramisu_py.errors import DeclarationError
from tiramisu_py.records import dataclass

#: The part of a layer's work that is left, at most, by rewrites that pay: they store, or look up, something more.
LESS = 0.9


@dataclass(frozen=True)
class LayerRewrites:
    """The rewrites that passes may do in a layer: each True, False, or "count" where the work on a graph decides."""

    reassociate: bool | str
    sum_first: bool | str
    compact: bool | str

    def __post_init__(self) -> None:
        for name, given in self.named.items():
            if given not in (True, False, "count"):
                raise DeclarationError(f"{name}={given!r}: give True, False, or 'count', which leaves it to the graph")

    @property
    def named(self) -> dict[str, bool | str]:
        """The rewrites by name, in the order of the passes."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @property
    def counted(self) -> tuple[str, ...]:
        """The names of those that a graph decides."""
        return tuple(name for name, given in self.named.items() if given == "count")

    @property
    def ways(self) -> list[LayerRewrites]:
        """All decisions that a graph may take, without rewrites first."""
        listed = product((False, True), repeat=len(self.counted))
        return [replace(self, **dict(zip(self.counted, each, strict=True))) for each in listed]

    def among(self, names: Sequence[str]) -> str:
        """Name the rewrites among some that are done, in words."""
        return ", ".join(name for name in names if self.named[name]) or "none of these"


def taken(ways: Sequence[tuple[LayerRewrites, int]]) -> int:
    """The place of the way to take, given the work of each: the fewest rewrites within a tenth of the least work."""
    least = min(work for _, work in ways)
    near = [place for place, (_, work) in enumerate(ways) if LESS * work <= least]
    return min(near, key=lambda place: (sum(map(bool, ways[place][0].named.values())), ways[place][1]))
