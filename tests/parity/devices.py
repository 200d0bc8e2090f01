"""GPUs and ranks."""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm
from tests.parity.groups import group, numbers, right

N, M, K = tm.params("N M K")
i, j, k, i0, j0, i1, j1, i2, j2, k0, k1, q, r = tm.iters("i j k i0 j0 i1 j1 i2 j2 k0 k1 q r")
T = tm.int32
P, B = 4, 3


def on_gpu(f: tm.Function, wanted: object, *given: object) -> None:
    """The kernels, in the simulator, make what is wanted."""
    f.derive_transfers()
    right(f, wanted, *given, device="simulator", sanitize=True)


@group("17-19", "blocks and threads of a GPU, tiles in two and three dimensions", "`tag_gpu`, `gpu_tile`")
def tiles_on_gpus() -> None:
    f = tm.Function("f", params=[N])
    a = f.input("a", T, [N, N, N])
    s = f.computation("s", {i: N, j: N, k: N}, a[i, j, k] + i)
    t = f.computation("t", {j: N, k: N}, a[0, j, k] * 2)
    f.outputs(s, t)
    s.gpu_tile(i, j, k, 2, 2, 4, i0, j0, k0, i1, j1, k1)
    t.tile(j, k, 2, 4, j0, k0, j1, k1)
    t.tag_gpu(blocks=[j0, k0], threads=[j1, k1])
    given = numbers(5, 5, 5)
    on_gpu(f, (given + np.arange(5)[:, None, None], 2 * given[0]), given)


