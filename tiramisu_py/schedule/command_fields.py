"""The objects that commands apply to, referred to by name: statements and functions.

A user's handle belongs to one function. A command keeps only a `Named`, which looks up its statements in the program
that the command is applied to. Fields for other handles have the type `Handle` or `StatementsHandle`: the public method
of a command is called with handles, and what the command keeps of each is its `Named`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields, replace
from typing import Any

from tiramisu_py.algorithm.expressions import Access, Expr
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.errors import CommandError
from tiramisu_py.program.command import Command
from tiramisu_py.program.program import Program
from tiramisu_py.records import dataclass


class Handle(ABC):
    """A part of a function that commands can name: an input, or what has statements."""

    @property
    @abstractmethod
    def _named(self) -> Named:
        """The reference that commands keep."""


class StatementsHandle(Handle):
    """A part of a function that has statements."""


@dataclass(frozen=True)
class Named(StatementsHandle):
    """A reference by name: `source` is the input or computation, `written` is how the user writes the handle."""

    source: str
    written: str
    name: str

    @property
    def _named(self) -> Named:
        return self

    def statements(self, program: Program) -> tuple[str, ...]:
        """The names of its statements in a program; raises `CommandError` where there are none."""
        raise CommandError(f"{self.written} has no statements")

    def __str__(self) -> str:
        return self.written

    __repr__ = __str__


@dataclass(frozen=True, repr=False)
class NamedInput(Named):
    """An input: the array that the caller passes."""


@dataclass(frozen=True, repr=False)
class Whole(Named):
    """A computation: all its statements."""

    def statements(self, program: Program) -> tuple[str, ...]:
        found = tuple(s.name for s in program.statements_of(self.source))
        if not found and self.source not in program.algorithm.computations:
            known = ", ".join(program.algorithm.computations) or "none"
            raise CommandError(f"{program.algorithm.name} has no computation {self.source}; it has {known}")
        if not found:
            raise CommandError(f"{self.source} has been inlined: it has no loops and no buffer any more")
        return found


@dataclass(frozen=True, repr=False)
class NamedParts(Named):
    """Parts of a computation: the statements of these names, and those that they have been cut into."""

    names: tuple[str, ...]

    def statements(self, program: Program) -> tuple[str, ...]:
        return tuple(part for name in self.names for part in _parts(program, name))


def _parts(program: Program, name: str) -> tuple[str, ...]:
    found = tuple(s.name for s in program.statements.values() if name in (s.name, *s.origin.part_of))
    return found or (name,)


@dataclass(frozen=True, repr=False)
class Single(Named):
    """One statement that computes nothing: a transfer, half of an exchange, a wait or a barrier."""

    def statements(self, program: Program) -> tuple[str, ...]:
        if self.name not in program.statements:
            raise CommandError(f"{self.written} has been removed: create another one")
        return (self.name,)


@dataclass(frozen=True, repr=False)
class Both(Named):
    """Both halves of an exchange."""

    def statements(self, program: Program) -> tuple[str, ...]:
        halves = (s for s in program.acting if s.link.message is not None and s.link.message.exchange == self.name)
        found = tuple(half.name for half in halves)
        if not found:
            raise CommandError(f"{self.written} has been removed: create another exchange")
        return found


def statements_given(program: Program, given: object) -> tuple[str, ...]:
    """The statements of a handle that a command is given; raises `CommandError` for what has none."""
    if isinstance(given, Both):
        raise CommandError(f"{given} is an exchange of two halves: name {given}.send or {given}.recv")
    if not isinstance(given, Handle) or isinstance(given, NamedInput):
        raise CommandError(f"{given!r} is not a computation of {program.algorithm.name}")
    return given._named.statements(program)


def source_given(program: Program, given: object) -> str:
    """The input or computation that a command is to copy; raises `CommandError` for anything else."""
    if isinstance(given, NamedParts):
        raise CommandError(f"{given.name} is a part or a copy: name the computation or the input it comes from")
    if not isinstance(given, Handle):
        raise CommandError(f"{given!r} is neither an input nor a computation of {program.algorithm.name}")
    return given._named.source


@dataclass(frozen=True, eq=False)
class OnStatements(Command):
    """A command applied to statements: ``bx.split(...)``."""

    subject = "of"

    of: Named

    def names(self, program: Program) -> tuple[str, ...]:
        """The statements that the command applies to; raises `CommandError`."""
        return self.of.statements(program)

    @property
    def computation(self) -> str:
        """The computation that the command applies to."""
        return self.of.source


@dataclass(frozen=True, eq=False)
class OnFunction(Command):
    """A command applied to the function: ``f.order(...)``."""

    subject = "function"

    function: str


def of_owner(command: Command, owner: object) -> Command:
    """The command with its accesses redirected, by name, to the function of this owner."""
    given = {one.name: getattr(command, one.name) for one in fields(command)}
    owned = {name: _owned(value, owner) for name, value in given.items()}
    return replace(command, **owned) if any(owned[name] is not value for name, value in given.items()) else command


def _owned(value: Any, owner: object) -> Any:
    if isinstance(value, Expr):
        return rewrite(value, lambda e: _access(e, owner) if isinstance(e, Access) and e.owner is not owner else None)
    if isinstance(value, list | tuple):
        items = [_owned(one, owner) for one in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else type(value)(items)
    if isinstance(value, dict):
        return {key: _owned(one, owner) for key, one in value.items()}
    return value


def _access(e: Access, owner: object) -> Access:
    return replace(e, indices=tuple(_owned(index, owner) for index in e.indices), owner=owner)
