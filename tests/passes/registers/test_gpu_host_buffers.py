"""Small buffers of the host that a transfer fills or reads stay arrays, whatever else uses them."""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm

(N,) = tm.params("N")
i, b, t = tm.iters("i b t")


def right(f: tm.Function, count: int) -> None:
    kernel = f.compile(device="simulator", sanitize=True, seed=1)
    for size in (1, 2, 7):
        a = np.arange(size + count, dtype=np.int32)
        np.testing.assert_array_equal(kernel(a), f.evaluate(a))


def test_one_element_that_is_copied_from_the_gpu_in_each_iteration_is_no_variable() -> None:
    f = tm.Function("f", params=[N], assume="N >= 1")
    a = f.input("a", tm.int32, [N + 1])
    q = f.computation("q", {i: N + 1}, 2 * a[i])
    r = f.computation("r", {i: N}, q[i + 1] + 1)
    f.outputs(r)
    q.compute_at(r, i)
    q.split(i, 3, b, t)
    q.tag_gpu(blocks=[b], threads=[t])
    f.derive_transfers()
    assert f.check().ok
    right(f, 1)


def test_a_small_buffer_that_is_only_the_target_of_a_transfer_is_allocated() -> None:
    f = tm.Function("f", params=[N], assume="N >= 1")
    a = f.input("a", tm.int32, [N + 8])
    p = f.computation("p", {i: 8}, 2 * a[i])
    f.computation("unused", {i: 8}, p[i] + 1)  # on the host; its stores are left out, and the transfer stays
    q = f.computation("q", {i: N}, p[0] + a[i])
    f.outputs(q)
    for stage in (p, q):
        stage.split(i, 4, b, t)
        stage.tag_gpu(blocks=[b], threads=[t])
    f.derive_transfers()
    assert f.check().ok
    right(f, 8)
