"""Small programs on a GPU: kernels, transfers, a tile in shared memory, streams with waits, atomic sums, registers."""

from __future__ import annotations

import tiramisu_py as tm

N, M = tm.params("N M")
i, j, k = tm.iters("i j k")
i0, i1, j0, j1, k0, k1, y, z = tm.iters("i0 i1 j0 j1 k0 k1 y z")


def pair() -> tm.Function:
    f = tm.Function("pair", params=[N], assume="N >= 2")
    x = f.input("x", tm.float32, [N])
    p = f.computation("p", {i: N}, 2.0 * x[i])
    f.outputs(f.computation("q", {i: N - 1}, p[i] + p[i + 1]))
    return f


def kernels() -> tm.Function:
    """Two kernels in one queue, between transfers for which the host waits."""
    f = pair()
    for each in (f["p"], f["q"]):
        each.split(i, 8, i0, i1).tag_gpu([i0], [i1])
    f.derive_transfers()
    return f


def tile() -> tm.Function:
    """A tile in shared memory, which the threads of a block fill and read, with a barrier in between."""
    f = pair()
    p, q = f["p"], f["q"]
    q.split(i, 8, i0, i1).tag_gpu([i0], [i1])
    p.compute_at(q, i0)
    p.store_in(tm.SHARED)
    p.split(i, 8, y, i1)
    p.tag_gpu(threads=[i1])
    f.derive_transfers()
    return f


def streams() -> tm.Function:
    """A kernel waits for a transfer of another queue, a transfer for a kernel, and the host for all; row by row."""
    f = tm.Function("rows", params=[N, M], assume="N >= 1 and M >= 1")
    x = f.input("x", tm.float32, [N, M])
    p = f.computation("p", {i: N, j: M}, 2.0 * x[i, j])
    f.outputs(p)
    given = f.create_xfer({i: N, j: M}, x[i, j], tm.CPU2GPU, tm.ASYNC, stream=1, name="given")
    found = f.create_xfer({i: N, j: M}, p[i, j], tm.GPU2CPU, tm.ASYNC, stream=2, name="found")
    given.collapse_many(j)
    found.collapse_many(j)
    p.split(j, 8, j0, j1)
    p.tag_gpu(blocks=[j0], threads=[j1], stream=0)
    given_done = given.wait({i: N}, on=0)
    p_done = p.wait({i: N}, on=2)
    all_done = found.wait()
    f.order(given, given_done, p, p_done, found, at=i)
    f.order(found, all_done, at=tm.root)
    return f


def atomic_sum() -> tm.Function:
    """Blocks and threads add to one value, atomically."""
    f = tm.Function("atomic", params=[N, M])
    x = f.input("x", tm.int32, [N, M])
    s = f.reduction("s", {i: N}, {k: M}, tm.sum, x[i, k])
    f.outputs(s)
    s.init.split(i, 8, i0, i1).tag_gpu([i0], [i1])
    s.update.split(k, 8, k0, k1).tag_gpu(blocks=[i, k0], threads=[k1], combine=tm.ATOMIC)
    f.derive_transfers()
    return f


def deferred() -> tm.Function:
    """A tile that the GPU copies while its threads go on: it is complete at the next barrier."""
    f = pair()
    q = f["q"]
    q.split(i, 8, i0, i1).tag_gpu([i0], [i1])
    q.copy(f["p"], [y], at=i0, into=tm.SHARED, deferred=True)
    f["p"].split(i, 8, i0, i1).tag_gpu([i0], [i1])
    f.derive_transfers()
    return f


def deferred_rows() -> tm.Function:
    """A thread reads what it has copied itself; the copy is deferred, so that a barrier is needed."""
    f = tm.Function("rows", params=[N], assume="N >= 2")
    x = f.input("x", tm.float32, [N])
    q = f.computation("q", {i: N}, 2.0 * x[i])
    f.outputs(q)
    q.split(i, 8, i0, i1).tag_gpu([i0], [i1])
    q.copy(x, [y], at=i0, into=tm.SHARED, deferred=True)
    f.derive_transfers()
    return f


def registers() -> tm.Function:
    """A product, with one partial result for each thread in a register, and tiles of both factors in shared memory."""
    f = tm.Function("product", params=[N], assume="N >= 1")
    a, b = f.input("a", tm.float32, [N, N]), f.input("b", tm.float32, [N, N])
    s = f.reduction("s", {i: N, j: N}, {k: N}, tm.sum, a[i, k] * b[k, j])
    c = f.computation("c", {i: N, j: N}, s[i, j])
    f.outputs(c)
    c.gpu_tile(i, j, 8, 8, i0, j0, i1, j1)
    s.compute_at(c, j1)
    s.store_in(tm.REGISTER)
    s.update.split(k, 8, k0, k1)
    s.update.copy(a, [y, z], at=k0, into=tm.SHARED)
    s.update.copy(b, [y, z], at=k0, into=tm.SHARED)
    f.derive_transfers()
    return f


ALL = [kernels, tile, streams, atomic_sum, deferred, deferred_rows, registers]
