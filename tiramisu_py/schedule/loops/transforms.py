"""Commands on loops: split, tile, interchange, reorder, shift, reverse.

Each command but `shift` replaces a run of adjacent loops, in every statement that shares them, by an invertible affine
map of their coordinates; the indices of buffers local to these loops are adapted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, replace
from numbers import Integral
from typing import Self

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Expr, Iter, as_expr
from tiramisu_py.errors import CommandError
from tiramisu_py.program.bundles import members
from tiramisu_py.program.editing import Coordinates, Rewrite, reversed_loop
from tiramisu_py.program.loops import Loop, LoopId
from tiramisu_py.program.program import Program, nest
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import find, loop_name, loops_named, size, statements, unused, whole
from tiramisu_py.schedule.command_fields import Named, OnStatements
from tiramisu_py.schedule.loops.bundles import split_bundle
from tiramisu_py.schedule.nesting import check_nesting
from tiramisu_py.schedule.reductions.dealt_terms import dealt_out
from tiramisu_py.schedule.reductions.rfactor import over_values


def split(
    program: Program, names: Sequence[str], loop: str, by: int, outer: str, inner: str, origin: int = 0
) -> Program:
    """Cut a loop into blocks of a constant size: ``outer = floor((i - origin) / by)``, ``inner`` the rest."""
    joined = {run: s for s in statements(program, names) if (run := members(program, s, loop))}
    if joined:
        return _bundles_split(program, joined, loop, by, (outer, inner), origin)
    for _, old in loops_named(program, names, loop):
        unused(program, program.with_this_loop(old), (outer, inner), apart=[old])
        program = _split(program, old, by, (outer, inner), origin)
    return program


def _bundles_split(
    program: Program,
    joined: Mapping[tuple[LoopId, ...], Statement],
    loop: str,
    by: int,
    new: tuple[str, str],
    origin: int,
) -> Program:
    """Bundles in blocks of `by` iterations: those over values are numbered by code, those over terms dealt out."""
    if origin:
        raise CommandError(f"{loop} is a bundle, whose iterations are numbered from 0: leave out origin=")
    for run, statement in joined.items():
        tag = program.loops[run[0]]
        if tag.tag is not None:
            raise CommandError(f"the bundle {loop} is tagged by {tag.tagged_by}: split it before tagging it")
        is_update = statement.role is Role.UPDATE
        if is_update and not all(over_values(program, statement, each) for each in run):
            program = dealt_out(program, statement, run, by, new)
        else:
            program = split_bundle(program, statement, run, by, new)
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
    program: Program, names: Sequence[str], loops: Sequence[str], sizes: Sequence[int], new: Sequence[str]
) -> Program:
    """Split each of several adjacent loops and move the block loops outwards; `new` are the outer and the inner names.

    Statements that lack one of the loops stay as they are.
    """
    outer, inner = new[: len(loops)], new[len(loops) :]
    own = {name: program.statements[name] for name in names}
    chosen = [name for name in names if all(find(program, own[name], loop) is not None for loop in loops)]
    if not chosen:
        words = "; ".join(nest(program, s) for s in statements(program, names))
        raise CommandError(f"no statement has the loops {', '.join(loops)}: {words}")
    for loop, by, o, i in zip(loops, sizes, outer, inner, strict=True):
        program = split(program, chosen, loop, by, o, i)
    return reorder(program, chosen, [*outer, *inner])


def reorder(program: Program, names: Sequence[str], order: Sequence[str]) -> Program:
    """Permute loops: the named loops are put, in the given order, at the positions that they occupy.

    Loops before the first one that moves, and after the last, only say where they are: others may share them.
    """
    if not order:
        raise CommandError("reorder needs the loops in their new order")
    if len(set(order)) < len(order):
        raise CommandError(f"reorder names a loop twice: {', '.join(order)}")
    done: set[tuple[LoopId, ...]] = set()
    for statement in statements(program, names):
        current = program.statements[statement.name]
        found = [members(program, current, name) or (find(program, current, name),) for name in order]
        if any(None in run for run in found):
            continue
        chosen = tuple(loop for run in found for loop in run if loop is not None)
        if chosen not in done:
            program = permuted(program, current, chosen)
            done.add(chosen)
    if not done:
        missing = "; ".join(nest(program, s) for s in statements(program, names))
        raise CommandError(f"no statement has all the loops {', '.join(order)}: {missing}")
    return program


def permuted(program: Program, statement: Statement, chosen: tuple[LoopId, ...]) -> Program:
    """The program with these loops in this order; what stays, outermost or innermost, may have other loops inside."""
    positions = sorted(statement.depth(loop) for loop in chosen)
    moved = [
        (position, loop) for position, loop in zip(positions, chosen, strict=True) if statement.loops[position] != loop
    ]
    if not moved:
        return program
    first = moved[0][0]
    old = statement.loops[first : moved[-1][0] + 1]
    target = list(old)
    for position, loop in moved:
        target[position - first] = loop
    take = [old.index(loop) for loop in target]
    back = [target.index(loop) for loop in old]
    new = tuple(program.loops[loop] for loop in target)
    program = Rewrite(old, new, lambda c: [c[k] for k in take], lambda c: [c[k] for k in back]).applied(program)
    for loop in chosen:
        check_nesting(program, loop)
    _check_bundles(program, program.statements[statement.name])
    return program


def _check_bundles(program: Program, statement: Statement) -> None:
    """Refuse an order of loops in which those of a bundle are apart."""
    for loop in statement.loops:
        bundle = program.loops[loop].bundle
        run = () if bundle is None else members(program, statement, bundle.name)
        if bundle is not None and run != statement.loops[(at := statement.depth(run[0])) : at + len(run)]:
            raise CommandError(
                f"other loops would be inside the bundle {bundle.name} of {statement.handle}: name all loops between "
                "those that move"
            )


def _affine(statement: Statement, distance: Expr) -> isl.Aff:
    try:
        return Affine(statement.frame, {}).single(distance)
    except NotAffine:
        raise CommandError(f"the distance {distance} is neither an integer nor affine in the parameters") from None


# -- the commands as values


@dataclass(frozen=True, eq=False)
class Split(OnStatements):
    """Cut a loop into blocks of `by` iterations; the last block may be shorter.

    ::

        for i in 0..N:          -->   for i0 in 0..ceil(N / by):
            S[i]                          for i1 in 0..min(by, N - by*i0):
                                              S[by*i0 + i1]

    Blocks start at multiples of `by` counted from `origin`: ``i0 = floor((i - origin) / by)``. Raises
    `CommandError` for a loop that does not exist or is tagged, a size below 1, or a name in use.

    A bundle of loops over values (see `coalesce`) is split for the blocks and threads of a GPU. One of loops over
    terms of a reduction becomes a smaller one, and an ordinary loop over the remainders of its numbers::

        for j = (h, x, y):      -->   for j0 = (h, x, y):
            C += e(h, x, y)               for j1 in 0..by:
                                              if number(h, x, y) % by == j1: C += e(h, x, y)

    so that ``reorder(j1, j0)`` has a thread, or a partial result of `rfactor`, for each remainder.
    """

    loop: Iter
    by: int
    outer: Iter
    inner: Iter
    _: KW_ONLY
    origin: int = 0

    def applied(self, program: Program) -> Program:
        in_order = [each for each in (self.loop, self.by, self.outer, self.inner) if not isinstance(each, Integral)]
        if len(in_order) == 3 and isinstance(self.by, Iter):
            by = next(each for each in (self.loop, self.outer, self.inner) if isinstance(each, Integral))
            first, *new = map(loop_name, in_order)
            raise CommandError(f"the size comes after the loop: write split({first}, {by}, {', '.join(new)})")
        loop, outer, inner = map(loop_name, (self.loop, self.outer, self.inner))
        by, origin = size(self.by, f"the block size of {loop}"), whole(self.origin, "origin")
        return split(program, self.names(program), loop, by, outer, inner, origin)


@dataclass(frozen=True, eq=False)
class Tile(OnStatements):
    """Tile any number of loops: ``tile(i, j, 32, 64, i0, j0, i1, j1)``, loops, sizes, outer and inner names.

    ::

        for i in 0..N:          -->   for i0 in ..:
            for j in 0..M:                for j0 in ..:
                S[i, j]                       for i1 in 0..32:
                                                  for j1 in 0..64:
                                                      S[32*i0 + i1, 64*j0 + j1]

    Loops and sizes may be a dict, ``tile({i: 32, j: 64}, i0, j0, i1, j1)``; without names after it, the loops are
    called i0, j0, i1 and j1.

    Source: TIRAMISU, ``computation::tile``. Raises `CommandError` as `split` does, and where the loops are not
    perfectly nested.
    """

    many = "arguments"

    arguments: tuple[Iter | int | Mapping[Iter, int], ...]

    @classmethod
    def called(cls, of: Named, *arguments: Iter | int | Mapping[Iter, int]) -> Self:
        return cls(of, arguments)

    def applied(self, program: Program) -> Program:
        return tile(program, self.names(program), *parted(self.arguments, "tile"))


def parted(
    arguments: Sequence[Iter | int | Mapping[Iter, int]], command: str
) -> tuple[list[str], list[int], list[str]]:
    """The loops, the sizes and the new names in the arguments of `tile`; raises `CommandError`."""
    given: list[object] = list(arguments)
    if arguments and isinstance(arguments[0], Mapping):
        named = arguments[0]
        names = given[1:] or [f"{loop_name(loop)}{level}" for level in (0, 1) for loop in named]
        given = [*named, *named.values(), *names]
    _check_order(command, given)
    if not given or len(given) % 4:
        raise CommandError(
            f"{command} takes loops, as many sizes, as many outer and as many inner names: "
            f"{command}(i, j, 32, 64, i0, j0, i1, j1), or {command}({{i: 32, j: 64}}, i0, j0, i1, j1)"
        )
    count = len(given) // 4
    loops = [loop_name(loop) for loop in given[:count]]
    sizes = [size(by, f"the block size of {loop}") for by, loop in zip(given[count : 2 * count], loops, strict=True)]
    return loops, sizes, [loop_name(name) for name in given[2 * count :]]


def _check_order(command: str, given: Sequence[object]) -> None:
    """Refuse the arguments of `tile` in the order of other systems, sizes last or without names, with ours."""
    sizes = [each for each in given if isinstance(each, Integral)]
    loops = [each for each in given if isinstance(each, Iter | str)]
    count, quarter = len(sizes), len(given) // 4
    in_order = len(given) == 4 * count and all(isinstance(each, Integral) for each in given[quarter : 2 * quarter])
    if not count or in_order or len(loops) not in (count, 2 * count, 3 * count):
        return
    if command != "split" and len(loops) == 2 and count == 1:
        return  # two loops and one size, or a loop, a name and its size
    names = [loop_name(each) for each in loops]
    new = names[count:]
    outer, inner = ([f"{loop}{level}" for loop in names[:count]] for level in (0, 1))
    if len(new) == 2 * count:
        outer, inner = new[:count], new[count:]
    elif new and not set(new) & set(outer):
        inner = new
    written = ", ".join(map(str, (*names[:count], *sizes, *outer, *inner)))
    raise CommandError(f"{command} takes loops, sizes, outer and inner names: write {command}({written})")


@dataclass(frozen=True, eq=False)
class Interchange(OnStatements):
    """Swap two loops.

    ::

        for i in ..:            -->   for j in ..:
            for j in ..:                  for i in ..:
                S[i, j]                       S[i, j]

    Tags stay with their loops. Raises `CommandError` where the loops are not perfectly nested.
    """

    a: Iter
    b: Iter

    def applied(self, program: Program) -> Program:
        names, (first, second) = self.names(program), map(loop_name, (self.a, self.b))
        for statement, a in loops_named(program, names, first):
            current = program.statements[statement.name]
            b = find(program, current, second)
            if b is None:
                raise CommandError(f"no loop {second} to swap: {nest(program, current)}")
            inwards = current.depth(a) < current.depth(b)
            program = permuted(program, current, (b, a) if inwards else (a, b))
        return program


@dataclass(frozen=True, eq=False)
class Reorder(OnStatements):
    """Permute loops: the named loops are put, in the given order, at the positions that they occupy now.

    ::

        for i, for j, for k: S[i, j, k]     -- reorder(k, i, j) -->     for k, for i, for j: S[i, j, k]
    """

    many = "order"

    order: tuple[Iter, ...]

    @classmethod
    def called(cls, of: Named, *order: Iter) -> Self:
        return cls(of, order)

    def applied(self, program: Program) -> Program:
        return reorder(program, self.names(program), [loop_name(loop) for loop in self.order])


@dataclass(frozen=True, eq=False)
class Shift(OnStatements):
    """Run this computation `by` iterations later in a loop that it may share with others.

    ::

        for i in 0..N:          -->   for i in 0..N + 1:
            p[i]                          if i < N: p[i]
            q[i]                          if i > 0: q[i - 1]          (q.shift(i, 1))

    `by` is an integer or affine in the parameters; negative means earlier.
    """

    loop: Iter
    by: Expr | int

    def applied(self, program: Program) -> Program:
        loop = loop_name(self.loop)
        distance = as_expr(whole(self.by, "the distance") if isinstance(self.by, int) else self.by)
        names = self.names(program)
        loops_named(program, names, loop)
        for statement in statements(program, names):
            found = find(program, statement, loop)
            if found is None:
                continue
            position = statement.depth(found)
            coords = sets.outputs(statement.coords)
            coords[position] = coords[position].add(_affine(statement, distance))
            program = program.with_statement(replace(statement, coords=sets.function(statement.frame, None, coords)))
        return program


@dataclass(frozen=True, eq=False)
class Reverse(OnStatements):
    """Run a loop backwards: ``i' = -i``.

    ::

        for i in 0..N: S[i]     -->   for i in -(N - 1)..1: S[-i]
    """

    loop: Iter

    def applied(self, program: Program) -> Program:
        for _, old in loops_named(program, self.names(program), loop_name(self.loop)):
            program = reversed_loop(program, old)
        return program
