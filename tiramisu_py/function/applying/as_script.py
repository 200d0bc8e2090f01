"""Commands as Python that can be pasted: what recipes and automatic schedules give as text."""

from __future__ import annotations

import keyword
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from tiramisu_py.algorithm.expressions import Access, Expr, Iter, Param
from tiramisu_py.algorithm.misuse import taken_out
from tiramisu_py.algorithm.spellings import fresh_name, underscored
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.program.command import Command
from tiramisu_py.schedule.command_fields import Named, OnFunction
from tiramisu_py.schedule.ranks.rank_numbers import RankNumber

#: A command of more characters has a line for each argument.
WIDTH = 120


def as_script(commands: Sequence[Command]) -> str:
    """Commands as Python over the function `f`: parameters and iterators, and each handle before its first use."""
    return "\n".join(script_lines(commands))


def script_lines(commands: Sequence[Command]) -> list[str]:
    """The lines of such a text: declarations, handles and commands."""
    return _Script(commands).lines()


class _Script:
    """Commands as Python in which each name means one thing.

    Arrays, iterators and the function may have one name in a schedule, or a keyword of Python; then a variable of the
    script has the name with an underscore, ``y_, lambda_ = tm.iters("y lambda")``.
    """

    def __init__(self, commands: Sequence[Command]) -> None:
        self._variables: dict[tuple[str, str], str] = {}
        self._lines: list[str] = []
        for command in commands:
            self._lines.append(self._respelled(command).text_in(WIDTH))

    def lines(self) -> list[str]:
        """The declarations of parameters and iterators, and then the handles and commands in order."""
        return [*self._declared("params"), *self._declared("iters"), *self._lines]

    def _declared(self, kind: str) -> list[str]:
        names = {name: variable for (of, name), variable in self._variables.items() if of == kind}
        return [taken_out([*names.values()], kind, [*names])] if names else []

    def _variable(self, kind: str, name: str) -> str:
        """The variable for a name of this kind; a handle is taken from the function at its first use."""
        found = self._variables.get((kind, name))
        if found is None:
            taken = {"f", "tm", *keyword.kwlist, *self._variables.values()}
            found = self._variables[kind, name] = fresh_name(name, taken, underscored)
            if kind == "handle":
                self._lines.append(f'{found} = f["{name}"]')
        return found

    def _respelled(self, command: Command) -> Command:
        given = {one.name: self._named(getattr(command, one.name)) for one in fields(command)}
        return replace(command, **(given | {"function": "f"} if isinstance(command, OnFunction) else given))

    def _named(self, value: Any) -> Any:
        """An argument with the variables of the script in place of its names."""
        if isinstance(value, Named):
            handle, dot, part = value.written.partition(".")
            return replace(value, written=self._variable("handle", handle) + dot + part)
        if isinstance(value, Expr):
            return rewrite(value, self._renamed)
        if isinstance(value, list | tuple):
            return type(value)(self._named(one) for one in value)
        if isinstance(value, Mapping):
            return {self._named(key): self._named(one) for key, one in value.items()}
        return value

    def _renamed(self, e: Expr) -> Expr | None:
        if isinstance(e, RankNumber):
            return e
        if isinstance(e, Iter):
            return replace(e, name=self._variable("iters", e.name))
        if isinstance(e, Param):
            return replace(e, name=self._variable("params", e.name))
        if isinstance(e, Access):
            indices = tuple(rewrite(index, self._renamed) for index in e.indices)
            return replace(e, source=self._variable("handle", e.source), indices=indices)
        return None
