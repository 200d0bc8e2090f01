"""The result of `balance`."""

from __future__ import annotations

from collections.abc import Mapping

from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class BalancedPart:
    """One part of a level: the number of its iterations in the proposed split, and the seconds that they take.

    `fixed` is its fixed cost in seconds, `rate` the iterations a second beyond that. `name` is the name of the part,
    or the names of the parts of all stages that are cut alike.
    """

    name: str
    target: str
    iterations: int
    seconds: float
    fixed: float
    rate: float


@dataclass(frozen=True)
class Balance:
    """A split of a function's levels: the values of the points' parameters, and the expected time.

    ::

        split = tm.balance(f, {"R": 8000, "C": 8000})
        kernel(picture, **split.points)

    `seconds` is the time of the slowest parts at `sizes`, summed over the levels. `measured` tells its origin: runs at
    the small sizes in `runs` (True), or an estimate from operations and bytes (False).
    """

    points: Mapping[str, int]
    parts: tuple[BalancedPart, ...]
    seconds: float
    measured: bool
    sizes: Mapping[str, int]
    runs: tuple[Mapping[str, int], ...] = ()

    def __str__(self) -> str:
        whole = sum(part.iterations for part in self.parts)
        rows = [("part", "target", "iterations", "share", "seconds", "iterations/s")]
        for part in self.parts:
            share = f"{part.iterations / whole:.1%}" if whole else ""
            rows.append(
                (part.name, part.target, str(part.iterations), share, f"{part.seconds:.3g}", f"{part.rate:.3g}")
            )
        widths = [max(len(row[k]) for row in rows) for k in range(6)]
        lines = []
        for row in rows:
            words = [cell.ljust(width) for cell, width in zip(row[:2], widths[:2], strict=True)]
            words += [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
            lines.append("  ".join(words).rstrip())
        return "\n".join(
            [*lines, f"{listed(self.points)}: {self.seconds:.3g} s at {listed(self.sizes)}, {self._origin()}"]
        )

    def _origin(self) -> str:
        if not self.measured:
            return "estimated from operations and bytes: nothing was run"
        return f"from runs at {' and at '.join(listed(run) for run in self.runs)}"


def listed(values: Mapping[str, int]) -> str:
    """Values by name, in words: ``R = 8000, C = 8000``."""
    return ", ".join(f"{name} = {value}" for name, value in values.items())
