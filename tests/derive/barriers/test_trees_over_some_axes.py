"""Trees over some thread axes, and kernels that go on with the result: beside NumPy, in the checked simulator."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import tiramisu_py as tm
from tests.selection import first
from tiramisu_py.backends.cuda.kernel_text import signatures
from tiramisu_py.backends.emitting import emit
from tiramisu_py.interpret import run
from tiramisu_py.toolchain.compilation import compile_function

N, M = tm.params("N M")
i, k, i0, i1, k0, k1, t = tm.iters("i k i0 i1 k0 k1 t")


def rows(height: int, width: int, order: str = "outside", dtype: tm.DType = tm.int32) -> tm.Function:
    """Sums of rows, several rows a block: the threads along x have the terms of one row."""
    f = tm.Function("rows", params=[N, M])
    a = f.input("a", dtype, [N, M])
    s = f.reduction("s", {i: N}, {k: M}, tm.sum, a[i, k])
    f.outputs(s)
    s.init.split(i, height, i0, i1).tag_gpu(blocks=[i0], threads=[i1])
    s.update.tile(i, k, height, width, i0, k0, i1, k1)
    if order == "outside":
        s.update.interchange(k0, i1)
    s.update.tag_gpu(blocks=[i0], threads=[i1, k1], combine=tm.TREE)
    f.derive_transfers()
    return f


def columns(height: int, width: int) -> tm.Function:
    """Sums of columns: neighbouring threads have neighbouring columns, and those along y the terms of one."""
    f = tm.Function("columns", params=[N, M])
    a = f.input("a", tm.int32, [N, M])
    s = f.reduction("s", {k: M}, {i: N}, tm.sum, a[i, k])
    f.outputs(s)
    s.init.split(k, width, k0, k1).tag_gpu(blocks=[k0], threads=[k1])
    s.update.tile(k, i, width, height, k0, i0, k1, i1)
    s.update.reorder(k0, i0, i1, k1)
    s.update.tag_gpu(blocks=[k0], threads=[i1, k1], combine=tm.TREE)
    f.derive_transfers()
    return f


SHAPES = first([(8, 32), (4, 64), (3, 32), (16, 8), (5, 7), (2, 96), (1, 31)], 4)


@pytest.mark.parametrize("make", ["rows", "columns", "rows, a tree in each step"])
@pytest.mark.parametrize(("height", "width"), SHAPES)
def test_a_tree_over_one_axis_of_a_block(make: str, height: int, width: int) -> None:
    f = columns(height, width) if make == "columns" else rows(height, width, "outside" if make == "rows" else "inside")
    assert f.check().ok
    kernel = f.compile(device="simulator", sanitize=True)
    for n, m in ((0, 3), (1, 1), (9, 33), (17, 101)):
        given = np.random.default_rng(n).integers(-99, 99, (n, m)).astype(np.int32)
        axis = 0 if f.name == "columns" else 1
        np.testing.assert_array_equal(kernel.seeded(n)(given), given.sum(axis))
        found = np.zeros(given.shape[1 - axis], np.int32)
        run(f.show("lowered"), {"a": given, "s": found}, {"N": n, "M": m}, m)
        np.testing.assert_array_equal(found, given.sum(axis))


def test_the_bits_of_a_tree_are_those_of_its_description() -> None:
    """A row's terms by threads, 8 lanes by halves: the same tree in NumPy."""
    f = rows(16, 8, dtype=tm.float32)
    given = np.random.default_rng(0).standard_normal((16, 29)).astype(np.float32)
    wanted = []
    for row in given:
        parts = np.full(8, -0.0, np.float32)
        for place, term in enumerate(row):
            parts[place % 8] += term
        for step in (4, 2, 1):
            parts[:step] += parts[step : 2 * step]
        wanted.append(np.float32(0) + parts[0])
    kernel = f.compile(device="simulator")
    for seed in range(5):
        np.testing.assert_array_equal(kernel.seeded(seed)(given), np.array(wanted))


def test_where_one_block_adds_nothing_is_atomic_and_a_warp_needs_no_barrier() -> None:
    text = rows(8, 32).source()["rows.cu"]
    assert "tm_atomic" not in text and "TM_BARRIER" not in text and "TM_SHARED" not in text
    wide = rows(4, 64).source()["rows.cu"]
    assert "tm_atomic" not in wide and wide.count("TM_BARRIER") == 1 and "TM_SHARED(int32_t, tm_parts, [8])" in wide


# -- kernels that go on with the result


def softmax(width: int, height: int, memory: tm.Memory) -> tm.Function:
    """Softmax of rows in one kernel: a block for each row, or a row for each line of its threads."""
    f = tm.Function("softmax", params=[N, M])
    a = f.input("a", tm.float32, [N, M])
    m = f.reduction("m", {i: N}, {k: M}, tm.max, a[i, k])
    s = f.reduction("s", {i: N}, {k: M}, tm.sum, tm.exp(a[i, k] - m[i]))
    o = f.computation("o", {i: N, k: M}, tm.exp(a[i, k] - m[i]) / s[i])
    f.outputs(o)
    for stage in (m.update, s.update, o):
        stage.split(k, width, k0, t)
    blocks, threads, at = [i], [t], i
    if height > 1:
        for stage in (m, s, o):
            stage.split(i, height, i0, i1)
        blocks, threads, at = [i0], [i1, t], i1
    f.order(m.init, m.update, s.init, s.update, o, at=at)
    for stage in (m, s):
        stage.store_at(o, at)
    o.tag_gpu(blocks=blocks, threads=threads)
    for stage in (m, s):
        stage.update.tag_gpu(threads=threads, combine=tm.TREE)
        stage.store_in(memory)
    f.derive_transfers()
    return f


