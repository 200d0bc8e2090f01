"""Commands are values: each is a frozen dataclass, whose fields are its arguments, and whose text follows from them.

::

    Split(of=bx, loop=r, by=8, outer=r0, inner=r1)      str: bx.split(r, 8, r0, r1)

A command knows no function: it names computations, loops and buffers, so that it can be applied to any program that has
them, kept, compared, and written to a file.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from tiramisu_py.algorithm.declarations import Location
from tiramisu_py.algorithm.expressions import Access, Expr
from tiramisu_py.program.storage import Buffer
from tiramisu_py.records import dataclass

if TYPE_CHECKING:
    from tiramisu_py.program.program import Program

#: Functions as expressions print them, and their public names where these differ.
_FUNCTIONS = re.compile(r"(?<![\w.])(min|max|select)\(")
_NAMES = {"min": "minimum", "max": "maximum"}


@dataclass(frozen=True, eq=False)
class Command(ABC):
    """A change of a program, as a value. Commands with equal arguments are equal.

    In the text, fields are written by position, or by name if they are keyword-only or follow a field that is left out
    because it has its default. `verb` is the command's name (by default that of the class, in small letters); `subject`
    is the field before the dot; `many` is the field of a variable number of arguments, ``reorder(k, i, j)``; `by_name`
    is the field of arguments whose names the user chooses, ``specialize(K=16)``; the arguments of `spelled_out` are
    written by name though they can be given by position. Iterables for the fields of `lists` are kept as lists. Files
    of older versions have other names for fields, `former`; arguments that are `retired` still work, and `instead` says
    what to write. A command that `derives` adds the transfers that a
    program lacks.

    The public method of a command has its docstring, and its fields as arguments; where they differ, as a variable
    number of arguments does from the tuple that is kept, a class method `called` takes the arguments.
    """

    verb: ClassVar[str] = ""
    subject: ClassVar[str] = ""
    many: ClassVar[str] = ""
    by_name: ClassVar[str] = ""
    spelled_out: ClassVar[tuple[str, ...]] = ()
    lists: ClassVar[tuple[str, ...]] = ()
    retired: ClassVar[tuple[str, ...]] = ()
    instead: ClassVar[str] = ""
    former: ClassVar[tuple[tuple[str, str], ...]] = ()
    derives: ClassVar[bool] = False

    @abstractmethod
    def applied(self, program: Program) -> Program:
        """The program after the command; raises `CommandError`."""

    @cached_property
    def text(self) -> str:
        """The command as the user would write it: ``by.split(r, 8, r0, r1)``."""
        return f"{getattr(self, self.subject)}.{name_of(type(self))}({', '.join(self._words())})"

    def text_in(self, width: int) -> str:
        """The text as one line, or with a line for each argument where it is longer than `width`."""
        if len(self.text) <= width:
            return self.text
        arguments = "".join(f"    {word},\n" for word in self._words())
        return f"{getattr(self, self.subject)}.{name_of(type(self))}(\n{arguments})"

    def _words(self) -> Iterator[str]:
        """The arguments: those by position, then those by name."""
        named: list[tuple[str, object]] = []
        late: list[tuple[str, object]] = []
        left_out = False
        for one in fields(self):
            value, by_name = getattr(self, one.name), one.kw_only or one.name in self.spelled_out
            if one.name == self.subject:
                continue
            if one.name == self.many:
                yield from map(spelled, value)
            elif one.name == self.by_name:
                named += value.items()
            elif _is_usual(one, value):
                left_out = left_out or not by_name
            elif by_name:
                named.append((one.name, value))
            elif left_out:
                late.append((one.name, value))
            else:
                yield spelled(value)
        yield from (f"{name}={spelled(value)}" for name, value in (*named, *late))

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Command) and _key(self) == _key(other)

    def __hash__(self) -> int:
        return hash(self.text)


def name_of(kind: type[Command]) -> str:
    """The name of a command: ``UnrollAndJam`` is ``unroll_and_jam``."""
    return kind.verb or re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


def every_command() -> tuple[type[Command], ...]:
    """The commands of this package, as far as their modules are loaded; `Function` loads all."""
    return tuple(kind for kind in _leaves(Command) if kind.__module__.startswith("tiramisu_py."))


def _leaves(kind: type) -> Iterator[Any]:
    below: list[type] = kind.__subclasses__()
    yield from (leaf for one in below for leaf in _leaves(one)) if below else (kind,)


def _is_usual(one: Field[Any], value: object) -> bool:
    """Whether an argument has its default value, so that it is not written."""
    usual = one.default
    if usual is MISSING or value is usual:
        return value is usual
    if isinstance(usual, tuple):
        return isinstance(value, list | tuple) and len(value) == len(usual) == 0
    return isinstance(value, bool | int | str) and isinstance(usual, bool | int | str) and value == usual


def _key(value: object) -> object:
    """The key by which values are compared: expressions by their structure."""
    if isinstance(value, Expr):
        return type(value), value.key()
    if isinstance(value, Mapping):
        return tuple((_key(name), _key(one)) for name, one in value.items())
    if isinstance(value, list | tuple):
        return type(value), *map(_key, value)
    if is_dataclass(value) and not isinstance(value, type):
        return type(value), *(_key(getattr(value, one.name)) for one in fields(value))
    return value


def spelled(argument: object) -> str:
    """One argument as the user would write it."""
    if isinstance(argument, list):
        return f"[{', '.join(spelled(item) for item in argument)}]"
    if isinstance(argument, tuple):
        return f"({', '.join(spelled(item) for item in argument)}{',' if len(argument) == 1 else ''})"
    if isinstance(argument, Access) and not argument.indices:
        return f"{argument}[()]"
    if isinstance(argument, Expr):
        return _FUNCTIONS.sub(lambda found: f"tm.{_NAMES.get(found[1], found[1])}(", str(argument))
    if isinstance(argument, Buffer):
        return argument.name
    if isinstance(argument, Mapping):
        return "{" + ", ".join(f"{spelled(key)}: {spelled(value)}" for key, value in argument.items()) + "}"
    if isinstance(argument, Enum):
        return f"tm.{getattr(argument, 'word', argument.name)}"
    return repr(argument)


@dataclass(frozen=True)
class Entry:
    """One entry of the log of a program: a command, and where it was written."""

    command: Command
    location: Location | None = None

    @property
    def text(self) -> str:
        """The command as the user would write it."""
        return self.command.text

    def __str__(self) -> str:
        return f"{self.text}  ({self.location})" if self.location else self.text
