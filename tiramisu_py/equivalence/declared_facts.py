"""Facts that inputs are declared with, applied to what is computed: the runs of an inverse, and values in runs.

::

    out[n] = sum over q in start[n] .. start[n + 1]: g(order[q])    -->    out[n] = sum over p with n == dst[p]: g(p)

    msg[r, p] = e(r, p) for p in types[r] .. types[r + 1]           -->    msg[p] = e(etype[p], p)

``order`` has in run n the positions at which ``dst`` is n, each once; each position is in one run, ``etype[p]``. Both
are verified at a call. What is read or bounded in any other way stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.declarations import Algorithm, Computation, Input
from tiramisu_py.algorithm.declare.run_numbers import known_numbers, less_one, numbers_of_runs
from tiramisu_py.algorithm.domains.affine import Affine
from tiramisu_py.algorithm.domains.domain import conjuncts, with_size
from tiramisu_py.algorithm.domains.gathers import has_all_terms, is_in_runs
from tiramisu_py.algorithm.domains.reads import narrowest
from tiramisu_py.algorithm.domains.runs import Run, is_number_of_run, runs, start_bounds
from tiramisu_py.algorithm.expressions import Access, Cast, Const, Expr, Iter, Param, binary
from tiramisu_py.algorithm.traversal import accesses, mentions, rewrite
from tiramisu_py.algorithm.types import strong
from tiramisu_py.records import dataclass

_T = TypeVar("_T")

# -- facts of one algorithm, in another one


def with_facts_of(one: Algorithm, other: Algorithm) -> Algorithm:
    """An algorithm with the keys, inverses and runs that only the other one takes, of inputs that both have."""
    waiting = [*_facts(other)]
    while True:
        ready = [(known, added) for known, added in waiting if one.inputs.keys() >= {*known}]
        if not ready:
            return one
        waiting = [each for each in waiting if each not in ready]
        for _, added in ready:
            if one.inputs.keys().isdisjoint(added):
                one = _with_inputs(one, [other.inputs[name] for name in added])


def _facts(algorithm: Algorithm) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The facts about inputs: the names of these, and of the inputs that are declared with the fact."""
    for each in algorithm.inputs.values():
        if each.distinct is not None:
            yield each.distinct.keys, (*each.distinct.columns, each.name)
        if each.inverts is not None:
            yield (each.inverts.of,), (each.inverts.start, each.name)
        if each.run_of:
            yield (each.name,), (each.run_of,)


def _with_inputs(one: Algorithm, added: Sequence[Input]) -> Algorithm:
    """An algorithm with more inputs; the number of distinct combinations is a size of their own."""
    for of in added:
        sizes = of.values if of.distinct is not None and of.values is not None else ()
        for size in sizes:
            if isinstance(size, Param) and size.name not in one.params:
                one = with_size(one, size.name)
    for each in added:
        one = one.with_input(each)
    return one


# -- sums over the runs of an inverse


def by_places(algorithm: Algorithm, c: Computation) -> Computation:
    """A sum over the runs of an inverse as one over the positions that have its places; any other one as it is."""
    if c.op is None or c.stage is not None:
        return c
    for order in (each for each in algorithm.inputs.values() if each.inverts is not None):
        for run in _runs_of_terms(algorithm, c, order):
            changed = _at_places(algorithm, c, order, run)
            if changed is not None:
                return changed
    return c


def _runs_of_terms(algorithm: Algorithm, c: Computation, order: Input) -> list[Run]:
    """The runs of an inverse that conditions bound the terms by."""
    assert order.inverts is not None
    start = order.inverts.start
    return [*runs([*start_bounds({start: algorithm.inputs[start]}, _reader(c), c.guards)])]


