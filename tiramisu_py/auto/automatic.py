"""What an automatic schedule gives back: its commands as text, why each was chosen, and what was refused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tiramisu_py.auto.trials import Choice
from tiramisu_py.errors import CommandError
from tiramisu_py.function import Function
from tiramisu_py.program.command import Command

#: Texts in quotes, and names that are no attributes and no keywords.
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?![\w]|=[^=])")


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
        self.commands: tuple[Command, ...] = function.commands[start:]

    def __str__(self) -> str:
        return as_text(self._function, self._start, self.commands)

    def __repr__(self) -> str:
        return f"<{len(self.commands)} commands for {self._function.name}>"

    def explain(self) -> str:
        """For each computation: what was chosen, why, its commands, and what was refused before, with the reasons."""
        lines = list(self._notes)
        for choice in self._choices:
            lines += _explained(choice)
        return "\n".join(lines)

    def undo(self) -> None:
        """Take all these commands back; raises `CommandError` if others have been given since, or some undone."""
        end = self._start + len(self.commands)
        if self._function.commands[self._start :] != self.commands:
            raise CommandError(
                f"the automatic schedule of {self._function.name} is not the end of its commands any more: undo those "
                "that came later first"
            )
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


def as_text(function: Function, start: int, commands: Sequence[Command]) -> str:
    """Commands as Python over the function `f`: parameters and iterators, and each handle before its first use."""
    known = {"tm", function.name, "True", "False", "None", "and", "or", "not", "if", "else"}
    params: list[str] = []
    iterators: list[str] = []
    lines: list[str] = []
    for state, command in zip(function.program.history[start:], commands, strict=False):
        for name in _NAME.findall(_QUOTED.sub("''", command.text)):
            if name in known:
                continue
            known.add(name)
            if name in state.statements or name in state.algorithm.computations or name in state.algorithm.inputs:
                lines.append(f'{name} = f["{name}"]')
            else:
                (params if name in state.algorithm.params else iterators).append(name)
        text = command.text
        lines.append(f"f{text.removeprefix(function.name)}" if text.startswith(f"{function.name}.") else text)
    return "\n".join([*_declared("params", params), *_declared("iters", iterators), *lines])


def _declared(what: str, names: Sequence[str]) -> list[str]:
    left = ", ".join(names) + ("," if len(names) == 1 else "")
    return [f'{left} = tm.{what}("{" ".join(names)}")'] if names else []
