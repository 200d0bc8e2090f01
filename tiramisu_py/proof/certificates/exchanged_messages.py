"""The messages of a certificate: the halves of exchanges, which send meets which receive, and a ranking of waits."""

from __future__ import annotations

from functools import cached_property, reduce
from typing import Any

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import UnsupportedError
from tiramisu_py.program.statement import Statement
from tiramisu_py.proof.certificates.queued_operations import Operations
from tiramisu_py.proof.messages.exchanges import ExchangeHalves, exchanges
from tiramisu_py.proof.messages.halves import event_of, executed
from tiramisu_py.proof.messages.small_sizes import waits_for_peer
from tiramisu_py.proof.messages.wait_graph import Needs


class ExchangedMessages:
    """The messages of a program, with times of issue as in its `Operations`."""

    def __init__(self, flow: Flow, operations: Operations) -> None:
        self.flow = flow
        self.operations = operations
        self.name = flow.accesses.program.algorithm.name

    def half(self, statement: Statement) -> dict[str, Any] | None:
        """The fields of a half: its exchange, the rank at the other end, and whether it may wait for it."""
        message = statement.message
        if message is None:
            return None
        peer = sets.graph(sets.renamed(message.peer, None), executed(self.flow.accesses.program, statement))
        return {"exchange": message.exchange, "peer": str(peer), "waits": waits_for_peer(statement)}

    def meetings(self) -> dict[str, str]:
        """``send -> receive`` of each exchange."""
        return {exchange.name: self._meeting(exchange) for exchange in exchanges(self.flow)}

    def _meeting(self, exchange: ExchangeHalves) -> str:
        if len(exchange.sends) != 1 or len(exchange.receives) != 1:
            what = f"exchange {exchange.name} of {self.name} has several sends or receives"
            raise UnsupportedError(f"no certificate covers this yet: {what}")
        return str((exchange.meeting or exchange.same_value)[exchange.sends[0].name, exchange.receives[0].name])

    def ranking(self) -> str:
        """``time -> vector`` that grows in the order of each rank, and nobody waits for what is later in it.

        It is the time itself, or what isl's scheduler has found.
        """
        if any(exchange.meeting is None for exchange in exchanges(self.flow)) or self._needs.is_local():
            return str(self._local())
        ranking = self._needs.ranking
        if ranking is None:
            what = f"that no rank of {self.name} waits for ever was found by running it"
            raise UnsupportedError(f"no certificate covers this yet: {what}")
        times = [isl.UnionMap.from_map(self._time_of_event(each)) for each in self._needs.acting]
        ranked = reduce(isl.UnionMap.union, times).apply_range(ranking)
        return str(isl.Map.from_union_map(ranked.coalesce()))

    def _time_of_event(self, statement: Statement) -> isl.Map:
        """``time -> event`` of a half or a wait."""
        program = self.flow.accesses.program
        event = sets.graph(event_of(program, statement), executed(program, statement))
        return self.operations.issued(statement).reverse().apply_range(event)

    @cached_property
    def _needs(self) -> Needs:
        return Needs(self.flow.accesses.program, exchanges(self.flow))

    def _local(self) -> isl.Map:
        space = sets.sized_frame(self.flow.accesses.program.algorithm.param_space, None, self.operations.size)
        return sets.graph(sets.function(space, None, sets.variables(space)[self.operations.ranks :]))
