"""Steps: when each instance runs, if everything that may run at the same time does.

Statements and iterations of a sequential loop come one after another; the iterations of a parallel loop, the blocks of
a GPU, the lanes of a vector and the elements of one copy begin at the same step, and what follows comes after the
longest. Threads of a block all run a kernel in the same order, and ranks run side by side: instances that differ in
these coordinates alone have the same step.
"""

from __future__ import annotations

from tiramisu_py.program.loops import Bulk, GpuBlock, GpuThread, LoopId, Parallel, Rank, Vector
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.records import dataclass
from tiramisu_py.view.pictures.scene import Point


@dataclass(frozen=True)
class Timed:
    """An instance with its time, before all instances are in their order."""

    statement: int
    instance: Point
    coords: Point
    time: Point

    @property
    def name(self) -> tuple[int, Point]:
        """The name of the instance."""
        return self.statement, self.instance


class StepTable:
    """The step of each instance of a program."""

    def __init__(self, program: Program, timed: list[Timed]) -> None:
        self.program = program
        self.statements = list(program.statements.values())
        self.of: dict[tuple[int, Point], int] = {}
        self._strips = _first_iterations(program, self.statements, timed)
        self._place(timed, 0, 0)

    def _place(self, group: list[Timed], level: int, start: int) -> int:
        """Give steps from `start` to instances that agree in their time up to `level`; the step after the last one."""
        if level == self.program.time_size or not group:
            self.of.update((each.name, start) for each in group)
            return start + bool(group)
        parts: dict[int, list[Timed]] = {}
        for each in group:
            parts.setdefault(self._key(each, level), []).append(each)
        ends = [start]
        together = level % 2 == 1 and self._together(group[0], level // 2)
        for key in sorted(parts):
            ends.append(self._place(parts[key], level + 1, start if together else ends[-1]))
        return max(ends)

    def _key(self, each: Timed, level: int) -> int:
        statement = self.statements[each.statement]
        depth = level // 2
        if level % 2 == 0 or depth >= len(statement.loops):
            return each.time[level]
        loop = statement.loops[depth]
        tag = self.program.loops[loop].tag
        if isinstance(tag, Rank | GpuThread):
            return 0
        if isinstance(tag, Vector):
            return (each.coords[depth] - self._strips[loop, each.coords[:depth]]) // tag.width
        return each.coords[depth]

    def _together(self, each: Timed, depth: int) -> bool:
        """Whether the iterations of the loop at a depth run at the same time."""
        loops = self.statements[each.statement].loops
        return depth < len(loops) and isinstance(self.program.loops[loops[depth]].tag, Parallel | GpuBlock | Bulk)


def _first_iterations(
    program: Program, statements: list[Statement], timed: list[Timed]
) -> dict[tuple[LoopId, Point], int]:
    """The first iteration of each vector loop, in each iteration of the loops around it: strips count from there."""
    found: dict[tuple[LoopId, Point], int] = {}
    for each in timed:
        for depth, loop in enumerate(statements[each.statement].loops):
            if isinstance(program.loops[loop].tag, Vector):
                around = (loop, each.coords[:depth])
                found[around] = min(found.get(around, each.coords[depth]), each.coords[depth])
    return found
