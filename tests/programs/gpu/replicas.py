"""A recurrence of each row that all threads of the row read: the largest sum so far."""

from __future__ import annotations

from typing import Any

import numpy as np

import tiramisu_py as tm

N, T = tm.params("N T")
i, j, t, k, i0, i1, k0, k1 = tm.iters("i j t k i0 i1 k0 k1")
#: The threads along a row, and the rows of a block.
COLUMNS, ROWS = 8, 4


def rows(inside: tm.Iter = i0) -> tuple[tm.Function, Any, Any, Any, Any]:
    """out = 0.5 out + top z, step by step, and top is the largest total so far: the function and its computations.

    The steps are inside of a block, or of one of its rows.
    """
    f = tm.Function("rows", params=[N, T], assume="T >= 1")
    a, z = f.input("a", tm.float32, [T, N, 3]), f.input("z", tm.float32, [T, COLUMNS])
    total = f.reduction("total", {t: T, i: N}, {k: 3}, tm.sum, a[t, i, k])
    top = f.computation("top", {t: T, i: N}, lambda top: tm.max(tm.select(t == 0, 0.0, top[t - 1, i]), total[t, i]))
    acc = f.computation(
        "acc",
        {t: T, i: N, j: COLUMNS},
        lambda acc: tm.select(t == 0, 0.0, acc[t - 1, i, j] * 0.5) + top[t, i] * z[t, j],
    )
    out = f.computation("out", {i: N, j: COLUMNS}, acc[T - 1, i, j])
    f.outputs(out)
    out.split(i, ROWS, i0, i1)
    acc.compute_at(out, inside).fold(t, 1).store_in(tm.REGISTER)
    top.compute_at(out, inside).fold(t, 1).store_in(tm.REGISTER)
    top.fuse(acc, t)
    total.compute_at(top, t).store_in(tm.REGISTER)
    return f, out, acc, top, total


def replicated(*, tagged_first: bool = False, replicas: bool = True, memory: tm.Memory = tm.REGISTER) -> tm.Function:
    """The rows on blocks of 8 x 4 threads, each with its own largest sum; `tagged_first` tags the readers before."""
    f, out, acc, top, total = rows()
    top.store_in(memory)
    if tagged_first:
        out.tag_gpu(blocks=[i0], threads=[i1, j])
        acc.tag_gpu(threads=[i, j])
    if replicas:
        top.replicate(j)
        total.replicate(j)
    if not tagged_first:
        out.tag_gpu(blocks=[i0], threads=[i1, j])
        acc.tag_gpu(threads=[i, j])
    for each in (top, total):
        each.tag_gpu(threads=[i, j] if replicas else [i])
    f.derive_transfers()
    return f


def numbers(steps: int, count: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Inputs whose sums and products are exact."""
    random = np.random.default_rng(steps + count)
    shapes = ((steps, count, 3), (steps, COLUMNS))
    a, z = (random.integers(-4, 9, size=shape).astype(np.float32) for shape in shapes)
    return a, z


def expected(a: np.ndarray[Any, Any], z: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The rows in NumPy."""
    top = np.maximum.accumulate(np.maximum(a.sum(2), 0), 0)
    out = np.zeros((a.shape[1], COLUMNS), np.float32)
    for step in range(len(a)):
        out = out * np.float32(0.5) + top[step][:, None] * z[step]
    return out
