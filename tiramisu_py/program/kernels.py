"""Kernels: the statements inside one nest of block loops, and which block and thread runs each of their instances.

A kernel is everything inside its outermost block loop. Its loops are, from the outside: loops of the host, block loops,
and then sequential and thread loops in any order, with at most one thread loop per axis around each statement. Block
and thread numbers count from the *corner* of a loop, its least coordinate: for a block loop within one launch, for a
thread loop within one iteration of the loops around it.

A kernel with counted block loops has two parts: what is inside these loops, and what follows them. Every block runs the
first part, and the last of them the second one. Each part is a nest of its own, which the other one is `beside`; its
blocks are those that run it. Block and thread numbers are those of the whole kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.errors import UnsupportedError
from tiramisu_py.program.combining.combination_trees import BlockTree
from tiramisu_py.program.loops import AXES, Combine, GpuBlock, GpuThread, Launch, LoopId
from tiramisu_py.program.machine.gpu_target import GpuTarget
from tiramisu_py.program.machine.line_alignment import with_width
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Device, Role, Statement, is_gpu
from tiramisu_py.program.storage import Memory
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class KernelNest:
    """One kernel of a program, or a part of it: its outermost block loop, and the statements inside.

    `beside` are the statements of the other part, if there is one.
    """

    program: Program
    first: LoopId
    statements: tuple[Statement, ...]
    beside: tuple[Statement, ...] = ()

    @property
    def gpu(self) -> GpuTarget:
        """The kind of GPU that it runs on."""
        return self.program.targets.gpu

    @property
    def host(self) -> tuple[LoopId, ...]:
        """The loops of the host around the kernel."""
        some = self.statements[0]
        return some.loops[: some.depth(self.first)]

    @property
    def blocks(self) -> tuple[LoopId, ...]:
        """The block loops, outermost first."""
        inside = self.statements[0].loops[len(self.host) :]
        found: list[LoopId] = []
        for loop in inside:
            if not isinstance(self.program.loops[loop].tag, GpuBlock):
                break
            found.append(loop)
        return tuple(found)

    @property
    def launch(self) -> Launch:
        """How it is launched."""
        tag = self.program.loops[self.first].tag
        assert isinstance(tag, GpuBlock)
        return tag.launch

    @property
    def name(self) -> str:
        """A name: that of the source of its last storing statement, as users know it."""
        storing = [s for s in self.statements if s.stores and s.link.combination is None]
        return storing[-1].name if storing else self.statements[0].name

    @property
    def handle(self) -> str:
        """The statement that names it, as the user addresses that: ``s.update``."""
        return next((s.handle for s in self.statements if s.name == self.name), self.name)

    @property
    def without_trees(self) -> KernelNest:
        """The kernel with only the statements of the schedule: combining trees need no additional blocks or threads."""
        own, others = (tuple(s for s in some if s.link.combination is None) for some in (self.statements, self.beside))
        return replace(self, statements=own, beside=others)

    @property
    def other_part(self) -> KernelNest | None:
        """The other part of the kernel, if there is one."""
        return replace(self, statements=self.beside, beside=self.statements) if self.beside else None

    @property
    def counted(self) -> tuple[LoopId, ...]:
        """The block loops whose last block goes on with the other part."""
        return tuple(loop for loop in self.blocks if is_counted(self.program, loop))

    @property
    def is_last(self) -> bool:
        """Whether it is the part that the last block runs: the loops of the other part are counted."""
        other = self.other_part
        return other is not None and bool(other.counted) and not self.counted

    def thread_loops(self, statement: Statement) -> tuple[LoopId | None, LoopId | None, LoopId | None]:
        """The thread loops around a statement along x, y and z; None where only thread 0 of the axis runs it."""
        found: list[LoopId | None] = [None, None, None]
        for loop in statement.loops:
            tag = self.program.loops[loop].tag
            if isinstance(tag, GpuThread):
                found[tag.axis] = loop
        return (found[0], found[1], found[2])

    # -- numbers of blocks and threads

    def corner(self, loop: LoopId) -> isl.Aff:
        """The least coordinate of a block or thread loop, as a function of the coordinates of loops around it.

        For a block loop its frame is the host loops, for a thread loop all outer loops. Raises `UnsupportedError`,
        naming the loop, if there is no affine one, or if a thread loop has no constant extent.
        """
        return self._sides[loop][0]

    def extent(self, loop: LoopId) -> int | None:
        """The largest number of iterations of a loop from its corner; None where no constant bounds it."""
        return self._sides[loop][1]

    @cached_property
    def _sides(self) -> dict[LoopId, tuple[isl.Aff, int | None]]:
        loops = {loop: None for s in self.statements for loop in s.loops if self.program.loops[loop].is_gpu}
        return {loop: self._kept_side(loop) for loop in loops}

    def _kept_side(self, loop: LoopId) -> tuple[isl.Aff, int | None]:
        """The corner and the extent of a loop, which its first statement keeps: other states of a program, and the
        steps of its completion, have many of the same statements.
        """
        using, context = self._using(loop), self.program.context
        key = (loop, len(self.host), type(self.program.loops[loop].tag), id(context), *map(id, using))
        kept: dict[object, tuple[object, tuple[isl.Aff, int | None]]] = using[0].__dict__.setdefault("_sides", {})
        if key not in kept:
            kept[key] = (context, using), self._side(loop)  # with what has the numbers in the key
        return kept[key][1]

    def _using(self, loop: LoopId) -> tuple[Statement, ...]:
        """The statements inside of a block or thread loop: of a block loop, those of the other part too."""
        inner = isinstance(self.program.loops[loop].tag, GpuThread)
        return tuple([s for s in (self.statements if inner else (*self.statements, *self.beside)) if loop in s.loops])

    def _side(self, loop: LoopId) -> tuple[isl.Aff, int | None]:
        relation = self.iterations(loop)
        lows = sorted(sets.lower_bounds(relation), key=sets.has_floors)
        box = sets.interval_around(relation, lows)
        if box is not None:
            if sets.has_floors(box.low) and isinstance(self.program.loops[loop].tag, GpuThread):
                box = _with_remainders(relation, box)
            return box.low, box.extent
        loose = [low for low in lows if sets.never_below(relation, low)]
        if loose and isinstance(self.program.loops[loop].tag, GpuBlock):
            return loose[-1], None
        interval = sets.interval(sets.at_any_params(relation.range()), 0)
        if interval is not None:
            return sets.constant(relation.get_space().domain(), interval[0]), interval[1] - interval[0] + 1
        name = self.program.loops[loop].name
        if relation.is_empty():
            raise UnsupportedError(
                f"loop {name} of a kernel has no iterations for any sizes",
                "look at the mask or the condition of what is in it: it never holds",
            )
        if isinstance(self.program.loops[loop].tag, GpuThread):
            raise UnsupportedError(
                f"loop {name} runs on threads, but its number of iterations has no constant bound",
                "split it by a constant and run the inner loop on threads",
            )
        lowest = sets.smallest_value(relation.range(), 0)
        if lowest is not None:  # blocks below the first iteration find nothing to do
            return sets.constant(relation.get_space().domain(), lowest), None
        raise UnsupportedError(
            f"loop {name} runs on blocks, but has no affine lower bound",
            "say with assume= which of its lower bounds is the least",
        )

    def iterations(self, loop: LoopId) -> isl.Map:
        """``coordinates outside -> coordinate`` of a loop, over all statements; `corner` is its minimum."""
        inner = isinstance(self.program.loops[loop].tag, GpuThread)
        parts = list[isl.Map]()
        for statement in self._using(loop):
            depth = statement.depth(loop)
            outside = statement.prefix(depth if inner else len(self.host))
            here = sets.function(statement.frame, None, [sets.outputs(statement.coords)[depth]])
            instances = with_idle_iterations(self.program, statement).intersect_params(self.program.context.params())
            parts.append(sets.relating(outside, here, instances))
        return sets.union_of(parts).coalesce()

    def numbers(self, statement: Statement, loops: Sequence[LoopId | None]) -> isl.MultiAff:
        """``instance -> coordinate - corner`` for each loop; 0 where there is none."""
        forms = [self._number(statement, loop) for loop in loops]
        return sets.function(statement.frame, None, forms)

    def _number(self, statement: Statement, loop: LoopId | None) -> isl.Aff:
        if loop is None:
            return sets.constant(statement.frame, 0)
        corner = self.corner(loop)
        depth = statement.depth(loop)
        outside = statement.prefix(sets.size(corner.get_domain_space()))
        low = sets.compose(outside, sets.function(corner.get_domain_space(), None, [corner]))
        return sets.outputs(statement.coords)[depth].sub(sets.outputs(low)[0])

    def thread_of(self, statement: Statement) -> isl.MultiAff:
        """``instance -> [x, y, z]``: the thread of its block that runs an instance."""
        return self.numbers(statement, self.thread_loops(statement))

    def block_of(self, statement: Statement) -> isl.MultiAff:
        """``instance -> coordinates of the host's loops, then of the block loops``: the block that runs an instance."""
        return statement.prefix(len(self.host) + len(self.blocks))

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        """The threads of a block along x, y and z: the most that any statement needs."""
        own, other = self._own_shape, self.other_part
        return own if other is None else _largest(own, other._own_shape)

    @cached_property
    def _own_shape(self) -> tuple[int, int, int]:
        """The threads that the statements of this part need."""
        found = [1, 1, 1]
        for statement in self.statements:
            for axis, loop in enumerate(self.thread_loops(statement)):
                extent = 1 if loop is None else self.extent(loop)
                assert extent is not None
                found[axis] = max(found[axis], extent)
        return (found[0], found[1], found[2])


