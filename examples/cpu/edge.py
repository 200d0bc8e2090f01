"""Edges in bytes: the mean of the ring around each pixel, then Roberts' cross, with sums that saturate at 255."""

from __future__ import annotations

import numpy as np
from story import Arguments, tell

import tiramisu_py as tm

R, C = tm.params("R C")
r, c, r0, c0, r1, c1 = tm.iters("r c r0 c0 r1 c1")


#: Rings in a row that is stored; nine such rows, the eleven of their pixels and eight results are half of 32 KB.
STRIP = 512


def difference(a: tm.Expr, b: tm.Expr) -> tm.Expr:
    """The absolute difference of two bytes."""
    return tm.maximum(a, b) - tm.minimum(a, b)


def algorithm() -> tuple[tm.Function, tm.Input, tm.Computation, tm.Computation, tm.Computation]:
    """Sums of three; eight neighbours without the pixel itself; the two diagonals of four means.

    The neighbours on both sides of a pixel are a part of the sum of its row, and of its ring.
    """
    f = tm.Function("edge", params=[R, C], assume="R >= 1 and C >= 1")
    image = f.input("image", tm.uint8, [R + 3, C + 3])

    def at(dr: int, dc: int) -> tm.Expr:
        return tm.cast(tm.uint16, image[r + dr, c + dc])

    three = f.computation("three", {r: R + 3, c: C + 1}, at(0, 0) + at(0, 2) + at(0, 1))
    around = three[r, c] + three[r + 2, c] + (at(1, 0) + at(1, 2))
    ring = f.computation("ring", {r: R + 1, c: C + 1}, tm.cast(tm.uint8, around >> 3))
    first = tm.cast(tm.uint16, difference(ring[r, c + 1], ring[r + 1, c]))
    second = tm.cast(tm.uint16, difference(ring[r + 1, c + 1], ring[r, c]))
    edges = f.computation("edges", {r: R, c: C}, tm.cast(tm.uint8, tm.minimum(first + second, 255)))
    f.outputs(edges)
    return f, image, three, ring, edges


def scheduled(
    cpu: tm.Target | None = None, *, rows: int | None = None, strip: int = STRIP, slides: bool | None = None
) -> tm.Function:
    """Bands of rows; the next band's rows are prefetched.

    More rows widen fewer bytes twice, which is most of the work. A window of registers slides through a band if they
    hold a vector of each row and its sum; if they do not, rings are stored in the first-level cache, and loaded again.
    """
    cpu = cpu or tm.target()
    if rows is None:
        rows = 8 if cpu.costs.memory_operands else 5
    if slides is None:
        slides = cpu.costs.keeps_window(2, others=2 * rows)
    return sliding(cpu, rows) if slides else stored(cpu, rows, strip)


def sliding(cpu: tm.Target, rows: int) -> tm.Function:
    """A window of registers for each row of rings."""
    lanes = cpu.lanes(tm.uint8)
    f, image, three, ring, edges = algorithm()
    edges.tile(r, c, rows, lanes, r0, c0, r1, c1)
    edges.parallelize(r0)
    edges.unroll(r1)
    edges.vectorize(c1, lanes, remainder="mask")
    edges.store_nontemporal()
    ring.compute_at(edges, c0)
    ring.slide(c0, c, lanes)
    ring.store_in(tm.REGISTER)
    ring.unroll(r)
    ring.vectorize(c, lanes, remainder="mask")
    ring.prefetch(image, r, rows + 1)
    three.inline()
    return f


def stored(cpu: tm.Target, rows: int, strip: int = STRIP) -> tm.Function:
    """Rings of a band in memory, for as many columns as find room in the first-level cache; rings are whole vectors."""
    lanes = cpu.lanes(tm.uint8)
    f, image, three, ring, edges = algorithm()
    edges.tile(r, c, rows, strip - 1, r0, c0, r1, c1)
    edges.reorder(c1, r1)
    edges.parallelize(r0)
    edges.unroll(r1)
    edges.vectorize(c1, lanes, remainder="overlap")
    ring.compute_at(edges, c0)
    ring.reorder(c, r)
    ring.unroll(r)
    ring.vectorize(c, lanes, remainder="overlap")
    ring.prefetch(image, r, rows + 1)
    three.inline()
    return f


def sample(rows: int, columns: int) -> Arguments:
    """A random picture with a border."""
    return {"image": np.random.default_rng(0).integers(0, 256, (rows + 3, columns + 3), dtype=np.uint8)}


if __name__ == "__main__":
    tell(scheduled, sample, (1000, 2000))
