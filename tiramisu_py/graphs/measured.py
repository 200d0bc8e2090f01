"""Choices by measuring: the rewrites of a layer on a graph, and the rows of its tiles, by the time of its program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tiramisu_py as tm
from tiramisu_py.errors import ArgumentError
from tiramisu_py.graphs.graph import Graph
from tiramisu_py.graphs.programs import LayerMachine, LayerProgram
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class MeasuredWay:
    """A way to compute a layer: its rewrites in words, vectors of tiles, the way of sums, and seconds a call."""

    rewrites: str
    tile: int
    sums: str
    runs: bool
    seconds: float

    def __str__(self) -> str:
        ways = f"sums by {self.sums}, products by {'runs' if self.runs else 'index'}"
        return f"{self.rewrites}, tiles of {self.tile} vectors, {ways}: {1000 * self.seconds:.3g} ms"


def fastest_way(
    function: Callable[[], tm.Function],
    graph: Graph,
    machine: LayerMachine,
    tiles: Sequence[int],
    sums: Sequence[str],
    runs: Sequence[bool],
    rewrites: str,
    **options: Any,
) -> MeasuredWay:
    """The tiles and ways with which a layer is fastest on a graph, by `tune`, which keeps all times."""

    def program(tile: int, sums: str, runs: bool) -> LayerProgram:
        return LayerProgram(function(), graph, machine.with_choices(tile, sums, runs))

    plain = program(tiles[0], sums[0], any(runs))
    result = tm.tune(
        lambda tile, sums, runs: program(tile, sums, bool(runs)).f,
        {"tile": tiles, "sums": list(sums), "runs": list(map(int, runs))},
        arguments={**plain.arrays, **plain.sizes},
        verify=False,
        threads=machine.threads,
        fast=list(machine.fast),
        progress=False,
        **options,
    )
    best = result.best
    assert best.seconds is not None
    own = best.parameters
    return MeasuredWay(rewrites, own["tile"], own["sums"], bool(own["runs"]), best.seconds)


def checked_tiles(tiles: Sequence[int]) -> list[int]:
    """The numbers of vectors of a tile to try; raises `ArgumentError`."""
    listed = list(tiles) if isinstance(tiles, Sequence | range) else []
    if not listed or not all(isinstance(each, int) and not isinstance(each, bool) and each > 0 for each in listed):
        raise ArgumentError(f"tiles={tiles!r}: give numbers of vectors, such as tiles=[8, 16]")
    return listed
