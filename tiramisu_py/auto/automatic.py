"""What an automatic schedule gives back: its commands as text, why each was chosen, and what was refused."""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from tiramisu_py.algorithm.expressions import Access, Expr, Iter, Param
from tiramisu_py.algorithm.spellings import fresh_name, underscored
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.auto.trials import Choice
from tiramisu_py.errors import CommandError
from tiramisu_py.function import Function
from tiramisu_py.program.command import Command
from tiramisu_py.program.program import Program
from tiramisu_py.program.storage import Memory
from tiramisu_py.schedule.command_fields import Named, OnFunction


class Automatic:
    """An automatic schedule that has been applied to a function.

    ``str()`` is the commands as text, to be pasted and edited: Python over the function `f`. `commands` are the same as
    values, for ``tm.Function.of(f.algorithm, commands)``. `explain` says why, `undo` takes all of them back.
    """

    def __init__(self, function: Function, start: int, choices: Sequence[Choice], notes: Sequence[str] = ()) -> None:
        self._function = function
        self._start = start
        self._choices = tuple(choices)
        self._notes = tuple(notes)
        self._scheduled = function.program
        self.commands: tuple[Command, ...] = function.commands[start:]

    def __str__(self) -> str:
        return as_text(self.commands)

    def __repr__(self) -> str:
        return f"<{len(self.commands)} commands for {self._function.name}>"

    def explain(self) -> str:
        """For each computation: what was chosen, why, its commands, and what was refused before, with the reasons.

        The last line has the arrays that the schedule allocates in memory, if there are any.
        """
        lines = list(self._notes)
        for choice in self._choices:
            lines += _explained(choice)
        made = ", ".join(_allocated(self._scheduled))
        return "\n".join([*lines, *([f"allocates {made}"] if made else [])])

    def undo(self) -> None:
        """Take all these commands back; raises `CommandError` if others have been given since, or some undone."""
        end = self._start + len(self.commands)
        present = self._function.commands[self._start :]
        if present != self.commands:
            rest = f"the automatic schedule of {self._function.name}"
            if len(present) < len(self.commands):
                raise CommandError(
                    f"{rest} has been undone already, or some of it: f.undo() takes back one command more"
                )
            raise CommandError(f"{rest} is not the end of its commands any more: undo those that came later first")
        for _ in range(end - self._start):
            self._function.undo()


def _explained(choice: Choice) -> Iterable[str]:
    if choice.chosen is None:
        yield f"{choice.anchor}: no commands"
    else:
        yield f"{choice.anchor}: {choice.chosen.what}"
        yield f"  because {choice.chosen.why}"
        yield from (f"    {command}" for command in choice.commands)
    for what, reason in choice.refused:
        yield f"  not {what}: {reason}"


def _allocated(program: Program) -> Iterable[str]:
    """The arrays in memory that are not the caller's: ``u[2, N, N] of float32, in each iteration of t0``."""
    used = {program.storages[each.target].buffer for each in program.storing}
    for buffer in program.buffers.values():
        if buffer.argument or buffer.memory is not Memory.HOST or buffer.name not in used:
            continue
        scope = ", ".join(program.loops[loop].name for loop in buffer.scope)
        where = f" for each iteration of {scope}" if scope else ""
        yield f"{buffer.name}[{', '.join(map(str, buffer.extents))}] of {buffer.dtype}{where}"


def as_text(commands: Sequence[Command]) -> str:
    """Commands as Python over the function `f`: parameters and iterators, and each handle before its first use."""
    return str(_Script(commands))


class _Script:
    """Commands as Python in which each name means one thing.

    Arrays, iterators and the function may have one name in a schedule, or a keyword of Python; then a variable of the
    script has the name with an underscore, ``y_, lambda_ = tm.iters("y lambda")``.
    """

    def __init__(self, commands: Sequence[Command]) -> None:
        self._variables: dict[tuple[str, str], str] = {}
        self._lines: list[str] = []
        for command in commands:
            self._lines.append(self._respelled(command).text)

    def __str__(self) -> str:
        return "\n".join([*self._declared("params"), *self._declared("iters"), *self._lines])

    def _declared(self, kind: str) -> list[str]:
        names = {name: variable for (of, name), variable in self._variables.items() if of == kind}
        left = ", ".join(names.values()) + ("," if len(names) == 1 else "")
        return [f'{left} = tm.{kind}("{" ".join(names)}")'] if names else []

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
        if isinstance(e, Iter):
            return replace(e, name=self._variable("iters", e.name))
        if isinstance(e, Param):
            return replace(e, name=self._variable("params", e.name))
        if isinstance(e, Access):
            indices = tuple(rewrite(index, self._renamed) for index in e.indices)
            return replace(e, source=self._variable("handle", e.source), indices=indices)
        return None
