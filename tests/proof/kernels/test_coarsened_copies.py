"""A coarsened GPU kernel whose tile comes in two deferred copies: many pieces, that must not multiply."""

from __future__ import annotations

import pytest

import tiramisu_py as tm
from tiramisu_py.program.ranks.spread import spread
from tiramisu_py.proof import check
from tiramisu_py.proof.budget import OPERATIONS

N, M = tm.params("N M")
i, j, x1, x2, x3, x4, x5, x6, x7 = tm.iters("i j x1 x2 x3 x4 x5 x6 x7")


@pytest.mark.parametrize(("buffers", "deferred"), [(1, False), (2, True)])
def test_deferred_double_buffers_of_a_coarsened_kernel_are_proven_in_a_part_of_the_budget(
    buffers: int, deferred: bool
) -> None:
    f = tm.Function("f", params=[N, M], assume="N >= 1 and M >= 1")
    a = f.input("a", tm.int64, [N, M])
    p = f.computation("p", {i: N, j: M}, a[i, j] * 2)
    edge = (i == 0) | (i == N - 1) | (j == 0)
    q = f.computation("q", {i: N, j: M}, tm.select(edge, p[i, j], p[i - 1, j] + p[i + 1, j - 1]))
    f.outputs(q)
    p.split(i, 2, x1, x2)
    p.tag_gpu(blocks=[x1], threads=[x2])
    q.split(i, 3, x3, x4)
    q.tag_gpu(blocks=[x3], threads=[x4])
    q.coarsen(x3, 3, x5)
    q.copy(p, [x6, x7], at=j, into=tm.SHARED, deferred=deferred, buffers=buffers)
    f.derive_transfers()
    report = check(spread(f.completed), operations=OPERATIONS // 4)
    assert report.ok, report
