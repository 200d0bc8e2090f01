"""Small programs on ranks: halos, messages of rows, a ring with requests, buffered sends, a GPU for each rank."""

from __future__ import annotations

import tiramisu_py as tm

N, R, T = tm.params("N R T")
i, j, q, c, d, t = tm.iters("i j q c d t")
i0, i1, y = tm.iters("i0 i1 y")


def sums() -> tm.Function:
    """Each rank has four rows of both arrays, and needs the last row of the rank before it."""
    f = tm.Function("sums", params=[N], assume="N >= 1")
    x = f.input("x", tm.float32, [16, N])
    s = f.computation("s", {i: (1, 16), j: N}, x[i, j] + x[i - 1, j])
    f.outputs(s)
    for array in (x, s):
        array.distribute_array([i, j], rank=i // 4)
    s.split(i, 4, q, y)
    s.tag_distribute(q)
    return f


def derived() -> tm.Function:
    """The messages are derived: nonblocking, with waits."""
    f = sums()
    f.derive_transfers()
    return f


def rows() -> tm.Function:
    """The halves block: each rank receives a row, and then sends its own."""
    f = sums()
    m = exchange(f, [])
    m.send.collapse_many(j)
    m.recv.collapse_many(j)
    f.order(m.recv, m.send, f["s"], at=tm.root)
    return f


def single() -> tm.Function:
    """Each element is a message of its own; nothing waits for a send, which MPI copies."""
    f = sums()
    m = exchange(f, [tm.BUFFERED])
    f.order(m.send, m.recv, f["s"], at=tm.root)
    return f


def exchange(f: tm.Function, sent: list[tm.Property]) -> tm.Exchange:
    """The last row of each rank goes to the next one."""
    first, last = {q: 3, i: (4 * q + 3, 4 * q + 4), j: N}, {q: (1, 4), i: (4 * q - 1, 4 * q), j: N}
    return f.create_exchange(f["x"][i, j], send=first, to=q + 1, recv=last, source=q - 1, send_props=sent, name="m")


def steps() -> tm.Function:
    """A stencil in time: in each step every rank has values of its neighbours."""
    f = tm.Function("steps", params=[T], assume="T >= 1")
    x = f.input("x", tm.float32, [16])
    u = f.computation("u", {t: T + 1, i: 16}, lambda u: tm.select(t == 0, x[i], _around(u)))
    f.outputs(u)
    x.distribute_array([i], rank=i // 4)
    u.distribute_array([t, i], rank=i // 4)
    u.split(i, 4, q, y)
    u.tag_distribute(q)
    f.derive_transfers()
    return f


def _around(u: tm.Computation) -> tm.Expr:
    return tm.select((i > 0) & (i < 15), u[t - 1, i - 1] + u[t - 1, i + 1], u[t - 1, i])


def with_gpus() -> tm.Function:
    """Each rank computes its rows on a GPU of its own."""
    f = sums()
    s = f["s"]
    s.split(j, 8, i0, i1)
    s.tag_gpu(blocks=[i0], threads=[i1])
    f.derive_transfers()
    return f


ALL = [derived, rows, single, steps, with_gpus]
