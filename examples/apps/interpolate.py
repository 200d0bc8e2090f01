"""Missing pixels: a picture with holes is filled from a pyramid of ten levels, each weighted by what it knows."""

from __future__ import annotations

from typing import Any

import numpy as np
from story import Arguments, Array, planes, tell

import tiramisu_py as tm

R, C = tm.params("R C")
p, r, c, r0, c0, r1, c1 = tm.iters("p r c r0 c0 r1 c1")
HEIGHT = 10
BOUNDED = 3  # the level at whose edges the coarser ones end
HALF, QUARTER = np.float32(0.5), np.float32(0.25)
CLOSE = 1e-5  # of values below 1


def algorithm() -> tm.Function:
    """Colours times their weights, ever coarser; then each level over the next one; at last without the weight."""
    f = tm.Function("interpolate", params=[R, C], assume="R >= 1 and C >= 1")
    rgba = f.input("rgba", tm.float32, [4, R, C])
    near = tm.boundary.repeat_edge(rgba, dims=[1, 2])
    weighted, inside = (tm.select(p < 3, a[p, r, c] * a[3, r, c], a[3, r, c]) for a in (near, rgba))
    small = [f.computation("small0", [p, r, c], weighted)]
    for n in range(1, HEIGHT):
        rows, columns = ([2 * at + d for d in (-1, 0, 1)] for at in (r, c))
        if n == BOUNDED + 1:
            rows = [tm.clip(at, 0, R // 2**BOUNDED) for at in rows]
            columns = [tm.clip(at, 0, C // 2**BOUNDED) for at in columns]
        above = [small[-1][p, at, c] for at in rows]
        tall = f.computation(f"tall{n}", [p, r, c], above[0] * QUARTER + above[1] * HALF + above[2] * QUARTER)
        beside = [tall[p, r, at] for at in columns]
        whole = beside[0] * QUARTER + beside[1] * HALF + beside[2] * QUARTER
        small.append(f.computation(f"small{n}", [p, r, c], whole))
    filled = small[-1]
    for n in reversed(range(HEIGHT - 1)):
        rows = (filled[p, r // 2, c] + filled[p, (r + 1) // 2, c]) * HALF
        wide = f.computation(f"wide{n}", [p, r, c], rows)
        larger = (wide[p, r, c // 2] + wide[p, r, (c + 1) // 2]) * HALF
        known, weight = (small[n][p, r, c], small[n][3, r, c]) if n > 0 else (inside, rgba[3, r, c])
        filled = f.computation(f"filled{n}", [p, r, c], known + (1 - weight) * larger)
    f.outputs(f.computation("whole", {p: 3, r: R, c: C}, filled[p, r, c] / filled[3, r, c]))
    return f


def scheduled(
    cpu: tm.Target | None = None, *, band: int = 32, vectors: int = 1, ahead: int = 256, streams: bool = True
) -> tm.Function:
    """Bands of rows with the two levels above them; coarser levels one after another.

    Rows are combined before columns, so that they are read in whole vectors; of the picture, those of all planes at
    once, since each is multiplied by the weights. Levels of a few pixels are left alone.
    """
    lanes = (cpu or tm.target()).lanes(tm.float32)
    f = algorithm()
    whole, filled, wide, first = f["whole"], f["filled0"], f["wide0"], f["tall1"]
    whole.tile(r, c, band, vectors * lanes, r0, c0, r1, c1)
    whole.reorder(r0, r1, c0, p, c1)
    whole.parallelize(r0).unroll(p)
    whole.vectorize(c1, vectors * lanes, remainder="mask")
    if streams:
        whole.store_nontemporal()
    filled.compute_at(whole, c0).store_in(tm.REGISTER)
    wide.compute_at(whole, r1)
    f["small0"].inline()
    pairs = [(f[f"{a}{n}"], f[f"{b}{n}"]) for n in range(1, 5) for a, b in (("small", "tall"), ("filled", "wide"))]
    for stage, part in pairs:
        stage.reorder(r, p, c)
        part.compute_at(stage, r if part.name == first.name else p)
        if stage.name in ("filled1", "filled2"):
            stage.compute_at(whole, r0)
        else:
            stage.parallelize(r)
    first.split(c, lanes, c0, c1, origin=-1)
    first.reorder(r, c0, p, c1)
    first.unroll(p)
    first.vectorize(c1, lanes, remainder="mask")
    for stage in (filled, wide, *(stage for pair in pairs for stage in pair if stage.name != first.name)):
        stage.vectorize(c, lanes, remainder="mask")
    if ahead:
        first.prefetch(f["rgba"], c0, ahead // lanes)
        filled.prefetch(f["rgba"], c, ahead)
    return f


def sample(rows: int, columns: int) -> Arguments:
    """A picture in three planes, and the weights of its pixels: most are missing."""
    rgb = planes(rows, columns)
    known = np.random.default_rng(1).random((1, rows, columns)) < 0.2
    known[:, ::8, ::8] = True
    return {"rgba": np.concatenate([rgb, known.astype(np.float32)])}


def exact(given: Arguments) -> Array:
    """The pyramid in float64, of a picture that is padded far enough."""
    sizes = given["rgba"].shape[1:]
    rgba = np.pad(given["rgba"].astype(np.float64), [(0, 0), (16, 32), (16, 32)], "edge")
    small = [np.concatenate([rgba[:3] * rgba[3], rgba[3:]])]
    low = -16
    lows = [low]
    for n in range(1, HEIGHT):
        above = small[-1]
        if n == BOUNDED + 1:
            ends = [64 * ((size + 510) // 512) + 66 for size in sizes]
            at = [np.clip(np.arange(-64, end), 0, size // 8) - low for size, end in zip(sizes, ends, strict=True)]
            above, low = above[:, at[0]][:, :, at[1]], -64
        small.append(halved(halved(above, low, 1), low, 2))
        low = (low + 2) // 2
        lows.append(low)
    filled = small[-1][:, -low:, -low:]
    for n in reversed(range(HEIGHT - 1)):
        for axis, size in enumerate(sizes, 1):
            at = np.arange((size + 2**n - 2) // 2**n + 1 if n else size)
            filled = (filled.take(at // 2, axis) + filled.take((at + 1) // 2, axis)) / 2
        known = small[n][:, -lows[n] :, -lows[n] :][:, : filled.shape[1], : filled.shape[2]]
        filled = known + (1 - known[3]) * filled
    found: Array = filled[:3] / filled[3]
    return found


def halved(a: Array, low: int, axis: int) -> Array:
    """Half as many elements along an axis, whose first index is `low`."""
    a = np.moveaxis(a, axis, -1)[..., low % 2 == 0 :]
    count = (a.shape[-1] - 1) // 2
    parts = [a[..., d : d + 2 * count : 2] for d in range(3)]
    return np.moveaxis((parts[0] + 2 * parts[1] + parts[2]) / 4, -1, axis)


def shown(kernel: tm.Kernel, picture: Array) -> Array:
    """A photograph of which a tenth of the pixels is left."""
    known = np.random.default_rng(1).random((1, *picture.shape[1:])) < 0.1
    found: Any = kernel(np.concatenate([picture, known.astype(np.float32)]))
    whole: Array = found
    return whole


if __name__ == "__main__":
    tell(scheduled, sample, exact, CLOSE, shown)
