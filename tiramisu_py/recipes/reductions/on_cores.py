"""Reductions on the cores of a processor: terms or values in vectors, blocks of them on threads.

Those of the same values are in one parallel loop, with what is computed beside and from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from operator import mul

from tiramisu_py import Combine, Computation, Iter, Reduction, Selection
from tiramisu_py.errors import ArgumentError, CommandError
from tiramisu_py.queries import Role
from tiramisu_py.recipes.cpu import MOST_LANES, Cpu
from tiramisu_py.recipes.pointwise import BLOCK as ELEMENTS
from tiramisu_py.recipes.recipe import Recipe, with_sizes
from tiramisu_py.recipes.reductions.chain_of_rows import Chain
from tiramisu_py.recipes.reductions.columns import (
    PAGE,
    SHARE,
    ColumnSizes,
    StripLoops,
    for_all_terms,
    in_blocks_of_rows,
    in_blocks_of_terms,
    in_strips,
)
from tiramisu_py.recipes.reductions.forms import (
    Family,
    LoopNames,
    Options,
    ReductionForm,
    Stages,
    follower,
    has_terms_of,
    is_fresh,
    values_alone,
    with_producers,
)
from tiramisu_py.recipes.reductions.rows import accumulating, in_rows
from tiramisu_py.records import dataclass

#: Terms of a block of a sum of everything: enough for a thread, and small beside the array of partial results.
BLOCK = 1 << 14
#: Rows of a thread's block where all columns are one strip: their results are few beside what they read.
ROWS_OF_BLOCK = 1 << 10
#: Rows that are added at once to a strip of columns.
ROWS = 8
#: The share of the second-level cache (as a divisor) that the results of a long strip have: what is read passes, too.
SHARE_OF_SECOND = 4
#: The runs of memory that are read in turn for a long strip: prefetching of processors follows a few best.
RUNS = 4
#: The runs where a strip has all values, for one core: each row follows the one before in memory, so that a run only
#: ends with its array, and few are faster still. Half of the second-level cache may then have the results.
RUNS_OF_ALL, SHARE_OF_ALL = 2, 2
#: The bytes of a cache line. A vector loop over columns takes whole ones: rows that are apart by pages displace each
#: other in the first-level cache, before the other half of a line is read.
LINE = 64


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
        size = form.target.dtype.bytes
        lanes = _power_of_two(cpu.lanes(size))
        if in_registers(form):
            columns = ColumnSizes.of(form.target, cpu)
            return cls(columns.lanes, ROWS_OF_BLOCK, columns.rows, columns.vectors)
        if form.is_of_columns and form.values:
            lanes = max(lanes, _power_of_two(LINE // size))
            long = long_strip(form, cpu)
            rows = ROWS if long is None else rows_in_turn(form, RUNS_OF_ALL if has_all(form, long) else RUNS)
            return cls(lanes, ROWS_OF_BLOCK, rows, strip_of(form, lanes, cpu) if long is None else -(-long // lanes))
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
            "rows": sorted({4, 8, 16, self.rows}) if columns and not form.in_order else [self.rows],
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


def _power_of_two(lanes: int) -> int:
    """The most lanes, at most so many, that a vector loop may have, also of tuples."""
    return 1 << (max(min(lanes, MOST_LANES), 1).bit_length() - 1)


def strip_of(form: ReductionForm, lanes: int, cpu: Cpu) -> int:
    """The vectors of a strip: long runs of each row, which memory delivers faster, but strips enough for threads.

    Where it is not known how many strips there are, and only strips are shared, they are narrower.
    """
    shared = len(form.values) > 1 or form.most(form.value_names) is not None
    return max(min(cpu.first // SHARE, PAGE if shared else PAGE // 4) // (lanes * form.target.dtype.bytes), 1)


def long_strip(form: ReductionForm, cpu: Cpu) -> int | None:
    """The values of a strip whose results stay in the second-level cache, so that each row is read in one long run.

    There are as many strips for each core; for one alone, all values are a strip if they fit. None where values of
    several iterators do not follow one another for more than a page, or have no constant number.
    """
    values, run = form.most(form.value_names), form.most(form.run_of_values())
    if not has_long_runs(form) or not values or not run:
        return None
    size, cores = form.target.dtype.bytes, max(cpu.cores, 2)
    if cpu.cores == 1 and values == run and values * size * SHARE_OF_ALL <= cpu.second:
        return values if values * size > PAGE else None
    strips = -(-values * size * SHARE_OF_SECOND // cpu.second)
    strip = min(-(-values // (-(-strips // cores) * cores)), run)
    return strip if strip * size > PAGE else None


def has_long_runs(form: ReductionForm) -> bool:
    """Whether values of several iterators, in constant numbers, follow one another in memory."""
    constant = all(form.along(name).are_constant for name in form.value_names)
    return form.options.coalesce and constant and len(form.run_of_values()) > 1


def has_all(form: ReductionForm, strip: int) -> bool:
    """Whether a strip has all values."""
    return strip == form.most(form.value_names)


def rows_in_turn(form: ReductionForm, runs: int) -> int:
    """The rows that are added at once to a long strip: so many that few `runs` of memory are read in turn."""
    terms = {*form.term_names}
    arrays = {(read.source, read.indices) for read in form.reads if read.mentions & terms}
    return max(runs // max(len(arrays), 1), 1)


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
            return self.strips(beside)
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

    def strips(self, beside: StripLoops | None) -> StripLoops:
        """Strips of all values: of those that follow one another in memory where a strip has more than a page."""
        form, sizes = self.form, self.sizes
        long = has_long_runs(form) and sizes.lanes * sizes.strip * form.target.dtype.bytes > PAGE
        return self.columns(form.joined_run() if long else form.values, form.terms, beside=beside)

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


@dataclass(frozen=True, eq=False)
class SharedLoops:
    """The loops of a family of stages.

    ::

        for h on threads:                       order(s.init, t.init, s.update, y, at=h)
            for w in lanes:                     t.update.after(s.update, w)
                s[h] += x[h, w];  t[h] = max(t[h], x[h, w])
            for w in lanes: y[h, w] = x[h, w] - s[h] / t[h]
    """

    recipe: Recipe
    family: Family
    cpu: Cpu
    plan: Callable[[ReductionForm], ReductionOnCores]

    def apply(self) -> None:
        """Apply the commands; raises `CommandError` where these stages cannot share loops."""
        first = self.family.reductions[0]
        if first.is_of_columns:
            self._columns()
        elif first.values:
            self._rows()
        else:
            self._whole()

    # -- rows

    def _rows(self) -> None:
        """Each row by a thread: the reductions in vector loops, and what follows."""
        family, values = self.family, self.family.reductions[0].values
        order, groups, waiting = list[Selection](), list[SharedTerms](), list(family.producers)
        for level in family.levels():
            made = [form for form in waiting if any(form.target.name in other.chain for other in level)]
            waiting = [form for form in waiting if form not in made]
            order += [form.start for form in level if form.start is not None]
            before = len(groups)
            for form in [*made, *level]:
                self._values_outside(form)
                terms = form.joined(form.terms)
                group = next((each for each in groups[before:] if each.takes(form)), None)
                if group is not None:
                    form.update.after(group.forms[-1].update, group.term)
                    group.forms.append(form)
                    continue
                order.append(form.update)
                if terms:
                    groups.append(SharedTerms(terms[-1], [form]))
        self.recipe.function.order(*order, at=values[-1])
        family.reductions[0].update.parallelize(*values)
        for group in groups:
            self._in_lanes(group)

    def _values_outside(self, form: ReductionForm) -> None:
        """The loops of a computation over terms inside of those over values."""
        wanted = [*form.values, *form.terms]
        if form.start is None and [each.name for each in wanted] != [*form.declared.iterators]:
            form.target.reorder(*wanted)

    def _in_lanes(self, group: SharedTerms) -> None:
        """A loop over terms in vectors: with no more accumulators than half of the registers hold."""
        reductions = [form for form in group.forms if form.start is not None]
        first = group.forms[0]
        if not reductions:
            first.target.vectorize(group.term, self._lanes(first), remainder="mask")
            if first in self.family.followers and first.target.name in self.recipe.function.algorithm.outputs:
                first.target.store_nontemporal()
        elif all(form.has_one_value and not form.in_order for form in reductions):
            reductions[0].update.vectorize(group.term, self._accumulating(reductions), combine=Combine.PRIVATE)

    def _lanes(self, form: ReductionForm) -> int:
        return min(self.cpu.lanes(form.target.dtype.bytes), MOST_LANES)

    def _accumulating(self, reductions: Sequence[ReductionForm]) -> int:
        """The lanes of reductions in one loop, whose accumulators are in half of the registers."""
        lanes = min(self.plan(form).sizes.lanes for form in reductions)
        widest = max(form.target.dtype.bytes for form in reductions)
        room = max(self.cpu.registers // (2 * len(reductions)), 1) * self.cpu.lanes(widest)
        return max(min(lanes, 1 << (room.bit_length() - 1)), 2)

    # -- columns, and one value

    def _columns(self) -> None:
        """Strips of columns, with what each vector of them reads."""
        family, strips = self.family, None
        if any(self.plan(form).sizes.has_one_strip(form) for form in family.reductions):
            raise CommandError("threads share the rows of a single strip, each with results of its own")
        for form in (*family.producers, *family.reductions):
            strips = self._in_strips(form, strips)

    def _in_strips(self, form: ReductionForm, strips: StripLoops | None) -> StripLoops:
        if strips is not None and not strips.serve(form):
            raise CommandError(f"{form.target} has other strips than {strips.form.target}")
        sizes = self.plan(self.family.reductions[0]).sizes
        return ReductionOnCores(form, sizes).strips(strips)

    def _whole(self) -> None:
        """Blocks of terms, in which the partial results of all reductions are computed in one loop."""
        order, before, block, term = list[Selection](), None, None, None
        for form in self.family.reductions:
            if form.is_ordered:
                raise CommandError(f"the terms of {form.target} are combined one by one")
            partial, block, term = self.plan(form).blocks_of_terms(form.joined(form.terms))
            order.append(partial.init)
            if before is None:
                first = partial
            else:
                partial.update.after(before.update, term)
            before = partial
        assert block is not None and term is not None
        self.recipe.function.order(*order, first.update, at=block)
        for form in self.family.producers:
            form.target.compute_at(first.update, block)
            form.target.vectorize(form.terms[-1], self._lanes(form), remainder="mask")
        first.update.parallelize(block)
        if all(form.has_one_value and not form.in_order for form in self.family.reductions):
            first.update.vectorize(term, self._accumulating(self.family.reductions), combine=Combine.PRIVATE)


@dataclass(frozen=True, eq=False)
class SharedTerms:
    """Stages that share a loop over the terms of a row."""

    term: Iter
    forms: list[ReductionForm]

    def takes(self, form: ReductionForm) -> bool:
        """Whether a reduction has the same terms, and reads what the others read or make."""
        read = {each.source for each in form.reads}
        theirs = {each.source for other in self.forms for each in other.reads}
        made = any(other.target.name in form.chain for other in self.forms)
        return form.start is not None and bool(made or read & theirs) and has_terms_of(self.forms[0], form)


@dataclass(frozen=True, eq=False)
class ReductionsOnCores:
    """The schedule of reductions and of what is computed from them."""

    recipe: Recipe
    cpu: Cpu
    options: Options
    given: Mapping[str, int]

    def apply(self, stages: Stages) -> None:
        """Apply the commands."""
        families = self._families(stages)
        apart = [result for result in stages.results if not self._follows(result, families)]
        strips: StripLoops | None = None
        for family in families:
            forms = family.stages
            done = len(forms) > 1 and self.recipe.tried(partial(self._together, family))
            if not done:
                apart += [form.target for form in (*family.producers, *family.followers)]
                for form in family.reductions:
                    strips = self._plan(replace(form, shared_names=None)).apply(strips)
            for form in forms:
                form.inline_chain()
        for result in apart:
            self._elementwise(result)

    def _plan(self, form: ReductionForm) -> ReductionOnCores:
        return ReductionOnCores(form, CoreReductionSizes.of(form, self.cpu).replaced(self.given))

    # -- what goes together

    def _families(self, stages: Stages) -> list[Family]:
        found = list[Family]()
        for target in stages.reductions:
            form = ReductionForm(self.recipe, target, self.options)
            family = found[-1] if found and self._goes_with(form, found[-1]) else None
            if family is None:
                family = Family(LoopNames(self.recipe), [])
                found.append(family)
            form = replace(form, shared_names=family.names)
            family.reductions.append(form)
            with_producers(form, family)
        return found

    def _goes_with(self, form: ReductionForm, family: Family) -> bool:
        """Whether a reduction may share loops: those over rows, or over the same terms, if it reads none of these."""
        if not family.takes(form, self._alike):
            return False
        rows = form.values and not form.is_of_columns
        return bool(rows) or not any(each.source in family.sources for each in form.reads)

    def _alike(self, one: ReductionForm, other: ReductionForm) -> bool:
        """Whether two reductions have loops of one form, and read the same unless these are over rows."""
        kinds = [(bool(form.values), form.is_of_columns, form.in_order) for form in (one, other)]
        read, its = ({each.source for each in form.reads} for form in (one, other))
        rows = one.values and not one.is_of_columns
        return kinds[0] == kinds[1] and (bool(rows) or (bool(read & its) and has_terms_of(one, other)))

    def _follows(self, result: Computation, families: Sequence[Family]) -> bool:
        """Whether what is computed from reductions runs in their loop over rows."""
        found = follower(values_alone(self.recipe, result, self.options), families)
        if found is None or found[1].beside or not found[1].values:
            return False
        found[0].followers.append(found[1])
        return True

    # -- how

    def _together(self, family: Family) -> None:
        """The stages of a family in loops that they share."""
        first = family.reductions[0]
        if first.values and not first.is_of_columns:
            chain = None if self.given or first.in_order else self._chain(family)
            if chain is not None:
                in_rows(self.recipe, chain, self.cpu)
                return
        SharedLoops(self.recipe, family, self.cpu, self._plan).apply()

    def _chain(self, family: Family) -> Chain | None:
        """All stages as rows of one result; None where they have another form."""
        if len(family.followers) != 1 or family.producers:
            return None
        try:
            chain = Chain.of(Recipe(self.recipe.name, [family.followers[0].target]))
        except ArgumentError:
            return None
        names = {stage.name for stage in chain.stages if isinstance(stage, Reduction)}
        return chain if names == family.sources else None

    def _elementwise(self, result: Computation) -> None:
        """Loops of its own for a computation: threads share the outermost one, or blocks of the only one."""
        if not is_fresh(self.recipe, result.name):
            return
        form = values_alone(self.recipe, result, self.options)
        if form.values:
            outer, *others = form.values
            if not others:
                outer, inner = self.recipe.fresh(f"{outer.name}0"), self.recipe.fresh(f"{outer.name}1")
                result.split(form.values[0], ELEMENTS, outer, inner)
                others = [inner]
            result.parallelize(outer)
            result.vectorize(others[-1], min(self.cpu.lanes(result.dtype.bytes), MOST_LANES), remainder="mask")
        form.inline_chain()
