"""Dataflow, the write that each read sees: a direct test, without a lexicographic maximum.

A read is served if some write of the value it names, to the place it loads from, comes before it, and no write of
another value to that place lies between.

    right  = { read -> write : same place, same value, write before read }
    wrong  = { read -> write : same place, another value, write before read }
    killed = right and (wrong . { wrong write -> right write : not before it })
    served = domain(right - killed)

Where a place determines the value that is kept there, `wrong` is empty. The first write of a reduction's chain stands
for all of it: updates of the same chain are neither right nor wrong (`proof.reductions.reductions` has their
conditions). What is merged into another partial result is what a combination made, and nothing else is right for that.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.access import EXIT, MemoryAccess
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.dependence.cases import EqualValues
from tiramisu_py.dependence.exclusions import Exclusions
from tiramisu_py.dependence.happens_before import Happens
from tiramisu_py.dependence.idle_stores import may_be_idle
from tiramisu_py.dependence.inherited import Inherited, has_tiles, inherited
from tiramisu_py.dependence.precedence import Precedence
from tiramisu_py.program.kernels import KernelNest, kernels
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Home
from tiramisu_py.records import dataclass

_Found = TypeVar("_Found")

#: What isl may do to follow copies for a read, about two seconds; half of it for each read after one that took it all.
FOR_COPIES = 6_000_000


@dataclass(frozen=True, eq=False)
class Candidate:
    """A write, and the pairs ``read -> write`` that access the same place."""

    write: MemoryAccess
    pairs: isl.Map


class Flow:
    """The dataflow of one program."""

    def __init__(self, accesses: MemoryAccesses) -> None:
        self.accesses = accesses
        self.precedence = Precedence(accesses.program)
        self.happens = Happens(accesses.program)
        self.exclusions = Exclusions(accesses)
        self._inherited: dict[Home, Inherited | None] = {}
        self._determined: dict[Home, bool] = {}
        self._ties: dict[str, bool] = {}
        self._kept: dict[Hashable, Any] = {}
        self._for_copies = FOR_COPIES
        #: Whether concurrent accesses are in order since some stores change nothing.
        self.relies_on_idle = False

    def kept(self, what: Hashable, find: Callable[[], _Found]) -> _Found:
        """A result computed from this dataflow once, and stored with it."""
        if what not in self._kept:
            self._kept[what] = find()
        found: _Found = self._kept[what]
        return found

    @cached_property
    def kernels(self) -> tuple[KernelNest, ...]:
        """The kernels of the program."""
        return kernels(self.accesses.program)

    def unserved(self, read: MemoryAccess) -> isl.Set:
        """The reads (pairs of instance and value) that do not see the value that they name."""
        missing = self.unserved_by_name(read)
        return self.unserved_by_copies(read, missing) if self.follows_copies(read, missing) else missing

    def follows_copies(self, read: MemoryAccess, missing: isl.Set) -> bool:
        """Whether copies may serve reads that are `missing` by name."""
        return not (missing.is_empty() or self.determined(read)) and self._may_be_copied(read)

    def _may_be_copied(self, read: MemoryAccess) -> bool:
        """Whether copies are followed: in plain layouts, and loops without tiles (a reference of these has none).

        What else reads the place does not count.
        """
        if self.is_protected(read):
            return False
        found = [*self.accesses.writers(read.home), read]
        if any(sets.has_floors(form) for each in found for form in sets.outputs(each.place)):
            return False
        actors = (each.actor.statement for each in found)
        return not any(has_tiles(s) for s in actors if s is not None) and self.copies.parents is not None

    def is_protected(self, read: MemoryAccess) -> bool:
        """Whether a read is the caller's at the end, of an input in an array without outputs.

        Nothing stores to such an array, not even what was there: it may be read-only, or another argument too.
        """
        return read.actor.moment == EXIT and read.source in self.accesses.program.algorithm.inputs

    @cached_property
    def copies(self) -> EqualValues:
        """The values that are equal, since they are copies."""
        return EqualValues(self.accesses.program.algorithm)

    def unserved_by_copies(self, read: MemoryAccess, missing: isl.Set) -> isl.Set:
        """`missing`, without the reads of a place that holds a value equal to the one that they name.

        This has a budget of its own; where isl uses it up, nothing is known of copies.
        """
        try:
            with sets.apart(missing.get_ctx(), self._for_copies):
                return self._without_copied(read, missing)
        except isl.Error:
            self._for_copies //= 2
            return missing

    def _without_copied(self, read: MemoryAccess, missing: isl.Set) -> isl.Set:
        right, wrong = list[Candidate](), list[Candidate]()
        for write in map(self._changing, self.accesses.writers(read.home)):
            pairs = self.same_place(read, write)
            equal = pairs.intersect(self.copies.equal(read.values, write.values))
            if _may_serve(write, read):
                right += self._earlier(read, write, equal)
            wrong += self._earlier(read, write, self.exclusions.possible(read, write, pairs.subtract(equal)))
        for candidate in right:
            if not missing.is_empty():
                missing = missing.subtract(self.surviving(candidate, wrong).domain())
        return missing.coalesce()

    def between_changes(self, a: MemoryAccess, b: MemoryAccess, pairs: isl.Map) -> isl.Map:
        """The pairs ``a -> b`` of concurrent accesses of the host, but for stores of the bits that are in their place.

        The load of such an execution stays an access to the place, so that none of the pairs left out changes it
        (`dependence/idle_stores.py`). This has a budget of its own, too.
        """
        ends = [(each, self._may_be_idle(each)) for each in (a, b)]
        if not any(idle for _, idle in ends):
            return pairs
        try:
            with sets.apart(pairs.get_ctx(), self._for_copies):
                first, second = (self._changing(each).domain if idle else each.domain for each, idle in ends)
                left = pairs.intersect_domain(first).intersect_range(second)
                self.relies_on_idle = self.relies_on_idle or not pairs.is_subset(left)
                return left
        except isl.Error:
            self._for_copies //= 2
            return pairs

    def changing_writes(self, home: Home) -> list[MemoryAccess]:
        """The writers of an instance of a buffer, without the host's stores that leave its bits.

        None if it has no such stores, or isl needs too long for them.
        """
        writes = list(self.accesses.writers(home))
        if any(self.is_protected(read) for read in self.accesses.readers(home)):
            return []
        try:
            with sets.apart(self.accesses.program.context.get_ctx(), self._for_copies):
                found = [self._changing(each) if self._may_be_idle(each) else each for each in writes]
        except isl.Error:
            self._for_copies //= 2
            return []
        return found if any(one is not other for one, other in zip(found, writes, strict=True)) else []

    def _may_be_idle(self, access: MemoryAccess) -> bool:
        statement = access.actor.statement
        return statement is not None and access.is_write and may_be_idle(self.accesses.program, statement)

    def _changing(self, write: MemoryAccess) -> MemoryAccess:
        """The stores of a write that may change what their place holds.

        A statement that reads a value from the place where it stores a copy of it finds that value there, or an equal
        one, if its read is served, which is asked of each read; then the place holds the same bits after the store. So
        what a place holds is equal to what the last store has brought that is none of these.
        """
        return self.kept(("changing", write), lambda: self._without_idle(write))

    def _without_idle(self, write: MemoryAccess) -> MemoryAccess:
        statement = write.actor.statement
        if statement is None or statement.role is not Role.VALUE or statement.link.message is not None:
            return write
        left = write.domain
        for source in self.accesses.sources(statement):
            read = self.accesses.read(statement, source)
            if read is not None and read.home == write.home:
                one, other = (sets.graph(each.instance, each.domain) for each in (write, read))
                idle = one.apply_range(other.reverse()).intersect(self.same_place(write, read))
                left = left.subtract(idle.intersect(self.copies.copied(write.values, read.values)).domain())
        return write if left.is_equal(write.domain) else replace(write, domain=left.coalesce())

    def unserved_by_name(self, read: MemoryAccess) -> isl.Set:
        """The reads before which no write of the value of this name is the last one of the place."""
        missing = read.domain
        if self.determined(read):
            missing = self._without_certain(read, missing)
        elif (inherited := self.inherited(read.home)) is not None:
            missing = missing.intersect_params(inherited.violated)
        if missing.is_empty():
            return missing
        wrong = list(self.wrong(read))
        for right in self.right(read):
            if missing.is_empty():
                break
            missing = missing.subtract(self.surviving(right, wrong).domain())
        return missing.coalesce()

    def inherited(self, home: Home) -> Inherited | None:
        """The facts about the reads of an instance of a buffer that follow from its dependences alone."""
        if home not in self._inherited:
            self._inherited[home] = inherited(self, home, Flow)
        return self._inherited[home]

    def _without_certain(self, read: MemoryAccess, missing: isl.Set) -> isl.Set:
        """`missing` without the reads of places that a write always precedes, if a place determines its value."""
        for write in self.accesses.writers(read.home):
            if _may_serve(write, read) and self.precedence.always(write, read):
                missing = missing.subtract(sets.preimage(write.accessed, read.place))
        return missing

    def determined(self, access: MemoryAccess) -> bool:
        """Whether every place of the accessed buffer instance can hold only one value."""
        name = access.home
        if name not in self._determined:
            storages = list(self.accesses.program.storages_in(access.buffer.name))
            alone = len(storages) == 1 and all(w.source == access.source for w in self.accesses.writers(name))
            self._determined[name] = alone and self._injective(access)
        return self._determined[name]

    def _injective(self, access: MemoryAccess) -> bool:
        """Whether ``[scope, value] -> [scope, element]`` is injective, at least on the value set."""
        if access.storage.inner:
            return False  # the elements hold other values in other iterations of these loops
        index, scope = access.storage.index, len(access.buffer.scope)
        owner = sets.prefix(sets.identity(index.get_space().domain()), scope)
        place = isl.Map.from_multi_aff(sets.joined(owner, index))
        if scope or place.is_injective():
            return bool(place.is_injective())
        domain = sets.named(self.accesses.values.domain(access.source), None)
        return bool(place.intersect_domain(domain).is_injective())

    def has_ties(self, statement: Statement) -> bool:
        """Whether two instances of a statement have the same time (a schedule given by hand may do that)."""
        if statement.name not in self._ties:
            self._ties[statement.name] = not statement.coords_map.is_injective()
        return self._ties[statement.name]

    # -- candidates

    def same_place(self, a: MemoryAccess, b: MemoryAccess) -> isl.Map:
        """The pairs ``a -> b`` that access the same place."""
        return a.places.apply_range(b.places.reverse())

    def same_value(self, a: MemoryAccess, b: MemoryAccess) -> isl.Map:
        """The pairs ``a -> b`` that name the same value of one source."""
        return a.values.apply_range(b.values.reverse())

    def same_rank(self, a: MemoryAccess, b: MemoryAccess) -> isl.Map:
        """The pairs ``a -> b`` on the same rank: all pairs in a program without ranks."""
        return a.on_ranks.apply_range(b.on_ranks.reverse())

    def one_chain(self, a: MemoryAccess, b: MemoryAccess) -> isl.Map:
        """The pairs ``a -> b`` of the same place and value: for a reduction, partial results of one chain."""
        pairs = self.same_place(a, b)
        return pairs if self.determined(a) else pairs.intersect(self.same_value(a, b))

    def right(self, read: MemoryAccess) -> Iterator[Candidate]:
        """The writes of the value that a read names, at its place and before it."""
        for write in self.accesses.writers(read.home):
            if write.source == read.source and _may_serve(write, read):
                yield from self._earlier(read, write, self.one_chain(read, write))

    def wrong(self, read: MemoryAccess) -> Iterator[Candidate]:
        """The writes of other values at a read's place and before it."""
        if self.determined(read):
            return
        for write in self.accesses.writers(read.home):
            pairs = self.same_place(read, write)
            if write.source == read.source:
                pairs = pairs.subtract(self.same_value(read, write))
            yield from self._earlier(read, write, self.exclusions.possible(read, write, pairs))

    def _earlier(self, read: MemoryAccess, write: MemoryAccess, pairs: isl.Map) -> Iterator[Candidate]:
        if self.precedence.always(write, read) is False or pairs.is_empty():
            return
        earlier = self.precedence.before(write, read, pairs.reverse())
        if earlier is not None:
            yield Candidate(write, sets.in_few_pieces(earlier.reverse()))

    def surviving(self, right: Candidate, wrong: list[Candidate]) -> isl.Map:
        """The pairs of a right write without a wrong write between it and the read."""
        left = right.pairs
        for other in wrong:
            if self.precedence.always(other.write, right.write):
                continue
            late = self._not_before(other.write, right.write, other.pairs.range(), left.range())
            late = sets.in_few_pieces(self.exclusions.possible(other.write, right.write, late))
            overwrites = left.intersect(other.pairs.apply_range(late))
            left = left.subtract(overwrites)
        return left

    def _not_before(self, a: MemoryAccess, b: MemoryAccess, of_a: isl.Set, of_b: isl.Set) -> isl.Map:
        """The pairs ``a -> b`` at the same place in which a does not come before b, for at least the given writes.

        `of_a` and `of_b` may have many pieces; their hulls, which may add writes, keep the number of pieces small.
        """
        pairs = self.same_place(a, b).intersect_domain(sets.hull(of_a)).intersect_range(sets.hull(of_b)).coalesce()
        return self.precedence.not_before(a, b, pairs)


def _may_serve(write: MemoryAccess, read: MemoryAccess) -> bool:
    """Whether a write of the value that a read names makes what is read: all of it, or the beginning of its chain."""
    return write.role is Role.COMBINE if read.is_merged else not write.adds
