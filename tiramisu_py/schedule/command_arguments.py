"""The arguments of commands: statements, loops, names and sizes, checked in one place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from numbers import Integral

from tiramisu_py.algorithm.expressions import Expr, Iter
from tiramisu_py.algorithm.misuse import check_unpacked
from tiramisu_py.errors import CommandError
from tiramisu_py.program.bundles import members
from tiramisu_py.program.loops import Loop, LoopId
from tiramisu_py.program.program import Program, nest
from tiramisu_py.program.statement import Role, Statement

#: Sizes, distances and factors are below this.
LARGEST = 2**31

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def loop_name(given: object, what: str = "a loop") -> str:
    """The name that an iterator (or a string) gives; raises `CommandError` for anything else."""
    check_unpacked(given, error=CommandError)
    name = given.name if isinstance(given, Iter) else given
    if not isinstance(name, str) or not _NAME.match(name):
        raise CommandError(f"{given!r} cannot name {what}: give an iterator made with tm.iters")
    return name


def size(given: object, what: str, least: int = 1) -> int:
    """A constant size; raises `CommandError` for anything that is not an integer of at least `least`."""
    if isinstance(given, bool) or not isinstance(given, Integral) or int(given) < least:
        raise CommandError(f"{what} is {given!r}: give an integer of at least {least}")
    return whole(given, what)


def whole(given: object, what: str) -> int:
    """An integer that coordinates can be moved by without leaving 64 bits; raises `CommandError`."""
    if isinstance(given, bool) or not isinstance(given, Integral) or abs(int(given)) >= LARGEST:
        raise CommandError(f"{what} is {given!r}: give an integer between -2**31 and 2**31")
    return int(given)


def listed(given: object, what: str) -> list[object]:
    """The items of a list or tuple; raises `CommandError` for anything else."""
    if not isinstance(given, list | tuple):
        one = f", [{given!r}]" if isinstance(given, Expr | int) else ""
        raise CommandError(f"{what} is {given!r}: give a list{one}")
    return list(given)


def check_new_name(program: Program, name: object, what: str) -> None:
    """Refuse a name for a part, a copy or a buffer that is no text, or already in use."""
    if not isinstance(name, str):
        raise CommandError(f"{what} cannot be called {name!r}: give a text")
    algorithm = program.algorithm
    for kind, taken in (
        ("a parameter", algorithm.params),
        ("an input", algorithm.inputs),
        ("a computation", algorithm.computations),
        ("a statement", program.statements),
        ("a buffer", program.buffers),
    ):
        if name in taken:
            raise CommandError(f"{what} cannot be called {name}: {kind} has this name")


def statements(program: Program, names: Iterable[str]) -> list[Statement]:
    """The statements of these names; raises `CommandError` for one that is gone (inlined, say)."""
    found = []
    for name in names:
        if name not in program.statements:
            raise CommandError(f"{name} has no statement any more: it was inlined, or separated into parts")
        found.append(program.statements[name])
    return found


def find(program: Program, statement: Statement, name: str) -> LoopId | None:
    """A statement's loop of this name, or None; the innermost one if `compute_at` added another of that name.

    Raises `CommandError` for the name of a bundle, which is no loop by itself, and for a loop in one.
    """
    for loop in reversed(statement.loops):
        own = program.loops[loop]
        if own.bundle is not None and name in (own.name, *own.bundle.names):
            raise CommandError(_in_bundle(program, statement, own, name))
        if own.name == name:
            return loop
    return None


def _in_bundle(program: Program, statement: Statement, loop: Loop, name: str) -> str:
    """Why a command that takes single loops cannot have one of a bundle."""
    assert loop.bundle is not None
    joined = loop.bundle.name
    names = ", ".join(program.loops[each].name for each in members(program, statement, joined))
    if name == loop.name:
        return f"loop {name} of {statement.handle} is joined with others, ({names}), to {joined}: name {joined}"
    return (
        f"{name} of {statement.handle} is a bundle of the loops {names}, whose numbers of iterations are no constants; "
        "it can be dealt out as one, by parallelize, split, reorder and tag_gpu: give this command before coalesce"
    )


def _elsewhere(program: Program, names: Sequence[str], wanted: str) -> str:
    """The partial results of the same reductions that have a loop of this name, after `rfactor` and trees."""
    wholes = program.algorithm.wholes
    of = {program.statements[name].source for name in names if name in program.statements}
    parts = [s for s in program.statements.values() if s.source in wholes and wholes[s.source].name in of]
    named = {loop.id for loop in program.loops.values() if loop.name == wanted}
    own = [s.handle for s in parts if s.role is Role.UPDATE and named.intersection(s.loops)]
    return f"; {own[0]}, of its partial results, has it" if own else ""


def loops_named(program: Program, names: Sequence[str], wanted: str) -> list[tuple[Statement, LoopId]]:
    """One (statement, loop) for each distinct loop of this name among the statements.

    If no statement has such a loop, raises `CommandError` with a list of the existing loops.
    """
    found: dict[LoopId, Statement] = {}
    selected = statements(program, names)
    for statement in selected:
        loop = find(program, statement, wanted)
        if loop is not None:
            found.setdefault(loop, statement)
    if not found:
        raise CommandError(
            f"no loop {wanted} here: "
            + "; ".join(nest(program, s) for s in selected)
            + _elsewhere(program, names, wanted)
        )
    return [(statement, loop) for loop, statement in found.items()]


def unused(program: Program, inside: Iterable[Statement], names: Sequence[str], apart: Iterable[LoopId] = ()) -> None:
    """Refuse new loop names that an enclosing or enclosed loop (other than those in `apart`) already has."""
    if len(set(names)) < len(names):
        raise CommandError(f"the new loops need different names, not {', '.join(names)}")
    replaced = set(apart)
    for statement in inside:
        for loop in statement.loops:
            own = program.loops[loop]
            taken = (own.name, *(() if own.bundle is None else own.bundle.names))
            if loop not in replaced and (clash := [name for name in taken if name in names]):
                raise CommandError(
                    f"{statement.name} has a loop {clash[0]} already: choose another name ({nest(program, statement)})"
                )


def scope_of(program: Program, consumer: Sequence[str], level: str) -> tuple[LoopId, ...]:
    """The consumer's loops up to `level`."""
    return only_scope(loops_named(program, consumer, level), level)


def only_scope(found: Sequence[tuple[Statement, LoopId]], level: str) -> tuple[LoopId, ...]:
    """The loops around and with the one that was found by the name `level`; raises `CommandError` for several."""
    if len(found) > 1:
        raise CommandError(
            f"{level} names several loops ({', '.join(s.name for s, _ in found)}): name one part of the consumer"
        )
    statement, loop = found[0]
    return statement.loops[: statement.depth(loop) + 1]
