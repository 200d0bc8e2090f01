"""Reductions over ranks that several tests use: what each rank adds up is combined by all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

import tiramisu_py as tm

i, q, i1, z, j, k, k1, t, p, j1, i0, i2, i3 = tm.iters("i q i1 z j k k1 t p j1 i0 i2 i3")

#: An operator that MPI does not name.
EITHER = tm.operator("either", lambda a, b: a ^ b, 0)

Story = tuple[tm.Function, dict[str, Any]]


def whole(*shape: int, dtype: Any = np.float64) -> Any:
    """Whole numbers, whose sums are exact in any order."""
    return np.random.default_rng(len(shape)).integers(-9, 100, shape).astype(dtype)


def total(
    operator: tm.Operator = tm.sum, dtype: Any = tm.float64, length: int = 103, combine: tm.Combine = tm.PRIVATE
) -> Story:
    """One number from all elements; the last rank has fewer of them."""
    f = tm.Function("total", params=[])
    x = f.input("x", dtype, [length])
    s = f.reduction("s", {z: 1}, {i: length}, operator, x[i])
    f.outputs(s)
    x.distribute_array([i], rank=i // 26)
    s.update.split(i, 26, q, i1)
    s.update.tag_distribute(q, combine=combine)
    return f, {"x": whole(length, dtype=x.dtype.numpy)}


def halves() -> Story:
    """A sum of small whole numbers in half precision, which is exact."""
    f, given = total(dtype=tm.float16, combine=tm.TREE)
    return f, {"x": np.abs(given["x"]) % 5}


def in_a_tree(length: int, share: int) -> Story:
    """Numbers whose sum depends on the order of its terms: each rank has `share` of them, and combines in a tree."""
    f = tm.Function("rounded", params=[])
    x = f.input("x", tm.float32, [length])
    s = f.reduction("s", {z: 1}, {i: length}, tm.sum, x[i])
    f.outputs(s)
    x.distribute_array([i], rank=i // share)
    s.update.split(i, share, q, i1)
    s.update.tag_distribute(q, combine=tm.TREE)
    return f, {"x": np.random.default_rng(0).standard_normal(length).astype(np.float32)}


def by_halves(x: np.ndarray, share: int, ranks: int = 0) -> np.float32:
    """What a tree over the ranks gives: each adds up its terms, then those with higher numbers go to lower ones."""
    parts = [np.float32(0)] * max(ranks, -(-len(x) // share))
    for number, term in enumerate(x):
        parts[number // share] += term
    step = 1
    while 2 * step < len(parts):
        step *= 2
    while len(parts) > 1:
        for low in range(len(parts) - step):
            parts[low] += parts[low + step]
        parts, step = parts[:step], step // 2
    return np.float32(0) + parts[0]


def number(buffer: str = "", owner: int | None = None) -> Story:
    """A sum without dimensions, in the memory of all ranks or of one, perhaps in a buffer of another name."""
    f = tm.Function("number", params=[])
    x = f.input("x", tm.int64, [103])
    s = f.reduction("s", {}, {i: 103}, tm.sum, x[i])
    f.outputs(s)
    x.distribute_array([i], rank=i // 26)
    if buffer:
        s.store_in(tm.Buffer(buffer, [], tm.int64), [])
    if owner is not None:
        s.distribute_array([], rank=owner)
    s.update.split(i, 26, q, i1)
    s.update.tag_distribute(q, combine=tm.PRIVATE)
    return f, {"x": whole(103, dtype=np.int64)}


def parametric() -> Story:
    """Any number of elements, on as many ranks as these need."""
    (n,) = tm.params("N")
    f = tm.Function("parametric", params=[n], assume="N >= 1")
    x = f.input("x", tm.int64, [n])
    s = f.reduction("s", {z: 1}, {i: n}, tm.sum, x[i])
    f.outputs(s)
    x.distribute_array([i], rank=i // 8)
    s.update.split(i, 8, q, i1)
    s.update.tag_distribute(q, combine=tm.PRIVATE)
    return f, {"x": whole(29, dtype=np.int64), "N": 29}


def product(threads: bool = False) -> Story:
    """A matrix product whose sums are dealt out to ranks."""
    f = tm.Function("product_of", params=[])
    a, b = f.input("a", tm.float64, [9, 22]), f.input("b", tm.float64, [22, 7])
    c = f.reduction("c", {i: 9, j: 7}, {k: 22}, tm.sum, a[i, k] * b[k, j])
    f.outputs(c)
    a.distribute_array([i, k], rank=k // 6)
    b.distribute_array([k, j], rank=k // 6)
    c.update.split(k, 6, q, k1)
    c.update.reorder(q, i, j, k1)
    c.update.tag_distribute(q, combine=tm.PRIVATE)
    if threads:
        c.update.parallelize(i)
    return f, {"a": whole(9, 22), "b": whole(22, 7)}


def on_a_grid(rows_outside: bool = True) -> Story:
    """Rows on one axis of the grid, sums on the other."""
    f = tm.Function("product_of", params=[])
    a, b = f.input("a", tm.float64, [9, 22]), f.input("b", tm.float64, [22, 7])
    c = f.reduction("c", {i: 9, j: 7}, {k: 22}, tm.sum, a[i, k] * b[k, j])
    f.outputs(c)
    a.distribute_array([i, k], rank=(i // 5, k // 8))
    b.distribute_array([k, j], rank=(None, k // 8))
    c.distribute_array([i, j], rank=(i // 5, None))
    for part in (c.init, c.update):
        part.split(i, 5, i0, i1)
        part.tag_distribute(i0)
    c.update.split(k, 8, q, k1)
    c.update.reorder(*((i0, q) if rows_outside else (q, i0)), i1, j, k1)
    c.update.tag_distribute(q, axis=1, combine=tm.PRIVATE)
    return f, {"a": whole(9, 22), "b": whole(22, 7)}


def over_both_axes() -> Story:
    """One number from a grid of ranks."""
    f = tm.Function("largest", params=[])
    x = f.input("x", tm.int32, [8, 9])
    s = f.reduction("s", {z: 1}, {i: 8, j: 9}, tm.max, x[i, j])
    f.outputs(s)
    x.distribute_array([i, j], rank=(i // 4, j // 5))
    s.update.split(i, 4, p, i1)
    s.update.split(j, 5, q, j1)
    s.update.reorder(p, q, i1, j1)
    s.update.tag_distribute(p, q, combine=tm.PRIVATE)
    return f, {"x": whole(8, 9, dtype=np.int32)}


def again_and_again() -> Story:
    """A sum in each time step, read in the same step; at first only rank 0 has terms."""
    (n,) = tm.params("N")
    f = tm.Function("steps", params=[n], assume="N >= 1")
    x = f.input("x", tm.int64, [n, 50])
    s = f.reduction("s", {t: n}, {i: 50}, tm.sum, x[t, i], where=i <= 3 * t + 4)
    y = f.computation("y", {t: n}, 2 * s[t])
    f.outputs(y)
    x.distribute_array([t, i], rank=i // 20)
    s.update.split(i, 20, q, i1)
    s.update.tag_distribute(q, combine=tm.PRIVATE)
    s.update.after(s.init, t)
    y.after(s.update, t)
    return f, {"x": whole(12, 50, dtype=np.int64), "N": 12}


def with_threads_and_vectors() -> Story:
    """What a rank adds up is added up by its threads, and by the lanes of their vectors."""
    f, given = total(dtype=tm.int32, length=1030)
    s = f["s"]
    f.undo()
    f.undo()
    f.undo()
    f["x"].distribute_array([i], rank=i // 260)
    s.update.split(i, 260, q, i1)
    s.update.tag_distribute(q, combine=tm.PRIVATE)
    s.update.split(i1, 65, i2, i3)
    s.update.parallelize(i2, combine=tm.PRIVATE)
    s.update.vectorize(i3, 8, combine=tm.PRIVATE)
    return f, given


def shared_value(combined: bool = True) -> tuple[tm.Function, Any, Any]:
    """A sum that every rank needs for values of its own."""
    f = tm.Function("shared", params=[])
    x = f.input("x", tm.int64, [103])
    s = f.reduction("s", {z: 1}, {i: 103}, tm.sum, x[i])
    y = f.computation("y", {j: 103}, s[0] + x[j])
    f.outputs(y)
    x.distribute_array([i], rank=i // 26)
    y.distribute_array([j], rank=j // 26)
    y.split(j, 26, q, i1)
    y.tag_distribute(q)
    s.update.split(i, 26, q, i1)
    s.update.reorder(q, z, i1)
    s.update.tag_distribute(q, combine=tm.PRIVATE if combined else None)
    return f, s, y


def histogram() -> Story:
    """Each rank scatters its elements into counts of its own."""
    f = tm.Function("histogram", params=[])
    x = f.input("x", tm.int32, [103])
    s = f.scatter("s", {k: 11}, {i: 103}, [x[i]], tm.sum, 1, dtype=tm.int64)
    f.outputs(s)
    x.distribute_array([i], rank=i // 26)
    s.update.split(i, 26, q, i1)
    s.update.tag_distribute(q, combine=tm.PRIVATE)
    return f, {"x": whole(103, dtype=np.int32) % 13}


STORIES = {
    "total": total,
    "total in a tree": lambda: total(combine=tm.TREE),
    "halves": halves,
    "an operator of the user": lambda: total(EITHER, tm.int32, combine=tm.TREE),
    "number": number,
    "in a buffer": lambda: number("result"),
    "parametric": parametric,
    "product": product,
    "threads": lambda: product(threads=True),
    "grid": on_a_grid,
    "grid, sums outside": lambda: on_a_grid(rows_outside=False),
    "both axes": over_both_axes,
    "steps": again_and_again,
    "threads and vectors": with_threads_and_vectors,
    "histogram": histogram,
}
