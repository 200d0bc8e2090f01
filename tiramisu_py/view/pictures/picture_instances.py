"""The instances of a program at given sizes: their points, their order, and who runs them.

The order is that of the time vectors without the coordinates of ranks, which run side by side, and of the threads of a
block, which all run a kernel in the same order; instances that agree in the rest are in the order of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tiramisu_py import sets
from tiramisu_py.algorithm.dimension_names import dimension_names
from tiramisu_py.program.kernels import KernelNest, kernels
from tiramisu_py.program.loops import AXES, Bulk, GpuBlock, GpuThread, Loop, LoopId, Parallel, Rank, Vector
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement, Transfer, device_words
from tiramisu_py.proof.memory.sequential_runs import images
from tiramisu_py.records import dataclass
from tiramisu_py.view.cost_counts import tile_loops
from tiramisu_py.view.pictures.scene import Executor, PicturedInstance, PicturedLoop, PicturedStatement, Point


@dataclass(frozen=True)
class Ordered:
    """All instances in their order, and where each of them is in it: by statement, then by its own coordinates."""

    instances: tuple[PicturedInstance, ...]
    executors: tuple[Executor, ...]
    positions: tuple[Mapping[Point, int], ...]


def instances_at(statement: Statement, program: Program, sizes: Mapping[str, int]) -> list[Point]:
    """The instances of a statement at given sizes."""
    return sets.points(sets.fixed(statement.instances.intersect_params(program.context.params()), sizes))


def ordered_instances(program: Program, sizes: Mapping[str, int]) -> Ordered:
    """All instances of a program at given sizes, in their order."""
    statements = list(program.statements.values())
    timed = [each for number in range(len(statements)) for each in _timed(program, number, sizes)]
    steps = StepTable(program, timed)
    timed.sort(key=lambda each: (*_key(program, statements[each.statement], each), *each.name))
    runners = _Runners(program, sizes)
    points = _all_points(program, statements, timed, sizes)
    found, positions = list[PicturedInstance](), [dict[Point, int]() for _ in statements]
    for order, each in enumerate(timed):
        point, value = points[each.statement][each.instance]
        who = runners.number_of(statements[each.statement], each.instance)
        positions[each.statement][each.instance] = order
        step = steps.of[each.name]
        found.append(PicturedInstance(each.statement, point, each.coords, value, order, step, who))
    return Ordered(tuple(found), tuple(runners.found), tuple(positions))


def _timed(program: Program, number: int, sizes: Mapping[str, int]) -> Iterator[Timed]:
    statement = list(program.statements.values())[number]
    points = instances_at(statement, program, sizes)
    coords, times = images(statement.coords, points, sizes), images(program.times[statement.name], points, sizes)
    for point, iterations, time in zip(points, coords, times, strict=True):
        yield Timed(number, point, iterations, time)


def _key(program: Program, statement: Statement, each: Timed) -> tuple[Point, Point]:
    """The time of an instance without its rank and its thread, and these."""
    time, beside = list(each.time), list[int]()
    for depth, number in enumerate(statement.loops):
        if isinstance(program.loops[number].tag, Rank | GpuThread):
            beside.append(time[2 * depth + 1])
            time[2 * depth + 1] = 0
    return tuple(time), tuple(beside)


def _all_points(
    program: Program,
    statements: list[Statement],
    timed: list[Timed],
    sizes: Mapping[str, int],
) -> list[dict[Point, tuple[Point, Point]]]:
    """For each statement, the point of each instance and the indices of the value that it stores or moves."""
    own: list[list[Point]] = [[] for _ in statements]
    for each in timed:
        own[each.statement].append(each.instance)
    found = []
    for statement, instances in zip(statements, own, strict=True):
        points = images(statement.point, instances, sizes)
        values = images(program.value_of(statement), instances, sizes) if statement.source else [()] * len(points)
        found.append(dict(zip(instances, zip(points, values, strict=True), strict=True)))
    return found


class _Runners:
    """Who runs each instance, numbered as they come."""

    def __init__(self, program: Program, sizes: Mapping[str, int]) -> None:
        self.program = program
        self.sizes = sizes
        self.found: list[Executor] = []
        self._numbers: dict[Executor, int] = {}
        self._of: dict[str, dict[Point, Executor]] = {}
        self._kernels = {statement.name: nest for nest in kernels(program) for statement in nest.statements}

    def number_of(self, statement: Statement, instance: Point) -> int:
        """The number of who runs an instance."""
        if statement.name not in self._of:
            self._of[statement.name] = self._executors(statement)
        who = self._of[statement.name][instance]
        if who not in self._numbers:
            self._numbers[who] = len(self.found)
            self.found.append(who)
        return self._numbers[who]

    def _executors(self, statement: Statement) -> dict[Point, Executor]:
        points = instances_at(statement, self.program, self.sizes)
        nest = self._kernels.get(statement.name)
        ranks = images(self.program.rank_of(statement), points, self.sizes)
        blocks, threads = self._in_kernel(nest, statement, points)
        cores = self._cores(statement)
        coords = images(statement.coords, points, self.sizes)
        device = self.program.device_of(statement)
        return {
            point: Executor(rank, device, block, thread, tuple(at[depth] for depth in cores))
            for point, rank, block, thread, at in zip(points, ranks, blocks, threads, coords, strict=True)
        }

    def _in_kernel(
        self, nest: KernelNest | None, statement: Statement, points: list[Point]
    ) -> tuple[list[Point], list[Point]]:
        """The block and the thread of each instance, in the order of the axes that the kernel uses."""
        if nest is None:
            return [()] * len(points), [()] * len(points)
        used = [nest.thread_loops(each) for each in nest.statements]
        axes = [axis for axis in range(len(AXES)) if any(loops[axis] is not None for loops in used)]
        blocks = images(nest.numbers(statement, nest.blocks), points, self.sizes)
        threads = images(nest.thread_of(statement), points, self.sizes)
        return blocks, [tuple(thread[axis] for axis in axes) for thread in threads]

    def _cores(self, statement: Statement) -> list[int]:
        tags = [self.program.loops[loop].tag for loop in statement.loops]
        return [depth for depth, tag in enumerate(tags) if isinstance(tag, Parallel)]


# -- statements


def pictured_statement(program: Program, statement: Statement, array: int | None) -> PicturedStatement:
    """The drawing of a statement, as plain data."""
    dims = _point_names(program, statement)
    return PicturedStatement(
        name=statement.handle,
        source=statement.source,
        role=statement.role.value,
        dims=dims[: sets.size(statement.point.get_space().range())],
        loops=tuple(_loop(program.loops[loop]) for loop in statement.loops),
        text=_text(statement),
        array=array,
        tile_loops=tile_loops(program, statement),
        may=bool(statement.guards),
    )


def _point_names(program: Program, statement: Statement) -> tuple[str, ...]:
    """The names of the dimensions of a point; those of an input are named after the iterators that index it."""
    if not statement.source:
        return ()
    is_input = statement.source in program.algorithm.inputs
    return dimension_names(program.algorithm, statement.source) if is_input else program.point_names(statement)


def _text(statement: Statement) -> str:
    if statement.role in (Role.VALUE, Role.UPDATE):
        return str(statement.body)
    if statement.link.transfer is not None:
        return f"{statement.source} from {' to '.join(ends_of(statement.link.transfer))}"
    if statement.link.message is not None:
        return f"{statement.source} {'to' if statement.role is Role.SEND else 'from'} another rank"
    return f"{statement.role.value} {statement.source}".strip()


def ends_of(transfer: Transfer) -> tuple[str, str]:
    """The devices between which a transfer copies, in words."""
    return device_words(transfer.source), device_words(transfer.target)


def _loop(loop: Loop) -> PicturedLoop:
    tag = loop.tag
    if tag is None:
        return PicturedLoop(loop.name)
    axis = f" {AXES[tag.axis]}" if isinstance(tag, GpuBlock | GpuThread) else ""
    width = f" of {tag.width}" if isinstance(tag, Vector) else ""
    return PicturedLoop(loop.name, f"{tag.name}{axis}{width}")


# -- steps: when each instance runs, if everything that may run at the same time does
#
# Statements and iterations of a sequential loop come one after another; the iterations of a parallel loop, the blocks
# of a GPU, the lanes of a vector and the elements of one copy begin at the same step, and what follows comes after the
# longest. Threads of a block all run a kernel in the same order, and ranks run side by side: instances that differ in
# these coordinates alone have the same step.


@dataclass(frozen=True)
class Timed:
    """An instance with its time, before all instances are in their order."""

    statement: int
    instance: Point
    coords: Point
    time: Point

    @property
    def name(self) -> tuple[int, Point]:
        """The name of the instance."""
        return self.statement, self.instance


class StepTable:
    """The step of each instance of a program."""

    def __init__(self, program: Program, timed: list[Timed]) -> None:
        self.program = program
        self.statements = list(program.statements.values())
        self.of: dict[tuple[int, Point], int] = {}
        self._strips = _first_iterations(program, self.statements, timed)
        self._place(timed, 0, 0)

    def _place(self, group: list[Timed], level: int, start: int) -> int:
        """Give steps from `start` to instances that agree in their time up to `level`; the step after the last one."""
        if level == self.program.time_size or not group:
            self.of.update((each.name, start) for each in group)
            return start + bool(group)
        parts: dict[int, list[Timed]] = {}
        for each in group:
            parts.setdefault(self._key(each, level), []).append(each)
        ends = [start]
        together = level % 2 == 1 and self._together(group[0], level // 2)
        for key in sorted(parts):
            ends.append(self._place(parts[key], level + 1, start if together else ends[-1]))
        return max(ends)

    def _key(self, each: Timed, level: int) -> int:
        statement = self.statements[each.statement]
        depth = level // 2
        if level % 2 == 0 or depth >= len(statement.loops):
            return each.time[level]
        loop = statement.loops[depth]
        tag = self.program.loops[loop].tag
        if isinstance(tag, Rank | GpuThread):
            return 0
        if isinstance(tag, Vector):
            return (each.coords[depth] - self._strips[loop, each.coords[:depth]]) // tag.width
        return each.coords[depth]

    def _together(self, each: Timed, depth: int) -> bool:
        """Whether the iterations of the loop at a depth run at the same time."""
        loops = self.statements[each.statement].loops
        return depth < len(loops) and isinstance(self.program.loops[loops[depth]].tag, Parallel | GpuBlock | Bulk)


def _first_iterations(
    program: Program, statements: list[Statement], timed: list[Timed]
) -> dict[tuple[LoopId, Point], int]:
    """The first iteration of each vector loop, in each iteration of the loops around it: strips count from there."""
    found: dict[tuple[LoopId, Point], int] = {}
    for each in timed:
        for depth, loop in enumerate(statements[each.statement].loops):
            if isinstance(program.loops[loop].tag, Vector):
                around = (loop, each.coords[:depth])
                found[around] = min(found.get(around, each.coords[depth]), each.coords[depth])
    return found
