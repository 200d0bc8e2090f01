"""A recursive blur: each pixel mixes with the blurred one before it, down and up, then right and left."""

from __future__ import annotations

import numpy as np
from story import Arguments, Array, planes, tell

import tiramisu_py as tm

R, C = tm.params("R C")
p, r, c, r0, r1, c0, c1 = tm.iters("p r c r0 r1 c0 c1")
CLOSE = 2e-6  # of values up to 1
LINE = 16  # numbers in a cache line


def algorithm() -> tm.Function:
    """Four recurrences, one in each direction; `alpha` is the share of the new pixel."""
    f = tm.Function("iir_blur", params=[R, C], assume="R >= 1 and C >= 1")
    rgb, alpha = f.input("rgb", tm.float32, [3, R, C]), f.scalar("alpha", tm.float32)
    keep = 1 - alpha

    def blurred(name: str, source: tm.Computation, first: tm.Expr, step: tuple[int, int]) -> tm.Computation:
        """The recurrence that begins where `first` holds."""

        def mixed(own: tm.Computation) -> tm.Expr:
            before = own[p, r - step[0], c - step[1]]
            return tm.select(first, source[p, r, c], keep * before + alpha * source[p, r, c])

        return f.computation(name, {p: 3, r: R, c: C}, mixed)

    down = blurred("down", rgb, r == 0, (1, 0))
    up = blurred("up", down, r == R - 1, (-1, 0))
    right = blurred("right", up, c == 0, (0, 1))
    left = blurred("left", right, c == C - 1, (0, -1))
    f.outputs(f.computation("blurred", {p: 3, r: R, c: C}, left[p, r, c]))
    return f


def scheduled(cpu: tm.Target | None = None, *, columns: int = 4, rows: int = 1, streams: bool = True) -> tm.Function:
    """A plane at a time: strips of columns, down and up; then strips of rows, turned so that their pixels are lanes.

    Strips have as many `columns`, and `rows`, as the numbers of some cache lines: lines are read whole, and several
    recurrences run side by side.
    """
    lanes = (cpu or tm.target()).lanes(tm.float32)
    f = algorithm()
    down, up, right, left, out = (f[name] for name in ("down", "up", "right", "left", "blurred"))
    up.split(c, columns * LINE, c0, c1)
    up.reorder(p, c0, r, c1)
    up.parallelize(c0)
    up.vectorize(c1, lanes, remainder="mask")
    down.compute_at(up, c0)
    down.vectorize(c, lanes, remainder="mask")
    out.tile(r, c, rows * LINE, lanes, r0, c0, r1, c1)
    out.parallelize(r0)
    out.vectorize(c1, lanes, remainder="mask")
    if streams:
        out.store_nontemporal()
    out.after(up, p)
    up.store_at(out, p)
    for turned in (left, right):
        turned.compute_at(out, r0)
        turned.reorder(c, r)
        turned.vectorize(r, lanes, remainder="mask")
        turned.store_in(tm.Buffer(f"{turned.name}_turned", [C, rows * LINE], tm.float32), [c, r % (rows * LINE)])
        turned.store_at(out, r0)
    return f


def sample(rows: int, columns: int) -> Arguments:
    """A picture of three planes, and a wide blur."""
    return {"rgb": planes(rows, columns), "alpha": 0.1}


def exact(given: Arguments) -> Array:
    """The same in float64, with a loop over rows and one over columns."""
    found: Array = given["rgb"].astype(np.float64)
    alpha = float(np.float32(given["alpha"]))
    for lines in (found.swapaxes(0, 1), found.transpose(2, 0, 1)):
        for way in (lines, lines[::-1]):
            for k in range(1, len(way)):
                way[k] = (1 - alpha) * way[k - 1] + alpha * way[k]
    return found


def shown(kernel: tm.Kernel, picture: Array) -> Array:
    """A blurred photograph."""
    found: Array = kernel(picture, 0.1)
    return found


if __name__ == "__main__":
    tell(scheduled, sample, exact, CLOSE, shown)
