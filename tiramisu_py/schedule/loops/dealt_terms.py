"""The terms of a reduction dealt out by their numbers, where the loops over them are a bundle.

::

    for j = (h, x, y):            for j0 = (h, x, y): for j1 in 0..256:
      C += e(h, x, y)     -->       if (the number of (h, x, y)) % 256 == j1: C += e(h, x, y)

The number of a term, ``(h*M + x)*K + y``, is no affine form. The condition is one on values for the proof, which holds
whatever the numbers are; the reduction has each term once, since a number has one remainder. So the new loop is an
ordinary one with a constant number of iterations, for threads, blocks, `rfactor` and trees, and the rest of the
bundle runs inside. Code walks the terms of one part, and divides before that (`passes.loops.walk_bundles`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation, Dealt
from tiramisu_py.algorithm.domains.from_isl import of_params
from tiramisu_py.algorithm.expressions import Binary, Expr, Iter, typed_const
from tiramisu_py.algorithm.spellings import fresh_name, underscored
from tiramisu_py.algorithm.traversal import mentions
from tiramisu_py.algorithm.types import DType, bool_, int64
from tiramisu_py.errors import CommandError
from tiramisu_py.program.bundles import iterations, sides_of
from tiramisu_py.program.loops import Bundle, Loop, LoopId
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.schedule.command_arguments import unused
from tiramisu_py.schedule.loops.rfactor import original_update, over_values

#: The parts that terms are dealt out to are less than this together.
MOST_PARTS = 2**31


def dealt_out(program: Program, update: Statement, run: tuple[LoopId, ...], by: int, new: Sequence[str]) -> Program:
    """The program with the terms of a bundle in `by` parts: bundle ``new[0]``, and loop ``new[1]`` over the parts."""
    unused(program, program.with_this_loop(run[0]), new, apart=run)
    whole, numbered = _checked(program, update, run)
    before = program.algorithm.dealt.get(whole.name)
    if before is not None and before.numbered != numbered:
        raise CommandError(
            f"terms of {whole.name} are dealt out by their numbers over {', '.join(before.numbered)}: join all loops "
            "over terms to one bundle"
        )
    parts = 1 if before is None else before.parts
    if parts * by >= MOST_PARTS:
        raise CommandError(f"the terms of {whole.name} would be in {parts} * {by} parts: make them fewer")
    added = fresh_name(new[1], whole.point_iterators, underscored)
    own: Expr = Iter(added, int64)
    part = own if before is None else _of("+", _of("*", own, _number(parts)), before.part)
    guard = _of("==", _of("%", _numbers(program, run, numbered), _number(parts * by)), part, bool_)
    dealt = Dealt(whole if before is None else before.whole, numbered, parts * by, part)
    changed = _with_iterator(program, whole, added, by, guard, dealt)
    program = program.with_(algorithm=program.algorithm.with_dealt(changed, dealt))
    return _in_loop(program, update, run, changed, added, new)


def _checked(program: Program, update: Statement, run: tuple[LoopId, ...]) -> tuple[Computation, tuple[str, ...]]:
    """The reduction, and its iterators that the loops of the bundle are; raises `CommandError`."""
    joined = program.loops[run[0]].bundle
    assert joined is not None
    if any(over_values(program, update, loop) for loop in run):
        raise CommandError(
            f"some loops of the bundle {joined.name} run over values of {update.source}, and some over terms of one: "
            "coalesce each kind by itself"
        )
    others = [s.handle for s in program.with_this_loop(run[0]) if s.name != update.name]
    if others:
        raise CommandError(f"{others[0]} shares the bundle {joined.name} with {update.handle}: give split before")
    original_update(program, update, f"split of the bundle {joined.name}")
    whole = program.algorithm.computations[update.source]
    if whole.op is None or not whole.op.commutative:
        raise CommandError(
            f"{whole.op} of {whole.name} is not commutative, and the parts of a split of {joined.name} have terms that "
            f"are no neighbours: parallelize({joined.name}, combine=tm.PRIVATE) has ranges of neighbours"
        )
    forms, variables = sets.outputs(update.coords), sets.variables(update.frame)
    names = list[str]()
    for loop in run:
        form = forms[update.depth(loop)]
        same = [n for n, v in zip(update.dims, variables, strict=True) if n in whole.over and form.plain_is_equal(v)]
        if not same:
            raise CommandError(
                f"loop {program.loops[loop].name} of the bundle {joined.name} does not count a dimension of "
                f"{whole.name} as it was declared: give coalesce and split before other commands on it"
            )
        names.append(same[0])
    return whole, tuple(names)


def _numbers(program: Program, run: tuple[LoopId, ...], numbered: Sequence[str]) -> Expr:
    """The number of an iteration of a bundle, of its iterators: ``((h - h0)*M + (x - x0))*K + (y - y0)``."""
    sides = sides_of(iterations(program, run), len(run))
    if sides is None:
        raise CommandError("nothing runs in these loops, so that there is nothing to deal out")
    total: Expr | None = None
    for name, low, extent in zip(numbered, sides.lows, sides.extents, strict=True):
        first = of_params(low.to_pw_aff().project_domain_on_params(), program.context)
        count = of_params(extent.to_pw_aff().project_domain_on_params(), program.context)
        own = (
            Iter(name, int64)
            if sets.is_constant(low) and sets.constant_of(low) == 0
            else _of("-", Iter(name, int64), first)
        )
        total = own if total is None else _of("+", _of("*", total, count), own)
    assert total is not None
    return total


def _with_iterator(program: Program, whole: Computation, added: str, by: int, guard: Expr, dealt: Dealt) -> Computation:
    """The reduction with one more iterator, just inside those that are numbered, whose iterations have a part each."""
    at = 1 + max(whole.over.index(name) for name in dealt.numbered)
    over = (*whole.over[:at], added, *whole.over[at:])
    frame = program.algorithm.frame(whole.name, (*whole.iterators, *over))
    variables = sets.variables(frame)
    new = variables.pop(len(whole.iterators) + at)
    old = sets.function(frame, whole.name, variables)
    points = whole.points.preimage_multi_aff(old).intersect(sets.within(new, 0, by))
    kept = whole.guards[:-1] if whole.name in program.algorithm.dealt else whole.guards
    return replace(whole, points=points, over=over, guards=(*kept, guard), written=None)


def _in_loop(
    program: Program, update: Statement, run: tuple[LoopId, ...], changed: Computation, added: str, new: Sequence[str]
) -> Program:
    """The program whose update has the new iterator, in a loop just inside the bundle."""
    frame = program.algorithm.frame(update.name, changed.point_iterators)
    variables = sets.variables(frame)
    part = variables.pop(changed.point_iterators.index(added))
    forms = sets.outputs(sets.compose(sets.function(frame, update.name, variables), update.coords))
    number, at = program.next_loop(), update.depth(run[-1]) + 1
    forms.insert(at, part)
    inner = [guard for guard in changed.guards if mentions(guard, changed.over)]
    outer = [guard for guard in changed.guards if not mentions(guard, changed.over)]
    statement = replace(
        update,
        dims=changed.point_iterators,
        instances=sets.with_dims(sets.named(changed.points, update.name), changed.point_iterators),
        point=sets.renamed(sets.identity(frame), update.source),
        loops=(*update.loops[:at], number, *update.loops[at:]),
        coords=sets.function(frame, None, forms),
        guards=(*outer, *inner),
    )
    bundle = Bundle(new[0])
    loops = [replace(program.loops[loop], bundle=bundle) for loop in run]
    return program.with_loop(*loops, Loop(number, new[1])).with_statement(statement)


def _number(value: int) -> Expr:
    return typed_const(value, int64)


def _of(op: str, left: Expr, right: Expr, dtype: DType = int64) -> Expr:
    return Binary(op, left, right, dtype)
