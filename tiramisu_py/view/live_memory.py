"""The bytes of temporaries over a call: what is held, when, and where they are most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from tiramisu_py.passes.memory.temporary_bytes import Held, Moment
from tiramisu_py.records import dataclass

WIDTH, HEIGHT, LEFT, TOP = 620, 220, 12, 36
#: Characters of a statement in a line of text.
WORDS = 48
_COLOURS = ("#2487a8", "#b07d12", "#2e8b57", "#d0453d", "#7a5bc4", "#6d7f1f", "#c2569b", "#8a5a3b")


@dataclass(frozen=True, repr=False)
class LiveMemory:
    """The memory that temporaries of a function hold at `sizes`: each moment, in the order of a call.

    A moment lasts from the statement `first` to `last`, and has the memory that is `held`: its arrays (several take
    turns), its place, its bytes. In a loop of several iterations, moments are those of each iteration.
    """

    name: str
    sizes: Mapping[str, int]
    moments: tuple[Moment, ...]

    @property
    def peaks(self) -> Mapping[str, int]:
        """The most bytes at a time, by memory: "memory" is that of the host, others are "GPU 0"."""
        places = sorted({each.place for moment in self.moments for each in moment.held}, reverse=True)
        return {place: max(moment.bytes(place) for moment in self.moments) for place in places}

    @property
    def peak(self) -> int:
        """The most bytes of the host's memory at a time."""
        return self.peaks.get("memory", 0)

    @property
    def at(self) -> Moment:
        """The moment at which the host's memory has the most bytes; of several the first."""
        return self.at_peak("memory")

    def at_peak(self, place: str) -> Moment:
        """The first moment at which a memory has the most bytes."""
        return max(self.moments, key=lambda moment: moment.bytes(place), default=Moment("", "", ()))

    @property
    def largest(self) -> tuple[Held, ...]:
        """The arrays that make the peak of the host's memory, the most bytes first."""
        return _largest(self.at, "memory")

    def picture(self, place: str = "memory") -> str:
        """The bytes of each moment as SVG text, one bar for each, its arrays in colours.

        ::

            Path("memory.svg").write_text(f.cost("memory", T=200, N=4096).picture())
        """
        most = max(1, self.peaks.get(place, 0))
        shown = [moment for moment in self.moments if moment.first] or list(self.moments)
        names = list(dict.fromkeys(each.arrays for moment in shown for each in moment.held if each.place == place))
        step = (WIDTH - 2 * LEFT) / max(1, len(shown))
        parts = [_title(f"{self.name}: at most {most} bytes in {place}", TOP - 16)]
        for number, moment in enumerate(shown):
            bottom = float(TOP + HEIGHT)
            for each in (held for held in moment.held if held.place == place):
                high = HEIGHT * each.bytes / most
                bottom -= high
                words = escape(f"{', '.join(each.arrays)}: {each.bytes} bytes, {moment.first}")
                parts.append(
                    f'<rect x="{LEFT + number * step:.1f}" y="{bottom:.1f}" width="{0.9 * step:.1f}" '
                    f'height="{high:.1f}" fill="{_colour(names, each)}"><title>{words}</title></rect>'
                )
        for line, arrays in enumerate(names):
            below = TOP + HEIGHT + 24 + 20 * line
            parts.append(f'<rect x="{LEFT}" y="{below - 11}" width="12" height="12" fill="{_colours(line)}"/>')
            parts.append(f'<text x="{LEFT + 20}" y="{below}">{escape(", ".join(arrays))}</text>')
        height = TOP + HEIGHT + 32 + 20 * len(names)
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}"'
        style = ' style="background: #fff; font: 13px sans-serif">'
        return "\n".join([head + style, *parts, "</svg>", ""])

    def __str__(self) -> str:
        sizes = ", ".join(f"{name}={value}" for name, value in self.sizes.items())
        lines = [f"{self.name} at {sizes}" if sizes else self.name]
        for place, peak in self.peaks.items():
            top = self.at_peak(place)
            lines.append(f"  {place}: at most {peak} bytes, while {_span(top)}")
            for each in _largest(top, place):
                turns = " in turns" if len(each.arrays) > 1 else ""
                lines.append(f"    {each.bytes:>14}  {', '.join(each.arrays)}{turns}")
        if not self.peaks:
            lines.append("  no temporaries")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)


def _largest(moment: Moment, place: str) -> tuple[Held, ...]:
    return tuple(sorted((each for each in moment.held if each.place == place), key=lambda each: -each.bytes))


def _span(moment: Moment) -> str:
    if not moment.first:
        return "nothing is computed"
    first, last = (_short(text) for text in (moment.first, moment.last))
    return first if first == last else f"{first} to {last}"


def _short(text: str) -> str:
    return text if len(text) <= WORDS else f"{text[: WORDS - 4]} ..."


def _colour(names: Sequence[tuple[str, ...]], held: Held) -> str:
    return _colours(names.index(held.arrays))


def _colours(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


def _title(words: str, y: int) -> str:
    return f'<text x="{LEFT}" y="{y}">{escape(words)}</text>'
