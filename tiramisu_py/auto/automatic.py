"""What an automatic schedule gives back: its commands as text, why each was chosen, and what was refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tiramisu_py import Function, Memory
from tiramisu_py.auto.trials import ChosenOffer
from tiramisu_py.errors import CommandError
from tiramisu_py.queries import Program
from tiramisu_py.recipes import AppliedCommands


class Automatic:
    """An automatic schedule that has been applied to a function.

    ``str()`` is the commands as text, to be pasted and edited: Python over the function `f`. `commands` are the same as
    values, for ``tm.Function.of(f.algorithm, commands)``. `explain` says why, `undo` takes all of them back.
    """

    def __init__(
        self, function: Function, start: int, choices: Sequence[ChosenOffer], notes: Sequence[str] = ()
    ) -> None:
        self._function = function
        self._start = start
        self._choices = tuple(choices)
        self._notes = tuple(notes)
        self._scheduled = function.program
        self.commands = function.commands[start:]

    def __str__(self) -> str:
        return str(AppliedCommands(self.commands))

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


def _explained(choice: ChosenOffer) -> Iterable[str]:
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
