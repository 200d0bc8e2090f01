"""Kernels: blocks in any order, several at a time; the threads of a block are strands that meet at barriers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import field, replace
from itertools import product
from math import prod
from typing import Any

import numpy as np

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.types import int64
from tiramisu_py.interpret import arithmetic
from tiramisu_py.interpret.arithmetic import Value
from tiramisu_py.interpret.devices.race_detector import AccessHistory, Clock, Watched, watched
from tiramisu_py.interpret.evaluator import Evaluator, Frame
from tiramisu_py.interpret.machine import Interpreter
from tiramisu_py.interpret.machine_faults import InterpretError
from tiramisu_py.interpret.memory import Array, allocated
from tiramisu_py.interpret.partial_results import application
from tiramisu_py.interpret.strands import Meeting, Nested, OwnSteps, Steps
from tiramisu_py.ir import (
    Allocate,
    Barrier,
    Deferred,
    KernelArray,
    KernelFunction,
    LastBlock,
    LoadMatrices,
    Locked,
    Mma,
    Node,
    Store,
    TreeReduce,
)
from tiramisu_py.program.combining.combination_trees import BlockTree
from tiramisu_py.program.loops import AXES
from tiramisu_py.program.machine.tensor_instructions import WARP_SHAPE
from tiramisu_py.program.storage import Memory
from tiramisu_py.records import dataclass

Shape = tuple[int, int, int]
#: The blocks that have taken a ticket of a number, or have had a lock, by its array and index, and what they did before
#: that: up to so many barriers.
Ended = dict[tuple[str, int], dict[Clock, int]]
#: How many blocks run at a time, and how many steps a thread takes before another one may come in between.
RESIDENT = (1, 2, 5)
BURSTS = (1, 3, 1000)


def launched(
    kernel: KernelFunction,
    grid: Shape,
    values: Sequence[Value],
    arrays: Sequence[Array],
    device: int,
    choice: random.Random,
) -> Steps:
    """The steps of one launch; raises at once where an argument is not what the kernel takes."""
    along = any(n > most for n, most in zip(kernel.threads, kernel.gpu.most_along, strict=True))
    if along or _count(kernel) > kernel.gpu.most_threads:
        raise InterpretError(f"kernel {kernel.name} has blocks of {kernel.threads} threads, more than a GPU allows")
    frame = Frame({}, {}, where=f"kernel {kernel.name}", device=device)
    names = [*kernel.params, *(scalar.name for scalar in kernel.scalars)]
    dtypes = [*(int64 for _ in kernel.params), *(scalar.dtype for scalar in kernel.scalars)]
    for name, dtype, value in zip(names, dtypes, values, strict=True):
        frame.variables[name] = arithmetic.convert(value, dtype)
    for declared, array in zip(kernel.arrays, arrays, strict=True):
        _check(kernel, declared, array, frame)
        frame.arrays[declared.name] = array if declared.passed is None else _in_other_shape(declared, array, frame)
    return _launch(kernel, grid, frame, choice)


def _count(kernel: KernelFunction) -> int:
    x, y, z = kernel.threads
    return x * y * z


def _indices(name: str, values: Shape) -> dict[str, Value]:
    """The variables that `GpuIndex` stands for."""
    return {f"{name}.{axis}": arithmetic.literal(value, int64) for axis, value in zip(AXES, values, strict=True)}


def _check(kernel: KernelFunction, declared: KernelArray, array: Array, frame: Frame) -> None:
    mapped = Memory.HOST_MAPPED in (array.memory, declared.memory) and array.device is None
    if array.device != frame.device and not mapped:
        raise InterpretError(f"kernel {kernel.name} is given {array.name}, which GPU {frame.device} cannot reach")
    shape = _shape(declared.passed_extents, frame)
    if shape != array.data.shape or declared.dtype.numpy != array.data.dtype:
        raise InterpretError(
            f"kernel {kernel.name} takes {array.name} as {declared.dtype}{list(shape)}; "
            f"it is {array.data.dtype}{list(array.data.shape)}"
        )


def _shape(extents: Sequence[Expr], frame: Frame) -> tuple[int, ...]:
    return tuple(max(0, Evaluator(frame).integer(extent)) for extent in extents)


def _in_other_shape(declared: KernelArray, array: Array, frame: Frame) -> Array:
    """These elements by the indices that the body of a kernel uses."""
    shape = _shape(declared.extents, frame)
    data, written = array.data.reshape(shape), array.written.reshape(shape)
    return replace(array, data=data, written=written, rank=len(shape), of=array)


def _launch(kernel: KernelFunction, grid: Shape, frame: Frame, choice: random.Random) -> Steps:
    """All blocks of a grid in a random order, a few at a time."""
    frame.variables.update(_indices("gridDim", grid))
    traces = {name: AccessHistory() for name in frame.arrays}
    ended: Ended = {}
    started: dict[Shape, int] = {}
    blocks = [(x, y, z) for x in range(grid[0]) for y in range(grid[1]) for z in range(grid[2])]
    choice.shuffle(blocks)
    many, burst = choice.choice(RESIDENT), choice.choice(BURSTS)
    resident: list[tuple[ThreadBlock, Steps]] = []
    while blocks or resident:
        while blocks and len(resident) < many:
            at = blocks.pop()
            at = at if kernel.drawn is None else _numbered(at, kernel.drawn.axis, started)
            started_now = ThreadBlock(kernel, at, frame, traces, ended, choice)
            resident.append((started_now, started_now.steps(burst)))
        if all(block.waits_for for block, _ in resident):
            block, _ = resident[0]
            words = f"{block.waits_for}: block {block.clock.block} of kernel {kernel.name}"
            raise InterpretError(f"{words} waits for a lock that no block gives back")
        chosen = choice.choice(resident)
        try:
            yield next(chosen[1])
        except StopIteration:
            resident.remove(chosen)
            for block, _ in resident:
                block.waits_for = ""  # the lock may have been that of the block that has ended


def _numbered(at: Shape, axis: int, started: dict[Shape, int]) -> Shape:
    """A block with the number along an axis that it draws when it starts: how many of its group have `started`."""
    x, y, z = (0 if own == axis else number for own, number in enumerate(at))
    number = started[x, y, z] = started.get((x, y, z), -1) + 1
    return (number, y, z) if axis == 0 else (x, number, z) if axis == 1 else (x, y, number)


@dataclass
class Strand:
    """A thread: its remaining steps, and the meeting in which it waits for the others."""

    thread: Thread
    steps: Steps
    meeting: Meeting | None = None
    ended: bool = False


class ThreadBlock:
    """The threads of one block."""

    def __init__(
        self,
        kernel: KernelFunction,
        at: Shape,
        frame: Frame,
        traces: dict[str, AccessHistory],
        ended: Ended,
        choice: random.Random,
    ) -> None:
        self.kernel = kernel
        self.ended = ended
        self.waits_for = ""
        self.choice = choice
        self.clock = Clock(at)
        local = Local(self.clock, {})
        constant = frozenset(declared.name for declared in kernel.arrays if declared.is_constant)
        self.strands = []
        x, y, z = kernel.threads
        for number, (k, j, i) in enumerate(product(range(z), range(y), range(x))):
            thread = Thread(choice, number, local)
            own = thread.frame(frame, traces, constant)
            own.variables.update(_indices("blockIdx", at) | _indices("threadIdx", (i, j, k)))
            self.strands.append(Strand(thread, thread.whole(kernel.body, own)))

    def steps(self, burst: int) -> Steps:
        """The steps of all threads: each in turn runs a burst, or until it waits, until all have ended."""
        while not all(strand.ended for strand in self.strands):
            running = [strand for strand in self.strands if not strand.ended and strand.meeting is None]
            if running:
                self._advance(self.choice.choice(running), burst)
            else:
                self._meet()
            yield None

    def _advance(self, strand: Strand, burst: int) -> None:
        for _ in range(burst):
            try:
                found = next(strand.steps)
            except StopIteration:
                strand.ended = True
                return
            if isinstance(found, Meeting):
                strand.meeting = found
                return

    def _meet(self) -> None:
        """Check that all threads of the block wait, in the same place, and let them continue; or whole warps before."""
        if self._together_in_warps():
            return
        meetings = [strand.meeting for strand in self.strands if strand.meeting is not None]
        node = meetings[0].node
        if len(meetings) < len(self.strands) or any(meeting.node is not node for meeting in meetings):
            here = sum(meeting.node is node for meeting in meetings)
            raise InterpretError(
                f"{node.statement}: {here} of the {len(self.strands)} threads of block {self.clock.block} of kernel "
                f"{self.kernel.name} reach it, the others do not"
            )
        if isinstance(node, TreeReduce):
            self._combine(node, meetings)
        elif isinstance(node, LastBlock):
            self._take_ticket(node, meetings)
        elif isinstance(node, Locked):
            self.waits_for = ""
            if not self._lock(node, meetings):
                return
        else:
            self.clock.epoch += 1
        for strand in self.strands:
            strand.meeting = None

    def _take_ticket(self, node: LastBlock, meetings: Sequence[Meeting]) -> None:
        """Count the block; if it is the last one, it goes on, and the number of tickets is 0 again."""
        evaluate = Evaluator(meetings[0].frame)
        index, count = (evaluate.integer(node.index),), evaluate.integer(node.count)
        tickets = self.strands[0].thread.seen(meetings[0].frame, node.tickets).whole
        taken = int(tickets.read(index, node.statement)) + 1
        is_last = taken == count
        tickets.write(index, 0 if is_last else taken, node.statement)
        before = self.ended.setdefault((node.tickets, *index), {})
        self.clock.ended |= before if is_last else {}
        self.clock.epoch += 1
        before[self.clock] = self.clock.epoch
        for meeting in meetings:
            meeting.value = is_last

    def _lock(self, node: Locked, meetings: Sequence[Meeting]) -> bool:
        """Take a lock, or give it back; whether the block goes on."""
        evaluate = Evaluator(meetings[0].frame)
        index = (evaluate.integer(node.index),)
        locks = self.strands[0].thread.seen(meetings[0].frame, node.locks).whole
        before = self.ended.setdefault((node.locks, *index), {})
        number = None if node.number is None else evaluate.integer(node.number)
        if meetings[0].value:
            self.clock.epoch += 1
            before[self.clock] = self.clock.epoch
            following = 0 if number is None or node.count is None else (number + 1) % evaluate.integer(node.count)
            locks.write(index, following, node.statement)
            return True
        if int(locks.read(index, node.statement)) != (number or 0):
            self.waits_for = node.statement
            return False
        if number is None:
            locks.write(index, 1, node.statement)
        self.clock.ended |= before
        before[self.clock] = 0  # until it gives the lock back
        self.clock.epoch += 1
        return True

    def _together_in_warps(self) -> bool:
        """Let the warps continue whose threads all wait for one product or load of matrices; whether there are any."""
        done = False
        for first in range(0, len(self.strands), prod(WARP_SHAPE)):
            warp = self.strands[first : first + prod(WARP_SHAPE)]
            meetings = [strand.meeting for strand in warp if strand.meeting is not None]
            nodes = {id(meeting.node) for meeting in meetings}
            node = meetings[0].node if len(meetings) == prod(WARP_SHAPE) and len(nodes) == 1 else None
            if not isinstance(node, Mma | LoadMatrices):
                continue
            if self.kernel.threads[:2] != WARP_SHAPE:
                raise InterpretError(f"{node.statement} is for warps of {WARP_SHAPE} threads along x and y")
            if isinstance(node, Mma):
                self._multiply(node, meetings)
            else:
                self._load(node, meetings)
            done = True
            for strand in warp:
                strand.meeting = None
        return done

    def _multiply(self, node: Mma, warp: Sequence[Meeting]) -> None:
        """Add the products of a warp to the sums of its threads, of which each has loaded a part of the factors."""
        added = product_of_warp([meeting.value for meeting in warp], node.instruction)
        for meeting, sums in zip(warp, added, strict=True):
            rank = len(meeting.indices) // 4
            for k, value in enumerate(sums):
                place = meeting.indices[k * rank : (k + 1) * rank]
                meeting.frame.array(node.buffer).write(place, value, node.statement)

    def _load(self, node: LoadMatrices, warp: Sequence[Meeting]) -> None:
        """Give each thread of a warp its elements of matrices, of which each has loaded a row."""
        rows = np.array([np.atleast_1d(meeting.value) for meeting in warp])
        for number, meeting in enumerate(warp):
            (first,), array = meeting.indices, meeting.frame.array(node.buffer)
            for k in range(node.count):
                own = elements_of_matrix(rows[8 * k : 8 * (k + 1)], number, transposed=node.transposed)
                array.write((first + k,), own if len(own) > 1 else own[0], node.statement)

    def _combine(self, node: TreeReduce, meetings: Sequence[Meeting]) -> None:
        """Combine the values of each tree's threads; its first thread has the result, or all of them have it."""
        block = BlockTree(self.kernel.threads, node.axes, self.kernel.gpu.warp)
        x, y, z = self.kernel.threads
        trees: dict[int, dict[int, Meeting]] = {}
        for meeting, (k, j, i) in zip(meetings, product(range(z), range(y), range(x)), strict=True):
            trees.setdefault(block.which((i, j, k)), {})[block.part((i, j, k))] = meeting
        apply = application(node.operator, node.dtype)
        for own in trees.values():
            total = block.tree.combined([own[number].value for number in range(block.size)], apply)
            for number, meeting in own.items():
                for buffer, value in zip(node.buffers, total, strict=True):
                    array = meeting.frame.array(buffer)
                    array.write(meeting.indices, value, node.statement)
                    if number and not node.everyone:
                        array.written[meeting.indices] = False


