"""Commands on loops: split, tile, interchange, reorder, skew, shift, reverse.

Each command but `shift` replaces a run of adjacent loops, in every statement that shares them, by an invertible affine
map of their coordinates; the indices of buffers local to these loops are adapted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Expr, Iter, as_expr
from tiramisu_py.errors import CommandError
from tiramisu_py.program.editing import Coordinates, Rewrite, reversed_loop
from tiramisu_py.program.loops import Loop, LoopId
from tiramisu_py.program.program import Program, nest
from tiramisu_py.program.statement import Statement
from tiramisu_py.schedule.command_arguments import find, loop_name, loops_named, size, statements, unused, whole
from tiramisu_py.schedule.command_fields import OnStatements
from tiramisu_py.schedule.nesting import check_nesting


def split(
    program: Program, names: Sequence[str], loop: object, by: object, outer: object, inner: object, origin: object = 0
) -> Program:
    """Cut a loop into blocks of a constant size: ``outer = floor((i - origin) / by)``, ``inner`` the rest."""
    step = size(by, f"the block size of {loop_name(loop)}")
    start = whole(origin, "origin")
    for _, old in loops_named(program, names, loop):
        new = (loop_name(outer), loop_name(inner))
        unused(program, program.with_this_loop(old), new, apart=[old])
        program = _split(program, old, step, new, start)
    return program


def _split(program: Program, old: LoopId, step: int, names: tuple[str, str], origin: int) -> Program:
    first = program.next_loop()
    tag = program.loops[old].tag
    if tag is not None:
        raise CommandError(
            f"loop {program.loops[old].name} is tagged by {program.loops[old].tagged_by}: split it before tagging it"
        )

    def forward(c: Coordinates) -> Coordinates:
        moved = sets.plus(c[0], -origin)
        block = sets.floor_div(moved, step)
        return [block, moved.sub(sets.scaled(block, step))]

    def backward(c: Coordinates) -> Coordinates:
        return [sets.plus(sets.scaled(c[0], step).add(c[1]), origin)]

    new = (Loop(first, names[0]), Loop(first + 1, names[1]))
    return Rewrite((old,), new, forward, backward).applied(program)


def tile(
    program: Program, names: Sequence[str], loops: Sequence[object], sizes: Sequence[object], new: Sequence[object]
) -> Program:
    """Split each of several adjacent loops and move the block loops outwards."""
    n = len(loops)
    if len(sizes) != n or len(new) != 2 * n:
        raise CommandError(f"tile needs a size and two new names for each of its {n} loops")
    outer, inner = list(new[:n]), list(new[n:])
    before = {
        name for name in names if all(find(program, program.statements[name], loop_name(x)) is not None for x in loops)
    }
    if not before:
        raise CommandError(
            f"no statement has the loops {', '.join(loop_name(x) for x in loops)}: "
            + "; ".join(nest(program, s) for s in statements(program, names))
        )
    chosen = [name for name in names if name in before]
    for loop, by, o, i in zip(loops, sizes, outer, inner, strict=True):
        program = split(program, chosen, loop, by, o, i)
    return reorder(program, chosen, [*outer, *inner])


def reorder(program: Program, names: Sequence[str], order: Sequence[object]) -> Program:
    """Permute loops: the named loops are put, in the given order, at the positions that they occupy."""
    wanted = [loop_name(loop) for loop in order]
    if not wanted:
        raise CommandError("reorder needs the loops in their new order")
    if len(set(wanted)) < len(wanted):
        raise CommandError(f"reorder names a loop twice: {', '.join(wanted)}")
    done: set[tuple[LoopId, ...]] = set()
    for statement in statements(program, names):
        current = program.statements[statement.name]
        found = [find(program, current, name) for name in wanted]
        if any(loop is None for loop in found):
            continue
        chosen = tuple(loop for loop in found if loop is not None)
        if chosen not in done:
            program = _permuted(program, current, chosen)
            done.add(chosen)
    if not done:
        missing = "; ".join(nest(program, s) for s in statements(program, names))
        raise CommandError(f"no statement has all the loops {', '.join(wanted)}: {missing}")
    return program


def _permuted(program: Program, statement: Statement, chosen: tuple[LoopId, ...]) -> Program:
    positions = sorted(statement.depth(loop) for loop in chosen)
    old = statement.loops[positions[0] : positions[-1] + 1]
    target = list(old)
    for position, loop in zip(positions, chosen, strict=True):
        target[position - positions[0]] = loop
    if tuple(target) == old:
        return program
    take = [old.index(loop) for loop in target]
    back = [target.index(loop) for loop in old]
    new = tuple(program.loops[loop] for loop in target)
    program = Rewrite(old, new, lambda c: [c[k] for k in take], lambda c: [c[k] for k in back]).applied(program)
    for loop in chosen:
        check_nesting(program, loop)
    return program


def innermost(program: Program, statement: Statement, loop: LoopId) -> Program:
    """Move a loop of a statement inside all others."""
    return _permuted(program, statement, (*statement.loops[statement.depth(loop) + 1 :], loop))


def interchange(program: Program, names: Sequence[str], a: object, b: object) -> Program:
    """Swap two loops."""
    first, second = loop_name(a), loop_name(b)
    for statement, _ in loops_named(program, names, a):
        current = program.statements[statement.name]
        x, y = find(program, current, first), find(program, current, second)
        if x is None or y is None:
            raise CommandError(f"no loop {second if y is None else first} to swap: {nest(program, current)}")
        inner, outer = (second, first) if current.depth(x) < current.depth(y) else (first, second)
        program = _permuted_by_name(program, current, (inner, outer))
    return program


def _permuted_by_name(program: Program, statement: Statement, order: Sequence[str]) -> Program:
    chosen = [find(program, statement, name) for name in order]
    return _permuted(program, statement, tuple(loop for loop in chosen if loop is not None))


def skew(
    program: Program, names: Sequence[str], outer: object, inner: object, factor: object, new: object | None = None
) -> Program:
    """``inner' = inner + factor * outer``."""
    by = whole(factor, "the skewing factor")
    for statement, loop in loops_named(program, names, inner):
        current = program.statements[statement.name]
        out = find(program, current, loop_name(outer))
        if out is None or current.depth(out) >= current.depth(loop):
            raise CommandError(f"{loop_name(outer)} must be a loop around {loop_name(inner)}: {nest(program, current)}")
        run = current.loops[current.depth(out) : current.depth(loop) + 1]
        named = replace(program.loops[loop], name=loop_name(new) if new is not None else program.loops[loop].name)
        unused(program, program.with_this_loop(loop), [named.name], apart=[loop])
        fresh = tuple(program.loops[x] for x in run[:-1]) + (named,)
        program = Rewrite(
            run,
            fresh,
            lambda c, f=by: [*c[:-1], c[-1].add(sets.scaled(c[0], f))],  # type: ignore[misc]
            lambda c, f=by: [*c[:-1], c[-1].sub(sets.scaled(c[0], f))],  # type: ignore[misc]
        ).applied(program)
    return program


