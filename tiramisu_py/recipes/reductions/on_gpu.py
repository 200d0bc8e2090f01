"""Reductions on a GPU: a thread, a warp or a block for each value, or several blocks in two passes.

Those of the same values are in one kernel, with what is computed beside and from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import takewhile

from tiramisu_py import Combine, Computation, GpuThreads, Iter, Memory, Reduction, Selection
from tiramisu_py.errors import ArgumentError
from tiramisu_py.queries import Const, Program, accesses, is_multiple, multiprocessors, occupancy
from tiramisu_py.recipes.recipe import Recipe, with_sizes
from tiramisu_py.recipes.reductions.forms import (
    Family,
    LoopNames,
    Options,
    Read,
    ReductionForm,
    Stages,
    follower,
    has_terms_of,
    is_fresh,
    values_alone,
    with_producers,
)
from tiramisu_py.records import dataclass

#: Threads of a block, and the registers that a thread of such a kernel takes at most.
THREADS, REGISTERS = 256, 32
#: The axes of a grid.
AXES = 3
#: Loads of a thread for its part of a value, where several blocks have parts: from the fewest to the most.
FEWEST_LOADS, MOST_LOADS = 2, 16
#: Terms of a value that one thread takes alone: a tree of fewer saves nothing.
ALONE = 8
#: Terms of a value from which a block takes them rather than a warp.
LONG = 4096


@dataclass(frozen=True)
class GpuReductionSizes:
    """The sizes of a schedule on a GPU.

    `threads` of a block; `group` of threads that share the terms of a value; `vector` elements that a thread loads at
    once; `loads` of a thread for its part of a value, where several blocks have parts of it, 0 where one has all.
    """

    threads: int
    group: int
    vector: int
    loads: int

    def has_parts(self, form: ReductionForm) -> bool:
        """Whether several blocks have parts of a value."""
        return bool(self.loads) or (self.group > 1 and not form.values and not form.joins_terms())

    def joint(self, other: GpuReductionSizes) -> GpuReductionSizes:
        """The sizes of a kernel for two reductions."""
        return GpuReductionSizes(
            self.threads, max(self.group, other.group), min(self.vector, other.vector), max(self.loads, other.loads)
        )

    def replaced(self, given: Mapping[str, int]) -> GpuReductionSizes:
        """The sizes, those that the user gives instead; raises `ArgumentError`."""
        chosen = with_sizes(self, "reduction", given, least={"loads": 0})
        if chosen.threads % chosen.group:
            raise ArgumentError(
                f"reduction: {chosen.threads} threads are no multiple of a group of {chosen.group}: a block has whole "
                "groups"
            )
        return chosen

    def space(self, form: ReductionForm) -> dict[str, list[int]]:
        """Values of each size that are worth trying: one for what the form of the reduction does not use."""
        groups = [each for each in (1, 8, 32, self.threads) if each > 1 or form.values] if self.group > 1 else [1]
        vectors = {1 << k for k in range(self.vector.bit_length())}
        return {
            "threads": [128, self.threads, 512],
            "group": sorted({each for each in groups if each <= self.threads // 2} | {self.group}),
            "vector": sorted(vectors),
            "loads": sorted({max(self.loads // 2, 1), self.loads, 2 * self.loads}) if self.loads else [0],
        }


def sizes_on_gpu(form: ReductionForm, gpu: str | int) -> GpuReductionSizes:
    """The sizes that follow from the form of a reduction, and from facts about its sizes."""
    values, terms = form.most(form.declared.iterators), form.most(form.declared.over)
    if form.in_order:
        return GpuReductionSizes(THREADS, 1, 1, 0)
    vector = 1 if form.is_of_columns or not form.has_one_value else _vector(form)
    group = _group(form, values, terms, vector, gpu)
    blocks = None if values is None else max(-(-values * group // THREADS), 1)
    if blocks is None or blocks >= blocks_at_once(gpu):
        return GpuReductionSizes(THREADS, group, vector, 0)
    a_load, parts = group * vector, -(-blocks_at_once(gpu) // blocks)
    loads = MOST_LOADS if terms is None else max(min(terms // (a_load * parts), MOST_LOADS), FEWEST_LOADS)
    few = terms is not None and terms <= 2 * loads * a_load
    return GpuReductionSizes(THREADS, group, vector, 0 if few else loads)


def blocks_at_once(gpu: str | int) -> int:
    """The blocks that a GPU holds at a time."""
    return multiprocessors(gpu) * occupancy(gpu, THREADS, REGISTERS, THREADS * 8).blocks


def _group(form: ReductionForm, values: int | None, terms: int | None, vector: int, gpu: str | int) -> int:
    """The threads that share the terms of a value: all of a block, a warp, or less than a warp for short ones."""
    warp = form.recipe.function.program.targets.gpu.warp
    most = THREADS if terms is None else min(_power_of_two(max(terms // vector, 1)), THREADS)
    if not form.values:
        return most
    if terms is not None and terms <= (4 * ALONE if form.is_of_columns else ALONE):
        return 1
    if form.is_of_columns:
        last = form.most(form.declared.iterators[-1:])
        return min(THREADS // (warp if last is None else min(2 * _power_of_two(max(last - 1, 1)), warp)), most)
    few = values is not None and values * warp < blocks_at_once(gpu) * THREADS
    long = terms is not None and terms >= LONG
    return min(THREADS if few or long else warp, most)


def _power_of_two(most: int) -> int:
    """The largest power of two up to a number."""
    return 1 << most.bit_length() - 1


# -- loads of several elements


def _vector(form: ReductionForm) -> int:
    """The neighbours that a thread loads at once: as wide as loads are, where rows begin at multiples of that."""
    program, over = form.recipe.function.program, {*form.declared.over}
    along = [each for each in form.reads if each.mentions & over]
    if not along or not all(each.indices[-1] == form.contiguous for each in along):
        return 1
    vector = program.targets.gpu.widest // max(each.bytes for each in along)
    while vector > 1 and not all(_begins_at_multiples(program, each, form.declared.over, vector) for each in along):
        vector //= 2
    return max(vector, 1)


def _begins_at_multiples(program: Program, read: Read, over: Sequence[str], vector: int) -> bool:
    """Whether each run of terms begins at an element whose number is a multiple of `vector`."""
    buffer = program.buffers[program.storages[read.source].buffer]
    if buffer.strides is not None or len(buffer.extents) != len(read.indices):
        return False
    if read.indices == (*over,) and all(isinstance(extent, Const) for extent in buffer.extents[1:]):
        return True
    run = list(takewhile(lambda name: name in over, reversed(read.indices)))
    return any(is_multiple(program, extent, vector) for extent in buffer.extents[len(buffer.extents) - len(run) :])


# -- the commands


@dataclass(frozen=True)
class OnLoops:
    """The loops that a kernel's part is to have: `shared` is the innermost one that is not over the terms of a block,
    `innermost` is that in which others may use what it loads, and `of_values` the innermost one over values, of those
    that `several` blocks have parts of.
    """

    form: ReductionForm
    blocks: list[Iter]
    threads: list[Iter]
    shared: Iter
    innermost: Iter | None = None
    several: bool = False
    of_values: Iter | None = None


@dataclass(frozen=True, eq=False)
class ReductionOnGpu:
    """The schedule of one reduction on a GPU, or of what is computed for its terms or values.

    If it is not `alone` in its kernel, the order of its statements and of others is given by those.
    """

    form: ReductionForm
    on: GpuThreads
    sizes: GpuReductionSizes
    across: Combine
    alone: bool = True

    def placed(self) -> OnLoops:
        """Apply the commands that make its loops, which are still to be tagged."""
        self._values_outside()
        if self.sizes.group == 1 and not self.sizes.loads:
            return self._a_thread_each()
        if self.form.is_of_columns:
            return self._columns()
        return self._rows() if self.form.values else self._whole()

    @property
    def _across(self) -> Combine:
        """How blocks that share a value combine: several values at once are not added atomically."""
        atomic = self.across is Combine.ATOMIC
        return Combine.TWO_PASS if atomic and not self.form.has_one_value else self.across

    def tag(self, placed: OnLoops) -> None:
        """Run the loops on the GPU, several blocks for the parts of a value where they have parts."""
        self.form.target.tag_gpu(
            blocks=placed.blocks, threads=placed.threads, stream=self.on.stream, device=self.on.device,
            combine=self.combine, across=self._across if placed.several else None,
        )  # fmt: skip

    @property
    def combine(self) -> Combine | None:
        """How threads combine their results."""
        return Combine.TREE if self.sizes.group > 1 and self.form.start is not None else None

    def _values_outside(self) -> None:
        """The loops over terms inside of those over values."""
        declared, wanted = self.form.declared, [*self.form.values, *self.form.terms]
        if not declared.is_reduction and [each.name for each in wanted] != [*declared.iterators]:
            self.form.target.reorder(*wanted)

    def _values(self) -> list[Iter]:
        """The loops of values: one, or as many as a grid has axes."""
        found = self.form.joined_values()
        if len(found) > AXES - bool(self.sizes.loads):
            raise ArgumentError(
                f"reduction: {self.form.target} has {len(found)} iterators of values that are no box with constant "
                f"inner extents, and a grid has {AXES} axes: join some of them first, with coalesce"
            )
        return found

    def _started(self, shared: Iter) -> None:
        """The start in the loops of the terms, where one block has all of these."""
        if self.form.start is not None and self.alone:
            self.form.update.after(self.form.start, shared)

    def _a_thread_each(self) -> OnLoops:
        """Each value by a thread of its own."""
        target, named = self.form.target, self.form.names.of
        if not self.form.values:
            raise ArgumentError(
                f"reduction: {target} is one value, and a single thread would combine its terms, in order: "
                f"use on=tm.cores(), or {target}.update.rfactor(...) first"
            )
        *outer, last = self._values()
        block, thread = named("block", f"{last.name}0"), named("thread", f"{last.name}1")
        target.split(last, self.sizes.threads, block, thread)
        self._started(thread)
        return OnLoops(self.form, [*outer, block], [thread], thread, [None, *self.form.terms][-1])

    def _whole(self) -> OnLoops:
        """One value: a block for all of its terms, or for a part of them."""
        form, terms = self.form, self.form.joined(self.form.terms)
        several = bool(self.sizes.loads) or len(terms) > 1
        if terms and several:
            part = self._part(terms)
        else:
            part = form.names.of("part", f"{terms[0].name if terms else form.target.name}0")
        if terms and not several:
            form.update.split(terms[0], max(form.most(form.term_names) or 1, 1), part, terms[0])
        if not terms or (form.start is not None and not several):
            (form.start or form.target).set_schedule({part: 0})
            self._started(part)
        threads = self._dealt_out(terms)
        return OnLoops(form, [part], threads, part, [None, *threads][-1], several)

    def _rows(self) -> OnLoops:
        """Each value by a group of threads, which are neighbours: the groups of a block have neighbouring values."""
        form, named = self.form, self.form.names.of
        blocks, threads = self._values(), list[Iter]()
        terms = form.joined(form.terms)
        groups, last = self.sizes.threads // self.sizes.group, blocks[-1]
        of_values = last
        if groups > 1:
            blocks = [*blocks[:-1], named("block", f"{last.name}0")]
            threads = [named("row", f"{last.name}1")]
            form.target.split(last, groups, blocks[-1], threads[0])
            of_values = threads[0]
        if self.sizes.loads and terms:
            part = self._part(terms)
            form.update.reorder(*blocks, part, *threads, *terms)
            blocks = [*blocks, part]
        else:
            self._started((threads or blocks)[-1])
        own = self._dealt_out(terms)
        shared, several = (threads or blocks)[-1], bool(self.sizes.loads and terms)
        return OnLoops(form, blocks, [*threads, *own], shared, [None, *own][-1], several, of_values)

    def _part(self, terms: Sequence[Iter]) -> Iter:
        """The loop over the parts of a value, each for a block: so many loads of each thread."""
        part, count = self.form.names.of("part", f"{terms[0].name}0"), max(self.sizes.loads, 1)
        inner, outer = self._threads(terms)
        many = count * (inner * self.sizes.vector if len(terms) == 1 else outer)
        self.form.update.split(terms[0], many, part, terms[0])
        return part

    def _columns(self) -> OnLoops:
        """Values side by side along x, and the terms of each along y."""
        form, named = self.form, self.form.names.of
        *outer, last = self._values()
        terms, group = form.joined(form.terms), self.sizes.group
        strip, column = named("block", f"{last.name}0"), named("column", f"{last.name}1")
        form.target.split(last, self.sizes.threads // group, strip, column)
        if not terms:
            return OnLoops(form, [*outer, strip], [column], column)
        first = terms[0]
        turn, thread = named("turn", f"{first.name}1"), named("thread", f"{first.name}2")
        blocks = [*outer, strip]
        if self.sizes.loads:
            part = named("part", f"{first.name}0")
            form.update.split(first, self.sizes.loads * group, part, first)
            blocks = [*outer, strip, part] if self._across is Combine.LAST_BLOCK else [*outer, part, strip]
        form.update.split(first, group, turn, thread)
        form.update.reorder(*blocks, column, thread, turn, *terms[1:])
        if not self.sizes.loads:
            self._started(column)
        return OnLoops(form, blocks, [thread, column], column, [turn, *terms[1:]][-1], bool(self.sizes.loads), column)

    def _threads(self, terms: Sequence[Iter]) -> tuple[int, int]:
        """The threads of a group along the innermost loop over terms, and along the one around it."""
        most = self.form.most(self.form.run()) if len(terms) > 1 else None
        if most is None:
            return self.sizes.group, 1
        inner = min(_power_of_two(max(most // self.sizes.vector, 1)), self.sizes.group)
        return inner, self.sizes.group // inner

    def _dealt_out(self, terms: Sequence[Iter]) -> list[Iter]:
        """The loops over the threads of a group, each with several neighbours at once."""
        update, named, sizes, found = self.form.update, self.form.names.of, self.sizes, list[Iter]()
        if not terms:
            return found
        term, (inner, outer) = terms[-1], self._threads(terms)
        if outer > 1:
            around = terms[-2]
            turn, thread = named("turn around", f"{around.name}1"), named("thread around", f"{around.name}2")
            update.split(around, outer, turn, thread)
            found = [thread]
        turn, thread = named("turn", f"{term.name}1"), named("thread", f"{term.name}2")
        update.split(term, inner * sizes.vector, turn, thread)
        if sizes.vector > 1:
            lane = named("lane", f"{term.name}3")
            update.split(thread, sizes.vector, thread, lane)
            update.vectorize(lane, sizes.vector, combine=None if self.form.start is None else Combine.PRIVATE)
        return [*found, thread]


@dataclass(frozen=True, eq=False)
class KernelOfFamily:
    """The kernel of reductions and their followers, or the two kernels where several blocks have parts of a value.

    ::

        for h0 on blocks, for h1, t on threads:     order(top.init, top.update, total.init, total.update, y, at=h1)
            top, total: trees, results in registers
            y: each thread its terms

    Reductions over the same terms, of which none reads another, share the loop over terms: what both read is loaded
    once. The results of one that only the kernel reads are in registers of all threads.
    """

    recipe: Recipe
    family: Family
    on: GpuThreads
    sizes: GpuReductionSizes
    across: Combine

    def apply(self) -> None:
        """Apply the commands."""
        family = self.family
        if len(family.reductions) == 1 and not family.producers and not family.followers:
            commands = self._commands(family.reductions[0], alone=True)
            commands.tag(commands.placed())
            return
        reductions = {form: self._commands(form).placed() for form in family.reductions}
        producers = {form: self._commands(form).placed() for form in family.producers}
        if any(placed.several for placed in reductions.values()):
            self._in_parts(reductions, producers)
        else:
            self._in_one(reductions, producers)

    def _commands(self, form: ReductionForm, alone: bool = False) -> ReductionOnGpu:
        return ReductionOnGpu(form, self.on, self.sizes, self.across, alone)

    # -- one block has all terms of a value

    def _in_one(self, reductions: dict[ReductionForm, OnLoops], producers: dict[ReductionForm, OnLoops]) -> None:
        followers = {form: self._commands(form).placed() for form in self.family.followers}
        shared = next(iter(reductions.values())).shared
        order = list[Selection]()
        for level in self.family.levels():
            order += [form.start for form in level if form.start is not None]
            order += self._sharing_terms([reductions[form] for form in level if form in reductions], producers)
            order += [form.target for form in level if form in followers]
        self.recipe.function.order(*order, at=shared)
        around = True
        over_terms = [(form, placed) for form, placed in followers.items() if form.terms]
        for form, placed in [*over_terms, *reductions.items()]:
            self._tag(form, placed, around)
            around = False
        self._in_registers([*followers, *reductions], shared)

    def _tag(self, form: ReductionForm, placed: OnLoops, around: bool) -> None:
        """Run the loops of one statement on the GPU; those `around` the terms are those of all."""
        combine = self._commands(form).combine
        if around:
            form.target.tag_gpu(
                blocks=placed.blocks, threads=placed.threads, stream=self.on.stream, device=self.on.device,
                combine=combine,
            )  # fmt: skip
        elif placed.threads:
            form.update.tag_gpu(threads=placed.threads, combine=combine)

    def _in_registers(self, forms: Sequence[ReductionForm], shared: Iter) -> None:
        """Keep the results that nothing but this kernel reads in registers of its threads."""
        algorithm = self.recipe.function.algorithm
        own = {form.target.name for form in forms}
        inlined = {name for form in forms for name in form.chain if name not in algorithm.outputs}
        for form in self.family.reductions:
            name = form.target.name
            readers = [
                each for each, made in algorithm.computations.items()
                if each != name and any(access.source == name for access in accesses(made.expr))
            ]  # fmt: skip
            if name not in algorithm.outputs and readers and {*readers} <= own | inlined:
                last = self.family.followers[-1].target if self.family.followers else self.family.reductions[-1].target
                if last is not form.target:
                    form.target.store_in(Memory.REGISTER)
                    form.target.store_at(last, shared)

    # -- several blocks have parts

    def _in_parts(self, reductions: dict[ReductionForm, OnLoops], producers: dict[ReductionForm, OnLoops]) -> None:
        for form, placed in reductions.items():
            self._commands(form).tag(placed)
        if self.family.producers or len(reductions) > 1:
            parts = [self._part(form) for form in reductions]
            starts = [part.init for part in parts]
            shared = next(iter(reductions.values())).shared
            updates = self._sharing_terms([*reductions.values()], {}, [part.update for part in parts])
            for form, placed in producers.items():
                reader = next(k for k, each in enumerate(reductions) if has_terms_of(each, form))
                assert placed.innermost is not None
                form.target.before(parts[reader].update, placed.innermost)
            self.recipe.function.order(*starts, *updates, at=shared)
        if len(reductions) > 1 or self.family.followers:
            last = self.across is Combine.LAST_BLOCK
            self._second(next(iter(reductions.values())).of_values if last else None)

    def _part(self, form: ReductionForm) -> Reduction:
        """The results of blocks."""
        part = self.recipe.function[f"{form.target.name}_blocks"]
        assert isinstance(part, Reduction)
        return part

    def _second(self, of_last: Iter | None) -> None:
        """The combinations of the results of blocks, and what is computed from them, in one kernel, or in the last
        block, in the loop over values that this has.
        """
        names = self.family.reductions[0].value_names
        shared = of_last
        if shared is None:
            shared = Iter(names[-1]) if names else Iter("once")
        order: list[Selection] = [form.reduction.init for form in self.family.reductions]
        order += [form.reduction.update for form in self.family.reductions]
        for form in self.family.followers:
            if of_last is not None:
                self._commands(form).placed()
            elif not names:
                form.target.set_schedule({shared: 0})
            order.append(form.target)
        self.recipe.function.order(*order, at=shared)

    # -- order

    def _sharing_terms(
        self,
        level: Sequence[OnLoops],
        producers: dict[ReductionForm, OnLoops],
        updates: Sequence[Selection] = (),
    ) -> list[Selection]:
        """The updates of reductions, and what they read, of which those over the same terms share the loop."""
        found, leads = list[Selection](), list[tuple[OnLoops, Selection]]()
        read = [form for form in producers if any(form.target.name in placed.form.chain for placed in level)]
        made = [(producers.pop(form), form.target) for form in read]
        updated = zip(level, updates or [placed.form.update for placed in level], strict=True)
        for placed, statement in [*made, *updated]:
            lead = next((k for k, (other, _) in enumerate(leads) if has_terms_of(other.form, placed.form)), None)
            if lead is None or placed.innermost is None:
                leads.append((placed, statement))
                found.append(statement)
            else:
                statement.after(leads[lead][1], placed.innermost)
                leads[lead] = (placed, statement)
        return found


@dataclass(frozen=True, eq=False)
class ReductionsOnGpu:
    """The schedule of reductions and of what is computed from them."""

    recipe: Recipe
    on: GpuThreads
    gpu: str | int
    across: Combine
    options: Options
    given: Mapping[str, int]
    sizes: dict[str, GpuReductionSizes] = field(default_factory=dict)

    def apply(self, stages: Stages) -> None:
        """Apply the commands, kernel by kernel."""
        families, apart = self._families(stages), list[Computation]()
        for result in stages.results:
            if not self._follows(result, families):
                apart.append(result)
        for family in families:
            forms = family.stages
            if not (len(forms) > 1 and self.recipe.tried(partial(self._kernel, family))):
                apart += self._one_by_one(family)
            for form in forms:
                form.inline_chain()
        for result in dict.fromkeys(apart):
            self._elementwise(result)

    def _kernel(self, family: Family) -> None:
        KernelOfFamily(self.recipe, family, self.on, self._joint(family), self.across).apply()

    def _one_by_one(self, family: Family) -> list[Computation]:
        """A kernel for each reduction; what is computed from them is left."""
        for form in family.reductions:
            alone = Family(LoopNames(self.recipe), [replace(form, shared_names=None)])
            self._kernel(alone)
        return [form.target for form in (*family.producers, *family.followers)]

    def _joint(self, family: Family) -> GpuReductionSizes:
        """The sizes of a kernel."""
        first, *others = [self.sizes[form.target.name] for form in family.reductions]
        for each in others:
            first = first.joint(each)
        return first

    # -- what goes together

    def _families(self, stages: Stages) -> list[Family]:
        found = list[Family]()
        for target in stages.reductions:
            form = ReductionForm(self.recipe, target, self.options)
            self.sizes[target.name] = sizes_on_gpu(form, self.gpu).replaced(self.given)
            family = found[-1] if found and self._goes_with(form, found[-1]) else None
            if family is None:
                family = Family(LoopNames(self.recipe), [])
                found.append(family)
            form = replace(form, shared_names=family.names)
            family.reductions.append(form)
            if self.across is not Combine.ATOMIC or not self.sizes[target.name].has_parts(form):
                with_producers(form, family)
        return found

    def _goes_with(self, form: ReductionForm, family: Family) -> bool:
        """Whether a reduction may share a kernel: one that reads others there, if a block has all terms of each."""
        if not family.takes(form, self._alike):
            return False
        both = [*family.reductions, form]
        apart = not any(each.source in family.sources for each in form.reads) and not family.has_dependences()
        parts = any(self.sizes[each.target.name].has_parts(each) for each in both)
        return not parts or (apart and self.across is not Combine.ATOMIC)

    def _alike(self, one: ReductionForm, other: ReductionForm) -> bool:
        a, b = self.sizes[one.target.name], self.sizes[other.target.name]
        return one.is_of_columns == other.is_of_columns and (a.group == 1) == (b.group == 1) and a.threads == b.threads

    def _follows(self, result: Computation, families: list[Family]) -> bool:
        """Whether what is computed from reductions runs in the kernel of the last of them."""
        found = follower(values_alone(self.recipe, result, self.options), families)
        if found is None:
            return False
        family, form = found
        parts = any(self._joint(family).has_parts(each) for each in family.reductions)
        if parts and (form.terms or self.across is Combine.ATOMIC):
            return False
        family.followers.append(form)
        return True

    # -- the others

    def _elementwise(self, result: Computation) -> None:
        """A kernel for a computation: a thread for each value, or one thread."""
        if not is_fresh(self.recipe, result.name):
            return
        form = values_alone(self.recipe, result, self.options)
        if form.values:
            commands = ReductionOnGpu(form, self.on, GpuReductionSizes(THREADS, 1, 1, 0), self.across)
            commands.tag(commands.placed())
        else:
            once = Iter("once")
            result.set_schedule({once: 0})
            result.tag_gpu(blocks=[once], stream=self.on.stream, device=self.on.device)
        form.inline_chain()
