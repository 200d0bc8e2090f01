"""Dependences between statements at one level of loops: whose accesses meet, and which orders that allows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm, Computation
from tiramisu_py.algorithm.operators import Determinism
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.program.ordering import shared
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.spread import foreseen
from tiramisu_py.program.statement import Statement
from tiramisu_py.proof.reductions.bits import chooses, rounds


class Dependences:
    """The accesses of the statements of a program, with all ranks in view; of a wait, those of its messages."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._accesses: dict[str, list[MemoryAccess]] = {}
        accesses = MemoryAccesses(foreseen(program))
        for home in accesses.homes():
            for access in (*accesses.writers(home), *accesses.readers(home)):
                self._accesses.setdefault(access.actor.name, []).append(access)

    def meet(self, first: Statement, second: Statement, depth: int) -> bool:
        """Whether two statements conflict in one iteration of the outermost `depth` loops, which they share."""
        return any(meet(x, y, depth) for x in self._of(first) for y in self._of(second))

    def allow_order(self, changed: Program) -> bool:
        """Whether statements that conflict have the same order in `changed`, a program of the same statements."""
        for x, y in combinations(self.program.statements.values(), 2):
            depth = shared(x, y)
            old = self.program.positions[x.name][depth] < self.program.positions[y.name][depth]
            new = changed.positions[x.name][depth] < changed.positions[y.name][depth]
            if old != new and self._conflict(x, y, depth):
                return False
        return True

    def allow_parts(self, names: Sequence[str], depth: int) -> bool:
        """Whether a statement may run part by part, in this order, in each iteration of its outermost `depth` loops.

        The parts have the loops of the whole. Given parts P before Q, the executions x of P and y of Q that conflict,
        where the whole has y before x, must be none.
        """
        parts = [self.program.statements[name] for name in names]
        return not any(
            not pairs.intersect(_backwards(x, y)).is_empty()
            for first, second in combinations(parts, 2)
            for x in self._of(first)
            for y in self._of(second)
            if not commute(self.program, x, y) and (pairs := _meeting(x, y, depth)) is not None
        )

    def _conflict(self, first: Statement, second: Statement, depth: int) -> bool:
        return any(
            meet(x, y, depth) for x in self._of(first) for y in self._of(second) if not commute(self.program, x, y)
        )

    def _of(self, statement: Statement) -> list[MemoryAccess]:
        waiting = statement.link.waits is not None
        inside = self.program.awaited(statement) if waiting else (statement,)
        return [access for one in inside for access in self._accesses.get(one.name, [])]


def meet(x: MemoryAccess, y: MemoryAccess, depth: int) -> bool:
    """Whether two accesses conflict (same place, at least one write) in one iteration of the outermost loops."""
    pairs = _meeting(x, y, depth)
    return pairs is not None and not pairs.is_empty()


def _meeting(x: MemoryAccess, y: MemoryAccess, depth: int) -> isl.Map | None:
    """The pairs of executions that conflict in one iteration of the outermost loops; None if there cannot be any."""
    if x.home != y.home or not (x.is_write or y.is_write):
        return None
    pairs = x.places.apply_range(y.places.reverse())
    if depth and not pairs.is_empty():
        first, second = x.actor.statement, y.actor.statement
        assert first is not None and second is not None
        if shared(first, second) >= depth:
            pairs = pairs.intersect(x.prefix(depth).apply_range(y.prefix(depth).reverse()))
    return pairs


def _backwards(x: MemoryAccess, y: MemoryAccess) -> isl.Map:
    """The pairs of executions of two parts in which that of `y` comes first in the loops of the whole."""
    assert x.coords is not None and y.coords is not None
    mine, others = sets.graph(x.coords, x.domain), sets.graph(y.coords, y.domain)
    return mine.apply_range(isl.Map.lex_gt(x.coords.get_space().range())).apply_range(others.reverse())


def commute(program: Program, x: MemoryAccess, y: MemoryAccess) -> bool:
    """Whether two accesses add terms to the results of one reduction, whose terms may come in any order."""
    declared = program.algorithm.computations.get(x.source)
    if declared is None or x.source != y.source or not (x.adds and y.adds):
        return False
    if declared.in_order or _keeps_bits(program.algorithm, declared):
        return False
    return all(a.actor.statement is not None and a.storage.name == a.actor.statement.memory.target for a in (x, y))


def _keeps_bits(algorithm: Algorithm, computation: Computation) -> bool:
    """Whether the bits of a reduction were asked to be those of the order of its terms, which may change them."""
    whole = computation
    while whole.name in algorithm.wholes:
        whole = algorithm.wholes[whole.name]
    return whole.determinism is Determinism.ORDERED and rounds(whole) and not chooses(whole)
