"""Combination of the ranks' partial results: a meeting that ends when all ranks of a line of the grid have joined."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import field
from functools import reduce
from itertools import product
from typing import Protocol

import numpy as np

from tiramisu_py.interpret.machine_faults import InterpretError
from tiramisu_py.interpret.memory import Array
from tiramisu_py.interpret.partial_results import Parts, application
from tiramisu_py.ir import AllReduce
from tiramisu_py.program.combining.combination_trees import CombinationTree
from tiramisu_py.records import dataclass

#: A line of the grid: the axes along which ranks meet, and the coordinates on the other axes.
Line = tuple[tuple[int, ...], tuple[int, ...]]
#: The arrays of the components of a rank's partial results.
Arrays = tuple[Array, ...]


class At(Protocol):
    """A rank: its number, and its coordinates."""

    @property
    def number(self) -> int: ...
    @property
    def coordinates(self) -> tuple[int, ...]: ...


@dataclass(frozen=True)
class Combined:
    """The amount that one rank contributed to a combination, and received from it."""

    statement: str
    rank: int
    elements: int
    bytes: int


@dataclass(eq=False)
class RankCombination:
    """One combination of the ranks `members`: the arrays of the ranks that have joined, by rank number."""

    statement: str
    members: tuple[int, ...]
    brought: dict[int, Arrays] = field(default_factory=dict)

    @property
    def arrived(self) -> bool:
        """Whether all ranks have joined."""
        return len(self.brought) == len(self.members)


@dataclass(eq=False)
class Seat:
    """A rank that waits in a meeting."""

    meeting: RankCombination

    @property
    def arrived(self) -> bool:
        """Whether it can continue."""
        return self.meeting.arrived

    def words(self) -> str:
        """A description of the wait, for messages."""
        missing = sorted(set(self.meeting.members) - set(self.meeting.brought))
        ranks = ", ".join(map(str, missing))
        return f"{self.meeting.statement} for rank{'s' if len(missing) > 1 else ''} {ranks} to combine partial results"


class Combinations:
    """All combinations of a run; the combinations of one line follow one another."""

    def __init__(self, seed: int = 0) -> None:
        self.choice = random.Random(seed)
        self.open: dict[Line, RankCombination] = {}
        self.combined: list[Combined] = []

    def joined(self, node: AllReduce, shape: Sequence[int], place: At, arrays: Arrays) -> Seat:
        """Add a rank of a grid to its next combination; the last rank to join combines all partial results."""
        mine = place.coordinates
        sides = [range(n) if axis in node.axes else (mine[axis],) for axis, n in enumerate(shape)]
        members = tuple(int(np.ravel_multi_index(at, tuple(shape))) for at in product(*sides))
        line = (node.axes, tuple(x for axis, x in enumerate(mine) if axis not in node.axes))
        meeting = self.open.setdefault(line, RankCombination(node.statement, members))
        if meeting.statement != node.statement:
            raise InterpretError(f"combines {node.statement} where others combine {meeting.statement}")
        meeting.brought[place.number] = arrays
        if meeting.arrived:
            del self.open[line]
            self._combine(node, meeting)
        return Seat(meeting)

    def _combine(self, node: AllReduce, meeting: RankCombination) -> None:
        brought = [meeting.brought[rank] for rank in meeting.members]
        first = brought[0][0]
        if any(array.data.shape != first.data.shape for arrays in brought for array in arrays):
            raise InterpretError(f"{node.statement} combines partial results of different shapes")
        if any(np.any(array.written != first.written) for arrays in brought for array in arrays):
            raise InterpretError(f"{node.statement} combines elements that some ranks have not started")
        for element in map(tuple, np.argwhere(first.written)):
            values = [tuple(array.read(element, node.statement) for array in arrays) for arrays in brought]
            outcome = self._outcome(node, values)
            for arrays in brought:
                for array, value in zip(arrays, outcome, strict=True):
                    array.write(element, value, node.statement)
        count = int(first.written.sum())
        size = count * sum(array.data.dtype.itemsize for array in brought[0])
        if len(meeting.members) > 1:
            self.combined += [Combined(node.statement, rank, count, size) for rank in meeting.members]

    def _outcome(self, node: AllReduce, values: Sequence[Parts]) -> Parts:
        """All values combined: in a tree of the ranks' numbers, or in any order."""
        apply = application(node.operator, node.dtype)
        if node.tree:
            return CombinationTree((len(values),)).combined(values, apply)
        order = self.choice.sample(range(len(values)), len(values))
        return reduce(apply, [values[k] for k in order])
