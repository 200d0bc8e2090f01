"""A trace as a picture: one row for each host and stream, one bar for each event, time from left to right."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tiramisu_py.toolchain.traces.trace import Trace, TraceEvent

#: Light colours, so that dark text is readable on them.
COLOURS = {
    "nest": "#9ecae1", "kernel": "#a1d99b", "upload": "#fdd0a2", "download": "#fdae6b", "transfer": "#e7cba8",
    "launch": "#d4ecc9", "copy": "#fee9d1", "wait": "#e3e3e3", "send": "#dadaeb", "receive": "#bcbddc",
    "collective": "#f7b6d2", "store": "#e9d8a6", "load": "#cfd8a6",
}  # fmt: skip
_EDGE = 'stroke="#5a5a5a" stroke-width="0.5"'
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
_ROW, _BAR, _TOP, _AXIS, _MARGIN = 28, 20, 34, 34, 14
_LEGEND, _LEGEND_WIDTH = 24, 100
#: The width of a letter, and of the shortest word that is written into a bar.
_LETTER, _SHORTEST = 6.4, 22.0
_MOST_TICKS = 10


def timeline(trace: Trace, width: int = 960) -> str:
    """The text of an SVG, `width` pixels wide."""
    return "\n".join(_Picture(trace, width).lines()) + "\n"


class _Picture:
    """The layout of one picture."""

    def __init__(self, trace: Trace, width: int) -> None:
        self.trace, self.width = trace, width
        self.rows = trace.rows()
        several = len(trace.ranks) > 1
        self.labels = [f"rank {rank}, {place}" if several else place for rank, place in self.rows]
        self.seconds = trace.seconds
        self.left = 2 * _MARGIN + 7 * max(map(len, self.labels), default=0)
        self.scale = (width - self.left - 2 * _MARGIN) / (self.seconds or 1.0)  # pixels of a second
        # the largest unit of which there is one at least
        self.size, self.unit = next((unit for unit in _UNITS if self.seconds >= unit[0]), _UNITS[-1])
        present = {event.kind for event in trace.events}
        self.kinds = [kind for kind in COLOURS if kind in present]
        self.in_a_row = max(1, (width - 2 * _MARGIN) // _LEGEND_WIDTH)

    def lines(self) -> Iterator[str]:
        """The picture, from top to bottom."""
        bottom = _TOP + _ROW * len(self.rows)
        height = bottom + _AXIS + _LEGEND * -(-len(self.kinds) // self.in_a_row)
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{height}" '
            f'viewBox="0 0 {self.width} {height}" font-family="Helvetica, Arial, sans-serif" font-size="12" '
            'fill="#1a1a1a">'
        )
        yield f'<rect width="{self.width}" height="{height}" fill="#ffffff"/>'
        yield _text(_MARGIN, 20, self._title(), "font-weight='bold'")
        yield from self._ticks(bottom)
        for number, (label, events) in enumerate(zip(self.labels, self.rows.values(), strict=True)):
            top = _TOP + _ROW * number
            yield _text(_MARGIN, top + 18, label)
            yield from self._bars(events, top + (_ROW - _BAR) / 2)
        yield from self._legend(bottom + _AXIS)
        yield "</svg>"

    def _x(self, seconds: float) -> float:
        return self.left + seconds * self.scale

    def _title(self) -> str:
        dropped = f" ({self.trace.dropped} events were dropped)" if self.trace.dropped else ""
        return f"{self.trace.function}: {self.seconds / self.size:.4g} {self.unit}{dropped}"

    # -- the axis

    def _ticks(self, bottom: float) -> Iterator[str]:
        whole = self.seconds / self.size
        step = _round_step(whole / _MOST_TICKS)
        count = int(whole / step + 1e-9) if step else 0
        for n in range(count + 1):
            x = self._x(n * step * self.size)
            yield f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{bottom + 4}" stroke="#d0d0d0"/>'
            words = f"{n * step:.6g}" + (f" {self.unit}" if n == count else "")
            yield _text(x, bottom + 18, words, "text-anchor='middle'")

    # -- the bars

    def _bars(self, events: Sequence[TraceEvent], top: float) -> Iterator[str]:
        """The bars of events, except those that begin and end on the same pixel as an earlier one of their kind."""
        drawn: set[tuple[int, int, str]] = set()
        for event in events:
            begin, end = self._x(event.begin), self._x(event.end)
            place = (round(begin), round(end), event.kind)
            if place in drawn:
                continue
            drawn.add(place)
            yield from self._bar(event, begin, max(end - begin, 1.0), top)

    def _bar(self, event: TraceEvent, begin: float, width: float, top: float) -> Iterator[str]:
        yield f"<g><title>{escape(self._told(event), quote=False)}</title>"
        yield (
            f'<rect class="{escape(event.kind)}" x="{begin:.1f}" y="{top:.1f}" width="{width:.1f}" height="{_BAR}" '
            f'fill="{COLOURS[event.kind]}" {_EDGE}/>'
        )
        letters = int((width - 6) / _LETTER)
        word = event.name if len(event.name) <= letters else event.name[: max(letters - 1, 0)] + "…"
        if width >= min(_SHORTEST, 6 + _LETTER * len(event.name)):
            yield _text(begin + 3, top + 14, word, "font-size='11'")
        yield "</g>"

    def _told(self, event: TraceEvent) -> str:
        took, began = (f"{seconds / self.size:.4g} {self.unit}" for seconds in (event.seconds, event.begin))
        told = f"{event.name}: {event.kind}, {took} from {began} on"
        told += f", {event.bytes} bytes" if event.bytes is not None else ""
        towards = {"send": "to", "receive": "from"}.get(event.kind)
        return told + (f", {towards} rank {event.peer}" if towards and event.peer is not None else "")

    # -- the legend

    def _legend(self, top: float) -> Iterator[str]:
        for number, kind in enumerate(self.kinds):
            x = _MARGIN + _LEGEND_WIDTH * (number % self.in_a_row)
            y = top + _LEGEND * (number // self.in_a_row)
            yield f'<rect x="{x}" y="{y}" width="14" height="14" fill="{COLOURS[kind]}" {_EDGE}/>'
            yield _text(x + 19, y + 11, kind)


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 5, 10, ... (or a tenth of these, ...) that is not below `least`."""
    if least <= 0:
        return 0.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


def _text(x: float, y: float, words: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{escape(words, quote=False)}</text>'