def _with_remainders(relation: isl.Map, box: sets.AxisInterval) -> sets.AxisInterval:
    """The iterations of a thread loop, with those that a remainder leaves out at its begin and end.

    Then a statement under ``i % 3 == 1`` has the threads of one that runs for all i. The box stays where that begins
    with no affine number of the loops around, or has more than twice the threads.
    """
    whole = relation.remove_divs()
    lows = [low for low in sets.lower_bounds(whole) if not sets.has_floors(low)]
    found = sets.interval_around(whole, lows)
    return box if found is None or found.extent > 2 * box.extent else found


def kernels(program: Program) -> tuple[KernelNest, ...]:
    """The kernels of a program, or their parts, in the order of their first statements."""
    found: dict[LoopId, list[Statement]] = {}
    for statement in program.statements.values():
        loop = program.kernel_of(statement)
        if loop is not None:
            found.setdefault(loop, []).append(statement)
    return tuple(nest for loop, inside in found.items() for nest in _parts(program, loop, inside))


def _parts(program: Program, first: LoopId, inside: Sequence[Statement]) -> tuple[KernelNest, ...]:
    """A kernel, or its two parts: the statements inside its counted loops, and those that are not."""
    counting = tuple(s for s in inside if any(is_counted(program, loop) for loop in s.loops))
    after = tuple(s for s in inside if s not in counting)
    if not counting or not after:
        return (KernelNest(program, first, tuple(inside)),)
    return KernelNest(program, first, counting, after), KernelNest(program, first, after, counting)


