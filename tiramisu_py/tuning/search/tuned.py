"""The result of a search."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tiramisu_py.errors import ArgumentError
from tiramisu_py.queries import Command
from tiramisu_py.records import dataclass
from tiramisu_py.tuning.search.stopwatch import Samples, seconds_of


@dataclass(frozen=True)
class TunedPoint:
    """One point of a space, and what became of it.

    `outcome` is "measured", "stopped" (early, since it was clearly slower than the best), "pruned" (a command or the
    proof refuses it: it was never compiled), or "failed" (it could not be compiled or called); `reason` says why for
    the last two. `samples` are the times of its calls, by size. `commands` make the schedule:
    ``tm.Function.of(f.algorithm, point.commands)``; a point that a command refuses has none. `reused` tells that the
    outcome was in the database before.
    """

    parameters: Mapping[str, Any]
    outcome: str
    reason: str = ""
    samples: Samples = ()
    commands: tuple[Command, ...] = ()
    reused: bool = False

    @property
    def seconds(self) -> float | None:
        """The time of a call: the least sample, and for several sizes the geometric mean of these; None without."""
        return seconds_of(self.samples)

    def __str__(self) -> str:
        named = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        seconds = self.seconds
        return f"{named}: {self.outcome}" + ("" if seconds is None else f", {duration(seconds)}")


@dataclass(frozen=True)
class Tuned:
    """The result of `tune`: all points that were tried, in the order in which they were, and how long that took.

    ::

        result = tm.tune(make, space, arguments={"image": image})
        f = make(**result.best.parameters)          or  tm.Function.of(f.algorithm, result.best.commands)
        print(result.table())

    `size` is the number of points of the space, without those that ``where=`` excludes (None if they were not listed);
    `complete` tells that none of them was left out because of a limit.
    """

    name: str
    points: tuple[TunedPoint, ...]
    size: int | None
    complete: bool
    elapsed: float

    @property
    def best(self) -> TunedPoint:
        """The fastest point. Raises `ArgumentError`, with the reasons, if none has been measured."""
        measured = [point for point in self.points if point.outcome == "measured"]
        if not measured:
            raise ArgumentError(f"no point of {self.name} has been measured: {self._why_none()}")
        return min(measured, key=lambda point: point.seconds or 0.0)

    @property
    def measured(self) -> int:
        """The number of points that were measured, also of those that were stopped early."""
        return sum(point.outcome in ("measured", "stopped") for point in self.points)

    @property
    def pruned(self) -> int:
        """The number of points that a command or the proof refuses."""
        return sum(point.outcome == "pruned" for point in self.points)

    @property
    def failed(self) -> int:
        """The number of points that could not be compiled or called."""
        return sum(point.outcome == "failed" for point in self.points)

    @property
    def pruned_share(self) -> float:
        """The share of the points tried that a command or the proof refuses, from 0 to 1."""
        return self.pruned / len(self.points) if self.points else 0.0

    def table(self, most: int | None = None) -> str:
        """The points that ran as text, the fastest first, at most `most` of them; then why the others did not run."""
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
            raise ArgumentError(f"table: most is {most!r}: give the number of points to show, at least 1")
        ran = sorted((point for point in self.points if point.samples), key=_order)
        names = list(self.points[0].parameters) if self.points else []
        rows = [(*names, "time", "of best", "outcome")]
        for point in ran[:most]:
            seconds, least = point.seconds, ran[0].seconds
            time = "" if seconds is None else duration(seconds)
            ratio = "" if seconds is None or least is None else f"{seconds / least:.2f}"
            rows.append((*(_shown(point.parameters[name]) for name in names), time, ratio, point.outcome))
        lines = _aligned(rows) if ran else []
        if len(ran) >= len(rows):
            lines.append(f"... and {len(ran) - len(rows) + 1} more")
        idle = (point for point in self.points if not point.samples)
        reasons = Counter((point.outcome, point.reason.partition("\n")[0]) for point in idle)
        return "\n".join([*lines, *(f"{count} {kind}: {why}" for (kind, why), count in reasons.most_common())])

    def __str__(self) -> str:
        share = f", {self.pruned_share:.0%}" if self.pruned else ""
        whole = "" if self.complete else f" of {'many' if self.size is None else self.size}"
        counts = f"{self.measured} measured, {self.pruned} pruned by the proof{share}, {self.failed} failed"
        lines = [f"{self.name}: {len(self.points)}{whole} points tried in {duration(self.elapsed)}: {counts}"]
        if any(point.outcome == "measured" for point in self.points):
            lines.append(f"  best: {self.best}")
        else:
            lines.append(f"  none measured: {self._why_none()}")
        return "\n".join(lines)

    def _why_none(self) -> str:
        """The most frequent reason of those without a time."""
        reasons = Counter(point.reason for point in self.points if point.reason)
        if not reasons:
            return "the limit was reached first" if not self.complete else "the space has no points"
        reason, count = reasons.most_common(1)[0]
        return f"{self.pruned} pruned by the proof, {self.failed} failed, {count} of them since {reason}"


def duration(seconds: float) -> str:
    """Seconds in words: ``1.23 ms``."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _order(point: TunedPoint) -> tuple[bool, float]:
    """The key that puts measured points first, and the fastest of them before all others."""
    return point.outcome != "measured", math.inf if point.seconds is None else point.seconds


def _shown(value: object) -> str:
    return value if isinstance(value, str) else repr(value)


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows in columns, of which the last one is not padded."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]) - 1)]
    return [
        "  ".join([*(cell.rjust(width) for cell, width in zip(row[:-1], widths, strict=True)), row[-1]]).rstrip()
        for row in rows
    ]
