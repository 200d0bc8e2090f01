"""The level of measurements: the schedules that the cost model likes best are timed, and the fastest one is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tiramisu_py import Function
from tiramisu_py.auto.model.offers import Problem
from tiramisu_py.auto.trials import Attempted, Offering, proven
from tiramisu_py.errors import ArgumentError
from tiramisu_py.queries import Command
from tiramisu_py.records import dataclass
from tiramisu_py.tuning import Tuned, tune

#: The most schedules that are measured.
MOST = 8


@dataclass(frozen=True)
class MeasuredSchedules:
    """Schedules of one function, what each does instead of the first one, and the search that timed them."""

    attempts: tuple[Attempted, ...]
    instead: tuple[str, ...]
    search: Tuned

    @property
    def best(self) -> Attempted:
        """The fastest schedule."""
        number: int = self.search.best.parameters["schedule"]
        return self.attempts[number]

    def lines(self) -> list[str]:
        """The time of each schedule, in the order of the estimates."""
        times = {point.parameters["schedule"]: point for point in self.search.points}
        found = [f"schedule {n}, {what}: {_time(times.get(n))}" for n, what in enumerate(self.instead)]
        return [*found, f"the fastest is schedule {self.search.best.parameters['schedule']}"]


def _time(point: Any) -> str:
    if point is None:
        return "not measured"
    return point.outcome if point.seconds is None else f"{1000 * point.seconds:.3f} ms"


def measured(problem: Problem, offering: Offering, options: Mapping[str, Any]) -> MeasuredSchedules:
    """Time the schedule of the best offers, and those in which one nest has its next offer instead.

    `options` are those of `tune`, with `arguments`; its database makes a search resumable.
    """
    if "arguments" not in options and "sizes" not in options:
        raise ArgumentError(
            'auto_schedule: level="measure" calls the function: give arguments={...}, arrays, scalars and parameters '
            "by name, or sizes=[...], as to tm.tune"
        )
    attempts, instead = [proven(problem, offering)], ["the best estimates"]
    for choice in attempts[0].choices:
        if choice.chosen is None or len(attempts) == MOST:
            continue
        other = proven(problem, offering, {choice.chosen.key: "another one is measured beside it"})
        if other.function.commands not in [each.function.commands for each in attempts]:
            attempts.append(other)
            instead.append(f"{choice.anchor} without {choice.chosen.what}")
    commands: Sequence[tuple[Command, ...]] = [each.function.commands for each in attempts]
    algorithm = problem.function.algorithm

    def made(schedule: int) -> Function:
        return Function.of(algorithm, commands[schedule])

    space = {"schedule": list(range(len(commands)))}
    return MeasuredSchedules(tuple(attempts), tuple(instead), tune(made, space, **options))
