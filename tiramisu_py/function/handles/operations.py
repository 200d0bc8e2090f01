"""Handles of statements: the commands on their loops and their order, and the statements that compute nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.errors import CommandError
from tiramisu_py.function.applying.applied import AppliedStatements
from tiramisu_py.function.applying.own_calls import formerly
from tiramisu_py.function.applying.public_commands import command
from tiramisu_py.function.handles.old_words import OldOrders
from tiramisu_py.program.program import Program
from tiramisu_py.schedule.command_fields import Named, Single, StatementsHandle
from tiramisu_py.schedule.devices.place_waits import WaitFor
from tiramisu_py.schedule.loops.coalesced_producers import Coalesce
from tiramisu_py.schedule.loops.correcting_shifts import correcting_shifts
from tiramisu_py.schedule.loops.order import After, Before, Fuse
from tiramisu_py.schedule.loops.tags import Parallelize, UnrollLoop, Vectorize
from tiramisu_py.schedule.loops.tensorize import Tensorize
from tiramisu_py.schedule.loops.transforms import Interchange, Reorder, Reverse, Shift, Split, Tile
from tiramisu_py.schedule.loops.unimodular import Skew, Transform
from tiramisu_py.schedule.loops.unroll_and_jam import UnrollAndJam
from tiramisu_py.schedule.ranks.distribute import TagDistribute
from tiramisu_py.schedule.ranks.exchange import CollapseMany

if TYPE_CHECKING:
    from tiramisu_py.function.applying.scheduled import Scheduled


class Loops(OldOrders):
    """Statements with loops: commands on these, and on the order of what runs in them."""

    split = command(Split)
    tile = command(Tile.called)
    coalesce = command(Coalesce.called)
    interchange = command(Interchange)
    reorder = command(Reorder.called)
    shift = command(Shift)
    skew = command(Skew)
    transform = command(Transform)
    reverse = command(Reverse)
    parallelize = command(Parallelize.called)
    vectorize = command(Vectorize)
    unroll = command(UnrollLoop)
    unroll_and_jam = command(UnrollAndJam)
    tensorize = command(Tensorize)
    after = command(After)
    before = command(Before)

    @formerly(level="at")
    def fuse(self, other: StatementsHandle, at: Iter, *, shift: bool = False) -> Self:
        """Share the loops of `other` up to and including `at`, in the order that the two have now.

        ::

            for i: p[i]             -->   for i in 0..N + 1:
            for i: q[i]                       if i < N: p[i]
                                              if i > 0: q[i - 1]          (q.fuse(p, i, shift=True))

        With ``shift=True`` this computation also runs so many iterations later, or earlier, in each of these loops that
        all dependences are kept: the least shift, from the outermost loop inwards. If q reads ``p[i + 1]``, that is one
        iteration. The log then has the fusion and each shift, ``q.fuse(p, i)`` and ``q.shift(i, 1)``, which can be
        undone or saved one by one; what shares loops with this computation is shifted with it.

        Raises `CommandError` if no constant shifts keep the dependences: then nothing is changed.
        """
        if not isinstance(shift, bool):
            raise CommandError(f"fuse(..., shift={shift!r}): give shift=True, or use shift(loop, by) after the command")
        names, before = self.statement_names(), self._function.program
        with self._function.all_or_nothing():
            self._share(other, at)
            if shift:
                self._shift_after(before, names)
        return self

    _share = command(Fuse)

    def _shift_after(self, before: Program, names: Sequence[str]) -> None:
        """The least shifts that keep the dependences of the program before a fusion, which was the last command."""
        fused = self._function.program
        try:
            for each in correcting_shifts(before, fused, names):
                self._apply(each)
        except CommandError as error:
            raise CommandError(f"{fused.log[-1].text[:-1]}, shift=True): {error}") from None


class Operation(Loops):
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


def _wait(handle: AppliedStatements, made: WaitFor, before: Program) -> Wait:
    return Wait(handle._function, handle.name, made.made(before))


class Awaitable(AppliedStatements):
    """Statements that can be waited for."""

    wait = command(WaitFor, gives=_wait)


class Distributed(AppliedStatements):
    """Statements whose loops can run on ranks."""

    tag_distribute = command(TagDistribute.called)


class Transfer(Distributed, Operation, Awaitable):
    """Copies of values from the memory of one device to that of another: see `Function.create_xfer`."""

    collapse_many = command(CollapseMany.called)
