"""Draws the three layers of the program that the guide's chapter on schedules begins with: values, times, places.

The chapter's program is run, and the pictures are made of the data of its `Function.show`. With ``--check`` the script
only reports, by its exit status, whether they are current.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "scripts"))

from schedule_drawing import EXECUTORS, picture, text  # noqa: E402

if TYPE_CHECKING:
    from tiramisu_py.view import Scene
    from tiramisu_py.view.pictures.scene import PicturedInstance

CHAPTER = ROOT / "docs" / "guide" / "03-schedules.md"
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: The width and the height of a cell, and the room for the name of a row.
WIDE, HIGH, NAME = 46, 24, 150
SIZES = {"N": 6}
#: The colours of the statements.
COLOURS = {"bx": EXECUTORS[0], "by": EXECUTORS[1]}


def scene() -> Scene:
    """What the chapter's first program does at a small size."""
    found = FENCE.search(CHAPTER.read_text(encoding="utf-8"))
    assert found is not None
    session: dict[str, object] = {"__name__": "__main__"}
    exec(found[1], session)
    show: Callable[..., object] = session["f"].show  # type: ignore[attr-defined]
    drawn: Scene = show(**SIZES).scenes[-1]  # type: ignore[attr-defined]
    return drawn


def cell(x: float, y: float, words: str, colour: str | None) -> str:
    """A named cell."""
    fill = 'class="element"' if colour is None else f'fill="{colour}"'
    box = f'<rect x="{x:g}" y="{y:g}" width="{WIDE - 4}" height="{HIGH}" rx="3" {fill}/>'
    return box + text(x + WIDE / 2 - 2, y + 16, words, "small middle" + ("" if colour is None else " in"))


def called(drawn: Scene, each: PicturedInstance) -> str:
    """The value of an instance."""
    return f"{drawn.statements[each.statement].source}[{each.value[0]}]"


def values(drawn: Scene) -> str:
    """Layer I: each value once, and the values that it is computed from."""
    rows = ("a", "bx", "by")
    place = {
        (source, at): (NAME + WIDE * at[0] + WIDE * row, 12 + 66 * row)
        for row, source in enumerate(rows)
        for at in drawn.values[source]
    }
    readers = {
        (read.source, read.value, drawn.statements[reader.statement].source, reader.value)
        for read in drawn.reads
        for reader in [drawn.instances[read.reader]]
    }
    parts = [text(12, 28 + 66 * row, f"the values of {source}", "") for row, source in enumerate(rows)]
    for source, at, reader, to in sorted(readers):
        (x0, y0), (x1, y1) = place[source, at], place[reader, to]
        parts.append(f'<path class="read" d="M{x0 + WIDE / 2 - 2:g} {y0 + HIGH:g}L{x1 + WIDE / 2 - 2:g} {y1:g}"/>')
    parts += [cell(x, y, f"{source}[{at[0]}]", COLOURS.get(source)) for (source, at), (x, y) in sorted(place.items())]
    width = max(x for x, _ in place.values()) + WIDE + 8
    return picture(width, 12 + 66 * 2 + HIGH + 12, parts, "values, and what each of them is computed from")


def times(drawn: Scene) -> str:
    """Layer II: instances in time, a row for each executor; those of a value that has several are ringed."""
    parts = [text(NAME + WIDE * step + WIDE / 2 - 2, 18, step + 1, "small soft middle") for step in range(drawn.steps)]
    parts.append(text(12, 18, "step", "soft"))
    parts += [text(12, 42 + 34 * who, each.words(), "") for who, each in enumerate(drawn.executors)]
    named = [called(drawn, each) for each in drawn.instances]
    for each, name in zip(drawn.instances, named, strict=True):
        x, y = NAME + WIDE * each.step, 26 + 34 * each.who
        parts.append(cell(x, y, name, COLOURS[drawn.statements[each.statement].source]))
        if named.count(name) > 1:
            parts.append(f'<rect class="again" x="{x:g}" y="{y:g}" width="{WIDE - 4}" height="{HIGH}" rx="3"/>')
    return picture(NAME + WIDE * drawn.steps + 8, 26 + 34 * len(drawn.executors), parts, "instances in time")


def places(drawn: Scene) -> str:
    """Layer III: the elements of each array, or of each of its copies, with the values that they hold."""
    held: dict[tuple[int, tuple[int, ...]], dict[int, list[str]]] = {}
    for each in drawn.instances:
        number = drawn.statements[each.statement].array
        if number is None or each.element is None:
            continue
        owners = drawn.arrays[number].owners
        elements = held.setdefault((number, each.element[:owners]), {})
        elements.setdefault(each.element[-1], []).append(called(drawn, each))
    parts, y, widest = list[str](), 12.0, 0
    for (number, owner), elements in sorted(held.items()):
        array = drawn.arrays[number]
        whose = ", ".join(f"{name} = {at}" for name, at in zip(array.dims, owner, strict=False))
        parts.append(text(12, y + 16, f"array {array.name}" + (f" of {whose}" if whose else ""), ""))
        for at, names in sorted(elements.items()):
            source = names[-1].partition("[")[0]
            parts.append(cell(NAME + WIDE * at, y, ", ".join(names), COLOURS[source]))
            parts.append(text(NAME + WIDE * at + WIDE / 2 - 2, y + HIGH + 13, at, "small soft middle"))
            widest = max(widest, at)
        y += HIGH + 26
    return picture(NAME + WIDE * (widest + 1) + 8, y, parts, "places: the arrays, and what their elements hold")


def main() -> int:
    """Write the pictures, or compare them with those that are there."""
    drawn, folder = scene(), CHAPTER.parent / "pictures"
    made = {"model-values.svg": values(drawn), "model-times.svg": times(drawn), "model-places.svg": places(drawn)}
    if sys.argv[1:] == ["--check"]:
        paths = {folder / name: picture for name, picture in made.items()}
        return 0 if all(path.exists() and path.read_text("utf-8") == text for path, text in paths.items()) else 1
    for name, drawing in made.items():
        (folder / name).write_text(drawing, encoding="utf-8")
    print(f"wrote {', '.join(made)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
