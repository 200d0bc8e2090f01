"""The recipe for reductions on the cores of a processor: terms or values in vectors, blocks of them on threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul

from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.algorithm.traversal import accesses
from tiramisu_py.function import Reduction
from tiramisu_py.program.loops import Combine
from tiramisu_py.program.statement import Role
from tiramisu_py.recipes.cpu import Cpu
from tiramisu_py.recipes.reductions.columns import ColumnSizes, in_blocks_of_rows, in_strips
from tiramisu_py.recipes.reductions.families import has_terms_of
from tiramisu_py.recipes.reductions.reduction_form import ReductionForm
from tiramisu_py.recipes.reductions.rows import MOST_LANES, accumulating
from tiramisu_py.recipes.sizes_by_name import with_sizes

#: Terms of a block of a sum of everything: enough for a thread, and small beside the array of partial results.
BLOCK = 1 << 14
#: Rows of a thread's block where all columns are one strip: their results are few beside what they read.
ROWS_OF_BLOCK = 1 << 10
#: Rows that are added at once to a strip of columns, and the vectors of a strip.
ROWS, STRIP = 8, 8


@dataclass(frozen=True)
class CoreReductionSizes:
    """The sizes of a schedule on cores.

    `lanes` of a vector loop; `block` of terms of a single value, or of rows where all columns are one strip; `rows`
    that are combined at once, of columns; `strip` of columns, in vectors.
    """

    lanes: int
    block: int
    rows: int
    strip: int

    @classmethod
    def of(cls, form: ReductionForm, cpu: Cpu) -> CoreReductionSizes:
        """The sizes for values of one type on a processor."""
        most = min(cpu.lanes(form.target.dtype.bytes), MOST_LANES)
        lanes = 1 << (most.bit_length() - 1)  # a power of two, also of tuples
        if in_registers(form):
            columns = ColumnSizes.of(form.target, cpu)
            return cls(columns.lanes, ROWS_OF_BLOCK, columns.rows, columns.vectors)
        return cls(lanes if form.is_of_columns else accumulating(lanes, cpu), BLOCK, ROWS, STRIP)

    def replaced(self, given: Mapping[str, int]) -> CoreReductionSizes:
        """The sizes, those that the user gives instead; raises `ArgumentError`."""
        return with_sizes(self, "reduction", given)

    def space(self, form: ReductionForm) -> dict[str, list[int]]:
        """Values of each size that are worth trying: one for what the form of the reduction does not use."""
        whole, columns = not form.values or self.has_one_strip(form), form.is_of_columns and bool(form.values)
        lanes = {
            each for each in (self.lanes // 4, self.lanes // 2, self.lanes, 2 * self.lanes) if 2 <= each <= MOST_LANES
        }
        return {
            "lanes": sorted(lanes | {self.lanes}),
            "block": [self.block * part // 4 for part in (1, 2, 4, 16)] if whole else [self.block],
            "rows": [4, 8, 16] if columns and not form.in_order else [self.rows],
            "strip": sorted({max(self.strip * part // 4, 1) for part in (1, 2, 4, 8)}) if columns else [self.strip],
        }

    def has_one_strip(self, form: ReductionForm) -> bool:
        """Whether all columns are one strip, and rows blocks enough for threads, at every size."""
        if not in_registers(form):
            return False
        columns, rows = form.most(form.declared.iterators), 4 * self.block
        return columns is not None and columns <= self.lanes * self.strip and form.reaches(form.terms[0].name, rows - 1)


def in_registers(form: ReductionForm) -> bool:
    """Whether rows are combined in registers before they are added to strips of columns."""
    plain = len(form.values) == len(form.terms) == 1
    return form.is_of_columns and plain and form.has_one_value and not form.in_order


@dataclass(frozen=True, eq=False)
class StripLoops:
    """The loops of a reduction of columns, by name, in which another one over the same points may run."""

    form: ReductionForm
    names: tuple[Iter, ...]

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


@dataclass(frozen=True, eq=False)
class ReductionOnCores:
    """The schedule of one reduction; on ranks of what one rank has of it, in the loop `within`."""

    form: ReductionForm
    sizes: CoreReductionSizes

    def apply(self, beside: StripLoops | None = None) -> StripLoops | None:
        """Apply the commands, in the loops of another reduction of columns if they serve; the loops for the next."""
        form, sizes = self.form, self.sizes
        if in_registers(form):
            columns = ColumnSizes(sizes.rows, sizes.lanes, sizes.strip)
            loops = form.recipe, form.reduction, form.terms[0], form.values[0], columns
            if sizes.has_one_strip(form):
                in_blocks_of_rows(*loops, sizes.block)
            else:
                in_strips(*loops, by_rows=False)
        elif form.is_of_columns:
            return self.columns(form.values, form.terms, beside=beside)
        elif form.values:
            self.rows(form.values, form.joined(form.terms))
        else:
            self._whole(form.joined(form.terms))
        return None

    def rows(self, values: Sequence[Iter], terms: Sequence[Iter]) -> None:
        """Each value by itself: its terms in lanes, values on threads."""
        update = self.form.update
        update.after(self.form.reduction.init, values[-1])
        update.parallelize(*values)
        self.in_lanes(terms[-1])

    def in_lanes(self, term: Iter) -> None:
        """The terms of a value in lanes, where these may be combined."""
        if self.form.has_one_value and not self.form.in_order:
            self.form.update.vectorize(term, self.sizes.lanes, combine=Combine.PRIVATE)

    def columns(
        self,
        values: Sequence[Iter],
        terms: Sequence[Iter],
        within: Sequence[Iter] = (),
        beside: StripLoops | None = None,
    ) -> StripLoops:
        """Values side by side in vectors, a strip of them for all terms; threads share the strips."""
        update, fresh = self.form.update, self.form.recipe.fresh
        last, outer, row = values[-1], list(values[:-1]), terms[-1]
        if beside is not None and not beside.serve(self.form):
            beside = None
        made = [fresh(f"{last.name}{k}") for k in range(3)] + [fresh(f"{row.name}{k}") for k in range(2)]
        names = tuple(made) if beside is None else beside.names
        c0, c1, c2, r0, r1 = names
        inner = [c0, c1]
        if not self.form.in_order:
            update.split(row, self.sizes.rows, r0, r1)
            terms, inner = [*terms[:-1], r0], [c0, r1, c1]
        update.split(last, self.sizes.lanes, c0, c1)
        update.split(c0, self.sizes.strip, c2, c0)
        update.reorder(*within, *outer, c2, *terms, *inner)
        if beside is None:
            update.parallelize(*outer, c2)
        else:
            update.after(beside.form.update, c0)
        if not self.form.in_order:
            update.unroll(r1, remainder="specialize")
        update.vectorize(c1, self.sizes.lanes, remainder="mask")
        return StripLoops(self.form, names)

    def _whole(self, terms: Sequence[Iter]) -> None:
        """One value: blocks of terms on threads, whose partial results are combined in order."""
        if self.form.is_ordered:
            return
        partial, block, innermost = self.blocks_of_terms(terms)
        partial.update.after(partial.init, block)
        partial.update.parallelize(block)
        if self.form.has_one_value and not self.form.in_order:
            partial.update.vectorize(innermost, self.sizes.lanes, combine=Combine.PRIVATE)

    def blocks_of_terms(self, terms: Sequence[Iter]) -> tuple[Reduction, Iter, Iter]:
        """The partial results of blocks of terms, and their loops over blocks and over the terms of one."""
        update, named = self.form.update, self.form.names.of
        joined = len(terms) == 1 < len(self.form.terms)
        block = terms[0]
        if len(terms) == 1:
            block = named("block", f"{terms[0].name}0")
            update.split(terms[0], self.sizes.block, block, named("inner", f"{terms[0].name}1"))
        partial = update.rfactor(block)
        self.form.recipe.named(partial.name)
        return partial, block, self._in_one_loop(partial, joined)

    def _in_one_loop(self, partial: Reduction, joined: bool) -> Iter:
        """The innermost loop of partial results, over the terms of a block by their numbers where these were joined."""
        program = self.form.recipe.function.program
        update = next(each for each in program.statements_of(partial.name) if each.role is Role.UPDATE)
        block, *terms = program.loop_names(update)
        if not joined:
            return Iter(terms[-1])
        extents = [self.form.extent(name) for name in terms[1:]]
        strides = [*reversed([*accumulate(reversed(extents), mul, initial=1)])]
        number = " + ".join(
            f"{stride}*{name}" if stride > 1 else name for stride, name in zip(strides, terms, strict=True)
        )
        term = self.form.names.of("number", f"{block}_term")
        dims = ", ".join((block, *terms))
        partial.update.set_schedule(f"{{ [{dims}] -> [{block}, {term} = {number} - {self.sizes.block}*{block}] }}")
        return term
