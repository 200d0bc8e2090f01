"""The judge of GPU programs: brute force over all executions at one size.

It shares nothing with the proof but the definition of a program. First every pair of conflicting accesses must be
ordered by happens-before, and everything must be complete when the function returns; then all runs end in the same
contents, so that one of them, in the order of issue, shows whether each read sees the value it names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tests.oracle.judges.events import Misplaced, Place, loads_first
from tests.oracle.judges.gpu_events import Act, GpuExecution, Happens
from tests.oracle.judges.judge import Failure, Run, _box, _exits, _outside
from tests.oracle.judges.plain import Point, function, integers, points
from tests.oracle.judges.values import Named, Values
from tiramisu_py.algorithm.expressions import Const
from tiramisu_py.algorithm.types import TupleType
from tiramisu_py.errors import UnsupportedError
from tiramisu_py.program.loops import Combine, GpuBlock, GpuThread, Loop
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role
from tiramisu_py.program.storage import Memory


def judge(program: Program, params: Mapping[str, int], given: Values | None = None) -> list[Failure]:
    """Everything that goes wrong at these parameters; `given` are the values where arrays decide which there are."""
    values = Values(program.algorithm, params) if given is None else given
    faults = values.faults()
    if faults:
        return [Failure(kind, "the algorithm itself") for kind in sorted(faults)]
    execution = GpuExecution(program, params, values)
    try:
        issued = execution.acts()
        exits = _exits(execution)
        execution.numbered()
    except (Misplaced, UnsupportedError) as error:  # the latter where blocks or threads cannot be numbered
        return [Failure("reach", str(error))]
    homeless = _homeless(program)
    if homeless:
        return homeless
    happens, acts = Happens(execution, issued), [act for act in issued if act.taken]
    run = GpuRun(execution, exits)
    return [
        *_outside(execution, acts, exits),
        *divergent(execution),
        *_unfinished(happens),
        *_early(happens),
        *_apart(acts),
        *_races(execution, happens, acts),
        *run.failures(sorted(acts, key=lambda act: act.sigma)),
    ]


def _homeless(program: Program) -> list[Failure]:
    """Buffers that a kernel cannot have: on the chip without constant extents, or each block's own and not there."""
    found = []
    for buffer in program.buffers.values():
        inside = any(program.loops[loop].is_gpu for loop in buffer.scope)
        on_chip = buffer.memory in (Memory.SHARED, Memory.REGISTER)
        if on_chip and (inside or buffer.memory is Memory.SHARED):
            if not all(isinstance(extent, Const) for extent in buffer.extents):
                found.append(Failure("bounds", f"{buffer.name} has no constant extents"))
        elif inside and any(s.buffer == buffer.name for s in program.storages.values()):
            found.append(Failure("reach", f"{buffer.name} would be allocated in a kernel"))
    return found


def _unfinished(happens: Happens) -> list[Failure]:
    return [
        Failure("race", f"{operation.acts[0]} may not be complete when the function returns")
        for operation in happens.operations.values()
        if not happens.last >> operation.number & 1
    ]


def _early(happens: Happens) -> list[Failure]:
    return [Failure("order", f"{wait} waits for an operation that is issued later") for wait in happens.early]


def _apart(acts: Sequence[Act]) -> list[Failure]:
    """Threads of a block that combine in a tree, and yet add to different values."""
    together: dict[tuple[object, ...], list[Act]] = {}
    for act in acts:
        trees = [depth for depth, loop in enumerate(act.loops) if _is_tree(loop)]
        if trees and act.role is Role.UPDATE:
            around = act.time[: 2 * trees[0] + 1]
            together.setdefault((act.statement, act.operation, act.block, around), []).append(act)
    return [
        Failure("reduction", f"{key[0]} combines terms of several values in a tree")
        for key, found in together.items()
        if any(len(values) > 1 for values in _by_kept_threads(found).values())
    ]


def _by_kept_threads(acts: Sequence[Act]) -> dict[Point, set[Named]]:
    """The values to which threads of each tree add: threads along an axis are in one if two of them ever meet.

    In a sequential loop inside, over values or terms, there is a tree in each iteration.
    """
    trees = [depth for depth, loop in enumerate(acts[0].loops) if _is_tree(loop)]
    met = set[int]()
    for depth in trees:
        seen: dict[object, Point] = {}
        for act in acts:
            key = (act.time[: 2 * depth + 1], act.time[2 * depth + 2 :], act.value)
            if seen.setdefault(key, act.time) != act.time:
                met.add(depth)
    kept = [depth for depth in trees if depth not in met] if met else []
    found: dict[Point, set[Named]] = {}
    for act in acts:
        inside = [act.time[2 * depth + 1] for depth in range(trees[0], len(act.loops)) if depth not in trees]
        found.setdefault((*(act.time[2 * depth + 1] for depth in kept), *inside), set()).add(act.value)
    return found


