"""Local contrast: a Laplacian pyramid of eight levels, with details from pyramids of a curve around each brightness."""

from __future__ import annotations

from typing import Any

import numpy as np
from story import Arguments, Array, planes, tell

import tiramisu_py as tm

R, C = tm.params("R C")
p, k, r, c, i, r0, c0, r1, c1 = tm.iters("p k r c i r0 c0 r1 c1")
HEIGHT, CURVES = 8, 8  # of the pyramids, and brightnesses that have one
RED, GREEN, BLUE, EPSILON = (np.float32(w) for w in (0.299, 0.587, 0.114, 0.01))
STEPS = 256 * (CURVES - 1)  # of brightness
CLOSE = 1  # of 65535


def smaller(f: tm.Function, name: str, a: tm.Computation, *others: tm.Iter) -> tm.Computation:
    """Half as many rows, then half as many columns, with the weights 1 3 3 1."""

    def weighted(values: list[tm.Expr]) -> tm.Expr:
        return (values[0] + values[3]) * np.float32(0.125) + (values[1] + values[2]) * np.float32(0.375)

    low = f.computation(f"low_{name}", [*others, r, c], weighted([a[*others, 2 * r + u, c] for u in range(-1, 3)]))
    return f.computation(name, [*others, r, c], weighted([low[*others, r, 2 * c + v] for v in range(-1, 3)]))


