"""A program as the lines of a script that a user could write: the lines are the reproduction.

`Script.text` prints them, `shrunk` takes away what a disagreement does not need.
"""

from __future__ import annotations

import linecache
import random
import time
import zlib
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


class Drawing(random.Random):
    """A source of choices that draws nothing from another one where there is nothing to choose from: as `random.Random`
    does, it raises `IndexError` or `ValueError` then.

    Hypothesis draws a number between 0 and -1 instead: an error of its own when it makes a program, a choice of the
    next command when it makes the same one again, which is then another program.
    """

    def __new__(cls, source: random.Random) -> Drawing:
        return super().__new__(cls)

    def __init__(self, source: random.Random) -> None:
        super().__init__()
        self._source = source

    def random(self) -> float:
        return self._source.random()

    def getrandbits(self, k: int, /) -> int:
        return self._source.getrandbits(k)

    def choice(self, seq: Any) -> Any:
        if not len(seq):
            raise IndexError("there is nothing to choose from")
        return self._source.choice(seq)

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        if not range(*((0, start) if stop is None else (start, stop)), step):
            raise ValueError("there is no number to choose")
        return self._source.randrange(start, stop, step)

    def randint(self, a: int, b: int) -> int:
        return self.randrange(a, b + 1)

    def sample(self, population: Any, k: int, *, counts: Any = None) -> list[Any]:
        return self._source.sample(population, k, counts=counts)

    def shuffle(self, x: Any) -> None:
        if len(x):
            self._source.shuffle(x)


#: The line of a check.
CHECK = "f.check()"
#: How long a line or a check may take the processor, in seconds: what takes longer is a find. The machine's other work
#: does not count.
LIMIT = 10.0


@dataclass(frozen=True)
class Taken:
    """How long the last one of some lines took the processor, whether it was refused or not."""

    seconds: float = 0.0
    lines: tuple[str, ...] = ()

    @property
    def too_long(self) -> str:
        """What is to be said of it; empty if it took no longer than it may."""
        said = f"{self.lines[-1] if self.lines else ''} took {self.seconds:.1f} s of the processor"
        return f"{said}, more than {LIMIT:g}" if self.seconds > LIMIT else ""


@dataclass
class Script:
    """Lines that have been executed, and what they defined; `commands` of them may be taken away.

    `slowest` is the line that took the processor longest, after those before it.
    """

    lines: list[str] = field(default_factory=list)
    names: dict[str, Any] = field(default_factory=lambda: {"tm": tm})
    declarations: int = 0
    slowest: Taken = Taken()

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
        self._execute(line)
        self.lines.append(line)

    def _execute(self, line: str) -> None:
        began = time.process_time()
        code = _with_source(line) if line.startswith("@tm.jit") else line
        try:
            exec(code, self.names)
        finally:
            self._note(began, line)

    def _note(self, began: float, line: str) -> float:
        seconds = time.process_time() - began
        if seconds > self.slowest.seconds:
            self.slowest = Taken(seconds, (*self.lines, line))
        return seconds

    def check(self) -> float:
        """Check the function; how long that took the processor."""
        began = time.process_time()
        self.function.check()
        return self._note(began, CHECK)

    def attempt(self, line: str) -> bool:
        """Execute a command; False where it is refused, and then it has changed nothing."""
        before = self.program
        try:
            self._execute(line)
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


def _with_source(text: str) -> Any:
    """The code of a kernel, whose source can be read as that of a file."""
    name = f"kernel_{zlib.crc32(text.encode())}.py"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    return compile(text, name, "exec")


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