def is_counted(program: Program, loop: LoopId) -> bool:
    """Whether the last block of a loop goes on with what follows the loop."""
    tag = program.loops[loop].tag
    return isinstance(tag, GpuBlock) and tag.counted


def is_locked(program: Program, loop: LoopId) -> bool:
    """Whether the blocks of a loop add to elements one after another, with a lock or in their order."""
    tag = program.loops[loop].tag
    return isinstance(tag, GpuBlock) and tag.combine in (Combine.LOCK, Combine.ORDERED)


def is_in_order(program: Program, loop: LoopId) -> bool:
    """Whether the blocks of a loop add to elements in the order of their numbers."""
    tag = program.loops[loop].tag
    return isinstance(tag, GpuBlock) and tag.combine is Combine.ORDERED


def locking(program: Program, statement: Statement) -> bool:
    """Whether blocks run a statement one after another."""
    return any(is_locked(program, loop) for loop in statement.loops)


def combines_atomically(program: Program, statement: Statement) -> bool:
    """Whether threads of one block add to one element, atomically."""
    tags = (program.loops[loop].tag for loop in statement.loops)
    return any(isinstance(tag, GpuThread) and tag.combine is Combine.ATOMIC for tag in tags)


def renewed(nest: KernelNest, program: Program) -> KernelNest:
    """This kernel, or this part of it, in a program to whose kernels statements have been added."""
    found = [one for one in kernels(program) if one.first == nest.first]
    return next((one for one in found if one.is_last == nest.is_last), found[0])