def larger(a: tm.Computation, *others: tm.Expr) -> tm.Expr:
    """Twice as many rows and columns: three quarters of the nearer and a quarter of the farther neighbour."""

    def mixed(near: tm.Expr, far: tm.Expr) -> tm.Expr:
        return near * np.float32(0.75) + far * np.float32(0.25)

    rows, columns = ((x // 2, x // 2 - 1 + x % 2 * 2) for x in (r, c))
    return mixed(*(mixed(*(a[*others, y, x] for x in columns)) for y in rows))


def part(value: tm.Expr) -> tm.Expr:
    """A colour from 0 to 1."""
    return tm.cast(tm.float32, value) * np.float32(1 / 65535)


def algorithm() -> tm.Function:
    """Pyramids of the brightness and of eight curves of it; the details of the result are mixed from two curves."""
    f = tm.Function("local_laplacian", params=[R, C], assume="R >= 1 and C >= 1")
    rgb = f.input("rgb", tm.uint16, [3, R, C])
    alpha, beta = f.scalar("alpha", tm.float32), f.scalar("beta", tm.float32)
    near = tm.boundary.repeat_edge(rgb, dims=[1, 2])
    red, green, blue = (part(near[n, r, c]) for n in range(3))
    grey = f.computation("grey", [r, c], red * RED + green * GREEN + blue * BLUE)
    x = tm.cast(tm.float32, i) * np.float32(1 / 256)
    curve = f.computation("curve", [i], alpha * x * tm.exp(x * x * np.float32(-0.5)))

    def curved(k: tm.Expr) -> tm.Expr:
        step = tm.clip(tm.cast(tm.int32, grey[r, c] * np.float32(STEPS)), 0, STEPS)
        middle = tm.cast(tm.float32, k) * np.float32(1 / (CURVES - 1))
        return beta * (grey[r, c] - middle) + middle + curve[step - 256 * k]

    greys, curves = [grey], [f.computation("curved", [k, r, c], curved(k))]
    for n in range(1, HEIGHT):
        curves.append(smaller(f, f"curved{n}", curves[-1], k))
        greys.append(smaller(f, f"grey{n}", greys[-1]))
    result = None
    for n in reversed(range(HEIGHT)):
        place = greys[n][r, c] * np.float32(CURVES - 1)
        low = tm.clip(tm.cast(tm.int32, place), 0, CURVES - 2)
        share = place - tm.cast(tm.float32, low)
        large = f.computation(f"large{n}", [k, r, c], larger(curves[n + 1], k)) if n < HEIGHT - 1 else None

        def detail(k: tm.Expr, n: int = n, large: tm.Computation | None = large) -> tm.Expr:
            value = curves[n][k, r, c] if n > 0 else curved(k)
            return value if large is None else value - large[k, r, c]

        details = detail(low) * (1 - share) + detail(low + 1) * share
        result = f.computation(f"result{n}", [r, c], details if result is None else larger(result) + details)
    scale = f.computation("scale", [r, c], result[r, c] / (grey[r, c] + EPSILON))
    brightness = tm.clip(scale[r, c] * (part(rgb[p, r, c]) + EPSILON), 0, 1)
    f.outputs(f.computation("contrast", {p: 3, r: R, c: C}, tm.cast(tm.uint16, brightness * 65535)))
    return f


def scheduled(
    cpu: tm.Target | None = None,
    *,
    band: int = 32,
    tile: tuple[int, int] = (32, 512),
    vectors: int = 1,
    streams: bool = False,
) -> tm.Function:
    """The first level in tiles whose rows of each curve slide through the cache; the last level with the picture.

    Levels of a few pixels are left as they are. The curve is computed, not looked up, where it is read.
    """
    lanes = vectors * (cpu or tm.target()).lanes(tm.float32)
    f = algorithm()
    contrast, first, curved = f["contrast"], f["curved1"], f["curved"]
    contrast.reorder(r, c, p)
    contrast.split(r, band, r0, r1)
    contrast.reorder(r0, r1, p, c).parallelize(r0)
    if streams:
        contrast.store_nontemporal()
    for name in ("scale", "result0", "large0"):
        f[name].compute_at(contrast, r1)
    first.tile(r, c, *tile, r0, c0, r1, c1)
    first.reorder(r0, c0, k, r1, c1).parallelize(r0)
    first.vectorize(c1, lanes, remainder="mask")
    f["low_curved1"].compute_at(first, r1)
    curved.compute_at(first, r1)
    curved.slide(r1, r, 2)
    f["curve"].inline()
    for n in range(1, 5):
        f[f"large{n}"].compute_at(f[f"result{n}"], r)
        f[f"low_grey{n}"].compute_at(f[f"grey{n}"], r)
        if n > 1:
            f[f"low_curved{n}"].compute_at(f[f"curved{n}"], r)
    near = ["grey", *(f"{name}{n}" for n in range(1, 5) for name in ("grey", "result", "curved"))]
    near.remove("curved1")
    for name in near:
        f[name].parallelize(r)
    low = [f"low_{name}{n}" for n in range(1, 5) for name in ("grey", "curved")]
    for name in (*near, *low, *(f"large{n}" for n in range(5)), "curved", "result0", "scale", "contrast"):
        f[name].vectorize(c, lanes, remainder="mask")
    return f


def sample(rows: int, columns: int) -> Arguments:
    """A picture of 16 bits in three planes, no brightness of which rounding could put beside its place in the curve."""
    rgb = (planes(rows, columns) * 65535).astype(np.uint16)
    place = (0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2]) / 65535 * STEPS
    rgb[0] -= np.where(abs(place - np.rint(place)) < 0.01, 20, 0).astype(np.uint16)
    return {"rgb": rgb, "alpha": 1 / (CURVES - 1), "beta": 1.0}


def exact(given: Arguments) -> Array:
    """The pyramids in float64, of a picture that is padded far enough."""
    rows, columns = given["rgb"].shape[1:]
    sizes = [(256, -size % 128 + 256) for size in (rows, columns)]
    rgb = np.pad(given["rgb"].astype(np.float64) / 65535, [(0, 0), *sizes], "edge")
    grey = 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2]
    middles = np.arange(CURVES)[:, None, None] / (CURVES - 1)
    x = np.clip(grey * STEPS, 0, STEPS).astype(int) / 256 - np.arange(CURVES)[:, None, None]
    curves = [given["beta"] * (grey - middles) + middles + given["alpha"] * x * np.exp(-x * x / 2)]
    greys = [grey]
    for _ in range(1, HEIGHT):
        curves.append(halved(halved(curves[-1], 1), 2))
        greys.append(halved(halved(greys[-1], 0), 1))
    result = np.zeros([2])
    for n in reversed(range(HEIGHT)):
        details = curves[n] - (doubled(doubled(curves[n + 1], 1), 2) if n < HEIGHT - 1 else 0)
        place = greys[n] * (CURVES - 1)
        low = np.clip(place.astype(int), 0, CURVES - 2)
        below, above = (np.take_along_axis(details, (low + d)[None], 0)[0] for d in (0, 1))
        mixed = below + (above - below) * (place - low)
        result = mixed + doubled(doubled(result, 0), 1) if n < HEIGHT - 1 else mixed
    colours = np.clip(result * (rgb + 0.01) / (grey + 0.01), 0, 1) * 65535
    found: Array = np.floor(colours[:, 256 : 256 + rows, 256 : 256 + columns])
    return found


def halved(a: Array, axis: int) -> Array:
    """Half as many elements along an axis."""
    a = np.moveaxis(np.pad(a, [(int(d == axis), int(d == axis)) for d in range(a.ndim)], "edge"), axis, -1)
    return np.moveaxis((a[..., :-2:2] + 3 * a[..., 1:-1:2] + 3 * a[..., 2::2] + a[..., 3::2]) / 8, -1, axis)


def doubled(a: Array, axis: int) -> Array:
    """Twice as many elements along an axis."""
    a = np.moveaxis(np.pad(a, [(int(d == axis), int(d == axis)) for d in range(a.ndim)], "edge"), axis, -1)
    pairs = np.stack([a[..., :-2] + 3 * a[..., 1:-1], 3 * a[..., 1:-1] + a[..., 2:]], -1) / 4
    return np.moveaxis(pairs.reshape(*a.shape[:-1], -1), -1, axis)


def shown(kernel: tm.Kernel, picture: Array) -> Array:
    """A photograph with stronger details."""
    found: Any = kernel((picture * 65535).astype(np.uint16), 0.3, 1.0)
    details: Array = found.astype(np.float32) / 65535
    return details


if __name__ == "__main__":
    tell(scheduled, sample, exact, CLOSE, shown)
