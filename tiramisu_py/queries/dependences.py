"""Dependences of loops: which loops carry them, and how far they go.

A loop that carries none may run in parallel or in vectors.
A dependence is a pair of executions that access one place, at least one of which writes, in the order in which the
program runs them now. The terms of a reduction may be added in any order, so that two updates of one chain are none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.ordering import shared
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.loops.nest_dependences import nest_dependences


@dataclass(frozen=True, eq=False)
class LoopDependence:
    """Pairs of iterations of all loops of two statements, the first of which has to come first."""

    first: Statement
    second: Statement
    pairs: isl.Map

    @cached_property
    def shared(self) -> int:
        """How many loops the two have in common."""
        return shared(self.first, self.second)

    def carried_at(self, depth: int) -> bool:
        """Whether some pairs are in one iteration of the loops outside a common one, but not of this one."""
        if depth >= self.shared:
            return False
        inside = sets.equal_prefix(self.pairs, depth)
        return not inside.subtract(sets.equal_at(inside, depth)).is_empty()

    def is_not_before(self, depth: int, of_second: int) -> bool:
        """Whether no iteration of a loop of the second one, given by its depth, is less than that of the first one."""
        return bool(self.pairs.is_subset(sets.ordered_at(self.pairs.get_space(), depth, of_second)))


@dataclass(frozen=True, eq=False)
class LoopDependences:
    """The dependences among the statements of one nest."""

    program: Program
    statements: tuple[Statement, ...]

    @cached_property
    def all(self) -> tuple[LoopDependence, ...]:
        return tuple(_dependences(self.program, {each.name for each in self.statements}))

    @cached_property
    def carrying(self) -> frozenset[LoopId]:
        """The loops that carry a dependence: their iterations are neither parallel nor the lanes of a vector."""
        found = set()
        for each in self.all:
            for depth in range(each.shared):
                loop = each.first.loops[depth]
                if loop not in found and each.carried_at(depth):
                    found.add(loop)
        return frozenset(found)

    def allows(self, statement: Statement, order: Sequence[int]) -> bool:
        """Whether the loops of a statement may be in another order: its own dependences stay positive."""
        for each in self.all:
            if each.first is statement and each.second is statement:
                permuted = _permuted(each.pairs, order)
                if not permuted.is_subset(isl.Map.lex_lt(permuted.get_space().domain())):
                    return False
        return True


def _permuted(pairs: isl.Map, order: Sequence[int]) -> isl.Map:
    space = pairs.get_space().domain()
    variables = sets.variables(space)
    turned = sets.graph(sets.function(space, None, [variables[depth] for depth in order]))
    return pairs.apply_domain(turned).apply_range(turned)


def _dependences(program: Program, names: Collection[str]) -> Iterator[LoopDependence]:
    flow = Flow(MemoryAccesses(program))
    for home in flow.accesses.homes():
        accesses = [*flow.accesses.writers(home), *flow.accesses.readers(home)]
        mine = [each for each in accesses if each.actor.statement is not None and each.actor.name in names]
        for first in mine:
            for second in mine:
                if (first.is_write or second.is_write) and not _one_sum(program, first, second):
                    yield from _pairs(flow, first, second)


def _one_sum(program: Program, first: MemoryAccess, second: MemoryAccess) -> bool:
    """Whether both are updates of a reduction whose terms may be added in any order."""
    if first.role is not Role.UPDATE or second.role is not Role.UPDATE or first.source != second.source:
        return False
    source = program.algorithm.source(first.source)
    return isinstance(source, Computation) and not source.in_order


def _pairs(flow: Flow, first: MemoryAccess, second: MemoryAccess) -> Iterator[LoopDependence]:
    a, b = first.actor.statement, second.actor.statement
    assert a is not None and b is not None
    if not shared(a, b):
        return
    there = flow.same_place(first, second)
    pairs = None if there.is_empty() else flow.precedence.before(first, second, there)
    if pairs is None:
        return
    times = pairs.apply_domain(first.prefix(len(a.loops))).apply_range(second.prefix(len(b.loops)))
    if a is b:
        times = times.subtract(isl.Map.identity(times.get_space()))
    if not times.is_empty():
        yield LoopDependence(a, b, times.coalesce())


def distances(program: Program, name: str) -> list[Sequence[int]]:
    """How far the dependences of a computation's only statement go in each loop: corners and directions of all
    distances, without that of a value to itself.
    """
    (statement,) = program.statements_of(name)
    found = nest_dependences(program, program, [statement.name], 0, len(statement.loops))
    return [vector for one in found for _, vector in one.generators if any(vector)]
