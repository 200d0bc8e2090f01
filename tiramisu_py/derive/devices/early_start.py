"""GPU operations started as early as possible, so that they run while the host works.

    for r on the host: p[r] = f(a)             start to copy b to the GPU
    copy b to the GPU                   -->    start kernel q = g(b)
    kernel q = g(b)                            start to copy q to the host
    copy q to the host                         for r on the host: p[r] = f(a)
                                               wait for the copy

At each level of the host's loops, an operation (or a loop that contains only operations) is moved before host work
that it need not follow: they have no dependence in the same iteration, and no command orders them. The host's work
keeps its order. So do operations, unless one of them has to wait for the host and the other has not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from tiramisu_py.derive.dependences import Dependences
from tiramisu_py.program.loops import LoopId, Parallel, Vector
from tiramisu_py.program.ordering import Order
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.records import dataclass

Level = tuple[LoopId, ...]


@dataclass(frozen=True, eq=False)
class Child:
    """A nest or a statement at a level of loops; the host only starts it (`is_started`), or executes it itself."""

    statements: tuple[Statement, ...]
    is_started: bool

    @property
    def name(self) -> str:
        """The name of a statement in it."""
        return self.statements[0].name


class Levels:
    """The levels of the host's loops that have both host work and GPU operations.

    `started` are transfers that are to become asynchronous.
    """

    def __init__(self, program: Program, started: Collection[str]) -> None:
        self.program = program
        self.started = frozenset(started)

    def mixed(self) -> Iterator[tuple[Level, list[Child]]]:
        """The levels, outer ones first, each with its children in order."""
        levels: dict[Level, None] = {(): None}
        for statement in self.program.statements.values():
            for depth in range(1, self.program.host_depth(statement) + 1):
                if any(isinstance(self.program.loops[loop].tag, Parallel | Vector) for loop in statement.loops[:depth]):
                    break
                levels[statement.loops[:depth]] = None
        for level in sorted(levels, key=len):
            children = self._children(level)
            if {child.is_started for child in children} == {True, False}:
                yield level, children

    def _children(self, level: Level) -> list[Child]:
        program, depth = self.program, len(level)
        found: dict[object, list[Statement]] = {}
        for statement in program.statements.values():
            if statement.loops[:depth] == level:
                child = statement.loops[depth] if len(statement.loops) > depth else statement.name
                found.setdefault(child, []).append(statement)
        listed = sorted(found.values(), key=lambda inside: program.positions[inside[0].name][depth])
        return [Child(tuple(inside), all(map(self._is_started, inside))) for inside in listed]

    def _is_started(self, statement: Statement) -> bool:
        """Whether the host continues at once: after kernels and asynchronous transfers."""
        if self.program.queue_of(statement) is None:
            return False
        blocks = statement.link.transfer is not None and not statement.link.transfer.asynchronous
        return not blocks or statement.name in self.started or not statement.acts


def has_work_beside(program: Program, started: Collection[str]) -> bool:
    """Whether the host has work of its own beside GPU operations."""
    works = {s.name for s in program.storing if s.link.message is None and program.queue_of(s) is None}
    return any(
        any(s.name in works for child in children if not child.is_started for s in child.statements)
        for _, children in Levels(program, started).mixed()
    )


def early(program: Program, started: Collection[str], command: str) -> Program:
    """The program with GPU operations moved before host work that they need not follow."""
    edges = Edges(program)
    for level, children in list(Levels(program, started).mixed()):
        ordered = _in_turn(children, edges.among(level, children))
        if ordered != children:
            inside = level[-1] if level else None
            chain = (Order(a.name, b.name, inside, command, derived=True) for a, b in pairwise(ordered))
            program = program.with_(orders=(*program.orders, *chain))
    return program


def _in_turn(children: Sequence[Child], edges: set[tuple[int, int]]) -> list[Child]:
    """A topological order of the children under `edges`: started ones as early as possible, else in their order."""
    left = list(range(len(children)))
    found: list[Child] = []
    while left:
        ready = [k for k in left if not any((other, k) in edges for other in left)]
        chosen = min(ready, key=lambda k: (not children[k].is_started, k))
        left.remove(chosen)
        found.append(children[chosen])
    return found


class Edges:
    """The precedence edges among the children of a level."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._dependences = Dependences(program)

    def among(self, level: Level, children: Sequence[Child]) -> set[tuple[int, int]]:
        """The pairs of children, by number, whose current order must be kept."""
        number = {s.name: k for k, child in enumerate(children) for s in child.statements}
        own = [k for k, child in enumerate(children) if not child.is_started]
        found = set(pairwise(own))
        for order in self.program.orders:
            if order.before in number and order.after in number:
                found.add((number[order.before], number[order.after]))
        found -= {(k, k) for k in number.values()}
        for k, first in enumerate(children):
            for later in range(k + 1, len(children)):
                second = children[later]
                if (first.is_started or second.is_started) and self._is_before(first, second, len(level)):
                    found.add((k, later))
        return found

    def _is_before(self, first: Child, second: Child, depth: int) -> bool:
        """Whether the second of two children depends on the first, in one iteration of the loops around."""
        if any(map(self._is_fence, (*first.statements, *second.statements))):
            return True
        return any(self._dependences.meet(x, y, depth) for x in first.statements for y in second.statements)

    def _is_fence(self, statement: Statement) -> bool:
        """Whether it is a wait for GPU operations: its order relative to other statements is kept."""
        waits = statement.link.waits
        return waits is not None and any(s.link.message is None for s in self.program.awaited(statement))
