"""Sums of segments in CSR, and histograms: beside NumPy's, wherever their terms are combined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

N, Z = tm.params("N Z")
i, i0, i1, i2, p, p0, p1, b, b0, b1 = tm.iters("i i0 i1 i2 p p0 p1 b b0 b1")
Schedule = Callable[[tm.Function, Any], Any]


def segments(dtype: tm.DType = tm.float32) -> tuple[tm.Function, Any]:
    """The sum of each segment: from ``start[i]`` to before ``start[i + 1]``."""
    f = tm.Function("segments", params=[N, Z])
    start = f.input("start", tm.int32, [N + 1], values=(0, Z + 1), monotone=True)
    a = f.input("a", dtype, [Z])
    s = f.reduction("s", {i: N}, {p: (start[i], start[i + 1])}, tm.sum, a[p])
    f.outputs(s)
    return f, s


def given(lengths: list[int], seed: int = 0) -> tuple[Any, Any, Any]:
    """Segments of some lengths: where they start, whole numbers as terms, and what NumPy makes of them."""
    start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    a = np.random.default_rng(seed).integers(-99, 100, int(start[-1])).astype(np.float32)
    expected = np.zeros(len(lengths), np.float32)
    filled = np.flatnonzero(lengths)
    if filled.size:
        expected[filled] = np.add.reduceat(a, start[filled])
    return start, a, expected


def a_thread_each(f: tm.Function, s: Any) -> None:
    s.split(i, 64, i0, i1)
    s.tag_gpu(blocks=[i0], threads=[i1])
    f.derive_transfers()


def a_warp_each(f: tm.Function, s: Any) -> None:
    s.split(i, 4, i0, i1)
    s.update.split(p, 32, p0, p1)
    s.init.tag_gpu(blocks=[i0], threads=[i1])
    s.update.tag_gpu(blocks=[i0], threads=[i1, p1], combine=tm.TREE)
    f.derive_transfers()


def a_block_each(f: tm.Function, s: Any) -> None:
    s.update.split(p, 64, p0, p1)
    s.init.tag_gpu(blocks=[i])
    s.update.tag_gpu(blocks=[i], threads=[p1], combine=tm.TREE)
    f.derive_transfers()


SCHEDULES: dict[str, tuple[str, Schedule]] = {
    "on threads": ("ordered", lambda f, s: s.update.parallelize(i)),
    "balanced by terms": ("ordered", lambda f, s: s.update.parallelize(i, balance=f["start"])),
    "vectors": ("everywhere", lambda f, s: s.update.vectorize(p, 8, combine=tm.PRIVATE)),
    "a thread each": ("ordered", a_thread_each),
    "a warp each": ("everywhere", a_warp_each),
    "a block each": ("everywhere", a_block_each),
}
LENGTHS = [[], [0], [1], [0, 0, 33, 0], [1, 31, 65, 0, 7, 0], [130]]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_segments_are_summed_wherever_they_are(schedule: str) -> None:
    grade, commands = SCHEDULES[schedule]
    f, s = segments()
    commands(f, s)
    assert str(f.check().determinism["s"]) == grade
    on_gpu = schedule.endswith("each")
    kernel = f.compile(device="simulator", sanitize=True) if on_gpu else f.compile()
    for lengths in LENGTHS:
        start, a, expected = given(lengths)
        np.testing.assert_array_equal(kernel(start, a), expected)
        noise = a + np.random.default_rng(len(a)).standard_normal(len(a)).astype(np.float32)
        assert kernel(start, noise).tobytes() == f.evaluate(start, noise, as_scheduled=True).tobytes()


def test_histograms_in_shared_memory_are_added_block_by_block() -> None:
    f = tm.Function("histogram", params=[N])
    a = f.input("a", tm.int32, [N], values=(0, 48))
    h = f.scatter("h", {b: 48}, over={i: N}, at=[a[i]], op=tm.sum, expr=1, dtype=tm.int32)
    f.outputs(h)
    h.update.split(i, 256, i0, i)
    own = h.rfactor(i0, name="own")
    own.update.split(i, 64, i1, i2)
    for stage in (own.init, h.update):
        stage.reorder(i0, b)
    own.init.tag_gpu(blocks=[i0], threads=[b])
    own.update.tag_gpu(blocks=[i0], threads=[i2], combine=tm.ATOMIC)
    h.update.tag_gpu(blocks=[i0], threads=[b], combine=tm.ATOMIC)
    h.init.split(b, 16, b0, b1)
    h.init.tag_gpu(blocks=[b0], threads=[b1])
    f.order(own.init, own.update, h.update, at=i0)
    own.store_in(tm.SHARED).store_at(h.update, i0)
    f.derive_transfers()
    report = f.check()
    assert str(report.determinism["h"]) == "ordered"
    kernel = f.compile(device="simulator", sanitize=True)
    for size in (0, 1, 63, 257, 1025):
        given = np.random.default_rng(size).integers(0, 48, size).astype(np.int32)
        for seed in range(3):
            np.testing.assert_array_equal(kernel.seeded(seed)(given), np.bincount(given, minlength=48))
