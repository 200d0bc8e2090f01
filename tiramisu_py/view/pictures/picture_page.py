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

import numpy as np

from tiramisu_py.algorithm.declare.soundness import indexed
from tiramisu_py.records import dataclass
from tiramisu_py.view.pictures.scene import PicturedInstance, Point, Scene

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


# -- the pairs of instances that two schedules of one algorithm run in another order


#: The most pairs that are named.
MOST_EXAMPLES = 4

_Numbers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Differences:
    """How the order of the pairs of instances differs, of those that both schedules run exactly once.

    Of all `pairs`, `different` ones differ: `reversed` come in the opposite order; those `apart` are at the same time
    in the first schedule only, those `joined` in the second only. Of the reversed ones, `dependent` read what the other
    stores, in at least one of the schedules. `alone` are the instances of either side that are not compared, and
    `examples` say a few of the pairs in words.
    """

    pairs: int
    different: int
    reversed: int
    apart: int
    joined: int
    dependent: int
    alone: tuple[int, int]
    examples: tuple[str, ...]


def differences(first: Scene, second: Scene) -> Differences:
    """Compare the order of all pairs of instances, in steps: what may run at the same time is at the same time."""
    mine, other = _once(first), _once(second)
    names = [name for name in mine if name in other]
    left, right = _steps(mine, names), _steps(other, names)
    before, after = _signs(left), _signs(right)
    upper = np.triu(np.ones((len(names), len(names)), dtype=bool), 1)
    reverse, unlike = upper & (before * after < 0), upper & (before != after)
    dependent = sum(1 for pair in _dependent(first, second, names) if reverse[min(pair), max(pair)])
    some = np.argwhere(unlike)[:MOST_EXAMPLES].tolist()
    examples = [_example(names[a], names[b], int(before[a, b]), int(after[a, b])) for a, b in some]
    return Differences(
        pairs=len(names) * (len(names) - 1) // 2,
        different=int(unlike.sum()),
        reversed=int(reverse.sum()),
        apart=int((upper & (before == 0) & (after != 0)).sum()),
        joined=int((upper & (before != 0) & (after == 0)).sum()),
        dependent=dependent,
        alone=(len(first.instances) - len(names), len(second.instances) - len(names)),
        examples=tuple(examples),
    )


#: What an instance computes in any schedule: the source, the role, and the point.
_Work = tuple[str, str, Point]


def _work(scene: Scene, instance: PicturedInstance) -> _Work:
    statement = scene.statements[instance.statement]
    return statement.source, statement.role, instance.point


def _once(scene: Scene) -> dict[_Work, PicturedInstance]:
    """The instances whose work is done once."""
    found: dict[_Work, list[PicturedInstance]] = {}
    for instance in scene.instances:
        found.setdefault(_work(scene, instance), []).append(instance)
    return {work: instances[0] for work, instances in found.items() if len(instances) == 1 and work[0]}


def _steps(instances: dict[_Work, PicturedInstance], names: list[_Work]) -> _Numbers:
    return np.array([instances[name].step for name in names], dtype=np.int64)


def _signs(steps: _Numbers) -> _Numbers:
    """For each pair: -1 if the first comes before the second, 1 if after, 0 at the same step."""
    found: _Numbers = np.sign(steps[:, None] - steps[None, :])
    return found


def _dependent(first: Scene, second: Scene, names: list[_Work]) -> set[tuple[int, int]]:
    """The pairs of which one reads what the other stores, in either schedule."""
    numbers = {name: number for number, name in enumerate(names)}
    found = set[tuple[int, int]]()
    for scene in (first, second):
        for read in scene.reads:
            if read.writer < 0:
                continue
            stores, reads = (numbers.get(_work(scene, scene.instances[at])) for at in (read.writer, read.reader))
            if stores is not None and reads is not None:
                found.add((min(stores, reads), max(stores, reads)))
    return found


def _example(a: _Work, b: _Work, before: int, after: int) -> str:
    words = {-1: "before", 0: "together with", 1: "after"}
    first, second = (indexed(source, point) for source, _, point in (a, b))
    return f"{first} {words[before]} {second} on the left, {words[after]} it on the right"
