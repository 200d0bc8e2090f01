"""The recipe for reductions on the cores of a processor: terms or values in vectors, blocks of them on threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from operator import mul

from tiramisu_py import Combine, Iter, Reduction
from tiramisu_py.queries import Role
from tiramisu_py.recipes.cpu import Cpu
from tiramisu_py.recipes.reductions.columns import PAGE, SHARE, ColumnSizes, in_blocks_of_rows, in_strips
from tiramisu_py.recipes.reductions.reduction_form import ReductionForm
from tiramisu_py.recipes.reductions.rows import MOST_LANES, accumulating
from tiramisu_py.recipes.reductions.strips import StripLoops, for_all_terms, in_blocks_of_terms
from tiramisu_py.recipes.sizes_by_name import with_sizes
from tiramisu_py.records import dataclass

#: Terms of a block of a sum of everything: enough for a thread, and small beside the array of partial results.
BLOCK = 1 << 14
#: Rows of a thread's block where all columns are one strip: their results are few beside what they read.
ROWS_OF_BLOCK = 1 << 10
#: Rows that are added at once to a strip of columns.
ROWS = 8


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
        if form.is_of_columns and form.values:
            return cls(lanes, ROWS_OF_BLOCK, ROWS, strip_of(form, lanes, cpu))
        return cls(accumulating(lanes, cpu), BLOCK, ROWS, 1)

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

    @property
    def of_columns(self) -> ColumnSizes:
        """The sizes of strips of columns."""
        return ColumnSizes(self.rows, self.lanes, self.strip)

    def has_one_strip(self, form: ReductionForm) -> bool:
        """Whether all columns are one strip, and rows blocks enough for threads, at every size."""
        if not form.is_of_columns or len(form.values) != 1 or not form.has_one_value or form.in_order:
            return False
        columns, inner = form.most(form.value_names), form.most(form.term_names[1:])
        if columns is None or columns > self.lanes * self.strip or not inner:
            return False
        return form.along(form.terms[0].name).reach(4 * self.first_of_block(form) - 1)

    def first_of_block(self, form: ReductionForm) -> int:
        """The iterations of the first loop over terms that make a block of rows."""
        return max(self.block // (form.most(form.term_names[1:]) or 1), 1)


def strip_of(form: ReductionForm, lanes: int, cpu: Cpu) -> int:
    """The vectors of a strip: long runs of each row, which memory delivers faster, but strips enough for threads.

    Where it is not known how many strips there are, and only strips are shared, they are narrower.
    """
    shared = len(form.values) > 1 or form.most(form.value_names) is not None
    return max(min(cpu.first // SHARE, PAGE if shared else PAGE // 4) // (lanes * form.target.dtype.bytes), 1)


def in_registers(form: ReductionForm) -> bool:
    """Whether rows are combined in registers before they are added to strips of columns."""
    plain = len(form.values) == len(form.terms) == 1
    return form.is_of_columns and plain and form.has_one_value and not form.in_order


@dataclass(frozen=True, eq=False)
class ReductionOnCores:
    """The schedule of one reduction; on ranks of what one rank has of it, in the loop `within`."""

    form: ReductionForm
    sizes: CoreReductionSizes

    def apply(self, beside: StripLoops | None = None) -> StripLoops | None:
        """Apply the commands, in the loops of another reduction of columns if they serve; the loops for the next."""
        form, sizes = self.form, self.sizes
        if in_registers(form):
            loops = form.recipe, form.reduction, form.terms[0], form.values[0], sizes.of_columns
            if sizes.has_one_strip(form):
                in_blocks_of_rows(*loops, sizes.block)
            else:
                in_strips(*loops, by_rows=False)
        elif sizes.has_one_strip(form):
            return in_blocks_of_terms(form, sizes.of_columns, sizes.first_of_block(form), beside)
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
        if not self.form.in_order:
            self.form.update.vectorize(term, self.sizes.lanes, combine=Combine.PRIVATE)

    def columns(
        self,
        values: Sequence[Iter],
        terms: Sequence[Iter],
        within: Sequence[Iter] = (),
        beside: StripLoops | None = None,
    ) -> StripLoops:
        """Values side by side in vectors, a strip of them for all terms; threads share the strips."""
        return for_all_terms(self.form, self.sizes.of_columns, values, terms, within, beside)

    def _whole(self, terms: Sequence[Iter]) -> None:
        """One value: blocks of terms on threads, whose partial results are combined in order."""
        if self.form.is_ordered:
            return
        partial, block, innermost = self.blocks_of_terms(terms)
        partial.update.after(partial.init, block)
        partial.update.parallelize(block)
        if not self.form.in_order:
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
        return partial, block, self._in_one_loop(partial, joined)

    def _in_one_loop(self, partial: Reduction, joined: bool) -> Iter:
        """The innermost loop of partial results, over the terms of a block by their numbers where these were joined."""
        program = self.form.recipe.function.program
        update = next(each for each in program.statements_of(partial.name) if each.role is Role.UPDATE)
        block, *terms = program.loop_names(update)
        if not joined:
            return Iter(terms[-1])
        extents = [self.form.along(name).end for name in terms[1:]]
        strides = [*reversed([*accumulate(reversed(extents), mul, initial=1)])]
        number = sum(
            (s * Iter(name) for s, name in zip(strides[1:], terms[1:], strict=True)), strides[0] * Iter(terms[0])
        )
        term = self.form.names.of("number", f"{block}_term")
        own = Iter(block)
        partial.update.set_schedule({own: own, term: number - self.sizes.block * own})
        return term
