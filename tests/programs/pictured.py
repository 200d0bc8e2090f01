"""Small schedules of which pictures are drawn: tiles, recomputation, a fusion, a refusal, a skew, ranks, GPUs."""

from __future__ import annotations

import tiramisu_py as tm

N, M, T, R, C, G = tm.params("N M T R C G")
i, j, k, i0, j0, i1, j1, t, t0, t1, r, c, q, r1 = tm.iters("i j k i0 j0 i1 j1 t t0 t1 r c q r1")


def blur() -> tuple[tm.Function, tm.Computation, tm.Computation]:
    """Two stages, across and down."""
    f = tm.Function("blur", params=[N, M], assume="N >= 1 and M >= 1")
    a = f.input("a", tm.float32, [N + 2, M + 2])
    bx = f.computation("bx", {i: N + 2, j: M}, (a[i, j] + a[i, j + 1] + a[i, j + 2]) / 3)
    by = f.computation("by", {i: N, j: M}, (bx[i, j] + bx[i + 1, j] + bx[i + 2, j]) / 3)
    f.outputs(by)
    return f, bx, by


def plain() -> tm.Function:
    """As declared."""
    return blur()[0]


def tiled() -> tm.Function:
    """Tiles of 4 x 4, each with its part of the first stage; rows of tiles on cores, rows of a tile in vectors."""
    f, bx, by = blur()
    by.tile(i, j, 4, 4, i0, j0, i1, j1)
    by.parallelize(i0)
    by.vectorize(j1, 4)
    bx.compute_at(by, j0)
    return f


def fused() -> tm.Function:
    """One loop over rows for both stages, the second two rows behind."""
    f, bx, by = blur()
    by.fuse(bx, i, shift=True)
    return f


def refused() -> tm.Function:
    """The same without the two rows."""
    f, bx, by = blur()
    by.after(bx, i)
    return f


def raced() -> tm.Function:
    """Rows of a recurrence at the same time."""
    f = tm.Function("sums", params=[N], assume="N >= 2")
    a = f.input("a", tm.float32, [N, 3])
    s = f.computation("s", {i: N, j: 3}, lambda s: tm.select(i == 0, a[i, j], s[i - 1, j] + a[i, j]))
    f.outputs(s)
    s.parallelize(i)
    return f


def skewed() -> tm.Function:
    """Heat in a rod, in skewed tiles, in two rows."""
    f = tm.Function("rod", params=[T, N], assume="T >= 1 and N >= 3")
    start = f.input("start", tm.float32, [N])
    heat = f.computation(
        "heat",
        {t: T + 1, i: N},
        lambda heat: tm.select(
            (t == 0) | (i == 0) | (i == N - 1),
            start[i],
            (heat[t - 1, i - 1] + heat[t - 1, i] + heat[t - 1, i + 1]) / 3,
        ),
    )
    f.outputs(heat[T, i])
    heat.skew(t, i, 1)
    heat.tile(t, i, 4, 4, t0, i0, t1, i1)
    heat.store_in(tm.Buffer("two", [2, N], tm.float32), [t % 2, i])
    return f


def product() -> tm.Function:
    """A matrix product: a space of three dimensions."""
    f = tm.Function("product", params=[N], assume="N >= 1")
    a = f.input("a", tm.float32, [N, N])
    b = f.input("b", tm.float32, [N, N])
    f.outputs(f.reduction("c", {i: N, j: N}, {k: N}, tm.sum, a[i, k] * b[k, j]))
    return f


def distributed() -> tm.Function:
    """A blur on three ranks, whose missing rows are exchanged."""
    f = tm.Function("blur", params=[C], assume="C >= 1")
    image = f.input("image", tm.float32, [12, C + 2])
    bx = f.computation("bx", {r: 12, c: C}, (image[r, c] + image[r, c + 1] + image[r, c + 2]) / 3)
    by = f.computation("by", {r: (1, 11), c: C}, (bx[r - 1, c] + bx[r, c] + bx[r + 1, c]) / 3, shape=[12, C])
    f.outputs(by)
    for array in (image, by):
        array.distribute_array([r, c], rank=r // 4)
    for stage in (bx, by):
        stage.split(r, 4, q, r1)
        stage.tag_distribute(q)
    f.derive_transfers()
    return f


def cooperative() -> tm.Function:
    """A blur whose first rows are computed on a GPU, the others on cores."""
    f = tm.Function("blur", params=[R, C, G], assume="0 <= G <= R and C >= 1")
    image = f.input("image", tm.float32, [R + 2, C + 2])
    bx = f.computation("bx", {r: R + 2, c: C}, (image[r, c] + image[r, c + 1] + image[r, c + 2]) / 3)
    by = f.computation("by", {r: R, c: C}, (bx[r, c] + bx[r + 1, c] + bx[r + 2, c]) / 3)
    f.outputs(by)
    for stage in (bx, by):
        stage.partition(r, [G], [tm.gpu(tile=(2, 4)), tm.cores(vector=4)])
    f.derive_transfers()
    return f


def shared_sums() -> tm.Function:
    """Neighbours added on a GPU: each block keeps what its threads read in shared memory, behind a barrier."""
    f = tm.Function("sums", params=[N], assume="N >= 1")
    a = f.input("a", tm.float32, [N + 2])
    p = f.computation("p", {i: N + 2}, 2 * a[i])
    s = f.computation("s", {i: N}, p[i] + p[i + 1] + p[i + 2])
    f.outputs(s)
    s.split(i, 4, i0, i1)
    s.tag_gpu(blocks=[i0], threads=[i1])
    p.compute_at(s, i0)
    p.store_in(tm.SHARED)
    p.split(i, 4, j0, j1)
    p.tag_gpu(threads=[j1])
    f.derive_transfers()
    return f
