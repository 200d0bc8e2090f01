"""Partial results that ranks combine: a meeting that ends when all ranks of a line of the grid have come to it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import product
from typing import Protocol

import numpy as np

from tiramisu_py.interpret.arithmetic import Value
from tiramisu_py.interpret.faults import InterpretError
from tiramisu_py.interpret.memory import Array
from tiramisu_py.interpret.reductions import apply
from tiramisu_py.ir import AllReduce

#: The axes along which ranks meet, and the coordinates on the others: one line of the grid.
Line = tuple[tuple[int, ...], tuple[int, ...]]


class At(Protocol):
    """A rank: its number, and its coordinates."""

    @property
    def number(self) -> int: ...
    @property
    def coordinates(self) -> tuple[int, ...]: ...


@dataclass(frozen=True)
class Combined:
    """What one rank gave to a combination with others, and got back."""

    statement: str
    rank: int
    elements: int
    bytes: int


@dataclass(eq=False)
class Combination:
    """One combination: what the ranks that have come to it bring, by their numbers; `members` are all that must."""

    statement: str
    members: tuple[int, ...]
    brought: dict[int, Array] = field(default_factory=dict)

    @property
    def arrived(self) -> bool:
        """Whether all ranks have come."""
        return len(self.brought) == len(self.members)


@dataclass(eq=False)
class Seat:
    """A rank that waits in a meeting."""

    meeting: Combination

    @property
    def arrived(self) -> bool:
        """Whether it can go on."""
        return self.meeting.arrived

    def words(self) -> str:
        """For whom it waits."""
        missing = sorted(set(self.meeting.members) - set(self.meeting.brought))
        ranks = ", ".join(map(str, missing))
        return f"{self.meeting.statement} for rank{'s' if len(missing) > 1 else ''} {ranks} to combine partial results"


class Combinations:
    """All combinations of a run: those of one line come one after the other."""

    def __init__(self, seed: int = 0) -> None:
        self.choice = random.Random(seed)
        self.open: dict[Line, Combination] = {}
        self.combined: list[Combined] = []

    def joined(self, node: AllReduce, shape: Sequence[int], place: At, array: Array) -> Seat:
        """A rank of a grid comes to a combination; the last one combines what all have brought."""
        mine = place.coordinates
        sides = [range(n) if axis in node.axes else (mine[axis],) for axis, n in enumerate(shape)]
        members = tuple(int(np.ravel_multi_index(at, tuple(shape))) for at in product(*sides))
        line = (node.axes, tuple(x for axis, x in enumerate(mine) if axis not in node.axes))
        meeting = self.open.setdefault(line, Combination(node.statement, members))
        if meeting.statement != node.statement:
            raise InterpretError(f"combines {node.statement} where others combine {meeting.statement}")
        meeting.brought[place.number] = array
        if meeting.arrived:
            del self.open[line]
            self._combine(node, meeting)
        return Seat(meeting)

    def _combine(self, node: AllReduce, meeting: Combination) -> None:
        arrays = [meeting.brought[rank] for rank in meeting.members]
        first = arrays[0]
        if any(array.data.shape != first.data.shape for array in arrays):
            raise InterpretError(f"{node.statement} combines partial results of different shapes")
        if any(np.any(array.written != first.written) for array in arrays):
            raise InterpretError(f"{node.statement} combines elements that some ranks have not started")
        for element in map(tuple, np.argwhere(first.written)):
            values: Sequence[Value] = [array.read(element, node.statement) for array in arrays]
            order = self.choice.sample(range(len(values)), len(values))
            outcome = reduce(lambda a, b: apply(node.operator, a, b), [values[k] for k in order])
            for array in arrays:
                array.write(element, outcome, node.statement)
        count = int(first.written.sum())
        size = count * first.data.dtype.itemsize
        if len(meeting.members) > 1:
            self.combined += [Combined(node.statement, rank, count, size) for rank in meeting.members]
