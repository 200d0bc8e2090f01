"""Time loops over a grid: several steps at a time, in tiles that fit in a core's cache.

A plate is computed as `time_fronts` says; here are lines, cubes, and fields that it refuses. Steps and tiles are chosen
from counts of redundant points and of bytes in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from tiramisu_py import Computation, Iter, Target
from tiramisu_py.errors import ArgumentError
from tiramisu_py.public_calls import own_call_of
from tiramisu_py.queries import halos
from tiramisu_py.queries import statement_sources as sources
from tiramisu_py.queries import step_distances as distances
from tiramisu_py.recipes.cpu import Cpu
from tiramisu_py.recipes.recipe import AppliedCommands, Recipe, processor
from tiramisu_py.recipes.time_fronts import best_front, in_fronts
from tiramisu_py.records import dataclass

#: The maximum number of levels of a pass: from there on, memory no longer limits a step.
MOST_STEPS = 12
#: The share of the second-level cache that the levels of a tile may fill; two levels are kept.
FILLED, LEVELS = 0.4, 2
#: Row lengths of a tile in vectors, the longest first; the step and the minimum of its other sides.
VECTORS, FEWEST = (32, 16, 8), 4
#: The cost of a sweep through memory, relative to computing the same points in the cache.
MEMORY = 3.0
#: The maximum number of points computed per useful point.
MOST_REDUNDANT = 1.75


@dataclass(frozen=True)
class TimePlan:
    """A pass of `steps` levels over tiles with the given `sides`, the last one in vectors of `lanes`.

    `reach` is the growth of a tile along each dimension, on both sides together, for each level before the last.
    """

    steps: int
    sides: tuple[int, ...]
    reach: tuple[int, ...]
    lanes: int
    element: int

    @property
    def redundancy(self) -> float:
        """Points computed per useful point; a partial vector counts as a whole one."""
        return sum(prod(self._level(before)) for before in range(self.steps)) / (self.steps * prod(self._level(0)))

    @property
    def footprint(self) -> int:
        """Bytes of the largest levels that a tile keeps at a time."""
        return LEVELS * self.element * prod(self._level(self.steps - 1))

    @property
    def cost(self) -> float:
        """The time per point and step, relative to computing a point in the cache."""
        moved = (prod(self._level(self.steps)) + prod(self._level(0))) / (2 * prod(self._level(0)))
        return self.redundancy + MEMORY * moved / self.steps

    def _level(self, before: int) -> tuple[int, ...]:
        """The sides of the box that a tile computes `before` levels before its last one."""
        *sides, row = (side + before * more for side, more in zip(self.sides, self.reach, strict=True))
        apart = 1 if before and self.reach[-1] else 0  # halos on both sides begin and end within vectors
        return (*sides, (-(-row // self.lanes) + apart) * self.lanes)


#: Among plans with costs within this factor, the one with the longest rows is chosen.
NEARLY = 1.05
#: The cost of a step that reads and writes memory, without redundant computation.
PLAIN = 1 + MEMORY


def best_plan(reach: Sequence[int], lanes: int, element: int, cpu: Cpu, steps: int | None = None) -> TimePlan | None:
    """The plan of approximately least cost that fits in the cache, with `steps` levels if they are given.

    None if no tile pays: each costs at least as much as plain sweeps, or has too many redundant points.
    """
    counts = range(2, MOST_STEPS + 1) if steps is None else [steps]
    plans = [plan for count in counts for plan in _plans(count, tuple(reach), lanes, element, cpu)]
    if steps is None:
        plans = [plan for plan in plans if plan.cost < PLAIN and plan.redundancy <= MOST_REDUNDANT]
    least = min((plan.cost for plan in plans), default=0.0)
    return max((plan for plan in plans if plan.cost <= NEARLY * least), key=lambda plan: plan.sides[-1], default=None)


def _plans(steps: int, reach: tuple[int, ...], lanes: int, element: int, cpu: Cpu) -> Iterator[TimePlan]:
    """For each row length the largest tile that fits in the cache; if none fits, the smallest tile."""
    room = int(cpu.second * FILLED)
    if len(reach) == 1:
        row = room // (LEVELS * element) // lanes - 2
        least = VECTORS[-1] - (steps - 1) * reach[0] // lanes
        yield TimePlan(steps, (max(row // 2, least, 1) * lanes,), reach, lanes, element)
        return
    for vectors in VECTORS:
        row = vectors * lanes
        fitting = None
        for side in range(FEWEST, room, FEWEST):
            plan = TimePlan(steps, (*[side] * (len(reach) - 1), row), reach, lanes, element)
            if plan.footprint > room:
                break
            fitting = plan
        if fitting is not None:
            yield fitting


#: The comment in the text if steps are not tiled.
NO_TILE = "# no tiles over time: their halos would cost more than they save"


@own_call_of("tm.recipes")
def time_stencil(
    field: Computation,
    *,
    steps: int | None = None,
    levels: int | None = None,
    cpu: Cpu | Target | str | None = None,
) -> AppliedCommands:
    """Schedule a field over time and space (time outermost) in overlapping time tiles.

    ::

        print(tm.recipes.time_stencil(heat))
            -->   t, i, j, t0, i0, j0, block, row = tm.iters("t i j t0 i0 j0 block row")
                  heat = f["heat"]
                  heat.separate_cases()
                  heat.time_tile(t, 27, {i: 1080, j: 1024}, [t0, i0, j0], wavefront={i: 4})
                  heat.parallelize(i0, j0)
                  heat_1_inner = f["heat_1_inner"]
                  heat_1_inner.skew(t, i, 1)
                  heat_1_inner.skew(t0, i, -27)
                  heat_1_inner.split(i, 4, block, row, origin=-26)
                  heat_1_inner.reorder(block, j, row)
                  heat_1_inner.unroll(row)
                  heat.vectorize(j, 16, remainder="mask")
                  heat_out = f["heat_out"]
                  heat_out.parallelize(i)
                  heat_out.vectorize(j, 16)

    Each level is computed from the one before. A tile computes `steps` levels while they are in the second-level cache
    of `cpu` (default: this machine's), including the halo that it needs from its neighbours. In two dimensions all
    levels of a tile advance together, four rows at a time, which share their loads: each keeps the rows alone that the
    next one reads, so that tiles are high and wide. Elsewhere, and where that is refused, it keeps two whole levels.

    The number of levels and the tile sizes are chosen by counting the points computed per useful point, and the memory
    traffic: typically many levels in two dimensions, two to four in three. With `levels`, the number of levels of the
    field in a call, passes are about as long as each other. If no tile pays (wide stencils in three dimensions), the
    text says so in a comment, and each step is a sweep in vectors on all threads; with `steps` given, tiles are always
    used.
    The copy of the result (``f.outputs(heat[T, i, j])``) runs in vectors on all threads too. Returns the commands that
    were applied, to be pasted and edited, over the function `f`.

    Raises `ArgumentError` for a field with fewer than two loops, and the error of a command that is refused; then none
    of the commands is applied.
    """
    for name, given in (("steps", steps), ("levels", levels)):
        if given is not None and (isinstance(given, bool) or not isinstance(given, int) or given < 1):
            raise ArgumentError(f"time_stencil: {name} is {given!r}: give an integer of at least 1")
    recipe = Recipe("time_stencil", [field])
    cpu = processor("time_stencil", cpu)
    time, *space = recipe.loops(field)
    if not space:
        raise ArgumentError(f"time_stencil: {field} has one loop, and needs at least two: time, then space")
    lanes = cpu.lanes(field.dtype.bytes)
    sides, size = _growth(recipe, field, time, space), field.dtype.bytes
    front = best_front(sides, size, cpu, MEMORY, steps, levels)
    plan = best_plan([sum(both) for both in sides], lanes, size, cpu, steps)
    with recipe.together():
        outer = [recipe.fresh(f"{loop.name}0") for loop in (time, *space)]
        tiled = front is not None and in_fronts(recipe, field, [time, *space], outer, front)
        if not tiled and plan is not None:
            _in_boxes(field, [time, *space], outer, plan)
        elif not tiled and len(space) > 1:
            field.parallelize(space[0])
        field.vectorize(space[-1], lanes, remainder="mask")
        for reader in _readers(recipe, field):
            loops = recipe.loops(reader)
            reader.parallelize(loops[0])
            reader.vectorize(loops[-1], lanes)
    return recipe.commands(*([] if tiled or plan is not None else [NO_TILE]))


def _in_boxes(field: Computation, loops: Sequence[Iter], outer: Sequence[Iter], plan: TimePlan) -> None:
    """Compute a field in small tiles, one whole level of a tile after another."""
    field.time_tile(loops[0], plan.steps, dict(zip(loops[1:], plan.sides, strict=True)), outer)
    field.parallelize(outer[1])


def _growth(recipe: Recipe, field: Computation, time: Iter, space: list[Iter]) -> list[tuple[int, int]]:
    """The growth of a tile per earlier level along each dimension, below and above."""
    program, dims = recipe.function.program, [loop.name for loop in space]
    reads = distances(program, [recipe.statement(field)], [field.name], time.name, dims)
    sides = [halos(reads, [field.name], dim, position, time.name) for position, dim in enumerate(dims)]
    return [(below.slope, above.slope) for below, above in sides]


def _readers(recipe: Recipe, field: Computation) -> list[Computation]:
    """The outputs that copy the result of the field (no stencils), with at least two loops and one statement."""
    function, found = recipe.function, []
    for name in function.algorithm.outputs:
        statements = function.program.statements_of(name)
        copies = name != field.name and len(statements) == 1 and sources(statements[0]) == (field.name,)
        if copies and len(statements[0].loops) > 1:
            found.append(function[name])
    return found
