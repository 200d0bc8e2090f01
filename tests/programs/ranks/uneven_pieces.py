"""Programs whose arrays are cut at points that are known at run time, a piece on each rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import tiramisu_py as tm

R, C, G, H = tm.params("R C G H")
r, c, q, p, i, j, c0, c1 = tm.iters("r c q p i j c0 c1")
ORDERED = "0 <= G <= H <= R and C >= 1"
#: Sizes at which pieces are as usual, narrower than the halo, empty at either end and in between, all but one empty.
SIZES = [(9, 4, 3, 6), (9, 4, 0, 5), (9, 4, 4, 4), (9, 4, 9, 9), (9, 4, 0, 0), (9, 4, 8, 9), (1, 1, 0, 1)]
#: Points out of order, and beyond the arrays.
MORE_SIZES = [(9, 4, 6, 3), (9, 4, 20, 5), (9, 4, 4, 30), (9, 4, 10, 11), (9, 4, 30, 20), (0, 2, 1, 0)]


def _two_stages(name: str, assume: str) -> tuple[tm.Function, tm.Input, tm.Computation, tm.Computation]:
    """Means of three in a row, and of three of these below each other."""
    f = tm.Function(name, params=[R, C, G, H], assume=assume)
    image = f.input("image", tm.float32, [R + 2, C + 2])
    bx = f.computation("bx", {r: R + 2, c: C}, (image[r, c] + image[r, c + 1] + image[r, c + 2]) / 3)
    by = f.computation("by", {r: R, c: C}, (bx[r, c] + bx[r + 1, c] + bx[r + 2, c]) / 3)
    f.outputs(by)
    return f, image, bx, by


def blur(
    ranks: Sequence[int] = (0, 1, 2), assume: str = ORDERED, points: Sequence[Any] = (G, H), derived: bool = True
) -> tm.Function:
    """A stencil over two stages, in pieces of rows: each where its rows are held."""
    f, image, bx, by = _two_stages("uneven", assume)
    for stage in (bx, by):
        for rank, part in zip(ranks, stage.separate_at(r, list(points)), strict=True):
            part.set_schedule(f"{{ [r, c] -> [q, r, c] : q = {rank} }}")
            part.tag_distribute(q)
    for array in (image, by):
        array.distribute_array([r, c], rank=tm.pieces(r, list(points), ranks=list(ranks)))
    if derived:
        f.derive_transfers()
    return f


def tiles() -> tm.Function:
    """Uneven rows by even columns, on a grid of 2 x 2 ranks; the sum of neighbours in both directions."""
    f = tm.Function("tiles", params=[R, G], assume="0 <= G <= R")
    a = f.input("a", tm.float64, [R + 1, 7])
    b = f.computation("b", {i: R, j: 6}, a[i, j] + 2 * a[i + 1, j] + 3 * a[i, j + 1])
    f.outputs(b)
    for rank, part in enumerate(b.separate_at(i, [G])):
        part.set_schedule(f"{{ [i, j] -> [p, q, i, j] : p = {rank} and q = floor(j/3) }}")
        part.tag_distribute(p, q)
    a.distribute_array([i, j], rank=(tm.pieces(i, [G]), (j // 3) % 2))
    b.distribute_array([i, j], rank=(tm.pieces(i, [G]), j // 3))
    f.derive_transfers()
    return f


def pictures(sizes: Sequence[tuple[int, int, int, int]]) -> Iterator[dict[str, Any]]:
    """Arguments of `blur`."""
    random = np.random.default_rng(0)
    for rows, columns, g, h in sizes:
        yield {"image": random.random((rows + 2, columns + 2), dtype=np.float32), "R": rows, "G": g, "H": h}


def on_gpu_and_cores(gpus: Sequence[int] = (0,), cores: Sequence[int] = (1,), pinned: bool = False) -> tm.Function:
    """The stencil in three pieces of rows: on GPUs of some ranks, and on cores of others."""
    ranks = (*gpus, *cores)
    points = (G, H)[: len(ranks) - 1]
    f = blur(ranks, ORDERED, points, derived=False)
    for stage in ("bx", "by"):
        for k in range(len(gpus)):
            part = f[f"{stage}_{k}"]
            part.split(c, 8, c0, c1)
            part.tag_gpu(blocks=[r, c0], threads=[c1])
    if pinned:
        f["bx"].store_in(tm.Buffer("staged", [R + 2, C], tm.float32, memory=tm.PINNED))
    f.derive_transfers()
    return f


def all_on_the_first() -> tm.Function:
    """The stencil on a GPU and cores of rank 0, where the picture is, and on cores of rank 1."""
    f, image, bx, by = _two_stages("apart", ORDERED)
    for stage in (bx, by):
        for k, part in enumerate(stage.separate_at(r, [G, H])):
            part.set_schedule(f"{{ [r, c] -> [q, r, c] : q = {k // 2} }}")
            part.tag_distribute(q)
            if k == 0:
                part.split(c, 8, c0, c1)
                part.tag_gpu(blocks=[r, c0], threads=[c1])
    for array in (image, by):
        array.distribute_array([r, c], rank=0)
    f.derive_transfers()
    return f


def differences() -> tm.Function:
    """What rank 1 needs it has, and rank 0 needs a row of rank 1."""
    f = tm.Function("differences", params=[R, G], assume="0 <= G <= R")
    a = f.input("a", tm.float64, [R + 1])
    b = f.computation("b", {i: R}, a[i + 1] - a[i])
    f.outputs(b)
    for rank, part in enumerate(b.separate_at(i, [G])):
        part.set_schedule(f"{{ [i] -> [q, i] : q = {rank} }}")
        part.tag_distribute(q)
    for array in (a, b):
        array.distribute_array([i], rank=tm.pieces(i, [G]))
    f.derive_transfers()
    return f
