"""What commands apply to: some statements of one computation, in one function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.errors import CommandError
from tiramisu_py.function.applying.as_written import as_written
from tiramisu_py.program.program import Program
from tiramisu_py.schedule.loops.order import Root

if TYPE_CHECKING:
    from tiramisu_py.function.applying.scheduled import Scheduled

Transform = Callable[[Program, str], Program]
Level = Iter | Root


class Statements:
    """Some statements of one computation: what commands apply to."""

    def __init__(self, function: Scheduled, source: str) -> None:
        self._function = function
        self._source = source

    @property
    def name(self) -> str:
        """The name of the computation."""
        return self._source

    def statement_names(self) -> tuple[str, ...]:
        """The names of the statements that this handle stands for."""
        found = tuple(s.name for s in self._function.program.statements_of(self._source))
        if not found:
            raise CommandError(f"{self._source} has been inlined: it has no loops and no buffer any more")
        return found

    def __repr__(self) -> str:
        return self._source

    def _apply(
        self, command: str, positional: tuple[object, ...], named: Mapping[str, object], change: Transform
    ) -> None:
        self._function.apply(as_written(repr(self), command, positional, named), change)

    def _others(self, given: object) -> tuple[str, ...]:
        if hasattr(given, "send") and hasattr(given, "recv"):
            raise CommandError(f"{given!r} is an exchange of two halves: name {given!r}.send or {given!r}.recv")
        if not isinstance(given, Statements):
            raise CommandError(f"{given!r} is not a computation of {self._function.name}")
        if given._function is not self._function:
            raise CommandError(f"{given} belongs to the function {given._function.name}, not to {self._function.name}")
        return given.statement_names()
