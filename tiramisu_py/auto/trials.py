"""Candidates as commands on a function: what is refused falls back to the next candidate, at last to no command.

At the level of measurements, the schedules that the cost model likes best are timed, and the fastest one is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tiramisu_py import Function
from tiramisu_py.auto.clusters import anchors
from tiramisu_py.auto.model.offers import Offer, Problem
from tiramisu_py.errors import ArgumentError, LegalityError, TiramisuError
from tiramisu_py.queries import Command, shares_threads
from tiramisu_py.records import dataclass
from tiramisu_py.tuning import Tuned, tune

#: The candidates of a computation.
Offering = Callable[[Problem, str], list[Offer]]


@dataclass(frozen=True)
class ChosenOffer:
    """The choice for a computation: the candidate, its commands, and what was refused before it, with reasons."""

    anchor: str
    chosen: Offer | None
    commands: tuple[Command, ...]
    refused: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Attempted:
    """A schedule on a copy of the function: the copy, and the choices that led to it."""

    function: Function
    choices: tuple[ChosenOffer, ...]


def proven(problem: Problem, offers: Offering, banned: dict[tuple[str, str], str] | None = None) -> Attempted:
    """The schedule of the first candidates that commands and the proof accept.

    The proof of the whole is asked once. If it refuses, the candidate to blame is left out, and the rest is put
    together anew. Raises `LegalityError` for a function that is refused as it was given.
    """
    banned = {} if banned is None else banned
    while True:
        trial = _assembled(problem, offers, banned)
        reason = _refusal(trial.function)
        if reason is None:
            return trial
        _require_legal(problem.function)
        key = _blamed(trial, reason)
        banned[key] = reason[1]


def _assembled(problem: Problem, offers: Offering, banned: dict[tuple[str, str], str]) -> Attempted:
    function = problem.function.copy()
    covered: set[str] = set(problem.given)
    choices: list[ChosenOffer] = []
    for name in anchors(problem):
        if name in covered:
            continue
        choice, function = _chosen(problem, function, name, offers(problem, name), covered, banned)
        choices.append(choice)
        covered |= set(choice.chosen.covers) if choice.chosen is not None else {name}
    return Attempted(function, tuple(choices))


def _chosen(
    problem: Problem,
    function: Function,
    name: str,
    offered: Sequence[Offer],
    covered: set[str],
    banned: dict[tuple[str, str], str],
) -> tuple[ChosenOffer, Function]:
    """The first candidate whose commands are accepted, and the function with them."""
    refused: list[tuple[str, str]] = []
    before = len(function.commands)
    for candidate in offered:
        if candidate.key in banned:
            refused.append((candidate.what, banned[candidate.key]))
            continue
        if covered & set(candidate.covers):
            refused.append((candidate.what, f"{', '.join(sorted(covered & set(candidate.covers)))} has its loops"))
            continue
        attempt = function.copy()
        try:
            candidate.apply(attempt)
            attempt = _without_threads(attempt, before) if problem.threads == 1 else attempt
        except TiramisuError as error:
            refused.append((candidate.what, _one_line(error)))
            continue
        return ChosenOffer(name, candidate, attempt.commands[before:], tuple(refused)), attempt
    return ChosenOffer(name, None, (), tuple(refused)), function


def _without_threads(function: Function, before: int) -> Function:
    """The function without the commands, after the first ones, that share loops among threads."""
    commands = function.commands
    kept = [*commands[:before], *(each for each in commands[before:] if not shares_threads(each))]
    return function if len(kept) == len(commands) else Function.of(function.algorithm, kept)


def _refusal(function: Function) -> tuple[str, str] | None:
    """The command to blame and the reason, if the proof refuses a function; None if it is proven."""
    report = function.check()
    if report.ok:
        return None
    first = report.violations[0]
    return first.command, f"{first.kind}: {first.message}"


def _require_legal(function: Function) -> None:
    """Raise the error of `compile` for a function that is refused before any further command."""
    report = function.check()
    if not report.ok:
        raise LegalityError(report.violations)


def _blamed(trial: Attempted, reason: tuple[str, str]) -> tuple[str, str]:
    """The candidate whose command is to blame, else the one that was chosen last."""
    keys = [(choice, choice.chosen.key) for choice in trial.choices if choice.chosen is not None and choice.commands]
    for choice, key in keys:
        if any(reason[0].startswith(command.text) for command in choice.commands):
            return key
    return keys[-1][1]


def _one_line(error: TiramisuError) -> str:
    return str(error).splitlines()[0]


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
