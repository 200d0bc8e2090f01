"""Non-local means: a pixel is a mean of 7 x 7 neighbours, weighted by how alike the 7 x 7 pixels around both are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from story import Arguments, Array, planes, tell

import tiramisu_py as tm

R, C = tm.params("R C")
k, r, c, dy, dx, r0, c0, r1, c1, c2, c3, c4, c5 = tm.iters("k r c dy dx r0 c0 r1 c1 c2 c3 c4 c5")
AROUND = range(-3, 4)
CLOSE = 1e-5


def algorithm() -> tm.Function:
    """The squared difference to each neighbour, its sums over a patch, the weight that follows, and the mean."""
    f = tm.Function("nl_means", params=[R, C], assume="R >= 1 and C >= 1")
    rgb, sharpness = f.input("rgb", tm.float32, [3, R, C]), f.scalar("sharpness", tm.float32)
    framed = f.computation("framed", [k, r, c], tm.boundary.repeat_edge(rgb, dims=[1, 2])[k, r, c])
    near = [framed[n, r + dy, c + dx] for n in range(3)]
    apart = [near[n] - framed[n, r, c] for n in range(3)]
    unlike = f.computation("unlike", [dy, dx, r, c], added([each * each for each in apart]))
    down = f.computation("down", [dy, dx, r, c], added([unlike[dy, dx, r + n, c] for n in AROUND]))
    across = added([down[dy, dx, r, c + n] for n in AROUND])
    weight = f.computation("weight", [dy, dx, r, c], tm.exp(-sharpness * across))
    add = tm.operator("add", lambda a, b: tuple(x + y for x, y in zip(a, b, strict=True)), (np.float32(0),) * 4)
    w, neighbours = weight[dy, dx, r, c], {dy: (-3, 4), dx: (-3, 4)}
    sums = f.reduction("sums", [r, c], neighbours, add, (*(w * colour for colour in near), w))
    mean = tm.mux(k, [sums[r, c][n] / sums[r, c][3] for n in range(3)])
    f.outputs(f.computation("denoised", {k: 3, r: R, c: C}, tm.clip(mean, np.float32(0), np.float32(1))))
    return f


def added(terms: Sequence[tm.Expr]) -> tm.Expr:
    """The sum of expressions."""
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def scheduled(cpu: tm.Target | None = None, *, rows: int = 64, vectors: int = 8, streams: bool = False) -> tm.Function:
    """Tiles, in which the neighbours of one row are added in registers; differences are kept for seven rows."""
    lanes = (cpu or tm.target()).lanes(tm.float32)
    f = algorithm()
    framed, unlike, down, weight, sums = (f[name] for name in ("framed", "unlike", "down", "weight", "sums"))
    denoised = f["denoised"]
    row = sums.update.rfactor(dy, name="row")
    denoised.tile(r, c, rows, vectors * lanes, r0, c0, r1, c1)
    denoised.split(c1, lanes, c4, c5).reorder(r0, c0, r1, c4, k, c5).unroll(k)
    denoised.parallelize(r0)
    if streams:
        denoised.store_nontemporal()
    sums.compute_at(denoised, c0)
    sums.split(c, lanes, c2, c3)
    sums.update.reorder(dy, r, c2, c3)
    row.compute_at(sums.update, c2).store_in(tm.REGISTER)
    row.update.reorder(dx, c)
    row.update.unroll(dx)
    weight.compute_at(row.update, dx).store_in(tm.REGISTER)
    for stage in (down, unlike):
        stage.compute_at(sums.update, r).slide(r)
        stage.reorder(r, c, dx)
        stage.unroll(dx)
    framed.compute_at(denoised, c0)
    in_rows = [(each, c) for each in (row, weight, down, unlike, framed)]
    for stage, loop in (*in_rows, (denoised, c5), (sums, c3)):
        stage.vectorize(loop, lanes, remainder="mask")
    return f


def sample(rows: int, columns: int) -> Arguments:
    """A picture, and the factor of the squared differences of a patch: 1 / (7 sigma) ** 2 for sigma = 0.12."""
    return {"rgb": planes(rows, columns), "sharpness": float(np.float32(1 / (7 * 0.12) ** 2))}


def exact(given: Arguments) -> Array:
    """The mean in float64, one neighbour at a time."""
    sharpness, wide = given["sharpness"], np.pad(given["rgb"].astype(np.float64), ((0, 0), (6, 6), (6, 6)), "edge")
    rows, columns = given["rgb"].shape[1:]
    sums: Array = np.zeros((4, rows, columns))
    for down, right in ((a, b) for a in AROUND for b in AROUND):
        near = wide[:, 3 + down : rows + 9 + down, 3 + right : columns + 9 + right]
        unlike = np.square(near - wide[:, 3 : rows + 9, 3 : columns + 9]).sum(0)
        patch = sum(unlike[n : n + rows] for n in range(7))
        weight = np.exp(-sharpness * sum(patch[:, n : n + columns] for n in range(7)))
        sums[:3] += weight * near[:, 3 : rows + 3, 3 : columns + 3]
        sums[3] += weight
    return np.clip(sums[:3] / sums[3], 0, 1)


def shown(kernel: tm.Kernel, picture: Array) -> Array:
    """A photograph without its grain."""
    found: Any = kernel(picture, float(np.float32(1 / (7 * 0.12) ** 2)))
    cleaned: Array = found
    return cleaned


if __name__ == "__main__":
    tell(scheduled, sample, exact, CLOSE, shown)
