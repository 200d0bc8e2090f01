"""Kernels: blocks in any order, several at a time; the threads of a block are strands that meet at barriers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import prod

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.types import int64
from tiramisu_py.interpret import arithmetic
from tiramisu_py.interpret.arithmetic import Value
from tiramisu_py.interpret.devices.race_detector import AccessHistory, Clock
from tiramisu_py.interpret.devices.thread_strands import Local, Thread
from tiramisu_py.interpret.devices.warp_products import product_of_warp
from tiramisu_py.interpret.evaluator import Evaluator, Frame
from tiramisu_py.interpret.machine_faults import InterpretError
from tiramisu_py.interpret.memory import Array
from tiramisu_py.interpret.partial_results import application
from tiramisu_py.interpret.strands import Meeting, Steps
from tiramisu_py.ir import KernelArray, KernelFunction, LastBlock, Mma, TreeReduce
from tiramisu_py.program.combining.combination_trees import BlockTree
from tiramisu_py.program.loops import AXES
from tiramisu_py.program.machine.tensor_instructions import WARP_SHAPE
from tiramisu_py.program.storage import Memory
from tiramisu_py.records import dataclass

Shape = tuple[int, int, int]
#: The blocks that have taken a ticket of a number, by its array and index.
Ended = dict[tuple[str, int], list[Clock]]
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
    blocks = [(x, y, z) for x in range(grid[0]) for y in range(grid[1]) for z in range(grid[2])]
    choice.shuffle(blocks)
    many, burst = choice.choice(RESIDENT), choice.choice(BURSTS)
    resident: list[Steps] = []
    while blocks or resident:
        while blocks and len(resident) < many:
            resident.append(ThreadBlock(kernel, blocks.pop(), frame, traces, ended, choice).steps(burst))
        block = choice.choice(resident)
        try:
            yield next(block)
        except StopIteration:
            resident.remove(block)


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
        if self._multiply_in_warps():
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
        before = self.ended.setdefault((node.tickets, *index), [])
        self.clock.ended = tuple(before) if is_last else ()
        before.append(self.clock)
        self.clock.epoch += 1
        for meeting in meetings:
            meeting.value = is_last

    def _multiply_in_warps(self) -> bool:
        """Let the warps continue of which all threads wait for one product of matrices; whether there are any."""
        done = False
        for first in range(0, len(self.strands), prod(WARP_SHAPE)):
            warp = self.strands[first : first + prod(WARP_SHAPE)]
            meetings = [strand.meeting for strand in warp if strand.meeting is not None]
            nodes = {id(meeting.node) for meeting in meetings}
            if len(meetings) < prod(WARP_SHAPE) or len(nodes) > 1 or not isinstance(meetings[0].node, Mma):
                continue
            self._multiply(meetings[0].node, meetings)
            done = True
            for strand in warp:
                strand.meeting = None
        return done

    def _multiply(self, node: Mma, warp: Sequence[Meeting]) -> None:
        """Add the products of a warp to the sums of its threads, of which each has loaded a part of the factors."""
        if self.kernel.threads[:2] != WARP_SHAPE:
            raise InterpretError(f"{node.statement} is for warps of {WARP_SHAPE} threads along x and y")
        added = product_of_warp([meeting.value for meeting in warp], node.instruction)
        for meeting, sums in zip(warp, added, strict=True):
            rank = len(meeting.indices) // 4
            for k, value in enumerate(sums):
                place = meeting.indices[k * rank : (k + 1) * rank]
                meeting.frame.array(node.buffer).write(place, value, node.statement)

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
