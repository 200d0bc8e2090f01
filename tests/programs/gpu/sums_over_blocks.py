"""Sums whose terms are on several blocks, and what goes on with them in the same kernel."""

from __future__ import annotations

import tiramisu_py as tm

N, M, T = tm.params("N M T")
i, j, k, q, i0, i1, b, b0, b1, m, t, once = tm.iters("i j k q i0 i1 b b0 b1 m t once")


def total(across: object = tm.TWO_PASS, dtype: tm.DType = tm.float32) -> tm.Function:
    """The sum of everything, 1024 terms a block."""
    f = tm.Function("total", params=[N])
    a = f.input("a", dtype, [N])
    s = f.reduction("s", {}, {k: N}, tm.sum, a[k])
    f.outputs(s)
    s.update.split(k, 1024, b, k)
    s.update.split(k, 128, m, t)
    s.tag_gpu(blocks=[b], threads=[t], combine=tm.TREE, across=across)
    f.derive_transfers()
    return f


def rows(across: object = tm.TWO_PASS) -> tm.Function:
    """Sums of rows, four rows and 96 terms a block: a warp a row."""
    f = tm.Function("rows", params=[N, M])
    a = f.input("a", tm.float32, [N, M])
    s = f.reduction("s", {i: N}, {k: M}, tm.sum, a[i, k])
    f.outputs(s)
    s.update.split(i, 4, i0, i1)
    s.update.split(k, 96, b, k)
    s.update.split(k, 32, m, t)
    s.update.reorder(i0, b, i1, m, t)
    s.update.tag_gpu(blocks=[i0, b], threads=[i1, t], combine=tm.TREE, across=across)
    f.derive_transfers()
    return f


def columns() -> tm.Function:
    """Sums of columns of planes, 8 rows of 4 neighbouring columns a block: terms along y, planes on blocks."""
    f = tm.Function("columns", params=[N, M, T])
    a = f.input("a", tm.float32, [T, M, N])
    s = f.reduction("s", {q: T, i: N}, {k: M}, tm.sum, a[q, k, i])
    f.outputs(s)
    s.update.split(i, 4, i0, i1)
    s.update.split(k, 24, b, k)
    s.update.split(k, 8, m, t)
    s.update.reorder(q, i0, b, m, t, i1)
    s.update.tag_gpu(blocks=[q, i0, b], threads=[t, i1], combine=tm.TREE, across=tm.LAST_BLOCK)
    f.derive_transfers()
    return f


def steps() -> tm.Function:
    """The largest of each row, the kernel launched for one after another, two loops over terms on blocks."""
    f = tm.Function("steps", params=[N, T])
    a = f.input("a", tm.float64, [T, N, 70])
    s = f.reduction("s", {q: T}, {k: N, j: 70}, tm.max, a[q, k, j])
    f.outputs(s)
    s.update.split(j, 40, b1, t)
    s.update.split(k, 5, b0, m)
    s.update.reorder(q, b0, b1, m, t)
    s.update.tag_gpu(blocks=[b0, b1], threads=[t], combine=tm.TREE, across=tm.LAST_BLOCK)
    f.derive_transfers()
    return f


def means(in_registers: bool = False) -> tm.Function:
    """The means of rows, and their roots: the last block goes on with the sums, of which a thread may have its own."""
    f = tm.Function("means", params=[N, M], assume="M >= 1")
    a = f.input("a", tm.float32, [N, M])
    s = f.reduction("s", {i: N}, {k: M}, tm.sum, a[i, k])
    mean = f.computation("mean", {i: N}, s[i] / tm.cast(tm.float32, M))
    root = f.computation("root", {i: N}, tm.sqrt(mean[i]))
    f.outputs(mean, root)
    for stage in (s, mean, root):
        stage.split(i, 4, i0, i1)
    s.update.split(k, 96, b, k)
    s.update.split(k, 32, m, t)
    s.update.reorder(i0, b, i1, m, t)
    s.update.tag_gpu(blocks=[i0, b], threads=[i1, t], combine=tm.TREE, across=tm.LAST_BLOCK)
    f.order(s.init, s.update, mean, root, at=i1 if in_registers else i0)
    if in_registers:
        s.store_at(mean, i1).store_in(tm.REGISTER)
    else:
        mean.tag_gpu(threads=[i1])
        root.tag_gpu(threads=[i1])
    f.derive_transfers()
    return f


def mean_of_all(across: object = tm.LAST_BLOCK) -> tm.Function:
    """The mean of everything, in the kernel that ends its sum."""
    f = tm.Function("mean_of_all", params=[N], assume="N >= 1")
    a = f.input("a", tm.float32, [N])
    s = f.reduction("s", {}, {k: N}, tm.sum, a[k])
    mean = f.computation("mean", {}, s[()] / tm.cast(tm.float32, N))
    f.outputs(mean)
    s.update.split(k, 256, b, k)
    s.update.split(k, 64, m, t)
    s.tag_gpu(blocks=[b], threads=[t], combine=tm.TREE, across=across)
    mean.after(s.update, once)
    f.derive_transfers()
    return f
