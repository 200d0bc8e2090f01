"""Where in the user's script something was written, and how it was written."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping

from tiramisu_py.algorithm.declarations import Location
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.program.loops import Combine
from tiramisu_py.program.pages import Policy
from tiramisu_py.program.storage import Buffer, Memory
from tiramisu_py.schedule.devices.transfers import Direction, Mode
from tiramisu_py.schedule.loops.order import root
from tiramisu_py.schedule.ranks.exchange_half import Property

#: Functions as expressions print them, and their public names where these are others.
_FUNCTIONS = re.compile(r"(?<![\w.])(min|max|select)\(")
_NAMES = {"min": "minimum", "max": "maximum"}

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_BACKENDS = os.path.join(os.path.dirname(_PACKAGE), "backends")


def caller() -> Location | None:
    """The innermost place outside of this package on the call stack."""
    frame = sys._getframe(1)
    while frame is not None:
        file = os.path.abspath(frame.f_code.co_filename)
        if not file.startswith((_PACKAGE + os.sep, _BACKENDS + os.sep)):
            return Location(os.path.basename(file), frame.f_lineno)
        frame = frame.f_back  # type: ignore[assignment]
    return None


def as_written(subject: str, command: str, positional: tuple[object, ...], named: Mapping[str, object]) -> str:
    """The command as the user would write it: ``by.split(r, 8, r0, r1)``; named arguments that are None stay out."""
    words = [spelled(argument) for argument in positional]
    words += [f"{name}={spelled(argument)}" for name, argument in named.items() if argument is not None]
    return f"{subject}.{command}({', '.join(words)})"


def unless(usual: int, given: object) -> object:
    """An argument, or None where it is the usual number; anything else is for the command to judge."""
    return None if isinstance(given, int) and given == usual else given


def spelled(argument: object) -> str:
    """One argument as written."""
    if isinstance(argument, list):
        return f"[{', '.join(spelled(item) for item in argument)}]"
    if isinstance(argument, tuple):
        return f"({', '.join(spelled(item) for item in argument)}{',' if len(argument) == 1 else ''})"
    if isinstance(argument, Expr):
        return _FUNCTIONS.sub(lambda found: f"tm.{_NAMES.get(found[1], found[1])}(", str(argument))
    if isinstance(argument, Buffer):
        return argument.name
    if isinstance(argument, Mapping):
        return "{" + ", ".join(f"{spelled(key)}: {spelled(value)}" for key, value in argument.items()) + "}"
    if isinstance(argument, Combine | Memory | Direction | Mode | Policy | Property):
        return f"tm.{argument.name}"
    if argument is root:
        return "tm.root"
    return repr(argument)
