"""A picture in another size, by cubic interpolation: any factor that is a fraction, first along rows."""

from __future__ import annotations

from fractions import Fraction
from functools import reduce
from math import ceil, lcm
from operator import add

import numpy as np
from story import Arguments, Array, planes, tell

import tiramisu_py as tm

R, C, H, W = tm.params("R C H W")
p, r, c, k, r0, r1, c0, c1 = tm.iters("p r c k r0 r1 c0 c1")
FACTOR = Fraction(2)
CLOSE = 2e-5
ROW = 8 << 10  # bytes of a row of which the rows of a band shall stay in the second-level cache


def taps(factor: Fraction) -> int:
    """The pixels that a new pixel is made of: four, or more where many become one."""
    return ceil(4 / min(factor, Fraction(1)))


def algorithm(factor: Fraction = FACTOR) -> tm.Function:
    """The weights for each new column and row, normalised, and the two sums, that along rows first."""
    many, narrow = taps(factor), np.float32(float(min(factor, 1)))
    room = f"H >= {many} and W >= {many} and R >= 1 and C >= 1"
    fits = f"{factor.denominator}R <= {factor.numerator}H and {factor.denominator}C <= {factor.numerator}W"
    f = tm.Function("resize", params=[R, C, H, W], assume=f"{room} and {fits}")
    picture = f.input("picture", tm.float32, [3, H, W])

    def begin(x: tm.Expr, size: tm.Expr) -> tm.Expr:
        """The first old pixel of a new one: (x + 1/2) / factor - 1/2 - radius, rounded up, inside the picture."""
        step, first = 1 / factor, 1 / factor / 2 - Fraction(1, 2) - 2 / min(factor, Fraction(1))
        whole = lcm(step.denominator, first.denominator)
        return tm.clip((x * int(step * whole) + int(first * whole) + whole - 1) // whole, 0, size - many)

    def weights(name: str, x: tm.Iter, size: tm.Expr, extent: tm.Expr) -> tm.Computation:
        place = (tm.cast(tm.float32, x) + np.float32(0.5)) * np.float32(1 / factor) - np.float32(0.5)
        apart = abs(tm.cast(tm.float32, begin(x, size) + k) - place) * narrow
        near = (np.float32(1.5) * apart - np.float32(2.5)) * apart * apart + 1
        far = ((np.float32(2.5) - np.float32(0.5) * apart) * apart - 4) * apart + 2
        either = tm.select(apart < 1, near, tm.select(apart < 2, far, 0))
        cubic = f.computation(f"{name}_cubic", {k: many, x: extent}, either)
        total = reduce(add, [cubic[tap, x] for tap in range(many)])
        return f.computation(name, {k: many, x: extent}, cubic[k, x] / total)

    of_column, of_row = weights("of_column", c, W, C), weights("of_row", r, H, R)
    wide = [of_column[tap, c] * picture[p, r, begin(c, W) + tap] for tap in range(many)]
    across = f.computation("across", [p, r, c], reduce(add, wide))
    high = [of_row[tap, r] * across[p, begin(r, H) + tap, c] for tap in range(many)]
    f.outputs(f.computation("resized", {p: 3, r: R, c: C}, tm.clip(reduce(add, high), 0, 1)))
    return f


def scheduled(
    cpu: tm.Target | None = None,
    factor: Fraction = FACTOR,
    *,
    band: int | None = None,
    vectors: int = 1,
    streams: bool = True,
) -> tm.Function:
    """Bands of rows. A vector has every second new column at factor 2: its old pixels are neighbours.

    The rows that a band begins with are computed for the band before as well, so that there are not many: what is kept
    between the two sums may fill a quarter of the second-level cache.
    """
    cpu = cpu or tm.target()
    lanes, kinds = vectors * cpu.lanes(tm.float32), factor.numerator
    f = algorithm(factor)
    out, across = f["resized"], f["across"]
    out.split(r, band or max(32, int(cpu.second // 4 // ROW * factor)), r0, r1)
    out.parallelize(p, r0)
    out.vectorize(c, lanes, remainder="mask")
    if streams:
        out.store_nontemporal()
    across.compute_at(out, r0)
    across.split(c, kinds, c0, c1)
    across.reorder(c1, c0)
    across.vectorize(c0, lanes, remainder="mask")
    f["of_column"].store_in(tm.Buffer("weights", [taps(factor), kinds, C], tm.float32), [k, c % kinds, c // kinds])
    return f


def sample(rows: int, columns: int, factor: Fraction = FACTOR) -> Arguments:
    """A picture of which `rows` by `columns` new pixels are made."""
    old = [max(ceil(size / factor), taps(factor)) for size in (rows, columns)]
    return {"picture": planes(*old), "R": rows, "C": columns}


def exact(given: Arguments, factor: Fraction = FACTOR) -> Array:
    """The same sums in float64, as products with two matrices of weights."""

    def matrix(new: int, old: int) -> Array:
        place = (np.arange(new) + 0.5) / float(factor) - 0.5
        narrow = min(float(factor), 1.0)
        start = np.clip(np.ceil(place - 2 / narrow), 0, old - taps(factor))
        at = np.arange(old)
        apart = np.abs(at - place[:, None]) * narrow
        near, far = 1.5 * apart**3 - 2.5 * apart**2 + 1, -0.5 * apart**3 + 2.5 * apart**2 - 4 * apart + 2
        used = (apart < 2) & (at >= start[:, None]) & (at < start[:, None] + taps(factor))
        weights = np.where(used, np.where(apart < 1, near, far), 0)
        normalised: Array = weights / weights.sum(1, keepdims=True)
        return normalised

    _, old_rows, old_columns = given["picture"].shape
    down, across = matrix(given["R"], old_rows), matrix(given["C"], old_columns)
    resized: Array = np.clip(down @ given["picture"].astype(np.float64) @ across.T, 0, 1)
    return resized


def shown(kernel: tm.Kernel, picture: Array) -> Array:
    """A photograph, enlarged."""
    _, rows, columns = picture.shape
    found: Array = kernel(picture, R=int(rows * FACTOR), C=int(columns * FACTOR))
    return found


if __name__ == "__main__":
    tell(scheduled, sample, exact, CLOSE, shown)