def reverse(program: Program, names: Sequence[str], loop: object) -> Program:
    """``i' = -i``: the loop runs backwards."""
    for _, old in loops_named(program, names, loop):
        program = reversed_loop(program, old)
    return program


def shift(program: Program, names: Sequence[str], loop: object, by: object) -> Program:
    """``i' = i + by`` for these statements only; `by` is an integer or affine in the parameters."""
    distance = as_expr(whole(by, "the distance") if isinstance(by, int) else by)
    loops_named(program, names, loop)
    for statement in statements(program, names):
        found = find(program, statement, loop_name(loop))
        if found is None:
            continue
        position = statement.depth(found)
        coords = sets.outputs(statement.coords)
        coords[position] = coords[position].add(_affine(statement, distance))
        program = program.with_statement(replace(statement, coords=sets.function(statement.frame, None, coords)))
    return program


def _affine(statement: Statement, distance: Expr) -> isl.Aff:
    try:
        return Affine(statement.frame, {}).single(distance)
    except NotAffine:
        raise CommandError(f"the distance {distance} is neither an integer nor affine in the parameters") from None


# -- the commands as values


@dataclass(frozen=True, eq=False)
class Split(OnStatements):
    """``for i`` --> ``for i0: for i1``, in blocks of `by` iterations."""

    loop: Iter
    by: int
    outer: Iter
    inner: Iter
    _: KW_ONLY
    origin: int = 0

    def applied(self, program: Program) -> Program:
        return split(program, self.names(program), self.loop, self.by, self.outer, self.inner, self.origin)


@dataclass(frozen=True, eq=False)
class Tile(OnStatements):
    """``for i: for j`` --> ``for i0: for j0: for i1: for j1``; arguments are the loops, the sizes and the names."""

    many = "arguments"

    arguments: tuple[Iter | int, ...]

    def applied(self, program: Program) -> Program:
        return tile(program, self.names(program), *parted(self.arguments))


def parted(arguments: Sequence[object]) -> tuple[Sequence[object], Sequence[object], Sequence[object]]:
    """The loops, the sizes and the new names in the arguments of `tile`; raises `CommandError`."""
    if len(arguments) not in (8, 12):
        raise CommandError(
            "tile takes 2 or 3 loops, as many sizes, as many outer and as many inner names: "
            "tile(i, j, 32, 64, i0, j0, i1, j1)"
        )
    count = len(arguments) // 4
    return arguments[:count], arguments[count : 2 * count], arguments[2 * count :]


@dataclass(frozen=True, eq=False)
class Interchange(OnStatements):
    """``for a: for b`` --> ``for b: for a``."""

    a: Iter
    b: Iter

    def applied(self, program: Program) -> Program:
        return interchange(program, self.names(program), self.a, self.b)


@dataclass(frozen=True, eq=False)
class Reorder(OnStatements):
    """The named loops are put, in this order, at the positions that they occupy."""

    many = "order"

    order: tuple[Iter, ...]

    def applied(self, program: Program) -> Program:
        return reorder(program, self.names(program), self.order)


@dataclass(frozen=True, eq=False)
class Shift(OnStatements):
    """``i`` --> ``i + by``, for these statements alone."""

    loop: Iter
    by: Expr | int

    def applied(self, program: Program) -> Program:
        return shift(program, self.names(program), self.loop, self.by)


@dataclass(frozen=True, eq=False)
class Skew(OnStatements):
    """``inner`` --> ``inner + factor * outer``, called `new`."""

    outer: Iter
    inner: Iter
    factor: int
    _: KW_ONLY
    new: Iter | None = None

    def applied(self, program: Program) -> Program:
        return skew(program, self.names(program), self.outer, self.inner, self.factor, self.new)


@dataclass(frozen=True, eq=False)
class Reverse(OnStatements):
    """``i`` --> ``-i``."""

    loop: Iter

    def applied(self, program: Program) -> Program:
        return reverse(program, self.names(program), self.loop)
