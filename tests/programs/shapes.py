"""The shapes of code that the commands make, each with arguments for awkward sizes: tried on every target."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import tiramisu_py as tm

Given = Mapping[str, Any]
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "cpu"
SIZES = ((1, 1), (7, 31), (9, 33), (25, 150))

R, C, T = tm.params("R C T")
r, c, r0, r1, c0, c1, t = tm.iters("r c r0 r1 c0 c1 t")


@dataclass(frozen=True)
class Shape:
    """A scheduled function by a name, and its arguments by rows and columns.

    `scheduled` may take ``cpu=``, a processor: without it the schedule is for this machine's.
    """

    name: str
    scheduled: Callable[..., tm.Function]
    sample: Callable[[int, int], Given]
    sizes: Sequence[tuple[int, int]] = SIZES

    def __str__(self) -> str:
        return self.name

    def made_for(self, cpu: tm.Target) -> tm.Function:
        """The schedule for a processor; the same for all if it does not ask for one."""
        return self.scheduled(cpu=cpu) if "cpu" in signature(self.scheduled).parameters else self.scheduled()


def _example(name: str) -> ModuleType:
    sys.path.insert(0, str(EXAMPLES))
    try:
        spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(EXAMPLES))


def _story(name: str, **options: Any) -> Shape:
    module = _example(name)
    title = "-".join([name, *map(str, options.values())])
    return Shape(title, partial(module.scheduled, **options), partial(module.sample, **options))


# -- a blur, of which each schedule is one shape


def _blurred(schedule: Callable[[tm.Function], object], dtype: tm.DType = tm.float32) -> Callable[[], tm.Function]:
    """Sums of three across, and of three down, as `schedule` arranges them."""

    def made() -> tm.Function:
        f = tm.Function("blur", params=[R, C], assume="R >= 1 and C >= 1")
        a = f.input("a", dtype, [R + 2, C + 2])
        bx = f.computation("bx", {r: R + 2, c: C}, a[r, c] + a[r, c + 1] + a[r, c + 2])
        f.outputs(f.computation("by", {r: R, c: C}, bx[r, c] + bx[r + 1, c] + bx[r + 2, c]))
        schedule(f)
        return f

    return made


def _picture(dtype: type[np.generic], rows: int, columns: int) -> Given:
    return {"a": np.random.default_rng(rows).integers(0, 256, (rows + 2, columns + 2)).astype(dtype)}


def _tiled(f: tm.Function) -> None:
    bx, by = f["bx"], f["by"]
    by.tile(r, c, 8, 64, r0, c0, r1, c1)
    by.parallelize(r0)
    by.vectorize(c1, 16)
    bx.compute_at(by, c0)
    bx.vectorize(c, 16)


def _jammed(f: tm.Function) -> None:
    bx, by = f["bx"], f["by"]
    by.unroll_and_jam(r, 4)
    by.parallelize(r)
    by.vectorize(c, 8)
    bx.compute_at(by, c)
    bx.unroll(r)


def _plain(**options: str) -> Callable[[tm.Function], None]:
    def schedule(f: tm.Function) -> None:
        for stage in (f["bx"], f["by"]):
            stage.vectorize(c, 16, **options)

    return schedule


def _streaming(f: tm.Function) -> None:
    _plain(remainder="mask")(f)
    f["by"].store_nontemporal(above=0)
    f["by"].prefetch(f["bx"], c, 64)


def _rows(f: tm.Function) -> None:
    bx, by = f["bx"], f["by"]
    by.split(r, 4, r0, r1)
    by.parallelize(r0)
    by.vectorize(c, 16)
    bx.compute_at(by, r1)
    bx.slide(r1)
    bx.vectorize(c, 16)


def _window(f: tm.Function) -> None:
    """The input slides through registers: each vector is loaded once, and neighbours are shifted in."""
    bx, by = f["bx"], f["by"]
    by.tile(r, c, 2, 16, r0, c0, r1, c1)
    by.unroll(r1)
    by.vectorize(c1, 16, remainder="mask")
    bx.inline()
    a = by.copy(f["a"], [r, c], at=c0)
    a.slide(c0, c, 16)
    a.store_in(tm.REGISTER)
    a.unroll(r)
    a.vectorize(c, 16, remainder="mask")


def _heat(**tiles: int) -> tm.Function:
    f = _example("heat").algorithm()[0]
    y, x = tm.iters("i j")
    f["heat"].time_tile(t, 4, {y: tiles["y"], x: tiles["x"]})
    f["heat"].vectorize(x, 8)
    return f


def _floats(name: str, schedule: Callable[[tm.Function], object]) -> Shape:
    return Shape(f"blur-{name}", _blurred(schedule), partial(_picture, np.float32))


def _bytes(name: str, schedule: Callable[[tm.Function], object]) -> Shape:
    return Shape(f"bytes-{name}", _blurred(schedule, tm.uint8), partial(_picture, np.uint8))


#: The stories of examples/cpu as they are scheduled there, and one line for each further shape.
SHAPES = [
    *(_story(name) for name in ("blur", "gauss", "edge", "grey", "negative", "heat", "warp")),
    _story("warp", dtype=tm.uint8),
    _floats("tiled", _tiled),
    _bytes("tiled", _tiled),
    _bytes("jammed", _jammed),
    _floats("masked", _plain(remainder="mask")),
    _bytes("masked", _plain(remainder="mask")),
    _floats("overlapped", _plain(remainder="overlap")),
    _bytes("overlapped", _plain(remainder="overlap")),
    _floats("streaming", _streaming),
    _bytes("streaming", _streaming),
    _floats("rows", _rows),
    _floats("window", _window),
    Shape("heat-tiled", partial(_heat, y=4, x=16), partial(_example("heat").sample, steps=9), ((3, 3), (9, 33))),
]
