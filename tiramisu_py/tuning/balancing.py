"""balance(): the points of a partition at which all parts end together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from tiramisu_py import Function, gpu_count
from tiramisu_py.errors import ArgumentError, LegalityError
from tiramisu_py.public_calls import own_call
from tiramisu_py.queries import Counter, Program, Room, as_device, axes
from tiramisu_py.records import dataclass
from tiramisu_py.tuning.estimated import Estimate
from tiramisu_py.tuning.levels import Level, levels
from tiramisu_py.tuning.machine_model import Machine, published
from tiramisu_py.tuning.measured import Measurement
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
    if not isinstance(f, Function):
        raise ArgumentError(f"balance needs a function whose computations are partitioned, not {f!r}")
    if type(rounds) is not int or rounds < 1:
        raise ArgumentError(f"rounds={rounds!r}: give an integer of at least 1")
    if comm is not None and not axes(f.program):
        raise ArgumentError(f"{f.name} runs on no ranks: leave out comm=")
    program = f.completed
    known = checked_sizes(program, sizes)
    found = levels(program, known)
    _require_all(program, found, known)
    Room(program, known)
    if machine is not None and not isinstance(machine, Machine):
        raise ArgumentError(f'machine={machine!r}: give tm.Machine(...), or tm.Machine.here(gpu="H200")')
    if machine is not None:
        given = {"inputs": inputs, "small": small, "device": device, "threads": threads, **options}
        for name, value in given.items():
            if value is not None:
                raise ArgumentError(f"with machine= nothing is run: leave out {name}=")
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
    report = f.check()
    if not report.ok:
        raise LegalityError(report.violations)
    estimate = Estimate(program, found, machine or _own(found, threads, comm))
    return balanced(program, found, known, known, estimate, False)


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