def _at_places(algorithm: Algorithm, c: Computation, order: Input, run: Run) -> Computation | None:
    """The terms of a run by their positions; None unless each run has all of its terms, which are read in order."""
    about, points = order.inverts, c.points.intersect_params(algorithm.context)
    row, term = (_iterator_of(c, form) for form in (run.row, run.position))
    if about is None or row not in c.iterators or term not in c.over:
        return None
    count, extent = less_one(algorithm.inputs[run.start].shape[0]), order.shape[0]
    axis, place = (c.point_iterators.index(name) for name in (term, row))
    is_whole = has_all_terms(points, axis, term, extent) and is_in_runs(points, axis, term, extent)
    if not is_whole or not is_in_runs(points, place, row, count):
        return None
    kept = [each for each in _conditions(c) if not any(each.same_as(bound) for bound in run.conditions)]
    changed = [_by_position(each, term, order) for each in (c.expr, *kept)]
    if any(each is None for each in changed):
        return None
    index = algorithm.inputs[about.of]
    at = typed(binary("==", Iter(row), Access(index.name, (Iter(term),), index.dtype, algorithm.owner)))
    expr, *guards = (each for each in changed if each is not None)
    return replace(c, expr=expr, guards=(at, *guards))


def _by_position(e: Expr, term: str, order: Input) -> Expr | None:
    """An expression with the position in place of ``order[term]``; None where it depends on the term otherwise."""

    def is_read(node: Expr) -> bool:
        bare = narrowest(node)
        at = narrowest(bare.indices[0]) if isinstance(bare, Access) and bare.source == order.name else None
        return isinstance(at, Iter) and at.name == term

    if mentions(rewrite(e, lambda node: Const(0, node.dtype) if is_read(node) else None), [term]):
        return None
    return _with_number(e, is_read, Iter(term))


# -- values in runs


def by_positions(algorithm: Algorithm) -> Algorithm:
    """The algorithm with values in runs as values of positions, where all that read them read each in its run."""
    algorithm = _with_numbers(algorithm)
    for name in algorithm.computations:
        form = _form_of(algorithm, algorithm.computations[name])
        if form is not None and form.is_read_in_its_run():
            algorithm = form.applied()
    return algorithm


def _with_numbers(algorithm: Algorithm) -> Algorithm:
    """The algorithm with the run of each position of all runs that have a number for each."""
    for start in algorithm.inputs.values():
        taken = {*algorithm.inputs, *algorithm.computations, *algorithm.params}
        if (
            start.covers is not None
            and known_numbers(algorithm, start.name) is None
            and f"{start.name}_of" not in taken
        ):
            own = numbers_of_runs(algorithm, start.name, algorithm.owner, start.location)
            algorithm = algorithm.with_computations({own.name: own, **algorithm.computations})
    return algorithm


def _form_of(algorithm: Algorithm, c: Computation) -> _InRuns | None:
    """How values are in runs; None for values that are in none, and for those that are read from outside."""
    if c.stage is not None or c.group or c.run_of or c.name in c.sources:
        return None
    if c.name in algorithm.outputs and (c.shape is not None or c.name in algorithm.by_index):
        return None  # the caller has them by their rows, too
    for run in runs([*start_bounds(algorithm.inputs, _reader(c), c.guards)]):
        start, numbers = algorithm.inputs[run.start], known_numbers(algorithm, run.start)
        row, position = (_iterator_of(c, form) for form in (run.row, run.position))
        if numbers is None or start.covers is None or row not in c.iterators or position not in c.iterators:
            continue
        made = _InRuns(algorithm, c, run, row, position, numbers)
        if all(made.is_everywhere(points) for points in (c.domain, c.points)):
            return made
    return None


