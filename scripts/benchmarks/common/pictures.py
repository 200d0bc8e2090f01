"""Charts of the thesis's experiments as SVG text: grouped bars, and lines over the number of ranks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 380, 64, 20, 64, 44
COLOURS = ("#1f6feb", "#e8762d", "#3a9a5b", "#8b5fbf", "#c23b53", "#5b6670", "#c9a227", "#2aa198")
STYLE = "font-family: sans-serif; font-size: 12px"
Values = Mapping[str, Sequence[float | None]]


def bars(title: str, groups: Sequence[str], series: Values, unit: str) -> str:
    """A group of bars for each of `groups`, with one bar for each of `series`; missing measurements are left out."""
    top, step = _scale(series)
    wide = (WIDTH - LEFT - RIGHT) / len(groups)
    each = wide * 0.8 / len(series)
    parts = _axes(title, unit, list(series), top, step)
    for i, group in enumerate(groups):
        parts.append(_text(LEFT + wide * (i + 0.5), HEIGHT - BOTTOM + 18, group))
        for j, values in enumerate(series.values()):
            value = values[i]
            if value is None:
                continue
            x, y = LEFT + wide * (i + 0.1) + each * j, _height(value, top)
            parts.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{each * 0.92:.1f}" height="{HEIGHT - BOTTOM - y:.1f}" '
                f'fill="{COLOURS[j % len(COLOURS)]}"/>'
            )
            if each > 24:
                parts.append(_text(x + each * 0.46, y - 4, short(value), size=10))
    return _framed(parts)


def lines(title: str, ranks: Sequence[int], series: Values, unit: str) -> str:
    """A line for each of `series` over the number of ranks; the numbers are evenly spaced."""
    top, step = _scale(series)
    wide = (WIDTH - LEFT - RIGHT) / len(ranks)
    at = [LEFT + wide * (i + 0.5) for i in range(len(ranks))]
    parts = _axes(title, unit, list(series), top, step)
    parts += [_text(x, HEIGHT - BOTTOM + 18, f"{n} rank{'s' * (n > 1)}") for x, n in zip(at, ranks, strict=True)]
    for j, values in enumerate(series.values()):
        colour = COLOURS[j % len(COLOURS)]
        points = [(x, _height(value, top)) for x, value in zip(at, values, strict=True) if value is not None]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in points]
    return _framed(parts)


def short(value: float) -> str:
    """A number with three digits."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _scale(series: Values) -> tuple[float, float]:
    """The top of the axis, and the distance of its marks: 1, 2 or 5 times a power of ten."""
    most = max((value for values in series.values() for value in values if value is not None), default=1.0) or 1.0
    rough = most / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(n * power for n in (1, 2, 5, 10) if n * power >= rough)
    return math.ceil(most / step) * step, step


def _height(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / top


def _axes(title: str, unit: str, names: Sequence[str], top: float, step: float) -> list[str]:
    parts = [_text(WIDTH / 2, 20, title, size=14), _text(LEFT - 8, TOP - 10, unit, "end")]
    for n in range(round(top / step) + 1):
        y = _height(n * step, top)
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(_text(LEFT - 8, y + 4, short(n * step), "end"))
    x = float(LEFT)
    for j, name in enumerate(names):
        parts.append(f'<rect x="{x:.0f}" y="34" width="11" height="11" fill="{COLOURS[j % len(COLOURS)]}"/>')
        parts.append(_text(x + 15, 44, name, "start"))
        x += 32 + 6.6 * len(name)
    return parts


def _text(x: float, y: float, words: str, anchor: str = "middle", size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="#333">{escape(words)}</text>'


def _framed(parts: Sequence[str]) -> str:
    frame = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    back = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {frame} style="{STYLE}">', back, *parts, "</svg>", ""])
