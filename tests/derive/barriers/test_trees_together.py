"""Independent reductions in one kernel, of different lengths too, meet at the barrier of one."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm

N, K, L = tm.params("N K L")
i, k, b, m, t, once = tm.iters("i k b m t once")


def two(threads: int, dtype: tm.DType = tm.float32) -> tm.Function:
    """Figure 8 of Panamera in each row: the sum of two arrays, and the largest element of a longer one."""
    f = tm.Function("two", params=[N, K, L], assume="K >= 1 and L >= 1")
    x, y, z = f.input("x", dtype, [N, K]), f.input("y", dtype, [N, K]), f.input("z", tm.float64, [N, L])
    total = f.reduction("total", {i: N}, {k: K}, tm.sum, x[i, k] + y[i, k])
    top = f.reduction("top", {i: N}, {k: L}, tm.max, z[i, k])
    f.outputs(total, top)
    for stage in (total, top):
        stage.update.split(k, threads, m, t)
    f.order(total.init, top.init, total.update, top.update, at=i)
    total.update.tag_gpu(blocks=[i], threads=[t], combine=tm.TREE)
    top.update.tag_gpu(threads=[t], combine=tm.TREE)
    f.derive_transfers()
    return f


@pytest.mark.parametrize(("threads", "barriers"), [(128, 1), (96, 1), (32, 0), (20, 1)])
def test_two_trees_have_the_barriers_of_one(threads: int, barriers: int) -> None:
    f = two(threads)
    report = f.check()
    assert report.ok and str(report.determinism["total"]) == "everywhere"
    text = f.source()["two.cu"]
    assert text.count("TM_KERNEL") == 1 and text.count("TM_BARRIER") == barriers
    kernel = f.compile(device="simulator", sanitize=True)
    rng = np.random.default_rng(0)
    for n, short, long in ((2, 1024, 2176), (1, 1, 33), (3, 129, 1)):
        x, y = (rng.standard_normal((n, short)).astype(np.float32) for _ in range(2))
        z = rng.standard_normal((n, long))
        total, top = kernel.seeded(long)(x, y, z)
        np.testing.assert_array_equal(top, z.max(1))
        wanted = f.evaluate(x, y, z, as_scheduled=True)
        assert total.tobytes() == wanted[0].tobytes()
        np.testing.assert_allclose(total, (x + y).sum(1), rtol=1e-4, atol=1e-3)


def test_a_tree_that_reads_another_ones_result_has_its_own_barrier() -> None:
    f = tm.Function("f", params=[N, K])
    x = f.input("x", tm.float32, [N, K])
    top = f.reduction("top", {i: N}, {k: K}, tm.max, x[i, k])
    total = f.reduction("total", {i: N}, {k: K}, tm.sum, tm.exp(x[i, k] - top[i]))
    f.outputs(total)
    for stage in (top, total):
        stage.update.split(k, 64, m, t)
    f.order(top.init, top.update, total.init, total.update, at=i)
    top.store_at(total.update, i).store_in(tm.REGISTER)
    top.update.tag_gpu(blocks=[i], threads=[t], combine=tm.TREE)
    total.update.tag_gpu(threads=[t], combine=tm.TREE)
    f.derive_transfers()
    assert f.check().ok and f.source()["f.cu"].count("TM_BARRIER") == 2
    given = np.random.default_rng(1).standard_normal((3, 200)).astype(np.float32)
    kernel = f.compile(device="simulator", sanitize=True)
    np.testing.assert_allclose(kernel(given), np.exp(given - given.max(1, keepdims=True)).sum(1), rtol=1e-5)


def test_two_reductions_over_blocks_share_a_kernel_and_its_tickets() -> None:
    f = tm.Function("both", params=[K, L], assume="K >= 1 and L >= 1")
    x, z = f.input("x", tm.float32, [K]), f.input("z", tm.float32, [L])
    total = f.reduction("total", {}, {k: K}, tm.sum, x[k])
    top = f.reduction("top", {}, {k: L}, tm.max, z[k])
    f.outputs(total, top)
    for stage in (total, top):
        stage.update.split(k, 256, b, k)
        stage.update.split(k, 64, m, t)
        stage.tag_gpu(blocks=[b], threads=[t], combine=tm.TREE, across=tm.LAST_BLOCK)
    f.order(f["total_blocks"].update, f["top_blocks"].update, at=b)
    f.derive_transfers()
    assert f.check().ok
    text = f.source()["both.cu"]
    assert text.count("TM_KERNEL") == 1 and text.count("tm_take_ticket") == 1
    kernel = f.compile(device="simulator", sanitize=True)
    rng = np.random.default_rng(2)
    for short, long in ((1, 900), (3000, 257), (5, 5)):
        x, z = rng.integers(-9, 9, short).astype(np.float32), rng.random(long, dtype=np.float32)
        for seed in range(3):
            np.testing.assert_array_equal(np.array(kernel.seeded(seed)(x, z)), [x.sum(), z.max()])
