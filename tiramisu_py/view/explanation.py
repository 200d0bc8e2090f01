"""What made a computation what it is: the commands that changed it, with its loops and storage after each."""

from __future__ import annotations

import itertools
import textwrap
from dataclasses import dataclass

from tiramisu_py.algorithm.declarations import Location
from tiramisu_py.program.program import Program
from tiramisu_py.program.storage import Memory
from tiramisu_py.styles import as_html
from tiramisu_py.view.loop_nests import loop_nests
from tiramisu_py.view.pseudocode import PLACES


@dataclass(frozen=True)
class Change:
    """A command, where it was written, and the loops and the storage of the computation after it."""

    command: str
    location: Location | None
    loops: str
    storage: str


@dataclass(frozen=True)
class Explanation:
    """The history of one computation: as `declared`, and after each command that changed it; it prints as text."""

    name: str
    declared: Change
    changes: tuple[Change, ...]

    def __str__(self) -> str:
        lines = [f"{self.name}, as declared: {self.declared.storage}", textwrap.indent(self.declared.loops, "    ")]
        before = self.declared
        for change in self.changes:
            where = f"   ({change.location})" if change.location else ""
            lines.append(f"{change.command}{where}")
            if change.storage != before.storage:
                lines.append(f"    {change.storage}")
            if change.loops != before.loops:
                lines.append(textwrap.indent(change.loops, "    "))
            before = change
        if not self.changes:
            lines.append("no command has changed it")
        return "\n".join(lines) + "\n"

    def _repr_html_(self) -> str:
        return as_html(str(self))


def explained(program: Program, name: str) -> Explanation:
    """The history of a computation of `program`. Its loops include what shares them; copies of it are named, too."""
    states = [_state(state, name) for state in program.history]
    found = [after for before, after in itertools.pairwise(states) if _face(before) != _face(after)]
    return Explanation(name, states[0], tuple(found))


def _state(program: Program, name: str) -> Change:
    entry = program.command
    own = [s.name for s in program.statements.values() if s.source == name]
    loops = loop_nests(program, own) if own else "(computed where it is read)"
    command, location = ("", None) if entry is None else (entry.text, entry.location)
    return Change(command, location, loops, _storage(program, name))


def _face(state: Change) -> tuple[str, str]:
    return state.loops, state.storage


def _storage(program: Program, name: str) -> str:
    """Where its values are kept, in words."""
    storage = program.storages.get(name)
    if storage is None:
        return f"{name} has no array"
    buffer = program.buffers[storage.buffer]
    shape = ", ".join(map(str, buffer.extents))
    place = "an array of the caller" if buffer.argument and buffer.memory is Memory.HOST else PLACES[buffer.memory]
    scope = ", ".join(program.loops[loop].name for loop in buffer.scope if loop in program.loops)
    each = f", one for each iteration of {scope}" if scope else ""
    return f"{name} is kept in {buffer.name}[{shape}], {place}{each}"
