"""The terms of a reduction dealt out by their numbers, where the loops over them are a bundle.

::

    for j = (h, x, y):            for j0 = (h, x, y): for j1 in 0..256:
      C += e(h, x, y)     -->       if (the number of (h, x, y)) % 256 == j1: C += e(h, x, y)

The number of a term, ``(h*M + x)*K + y``, is no affine form. The condition is one on values for the proof, which holds
whatever the numbers are; the reduction has each term once, since a number has one remainder. So the new loop is an
ordinary one with a constant number of iterations, for threads, blocks, `rfactor` and trees, and the rest of the
bundle runs inside. Code walks the terms of one part, and divides before that (`passes.loops.walk_bundles`).

Threads of cores have ranges of neighbouring terms: the number divided by the length of a range, in place of the
remainder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation, DealtTerms
from tiramisu_py.algorithm.expressions import Binary, Const, Expr, Iter, typed_const
from tiramisu_py.algorithm.spellings import fresh_name, underscored
from tiramisu_py.algorithm.traversal import mentions
from tiramisu_py.algorithm.types import int64
from tiramisu_py.errors import CommandError
from tiramisu_py.program.bundles import BundledLoops
from tiramisu_py.program.loops import Bundle, Loop, LoopId
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.schedule.command_arguments import unused
from tiramisu_py.schedule.reductions.rfactor import original_update, over_values

#: The parts that terms are dealt out to are less than this together.
MOST_PARTS = 2**31


def dealt_out(program: Program, update: Statement, run: tuple[LoopId, ...], by: int, new: Sequence[str]) -> Program:
    """The program with the terms of a bundle in `by` parts: bundle ``new[0]``, and loop ``new[1]`` over the parts."""
    unused(program, program.with_this_loop(run[0]), new, apart=run)
    whole, numbered = _checked(program, update, run, "split")
    if whole.op is None or not whole.op.commutative:
        joined = program.loops[run[0]].bundle
        assert joined is not None
        raise CommandError(
            f"{whole.op} of {whole.name} is not commutative, and the parts of a split of {joined.name} have terms that "
            f"are no neighbours: parallelize({joined.name}, combine=tm.PRIVATE) has ranges of neighbours"
        )
    before = program.algorithm.dealt.get(whole.name)
    _check_again(whole, numbered, before, by)
    added = fresh_name(new[1], whole.point_iterators, underscored)
    own: Expr = Iter(added, int64)
    parts = 1 if before is None else before.parts
    part = own if before is None else _of("+", _of("*", own, _number(parts)), before.part)
    selector = _of("%", _numbers(program, run, numbered)[0], _number(parts * by))
    names = (added, *(() if before is None else before.added))
    dealt = DealtTerms(whole if before is None else before.whole, numbered, names, parts * by, selector, part)
    return _in_loop(program, update, run, _with_iterator(program, whole, by, dealt, inside=True), dealt, new)


def in_ranges(program: Program, update: Statement, run: tuple[LoopId, ...], ranges: int, new: Sequence[str]) -> Program:
    """The program with the terms of a bundle in ranges of neighbours, as long as each other, in a loop around it."""
    unused(program, program.with_this_loop(run[0]), new, apart=run)
    whole, numbered = _checked(program, update, run, "combine=tm.TREE")
    if whole.name in program.algorithm.dealt:
        raise CommandError(
            f"the terms of {whole.name} are dealt out already, by split: give parallelize the loop over their parts"
        )
    positions = [whole.over.index(name) for name in numbered]
    first = min(positions)
    if (whole.op is None or not whole.op.commutative) and positions != list(range(first, first + len(numbered))):
        raise CommandError(
            f"{whole.op} of {whole.name} is not commutative, and the loops of {new[0]} run over its terms in another "
            f"order than that of {', '.join(whole.over)}: coalesce them in this order"
        )
    added = fresh_name(new[1], whole.point_iterators, underscored)
    number, total = _numbers(program, run, numbered)
    rounded = _of("//", _of("+", total, _number(ranges - 1)), _number(ranges))
    selector = _of("//", number, _of("max", rounded, _number(1)))
    dealt = DealtTerms(whole, numbered, (added,), ranges, selector, Iter(added, int64))
    return _in_loop(program, update, run, _with_iterator(program, whole, ranges, dealt, inside=False), dealt, new)


def _check_again(whole: Computation, numbered: tuple[str, ...], before: DealtTerms | None, by: int) -> None:
    """Refuse to deal out terms again by other numbers, or to too many parts."""
    if before is not None and (before.numbered != numbered or not isinstance(before.selector, Binary)):
        raise CommandError(
            f"terms of {whole.name} are dealt out by their numbers over {', '.join(before.numbered)}: join all loops "
            "over terms to one bundle"
        )
    if before is not None and isinstance(before.selector, Binary) and before.selector.op != "%":
        raise CommandError(f"the terms of {whole.name} are in ranges already, for combine=tm.TREE: split them before")
    parts = 1 if before is None else before.parts
    if parts * by >= MOST_PARTS:
        raise CommandError(f"the terms of {whole.name} would be in {parts} * {by} parts: make them fewer")


def _checked(
    program: Program, update: Statement, run: tuple[LoopId, ...], what: str
) -> tuple[Computation, tuple[str, ...]]:
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
        raise CommandError(f"{others[0]} shares the bundle {joined.name} with {update.handle}: give {what} before")
    original_update(program, update, f"{what} of the bundle {joined.name}")
    whole = program.algorithm.computations[update.source]
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


def _numbers(program: Program, run: tuple[LoopId, ...], numbered: Sequence[str]) -> tuple[Expr, Expr]:
    """The number of an iteration of a bundle, ``((h - h0)*M + (x - x0))*K + (y - y0)``, and how many there are."""
    known = BundledLoops(program, run).first_and_count()
    if known is None:
        raise CommandError("nothing runs in these loops, so that there is nothing to deal out")
    number, total = list[Expr](), list[Expr]()
    for name, first, count in zip(numbered, *known, strict=True):
        is_zero = isinstance(first, Const) and first.value == 0
        own: Expr = Iter(name, int64) if is_zero else _of("-", Iter(name, int64), first)
        number.append(own if not number else _of("+", _of("*", number[-1], count), own))
        total.append(count if not total else _of("*", total[-1], count))
    return number[-1], total[-1]


def _with_iterator(program: Program, whole: Computation, by: int, dealt: DealtTerms, *, inside: bool) -> Computation:
    """The reduction with one more iterator, whose iterations have a part each: just inside those that are numbered, or
    just outside.
    """
    positions = [whole.over.index(name) for name in dealt.numbered]
    at = 1 + max(positions) if inside else min(positions)
    over = (*whole.over[:at], dealt.added[0], *whole.over[at:])
    frame = program.algorithm.frame(whole.name, (*whole.iterators, *over))
    variables = sets.variables(frame)
    new = variables.pop(len(whole.iterators) + at)
    old = sets.function(frame, whole.name, variables)
    points = whole.points.preimage_multi_aff(old).intersect(sets.within(new, 0, by))
    kept = whole.guards[:-1] if whole.name in program.algorithm.dealt else whole.guards
    return replace(whole, points=points, over=over, guards=(*kept, dealt.guard), written=None)


def _in_loop(
    program: Program,
    update: Statement,
    run: tuple[LoopId, ...],
    changed: Computation,
    dealt: DealtTerms,
    new: Sequence[str],
) -> Program:
    """The program whose update has the new iterator, in a loop just inside the bundle, or just outside for ranges."""
    frame = program.algorithm.frame(update.name, changed.point_iterators)
    variables = sets.variables(frame)
    added = changed.point_iterators.index(dealt.added[0])
    inside = added > changed.point_iterators.index(dealt.numbered[-1])
    part = variables.pop(added)
    forms = sets.outputs(sets.compose(sets.function(frame, update.name, variables), update.coords))
    number, at = program.next_loop(), update.depth(run[-1]) + 1 if inside else update.depth(run[0])
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
    program = program.with_(algorithm=program.algorithm.with_dealt(changed, dealt))
    return program.with_loop(*loops, Loop(number, new[1])).with_statement(statement)


def _number(value: int) -> Expr:
    return typed_const(value, int64)


def _of(op: str, left: Expr, right: Expr) -> Expr:
    return Binary(op, left, right, int64)
