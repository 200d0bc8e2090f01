"""The recipe for reductions on a GPU: a thread, a warp or a block for each value, or several blocks in two passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile

from tiramisu_py import Combine, Gpu, Iter
from tiramisu_py.errors import ArgumentError
from tiramisu_py.queries import Const, Program, is_multiple, multiprocessors, occupancy
from tiramisu_py.recipes.reductions.reduction_form import Read, ReductionForm
from tiramisu_py.recipes.sizes_by_name import with_sizes
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
    warp = form.recipe.function.program.gpu.warp
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
    vector = program.gpu.widest // max(each.bytes for each in along)
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


def _last(loops: Sequence[Iter]) -> Iter | None:
    return loops[-1] if loops else None


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
    on: Gpu
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
        return OnLoops(self.form, [*outer, block], [thread], thread, _last(self.form.terms))

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
        return OnLoops(form, [part], threads, part, _last(threads), several)

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
        return OnLoops(form, blocks, [*threads, *own], shared, _last(own), several, of_values)

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