@pytest.mark.parametrize(
    ("width", "height", "memory"),
    [(96, 1, tm.SHARED), (100, 1, tm.REGISTER), (96, 1, tm.REGISTER), (32, 4, tm.REGISTER)],
)
def test_softmax_in_one_kernel(width: int, height: int, memory: tm.Memory) -> None:
    f = softmax(width, height, memory)
    report = f.check()
    assert report.ok, report
    text = f.source()["softmax.cu"]
    assert text.count("TM_KERNEL") == 1 and "atomic" not in text
    kernel = f.compile(device="simulator", sanitize=True)
    for seed, (n, m) in enumerate(((0, 1), (1, 1), (7, 95), (3, 201))):
        given = np.random.default_rng(n).standard_normal((n, m)).astype(np.float32)
        np.testing.assert_allclose(kernel.seeded(seed)(given), f.evaluate(a=given), rtol=1e-5)


def test_sums_of_different_lengths_share_a_kernel() -> None:
    """A sum of 8 rounds and a maximum of 17 rounds of 128 threads, in one block: each result by a plain store."""
    f = tm.Function("two", params=[])
    a, b, c = (f.input(name, tm.float32, [length]) for name, length in (("a", 1024), ("b", 1024), ("c", 2176)))
    (once,) = tm.iters("once")
    s = f.reduction("s", {once: 1}, {k: 1024}, tm.sum, a[k] + b[k])
    m = f.reduction("m", {once: 1}, {k: 2176}, tm.max, c[k])
    f.outputs(s, m)
    for one in (s, m):
        one.update.split(k, 128, k0, t)
    f.order(s.init, m.init, s.update, m.update, at=once)
    s.tag_gpu(blocks=[once])
    for one in (s, m):
        one.update.tag_gpu(threads=[t], combine=tm.TREE)
    f.derive_transfers()
    assert f.check().ok
    text = f.source()["two.cu"]
    assert text.count("TM_KERNEL") == 1 and "atomic" not in text and text.count("TM_BARRIER") == 1
    kernel = f.compile(device="simulator", sanitize=True)
    rng = np.random.default_rng(0)
    given = {name: rng.integers(-9, 9, length).astype(np.float32) for name, length in (("a", 1024), ("b", 1024))}
    given["c"] = -1.0 - rng.random(2176, dtype=np.float32)
    total, most = kernel(**given)
    assert total == (given["a"] + given["b"]).sum() and most == given["c"].max()


def test_loops_around_the_threads_of_trees_are_the_same_for_all_threads() -> None:
    f = tm.Function("apart", params=[N, M])
    a = f.input("a", tm.int32, [N, M])
    top = f.reduction("top", {i: N, t: 2}, {k: M}, tm.max, a[i, k] * (t + 1))
    apart = f.computation("apart", {i: N, t: 2, k: M}, a[i, k] - top[i, t])
    f.outputs(apart)
    for stage in (top.init, top.update, apart):
        stage.split(i, 2, i0, i1).reorder(i0, t, i1)
    for stage in (top.update, apart):
        stage.split(k, 16, k0, k1)
    f.order(top.init, top.update, apart, at=i1)
    top.store_at(apart, i1)
    apart.tag_gpu(blocks=[i0], threads=[i1, k1])
    top.update.tag_gpu(threads=[i1, k1], combine=tm.TREE)
    top.store_in(tm.REGISTER)
    f.derive_transfers()
    kernel = f.compile(device="simulator", sanitize=True)
    for shape in ((0, 3), (1, 17), (3, 33)):
        given = np.random.default_rng(0).integers(-9, 9, shape).astype(np.int32)
        np.testing.assert_array_equal(kernel(given), f.evaluate(given))


def test_a_row_a_warp_meets_at_no_barrier() -> None:
    text = softmax(32, 4, tm.REGISTER).source()["softmax.cu"]
    assert "TM_BARRIER" not in text and "TM_SHARED" not in text


@pytest.mark.parametrize(
    ("line", "other"),
    [
        (r"TM_BARRIER\(\);", ""),  # the warps' results are there
        (r"tm_part = tm_shuffle\(tm_part, 0\);", ""),  # all threads have the result
        (r"m_0 = \(float\)-INFINITY", "m_0 = 0"),  # the start of the result
        (r"m_update_partial = \(float\)-INFINITY", "m_update_partial = 0"),  # that of a partial result
        (r"tm_number % 32 == 0", "tm_number % 32 == 1"),  # who stores a warp's result
        (r"\+ tm_step < 3", "+ tm_step < 4"),  # the guard of the second level
        (r"int tm_step = 16", "int tm_step = 8"),
    ],
)
def test_each_line_of_a_tree_is_missed_when_it_is_changed(line: str, other: str) -> None:
    f = softmax(96, 1, tm.REGISTER)
    function = f.show("lowered")
    emitted = emit(function)
    changed = re.sub(line, other, emitted["softmax.cu"])
    assert changed != emitted["softmax.cu"]
    files = {**emitted, "softmax.cu": changed}
    kernel = compile_function(
        function, replace(emitted, files=files), f.algorithm, kernels=signatures(function), device="simulator",
        sanitize=True,
    )  # fmt: skip
    given = -300.0 - np.random.default_rng(1).random((3, 201)).astype(np.float32)  # far from 0, all terms count
    wanted = f.evaluate(a=given)
    assert not all(agrees(kernel.seeded(seed), given, wanted) for seed in range(4))


def agrees(kernel: tm.Kernel, given: np.ndarray, wanted: np.ndarray) -> bool:
    """Whether a call succeeds with the wanted values."""
    try:
        return bool(np.allclose(kernel(given), wanted, rtol=1e-5, atol=0))
    except tm.TiramisuError:
        return False
