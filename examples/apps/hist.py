"""Equal brightness: the histogram of a colour picture is made even, and colours keep their differences from it."""

from __future__ import annotations

from typing import Any

import numpy as np
from story import Arguments, Array, planes, tell

import tiramisu_py as tm

R, C = tm.params("R C")
r, c, b, k, c0, c1, c2 = tm.iters("r c b k c0 c1 c2")
RED, GREEN, BLUE = (np.float32(w / 256) for w in (77, 150, 29))  # sums of bytes with these weights are exact
CLOSE = 1  # a result at the border of two bytes may be either


def algorithm() -> tm.Function:
    """The histogram of brightness, its running sum as the new brightness of each level, and the colours with it."""
    f = tm.Function("hist", params=[R, C], assume="R >= 1 and C >= 1")
    rgb = f.input("rgb", tm.uint8, [3, R, C])
    red, green, blue = (tm.cast(tm.float32, rgb[colour, r, c]) for colour in range(3))
    weighted = red * RED + green * GREEN + blue * BLUE
    level = f.computation("level", {r: R, c: C}, tm.cast(tm.uint8, weighted))
    count = f.scatter("count", {b: 256}, over={r: R, c: C}, at=[level[r, c]], op=tm.sum, expr=1, dtype=tm.int32)
    upto = f.computation("upto", {b: 256}, lambda upto: tm.select(b == 0, count[b], upto[b - 1] + count[b]))
    share = np.float32(255) / tm.cast(tm.float32, R * C)
    even = f.computation("even", {b: 256}, tm.cast(tm.float32, upto[b]) * share)
    bright = f.computation("bright", {r: R, c: C}, weighted)
    light = f.computation("light", {r: R, c: C}, even[tm.cast(tm.uint8, bright[r, c])])[r, c]
    more_red, more_blue = red - bright[r, c], blue - bright[r, c]
    changed = [
        light + more_red * np.float32(0.998),
        light - more_blue * np.float32(0.193) - more_red * np.float32(0.507),
        light + more_blue * np.float32(0.995),
    ]
    colour = tm.clip(tm.mux(k, changed), np.float32(0), np.float32(255))
    equal = f.computation("equal", {k: 3, r: R, c: C}, tm.cast(tm.uint8, colour))
    f.outputs(equal)
    return f


def scheduled(cpu: tm.Target | None = None, *, tables: int = 4, vectors: int = 1, streams: bool = True) -> tm.Function:
    """Neighbours count in histograms of their own, since equal ones would wait; brightness is computed twice."""
    lanes = (cpu or tm.target()).lanes(tm.uint8)
    f = algorithm()
    level, count, bright, light, equal = (f[name] for name in ("level", "count", "bright", "light", "equal"))
    count.update.split(c, tables, c0, c1)
    partial = count.update.rfactor(c1)
    partial.store_in(tm.Buffer("counts", [tables, 256], tm.int32), [c1, b])
    partial.update.split(c, 4, c0, c2)
    partial.update.unroll(c2)
    partial.update.parallelize(r, combine=tm.PRIVATE)
    level.compute_at(partial.update, r)
    level.vectorize(c, lanes, remainder="mask")
    equal.split(c, vectors * lanes, c0, c1)
    equal.reorder(r, c0, k, c1)
    equal.parallelize(r)
    equal.unroll(k)
    equal.vectorize(c1, vectors * lanes, remainder="mask")
    if streams:
        equal.store_nontemporal()
    for stage in (light, bright):
        stage.compute_at(equal, c0)
        stage.vectorize(c, vectors * lanes, remainder="mask")
        stage.store_in(tm.REGISTER)
    return f


def sample(rows: int, columns: int) -> Arguments:
    """A picture of bytes."""
    return {"rgb": (planes(rows, columns) * 255).astype(np.uint8)}


def exact(given: Arguments) -> Array:
    """The same in float64, with the histogram and its sums by NumPy."""
    rgb = given["rgb"].astype(np.float64)
    bright = np.einsum("krc,k->rc", rgb, [77 / 256, 150 / 256, 29 / 256])
    level = bright.astype(np.int64)
    even = np.cumsum(np.bincount(level.ravel(), minlength=256)) * 255 / level.size
    red, _, blue = rgb - bright
    changed = even[level] + [red * 0.998, -blue * 0.193 - red * 0.507, blue * 0.995]
    colours: Array = np.clip(changed, 0, 255).astype(np.uint8)
    return colours


def shown(kernel: tm.Kernel, picture: Array) -> Array:
    """A photograph with even brightness."""
    found: Any = kernel((picture * 255).astype(np.uint8))
    colours: Array = found / np.float32(255)
    return colours


if __name__ == "__main__":
    tell(scheduled, sample, exact, CLOSE, shown)
