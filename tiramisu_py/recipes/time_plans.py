"""How many levels, and which tiles, a time loop is worth: points computed again, and what the cache holds, counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from tiramisu_py.recipes.cpu import Cpu

#: The most levels of a pass: memory is then no longer what a step waits for.
MOST_STEPS = 12
#: The part of the second-level cache that the levels of a tile may fill; two levels are kept.
FILLED, LEVELS = 0.4, 2
#: Vectors of a row of a tile, the longest first, and the step and the fewest of its other sides.
VECTORS, FEWEST = (32, 16, 8), 4
#: What a sweep through memory costs, where computing the same points in the cache costs 1.
MEMORY = 3.0
#: Tiles that compute more than this for each useful point are never chosen.
MOST_REDUNDANT = 1.75


@dataclass(frozen=True)
class TimePlan:
    """A pass of `steps` levels over tiles with the given `sides`, the last one in vectors of `lanes`.

    `reach` says by how much a tile grows along each dimension, below and above together, for each level before the
    last.
    """

    steps: int
    sides: tuple[int, ...]
    reach: tuple[int, ...]
    lanes: int
    element: int

    @property
    def redundancy(self) -> float:
        """Points computed for each useful one, whole vectors counted where a level computes a part of one."""
        return sum(prod(self._level(before)) for before in range(self.steps)) / (self.steps * prod(self._level(0)))

    @property
    def footprint(self) -> int:
        """Bytes of the levels that a tile keeps, the largest ones."""
        return LEVELS * self.element * prod(self._level(self.steps - 1))

    @property
    def cost(self) -> float:
        """The time of a point and a step, where computing one in the cache takes 1."""
        moved = (prod(self._level(self.steps)) + prod(self._level(0))) / (2 * prod(self._level(0)))
        return self.redundancy + MEMORY * moved / self.steps

    def _level(self, before: int) -> tuple[int, ...]:
        """The sides of what a tile computes so many levels before its last one."""
        *sides, row = (side + before * more for side, more in zip(self.sides, self.reach, strict=True))
        apart = 1 if before and self.reach[-1] else 0  # halos on both sides begin and end within vectors
        return (*sides, (-(-row // self.lanes) + apart) * self.lanes)


#: Of plans that cost the same within this factor, the one of the longest rows is chosen.
NEARLY = 1.05
#: What a step costs that reads and writes memory, and computes nothing twice.
PLAIN = 1 + MEMORY


def best_plan(reach: Sequence[int], lanes: int, element: int, cpu: Cpu, steps: int | None = None) -> TimePlan | None:
    """The plan of about the least cost that the cache holds, with `steps` levels where they are given.

    None where no tile pays: where each costs what plain sweeps do, or computes too much twice.
    """
    counts = range(2, MOST_STEPS + 1) if steps is None else [steps]
    plans = [plan for count in counts for plan in _plans(count, tuple(reach), lanes, element, cpu)]
    if steps is None:
        plans = [plan for plan in plans if plan.cost < PLAIN and plan.redundancy <= MOST_REDUNDANT]
    least = min((plan.cost for plan in plans), default=0.0)
    return max((plan for plan in plans if plan.cost <= NEARLY * least), key=lambda plan: plan.sides[-1], default=None)


def _plans(steps: int, reach: tuple[int, ...], lanes: int, element: int, cpu: Cpu) -> Iterator[TimePlan]:
    """For each length of rows the largest tile that the cache holds; where none fits, the smallest tile."""
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
