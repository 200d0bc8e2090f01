"""Edges in bytes: the mean of the ring around each pixel, then Roberts' cross, with sums that saturate at 255."""

from __future__ import annotations

import numpy as np
from story import Arguments, tell

import tiramisu_py as tm

R, C = tm.params("R C")
r, c, r0, c0, r1, c1 = tm.iters("r c r0 c0 r1 c1")


def difference(a: tm.Expr, b: tm.Expr) -> tm.Expr:
    """The absolute difference of two bytes."""
    return tm.maximum(a, b) - tm.minimum(a, b)


def algorithm() -> tuple[tm.Function, tm.Input, tm.Computation, tm.Computation, tm.Computation]:
    """Sums of three; eight neighbours without the pixel itself; the two diagonals of four means."""
    f = tm.Function("edge", params=[R, C], assume="R >= 1 and C >= 1")
    image = f.input("image", tm.uint8, [R + 3, C + 3])

    def at(dr: int, dc: int) -> tm.Expr:
        return tm.cast(tm.uint16, image[r + dr, c + dc])

    three = f.computation("three", {r: R + 3, c: C + 1}, at(0, 0) + at(0, 1) + at(0, 2))
    around = three[r, c] + three[r + 1, c] + three[r + 2, c] - at(1, 1)
    ring = f.computation("ring", {r: R + 1, c: C + 1}, tm.cast(tm.uint8, around >> 3))
    first = tm.cast(tm.uint16, difference(ring[r, c + 1], ring[r + 1, c]))
    second = tm.cast(tm.uint16, difference(ring[r + 1, c + 1], ring[r, c]))
    edges = f.computation("edges", {r: R, c: C}, tm.cast(tm.uint8, tm.minimum(first + second, 255)))
    f.outputs(edges)
    return f, image, three, ring, edges


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """Bands of rows, through which a window of registers slides; the next band's rows are prefetched.

    More rows widen fewer bytes twice, which is most of the work. What registers do not hold of eight rows is an operand
    of arithmetic from the stack; where arithmetic takes none from there, as many rows as 32 registers hold.
    """
    cpu = cpu or tm.target()
    rows, lanes = 8 if cpu.costs.memory_operands else 5, cpu.lanes(tm.uint8)
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


def sample(rows: int, columns: int) -> Arguments:
    """A random picture with a border."""
    return {"image": np.random.default_rng(0).integers(0, 256, (rows + 3, columns + 3), dtype=np.uint8)}


if __name__ == "__main__":
    tell(scheduled, sample, (1000, 2000))
