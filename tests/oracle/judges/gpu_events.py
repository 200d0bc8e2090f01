"""What a program does at one size on hosts and GPUs: executions, operations, waits, barriers, their order.

The rules are those of the program's own vocabulary and nothing else: the host in its order; the operations of a queue
in the order of issue; waits; threads of a block through barriers. All instances are enumerated.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import islpy as isl

from tests.oracle.judges.events import Event, Execution, Misplaced, Place, parted
from tests.oracle.judges.plain import Point, function, points
from tiramisu_py.program.kernels import KernelNest, kernels
from tiramisu_py.program.loops import GpuBlock, GpuThread
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Device, Role, Statement
from tiramisu_py.program.storage import Memory, Storage

#: A kernel or transfer, and the coordinates and position in the host's time at which it is issued.
OperationKey = tuple[str, Point]


@dataclass(frozen=True, eq=False)
class Act(Event):
    """An execution: of the host, or as part of an operation; in a kernel with its block and thread.

    It is not `taken` where a condition on values does not hold; the operation is issued all the same.
    """

    operation: int | None = None
    block: Point = ()
    thread: Point = ()
    sigma: Point = ()
    deferred: int = 0
    taken: bool = True


@dataclass(eq=False)
class Operation:
    """A kernel launch or a transfer, and which operations are complete when it starts (bits, by number)."""

    number: int
    queue: tuple[int, int]
    time: Point
    synchronous: bool
    acts: list[Act] = field(default_factory=list)
    before: int = 0

    @property
    def bit(self) -> int:
        return 1 << self.number


@dataclass(frozen=True, eq=False)
class Wait:
    """One execution of a WAIT: the time, the values whose operations are awaited, and who goes on afterwards."""

    time: Point
    statement: Statement
    indices: Point


@dataclass(frozen=True, eq=False)
class GpuExecution(Execution):
    """A program on a host and GPUs, at given parameters."""

    # -- places

    def at(self, statement: Statement, coords: Point, storage: Storage, index: Point, device: Device) -> Place:
        """Where a statement finds a value, in the memory of a device; raises `Misplaced`."""
        buffer = self.program.buffers[storage.buffer]
        frame = buffer.scope + storage.inner
        if statement.loops[: len(frame)] != frame:
            raise Misplaced(f"{statement.name} touches {storage.buffer} outside its scope")
        if device is None and buffer.memory in (Memory.GPU, Memory.SHARED):
            raise Misplaced(f"{statement.name} touches {storage.buffer} on the host")
        element = self._index[storage.name](coords[: len(frame)] + index)
        return self.instance(storage.buffer, device), coords[: len(buffer.scope)], element

    def instance(self, name: str, device: Device) -> str:
        """The instance of a buffer that a device uses."""
        one_for_all = self.program.buffers[name].memory in (Memory.HOST_MAPPED, Memory.SHARED, Memory.REGISTER)
        return name if one_for_all or device is None else f"{name}@gpu{device}"

    def inside(self, place: Place) -> bool:
        """Whether an element lies in its buffer."""
        return super().inside((place[0].split("@")[0], *place[1:]))

    def outside_any_loop(self, storage: str, index: Point) -> Place:
        """The place of a value as the caller sees it."""
        name, owner, element = super().outside_any_loop(storage, index)
        return self.instance(name, self.program.buffers[name].device), owner, element

    # -- executions

    def acts(self) -> list[Act]:
        """All executions that store, or would; raises `Misplaced`."""
        return [act for statement in self.program.storing for act in self._acts_of(statement)]

    def _acts_of(self, statement: Statement) -> list[Act]:
        point_of, coords_of = function(statement.point, self.params), function(statement.coords, self.params)
        loops = tuple(self.program.loops[loop] for loop in statement.loops)
        rank = self._rank(statement.source)
        load, store = self._devices(statement)
        thread_of = self._threads(statement)
        found = []
        for instance in points(statement.instances, self.params):
            point, coords = point_of(instance), coords_of(instance)
            taken = not statement.guards or self.values.holds(statement.guards, self._names(statement, point))
            value = (statement.source, point[:rank])
            reads = tuple(
                (self.at(statement, coords, self.program.storage_for(statement, source), index, load), (source, index))
                for source, index in (self._named(statement, point) if taken else ())
            )
            target = self.at(statement, coords, self.program.storages[statement.memory.target], value[1], store)
            time = self._time(statement, coords)
            found.append(
                Act(
                    statement.name, statement.role, instance, point, time, loops, reads, target, value,
                    operation=self._operation_at(statement, coords),
                    block=coords[: self._block_depth(statement)],
                    thread=thread_of(instance),
                    sigma=self.sigma(statement, time),
                    deferred=statement.link.deferred,
                    taken=taken,
                )
            )  # fmt: skip
        return found

    def _devices(self, statement: Statement) -> tuple[Device, Device]:
        if statement.link.transfer is not None:
            return statement.link.transfer.source, statement.link.transfer.target
        kernel = self.kernel(statement)
        device = None if kernel is None else kernel.launch.device
        return device, device

    def kernel(self, statement: Statement) -> KernelNest | None:
        """The kernel that a statement is part of."""
        return _kernel(self.program, statement)

    def numbered(self) -> None:
        """Raises `UnsupportedError` where blocks or threads have no numbers."""
        for kernel in _kernels(self.program):
            for loop in {loop for s in kernel.statements for loop in s.loops if self.program.loops[loop].is_gpu}:
                kernel.corner(loop)

    def _threads(self, statement: Statement) -> Callable[[Point], Point]:
        thread_of = _thread_of(self.program, statement)
        return (lambda _: ()) if thread_of is None else function(thread_of, self.params)

    def _block_depth(self, statement: Statement) -> int:
        tags = [isinstance(self.program.loops[loop].tag, GpuBlock) for loop in statement.loops]
        return max((depth + 1 for depth, tag in enumerate(tags) if tag), default=0)

    def sigma(self, statement: Statement, time: Point) -> Point:
        """A time with the coordinates of thread loops left out."""
        found = list(time)
        for depth, loop in enumerate(statement.loops):
            if isinstance(self.program.loops[loop].tag, GpuThread):
                found[2 * depth + 1] = 0
        return tuple(found)

    # -- operations and waits

    def _operation_at(self, statement: Statement, coords: Point) -> int | None:
        queue = self.program.queue_of(statement)
        if queue is None:
            return None
        depth = self.program.host_depth(statement)
        of = statement.name if statement.link.transfer is not None else f"kernel {self.program.kernel_of(statement)}"
        return self._numbers.setdefault((of, coords[:depth]), len(self._numbers))

    @cached_property
    def _numbers(self) -> dict[OperationKey, int]:
        return {}

    def operations(self, acts: list[Act]) -> list[Operation]:
        """The operations that the host issues, by number."""
        found: dict[int, Operation] = {}
        for act in acts:
            if act.operation is None:
                continue
            statement = self.program.statements[act.statement]
            queue = self.program.queue_of(statement)
            assert queue is not None
            synchronous = statement.link.transfer is not None and not statement.link.transfer.asynchronous
            one = found.setdefault(act.operation, Operation(act.operation, queue, act.time, synchronous))
            one.acts.append(act)
            one.time = min(one.time, act.time)
        return [found[number] for number in sorted(found)]

    def waits(self) -> list[Wait]:
        """All executions of waits."""
        return [
            Wait(self._time(statement, function(statement.coords, self.params)(instance)), statement, instance)
            for statement in self.program.statements.values()
            if statement.role is Role.WAIT
            for instance in points(statement.instances, self.params)
        ]

    def barriers(self) -> dict[Point, list[Point]]:
        """For each block the sigmas of its barriers, in order."""
        found: dict[Point, set[Point]] = {}
        for statement in self.program.statements.values():
            if statement.role is not Role.BARRIER:
                continue
            coords_of = function(statement.coords, self.params)
            for instance in points(statement.instances, self.params):
                coords = coords_of(instance)
                sigma = self.sigma(statement, self._time(statement, coords))
                found.setdefault(coords[: self._block_depth(statement)] + self._which(statement), set()).add(sigma)
        return {block: sorted(sigmas) for block, sigmas in found.items()}

    def _which(self, statement: Statement) -> Point:
        kernel = self.kernel(statement)
        assert kernel is not None
        return (kernel.first,)


@lru_cache(maxsize=4)
def _kernels(program: Program) -> tuple[KernelNest, ...]:
    """The kernels of a program: the same at all sizes at which it is judged."""
    return kernels(program)


def _kernel(program: Program, statement: Statement) -> KernelNest | None:
    of = (kernel for kernel in _kernels(program) if statement.loops and kernel.first in statement.loops)
    return next(of, None)


@lru_cache(maxsize=64)
def _thread_of(program: Program, statement: Statement) -> isl.MultiAff | None:
    kernel = _kernel(program, statement)
    return None if kernel is None else kernel.thread_of(statement)


class Happens:
    """Happens-before: which executions come before which others in every run."""

    def __init__(self, execution: GpuExecution, acts: list[Act]) -> None:
        self.execution = execution
        self.operations = {operation.number: operation for operation in execution.operations(acts)}
        self.barriers = execution.barriers()
        #: What the host knows to be complete, after each time at which that changes.
        self.known: list[tuple[Point, int]] = []
        #: Waits before operations that they name.
        self.early: list[str] = []
        self._issue(execution.waits())

    def _issue(self, waits: list[Wait]) -> None:
        """The host's operations and waits in its order."""
        known = 0
        last: dict[tuple[int, int], int] = {}  # of each queue, what is complete when its last operation is
        steps: list[Operation | Wait] = sorted([*self.operations.values(), *waits], key=lambda step: step.time)
        issued: list[Operation] = []
        for step in steps:
            if isinstance(step, Operation):
                step.before = known | last.get(step.queue, 0)
                last[step.queue] = step.before | step.bit
                issued.append(step)
                known |= step.before | step.bit if step.synchronous else 0
            else:
                awaited = self._awaited(step, issued)
                waiting = step.statement.link.waits
                assert waiting is not None
                if waiting.on is None:
                    known |= awaited
                else:
                    queue = (waiting.device, waiting.on)
                    last[queue] = last.get(queue, 0) | awaited
            self.known.append((step.time, known))
        self.last = known

    def _awaited(self, wait: Wait, issued: list[Operation]) -> int:
        """What is complete once the operations are that a wait names, of those issued before it."""
        waiting = wait.statement.link.waits
        assert waiting is not None
        of = {statement.name for statement in self.execution.program.awaited(wait.statement)}
        found = 0
        for operation in self.operations.values():
            named = (act for act in operation.acts if act.statement in of)
            told = (act.time[1::2] if waiting.by_loop else act.value[1] for act in named)
            if any(tuple(each[at] for at in waiting.positions) == wait.indices for each in told):
                if operation in issued:
                    found |= operation.before | operation.bit
                else:
                    self.early.append(f"{wait.statement.name}{list(wait.indices)}")
        return found

    def known_at(self, time: Point) -> int:
        """The operations that are complete when the host is at a time."""
        position = bisect_right(self.known, time, key=lambda step: step[0])
        return self.known[position - 1][1] if position else 0

    def before(self, a: Act, b: Act) -> bool:
        """Whether an execution comes before another one in every run."""
        if a.operation is None and b.operation is None:
            ordered, _ = parted(a, b)
            return ordered and a.time < b.time
        if b.operation is None:
            assert a.operation is not None
            return bool(self.known_at(b.time) >> a.operation & 1)
        if a.operation is None:
            ordered, _ = parted(a, b)
            return ordered and a.time < self.operations[b.operation].time
        if a.operation != b.operation:
            return bool(self.operations[b.operation].before >> a.operation & 1)
        return self._before_inside(a, b)

    def _before_inside(self, a: Act, b: Act) -> bool:
        """The order inside one launch: of a thread, or through a barrier of the block. A transfer's is unknown."""
        if not a.block or a.block != b.block:
            return False
        if a.thread == b.thread and not a.deferred:
            return a.sigma < b.sigma and self._sequential(a, b)
        which = next(loop.id for loop in a.loops if isinstance(loop.tag, GpuBlock))
        sigmas = self.barriers.get((*a.block, which), [])
        position = bisect_right(sigmas, a.sigma) + max(0, a.deferred - 1)
        return position < len(sigmas) and sigmas[position] < b.sigma

    def _sequential(self, a: Act, b: Act) -> bool:
        """Whether the loop at which two executions of a thread part, if it is one, runs in order."""
        position = next(at for at, (x, y) in enumerate(zip(a.sigma, b.sigma, strict=True)) if x != y)
        return position % 2 == 0 or not a.loops[position // 2].is_concurrent
