"""Reductions of columns: several rows at a time, into accumulators that stay in the cache.

`columns` takes one reduction over rows; strips of columns, and blocks of terms on threads, are for any number of
dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiramisu_py import Combine, Computation, Iter, Memory, Reduction, Selection, Target
from tiramisu_py.errors import ArgumentError
from tiramisu_py.public_calls import own_call_of
from tiramisu_py.queries import accesses
from tiramisu_py.recipes.cpu import MOST_LANES, Cpu
from tiramisu_py.recipes.recipe import AppliedCommands, Recipe, processor, untouched
from tiramisu_py.recipes.reductions.forms import ReductionForm, has_terms_of
from tiramisu_py.records import dataclass

#: The most rows that are combined before their result is added to the accumulators: more save little.
MOST_ROWS = 8
#: The most bytes of the accumulators of a strip: a page, and this share of the first-level cache (as a divisor).
PAGE, SHARE = 4096, 8
#: Rows of a thread's block, if threads share the rows: each thread has its own accumulators in any case.
BLOCK = 64


@own_call_of("tm.recipes")
def columns(result: Computation, *, share: str = "columns", cpu: Cpu | Target | str | None = None) -> AppliedCommands:
    """Schedule a reduction over the first dimension: a few rows at a time, in vectors along the rows.

    ::

        print(tm.recipes.columns(total))    # total[c] += x[r, c]
            -->   r, r0, r1, c, c0, c1, c2 = tm.iters("r r0 r1 c c0 c1 c2")
                  total = f["total"]
                  total.update.split(r, 8, r0, r1)
                  total.update.rfactor(r0)
                  total.update.split(c, 64, c0, c1)
                  total.update.split(c0, 16, c2, c0)
                  total.update.reorder(c2, r0, c0, c1)
                  total.update.parallelize(c2)
                  total.update.vectorize(c1, 64, remainder="mask")
                  total_partial = f["total_partial"]
                  total_partial.compute_at(total.update, c0)
                  total_partial.store_in(tm.REGISTER)
                  total_partial.update.reorder(r, c)
                  total_partial.update.unroll(r, remainder="specialize")
                  total_partial.vectorize(c, 64, remainder="mask")

    Eight rows are combined in registers before their result is combined with the accumulators, which are the result
    itself: a strip of columns, a page of each row but at most an eighth of the first-level cache of `cpu` (default:
    this machine's), is done for all rows. Threads share the strips. With ``share="rows"`` (for few columns, less than a
    strip for each thread) threads share the rows instead, and have accumulators of their own, which are combined in
    order. The terms are combined in another order. Returns the commands that were applied, to be pasted and edited.

    Raises `ArgumentError` for what is no such reduction, with the reason, and the error of a command that is refused;
    then none of the commands is applied.
    """
    if share not in ("columns", "rows"):
        raise ArgumentError(f'columns: share={share!r}: threads share "columns" or "rows"')
    recipe = Recipe("columns", [result])
    reduction, row, column = _reduction(recipe, result)
    sizes = ColumnSizes.of(result, processor("columns", cpu))
    with recipe.together():
        in_strips(recipe, reduction, row, column, sizes, by_rows=share == "rows")
    return recipe.commands()


@dataclass(frozen=True)
class ColumnSizes:
    """The sizes of a schedule: rows that are combined at once, lanes, vector loops of a strip of columns."""

    rows: int
    lanes: int
    vectors: int

    @classmethod
    def of(cls, result: Computation, cpu: Cpu) -> ColumnSizes:
        """The sizes for values of one type on a processor."""
        size = result.dtype.bytes
        lanes = min(cpu.lanes(size) * max(cpu.registers // 8, 1), MOST_LANES)
        vectors = max(min(cpu.first // SHARE, PAGE) // (lanes * size), 1)
        return cls(MOST_ROWS, lanes, vectors)


def _reduction(recipe: Recipe, result: Computation) -> tuple[Reduction, Iter, Iter]:
    """The reduction, the iterator of its rows and that of its columns; raises `ArgumentError` for others."""
    if not isinstance(result, Reduction):
        raise ArgumentError(f"columns: {result} is not a reduction: declare it with f.reduction(..., op=tm.sum)")
    declared = recipe.function.algorithm.computations[result.name]
    if declared.in_order:
        raise ArgumentError(f"columns: {result} is ordered: it combines terms in another order")
    if len(declared.over) != 1 or len(declared.iterators) != 1:
        raise ArgumentError(
            f"columns: {result} has the iterators {', '.join(declared.iterators) or 'none'} and is over "
            f"{', '.join(declared.over)}: it takes one of each, columns and rows"
        )
    untouched(recipe, result)
    return result, Iter(declared.over[0]), Iter(declared.iterators[0])


def in_strips(recipe: Recipe, result: Reduction, r: Iter, c: Iter, sizes: ColumnSizes, by_rows: bool) -> None:
    """Apply the commands: strips of columns, or rows, on threads."""
    groups, update = _groups_of_rows(recipe, result, r, c, sizes), result.update
    if by_rows:
        r2 = recipe.fresh(f"{r.name}2")
        update.split(groups.row, BLOCK // sizes.rows, r2, groups.row)
        update.reorder(r2, *groups.loops)
        update.parallelize(r2, combine=Combine.PRIVATE)
    else:
        c2 = recipe.fresh(f"{c.name}2")
        update.split(groups.column, sizes.vectors, c2, groups.column)
        update.reorder(c2, *groups.loops)
        update.parallelize(c2)
    groups.in_registers(r, c, sizes)


def in_blocks_of_rows(recipe: Recipe, result: Reduction, r: Iter, c: Iter, sizes: ColumnSizes, rows: int) -> None:
    """Apply the commands: threads share blocks of rows, each with its own results, which are combined in order."""
    fresh, update = recipe.fresh, result.update
    r2, c2, c3 = fresh(f"{r.name}2"), fresh(f"{c.name}2"), fresh(f"{c.name}3")
    update.split(r, rows, r2, fresh(f"{r.name}3"))
    block = update.rfactor(r2)
    block.store_in([r2, c])
    update.split(c, sizes.lanes, c2, c3)
    update.reorder(c2, r2, c3)
    update.vectorize(c3, sizes.lanes, remainder="mask")
    groups = _groups_of_rows(recipe, block, r, c, sizes)
    block.init.reorder(r2, c)
    block.init.vectorize(c, sizes.lanes, remainder="mask")
    block.update.reorder(r2, *groups.loops)
    block.update.after(block.init, r2)
    block.update.parallelize(r2)
    groups.in_registers(r, c, sizes)


@dataclass(frozen=True, eq=False)
class _GroupsOfRows:
    """A reduction whose rows are combined a few at a time: the partial results, and the loops over groups and lanes."""

    result: Reduction
    partial: Reduction
    row: Iter
    column: Iter
    lane: Iter

    @property
    def loops(self) -> tuple[Iter, Iter, Iter]:
        return self.row, self.column, self.lane

    def in_registers(self, r: Iter, c: Iter, sizes: ColumnSizes) -> None:
        """Keep the partial results of a vector of columns in registers."""
        partial, update = self.partial, self.result.update
        update.vectorize(self.lane, sizes.lanes, remainder="mask")
        partial.compute_at(update, self.column)
        partial.store_in(Memory.REGISTER)
        partial.update.reorder(r, c)
        partial.update.unroll(r, remainder="specialize")
        partial.vectorize(c, sizes.lanes, remainder="mask")


def _groups_of_rows(recipe: Recipe, result: Reduction, r: Iter, c: Iter, sizes: ColumnSizes) -> _GroupsOfRows:
    fresh, update = recipe.fresh, result.update
    r0, r1 = fresh(f"{r.name}0"), fresh(f"{r.name}1")
    c0, c1 = fresh(f"{c.name}0"), fresh(f"{c.name}1")
    update.split(r, sizes.rows, r0, r1)
    partial = update.rfactor(r0)
    update.split(c, sizes.lanes, c0, c1)
    return _GroupsOfRows(result, partial, r0, c0, c1)


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
        """The handle that has the loops."""
        return self.form.update if self.part is None else self.part.update

    def serve(self, other: ReductionForm) -> bool:
        """Whether another reduction has the same points and order, and reads nothing of this one but at its points."""
        same = has_terms_of(self.form, other) and self.form.declared.dtype == other.declared.dtype
        apart = self.form.start is None or self.form.target.name not in _read(other)
        return same and apart and self.form.in_order == other.in_order


def _read(form: ReductionForm) -> set[str]:
    """The reads of a reduction, and what they are computed from."""
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
    if form.in_order or sizes.rows == 1:
        return list(terms), [c0, c1]
    update.split(terms[-1], sizes.rows, r0, r1)
    return [*terms[:-1], r0], [c0, r1, c1]


def _in_vectors(form: ReductionForm, update: Selection, sizes: ColumnSizes, row: Iter, lane: Iter) -> None:
    if not form.in_order and sizes.rows > 1:
        update.unroll(row, remainder="specialize")
    update.vectorize(lane, sizes.lanes, remainder="mask")
