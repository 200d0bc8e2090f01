"""Reductions of columns in strips: values side by side in vectors, for all terms, or for blocks of terms on threads."""

from __future__ import annotations

from collections.abc import Sequence

from tiramisu_py import Iter, Reduction, Selection
from tiramisu_py.queries import accesses
from tiramisu_py.recipes.reductions.columns import ColumnSizes
from tiramisu_py.recipes.reductions.families import has_terms_of
from tiramisu_py.recipes.reductions.reduction_form import ReductionForm
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class StripLoops:
    """The loops of a reduction of columns, by name, in which another one over the same points may run.

    They are those of its `part`, the partial results of blocks of terms or the reduction itself; or of a computation
    that reductions read point by point.
    """

    form: ReductionForm
    names: tuple[Iter, ...]
    part: Reduction | None = None

    @property
    def update(self) -> Selection:
        """What has the loops."""
        return self.form.update if self.part is None else self.part.update

    def serve(self, other: ReductionForm) -> bool:
        """Whether another reduction has the same points and order, and reads nothing of this one but at its points."""
        same = has_terms_of(self.form, other) and self.form.declared.dtype == other.declared.dtype
        apart = self.form.start is None or self.form.target.name not in _read(other)
        return same and apart and self.form.in_order == other.in_order


def _read(form: ReductionForm) -> set[str]:
    """What a reduction reads, and what that is computed from."""
    computations, found, waiting = form.recipe.function.algorithm.computations, set[str](), [form.target.name]
    while waiting:
        for access in accesses(computations[waiting.pop()].expr):
            if access.source not in found:
                found.add(access.source)
                waiting += [access.source] if access.source in computations else []
    return found


def for_all_terms(
    form: ReductionForm,
    sizes: ColumnSizes,
    values: Sequence[Iter],
    terms: Sequence[Iter],
    within: Sequence[Iter] = (),
    beside: StripLoops | None = None,
) -> StripLoops:
    """A strip of values for all terms; threads share the strips. In the loops of another reduction if they serve."""
    update, last, outer = form.update, values[-1], list(values[:-1])
    beside = beside if beside is not None and beside.serve(form) else None
    made = _names(form, last, terms[-1])
    c0, c1, c2, r0, r1 = names = made if beside is None else beside.names
    terms, inner = _in_groups(form, update, sizes, terms, (c0, c1, r0, r1))
    update.split(last, sizes.lanes, c0, c1)
    update.split(c0, sizes.vectors, c2, c0)
    update.reorder(*within, *outer, c2, *terms, *inner)
    if beside is None:
        update.parallelize(*outer, c2)
    else:
        update.after(beside.update, c0)
    _in_vectors(form, update, sizes, r1, c1)
    return StripLoops(form, names)


def in_blocks_of_terms(
    form: ReductionForm, sizes: ColumnSizes, block: int, beside: StripLoops | None = None
) -> StripLoops:
    """All values are one strip: threads share blocks of the first loop over terms, whose results are combined in order.

    In the loops of another reduction if they serve.
    """
    update, column, first = form.update, form.values[-1], form.terms[0]
    beside = beside if beside is not None and beside.serve(form) else None
    made = (*_names(form, column, form.terms[-1]), form.recipe.fresh(f"{first.name}2") if block > 1 else first)
    c0, c1, _, r0, r1, t2 = names = made if beside is None else beside.names
    if block > 1:
        update.split(first, block, t2, form.recipe.fresh(f"{first.name}3"))
    part = update.rfactor(t2)
    part.store_in([t2, column])
    _combined_in_order(form, sizes, t2)
    part.init.reorder(t2, column)
    part.init.vectorize(column, sizes.lanes, remainder="mask")
    others = form.terms if block > 1 else form.terms[1:]
    terms, inner = _in_groups(form, part.update, sizes, others, (c0, c1, r0, r1))
    part.update.split(column, sizes.lanes, c0, c1)
    part.update.reorder(t2, *terms, *inner)
    if beside is None:
        part.update.after(part.init, t2)
        part.update.parallelize(t2)
    else:
        assert beside.part is not None
        part.init.after(beside.part.init, t2)
        part.update.after(beside.update, c0)
    _in_vectors(form, part.update, sizes, r1, c1)
    return StripLoops(form, names, part)


def _names(form: ReductionForm, column: Iter, row: Iter) -> tuple[Iter, ...]:
    fresh = form.recipe.fresh
    return (*(fresh(f"{column.name}{k}") for k in range(3)), *(fresh(f"{row.name}{k}") for k in range(2)))


def _combined_in_order(form: ReductionForm, sizes: ColumnSizes, block: Iter) -> None:
    """The combination of the partial results of blocks, a vector of columns at a time."""
    update, fresh, column = form.update, form.recipe.fresh, form.values[-1]
    strip, lane = fresh(f"{column.name}2"), fresh(f"{column.name}3")
    update.split(column, sizes.lanes, strip, lane)
    update.reorder(strip, block, lane)
    update.vectorize(lane, sizes.lanes, remainder="mask")


def _in_groups(
    form: ReductionForm, update: Selection, sizes: ColumnSizes, terms: Sequence[Iter], names: tuple[Iter, ...]
) -> tuple[list[Iter], list[Iter]]:
    """The loops over terms, and those inside: a few of the last terms at once, unless they are combined one by one."""
    c0, c1, r0, r1 = names
    if form.in_order:
        return list(terms), [c0, c1]
    update.split(terms[-1], sizes.rows, r0, r1)
    return [*terms[:-1], r0], [c0, r1, c1]


def _in_vectors(form: ReductionForm, update: Selection, sizes: ColumnSizes, row: Iter, lane: Iter) -> None:
    if not form.in_order:
        update.unroll(row, remainder="specialize")
    update.vectorize(lane, sizes.lanes, remainder="mask")
