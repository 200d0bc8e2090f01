"""Loops and their tags. A loop is known by a number that never changes hands, so a tag cannot slip to another loop."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

LoopId = int


class Combine(Enum):
    """How a parallel or vector loop over a reduction combines partial results.

    PRIVATE: a private copy for each thread (or vector lane), combined in order afterwards.
    ATOMIC: each update is atomic.
    """

    PRIVATE = "private"
    ATOMIC = "atomic"

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Parallel:
    """Iterations run on OpenMP threads. `schedule` is static, dynamic or guided.

    `collapse` is the number of adjacent loops whose iterations are dealt out together; the inner ones of such a nest
    carry the same tag with ``collapse=0``.
    """

    schedule: str = "static"
    chunk: int | None = None
    combine: Combine | None = None
    collapse: int = 1

    name = "parallel"


@dataclass(frozen=True)
class Vector:
    """Iterations run in strips of `width` lanes, cut from the loop's lower bound; what is left runs one by one."""

    width: int
    combine: Combine | None = None

    name = "vector"


@dataclass(frozen=True)
class Unroll:
    """The body is repeated `factor` times (None: for all iterations, whose number is then constant)."""

    factor: int | None = None

    name = "unroll"


Tag = Parallel | Vector | Unroll


@dataclass(frozen=True)
class Loop:
    """One loop of the program, shared by every statement that lists its number."""

    id: LoopId
    name: str
    tag: Tag | None = None
    tagged_by: str = ""

    @property
    def is_concurrent(self) -> bool:
        """Whether its iterations are not ordered among each other."""
        return isinstance(self.tag, Parallel | Vector)