@group("98", "work on ranks", "`tag_distribute`, `distribute_array`")
def on_ranks() -> None:
    f = tm.Function("f", params=[M])
    a = f.input("a", T, [P * B, M])
    s = f.computation("s", {r: P * B, j: M}, a[r, j] * 2)
    f.outputs(s)
    for array in (a, s):
        array.distribute_array([r, j], rank=r // B)
    s.split(r, B, q, i)
    s.tag_distribute(q)
    given = numbers(P * B, 5)
    np.testing.assert_array_equal(f.simulate(a=given), 2 * given)


@group(
    "99, 100",
    "a ring of ranks, with messages that block, or not and a wait",
    "`create_exchange(send=, recv=)`, `NONBLOCK`, `wait`",
)
def ring() -> None:
    for properties in ((), (tm.NONBLOCK,)):
        f = tm.Function("f")
        a = f.input("a", T, [P])
        p = f.computation("p", {q: P}, a[q] + 1)
        s = f.computation("s", {q: (1, P)}, p[q - 1] * 10, shape=[P])
        f.outputs(s)
        for array in (a, s):
            array.distribute_array([q], rank=q)
        for each in (p, s):
            each.tag_distribute(q)
        names = {"send_props": properties, "recv_props": properties}
        ring = f.create_exchange(
            p[r], send={q: P - 1, r: (q, q + 1)}, to=q + 1, recv={q: (1, P), r: (q - 1, q)}, source=q - 1, **names
        )
        f.order(p, ring.send, ring.recv, s, at=tm.root)
        if properties:
            arrived, sent = ring.recv.wait(), ring.send.wait()
            f.order(ring.recv, arrived, s, sent, at=tm.root)
        given = numbers(P)
        wanted = np.concatenate([[0], (given[:-1] + 1) * 10])
        np.testing.assert_array_equal(f.simulate(a=given), wanted)


@group("101, 102", "fan out and in, with messages merged", "`derive_transfers`, `collapse_many`, `combine=tm.PRIVATE`")
def fan_in() -> None:
    f = tm.Function("f", params=[M])
    a = f.input("a", T, [P, M])
    total = f.reduction("total", {j: M}, {q: P}, tm.sum, a[q, j])
    f.outputs(total)
    a.distribute_array([q, j], rank=q)
    total.update.tag_distribute(q, combine=tm.PRIVATE)
    given = numbers(P, 4)
    np.testing.assert_array_equal(f.simulate(a=given), given.sum(axis=0))


@group("160", "messages found by the compiler", "`derive_transfers`")
def derived() -> None:
    f = tm.Function("f", params=[M], assume="M >= 1")
    a = f.input("a", T, [P * B, M])
    p = f.computation("p", {r: P * B, j: M}, a[r, j] + 1)
    s = f.computation("s", {r: (1, P * B - 1), j: M}, p[r - 1, j] + p[r, j] + p[r + 1, j], shape=[P * B, M])
    f.outputs(s)
    for array in (a, s):
        array.distribute_array([r, j], rank=r // B)
    for each in (p, s):
        each.split(r, B, q, i)
        each.tag_distribute(q)
    f.derive_transfers()
    given = numbers(P * B, 4)
    wanted = np.zeros_like(given)
    wanted[1:-1] = given[:-2] + given[1:-1] + given[2:] + 3
    np.testing.assert_array_equal(f.simulate(a=given), wanted)


@group(
    "162, 164-166",
    "products by a library: plain, strided and transposed, in double precision",
    "`tm.extern_stage`; kernels of one's own on GPUs",
)
def by_a_library() -> None:
    source = """
static void product(int64_t m, int64_t n, int64_t k, const double *a, int64_t lda, const double *b, int64_t ldb,
                    double *c, int64_t ldc)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            c[i * ldc + j] = 0;
            for (int64_t p = 0; p < k; p++) c[i * ldc + j] += a[i * lda + p] * b[p * ldb + j];
        }
}
"""
    parameters = {"m": tm.int64, "n": tm.int64, "k": tm.int64}
    for name, dtype in (("a", tm.reads), ("b", tm.reads), ("c", tm.writes)):
        parameters |= {name: dtype(tm.float64, 2), f"ld{name}": tm.stride(name, 0)}
    product = tm.extern_stage("product", parameters, lambda m, n, k, a, b: a @ b, source=source)
    f = tm.Function("f", params=[N, M, K])
    a, b = f.input("a", tm.float64, [N, K + 3]), f.input("b", tm.float64, [M, K])
    turned = f.computation("turned", {k: K, j: M}, b[j, k])
    call = product(N, M, K, a[i, k + 3], turned[k, j])
    f.outputs(f.stage("c", {i: N, j: M}, call, over={k: K}))
    left, right_ = numbers(5, 10, dtype="float64"), numbers(6, 7, dtype="float64", seed=1)
    right(f, left[:, 3:] @ right_.T, left, right_)


@group(
    "167-171",
    "a matrix product and a transposition on a GPU, with shared memory, accumulators and padding",
    "`gpu_tile`, `copy(into=tm.SHARED, pad=)`, `store_in(tm.REGISTER)`",
)
def product_on_gpu() -> None:
    f = tm.Function("f", params=[N])
    a, b = f.input("a", T, [N, N]), f.input("b", T, [N, N])
    c = f.reduction("c", {i: N, j: N}, {k: N}, tm.sum, a[i, k] * b[k, j])
    turned = f.computation("turned", {i: N, j: N}, a[j, i])
    f.outputs(c, turned)
    c.gpu_tile(i, j, 4, 4, i0, j0, i1, j1)
    c.update.split(k, 4, k0, k1)
    c.update.reorder(k0, k1)
    c.update.copy(a, [i2, k1], at=k0, into=tm.SHARED, pad=1)
    turned.gpu_tile(i, j, 4, 4, i0, j0, i1, j1)
    turned.copy(a, [i2, j2], at=j0, into=tm.SHARED, pad=1)
    p, o = numbers(9, 9), numbers(9, 9, seed=1)
    on_gpu(f, (p @ o, p.T), p, o)


@group("197", "memory of a GPU for a part of a program", "arrays of the GPU's memory, `compute_at`")
def memory_of_gpus() -> None:
    f = tm.Function("f", params=[N])
    a = f.input("a", T, [N])
    p = f.computation("p", {i: N}, a[i] + 1)
    s = f.computation("s", {i: N}, p[i] * 2)
    f.outputs(s)
    for each in (p, s):
        each.split(i, 8, i0, i1)
        each.tag_gpu(blocks=[i0], threads=[i1])
    given = numbers(21)
    on_gpu(f, (given + 1) * 2, given)
