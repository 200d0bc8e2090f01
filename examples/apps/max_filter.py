"""The brightest pixel of a disc around each: maxima of 2 ** n rows give those of any height, and these the disc."""

from __future__ import annotations

import numpy as np
from story import Arguments, Array, planes, tell

import tiramisu_py as tm

R, C = tm.params("R C")
p, r, c, c0, c1 = tm.iters("p r c c0 c1")
RADIUS = 26
CLOSE = 0


def heights(radius: int = RADIUS) -> list[int]:
    """How far the disc reaches up and down, 0 to `radius` columns from its centre."""
    return [sum(dx * dx + dy * dy < (radius + 0.25) ** 2 for dy in range(radius + 1)) for dx in range(radius + 1)]


def algorithm(radius: int = RADIUS) -> tm.Function:
    """Maxima of 1, 2, 4, ... rows; of two of these that overlap, for each height of the disc; and of its columns."""
    f = tm.Function("max_filter", params=[R, C], assume="R >= 1 and C >= 1")
    near = tm.boundary.repeat_edge(f.input("rgb", tm.float32, [3, R, C]), dims=[1, 2])
    columns = heights(radius)
    powers = [f.computation("rows_1", [p, r, c], near[p, r, c])]
    while 1 << len(powers) <= 2 * max(columns) + 1:
        half = powers[-1]
        later = 1 << len(powers)
        powers.append(f.computation(f"rows_{later}", [p, r, c], tm.maximum(half[p, r, c], half[p, r + later // 2, c])))
    tall = {}
    for h in sorted(set(columns)):
        log = (2 * h + 1).bit_length() - 1
        both = tm.maximum(powers[log][p, r - h, c], powers[log][p, r + h + 1 - (1 << log), c])
        tall[h] = f.computation(f"column_{h}", [p, r, c], both)
    disc = tall[columns[0]][p, r, c]
    for dx in range(1, radius + 1):
        disc = tm.maximum(disc, tm.maximum(tall[columns[dx]][p, r, c - dx], tall[columns[dx]][p, r, c + dx]))
    f.outputs(f.computation("brightest", {p: 3, r: R, c: C}, disc))
    return f


def scheduled(
    cpu: tm.Target | None = None, radius: int = RADIUS, width: int = 256, *, vectors: int = 1, streams: bool = False
) -> tm.Function:
    """Strips of columns: maxima of rows slide down each, and only the rows that the disc still covers are kept."""
    lanes = vectors * (cpu or tm.target()).lanes(tm.float32)
    f = algorithm(radius)
    out = f["brightest"]
    out.split(c, width, c0, c1)
    out.reorder(p, c0, r, c1)
    out.parallelize(p, c0)
    out.vectorize(c1, lanes, remainder="mask")
    if streams:
        out.store_nontemporal()
    for h in sorted(set(heights(radius))):
        f[f"column_{h}"].compute_at(out, r)
        f[f"column_{h}"].vectorize(c, lanes, remainder="pad")
    for log in reversed(range((2 * max(heights(radius)) + 1).bit_length())):
        rows = f[f"rows_{1 << log}"]
        rows.compute_at(out, r)
        rows.slide(r, r)
        rows.vectorize(c, lanes, remainder="pad" if log else "mask")
    return f


def sample(rows: int, columns: int) -> Arguments:
    """A picture of three planes."""
    return {"rgb": planes(rows, columns)}


def exact(given: Arguments) -> Array:
    """The maximum over every pixel of the disc, one after another."""
    near = RADIUS + 1
    _, rows, columns = given["rgb"].shape
    padded = np.pad(given["rgb"], ((0, 0), (near, near), (near, near)), "edge")
    found: Array = given["rgb"].copy()
    for dx in range(-RADIUS, RADIUS + 1):
        for dy in range(-heights()[abs(dx)], heights()[abs(dx)] + 1):
            moved = padded[:, near + dy : near + dy + rows, near + dx : near + dx + columns]
            np.maximum(found, moved, out=found)
    return found


def shown(kernel: tm.Kernel, picture: Array) -> Array:
    """A photograph whose lights have grown to discs."""
    found: Array = kernel(picture)
    return found


if __name__ == "__main__":
    tell(scheduled, sample, exact, CLOSE, shown)