def _is_tree(loop: Loop) -> bool:
    return isinstance(loop.tag, GpuThread) and loop.tag.combine is Combine.TREE


def divergent(execution: GpuExecution) -> list[Failure]:
    """Barriers to which some threads of a block come and others do not."""
    found = []
    for statement in execution.program.statements.values():
        if statement.role is not Role.BARRIER:
            continue
        kernel = execution.kernel(statement)
        if kernel is None:
            found.append(Failure("race", f"{statement.name} is outside of any kernel"))
            continue
        coords_of, thread_of = function(statement.coords, execution.params), execution._threads(statement)
        come: dict[Point, set[Point]] = {}
        for instance in points(statement.instances, execution.params):
            coords = coords_of(instance)
            sigma = execution.sigma(statement, execution._time(statement, coords))
            come.setdefault(sigma, set()).add(thread_of(instance))
        loops = kernel.thread_loops(statement)
        shape = tuple(1 if loop is None else n for loop, n in zip(loops, kernel.shape, strict=True))
        for sigma, threads in come.items():
            if threads != set(_box(shape)):
                found.append(Failure("race", f"not all threads come to {statement.name} at {sigma}"))
    return found


def _races(execution: GpuExecution, happens: Happens, acts: Sequence[Act]) -> list[Failure]:
    """Conflicting accesses that nothing orders."""
    computations = execution.program.algorithm.computations
    locked = {name for name, computation in computations.items() if computation.ordered}
    several = {name for name, computation in computations.items() if isinstance(computation.dtype, TupleType)}
    touched: dict[Place, list[tuple[Act, bool]]] = {}
    for act in acts:
        for place in {place for place, _ in act.reads}:
            touched.setdefault(place, []).append((act, False))
        touched.setdefault(act.target, []).append((act, True))
    found = []
    for place, accesses in touched.items():
        for position, (a, writes) in enumerate(accesses):
            for b, too in accesses[:position]:
                if a is b or not (writes or too):
                    continue
                first, second = (_storing(act) if stores else act for act, stores in ((a, writes), (b, too)))
                if happens.before(first, second) or happens.before(second, first):
                    continue
                on_host = first.operation is None and second.operation is None
                if writes != too and on_host and loads_first(*((b, a) if writes else (a, b))):
                    continue
                combine = _combined(a, b) if writes and too and a.value[0] not in locked else None
                if combine is None:
                    found.append(Failure("race", f"nothing orders {b} and {a}, which meet at {place}"))
                elif a.value[0] in several and (combine is Combine.ATOMIC or _by_blocks(a, b)):
                    found.append(Failure("reduction", f"{b} and {a} combine several values at once at {place}"))
    return found


def _storing(act: Act) -> Act:
    """An execution as it stores: what the threads of a tree combine, the first of them adds."""
    trees = {loop.tag.axis for loop in act.loops if isinstance(loop.tag, GpuThread) and _is_tree(loop)}
    if act.role is not Role.UPDATE or not trees:
        return act
    return replace(act, thread=tuple(0 if axis in trees else at for axis, at in enumerate(act.thread)))


def _by_blocks(a: Act, b: Act) -> bool:
    """Whether two updates are in different blocks of one launch, whose results merge."""
    return a.operation is not None and a.operation == b.operation and a.block != b.block


def _combined(a: Act, b: Act) -> Combine | None:
    """How two unordered updates of one value are combined by the loop that makes them concurrent; None if not."""
    if not (a.role is b.role is Role.UPDATE and a.value == b.value and a.statement == b.statement):
        return None
    differ = [loop for loop, x, y in zip(a.loops, a.time[1::2], b.time[1::2], strict=False) if x != y]
    if a.operation is None:
        parting = differ[0]
    elif a.operation != b.operation:
        return None
    else:
        gpu = [loop for loop in differ if isinstance(loop.tag, GpuBlock)]
        gpu += [loop for loop in differ if isinstance(loop.tag, GpuThread)]
        parting = gpu[0] if gpu else differ[0]
    found: Combine | None = getattr(parting.tag, "combine", None)
    return found


class GpuRun(Run):
    """One run, the caller's arrays in the memory where they are."""

    def _enter(self) -> dict[Place, object]:
        program = self.execution.program
        assert isinstance(self.execution, GpuExecution)
        for buffer in program.buffers.values():
            if buffer.argument:
                name = self.execution.instance(buffer.name, buffer.device)
                for element in _box(integers(buffer.extents, self.execution.params)):
                    self._write((name, (), element), (f"the caller's {name}", element))
        for source in program.algorithm.inputs.values():
            if not source.scalar:
                for index in _box(self.execution.values.shape(source)):
                    self._write(self.execution.outside_any_loop(source.name, index), (source.name, index))
        return dict(self.held)
