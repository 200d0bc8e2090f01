"""Smoothing that keeps edges: means in a coarse grid of place and brightness, blurred and read between its points."""

from __future__ import annotations

import numpy as np
from story import Arguments, Array, planes, tell

import tiramisu_py as tm

R, C, L = tm.params("R C L")
r, c, y, x, z, k, i, j, y0, r1 = tm.iters("r c y x z k i j y0 r1")
CELL = 8  # pixels of a cell of the grid, in both directions
CLOSE = 1e-5
STAGES = ("value", "level", "grid", "blurz", "blurx", "blury", "row", "smooth")


def algorithm() -> tm.Function:
    """Sums and numbers of the pixels in a cell with one of L levels, blurred by five taps along each dimension."""
    f = tm.Function("bilateral_grid", params=[R, C, L], assume="R >= 1 and C >= 1 and 1 <= L and L <= 255")
    image = f.input("image", tm.float32, [R, C])
    near = tm.boundary.repeat_edge(image)
    levels = tm.cast(tm.float32, L)

    def light(value: tm.Expr) -> tm.Expr:
        return tm.clip(value, np.float32(0), np.float32(1))

    value = f.computation("value", [r, c], light(near[r, c]))
    level = f.computation("level", [r, c], tm.cast(tm.int32, value[r, c] * levels + np.float32(0.5)))
    pixel = CELL * y + i - CELL // 2, CELL * x + j - CELL // 2
    term = tm.mux(k, [value[pixel], np.float32(1)])
    grid = f.scatter("grid", [y, z, k, x], over={i: CELL, j: CELL}, at=[y, level[pixel], k, x], op=tm.sum, expr=term)

    def taps(a: tm.Computation, dy: int, dz: int, dx: int) -> tm.Expr:
        one, two, three, four, five = (a[y + d * dy, z + d * dz, k, x + d * dx] for d in range(-2, 3))
        return one + two * 4 + three * 6 + four * 4 + five

    blurz = f.computation("blurz", [y, z, k, x], taps(grid, 0, 1, 0))
    blurx = f.computation("blurx", [y, z, k, x], taps(blurz, 0, 0, 1))
    blury = f.computation("blury", [y, z, k, x], taps(blurx, 1, 0, 0))

    def part(index: tm.Expr) -> tm.Expr:
        return tm.cast(tm.float32, index % CELL) / CELL

    row = f.computation("row", [r, z, k, x], tm.lerp(blury[r // CELL, z, k, x], blury[r // CELL + 1, z, k, x], part(r)))
    bright = light(image[r, c]) * levels
    low = tm.clip(tm.cast(tm.int32, bright), 0, L)

    def between(channel: int) -> tm.Expr:
        here, there = ([row[r, low + d, channel, c // CELL + e] for e in (0, 1)] for d in (0, 1))
        return tm.lerp(tm.lerp(*here, part(c)), tm.lerp(*there, part(c)), bright - tm.cast(tm.float32, low))

    smooth = f.computation("smooth", {r: R, c: C}, between(0) / between(1))
    f.outputs(smooth)
    return f


def scheduled(cpu: tm.Target | None = None, *, cells: int = 1, vectors: int = 1, streams: bool = False) -> tm.Function:
    """First rows of the grid, where pixels that are added in turn are of different cells; then rows of pixels.

    These are in bands of as many rows as some `cells` of the grid have.
    """
    lanes = (cpu or tm.target()).lanes(tm.float32)
    f = algorithm()
    value, level, grid, blurz, blurx, blury, row, smooth = map(f.__getitem__, STAGES)
    blurx.parallelize(y)
    blurx.vectorize(x, lanes, remainder="mask")
    blurz.compute_at(blurx, y)
    blurz.vectorize(x, lanes, remainder="mask")
    grid.update.reorder(y, i, j, x, k, z)
    grid.compute_at(blurz, y)
    for stage in (value, level):
        stage.compute_at(grid.update, y)
        stage.vectorize(c, lanes, remainder="mask")
    smooth.split(r, CELL * cells, y0, r1)
    smooth.parallelize(y0)
    smooth.vectorize(c, vectors * lanes, remainder="mask")
    if streams:
        smooth.store_nontemporal()
    blury.compute_at(smooth, y0)
    row.compute_at(smooth, r1)
    for stage in (blury, row):
        stage.vectorize(x, lanes, remainder="mask")
    return f


def sample(rows: int, columns: int) -> Arguments:
    """A picture of 256 grey levels, so that no level of the grid is a matter of rounding, and ten levels."""
    return {"image": np.round(planes(rows, columns, 1)[0] * 256) / np.float32(256), "L": 10}


def exact(given: Arguments) -> Array:
    """The same in float64: the grid by `np.add.at`, blurs as sums of moved grids, and eight corners of a pixel."""
    image, levels = given["image"].astype(np.float64), given["L"]
    rows, columns = image.shape
    cells = [(size + CELL - 1) // CELL + 5 for size in image.shape]  # from -2
    at = [np.arange(-2 * CELL, (n - 2) * CELL) - CELL // 2 for n in cells]
    value = image[np.ix_(*(np.clip(index, 0, size - 1) for index, size in zip(at, image.shape, strict=True)))]
    grid = np.zeros((2, *cells, levels + 6))
    place = (*np.ix_(*(np.arange(n * CELL) // CELL for n in cells)), (value * levels + 0.5).astype(int) + 2)
    for channel, term in enumerate((value, 1)):
        np.add.at(grid[channel], place, term)
    for axis in (1, 2, 3):
        size = grid.shape[axis] - 4
        grid = sum(w * np.take(grid, range(d, d + size), axis) for d, w in enumerate((1, 4, 6, 4, 1)))
    y, x = np.mgrid[:rows, :columns]
    bright = np.clip(image, 0, 1) * levels
    low = bright.astype(int)
    total = 0
    for dy, dx, dz in np.ndindex(2, 2, 2):
        shares = (y % CELL / CELL, dy), (x % CELL / CELL, dx), (bright - low, dz)
        share = np.prod([s if far else 1 - s for s, far in shares], axis=0)
        total = total + share * grid[:, y // CELL + dy, x // CELL + dx, low + dz]
    smooth: Array = total[0] / total[1]
    return smooth


def shown(kernel: tm.Kernel, picture: Array) -> Array:
    """A photograph in grey, smoothed."""
    found: Array = kernel(np.ascontiguousarray(picture.mean(0)), L=10)
    return found


if __name__ == "__main__":
    tell(scheduled, sample, exact, CLOSE, shown)
