"""`tm.rok`: the recompute-offload-keep curve, bytes held and calls a second for each way to have late values.

Source: Wu, "Code generation and runtime techniques for enabling data-efficient deep learning training on GPUs", PhD
thesis, UIUC 2024, figure 5.12.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from html import escape
from typing import Any

from tiramisu_py import Function
from tiramisu_py.errors import ArgumentError
from tiramisu_py.public_calls import own_call, own_class
from tiramisu_py.queries import Command
from tiramisu_py.records import dataclass
from tiramisu_py.tuning.machine_model import Machine
from tiramisu_py.tuning.memory.options import options_of, step_time
from tiramisu_py.tuning.memory.planning import with_options

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 620, 360, 90, 60, 40
_COLOURS = {"keep": "#2487a8", "recompute": "#b07d12", "offload": "#2e8b57"}


@own_class
@dataclass(frozen=True)
class RokPoint:
    """A way to have all late values: its `commands`, the `peak` in bytes, and the `seconds` of a call, estimated.

    `measured` are the seconds of a call as it ran, 0 if it did not.
    """

    kind: str
    commands: tuple[Command, ...]
    peak: int
    seconds: float
    measured: float = 0.0

    def __str__(self) -> str:
        words = "; ".join(map(str, self.commands)) or "keep all"
        ran = f", {self.measured:.3g} s measured" if self.measured else ""
        return f"{self.peak:>14} bytes  {self.seconds:.3g} s{ran}  {words}"


@own_class
@dataclass(frozen=True)
class RokCurve:
    """Recompute, offload, keep: the `points` of a function at some sizes, the largest peak first."""

    function: Function
    sizes: Mapping[str, int]
    points: tuple[RokPoint, ...]

    def measured(self, **arguments: Any) -> RokCurve:
        """The curve with the seconds of a call of each point, compiled and run here with these arguments.

        ::

            curve = tm.rok(g.step, sizes).measured(u0=u0, c=c, d_last=weights, T=200)

        The points take turns in each round, and have the least time of three.
        """
        kernels = []
        for point in self.points:
            changed = self.function.copy()
            for command in point.commands:
                changed.apply(command)
            kernels.append(changed.compile())
        best = [float("inf")] * len(kernels)
        for _ in range(3):
            for k, kernel in enumerate(kernels):
                best[k] = min(best[k], kernel.time(**arguments, calls=1).minimum)
        points = (replace(point, measured=time) for point, time in zip(self.points, best, strict=True))
        return replace(self, points=tuple(points))

    def picture(self) -> str:
        """The curve as SVG text: the peak from left to right, calls a second upwards, measured ones as rings.

        ::

            Path("rok.svg").write_text(tm.rok(g.step, sizes).picture())
        """
        most = max(point.peak for point in self.points)
        fastest = max(1 / time for point in self.points for time in (point.seconds, point.measured) if time)
        parts = [_text(LEFT, TOP - 16, f"{self.function.name}: calls a second over bytes of temporaries")]
        for k in range(5):
            x, y = _at(k / 4, 0)[0], _at(0, k / 4)[1]
            parts.append(_text(x - 20, HEIGHT - BOTTOM + 20, f"{most * k / 4:.2g}"))
            parts.append(_text(8, y + 4, f"{fastest * k / 4:.3g}"))
            parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - 20}M{x:.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
        for point in self.points:
            for time, filled in ((point.seconds, True), (point.measured, False)):
                if time:
                    x, y = _at(point.peak / most, 1 / time / fastest)
                    colour = _COLOURS[point.kind]
                    look = f'fill="{colour}"' if filled else f'fill="none" stroke="{colour}" stroke-width="2"'
                    title = f"<title>{escape(str(point).strip())}</title>"
                    parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" {look}>{title}</circle>')
        for k, (kind, colour) in enumerate(_COLOURS.items()):
            parts.append(f'<circle cx="{LEFT + 120 * k}" cy="{HEIGHT - 16}" r="6" fill="{colour}"/>')
            parts.append(_text(LEFT + 12 + 120 * k, HEIGHT - 11, kind))
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}"'
        style = "<style>svg { background: #fff; font: 13px sans-serif } .grid { stroke: #ccc; fill: none }</style>"
        return "\n".join([f"{head}>", style, *parts, "</svg>", ""])

    def __str__(self) -> str:
        sizes = ", ".join(f"{name}={value}" for name, value in self.sizes.items())
        return "\n".join([f"{self.function.name} at {sizes}", *map(str, self.points)])


def _at(across: float, up: float) -> tuple[float, float]:
    return LEFT + across * (WIDTH - LEFT - 20), HEIGHT - BOTTOM - up * (HEIGHT - BOTTOM - TOP)


def _text(x: float, y: float, words: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}">{escape(words)}</text>'


@own_call
def rok(f: Function, sizes: Mapping[str, int], *, machine: Machine | None = None) -> RokCurve:
    """The recompute-offload-keep curve of a function: bytes held and seconds of a call, for each way to have the
    values that it reads late.

    ::

        curve = tm.rok(g.step, {"T": 200, "N": 4096})
        print(curve)
        Path("rok.svg").write_text(curve.picture())

    Each point treats all such values alike: all kept, all computed again in segments of as many levels, or all put in
    files if the `machine` (default: `tm.Machine.here()`) has a `storage`. Times are estimates, as for `tm.plan`;
    `measured` runs them. Raises `ArgumentError` for a function that reads no value late.
    """
    if not isinstance(f, Function):
        raise ArgumentError(f"tm.rok takes a function of tiramisu_py, not {f!r}")
    rates = Machine.here() if machine is None else machine
    options = options_of(f, sizes, rates)
    if not options:
        raise ArgumentError(f"tm.rok({f.name}): no recurrence of {f.name} is read late, so that there is no choice")
    found: list[RokPoint] = []
    for k in range(max(map(len, options))):
        chosen = [listed[min(k, len(listed) - 1)] for listed in options]
        changed = with_options(f, chosen)
        if changed is not None:
            commands = tuple(command for each in chosen for command in each.commands)
            kind = next((each.kind for each in chosen if each.kind != "keep"), "keep")
            peak, seconds = changed.cost("memory", **sizes).peak, step_time(changed, sizes, rates).seconds
            found.append(RokPoint(kind, commands, peak, seconds))
    return RokCurve(f, dict(sizes), tuple(sorted(found, key=lambda point: -point.peak)))
