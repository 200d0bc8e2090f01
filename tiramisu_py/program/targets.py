"""Where the parts of a partition run: threads of the host, GPUs, and the ranks that have them."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.records import dataclass

#: One rank, or several that follow each other; None for a program whose partition names no ranks.
Ranks = int | range | None

#: The threads of a block along the level, or along it and the next loop; "auto" where the command chooses.
Tile = int | tuple[int, int] | str | None


def _shown(kind: str, given: Mapping[str, tuple[object, object]]) -> str:
    """A target as it was written, without arguments that have their defaults."""
    words = [f"{name}={value!r}" for name, (value, default) in given.items() if value != default]
    return f"tm.{kind}({', '.join(words)})"


@dataclass(frozen=True)
class Cores:
    """Threads of the host: `parallel` deals the level out to them; `vector` lanes run the innermost loop."""

    vector: int | None = None
    ranks: Ranks = None
    parallel: bool = True

    def __repr__(self) -> str:
        given = {"vector": (self.vector, None), "ranks": (self.ranks, None), "parallel": (self.parallel, True)}
        return _shown("cores", given)


@dataclass(frozen=True)
class GpuThreads:
    """The GPU `device` of a rank, or of the process: `tile` threads in a block, launched on `stream`.

    With a `chunk` the host starts one kernel for each `chunk` iterations of the level.
    """

    device: int = 0
    tile: Tile = "auto"
    chunk: int | None = None
    stream: int = 0
    ranks: Ranks = None

    def __repr__(self) -> str:
        given: dict[str, tuple[object, object]] = {
            "device": (self.device, 0), "tile": (self.tile, "auto"), "chunk": (self.chunk, None),
            "stream": (self.stream, 0), "ranks": (self.ranks, None),
        }  # fmt: skip
        return _shown("gpu", given)


Target = Cores | GpuThreads


def ranks_of(target: Target) -> range | None:
    """The ranks on which a part runs; None where its partition names none."""
    return range(target.ranks, target.ranks + 1) if isinstance(target.ranks, int) else target.ranks


@dataclass(frozen=True)
class Shares:
    """The part of a level that each target gets: ``tm.shares(3, 1)`` are three quarters and one quarter."""

    given: tuple[object, ...]
    of_whole: tuple[Fraction, ...]

    def __repr__(self) -> str:
        return f"tm.shares({', '.join(map(repr, self.given))})"


@dataclass(frozen=True, eq=False)
class Partition:
    """The record of a `partition`: which iterations of a loop each part has, and where it runs.

    `source` is the computation, `level` the name of the loop, `points` where it was cut (one fewer than parts; for
    ranges, the lower bounds of all but the first; for shares, none). `parts` names the statements of each part (several
    for a reduction: its start and its update), as they were then: later commands may have cut them further
    (`Statement.origin.part_of`). `iterations` are the iterations of the level that each part has, as sets of one
    dimension; `chunks` the name of the host's loop over chunks of a part, None where it has none.
    """

    source: str
    level: str
    points: tuple[Expr, ...]
    parts: tuple[tuple[str, ...], ...]
    targets: tuple[Target, ...]
    iterations: tuple[isl.Set, ...]
    chunks: tuple[str | None, ...]

    def sizes(self, params: Mapping[str, int]) -> tuple[int, ...]:
        """The number of iterations of the level that each part has at these values of the parameters."""
        return tuple(sets.count(sets.fixed(of, dict(params))) for of in self.iterations)
