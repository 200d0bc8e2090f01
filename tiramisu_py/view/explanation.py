"""The history of a computation: the commands that changed it, with its loops and storage after each."""

from __future__ import annotations

import itertools
import textwrap
from dataclasses import replace

from tiramisu_py.algorithm.declarations import Location
from tiramisu_py.program.program import Program
from tiramisu_py.program.storage import Memory
from tiramisu_py.records import dataclass
from tiramisu_py.styles import as_html, for_prompt
from tiramisu_py.view.loop_nests import loop_nests
from tiramisu_py.view.pseudocode import PLACES


@dataclass(frozen=True)
class Change:
    """A command, where it was written, and the loops and the storage of the computation after it and before it."""

    command: str
    location: Location | None
    loops: str
    storage: str
    loops_before: str = ""
    storage_before: str = ""

    def lines(self) -> list[str]:
        """The command, and what was so before and after it, side by side."""
        lines = [f"{self.command}{f'   ({self.location})' if self.location else ''}"]
        if self.storage != self.storage_before:
            lines += [f"    {self.storage_before}", f"    --> {self.storage}"]
        if self.loops != self.loops_before:
            lines += _beside(self.loops_before.splitlines(), self.loops.splitlines())
        else:
            lines += textwrap.indent(self.loops, "    ").splitlines()
        return lines


def _beside(before: list[str], after: list[str]) -> list[str]:
    """Two texts beside each other, with an arrow from one to the other in their first line."""
    width = max(map(len, before), default=0)
    pairs = itertools.zip_longest(before, after, fillvalue="")
    arrows = itertools.chain(["-->"], itertools.repeat("   "))
    return [
        f"    {left:<{width}}  {arrow}  {right}".rstrip() for arrow, (left, right) in zip(arrows, pairs, strict=False)
    ]


@dataclass(frozen=True, repr=False)
class Explanation:
    """The history of one computation: as `declared`, and what was so before and after each command that changed it.

    It prints as text.
    """

    name: str
    declared: Change
    changes: tuple[Change, ...]

    def __str__(self) -> str:
        lines = [f"{self.name}, as declared: {self.declared.storage}", textwrap.indent(self.declared.loops, "    ")]
        lines += [line for change in self.changes for line in change.lines()]
        if not self.changes:
            lines.append("no command has changed it")
        return "\n".join(lines) + "\n"

    def __repr__(self) -> str:
        """At a prompt: the text, with the commands in colours if the terminal takes them."""
        return for_prompt(str(self), STYLES)

    def _repr_html_(self) -> str:
        return as_html(str(self), STYLES)


#: The styles of its lines, by patterns of what is at their beginning: commands are not indented.
STYLES = {r"\S+, as declared": "good", r"\S": "advice"}


def explained(program: Program, name: str) -> Explanation:
    """The history of a computation of `program`. Its loops include what shares them; copies of it are named, too."""
    states = [_state(state, name) for state in program.history]
    found = [
        replace(after, loops_before=before.loops, storage_before=before.storage)
        for before, after in itertools.pairwise(states) if _face(before) != _face(after)
    ]  # fmt: skip
    return Explanation(name, states[0], tuple(found))


def _state(program: Program, name: str) -> Change:
    entry = program.origin.command
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