@dataclass(frozen=True, eq=False)
class _InRuns:
    """Values ``c[.., row, .., position, ..]`` at the positions of the run of the row; `numbers` has that of each."""

    algorithm: Algorithm
    c: Computation
    run: Run
    row: str
    position: str
    numbers: Input | Computation

    def is_everywhere(self, points: isl.Set) -> bool:
        """Whether points are the same for each row, and of positions that are in runs."""
        points, names = points.intersect_params(self.algorithm.context), self.c.iterators
        row, position = (names.index(name) for name in (self.row, self.position))
        start = self.algorithm.inputs[self.run.start]
        count, covers = less_one(start.shape[0]), start.covers
        assert covers is not None
        is_in_rows = has_all_terms(points, row, self.row, count) and is_in_runs(points, row, self.row, count)
        return is_in_rows and is_in_runs(points, position, self.position, covers)

    def is_read_in_its_run(self) -> bool:
        """Whether each value is read at the run of its position alone."""
        for reader in self.algorithm.computations.values():
            if self.c.name not in reader.sources:
                continue
            reads = [a for e in (reader.expr, *reader.guards) for a in accesses(e) if a.source == self.c.name]
            if reader.stage is not None or any(a.source == self.c.name for e in reader.guards for a in accesses(e)):
                return False
            if not all(self._is_own(reader, read) for read in reads):
                return False
        return True

    def _is_own(self, reader: Computation, read: Access) -> bool:
        row, position = (read.indices[self.c.iterators.index(name)] for name in (self.row, self.position))
        if is_number_of_run(self.algorithm, row, self.run.start, position):
            return True
        n, p = narrowest(row), narrowest(position)
        return any(
            isinstance(n, Iter) and isinstance(p, Iter) and run.start == self.run.start
            and (_iterator_of(reader, run.row), _iterator_of(reader, run.position)) == (n.name, p.name)
            for run in runs([*start_bounds(self.algorithm.inputs, _reader(reader), reader.guards)])
        )  # fmt: skip

    def applied(self) -> Algorithm:
        """The algorithm with values by position, and reads of them."""
        computed = {name: self._read_by_position(each) for name, each in self.algorithm.computations.items()}
        return self.algorithm.with_computations({**computed, self.c.name: self._by_position()})

    def _by_position(self) -> Computation:
        c, axis = self.c, self.c.iterators.index(self.row)
        number = Access(self.numbers.name, (Iter(self.position),), self.numbers.dtype, self.algorithm.owner)

        def in_place(e: Expr) -> Expr:
            return _with_number(e, lambda node: _is_iterator(node, self.row), number)

        kept = [each for each in _conditions(c) if not any(each.same_as(bound) for bound in self.run.conditions)]
        return replace(
            c,
            iterators=_without(c.iterators, axis),
            domain=self._without_row(c.domain, c.iterators, axis),
            points=self._without_row(c.points, c.point_iterators, axis),
            expr=in_place(c.expr),
            guards=tuple(map(in_place, kept)),
        )

    def _without_row(self, points: isl.Set, names: tuple[str, ...], axis: int) -> isl.Set:
        """The points at positions, also where there are no runs: there are no positions then."""
        start, space = self.algorithm.inputs[self.run.start], points.get_space()
        reader, row = Affine(space, {self.row: sets.variables(space)[axis]}), Iter(self.row)
        has_runs = sets.freed(reader.condition((row >= 0) & (row < less_one(start.shape[0]))), axis).params()
        kept = points.project_out(isl.dim_type.set, axis, 1).gist_params(has_runs)
        return sets.with_dims(sets.named(kept, self.c.name), _without(names, axis))

    def _read_by_position(self, c: Computation) -> Computation:
        axis = self.c.iterators.index(self.row)

        def at_position(e: Expr) -> Expr | None:
            if not isinstance(e, Access) or e.source != self.c.name:
                return None
            return replace(e, indices=tuple(rewrite(each, at_position) for each in _without(e.indices, axis)))

        return replace(c, expr=rewrite(c.expr, at_position)) if self.c.name in c.sources else c


# -- expressions


def _with_number(e: Expr, is_read: Callable[[Expr], bool], number: Expr) -> Expr:
    """An expression with another integer in place of what `is_read`: of its type, or as it is where it is an index."""

    def change(node: Expr) -> Expr | None:
        if is_read(node):
            kind = strong(node.dtype)
            return number if kind == strong(number.dtype) else Cast(number, kind)
        if isinstance(node, Access):
            return replace(node, indices=tuple(number if is_read(i) else rewrite(i, change) for i in node.indices))
        return None

    return rewrite(e, change)


def _is_iterator(e: Expr, name: str) -> bool:
    bare = narrowest(e)
    return isinstance(bare, Iter) and bare.name == name


def _conditions(c: Computation) -> list[Expr]:
    return [each for guard in c.guards for each in conjuncts(typed(guard))]


def _reader(c: Computation) -> Affine:
    space = c.points.get_space()
    return Affine(space, dict(zip(c.point_iterators, sets.variables(space), strict=True)))


def _iterator_of(c: Computation, form: isl.Aff) -> str:
    """The iterator that a form over the points is; an empty name for other forms."""
    every = zip(c.point_iterators, sets.variables(c.points.get_space()), strict=True)
    return next((name for name, own in every if own.plain_is_equal(form)), "")


def _without(values: Sequence[_T], axis: int) -> tuple[_T, ...]:
    return (*values[:axis], *values[axis + 1 :])
