"""A roofline plot: what limits a schedule on a machine, operations or memory, as SVG text.

Source: Williams, Waterman, Patterson, "Roofline: an insightful visual performance model for multicore architectures",
Communications of the ACM 52 (4), 2009.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Protocol

from tiramisu_py.errors import ArgumentError
from tiramisu_py.records import dataclass

WIDTH, HEIGHT = 620, 400
LEFT, RIGHT, TOP, BOTTOM = 90, 20, 50, 60
#: Pixels of a line of the legend, which stands below the plot, where nothing crosses it.
LINE = 20
#: The powers of two at the ends of the axis of operations for each byte, if all points are between them.
LEAST, MOST = -5, 6
STYLE = """
  svg { color: #222; background: #fff; font: 13px sans-serif; }
  .grid { stroke: #ccc; } .roof { stroke-width: 2.5; fill: none; }
  @media (prefers-color-scheme: dark) { svg { color: #ddd; background: #181a1f; } .grid { stroke: #3a3d44; } }
"""
_COLOURS = ("#d0453d", "#b07d12", "#2e8b57", "#7a5bc4", "#c2569b", "#6d7f1f", "#8a5a3b")
_ROOFS = ("#2487a8", "#5aa9c4", "#8dc3d6", "#b3b3b3", "#7a5bc4")


class Rates(Protocol):
    """The rates of a machine that a schedule is compared with: `tm.Machine` has them."""

    @property
    def core_flops(self) -> float:
        """Operations a second of one core."""

    @property
    def cores(self) -> int:
        """The number of cores."""

    @property
    def host_bandwidth(self) -> float:
        """Bytes a second that all cores read and write."""


class RatedLevel(Protocol):
    """A level of memory of a machine: `tm.MemoryLevel`."""

    @property
    def name(self) -> str:
        """Its name, such as L1."""

    @property
    def bytes(self) -> int:
        """Its capacity, for one core or for all that share it."""

    @property
    def bandwidth(self) -> float:
        """Bytes a second of all cores; 0 if not measured."""


def levels_of(machine: object) -> tuple[RatedLevel, ...]:
    """The caches of a machine, from the nearest one on; none if it does not say."""
    return tuple(getattr(machine, "levels", ()))


def require_rates(machine: object) -> None:
    """Raises `ArgumentError` for what has no rates."""
    rates = [getattr(machine, name, None) for name in ("core_flops", "cores", "host_bandwidth")]
    if not all(isinstance(rate, int | float) and rate > 0 for rate in rates):
        raise ArgumentError(
            f"machine={machine!r} has no rates: give tm.Machine.here(), which measures this machine, or a tm.Machine"
        )


@dataclass(frozen=True)
class Roof:
    """The most that a machine does with data from one memory: bytes a second, and operations a second."""

    name: str
    bandwidth: float
    peak: float

    def over(self, intensity: float) -> float:
        """Operations a second with so many operations for each byte."""
        return min(self.peak, intensity * self.bandwidth)

    @property
    def ridge(self) -> float:
        """Operations for each byte from which on operations are the limit."""
        return self.peak / self.bandwidth


@dataclass(frozen=True)
class Mark:
    """A point below a roof: operations for each byte, and operations a second (None: as many as the roof allows)."""

    words: str
    intensity: float
    roof: Roof
    rate: float | None = None


def roofline(title: str, marks: Sequence[Mark], roofs: Sequence[Roof]) -> str:
    """The plot of some points below the roofs of a machine: the lower of its operations a second, and of its bytes a
    second times operations for each byte.
    """
    marks = [mark for mark in marks if mark.intensity > 0]
    powers = [math.log2(mark.intensity) for mark in marks] + [math.log2(roof.ridge) for roof in roofs]
    low, high = min(LEAST, math.floor(min(powers)) - 1), max(MOST, math.ceil(max(powers)) + 1)
    rates = [mark.rate for mark in marks if mark.rate] + [roof.over(2.0**low) for roof in roofs]
    peak = max(roof.peak for roof in roofs)
    axes = _Axes(low, high, math.floor(math.log10(min(rates))), math.ceil(math.log10(peak * 1.01)))
    parts = axes.drawn()
    for number, roof in enumerate(roofs):
        parts += _roof(roof, axes, number, named=len(roofs) > 1)
    for number, mark in enumerate(marks):
        parts += _drawn(mark, axes, number, len(roofs) + number)
    height = HEIGHT + LINE * (len(marks) + len(roofs)) + 10
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">'
    name = f'<text x="{LEFT}" y="26" fill="currentColor" font-weight="bold">{escape(title)}</text>'
    return "\n".join([head, f"<style>{STYLE}</style>", name, *parts, "</svg>", ""])


def _roof(roof: Roof, axes: _Axes, number: int, *, named: bool) -> list[str]:
    """A roof's line, and its line of the legend."""
    colour = _ROOFS[number % len(_ROOFS)]
    corners = [(2.0**axes.low, roof.over(2.0**axes.low)), (roof.ridge, roof.peak), (2.0**axes.high, roof.peak)]
    path = " L ".join(axes.place(x, y) for x, y in corners)
    first, second = (
        f"{scaled(roof.peak)}op/s",
        f"{scaled(roof.bandwidth)}B/s; both from {roof.ridge:.3g} operations a byte",
    )
    words = f"{roof.name}: {first}, {second}" if named else f"{first} in multiply-adds; {second} on"
    return [f'<path class="roof" stroke="{colour}" d="M {path}"/>', _legend(number, words, colour)]


def _drawn(mark: Mark, axes: _Axes, number: int, line: int) -> list[str]:
    """A point and its line of the legend."""
    most = mark.roof.over(mark.intensity)
    rate, colour = mark.rate or most, _COLOURS[number % len(_COLOURS)]
    x, y = axes.place(mark.intensity, rate).split()
    fill = colour if mark.rate else "none"
    share = f", {rate / most:.0%} of the roof" if mark.rate else " at most"
    words = f"{mark.words}: {mark.intensity:.3g} a byte, {scaled(rate)}op/s{share}"
    point = f'<circle cx="{x}" cy="{y}" r="5" fill="{fill}" stroke="{colour}" stroke-width="2"/>'
    return [point, _legend(line, words, colour)]


@dataclass(frozen=True)
class _Axes:
    """Both axes: powers of two of operations for each byte, powers of ten of operations a second."""

    low: int
    high: int
    slow: int
    fast: int

    def place(self, intensity: float, rate: float) -> str:
        """Where a point is, in pixels: ``x y``."""
        x = (math.log2(intensity) - self.low) / (self.high - self.low)
        y = (math.log10(rate) - self.slow) / (self.fast - self.slow)
        return f"{LEFT + x * (WIDTH - LEFT - RIGHT):.1f} {HEIGHT - BOTTOM - y * (HEIGHT - TOP - BOTTOM):.1f}"

    def drawn(self) -> list[str]:
        """Lines and numbers, each number outside of the plot."""
        parts = []
        bottom, top = 10.0**self.slow, 10.0**self.fast
        for power in range(self.low, self.high + 1):
            x, y = self.place(2.0**power, bottom).split()
            parts.append(f'<path class="grid" d="M {x} {y} L {self.place(2.0**power, top)}"/>')
            number = f"{2**power}" if power >= 0 else f"1/{2**-power}"
            parts.append(_text(float(x), float(y) + 18, number, "middle"))
        for power in range(self.slow, self.fast + 1):
            x, y = self.place(2.0**self.low, 10.0**power).split()
            parts.append(f'<path class="grid" d="M {x} {y} L {self.place(2.0**self.high, 10.0**power)}"/>')
            parts.append(_text(float(x) - 8, float(y) + 4, f"{scaled(10.0**power)}op/s", "end"))
        middle = (LEFT + WIDTH - RIGHT) / 2
        return [*parts, _text(middle, HEIGHT - BOTTOM + 40, "operations for each byte", "middle")]


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="currentColor">{escape(words)}</text>'


def _legend(line: int, words: str, colour: str) -> str:
    y = HEIGHT + LINE * line + 5
    return f'<circle cx="{LEFT}" cy="{y - 4}" r="5" fill="{colour}"/>' + _text(LEFT + 14, y, words, "start")


def scaled(amount: float) -> str:
    """An amount with a decimal prefix, before a unit."""
    for prefix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if amount >= size:
            return f"{amount / size:.3g} {prefix}"
    return f"{amount:.3g} "