# -- one thread of a block: the statements that occur only in kernels


@dataclass
class Local:
    """The state shared by the threads of a block: the clock, and shared memory, poisoned when the block starts."""

    clock: Clock
    shared: dict[Allocate, tuple[Array, AccessHistory]] = field(default_factory=dict)


class Thread(Interpreter):
    """A thread's part of a kernel."""

    def __init__(self, choice: random.Random, number: int, local: Local) -> None:
        super().__init__(choice)
        self.number = number
        self.local = local
        self.pending: list[tuple[int, Store, Frame, tuple[Any, ...]]] = []
        self.barriers = 0

    def frame(self, launch: Frame, traces: dict[str, AccessHistory], constant: frozenset[str]) -> Frame:
        """The frame of the thread in a launch, whose arrays record each access."""
        own = launch.branch()
        for name, array in launch.arrays.items():
            own.arrays[name] = watched(array, traces[name], self.local.clock, self.number, name in constant)
        return own

    def whole(self, body: Node, frame: Frame) -> Steps:
        """The steps of the kernel, and at the end the outstanding deferred stores."""
        yield from self.run(body, frame)
        self._settle()

    def seen(self, frame: Frame, buffer: str) -> Watched:
        """An array that threads share."""
        array = frame.array(buffer)
        if not isinstance(array, Watched):
            raise InterpretError(f"{frame.where} shares {buffer}, which is private to each thread")
        return array

    def visit_allocate(self, node: Allocate, frame: Frame) -> OwnSteps:
        if node.memory is not Memory.SHARED:
            return super().visit_allocate(node, frame)
        if node not in self.local.shared:
            shape = tuple(map(Evaluator(frame).integer, node.extents))
            self.local.shared[node] = (allocated(node, shape), AccessHistory())
        inner = frame.branch()
        inner.arrays[node.buffer] = watched(*self.local.shared[node], self.local.clock, self.number)
        return iter((Nested(node.body, inner),))

    def visit_store(self, node: Store, frame: Frame) -> Steps:
        if node.update is None or not (node.atomic or node.buffer in frame.atomic):
            yield from super().visit_store(node, frame)
            return
        with self.seen(frame, node.buffer).updated():
            for _ in super().visit_store(node, frame):
                pass
        yield None

    def visit_barrier(self, node: Barrier, frame: Frame) -> Steps:
        self.barriers += 1
        self._settle(self.barriers)
        yield Meeting(node, frame)

    def visit_lastblock(self, node: LastBlock, frame: Frame) -> OwnSteps:
        self._settle()
        meeting = Meeting(node, frame)
        yield meeting
        if meeting.value:
            yield Nested(node.body, frame)

    def visit_locked(self, node: Locked, frame: Frame) -> OwnSteps:
        self._settle()
        yield Meeting(node, frame, False)
        yield Nested(node.body, frame)
        self._settle()
        yield Meeting(node, frame, True)

    def visit_deferred(self, node: Deferred, frame: Frame) -> Steps:
        store, frame = node.store, frame.branch()
        frame.where = store.statement
        evaluate = Evaluator(frame)
        indices = tuple(evaluate(index) for index in store.indices)
        evaluate(store.value)
        self.seen(frame, store.buffer).defer(indices, store.statement, node.barriers)
        self.pending.append((self.barriers + node.barriers, store, frame, indices))
        yield None
        if self.choice.random() < 0.5:
            self._settle()

    def _settle(self, barrier: int | None = None) -> None:
        """Execute the deferred stores, in any order: all, or those that are complete at a barrier, by its number."""
        self.choice.shuffle(self.pending)
        left = []
        for each in self.pending:
            last, store, frame, indices = each
            if barrier is not None and last > barrier:
                left.append(each)
                continue
            self.seen(frame, store.buffer).settle(indices, Evaluator(frame)(store.value), store.statement)
        self.pending = left

    def visit_mma(self, node: Mma, frame: Frame) -> Steps:
        frame.where = node.statement
        evaluate = Evaluator(frame)
        rank = len(node.places[0])
        indices = tuple(map(evaluate.integer, node.indices))
        own = [frame.array(node.buffer).read(indices[k : k + rank], node.statement) for k in range(0, 4 * rank, rank)]
        factors = [[np.atleast_1d(evaluate(e)) for e in each] for each in (node.left, node.right)]
        yield Meeting(node, frame, (own, *factors), indices)

    def visit_loadmatrices(self, node: LoadMatrices, frame: Frame) -> Steps:
        frame.where = node.statement
        evaluate = Evaluator(frame)
        yield Meeting(node, frame, evaluate(node.row), (evaluate.integer(node.first),))

    def visit_treereduce(self, node: TreeReduce, frame: Frame) -> Steps:
        frame.where = node.statement
        evaluate = Evaluator(frame)
        indices = tuple(map(evaluate.integer, node.indices))
        yield Meeting(node, frame, tuple(map(evaluate, node.values)), indices)


