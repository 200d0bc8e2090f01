"""Sums and the values that they depend on, with the terms outside: each value is passed on to all sums that use it.

::

    for i, j:                                   for i:
        for k: s[i, j] += a[i, k] * a[k, j]         for j: s[i, j] = 0
        a[i, j] = A[i, j] - s[i, j]       -->       for k:
                                                        a[i, k] = A[i, k] - s[i, k]
                                                        for j: s[i, j] += a[i, k] * a[k, j]

The innermost loop is then over sums, whose terms are neighbours in memory. Whether all that a term reads is there in
time, the proof says.
"""

from __future__ import annotations

from collections.abc import Iterator

from tiramisu_py import Function, Iter
from tiramisu_py.auto.groups.nests import members_of
from tiramisu_py.auto.model.offers import Fresh, Offer, Problem
from tiramisu_py.auto.model.strides import loop_cost
from tiramisu_py.queries import Role, Statement, loop_forms, loop_iterators, shared, statement_handle
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
    iterators = loop_iterators(update, declared.point_iterators)
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
        names = [fresh(name) if self._is_moved(k) else Iter(name) for k, name in enumerate(self._names(function))]
        outer, inner, terms = names[: depth - 1], names[depth - 1], names[depth]
        lanes = self.problem.lanes(self.update.source)
        strip = (fresh(f"{inner}0"), fresh(f"{inner}1")) if in_strips else None
        for each in (self.update, *self.values, self.first):
            *around, last = loop_forms(each)
            if each is self.update:  # the last two loops change places
                *around, last = *around[:-1], last, around[-1]
            own = [inner] if each is self.first else [terms, inner] if each is self.update else [terms]
            loops = dict(zip([*outer, *own], [*around, last], strict=True))
            if strip is not None:  # a value has only the loop over strips
                inside = {} if each in self.values else {strip[1]: last % (STRIP * lanes)}
                kept = loops if each in self.values else dict([*loops.items()][:-1])
                loops = {strip[0]: last // (STRIP * lanes), **kept, **inside}
            statement_handle(function, each).set_schedule(loops)
        before = self.first
        for each in (*self.values, self.update):
            level = outer[-1] if before is self.first else terms
            statement_handle(function, each).after(statement_handle(function, before), level)
            before = each
        update = statement_handle(function, self.update)
        if in_strips:
            function[self.update.source].store_at(update, outer[-1])
        for each in (self.update, self.first):
            statement_handle(function, each).vectorize(strip[1] if strip else inner, lanes, remainder="mask")

    def _names(self, function: Function) -> tuple[str, ...]:
        return function.program.loop_names(self.update)

    def _is_moved(self, depth: int) -> bool:
        """Whether a loop does not run over the iterator of its name: in forms that would mean another one."""
        name = self.problem.function.program.loop_names(self.update)[depth]
        return name in self.update.dims and not loop_forms(self.update)[depth].same_as(Iter(name))
