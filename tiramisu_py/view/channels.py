"""A picture of the messages: ranks as boxes on their process grid, an arrow for each pair that communicates."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tiramisu_py.counting.amounts import Communication
from tiramisu_py.errors import ArgumentError

#: The maximum number of ranks of a readable picture.
MOST_RANKS = 64

BOX, GAP, MARGIN = 56, 108, 48
STYLE = "font-family: sans-serif; font-size: 13px"
HEAD = 9

Point = tuple[float, float]


def channels_picture(counted: Communication) -> str:
    """The messages between ranks as SVG text; each arrow shows its number of elements, and of messages if several.

    Raises `ArgumentError` for a program without ranks, and for more than 64 of them.
    """
    if not counted.grid:
        raise ArgumentError("the program has no ranks: nothing is sent")
    if counted.ranks > MOST_RANKS:
        raise ArgumentError(f"a picture of {counted.ranks} ranks cannot be read: choose sizes for at most {MOST_RANKS}")
    pairs: dict[tuple[int, int], list[int]] = {}
    for channel in counted.channels():
        sums = pairs.setdefault((channel.sender, channel.receiver), [0, 0])
        sums[0] += channel.elements
        sums[1] += channel.messages
    at = {rank: _place(rank, counted.grid) for rank in range(counted.ranks)}
    most_bent = max((_bend(at[a], at[b]) for a, b in pairs), default=0)
    parts = [_arrow(at[a], at[b], f"{n}" if m == 1 else f"{n} in {m}") for (a, b), (n, m) in sorted(pairs.items())]
    parts += [_box(place, str(rank)) for rank, place in at.items()]
    return _framed(at, most_bent, parts)


def _place(rank: int, grid: tuple[int, ...]) -> Point:
    """The centre of a rank's box: the last axis runs to the right, the others downwards."""
    column, row = rank % grid[-1], rank // grid[-1]
    return (MARGIN + BOX / 2 + column * (BOX + GAP), MARGIN + BOX / 2 + row * (BOX + GAP))


def _bend(a: Point, b: Point) -> float:
    """The bend of an arrow: it separates the arrows of the two directions, and leads long ones around boxes."""
    steps = math.dist(a, b) / (BOX + GAP)
    return 14 if steps < 1.5 else 22 * steps


def _arrow(a: Point, b: Point, label: str) -> str:
    length = math.dist(a, b)
    along, aside = ((b[0] - a[0]) / length, (b[1] - a[1]) / length), _bend(a, b)
    normal = (along[1], -along[0])
    start = (a[0] + along[0] * BOX / 2 + normal[0] * 9, a[1] + along[1] * BOX / 2 + normal[1] * 9)
    end = (b[0] - along[0] * BOX / 2 + normal[0] * 9, b[1] - along[1] * BOX / 2 + normal[1] * 9)
    middle = ((a[0] + b[0]) / 2 + normal[0] * 2 * aside, (a[1] + b[1]) / 2 + normal[1] * 2 * aside)
    text = ((a[0] + b[0]) / 2 + normal[0] * (aside + 14), (a[1] + b[1]) / 2 + normal[1] * (aside + 14) + 4)
    path = f"M {_xy(start)} Q {_xy(middle)} {_xy(end)}"
    return (
        f'<path d="{path}" fill="none" stroke="#1f6feb" stroke-width="1.6"/>'
        f'<path d="{_head(middle, end)}" fill="#1f6feb"/>'
        f'<text x="{text[0]:.0f}" y="{text[1]:.0f}" text-anchor="middle" fill="#333">{label}</text>'
    )


def _head(before: Point, end: Point) -> str:
    """The head of an arrow that comes from `before`."""
    length = math.dist(before, end)
    x, y = (end[0] - before[0]) / length * HEAD, (end[1] - before[1]) / length * HEAD
    left, right = (end[0] - x - y / 2, end[1] - y + x / 2), (end[0] - x + y / 2, end[1] - y - x / 2)
    return f"M {_xy(end)} L {_xy(left)} L {_xy(right)} z"


def _box(place: Point, rank: str) -> str:
    x, y = place[0] - BOX / 2, place[1] - BOX / 2
    return (
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{BOX}" height="{BOX}" rx="8" fill="#eef3fb" stroke="#333"/>'
        f'<text x="{place[0]:.0f}" y="{place[1] + 5:.0f}" text-anchor="middle">rank {rank}</text>'
    )


def _xy(point: Point) -> str:
    return f"{point[0]:.1f} {point[1]:.1f}"


def _framed(at: Mapping[int, Point], bent: float, parts: list[str]) -> str:
    room = max(0.0, bent + 20 - MARGIN)
    width = max(x for x, _ in at.values()) + BOX / 2 + MARGIN + room
    height = max(y for _, y in at.values()) + BOX / 2 + MARGIN + room
    frame = f'viewBox="{-room:.0f} {-room:.0f} {width + room:.0f} {height + room:.0f}"'
    size = f'width="{width + room:.0f}" height="{height + room:.0f}"'
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {frame} {size} style="{STYLE}">', *parts]
    return "\n".join([*lines, "</svg>", ""])
