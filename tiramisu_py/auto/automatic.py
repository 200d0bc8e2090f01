"""What an automatic schedule gives back: its commands as text, why each was chosen, and what was refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tiramisu_py.auto.trials import Choice
from tiramisu_py.errors import CommandError
from tiramisu_py.function import Function
from tiramisu_py.function.applying.as_script import as_script
from tiramisu_py.program.command import Command


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
        return as_script(self.commands)

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
