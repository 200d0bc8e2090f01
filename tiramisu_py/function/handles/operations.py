"""Handles of statements that compute nothing: transfers between devices, waits and barriers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.function.applying.applied import AppliedStatements
from tiramisu_py.function.commands.loop_commands import LoopCommands
from tiramisu_py.function.commands.order_commands import OrderCommands
from tiramisu_py.function.commands.rank_commands import RankCommands
from tiramisu_py.schedule.command_fields import Named, Single
from tiramisu_py.schedule.devices.place_waits import WaitFor
from tiramisu_py.schedule.ranks.exchange import CollapseMany

if TYPE_CHECKING:
    from tiramisu_py.function.applying.scheduled import Scheduled


class Operation(LoopCommands, OrderCommands):
    """One statement that computes nothing; commands on loops and on order apply to it."""

    def __init__(self, function: Scheduled, source: str, statement: str) -> None:
        super().__init__(function, source)
        self._statement = statement

    @property
    def name(self) -> str:
        """The name of the statement."""
        return self._statement

    @property
    def _named(self) -> Named:
        return Single(self._source, repr(self), self._statement)

    def __repr__(self) -> str:
        return self._statement


class Wait(Operation):
    """A point at which the host, or an operation sequence of a GPU, waits until operations are complete."""


class Barrier(Operation):
    """A point that all threads of a block reach before any of them continues."""


class Awaitable(AppliedStatements):
    """Statements that can be waited for."""

    def wait(self, domain: Any = None, on: int | None = None, *, device: int = 0, name: str | None = None) -> Wait:
        """Wait for the operations of this handle, and return the wait, to be ordered like a computation.

        ::

            for r: copy row r of a (asynchronously)   -->   for r: copy row r of a (asynchronously)
            for r: p[r] = f(a[r])                           for r: wait for row r of a
                                                            for r: p[r] = f(a[r])              (copy.wait({r: R}))

        `domain` gives the iterations of the wait, each for the operations with these values: its iterators are
        iterators of the computation or the transfer, or else host loops around them. Without a domain the wait is for
        all operations at once. ``wait({t: T}).shift(t, 1)`` waits an iteration later. The host waits; with ``on=2``
        operation sequence 2 of the GPU `device` waits instead, and the host continues. A wait comes after the
        operations that it waits for; `Function.order` places it. Each wait is proven needed, or reported as
        superfluous. Source: TIRAMISU, ``wait``.
        """
        command = WaitFor(self._named, domain, on=on, device=device, name=name)
        made = command.made(self._function.program)
        self._apply(command)
        return Wait(self._function, self.name, made)


class Transfer(RankCommands, Operation, Awaitable):
    """Copies of values from the memory of one device to that of another: see `Function.create_xfer`."""

    def collapse_many(self, *loops: Iter) -> Self:
        """Make all iterations of the transfer's innermost loops one operation.

        ::

            for r in 0..R:          -->   for r in 0..R:
                for c in 0..C:                copy a[r, 0..C]
                    copy a[r, c]                                          (collapse_many(c))

        One operation copies a box of values, of one to three dimensions, with any strides in the array; another shape
        (a triangle, every fourth element) is copied as several boxes, rows or single elements. Source: TIRAMISU,
        ``collapse_many``.
        """
        self._apply(CollapseMany(self._named, loops))
        return self
