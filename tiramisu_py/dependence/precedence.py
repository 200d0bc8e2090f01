"""The order of two accesses: lexicographic in time, from the loops that two statements share."""

from __future__ import annotations

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.kernel_order import clock
from tiramisu_py.program.ordering import shared
from tiramisu_py.program.program import Program


class Precedence:
    """The order of a program's instances.

    Two statements are ordered by the coordinates of the loops that they share, and then by their static positions; the
    reads of an instance come before its write. Loops over the threads of a block do not count: each thread executes
    the statements of its kernel in the order of the other loops and of the positions. GPU operations are ordered by
    their times of issue.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.positions = program.positions

    def always(self, a: MemoryAccess, b: MemoryAccess) -> bool | None:
        """Whether a comes before b for all instances (True), for none (False), or depending on them (None)."""
        if a.actor.moment != b.actor.moment:
            return a.actor.moment < b.actor.moment
        first, second = a.actor.statement, b.actor.statement
        if first is None or second is None:
            return not a.is_write and b.is_write
        return self._at_equal(a, b) if shared(first, second) == 0 else None

    def before(self, a: MemoryAccess, b: MemoryAccess, pairs: isl.Map) -> isl.Map | None:
        """The pairs ``a -> b`` of a relation in which a comes before b; None if there are none."""
        always = self.always(a, b)
        if always is not None:
            return pairs if always else None
        times, less, first, second = self._in_time(a, b, pairs)
        if times.is_disjoint(self._rest(a, b, times)):
            return None if times.is_empty() else pairs
        if times.is_disjoint(less):
            return None
        return pairs.intersect(first.apply_range(less).apply_range(second.reverse()))

    def not_before(self, a: MemoryAccess, b: MemoryAccess, pairs: isl.Map) -> isl.Map:
        """The pairs ``a -> b`` of a relation in which a does not come before b, without a subtraction."""
        always = self.always(a, b)
        if always is not None:
            return sets.no_pair(pairs) if always else pairs
        times, less, first, second = self._in_time(a, b, pairs)
        rest = self._rest(a, b, times)
        if times.is_disjoint(rest):
            return sets.no_pair(pairs)
        if times.is_disjoint(less):
            return pairs
        return pairs.intersect(first.apply_range(rest).apply_range(second.reverse()))

    def happens(self, a: MemoryAccess, b: MemoryAccess, pairs: isl.Map) -> bool:
        """Whether a comes before b for at least one of the pairs."""
        always = self.always(a, b)
        if always is not None:
            return always
        times, less, _, _ = self._in_time(a, b, pairs)
        return not times.is_disjoint(less)

    def _in_time(self, a: MemoryAccess, b: MemoryAccess, pairs: isl.Map) -> tuple[isl.Map, isl.Map, isl.Map, isl.Map]:
        """The pairs mapped to the shared loops' coordinates, the order on these, and the maps of both sides to them."""
        assert a.actor.statement is not None and b.actor.statement is not None
        count = shared(a.actor.statement, b.actor.statement)
        first, second = clock(self.program, a, count), clock(self.program, b, count)
        times = pairs.apply_domain(first).apply_range(second)
        space = times.get_space().domain()
        less = isl.Map.lex_le(space) if self._at_equal(a, b) else isl.Map.lex_lt(space)
        return times, less, first, second

    def _rest(self, a: MemoryAccess, b: MemoryAccess, times: isl.Map) -> isl.Map:
        """The complement of the order: whether a relation meets it is one small question for each loop.

        The answer to "is all of it in order?" would take the difference of two unions, which is large for tiles.
        """
        space = times.get_space().domain()
        return isl.Map.lex_gt(space) if self._at_equal(a, b) else isl.Map.lex_ge(space)

    def _at_equal(self, a: MemoryAccess, b: MemoryAccess) -> bool:
        """Whether a comes before b if the coordinates of all shared loops are equal."""
        first, second = a.actor.statement, b.actor.statement
        assert first is not None and second is not None
        if first is second:
            return not a.is_write and b.is_write
        depth = shared(first, second)
        return self.positions[first.name][depth] < self.positions[second.name][depth]
