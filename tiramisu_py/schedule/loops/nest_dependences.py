"""The dependences inside a nest of loops: which iterations have to come before which others.

A write comes before the reads of its value; the start of a reduction before its terms. Other accesses of one place, of
which one is a write, keep the order that they have now.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.program.ordering import shared
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class NestDependence:
    """Pairs of iterations of the outermost loops of a nest; the first statement of each has to come first.

    `pairs` are equal in the loops around the band. With `is_strict` the first statement stands after the second one in
    the loops' body, so that equal iterations are wrong; `is_inner` says that loops inside of these, which both share,
    decide. With `is_tied` both use a buffer that is local to one of these loops. The terms of a sum `add_up`: their
    order is free, but two at once are not.
    """

    first: Statement
    second: Statement
    pairs: isl.Map
    outer: int
    is_strict: bool = False
    is_inner: bool = False
    is_tied: bool = False
    add_up: bool = False

    @cached_property
    def generators(self) -> list[sets.Generator]:
        """The corners and directions of the distances in the loops of the band."""
        return [(weight, vector[self.outer :]) for weight, vector in sets.generators(self.pairs)]


def nest_dependences(
    before: Program, fused: Program, names: Sequence[str], outer: int, depth: int
) -> list[NestDependence]:
    """The dependences among statements in their loops from `outer` up to `depth`, which they share once `fused`."""
    found = _Nest(Flow(MemoryAccesses(before)), Flow(MemoryAccesses(fused)), frozenset(names), outer, depth)
    return list(found.dependences())


@dataclass(frozen=True, eq=False)
class _Nest:
    then: Flow
    now: Flow
    names: frozenset[str]
    outer: int
    depth: int

    def dependences(self) -> Iterator[NestDependence]:
        for home in self.now.accesses.homes():
            writes = [one for one in self.now.accesses.writers(home) if one.actor.name in self.names]
            reads = [one for one in self.now.accesses.readers(home) if one.actor.name in self.names]
            for a in (*writes, *reads):
                for b in (*writes, *reads):
                    if a.is_write or b.is_write:
                        yield from self._between(a, b)

    def _between(self, a: MemoryAccess, b: MemoryAccess) -> Iterator[NestDependence]:
        for pairs, add_up in self._ordered(a, b):
            times = pairs.apply_domain(a.prefix(self.depth)).apply_range(b.prefix(self.depth))
            times = sets.equal_prefix(times, self.outer).coalesce()
            if not times.is_empty():
                yield self._made(a, b, times, add_up)

    def _made(self, a: MemoryAccess, b: MemoryAccess, times: isl.Map, add_up: bool) -> NestDependence:
        first, second = a.actor.statement, b.actor.statement
        assert first is not None and second is not None
        count, positions = shared(first, second), self.now.precedence.positions
        is_inner = count > self.depth
        is_strict = (
            not is_inner and first is not second and positions[first.name][count] > positions[second.name][count]
        )
        band = first.loops[self.outer : self.depth]
        is_tied = any(loop in a.buffer.scope for loop in band)
        return NestDependence(first, second, times, self.outer, is_strict, is_inner, is_tied, add_up)

    def _ordered(self, a: MemoryAccess, b: MemoryAccess) -> Iterator[tuple[isl.Map, bool]]:
        """The pairs ``a -> b`` in which a has to come first, and whether they are terms of one sum."""
        one = a.source == b.source
        if one and a.is_write and not b.is_write:
            yield self.now.one_chain(a, b), False
        if one and a.is_write and b.is_write:
            yield from self._in_chain(a, b)
        if not (one and self.now.determined(a)):
            pairs = self.now.same_place(a, b)
            yield from self._as_now(a, b, pairs.subtract(self.now.same_value(a, b)) if one else pairs)

    def _in_chain(self, a: MemoryAccess, b: MemoryAccess) -> Iterator[tuple[isl.Map, bool]]:
        """The start of a sum before its terms, and these in order where the sum is ordered."""
        if a.role is Role.UPDATE and b.role is Role.UPDATE:
            declared = self.now.accesses.program.algorithm.source(a.source)
            if isinstance(declared, Computation) and declared.in_order:
                yield from self._as_now(a, b, self.now.one_chain(a, b))
            else:
                yield self.now.one_chain(a, b), True
        elif a.role is not b.role:
            yield from self._as_now(a, b, self.now.one_chain(a, b))

    def _as_now(self, a: MemoryAccess, b: MemoryAccess, pairs: isl.Map) -> Iterator[tuple[isl.Map, bool]]:
        """The pairs in which a comes first before anything is changed."""
        if not pairs.is_empty():
            found = self.then.precedence.before(self._there(a), self._there(b), pairs)
            if found is not None:
                yield found, False

    def _there(self, access: MemoryAccess) -> MemoryAccess:
        """The access in the program before anything is changed."""
        accesses = self.then.accesses
        statement = accesses.program.statements[access.actor.name]
        found = accesses.write(statement) if access.is_write else accesses.read(statement, access.source)
        assert found is not None
        return found
