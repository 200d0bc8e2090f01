"""balance(): the points of a partition at which all parts end together."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from tiramisu_py import Function, Kernel, Trace, TraceEvent, gpu_count, pinned_empty
from tiramisu_py.errors import ArgumentError, LegalityError
from tiramisu_py.public_calls import own_call
from tiramisu_py.queries import (
    Amount,
    Communication,
    Counter,
    Program,
    Room,
    Work,
    as_device,
    axes,
    communication,
    shape_value,
)
from tiramisu_py.queries import drawn_arguments as arguments
from tiramisu_py.records import dataclass
from tiramisu_py.tuning.levels import Level, Slot, levels, owners
from tiramisu_py.tuning.machine_model import Machine, published
from tiramisu_py.tuning.result import Balance, BalancedPart, listed
from tiramisu_py.tuning.sample_sizes import checked_sizes, checked_small, equal_parts, short_sizes, shortened
from tiramisu_py.tuning.splitting import Cost, fitted, makespan, split

#: The number of instances of a short measuring run: on a machine, and in the simulator.
INSTANCES, SIMULATED_INSTANCES = 2**24, 2**17

#: The seconds of each part, level by level, as a function of the values of all parameters.
Clock = Callable[[Mapping[str, int]], Sequence[float]]


@own_call
def balance(
    f: Function,
    sizes: Mapping[str, int],
    *,
    inputs: Mapping[str, Any] | None = None,
    small: Mapping[str, int] | None = None,
    device: str | None = None,
    machine: Machine | None = None,
    threads: int | None = None,
    comm: Any = None,
    pinned: bool = False,
    rounds: int = 5,
    **options: Any,
) -> Balance:
    """Propose values for the parameters at which a function is partitioned, so that all its parts end together.

    ::

        f = tm.Function("blur", params=[R, C, G], assume="0 <= G <= R")
        ...
        by.partition(r, [G], [tm.gpu(), tm.cores(vector=8)])
        f.derive_transfers()
        split = tm.balance(f, {"R": 8000, "C": 8000})       # compiles f, and runs it at small sizes
        print(split)                                        # part, target, iterations, share, seconds
        kernel(picture, **split.points)                     # G = 6112

    `sizes` are the values of all other parameters. The program runs at `small` sizes (default: sizes for a short run),
    cut into equal parts, and again with half the iterations, which separates each part's cost per iteration from its
    fixed cost. The time of a part on a GPU is that of its kernels and copies; the time of a part on cores is that of
    its loop nests. Waiting and messages between ranks do not count. Each time is the minimum of `rounds` runs. The
    points are integers that the function's assumptions allow; a part that does not pay gets no iterations. Stages that
    are cut at the same points for the same targets are balanced together.

    `inputs` are arrays by name, of the full or of the small sizes (their beginning is used); the other inputs are
    random, within their declared ranges. ``pinned=True`` puts all of them into page-locked memory (`pinned_empty`):
    use it if later calls do. `device`, `threads` and other `options` are those of `Function.compile`. A distributed
    function is measured on the ranks of `comm`; all of them make this call and get the same result.

    With a `machine`, or without the ranks, nothing is run: times are estimated from the operations and bytes of each
    part, and from its transfers and messages (`Balance.measured` is False). On a host without a GPU, name one:
    ``machine=tm.Machine.here(gpu="H200")``.

    Raises `ArgumentError` for a function that is not partitioned at parameters, and for sizes that do not fit;
    `LegalityError` for a program that the proof refuses.
    """
    _check(f, rounds, comm, machine)
    program = f.completed
    known = checked_sizes(program, sizes)
    found = levels(program, known)
    _require_all(program, found, known)
    Room(program, known)
    if machine is not None:
        _refuse_of_runs({"inputs": inputs, "small": small, "device": device, "threads": threads, **options})
    simulated = device is not None and as_device(device).simulated
    if machine is None and _can_run(f, found, simulated, known, comm):
        short = (
            short_sizes(program, found, known, SIMULATED_INSTANCES if simulated else INSTANCES)
            if small is None
            else checked_small(program, small, known)
        )
        on = device if _uses_gpu(found) else None
        clock = Measurement(f, found, inputs or {}, comm, pinned, rounds, device=on, threads=threads, **options)
        return balanced(program, found, known, short, clock, True)
    _require_legal(f)
    estimate = Estimate(program, found, machine or _own(found, threads, comm))
    return balanced(program, found, known, known, estimate, False)


def _refuse_of_runs(given: Mapping[str, object]) -> None:
    """Refuse arguments that are for runs, where times are estimated for a machine."""
    for name, value in given.items():
        if value is not None:
            raise ArgumentError(f"with machine= nothing is run: leave out {name}=")


def _require_legal(f: Function) -> None:
    report = f.check()
    if not report.ok:
        raise LegalityError(report.violations)


def _check(f: object, rounds: object, comm: object, machine: object) -> None:
    """Refuse arguments of `balance` that are of no use whatever the sizes are."""
    if not isinstance(f, Function):
        raise ArgumentError(f"balance needs a function whose computations are partitioned, not {f!r}")
    if type(rounds) is not int or rounds < 1:
        raise ArgumentError(f"rounds={rounds!r}: give an integer of at least 1")
    if comm is not None and not axes(f.program):
        raise ArgumentError(f"{f.name} runs on no ranks: leave out comm=")
    if machine is not None and not isinstance(machine, Machine):
        raise ArgumentError(f'machine={machine!r}: give tm.Machine(...), or tm.Machine.here(gpu="H200")')


def _own(found: Sequence[Level], threads: int | None, comm: Any) -> Machine:
    """The description of this machine; for several ranks, of the first rank's machine."""
    peaks = published() if comm is None else comm.bcast(published())
    lacking = [slot.name for level in found for slot in level.slots if slot.gpu is not None and not peaks]
    if lacking:
        raise ArgumentError(
            f"there is no GPU here to measure {lacking[0]} on: estimate it for a GPU that you name, "
            'machine=tm.Machine.here(gpu="H200"), or run it in the simulator, device="simulator"'
        )
    own = Machine.here(threads=threads, **peaks)
    return own if comm is None else comm.bcast(own)


