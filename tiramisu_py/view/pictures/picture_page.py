"""A picture as one HTML file that needs no network: the scenes as JSON, d3, and the script that draws them.

d3 (ISC licence, ``page_files/d3.LICENSE``) is in the package as it is published; the page's policy forbids requests.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

from tiramisu_py.records import dataclass
from tiramisu_py.view.pictures.scene import Scene
from tiramisu_py.view.pictures.scene_differences import Differences, differences

#: The height of a picture in a notebook, in pixels.
HEIGHT = 760
#: The parts of the script that draws.
SCRIPTS = ("shared.js", "side.js", "timeline.js", "grid.js", "routes.js", "hover.js", "page.js")


@dataclass(frozen=True)
class PicturedSide:
    """One schedule of a picture, at one or more sizes."""

    title: str
    scenes: tuple[Scene, ...]


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture of one schedule, or of two beside each other: ``html`` is a page; a notebook shows it.

    `scenes` are what is drawn, as plain data: those of the first schedule, then those of the second.
    """

    sides: tuple[PicturedSide, ...]
    differences: Differences | None = None

    @property
    def scenes(self) -> tuple[Scene, ...]:
        """Everything that is drawn."""
        return tuple(scene for side in self.sides for scene in side.scenes)

    @property
    def html(self) -> str:
        """The page: one text that needs no other file."""
        title = " and ".join(side.title for side in self.sides)
        parts = {
            "title": html.escape(f"{title}: a picture"),
            "style": _file("page.css"),
            "d3": _file("d3.min.js"),
            "script": "\n".join(map(_file, SCRIPTS)),
            "data": json.dumps(self.as_dict(), separators=(",", ":")).replace("<", "\\u003c"),
        }
        first, *rest = _file("page.html").split("@")
        return first + "".join(parts.get(part, part) for part in rest)

    def save(self, path: str | Path) -> None:
        """Write the page to a file."""
        Path(path).write_text(self.html, encoding="utf-8")

    def as_dict(self) -> dict[str, Any]:
        """The drawn data as dictionaries, lists, strings and numbers."""
        sides = [{"title": side.title, "scenes": [_plain(scene) for scene in side.scenes]} for side in self.sides]
        return {"sides": sides, "differences": None if self.differences is None else asdict(self.differences)}

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" width="100%" height="{HEIGHT}" '
            'style="border: 1px solid #8888" sandbox="allow-scripts"></iframe>'
        )

    def __repr__(self) -> str:
        shown = "; ".join(
            f"{side.title}, {scene.verdict}: {len(scene.instances)} instances in {scene.steps} steps at "
            + (", ".join(f"{name} = {value}" for name, value in scene.sizes.items()) or "one size")
            for side in self.sides
            for scene in side.scenes
        )
        return f"<picture of {shown}>"


def _plain(scene: Scene) -> Mapping[str, Any]:
    """A scene as dictionaries with text as keys; what is None is left out of instances."""
    found = asdict(scene)
    found["instances"] = [{k: v for k, v in each.items() if v is not None} for each in found["instances"]]
    found["executors"] = [executor.words() for executor in scene.executors]
    found["values"] = {
        source: {",".join(map(str, at)): value for at, value in values.items()}
        for source, values in scene.values.items()
    }
    return found


def _file(name: str) -> str:
    return (files("tiramisu_py.view.pictures") / "page_files" / name).read_text(encoding="utf-8")


def side_by_side(scenes: Sequence[Scene], other: Sequence[Scene] = ()) -> Picture:
    """The picture of one schedule at all its sizes, or of two at the same size, with what differs in their order."""
    first = scenes[0].name
    if not other:
        return Picture((PicturedSide(first, tuple(scenes)),))
    second = other[0].name
    names = (first, second) if first != second else (f"{first} (left)", f"{second} (right)")
    sides = (PicturedSide(names[0], tuple(scenes)), PicturedSide(names[1], tuple(other)))
    return Picture(sides, differences(scenes[-1], other[-1]))
