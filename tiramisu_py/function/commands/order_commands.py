"""Commands on order: after, before, then, between, fuse."""

from __future__ import annotations

from typing import Self

from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.errors import CommandError
from tiramisu_py.function.applying.applied import AppliedStatements, Level
from tiramisu_py.schedule.loops.correcting_shifts import correcting_shifts
from tiramisu_py.schedule.loops.order import After, Before, Between, Fuse, root


class OrderCommands(AppliedStatements):
    """Commands on the order of computations."""

    def after(self, other: OrderCommands, level: Level = root) -> Self:
        """Come after `other`, in its loops up to and including `level` (at `root`: after its whole nest).

        ::

            for i: p[i]             -->   for i:
            for i: q[i]                       p[i]
                                              q[i]                        (q.after(p, i))
        """
        self._apply(After(self._named, self._other(other), level))
        return self

    def before(self, other: OrderCommands, level: Level = root) -> Self:
        """Come before `other`, in its loops up to and including `level` (at `root`: before its whole nest).

        ::

            for i: p[i]             -->   for i:
            for i: q[i]                       q[i]
                                              p[i]                        (q.before(p, i))
        """
        self._apply(Before(self._named, self._other(other), level))
        return self

    def then(self, other: OrderCommands, level: Level = root) -> OrderCommands:
        """Let `other` follow, and return it, so that orders can be chained.

        ::

            for i: a[i]             -->   for i:
            for i: b[i]                       a[i]
            for i: c[i]                       b[i]
                                              c[i]                        (a.then(b, i).then(c, i))
        """
        other.after(self, level)
        return other

    def between(
        self, first: AppliedStatements, first_level: Level, second: AppliedStatements, second_level: Level
    ) -> Self:
        """Come after `first` at one level and before `second` at another.

        ::

            for i: p[i]             -->   for i:
            for i: q[i]                       p[i]
            for i: s[i]                       s[i]
                                              q[i]                        (s.between(p, i, q, i))
        """
        self._apply(Between(self._named, self._other(first), first_level, self._other(second), second_level))
        return self

    def fuse(self, other: OrderCommands, level: Iter, *, shift: bool = False) -> Self:
        """Share the loops of `other` up to and including `level`, in the order that the two have now.

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
        command = Fuse(self._named, self._other(other), level)
        if not shift:
            self._apply(command)
            return self
        names, trial = self.statement_names(), self._function.copy()
        trial.apply(command)
        try:
            found = correcting_shifts(self._function.program, trial.program, names)
            for shifted in found:
                trial.apply(shifted)
        except CommandError as error:
            raise CommandError(f"{command.text[:-1]}, shift=True): {error}") from None
        for one in (command, *found):
            self._apply(one)
        return self