def balanced(
    program: Program,
    found: Sequence[Level],
    known: Mapping[str, int],
    short: Mapping[str, int],
    clock: Clock,
    measured: bool,
) -> Balance:
    """The split at `known` sizes, from the times of two runs: at `short` sizes, and at half of their levels."""
    half = shortened(program, found, short, 0.5)
    runs = [{**sizes, **equal_parts(program, found, sizes)} for sizes in ([short] if half == short else [short, half])]
    full = {**known, **equal_parts(program, found, known)}
    done = _done(program, found, runs)
    costs = iter(_costs(program, found, full, done, [clock(params) for params in runs]))
    points: dict[str, int] = {}
    parts: list[BalancedPart] = []
    seconds = 0.0
    for level in found:
        division, own = level.division(known, full), [next(costs) for _ in level.slots]
        chosen = split(division, own, Room(program, {**known, **points}))
        points |= chosen
        seconds += makespan(division, own, chosen)
        for slot, cost, number in zip(level.slots, own, division.iterations(chosen), strict=True):
            rate = 1 / cost.each if cost.each > 0 else float("inf")
            parts.append(BalancedPart(slot.name, slot.where, number, cost.of(number), cost.fixed, rate))
    return Balance(points, tuple(parts), seconds, measured, dict(known), tuple(runs) if measured else ())


@dataclass(frozen=True)
class _Done:
    """The instances that a part executes in each run, and per iteration of the level in the first run."""

    instances: tuple[int, ...]
    of_each: float


def _done(program: Program, found: Sequence[Level], runs: Sequence[Mapping[str, int]]) -> list[_Done]:
    """The work of the parts in the runs, level by level."""
    counter = Counter(program)
    every: list[_Done] = []
    for level in found:
        for k, slot in enumerate(level.slots):
            instances = tuple(counter.instances(slot.statements, params) for params in runs)
            iterations = level.stage.sizes(runs[0])[k]
            if not (instances[0] and iterations):
                raise ArgumentError(
                    f"{slot.name} has no iterations at {listed(runs[0])}, and so no rate: choose larger "
                    "sizes, or larger small= ones"
                )
            every.append(_Done(instances, instances[0] / iterations))
    return every


def _costs(
    program: Program,
    found: Sequence[Level],
    full: Mapping[str, int],
    done: Sequence[_Done],
    times: Sequence[Sequence[float]],
) -> list[Cost]:
    """The cost of each part at full sizes, level by level, from the time of its instances in the runs."""
    counter = Counter(program)
    costs: list[Cost] = []
    for level in found:
        sizes = level.stage.sizes(full)
        for k, slot in enumerate(level.slots):
            part, taken = done[len(costs)], [of[len(costs)] for of in times]
            fixed, each = fitted(list(zip(part.instances, taken, strict=True)))
            of_each = counter.instances(slot.statements, full) / sizes[k] if sizes[k] else part.of_each
            costs.append(Cost(fixed, each * of_each))
    return costs


