"""The recipe for reductions on a GPU: a thread, a warp or a block for each value, or several blocks in two passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Const, Expr, Iter
from tiramisu_py.errors import ArgumentError
from tiramisu_py.program.loops import Combine
from tiramisu_py.program.program import Program
from tiramisu_py.program.targets import Gpu
from tiramisu_py.recipes.reductions.reduction_form import Read, ReductionForm
from tiramisu_py.recipes.sizes_by_name import with_sizes
from tiramisu_py.view.occupancy import multiprocessors, occupancy

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
    return any(_is_multiple(program, extent, vector) for extent in buffer.extents[len(buffer.extents) - len(run) :])


def _is_multiple(program: Program, extent: Expr, vector: int) -> bool:
    """Whether an extent is a multiple of a number, by facts about sizes."""
    space = program.algorithm.frame(None, ())
    try:
        form = Affine(space, {}).single(extent)
    except NotAffine:
        return False
    rest = form.sub(sets.scaled(sets.floor_div(form, vector), vector))
    other = sets.universe(space).subtract(sets.within(rest, 0, 1))
    return bool(other.intersect_params(program.context.params()).is_empty())


# -- the commands


@dataclass(frozen=True, eq=False)
class ReductionOnGpu:
    """The schedule of one reduction on a GPU."""

    form: ReductionForm
    on: Gpu
    sizes: GpuReductionSizes
    across: Combine

    def apply(self) -> None:
        """Apply the commands."""
        if self.sizes.group == 1 and not self.sizes.loads:
            self._a_thread_each()
        elif self.form.is_of_columns:
            self._columns()
        elif self.form.values:
            self._rows()
        else:
            self._whole()

    def _tag(self, blocks: Sequence[Iter], threads: Sequence[Iter], several: bool = False) -> None:
        """Run the loops on the GPU; `several` blocks have parts of a value."""
        self.form.target.tag_gpu(
            blocks=blocks, threads=threads, stream=self.on.stream, device=self.on.device,
            combine=Combine.TREE if self.sizes.group > 1 else None, across=self.across if several else None,
        )  # fmt: skip

    def _values(self) -> list[Iter]:
        """The loops of values: one, or as many as a grid has axes."""
        found = self.form.joined_values()
        if len(found) > AXES - bool(self.sizes.loads):
            raise ArgumentError(
                f"reduction: {self.form.target} has {len(found)} iterators of values that are no box with constant "
                f"inner extents, and a grid has {AXES} axes: join some of them first, with coalesce"
            )
        return found

    def _a_thread_each(self) -> None:
        """Each value by a thread of its own."""
        target, fresh = self.form.target, self.form.recipe.fresh
        if not self.form.values:
            raise ArgumentError(
                f"reduction: {target} is one value, and a single thread would combine its terms, in order: "
                f"use on=tm.cores(), or {target}.update.rfactor(...) first"
            )
        *outer, last = self._values()
        block, thread = fresh(f"{last.name}0"), fresh(f"{last.name}1")
        target.split(last, self.sizes.threads, block, thread)
        target.update.after(target.init, thread)
        self._tag([*outer, block], [thread])

    def _whole(self) -> None:
        """One value: a block for all of its terms, or for a part of them."""
        target = self.form.target
        terms = self.form.joined(self.form.terms)
        several = bool(self.sizes.loads) or len(terms) > 1
        part = self._part(terms) if several else self.form.recipe.fresh(f"{terms[0].name}0")
        if not several:
            target.update.split(terms[0], max(self.form.most(self.form.declared.over) or 1, 1), part, terms[0])
            target.init.set_schedule(f"{{ [] -> [{part} = 0] }}")
            target.update.after(target.init, part)
        self._tag([part], self._dealt_out(terms), several)

    def _rows(self) -> None:
        """Each value by a group of threads, which are neighbours: the groups of a block have neighbouring values."""
        target, fresh = self.form.target, self.form.recipe.fresh
        blocks, threads = self._values(), list[Iter]()
        terms = self.form.joined(self.form.terms)
        groups, last = self.sizes.threads // self.sizes.group, blocks[-1]
        if groups > 1:
            blocks = [*blocks[:-1], fresh(f"{last.name}0")]
            threads = [fresh(f"{last.name}1")]
            target.split(last, groups, blocks[-1], threads[0])
        if self.sizes.loads:
            part = self._part(terms)
            target.update.reorder(*blocks, part, *threads, *terms)
            blocks = [*blocks, part]
        else:
            target.update.after(target.init, (threads or blocks)[-1])
        self._tag(blocks, [*threads, *self._dealt_out(terms)], bool(self.sizes.loads))

    def _part(self, terms: Sequence[Iter]) -> Iter:
        """The loop over the parts of a value, each for a block: so many loads of each thread."""
        part, count = self.form.recipe.fresh(f"{terms[0].name}0"), max(self.sizes.loads, 1)
        inner, outer = self._threads(terms)
        many = count * (inner * self.sizes.vector if len(terms) == 1 else outer)
        self.form.target.update.split(terms[0], many, part, terms[0])
        return part

    def _columns(self) -> None:
        """Values side by side along x, and the terms of each along y."""
        target, fresh = self.form.target, self.form.recipe.fresh
        *outer, last = self._values()
        terms, group = self.form.joined(self.form.terms), self.sizes.group
        strip, column = fresh(f"{last.name}0"), fresh(f"{last.name}1")
        target.split(last, self.sizes.threads // group, strip, column)
        first = terms[0]
        turn, thread = fresh(f"{first.name}1"), fresh(f"{first.name}2")
        blocks = [*outer, strip]
        if self.sizes.loads:
            part = fresh(f"{first.name}0")
            target.update.split(first, self.sizes.loads * group, part, first)
            blocks = [*outer, part, strip]
        target.update.split(first, group, turn, thread)
        target.update.reorder(*blocks, column, thread, turn, *terms[1:])
        if not self.sizes.loads:
            target.update.after(target.init, column)
        self._tag(blocks, [thread, column], bool(self.sizes.loads))

    def _threads(self, terms: Sequence[Iter]) -> tuple[int, int]:
        """The threads of a group along the innermost loop over terms, and along the one around it."""
        most = self.form.most(self.form.run()) if len(terms) > 1 else None
        if most is None:
            return self.sizes.group, 1
        inner = min(_power_of_two(max(most // self.sizes.vector, 1)), self.sizes.group)
        return inner, self.sizes.group // inner

    def _dealt_out(self, terms: Sequence[Iter]) -> list[Iter]:
        """The loops over the threads of a group, each with several neighbours at once."""
        update, fresh, sizes = self.form.target.update, self.form.recipe.fresh, self.sizes
        term, (inner, outer), found = terms[-1], self._threads(terms), list[Iter]()
        if outer > 1:
            around = terms[-2]
            turn, thread = fresh(f"{around.name}1"), fresh(f"{around.name}2")
            update.split(around, outer, turn, thread)
            found = [thread]
        turn, thread = fresh(f"{term.name}1"), fresh(f"{term.name}2")
        update.split(term, inner * sizes.vector, turn, thread)
        if sizes.vector > 1:
            lane = fresh(f"{term.name}3")
            update.split(thread, sizes.vector, thread, lane)
            update.vectorize(lane, sizes.vector, combine=Combine.PRIVATE)
        return [*found, thread]
