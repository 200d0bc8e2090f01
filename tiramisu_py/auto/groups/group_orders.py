"""Orders for computations that depend on each other: sums with their terms outside, and sweeps of one step in one nest.

Sums and the values that they depend on, with the terms outside: each value is passed on to all sums that use it.

::

    for i, j:                                   for i:
        for k: s[i, j] += a[i, k] * a[k, j]         for j: s[i, j] = 0
        a[i, j] = A[i, j] - s[i, j]       -->       for k:
                                                        a[i, k] = A[i, k] - s[i, k]
                                                        for j: s[i, j] += a[i, k] * a[k, j]

The innermost loop is then over sums, whose terms are neighbours in memory. Whether all that a term reads is there in
time, the proof says.

Sweeps of one step in one nest: each row of a computation as soon as the rows are there that it reads.

::

    for t:                              for t:
        for i, j: e[t, i, j]                for i:
        for i, j: h[t, i, j]      -->           for j: e[t, i, j]
                                                for j: h[t, i - 1, j]

A row is then in the cache when the next computation reads it. Rows depend on each other: threads cannot share them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.auto.groups.nests import iterators_of, members_of, statement_handle
from tiramisu_py.auto.model.carried import LoopDependences
from tiramisu_py.auto.model.offers import Fresh, Offer, Problem
from tiramisu_py.auto.model.strides import loop_cost
from tiramisu_py.function import Function
from tiramisu_py.program.ordering import shared
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.records import dataclass

#: The vectors of a strip whose sums stay in registers.
STRIP = 4


def terms_outside(problem: Problem, name: str) -> Iterator[Offer]:
    """The offer of a group with one sum over one iterator, in the loops of the values that read it."""
    names = members_of(problem, name)
    program = problem.function.program
    statements = [each for source in names for each in program.statements_of(source)]
    sums = [each for each in statements if each.role is Role.UPDATE]
    if len(sums) != 1:
        return
    (update,) = sums
    declared = problem.computation(update.source)
    if len(declared.over) != 1 or declared.in_order:
        return
    others = [each for each in statements if each is not update]
    depth = len(update.loops) - 1
    if depth < 2 or any(shared(each, update) != depth or len(each.loops) != depth for each in others):
        return
    iterators = iterators_of(update, declared.point_iterators)
    along, term = iterators[depth - 1], iterators[depth]
    touched = problem.touches(update.source)
    if along is None or term is None or loop_cost(touched, declared, along) >= loop_cost(touched, declared, term):
        return
    first = [each for each in others if each.role is Role.INIT]
    values = [each for each in others if each.role is not Role.INIT]
    if not first or not values:
        return
    lanes = problem.lanes(update.source)
    what = f"{term} outside of {along}, vectors of {lanes} along {along}: each value goes to all sums that read it"
    why = f"terms are contiguous along {along}, not along {term}"
    found = _TermsOutside(problem, update, first[0], tuple(values))
    yield Offer(
        name, what, why, lambda function: found.apply(function, False), names,
        problem.work(update.source, along, lanes, stores=2.0),
    )  # fmt: skip
    yield Offer(
        name, f"{what}, in strips of {STRIP} vectors whose sums stay in registers", why,
        lambda function: found.apply(function, True), names,
        problem.work(update.source, along, lanes, stores=0.0), is_tiled=True,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _TermsOutside:
    """A sum, its start, and the values that read it, in loops with the terms outside of the last one."""

    problem: Problem
    update: Statement
    first: Statement
    values: tuple[Statement, ...]

    def apply(self, function: Function, in_strips: bool) -> None:
        """The orders of the loops, or with strips of the last loop outside of all others."""
        fresh, depth = Fresh(function), len(self.update.loops) - 1
        names = _loop_names(self.update, function.program.loop_names(self.update))
        outer, inner, terms = names[: depth - 1], names[depth - 1], names[depth]
        lanes = self.problem.lanes(self.update.source)
        strip = None
        if in_strips:
            strip = fresh(f"{inner}0").name, fresh(f"{inner}1").name, STRIP * lanes
        for each in (self.update, *self.values, self.first):
            inside = (inner,) if each is self.first else (terms, inner) if each is self.update else (terms,)
            text = _time_map(each, (*outer, *inside), each is self.update, strip, each in self.values)
            statement_handle(function, each).set_schedule(text)
        before = self.first
        for each in (*self.values, self.update):
            level = Iter(outer[-1] if before is self.first else terms)
            statement_handle(function, each).after(statement_handle(function, before), level)
            before = each
        update = statement_handle(function, self.update)
        if in_strips:
            function[self.update.source].store_at(update, Iter(outer[-1]))
        for each in (self.update, self.first):
            statement_handle(function, each).vectorize(Iter(strip[1] if strip else inner), lanes, remainder="mask")


def _loop_names(update: Statement, names: Sequence[str]) -> list[str]:
    """Names of loops in a time map: another one for a loop whose iteration is not the iterator of the same name."""
    forms = [affine_text(form) for form in sets.outputs(update.coords)]
    return [
        f"{name}_" if name in update.dims and form != name else name for name, form in zip(names, forms, strict=True)
    ]


def _time_map(
    statement: Statement, order: Sequence[str], swaps: bool, strip: tuple[str, str, int] | None, is_value: bool
) -> str:
    """The isl text of a statement's loops in an order; `swaps` says that the last two were exchanged.

    With a strip, its loop is outermost, and that inside of it innermost, but for a value, which has only one of them.
    """
    forms = [affine_text(form) for form in sets.outputs(statement.coords)]
    if swaps:
        forms = [*forms[:-2], forms[-1], forms[-2]]
    pairs = [*zip(order, forms, strict=True)]
    if strip is not None:
        block, lane, width = strip
        form = f"({forms[-1]})" if " " in forms[-1] else forms[-1]
        inside = pairs if is_value else [*pairs[:-1], (lane, f"{form} mod {width}")]
        pairs = [(block, f"floor({form} / {width})"), *inside]
    outputs = ", ".join(name if name == form else f"{name} = {form}" for name, form in pairs)
    return f"{{ [{', '.join(statement.dims)}] -> [{outputs}] }}"


def affine_text(form: isl.Aff) -> str:
    """An affine form as isl writes it, without the frame."""
    text = str(form)
    return text[text.index("[(") + 2 : text.rindex(")]")]


def fused(problem: Problem, name: str) -> Iterator[Offer]:
    """The offer of a group whose computations share the loop over steps, and have the same number of loops inside."""
    names = members_of(problem, name)
    program = problem.function.program
    statements = tuple(each for source in names for each in program.statements_of(source))
    alike = len({len(each.loops) for each in statements}) == 1 and all(each.role is Role.VALUE for each in statements)
    if problem.threads > 1 or len(statements) < 2 or not alike or len(statements[0].loops) < 3:
        return
    if any(shared(a, b) != 1 for a, b in pairwise(statements)):
        return
    dependences = LoopDependences(program, statements)
    ordered = sorted(statements, key=lambda each: program.positions[each.name])
    delays = _delays(dependences, ordered)
    inner = [each.loops[-1] for each in statements]
    if delays is None or dependences.carrying & set(inner):
        return
    lanes = problem.lanes(name)

    def apply(function: Function) -> None:
        for before, after in pairwise(ordered):
            function[after.source].fuse(function[before.source], Iter(program.loop_names(after)[1]))
        for each, delay in zip(ordered, delays, strict=True):
            if delay:
                now = function.program.statements[each.name]
                function[each.source].shift(Iter(function.program.loop_names(now)[1]), delay)
            function[each.source].vectorize(Iter(program.loop_names(each)[-1]), lanes, remainder="mask")

    rows = program.loop_names(ordered[0])[1]
    said = ", ".join(f"{each.source} {delay} later" for each, delay in zip(ordered, delays, strict=True) if delay)
    last = problem.computation(name).iterators[-1]
    yield Offer(
        name, f"{', '.join(each.source for each in ordered)} in one loop over {rows}{f', {said}' if said else ''}",
        "a row is in the cache when the next computation reads it", apply, names,
        problem.work(name, last, lanes, moved=0.4),
    )  # fmt: skip


def _delays(dependences: LoopDependences, ordered: Sequence[Statement]) -> list[int] | None:
    """How many rows later each computation runs, so that what it needs of the same step is there; None if none do."""
    delays: list[int] = []
    for position, statement in enumerate(ordered):
        least = 0
        for before, delay in zip(ordered[:position], delays, strict=True):
            for each in dependences.all:
                if each.first is before and each.second is statement:
                    inside = sets.equal_prefix(each.pairs, 1)
                    distance = 0 if inside.is_empty() else sets.least_distance(inside, 1)
                    if distance is None:
                        return None
                    least = max(least, delay - distance if not inside.is_empty() else 0)
        delays.append(least)
    return delays
