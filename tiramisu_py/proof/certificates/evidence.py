"""The evidence of a certificate: which write serves each read, which update adds each term, and in which times.

A claim is not part of the proof: a checker decides whether it holds. So where there is a choice, a claim is the
simplest relation that can be right.
"""

from __future__ import annotations

from collections.abc import Iterator

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role
from tiramisu_py.program.storage import Home
from tiramisu_py.proof.certificates.queued_operations import Operations


class Evidence:
    """The dataflow of a proven program's reads; each relation starts at ``[instance -> value]``."""

    def __init__(self, flow: Flow, operations: Operations) -> None:
        self.flow = flow
        self.operations = operations
        self._plainer: dict[Home, Flow | None] = {}

    def reference(self, home: Home) -> Program | None:
        """The program in whose times the reads of a buffer are served, where these are simpler; None for its own."""
        plainer = self._plainer_flow(home)
        return None if plainer is None else plainer.accesses.program

    def serving(self, read: MemoryAccess) -> Iterator[tuple[MemoryAccess, isl.Map]]:
        """The writes that serve a read: each with ``read -> write``."""
        flow = self._plainer_flow(read.home) or self.flow
        here = _as_in(flow, read)
        left = here.domain
        for right in flow.right(here):
            if left.is_empty():
                return
            served = flow.surviving(right, list(flow.wrong(here))).intersect_domain(left)
            last = self._last(flow, right.write, served)
            if not last.is_empty():
                yield right.write, last
                left = left.subtract(last.domain())

    def terms(self, read: MemoryAccess, start: MemoryAccess, served: isl.Map) -> Iterator[tuple[MemoryAccess, isl.Map]]:
        """The updates of a reduction between its start and a read: each with ``read -> update``."""
        flow = self._plainer_flow(read.home) or self.flow
        here = _as_in(flow, read)
        for update in flow.accesses.writers(read.home):
            if update.role is not Role.UPDATE or update.source != read.source:
                continue
            before = flow.precedence.before(update, here, flow.one_chain(update, here))
            begun = flow.precedence.before(start, update, flow.one_chain(start, update))
            if before is None or begun is None:
                yield update, sets.no_pair(flow.one_chain(here, update))
            else:
                pairs = before.reverse().intersect_domain(served.domain())
                yield update, pairs.intersect(served.apply_range(begun))

    def _plainer_flow(self, home: Home) -> Flow | None:
        if home not in self._plainer:
            found = None if self._is_determined(home) else self.flow.inherited(home)
            kept = found is not None and found.is_kept and not found.but_idle
            self._plainer[home] = found.reference if found is not None and kept else None
        return self._plainer[home]

    def _is_determined(self, home: Home) -> bool:
        return all(self.flow.determined(read) for read in self.flow.accesses.readers(home))

    def _last(self, flow: Flow, write: MemoryAccess, served: isl.Map) -> isl.Map:
        """One write for each read: the last one, if several stored the value."""
        if served.is_single_valued() or write.actor.statement is None:
            return served
        time = self.operations.time(flow.accesses.program, write.actor.name)
        return served.apply_range(time).lexmax().apply_range(time.reverse()).intersect(served)


def _as_in(flow: Flow, read: MemoryAccess) -> MemoryAccess:
    """A read of the program, as it is in another schedule of the same executions."""
    if read.actor.statement is None:
        return read
    found = flow.accesses.read(flow.accesses.program.statements[read.actor.name], read.source)
    assert found is not None
    return found