def _largest(one: tuple[int, int, int], other: tuple[int, int, int]) -> tuple[int, int, int]:
    return max(one[0], other[0]), max(one[1], other[1]), max(one[2], other[2])


def device_count(program: Program) -> int:
    """The number of GPUs that a program uses: one more than the largest GPU number."""
    used: list[Device] = [buffer.device for buffer in program.buffers.values()]
    for statement in program.statements.values():
        used += [program.loads_at(statement), program.stores_at(statement)]
        used += (
            [statement.link.waits.device]
            if statement.link.waits is not None and statement.link.waits.on is not None
            else []
        )
    return max((device + 1 for device in used if device is not None and is_gpu(device)), default=0)


def is_tree(program: Program, statement: Statement) -> bool:
    """Whether a statement's updates are combined as a tree."""
    tags = (program.loops[loop].tag for loop in statement.loops)
    combined = any(isinstance(tag, GpuBlock | GpuThread) and tag.combine is Combine.TREE for tag in tags)
    return statement.role is Role.UPDATE and combined


def block_tree(nest: KernelNest, met: Statement) -> BlockTree:
    """The tree in which the threads of a block combine partial results at `met`, a COMBINE."""
    assert met.link.combination is not None
    return BlockTree(nest.shape, met.link.combination.threads, nest.gpu.warp)


def meeting_threads(nest: KernelNest, statement: Statement) -> bool:
    """Whether more than one thread of a launch adds to the same element, so that updates and merges must be atomic."""
    program = nest.program
    buffer = program.storages[statement.memory.target].buffer
    if not statement.adds or program.buffers[buffer].memory is Memory.REGISTER:
        return False
    others = [
        other for other in nest.statements if other.stores and program.storages[other.memory.target].buffer == buffer
    ]
    found = sets.united(_threads_by_place(nest, other) for other in others if other.adds)
    return found is not None and not found.is_single_valued()


def _threads_by_place(nest: KernelNest, statement: Statement) -> isl.Map:
    """``[iteration of the host, place] -> [block, thread]``."""
    program, outer = nest.program, len(nest.host)
    place = program.place(statement, program.storages[statement.memory.target], program.value_of(statement))
    around = sets.joined(statement.prefix(outer), sets.renamed(place, None))
    where = sets.joined(nest.block_of(statement), nest.thread_of(statement))
    instances = statement.instances.intersect_params(program.context)
    return sets.relating(around, where, instances)


def axis_name(axis: int) -> str:
    """x, y or z."""
    return AXES[axis]


def all_threads(nest: KernelNest, found: isl.Set, position: int, loop: LoopId) -> isl.Set:
    """Iterations of loops with the coordinate of a thread loop replaced by those of all threads of the block.

    Iterations of loops inside it become those of any thread.
    """
    tag = nest.program.loops[loop].tag
    assert isinstance(tag, GpuThread)
    freed = sets.freed(found, position)
    number = thread_number(nest, freed.get_space(), position, loop)
    return freed.intersect(sets.within(number, 0, nest.shape[tag.axis]))


def thread_number(nest: KernelNest, space: isl.Space, position: int, loop: LoopId) -> isl.Aff:
    """The number of the thread, on a frame whose first dimensions are coordinates of loops, up to a thread loop."""
    variables = sets.variables(space)
    corner = nest.corner(loop)
    low = sets.compose(
        sets.function(space, None, variables[: sets.size(corner.get_domain_space())]),
        sets.function(corner.get_domain_space(), None, [corner]),
    )
    return variables[position].sub(sets.outputs(low)[0])


def with_idle_iterations(program: Program, statement: Statement) -> isl.Set:
    """The iterations of a statement in a kernel: its instances, and those that alignment to lines leaves idle."""
    aligned = statement.along.aligned
    if aligned is None or aligned.iterator not in statement.dims:
        return statement.instances
    instances = statement.instances.intersect_params(program.context)
    wide = with_width(instances, statement.dims.index(aligned.iterator), aligned.extent, aligned.width)
    return statement.instances if wide is None else wide
