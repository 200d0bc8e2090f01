"""The objects that commands apply to: some statements of one computation, in one function."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from tiramisu_py.errors import CommandError
from tiramisu_py.function.applying.own_calls import OwnCalls, unknown_command
from tiramisu_py.program.command import Command
from tiramisu_py.schedule.command_fields import Handle, Named, StatementsHandle, Whole

if TYPE_CHECKING:
    from tiramisu_py.function.applying.scheduled import Scheduled


class Nameable(OwnCalls, Handle):
    """A handle that can be an argument of commands, which keep only its `_named`."""

    _function: Scheduled

    @property
    def _subject(self) -> tuple[Named, Scheduled]:
        return self._named, self._function

    def _apply(self, command: Command) -> None:
        self._function.apply(command)


class AppliedStatements(Nameable, StatementsHandle):
    """Some statements of one computation, to which commands apply."""

    def __init__(self, function: Scheduled, source: str) -> None:
        self._function = function
        self._source = source

    @property
    def name(self) -> str:
        """The name of the computation, which stays the same under all commands.

        ::

            b = f.computation("blurred", ...)   -->   b.name is "blurred", before and after b.separate_at(i, [8])
        """
        return self._source

    @property
    def _named(self) -> Named:
        return Whole(self._source, self._source, self._source)

    def statement_names(self) -> tuple[str, ...]:
        """The names of the statements that this handle stands for.

        ::

            ("b",)      -->   ("b_0", "b_1")        after b.separate_at(i, [8])
            ("C_init", "C_update")                  of a reduction C
        """
        self._function._refuse_in_group(f"a command of {self}", CommandError)
        return self._named.statements(self._function.program)

    def __repr__(self) -> str:
        return self._source

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise unknown_command(self, name)

    def _apply(self, command: Command) -> None:
        self.statement_names()
        self._function.apply(command)
