"""MPI's part of a host function: its communicator, the agreement of its ranks, and their messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import cgen

from tiramisu_py.backends.c.part import Agreement, HostPart, HostParts, Lines, Printer
from tiramisu_py.backends.c.runtime_files import RuntimeFile, packaged
from tiramisu_py.backends.mpi import collective_calls as collectives
from tiramisu_py.backends.mpi import rank_entry as entry
from tiramisu_py.backends.mpi import reduction_calls as reductions
from tiramisu_py.backends.mpi.message_calls import MessageCalls
from tiramisu_py.ir import AllReduce, Collective, Complete, LoopFunction, Node, Piece, Post, Requests
from tiramisu_py.program.storage import Memory

if TYPE_CHECKING:
    from tiramisu_py.backends.c.expressions.scope import Scope
    from tiramisu_py.backends.c.statements import Statements
    from tiramisu_py.backends.c.trace_calls import Log

FOLDER = "mpi/runtime"
#: The expression that numbers the ranks on one machine.
NEAR = "tm_mpi_near.h"


class RanksPart(HostPart):
    """The ranks of a distributed function."""

    headers = ("mpi.h",)
    one_body = True
    one_by_one = True
    error_bytes = 1024
    agreement = Agreement("!wrong && !idle", "wrong", "tm_mpi_local(&mpi)", "tm_near.number", "tm_near.ranks")

    def __init__(self, function: LoopFunction, names: Mapping[str, str], parts: HostParts, log: Log) -> None:
        super().__init__(function, names, parts, log)
        assert function.grid is not None
        self.grid = function.grid
        self.entry = entry.RankEntry(function, self.grid, names, self.scope, parts, log)
        self.messages: MessageCalls | None = None

    @classmethod
    def concerns(cls, function: LoopFunction) -> bool:
        """Whether the function is distributed."""
        return function.grid is not None

    @classmethod
    def own_names(cls, function: LoopFunction, inside: Sequence[str]) -> list[str]:
        """The communicator, and the variables about the ranks."""
        return list(entry.OWN)

    # -- files, and the header

    def runtime(self) -> tuple[RuntimeFile, ...]:
        """The runtime of messages, and of the collective calls that the function makes."""
        pin, function = self.function.options.pin, self.function
        return (
            *packaged(FOLDER, entry.RUNTIME),
            *packaged(FOLDER, *entry.FURTHER, included=False),
            *packaged(FOLDER, *reductions.runtime(function), *collectives.runtime(function)),
            *(packaged(FOLDER, NEAR) if pin is not None and pin.takes_turns else ()),
        )

    def documentation(self) -> list[str]:
        """The error codes of ranks, and which ranks call the function."""
        return [entry.CODES, "Every rank of comm calls it."]

    def parameters(self) -> list[str]:
        """The communicator."""
        return ["MPI_Comm comm"]

    # -- the source around the body

    def check_parameters(self) -> list[tuple[str, str]]:
        """The state of the ranks."""
        return [("const tm_mpi *mpi", "&mpi")]

    def first_checks(self) -> Lines:
        """The check that MPI lets this thread send messages."""
        return self.entry.threads()

    def checks(self) -> Lines:
        """The check that there are enough ranks."""
        return self.entry.checks()

    def check(self, call: str, used: frozenset[str]) -> Lines:
        """The ranks meet, and each checks its arguments."""
        return self.entry.begin(call, used)

    def checked(self) -> Lines:
        """This rank's turn, if the threads of the ranks of one machine take turns."""
        pin = self.function.options.pin
        if pin is None or not pin.takes_turns:
            return []
        return [cgen.Statement("const tm_mpi_near tm_near = tm_mpi_find_near(&mpi)")]

    def logged(self) -> Lines:
        """Tells the log its rank."""
        return [cgen.Assign(f"{self.log.variable}.rank", "mpi.rank")]

    def prepare(self) -> Lines:
        """Prepares the types of messages, which are made after the ranks have agreed."""
        assert self.messages is not None, "nothing prints the messages"
        self.entry.prepared = self.messages.prepared(self.function, self.scope)
        return []

    def end(self) -> Lines:
        """The lines with which the ranks end the call."""
        return self.entry.end()

    def abandon(self, code: str) -> str:
        """Tells the other ranks of the failure, since they wait for this rank's messages."""
        return f'{code}, tm_mpi_give_up(&mpi, "%s", {self.name}_error)'

    # -- statements

    def printers(self, statements: Statements) -> Mapping[type | Memory, Printer]:
        """The printers of messages, requests and collective calls."""
        messages = self.messages = MessageCalls(statements)

        def combined(node: Node, scope: Scope) -> Lines:
            assert isinstance(node, AllReduce)
            return reductions.all_reduce(node, self.grid.extents, scope)

        return {
            Requests: messages.requests,
            Post: messages.post,
            AllReduce: combined,
            Collective: messages.call,
            Piece: messages.piece,
            Complete: lambda node, scope: messages.complete([node], scope),
        }

    def before(self, node: Node) -> Lines:
        """The agreement of all ranks, before the first node that acts."""
        return [] if self.entry.before_agreement(node) else self.entry.agreement()

    def joins(self, node: Node, following: Node) -> bool:
        """Consecutive waits are printed as one."""
        return isinstance(node, Complete) and isinstance(following, Complete)

    def together(self, nodes: Sequence[Node], scope: Scope) -> Lines:
        """A wait for several messages."""
        assert self.messages is not None, "nothing prints the messages"
        return self.messages.complete(nodes, scope)

    def allocated(self, name: str, kind: str, memory: str, words: str, released: str) -> Lines | None:
        """Memory that is allocated before the ranks agree; a failed allocation is an error that they agree on."""
        return None if self.entry.agreed else self.entry.allocated(name, kind, memory, words, released)

    def out_of_memory(self, message: str) -> cgen.Generable:
        """Tells the other ranks of the failed allocation."""
        return cgen.Statement(f'tm_mpi_give_up(&mpi, "{message}")')
