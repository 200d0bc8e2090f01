"""Time loops over a plate: the levels of a tile advance together, a few rows at a time, and rows share their loads.

A level keeps the rows that the next one reads alone, so that a tile is as high as its halo should be small, and as wide
as the rows of all levels fit in the cache. The levels of a pass and the sides of a tile follow from that cache, by
counts of redundant points, of ends of rows, and of sweeps through memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tiramisu_py import Computation, Iter, Selection
from tiramisu_py.errors import CommandError
from tiramisu_py.queries import Statement
from tiramisu_py.queries import step_distances as distances
from tiramisu_py.recipes.cpu import Cpu
from tiramisu_py.recipes.recipe import Recipe
from tiramisu_py.records import dataclass

#: The rows at a time: each more saves fewer loads, and takes as much of the cache.
ROWS = 4
#: The share of the second-level cache that the rows of all levels of a tile fill.
FILLED = 7 / 8
#: The bytes of a cache line; a tile is a multiple of `WIDE` of them wide.
LINE, WIDE = 64, 4
#: Rows of a level that are multiples of so many bytes apart displace each other in the first-level cache.
PAGE = 4096
#: The height of a tile, in halos, with `FEW` cores; more cores share lower tiles, down to the minimum.
HIGH, LOWEST, FEW = 20, 4, 2
#: The levels of a pass, if the number of levels is not known.
COUNTS = range(4, 41)
#: The minimum number of levels of a pass if their number is known, but for fewer levels than that.
SHORTEST = 4
#: The maximum number of statements of a field by cases: each is there for full and partial tiles.
MOST_CASES = 4

#: The growth of a tile for each earlier level, below and above.
Growth = tuple[int, int]


@dataclass(frozen=True)
class FrontPlan:
    """A pass of `steps` levels over tiles of `rows` x `columns` points of `element` bytes.

    `down` and `across` are the growth of a tile for each earlier level, along rows and columns.
    """

    steps: int
    rows: int
    columns: int
    down: Growth
    across: Growth
    element: int

    @property
    def footprint(self) -> int:
        """Bytes of the rows that all levels of a tile keep."""
        return self.element * _ring(self.down) * (self.steps - 1) * (self.columns + _halo(self.across, self))

    @property
    def redundancy(self) -> float:
        """Points computed per useful point; the ends of a row take about a cache line each."""
        wider = sum(self.across) * self.steps / 2 + 2 * LINE / self.element
        return (1 + wider / self.columns) * (1 + sum(self.down) * self.steps / 2 / self.rows)

    def cost(self, memory: float) -> float:
        """The time per point and level, relative to computing a point in the cache; `memory` is that of a sweep."""
        return self.redundancy + memory / self.steps


def best_front(
    sides: Sequence[Growth], element: int, cpu: Cpu, memory: float, steps: int | None = None, levels: int | None = None
) -> FrontPlan | None:
    """The plan of least cost whose rows fit in the cache; None if the field has no two dimensions, or none fits.

    `steps` is the number of levels of a pass, and `levels` of all passes, where they are given.
    """
    if len(sides) != 2 or not sum(sides[0]) or ROWS + sum(sides[0]) > cpu.registers:
        return None
    plans = (_plan(count, sides, element, cpu) for count in _counts(steps, levels))
    return min((plan for plan in plans if plan is not None), key=lambda plan: plan.cost(memory), default=None)


def _counts(steps: int | None, levels: int | None) -> Iterator[int]:
    """The numbers of levels of a pass to choose from; those of all passes together are hardly more than `levels`."""
    if steps is not None:
        yield steps
    elif levels is None:
        yield from COUNTS
    else:
        yield from (-(-levels // passes) for passes in range(1, max(levels // SHORTEST, 2)))


def _plan(steps: int, sides: Sequence[Growth], element: int, cpu: Cpu) -> FrontPlan | None:
    """The widest tile whose rows fit in the cache."""
    if steps < 2:
        return None
    down, across = sides
    unit = WIDE * LINE // element
    high = max(HIGH * FEW // max(cpu.cores, FEW), LOWEST)
    rows = -(-high * sum(down) * steps // ROWS) * ROWS
    narrow = FrontPlan(steps, rows, unit, down, across, element)
    room = int(FILLED * cpu.second) // (element * _ring(down) * (steps - 1)) - _halo(across, narrow)
    columns = room // unit * unit
    if (columns + _halo(across, narrow)) * element % PAGE == 0:
        columns -= unit
    return FrontPlan(steps, rows, columns, down, across, element) if columns > 0 else None


def _ring(down: Growth) -> int:
    """The rows that a level keeps: those that are computed at a time and those that they read, in whole blocks."""
    return -(-(ROWS + sum(down)) // ROWS) * ROWS


def _halo(across: Growth, plan: FrontPlan) -> int:
    """The columns beside a tile that its first level needs, in whole cache lines."""
    line = LINE // plan.element
    return sum(-(-each * (plan.steps - 1) // line) * line for each in across)


def in_fronts(
    recipe: Recipe, field: Computation, loops: Sequence[Iter], outer: Sequence[Iter], plan: FrontPlan
) -> bool:
    """Compute a field in tiles whose levels advance together; False, and nothing is applied, if that is refused.

    `loops` are those over time, rows and columns, and `outer` those over passes and tiles.
    """
    return recipe.tried(lambda: _tiled(recipe, field, loops, outer, plan))


def _tiled(recipe: Recipe, field: Computation, loops: Sequence[Iter], outer: Sequence[Iter], plan: FrontPlan) -> None:
    time, down, across = loops
    field.separate_cases()
    sharing = _readers_of_rows(recipe, field, loops)
    field.time_tile(time, plan.steps, {down: plan.rows, across: plan.columns}, outer, wavefront={down: ROWS})
    field.parallelize(*outer[1:])
    for part in _inner_parts(recipe, field, sharing):
        _share_rows(recipe, recipe.function[part.name], loops, outer[0], plan)


def _readers_of_rows(recipe: Recipe, field: Computation, loops: Sequence[Iter]) -> set[str]:
    """The cases of a field that read other rows than their own; raises `CommandError` for more than a few cases."""
    program, (time, down, _) = recipe.function.program, loops
    cases = program.statements_of(field.name)
    if len(cases) > MOST_CASES:
        raise CommandError(f"{field} has {len(cases)} cases, each of which is there for full and partial tiles")
    reads = distances(program, cases, [field.name], time.name, [down.name])
    return {each.reader for each in reads if each.below[0] or each.above[0]}


def _inner_parts(recipe: Recipe, field: Computation, sharing: set[str]) -> list[Statement]:
    """The parts of statements that read and store the rows of a tile."""
    parts = recipe.function.program.statements_of(field.name)
    inside = [each for each in parts if each.memory.target != field.name and field.name in each.memory.sources]
    return [each for each in inside if sharing & set(each.origin.part_of)]


def _share_rows(recipe: Recipe, part: Selection, loops: Sequence[Iter], passes: Iter, plan: FrontPlan) -> None:
    """Compute the rows of a block in one iteration: blocks begin a row earlier with each level, and so do the rows."""
    (time, down, across), (below, above) = loops, plan.down
    if above:
        part.skew(time, down, above)
        part.skew(passes, down, -above * plan.steps)
    block, row = recipe.fresh("block"), recipe.fresh("row")
    part.split(down, ROWS, block, row, origin=below * (1 - plan.steps))
    part.reorder(block, across, row)
    part.unroll(row)
