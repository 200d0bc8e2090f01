"""Names in a function, handles and the functions they belong to, and commands as text."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Expr, Iter, Param, as_expr
from tiramisu_py.algorithm.spellings import fresh_name, underscored
from tiramisu_py.errors import ArgumentError
from tiramisu_py.function import Function, Selection
from tiramisu_py.program.command import Command
from tiramisu_py.program.fresh_names import names_in
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.schedule.loops.tags import Parallelize


def function_of(handle: Selection) -> Function:
    """The function that a computation, or a part of one, belongs to."""
    owner = handle._function
    if not isinstance(owner, Function):
        raise ArgumentError(f"{handle} belongs to no function")
    return owner


def unused_iterator(function: Function, wanted: str, beside: Collection[str] = ()) -> Iter:
    """An iterator with this name, or where it is taken a similar one: no name of the function, none of its loops.

    `beside` are further names that are taken.
    """
    program = function.program
    taken = {*names_in(program), *(loop.name for loop in program.loops.values()), *beside}
    return Iter(fresh_name(wanted, taken, underscored))


def unused_word(wanted: str, taken: Collection[str]) -> str:
    """The wanted word, or where it is taken one with underscores."""
    return fresh_name(wanted, taken, underscored)


def shares_threads(command: Command) -> bool:
    """Whether a command deals out the iterations of a loop to threads."""
    return isinstance(command, Parallelize)


def statement_handle(function: Function, statement: Statement) -> Selection:
    """The handle of a statement: a computation, or the start or the update of a reduction."""
    whole = function[statement.source]
    if statement.role is Role.INIT:
        found: Selection = whole.init
    else:
        found = whole.update if statement.role is Role.UPDATE else whole
    return found


def loop_iterators(statement: Statement, names: Collection[str]) -> list[str | None]:
    """The iterator that each loop of a statement runs over; None for a loop over a combination of several.

    `names` are those of the computation's points, in order.
    """
    found: list[str | None] = []
    points = [sets.terms(form).dims for form in sets.outputs(statement.point)]
    for form in sets.outputs(statement.coords):
        dims = sets.terms(form).dims
        own = [name for name, point in zip(names, points, strict=False) if _are_one_line(point, dims)]
        found.append(own[0] if own else None)
    return found


def loop_direction(statement: Statement, depth: int) -> int | None:
    """1 if a loop runs over the iterator of its number as declared, -1 if backwards; None for any other loop."""
    steps = sets.terms(sets.outputs(statement.coords)[depth]).dims
    others = [*steps[:depth], *steps[depth + 1 :]]
    return steps[depth] if abs(steps[depth]) == 1 and not any(others) else None


def _are_one_line(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return sum(map(bool, a)) == 1 and [bool(x) for x in a] == [bool(x) for x in b]


def loop_forms(statement: Statement) -> list[Expr]:
    """Each loop of a statement, outermost first, as a form of the statement's iterators: ``i // 8`` of a split loop."""
    return [_expression(form, statement.dims) for form in sets.outputs(statement.coords)]


def _expression(form: isl.Aff, dims: Sequence[str]) -> Expr:
    """``(constant + dims + params + floors) // denominator``, whose numerator is a multiple or under a floor."""
    taken = sets.terms(form)
    parts: list[tuple[int, Expr]] = [(c, Iter(name)) for c, name in zip(taken.dims, dims, strict=True)]
    parts += [(c, Param(name)) for c, name in taken.params]
    parts += [(c, _expression(under, dims)) for c, under in taken.divs]
    total: Expr | None = None
    for factor, part in sorted(parts, key=lambda term: term[0] < 0):
        each = part if abs(factor) == 1 else abs(factor) * part
        if factor > 0:
            total = each if total is None else total + each
        elif factor < 0:
            total = -each if total is None else total - each
    if total is None:
        total = as_expr(taken.constant)
    elif taken.constant:
        total = total + taken.constant
    return total if taken.denominator == 1 else total // taken.denominator