def _can_run(f: Function, found: Sequence[Level], simulated: bool, known: Mapping[str, int], comm: Any) -> bool:
    """Whether the GPUs and ranks that the function needs are available; all ranks get the same result."""
    if axes(f.program) and comm is None:
        return False
    rank = 0 if comm is None else comm.Get_rank()
    mine = [slot for level in found for slot in level.slots if slot.ranks is None or rank in slot.ranks]
    able = simulated or gpu_count() > 0 or all(slot.gpu is None for slot in mine)
    if comm is None:
        return able
    full = {**known, **equal_parts(f.completed, found, known)}
    return all(comm.allgather(able)) and bool(comm.Get_size() >= prod(f.process_grid(**full)))


def _uses_gpu(found: Sequence[Level]) -> bool:
    return any(slot.gpu is not None for level in found for slot in level.slots)


def _unknown(program: Program, known: Mapping[str, int]) -> list[str]:
    return [name for name in program.algorithm.params if name not in known]


def _require_all(program: Program, found: Sequence[Level], known: Mapping[str, int]) -> None:
    chosen = {name for level in found for name in level.chosen}
    missing = [name for name in _unknown(program, known) if name not in chosen]
    if missing:
        raise ArgumentError(
            f"sizes has no value for {', '.join(missing)}: give the values of all parameters of "
            f"{program.algorithm.name} but {', '.join(name for name in _unknown(program, known) if name in chosen)}"
        )


# -- the times of parts, estimated from operations and bytes (roofline model): nothing is run
#
# The time of a part is that of its arithmetic or of its memory, whichever is longer, plus the times of its GPU's link
# and of its messages. In a pipeline, which overlaps copies and kernels, only the busiest operation sequence counts.
#
# Source: Williams, Waterman, Patterson, "Roofline: An Insightful Visual Performance Model", CACM 52(4), 2009.


class Estimate:
    """The seconds of each part on a machine; raises `ArgumentError` if the machine's description is incomplete."""

    def __init__(self, program: Program, levels: Sequence[Level], machine: Machine) -> None:
        self._program = program
        self._slots = [slot for level in levels for slot in level.slots]
        self._owners = owners(program, levels)
        self._counter = Counter(program)
        self._machine = machine
        if any(slot.gpu is not None for slot in self._slots) and not machine.has_gpu:
            raise ArgumentError(
                "parts run on a GPU, and the machine has no rates of a GPU: give gpu_flops, gpu_bandwidth and "
                'link_bandwidth, or the name of a known GPU, machine=tm.Machine.here(gpu="H200")'
            )

    def __call__(self, params: Mapping[str, int]) -> list[float]:
        """The seconds of each part at given parameter values, level by level."""
        moved = communication(self._program, params)
        return [self._seconds(slot, params, moved) for slot in self._slots]

    def _seconds(self, slot: Slot, params: Mapping[str, int], moved: Communication) -> float:
        work = self._counter.work(slot.statements, params)
        alike = 1 if slot.ranks is None else len(slot.ranks)
        if slot.gpu is None:
            return on_cores(work, self._machine) / alike + self._messages(slot, moved)
        mine = [one for one in moved.transfers if self._owners.get(one.name) is slot]
        queues = {self._kernels_on(slot): on_gpu(work, self._machine)}
        for one in mine:
            queue = self._program.queue_of(self._program.statements[one.name])
            queues[queue] = queues.get(queue, 0.0) + over_link(one.bytes, one.messages, self._machine)
        overlapped = bool(mine) and all(self._is_pipelined(slot, one.name) for one in mine)
        return (max(queues.values()) if overlapped else sum(queues.values())) / alike

    def _kernels_on(self, slot: Slot) -> tuple[int, int] | None:
        """The operation sequence of a part's kernels."""
        queues = (self._program.queue_of(self._program.statements[name]) for name in sorted(slot.statements))
        return next(queues, None)

    def _is_pipelined(self, slot: Slot, name: str) -> bool:
        """Whether a transfer is asynchronous and made chunk by chunk, in a loop with the part's kernels."""
        transfer = self._program.statements[name]
        loops = {loop for each in slot.statements for loop in self._program.statements[each].loops}
        return (
            transfer.link.transfer is not None
            and transfer.link.transfer.asynchronous
            and bool(loops & set(transfer.loops))
        )

    def _messages(self, slot: Slot, moved: Communication) -> float:
        """The seconds in which the busiest rank of a part sends and receives."""
        if slot.ranks is None or not moved.grid:
            return 0.0
        found = [moved.of_rank(rank) for rank in slot.ranks if rank < moved.ranks]
        return max((over_network(one.sent + one.received, self._machine) for one in found), default=0.0)


