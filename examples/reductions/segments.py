"""Sums of segments of different lengths (CSR), and histograms, on cores and on a GPU.

A thread, a warp or a block has a segment; on cores, threads have segments with about as many terms. A histogram has a
private copy for each thread or block, in shared memory on the GPU, and these are added to the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from story import as_scheduled, tell

import tiramisu_py as tm

N, Z = tm.params("N Z")
i, i0, i1, i2, p, p0, p1, b = tm.iters("i i0 i1 i2 p p0 p1 b")
LEVELS, BLOCK = 256, 4096


def segments() -> tuple[tm.Function, Any]:
    """The sum of each segment: the terms from ``start[i]`` to before ``start[i + 1]``."""
    f = tm.Function("segments", params=[N, Z])
    start = f.input("start", tm.int32, [N + 1], values=(0, Z + 1), monotone=True)
    a = f.input("a", tm.float32, [Z])
    s = f.reduction("s", {i: N}, {p: (start[i], start[i + 1])}, tm.sum, a[p])
    f.outputs(s)
    return f, s


def balanced_by_terms(f: tm.Function, s: Any) -> None:
    """On cores: each thread has about as many terms."""
    s.update.parallelize(i, balance=f["start"])


def a_thread_each(f: tm.Function, s: Any) -> None:
    """For short segments."""
    s.split(i, 64, i0, i1)
    s.tag_gpu(blocks=[i0], threads=[i1])
    f.derive_transfers()


def a_warp_each(f: tm.Function, s: Any) -> None:
    """For segments of some hundred terms: four in a block."""
    s.split(i, 4, i0, i1)
    s.update.split(p, 32, p0, p1)
    s.init.tag_gpu(blocks=[i0], threads=[i1])
    s.update.tag_gpu(blocks=[i0], threads=[i1, p1], combine=tm.TREE)
    f.derive_transfers()


def a_block_each(f: tm.Function, s: Any) -> None:
    """For long segments."""
    s.update.split(p, 128, p0, p1)
    s.init.tag_gpu(blocks=[i])
    s.update.tag_gpu(blocks=[i], threads=[p1], combine=tm.TREE)
    f.derive_transfers()


def histogram() -> tuple[tm.Function, Any]:
    """How often each level occurs."""
    f = tm.Function("histogram", params=[N])
    a = f.input("a", tm.uint8, [N])
    h = f.scatter("h", {b: LEVELS}, over={i: N}, at=[a[i]], op=tm.sum, expr=1, dtype=tm.int32)
    f.outputs(h)
    return f, h


def copies_of_threads() -> tm.Function:
    """On cores: a copy for each thread."""
    f, h = histogram()
    h.update.parallelize(i, combine=tm.PRIVATE)
    return f


def copies_of_blocks() -> tm.Function:
    """On a GPU: a copy for each block, in shared memory, with atomic additions of its threads."""
    f, h = histogram()
    h.update.split(i, BLOCK, i0, i)
    own = h.rfactor(i0, name="own")
    own.update.split(i, LEVELS, i1, i2)
    for stage in (own.init, h.update):
        stage.reorder(i0, b)
    h.init.tag_gpu(blocks=[b])
    own.init.tag_gpu(blocks=[i0], threads=[b])
    own.update.tag_gpu(blocks=[i0], threads=[i2], combine=tm.ATOMIC)
    h.update.tag_gpu(blocks=[i0], threads=[b], combine=tm.ATOMIC)
    f.order(own.init, own.update, h.update, at=i0)
    own.store_in(tm.SHARED).store_at(h.update, i0)
    f.derive_transfers()
    return f


SCHEDULES: tuple[Callable[[tm.Function, Any], None], ...] = (
    balanced_by_terms, a_thread_each, a_warp_each, a_block_each
)  # fmt: skip


def main() -> None:
    """Compare with `np.add.reduceat` in float64, and with `np.bincount`."""
    random = np.random.default_rng(0)
    for schedule in SCHEDULES:
        f, s = segments()
        schedule(f, s)
        kernel = tell(f)
        for lengths in ([], [0], [1, 0, 31, 33, 0, 1025], [300, 0, 7]):
            start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
            a = random.standard_normal(int(start[-1]), np.float32)
            exact = [part.sum(dtype=np.float64) for part in np.split(a, start[1:-1])] if lengths else []
            np.testing.assert_allclose(kernel(start, a), exact, atol=1e-4)
        as_scheduled(f, kernel, start, a)
    for make in (copies_of_threads, copies_of_blocks):
        f = make()
        kernel = tell(f)
        assert f.check().bits == "bits preserved"
        for size in (0, 1, 33, 2 * BLOCK + 1):
            levels = random.integers(0, LEVELS, size).astype(np.uint8)
            np.testing.assert_array_equal(kernel(levels), np.bincount(levels, minlength=LEVELS))
    print(f"right: sums of segments by {len(SCHEDULES)} schedules, and histograms, are those of NumPy")


if __name__ == "__main__":
    main()
