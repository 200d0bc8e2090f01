"""A program as the lines of a script that a user could write: the lines are the reproduction.

`Script.text` prints them, `shrunk` takes away what a disagreement does not need.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import tiramisu_py as tm
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.program.program import Program

#: What decides about a random program: a number, or a source of choices, such as one that Hypothesis makes smaller.
Seed = int | random.Random


def choices(seed: Seed) -> random.Random:
    """The source of choices: of a number always the same ones."""
    return seed if isinstance(seed, random.Random) else random.Random(seed)


@dataclass
class Script:
    """Lines that have been executed, and what they defined; `commands` of them may be taken away."""

    lines: list[str] = field(default_factory=list)
    names: dict[str, Any] = field(default_factory=lambda: {"tm": tm})
    declarations: int = 0

    @property
    def function(self) -> tm.Function:
        """The function that the script makes."""
        function: tm.Function = self.names["f"]
        return function

    @property
    def program(self) -> Program:
        """The program as scheduled so far."""
        return self.function.program

    @property
    def text(self) -> str:
        """The script."""
        return "\n".join(["import tiramisu_py as tm", *self.lines])

    def do(self, line: str) -> None:
        """Execute one more line."""
        exec(line, self.names)
        self.lines.append(line)

    def attempt(self, line: str) -> bool:
        """Execute a command; False where it is refused, and then it has changed nothing."""
        before = self.program
        try:
            exec(line, self.names)
        except tm.TiramisuError as error:
            if isinstance(error, CompilerDefect):
                raise
            assert self.program is before, f"{line} was refused, and yet changed the program"
            return False
        except NameError as error:  # a loop that a command has made, and named
            if error.name not in {loop.name for loop in before.loops.values()}:
                raise
            self.do(f"{error.name}, = tm.iters('{error.name}')")
            return self.attempt(line)
        except Exception as error:
            error.add_note(f"{self.text}\n{line}")
            raised = Script([*self.lines, line], {}, self.declarations)
            error.script = raised  # type: ignore[attr-defined]
            raise
        self.lines.append(line)
        return True

    def declared(self) -> None:
        """From here on lines are commands."""
        self.declarations = len(self.lines)


def replayed(lines: Sequence[str], declarations: int) -> Script:
    """The script of these lines; commands that no longer make sense are left out."""
    script = Script()
    for line in lines[:declarations]:
        script.do(line)
    script.declared()
    for line in lines[declarations:]:
        try:
            script.attempt(line)
        except (NameError, AttributeError):
            continue
    return script


def shrunk(script: Script, bad: Callable[[Script], bool]) -> Script:
    """The script without the commands that `bad` does not need."""
    position = script.declarations
    while position < len(script.lines):
        shorter = replayed(script.lines[:position] + script.lines[position + 1 :], script.declarations)
        if len(shorter.lines) < len(script.lines) and bad(shorter):
            script = shorter
        else:
            position += 1
    return script
