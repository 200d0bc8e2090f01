"""The choice of time steps and tiles for a time loop, from counts of redundant points and of bytes in the cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from tiramisu_py.recipes.cpu import Cpu
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