def on_cores(work: Work, machine: Machine) -> float:
    """The seconds of some work on all cores of the host."""
    return max(work.operations / (machine.core_flops * machine.cores), work.bytes / machine.host_bandwidth)


def on_gpu(work: Work, machine: Machine) -> float:
    """The seconds of some work on a GPU, including its kernel launches."""
    running = max(work.operations / machine.gpu_flops, work.bytes / machine.gpu_bandwidth)
    return work.kernels * machine.launch_latency + running


def over_link(size: int, copies: int, machine: Machine) -> float:
    """The seconds of transferring `size` bytes between the host and a GPU, in `copies` copies."""
    return copies * machine.link_latency + size / machine.link_bandwidth


def over_network(amount: Amount, machine: Machine) -> float:
    """The seconds of messages between ranks."""
    return amount.messages * machine.network_latency + amount.bytes / machine.network_bandwidth


# -- the times of parts, measured


#: The kinds of events that count as a part's work: on threads of the host, and on a GPU.
ON_CORES = ("nest",)
ON_GPU = ("kernel", "upload", "download", "transfer")


class Measurement:
    """The seconds of each part of a compiled function: the minimum over some runs, and the maximum over the ranks."""

    def __init__(
        self,
        f: Function,
        levels: Sequence[Level],
        inputs: Mapping[str, Any],
        comm: Any,
        pinned: bool,
        rounds: int,
        **options: Any,
    ) -> None:
        self._f = f
        self._inputs = inputs
        self._comm = comm
        self._pinned = options.get("device") or "gpu" if pinned else None
        self._rounds = rounds
        self._slots = [slot for level in levels for slot in level.slots]
        self._owners = owners(f.completed, levels)
        self._options = options

    @cached_property
    def _kernel(self) -> Kernel:
        return self._f.compile(trace=True, **self._options)

    def __call__(self, params: Mapping[str, int]) -> list[float]:
        """The seconds of each part at given parameter values, level by level."""
        given = self._arguments(params)
        self._kernel(**given)  # to warm up
        best = [float("inf")] * len(self._slots)
        for _ in range(self._rounds):
            self._kernel(**given)
            times = times_of(self._kernel.trace, self._owners, self._slots)
            best = [min(old, new) for old, new in zip(best, times, strict=True)]
        return best if self._comm is None else [max(each) for each in zip(*self._comm.allgather(best), strict=True)]

    def _arguments(self, params: Mapping[str, int]) -> dict[str, Any]:
        """The arguments of the call: this rank's parts of arrays, in page-locked memory if `pinned`."""
        algorithm = self._f.algorithm
        given = arguments(algorithm, self._inputs, params, seed=0)
        if self._pinned:
            given |= self._outputs(params)
        arrays = {
            name: given[name] for name in given if name not in algorithm.inputs or not algorithm.inputs[name].scalar
        }
        if self._comm is not None:
            rank = self._comm.Get_rank()
            arrays = {name: self._f.part(name, whole, rank, **params) for name, whole in arrays.items()}
        if self._pinned:
            arrays = {name: _page_locked(array, self._pinned) for name, array in arrays.items()}
        return {**given, **arrays, **params, **({} if self._comm is None else {"comm": self._comm})}

    def _outputs(self, params: Mapping[str, int]) -> dict[str, Any]:
        """Arrays for the outputs that have their own buffer."""
        program = self._f.program
        own = (name for name in self._f.algorithm.outputs if program.storages[name].buffer == name)
        buffers = {name: program.buffers[name] for name in own}
        return {name: np.zeros(shape_value(of.passed_extents, params), of.dtype.numpy) for name, of in buffers.items()}


def _page_locked(array: Any, device: str) -> Any:
    locked = pinned_empty(array.shape, array.dtype, device=device)
    locked[...] = array
    return locked


def times_of(trace: Trace, owned: Mapping[str, Slot], slots: Sequence[Slot]) -> list[float]:
    """The busy seconds of each part: of its loop nests, or of the kernels and copies of its GPU."""
    found: dict[int, list[TraceEvent]] = {id(slot): [] for slot in slots}
    for event in trace.events:
        slot = next((owned[name] for name in re.findall(r"\w+", event.name) if name in owned), None)
        if slot is not None and event.kind in (ON_CORES if slot.gpu is None else ON_GPU):
            found[id(slot)].append(event)
    return [trace.busy(found[id(slot)]) for slot in slots]
