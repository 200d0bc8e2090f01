"""Programs that lowering used to refuse after the proof, and that are right now."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm

A, B, C, N, M = tm.params("A B C N M")
i, j, q, i0, i1, j0, j1 = tm.iters("i j q i0 i1 j0 j1")

TERMS = {
    "all": lambda a: None,
    "by value": lambda a: a[i, j] > 5,
    "by a modulo": lambda a: i % 3 != 1,
    "from a row on": lambda a: i > 2,
    "even columns": lambda a: j % 2 == 0,
}


@pytest.mark.parametrize(("rows", "block"), [(13, 5), (16, 2), (12, 4)])
@pytest.mark.parametrize("terms", TERMS)
def test_ranks_combine_as_many_columns_as_there_are(terms: str, rows: int, block: int) -> None:
    f = tm.Function("f", params=[C], assume="C >= 1")
    a = f.input("a", tm.int32, [rows, C])
    where = TERMS[terms](a)
    chosen = {} if where is None else {"where": where}
    s = f.reduction("s", {j: C}, over={i: rows}, op=tm.sum, expr=a[i, j], **chosen)
    f.outputs(s)
    a.distribute_array([i, j], rank=i // block)
    s.update.split(i, block, q, i1).reorder(q, j, i1).tag_distribute(q, combine=tm.PRIVATE)
    f.derive_transfers()
    given = np.arange(rows * 3, dtype=np.int32).reshape(rows, 3)
    np.testing.assert_array_equal(f.simulate(a=given), f.evaluate(a=given))


def test_partial_results_begin_at_the_lesser_of_two_parameters() -> None:
    f = tm.Function("f", params=[A, B, C], assume="A >= 0 and B >= 0 and C >= B and A < C")
    a = f.input("a", tm.int32, [12, C])
    domain = "[A, B, C] -> { s[j] : 0 <= j < C and (j >= A or j >= B) }"
    s = f.reduction("s", domain, over={i: 12}, op=tm.sum, expr=a[i, j])
    f.outputs(s)
    a.distribute_array([i, j], rank=i // 4)
    s.update.split(i, 4, q, i1).reorder(q, j, i1).tag_distribute(q, combine=tm.PRIVATE)
    f.derive_transfers()
    for low, other, end in ((1, 2, 5), (3, 2, 5), (0, 4, 5), (4, 5, 5)):
        given = np.arange(12 * end, dtype=np.int32).reshape(12, end)
        got, wanted = (g(a=given, A=low, B=other)[min(low, other) :] for g in (f.simulate, f.evaluate))
        np.testing.assert_array_equal(got, wanted)


def test_blocks_may_begin_at_the_lesser_of_two_parameters() -> None:
    f = tm.Function("f", params=[N, M])
    a = f.input("a", tm.int32, [N + M])
    b = f.computation("b", "[N, M] -> { b[i] : (i >= N or i >= M) and 0 <= i < N + M }", a[i] + 1)
    f.outputs(b)
    b.tag_gpu(blocks=[i])
    f.derive_transfers()
    kernel = f.compile(device="simulator", sanitize=True)
    for n, m in ((3, 5), (5, 3), (0, 2), (2, 0), (0, 0), (4, 4)):
        given = np.arange(n + m, dtype=np.int32)
        got, wanted = kernel(a=given.copy(), N=n, M=m), f.evaluate(a=given.copy(), N=n, M=m)
        np.testing.assert_array_equal(got[min(n, m) :], wanted[min(n, m) :])


def test_lanes_of_a_kernel_add_atomically_one_after_another() -> None:
    f = tm.Function("f")
    a = f.input("a", tm.int32, [64, 32])
    s = f.reduction("s", {j: 32}, over={i: 64}, op=tm.sum, expr=a[i, j])
    f.outputs(s)
    s.update.interchange(j, i).split(i, 32, i0, i1)
    s.update.tag_gpu(blocks=[i0], threads=[i1], combine=tm.ATOMIC).vectorize(j, 4)
    s.init.split(j, 32, j0, j1).tag_gpu(blocks=[j0], threads=[j1])
    f.derive_transfers()
    given = np.arange(64 * 32, dtype=np.int32).reshape(64, 32)
    np.testing.assert_array_equal(f.compile(device="simulator", sanitize=True)(a=given), given.sum(axis=0))