# -- products in tensor cores


def elements_of_matrix(rows: np.ndarray, thread: int, *, transposed: bool) -> np.ndarray:
    """The 4 bytes of a matrix of 8 rows of 16 bytes that a thread of a warp has."""
    y, x = divmod(thread, WARP_SHAPE[0])
    size = rows.shape[1] // WARP_SHAPE[0]
    return rows[2 * x : 2 * x + 2, y] if transposed else rows[y, size * x : size * (x + 1)]


#: The bits of a float32 that tf32 leaves out.
_LEFT_OUT = 13


def product_of_warp(threads: Sequence[tuple[Any, Any, Any]], instruction: str) -> list[list[Value]]:
    """The four sums of each thread, from ``(its sums, what it has loaded of the left factor, and of the right one)``.

    Each product is exact, and their sum is rounded once: a GPU rounds, in places of its own, more often.
    """
    x_count, y_count = WARP_SHAPE
    group = len(threads[0][1][0])
    terms = group * x_count * len(threads[0][2])
    left = np.zeros((2 * y_count, terms))
    right = np.zeros((terms, y_count))
    sums = np.zeros((2 * y_count, 2 * x_count))
    for number, (own, of_left, of_right) in enumerate(threads):
        y, x = divmod(number, x_count)
        for block in range(len(of_right)):
            at = slice(group * (x_count * block + x), group * (x_count * block + x + 1))
            right[at, y] = of_right[block]
            for h in range(2):
                left[y + y_count * h, at] = of_left[2 * block + h]
        for k, value in enumerate(own):
            sums[y + y_count * (k // 2), 2 * x + k % 2] = value
    if instruction.endswith("tf32"):
        left, right = _shortened(left), _shortened(right)
    with np.errstate(all="ignore"):
        total = (sums + left @ right).astype(np.float32)
    return [
        [total[y + y_count * (k // 2), 2 * x + k % 2] for k in range(4)] for y in range(y_count) for x in range(x_count)
    ]


def _shortened(values: np.ndarray) -> np.ndarray:
    """Numbers with 10 bits after the point: the others are left out."""
    bits = values.astype(np.float32).view(np.uint32)
    return (bits >> np.uint32(_LEFT_OUT) << np.uint32(_LEFT_OUT)).view(np.float32).astype(np.float64)
