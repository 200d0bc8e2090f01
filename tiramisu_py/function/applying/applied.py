"""The objects that commands apply to: some statements of one computation, in one function."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from tiramisu_py.algorithm.expressions import Expr, Iter
from tiramisu_py.errors import CommandError
from tiramisu_py.function.applying.own_calls import OwnCalls, unknown_command
from tiramisu_py.program.command import Command
from tiramisu_py.schedule.command_fields import Named, Whole
from tiramisu_py.schedule.loops.order import Root

if TYPE_CHECKING:
    from tiramisu_py.function.applying.scheduled import Scheduled

Level = Iter | Root


class Nameable(OwnCalls, ABC):
    """A handle that can be an argument of commands, which keep only its `_named`."""

    _function: Scheduled

    @property
    @abstractmethod
    def _named(self) -> Named:
        """The reference that commands keep."""


class AppliedStatements(Nameable):
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

    def _other(self, given: object) -> Named:
        """The reference that a command keeps of another handle; raises `CommandError` if it has no statements here."""
        if hasattr(given, "send") and hasattr(given, "recv"):
            raise CommandError(f"{given!r} is an exchange of two halves: name {given!r}.send or {given!r}.recv")
        if not isinstance(given, AppliedStatements):
            raise CommandError(f"{given!r} is not a computation of {self._function.name}")
        if given._function is not self._function:
            raise CommandError(f"{given} belongs to the function {given._function.name}, not to {self._function.name}")
        given.statement_names()
        return given._named


def as_list(given: Any) -> Any:
    """An argument as commands keep it: other iterables of items as a list, anything else unchanged."""
    return list(given) if isinstance(given, Iterable) and not isinstance(given, Expr | str | list) else given
