"""Handles of exchanges between ranks, and of their halves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.errors import CommandError
from tiramisu_py.function.applying.public_commands import command
from tiramisu_py.function.handles.operations import Awaitable, Distributed, Operation, Wait
from tiramisu_py.program.storage import Memory
from tiramisu_py.schedule.command_fields import Both, Handle, Named
from tiramisu_py.schedule.ranks import exchange as messages
from tiramisu_py.schedule.ranks.exchange import CollapseMany, SetWaitAccess

if TYPE_CHECKING:
    from tiramisu_py.function.applying.scheduled import Scheduled


class Half(Distributed, Operation, Awaitable):
    """One half of an exchange between ranks: its sends, or its receives. Scheduled, and waited for, on its own."""

    def __repr__(self) -> str:
        statement = self._function.program.statements.get(self._statement)
        if statement is not None:
            return statement.handle
        exchange, _, half = self._statement.rpartition("_")
        return f"{exchange}.{'send' if half == 'send' else 'recv'}"

    def wait(
        self, domain: Any = None, on: int | None = None, *, device: int | Memory = 0, name: str | None = None
    ) -> Wait:
        """Wait for messages of this half, and return the wait, to be ordered like a computation.

        ::

            for t: send row B*q of h[t]       -->   for t: send row B*q of h[t]        (down.send.wait({t: T}))
                                                    for t: wait for it

        Sent values may be overwritten, and received values may be read, only after the wait. `domain` gives the
        iterations of the wait, with iterators of the half: each waits for the messages in these iterations. Iterators
        that run on ranks do so here too. Without a domain the wait is for all messages of the rank at once. The host
        waits, outside of parallel loops. Each wait is proven needed, or reported as superfluous. Source: TIRAMISU,
        ``wait``.
        """
        if on is not None or device:
            raise CommandError(f"{self}.wait: messages are waited for by the host: on= and device= are for GPUs")
        return super().wait(domain, name=name)

    collapse_many = command(CollapseMany.called)
    set_wait_access = command(SetWaitAccess.called)


class Exchange(Handle):
    """Messages between ranks: the sends (`send`) and the receives (`recv`). See `Function.create_exchange`."""

    def __init__(self, function: Scheduled, source: str, name: str) -> None:
        self._function = function
        self._source = source
        self.name = name

    @property
    def send(self) -> Half:
        """The sends: a statement that takes values on one rank."""
        return Half(self._function, self._source, f"{self.name}_send")

    @property
    def recv(self) -> Half:
        """The receives: a statement that stores values on another rank."""
        return Half(self._function, self._source, f"{self.name}_receive")

    @property
    def _named(self) -> Named:
        return Both(self._source, self.name, self.name)

    def statement_names(self) -> tuple[str, ...]:
        """The names of the statements of the two halves."""
        return self._named.statements(self._function.program)

    def collapse_many(self, *loops: Iter) -> Self:
        """Make all iterations of the innermost loops one message, in both halves: see `Half.collapse_many`."""
        self.send.collapse_many(*loops)
        self.recv.collapse_many(*loops)
        return self

    def wait(self, domain: Any = None) -> tuple[Wait, ...]:
        """Wait for both halves, as far as they are nonblocking: one wait for each, to be ordered like computations."""
        statements = messages.halves(self._function.program, self.name)
        waiting = [s.name for s in statements if s.link.message is not None and s.link.message.asynchronous]
        if not waiting:
            raise CommandError(
                f"{self.name}.wait: both halves are blocking, and nothing is under way after them: give tm.NONBLOCK in "
                "send_props= or recv_props="
            )
        return tuple(half.wait(domain) for half in (self.send, self.recv) if half.name in waiting)

    def __repr__(self) -> str:
        return self.name
