"""Draws a schedule at a small size as SVG, from the data of a picture: its loops, its instances with their steps.

Instances are cells at their values, with the number of the step at which each runs; what has one number may run at the
same time. Colours say who runs it, outlines what is one tile. A buffer has a cell for each element, with the number of
values that it holds in turn.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from tiramisu_py.function import Function
    from tiramisu_py.view import Scene
    from tiramisu_py.view.pictures.scene import PicturedInstance

Item = TypeVar("Item")

#: The side of a cell, the height of a line of text, the widths of letters, and the space between panels, in pixels.
CELL, LINE, LETTER, GAP = 22, 15, 7.3, 18
#: The most pixels that panels beside each other take.
WIDE = 330
EXECUTORS = (
    "#9db8d9", "#f6b26b", "#a3d1cd", "#8fc586", "#f2dc8a", "#cfa6c6", "#ffc4ca", "#c2a08e", "#d3d3d3", "#b5a8f0",
    "#c9e265", "#f08fb0",
)  # fmt: skip
STYLE = """<style>
svg { color-scheme: light dark; }
.back { fill: #f6f7f9; } .text, text { fill: #1c2430; } .soft { fill: #5b6675; } .in { fill: #1c2430; }
.one { fill: #d6e0ee; } .cell { stroke: #ffffff; stroke-width: 1; } .element { fill: #e3e7ec; stroke: #aab3bf; }
.read { stroke: #5b6675; stroke-width: 1; fill: none; } .again { stroke: #d1242f; stroke-width: 2; fill: none; }
.tile { fill: none; stroke: #1c2430; stroke-width: 2; } .arrow { stroke: #9a6700; stroke-width: 2; fill: none; }
text { font: 12px system-ui, "DejaVu Sans", sans-serif; }
.code { font: 12px ui-monospace, "DejaVu Sans Mono", monospace; white-space: pre; }
.small { font-size: 10px; } .bold { font-weight: 600; } .middle { text-anchor: middle; } .end { text-anchor: end; }
@media (prefers-color-scheme: dark) {
.back { fill: #1a2029; } .text, text { fill: #e4e9f0; } .soft { fill: #9aa7b8; } .in { fill: #12161c; }
.one { fill: #9db8d9; } .cell { stroke: #1a2029; } .element { fill: #2b3440; stroke: #5b6675; }
.tile { stroke: #f2f5f9; } .arrow { stroke: #e3b341; }
}
</style>"""


@dataclass(frozen=True)
class Drawn:
    """Elements of SVG, and the room that they take."""

    width: float
    height: float
    parts: tuple[str, ...]

    def at(self, x: float, y: float) -> str:
        """The elements at a place."""
        return f'<g transform="translate({x:g} {y:g})">' + "".join(self.parts) + "</g>"


def text(x: float, y: float, words: object, css: str = "") -> str:
    """A line of text."""
    given = f' class="{css}"' if css else ""
    return f'<text x="{x:g}" y="{y:g}"{given}>{html.escape(str(words))}</text>'


def lines_of_code(lines: Sequence[str]) -> Drawn:
    """Lines in letters of one width."""
    parts = tuple(text(0, LINE * (k + 1) - 3, line, "code") for k, line in enumerate(lines))
    return Drawn(LETTER * max(map(len, lines), default=0), LINE * len(lines), parts)


def drawn(f: Function, scene: Scene) -> Drawn:
    """A schedule: its loops, and below them the instances of its statements."""
    code = lines_of_code(f.show("loops").rstrip("\n").splitlines())
    panels = [_statement(scene, k) for k, each in enumerate(scene.statements) if each.source]
    return stacked([code, *in_rows([panel for panel in panels if panel.width])])


def buffers(scene: Scene) -> list[Drawn]:
    """The buffers that are not the caller's."""
    found = [_buffer(scene, k) for k, each in enumerate(scene.arrays) if not each.callers]
    return [panel for panel in found if panel.width]


def in_rows(panels: Sequence[Drawn]) -> list[Drawn]:
    """Panels beside each other, as many as there is room for."""
    rows: list[list[Drawn]] = []
    for panel in panels:
        used = sum(each.width + GAP for each in rows[-1]) if rows else WIDE
        if used + panel.width > WIDE:
            rows.append([])
        rows[-1].append(panel)
    return [_beside(row) for row in rows]


def _beside(row: Sequence[Drawn]) -> Drawn:
    parts, x = list[str](), 0.0
    for panel in row:
        parts.append(panel.at(x, 0))
        x += panel.width + GAP
    return Drawn(x - GAP, max(panel.height for panel in row), tuple(parts))


def stacked(rows: Sequence[Drawn]) -> Drawn:
    """One below the other."""
    parts, y = list[str](), 0.0
    for row in rows:
        parts.append(row.at(0, y))
        y += row.height + 10
    return Drawn(max(row.width for row in rows), y - 10, tuple(parts))


def _statement(scene: Scene, number: int) -> Drawn:
    """The instances of a statement, at their points."""
    statement = scene.statements[number]
    own = [each for each in scene.instances if each.statement == number]
    many = len(scene.executors) > 1

    def fill(each: PicturedInstance) -> str:
        return f'fill="{EXECUTORS[each.who % len(EXECUTORS)]}"' if many else 'class="one"'

    def cell(x: float, y: float, tall: float, group: list[PicturedInstance]) -> list[str]:
        high, parts = tall / len(group), list[str]()
        for k, each in enumerate(group):
            top = y + k * high
            parts.append(f'<rect x="{x:g}" y="{top:g}" width="{CELL}" height="{high:g}" {fill(each)}/>')
            parts.append(text(x + CELL / 2, top + high / 2 + 3.5, each.step + 1, "small in middle"))
        parts.append(f'<rect x="{x:g}" y="{y:g}" width="{CELL}" height="{tall:g}" class="cell" fill="none"/>')
        return parts

    def tile(each: PicturedInstance) -> Hashable:
        return each.coords[: statement.tile_loops] if statement.tile_loops else None

    title = f"{statement.name}[{', '.join(statement.dims)}]" if statement.dims else statement.name
    grouped = _at_points(own, lambda each: each.point)
    tall = max([CELL, *(13 * len(group) for group in grouped.values())])
    return _grid(title, statement.dims, grouped, cell, tile, tall)


def _buffer(scene: Scene, number: int) -> Drawn:
    """The elements of a buffer, each with the number of values that it holds in turn."""
    array = scene.arrays[number]
    written = [each for each in scene.instances if scene.statements[each.statement].array == number and each.element]
    values = {(each.element, scene.statements[each.statement].source, each.value) for each in written if each.element}
    counted = {at: len([*group]) for at, group in groupby(sorted(at for at, _, _ in values))}

    def cell(x: float, y: float, tall: float, group: list[tuple[int, ...]]) -> list[str]:
        parts = [f'<rect x="{x:g}" y="{y:g}" width="{CELL}" height="{CELL}" class="element"/>']
        count = max(counted[at] for at in group)
        return [*parts, text(x + CELL / 2, y + CELL / 2 + 3.5, f"×{count}", "small middle")]

    dims = array.dims[array.owners :]
    copies = len({at[: array.owners] for at in counted})
    title = f"buffer {array.name}" + (f", {copies} copies" if copies > 1 else "")
    grouped = _at_points(list(counted), lambda at: at[array.owners :])
    return _grid(title, dims, grouped, cell, lambda at: None, CELL)


def _at_points(items: Sequence[Item], point: Callable[[Item], tuple[int, ...]]) -> dict[tuple[int, int], list[Item]]:
    """Items by their row and column: the last two coordinates."""
    found: dict[tuple[int, int], list[Item]] = {}
    for each in items:
        row, column = (0, 0, *point(each))[-2:]
        found.setdefault((row, column), []).append(each)
    return found


def _grid(
    title: str,
    dims: Sequence[str],
    grouped: dict[tuple[int, int], list[Item]],
    cell: Callable[[float, float, float, list[Item]], list[str]],
    tile: Callable[[Item], Hashable],
    tall: float,
) -> Drawn:
    """Cells in rows and columns, so tall, below a title and the numbers of the columns."""
    if not grouped:
        return Drawn(0, 0, ())
    rows, columns = ([*range(min(at), max(at) + 1)] for at in zip(*grouped, strict=True))
    left, top = (26.0 if len(dims) > 1 else 0.0), 46.0 if dims else 24.0
    parts = [text(0, 12, title, "bold")]
    if dims:
        parts += [text(left + CELL / 2 + CELL * k, top - 5, at, "small soft middle") for k, at in enumerate(columns)]
        parts.append(text(left + 2, top - 19, f"{dims[-1]} →", "small soft"))
    if len(dims) > 1:
        parts.append(text(left - 6, top - 5, f"{dims[-2]} ↓", "small soft end"))
        parts += [text(left - 6, top + tall * (k + 0.5) + 3.5, at, "small soft end") for k, at in enumerate(rows)]
    for (row, column), group in sorted(grouped.items()):
        parts += cell(left + CELL * (column - columns[0]), top + tall * (row - rows[0]), tall, group)
    outlined = {at: frozenset(map(tile, group)) for at, group in grouped.items()}
    path = _outlines(outlined, lambda at: (left + CELL * (at[1] - columns[0]), top + tall * (at[0] - rows[0])), tall)
    parts += [f'<path class="tile" d="{path}"/>'] if path else []
    width = max(left + CELL * len(columns), 7.2 * len(title))
    return Drawn(width + 2, top + tall * len(rows) + 4, tuple(parts))


def _outlines(
    tiles: dict[tuple[int, int], frozenset[Hashable]],
    corner: Callable[[tuple[int, int]], tuple[float, float]],
    tall: float,
) -> str:
    """The lines between cells of different tiles; "" if there are no tiles."""
    if all(tile == {None} for tile in tiles.values()):
        return ""
    lines = list[str]()
    for (row, column), tile in sorted(tiles.items()):
        x, y = corner((row, column))
        sides = ((row - 1, column, f"M{x:g} {y:g}h{CELL}"), (row, column - 1, f"M{x:g} {y:g}v{tall:g}"))
        lines += [line for r, c, line in sides if tiles.get((r, c)) != tile]
        ends = ((row + 1, column, f"M{x:g} {y + tall:g}h{CELL}"), (row, column + 1, f"M{x + CELL:g} {y:g}v{tall:g}"))
        lines += [line for r, c, line in ends if (r, c) not in tiles]
    return "".join(lines)


def before_and_after(before: Drawn, commands: Sequence[str], after: Drawn, title: str) -> str:
    """A picture of two states of a schedule, and what leads from one to the other."""
    given = lines_of_code(commands)
    top, between = given.height + 22, 64.0
    width = max(before.width + between + after.width, given.width) + 24
    height = max(before.height, after.height) + top + 14
    x = 12 + before.width
    arrow = f'<path class="arrow" d="M{x + 14:g} {top + 9:g}h{between - 28:g}m-8 -6l8 6l-8 6"/>'
    parts = [given.at(12, 8), before.at(12, top), arrow, after.at(12 + before.width + between, top)]
    return picture(width, height, parts, title)


def picture(width: float, height: float, parts: Sequence[str], title: str) -> str:
    """A file of elements, readable in light and in dark."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img">\n<title>{html.escape(title)}</title>\n{STYLE}\n'
        '<rect class="back" width="100%" height="100%" rx="8"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )
