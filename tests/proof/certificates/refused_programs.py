"""Programs that are proven, and that no certificate covers, each with the words of the refusal."""

from __future__ import annotations

from collections.abc import Callable

import tiramisu_py as tm
from tests.dependence import test_copies
from tests.language.test_masks_left_out import module_of
from tests.proof.certificates import gpu_programs, rank_programs

N, M, lo, hi = tm.params("N M lo hi")
i, j, k = tm.iters("i j k")
i0, i1, k0, k1, t, b, y = tm.iters("i0 i1 k0 k1 t b y")


def in_blocks() -> tm.Function:
    """Each rank has rows of its own, from lo to hi."""
    f = tm.Function("sums", params=[N, lo, hi], assume="N >= 1")
    x = f.input("x", tm.float32, [N])
    s = f.computation("s", {i: (1, N)}, x[i] + x[i - 1], shape=[N])
    f.outputs(s)
    f.blocks(N, lo, hi)
    for array in (x, s):
        array.distribute_array([i], rank=i, bounds=(lo, hi))
    s.tag_distribute(i, bounds=(lo, hi))
    f.derive_transfers()
    return f


def over_ranks() -> tm.Function:
    """Ranks combine what they have summed."""
    f = tm.Function("total")
    x = f.input("x", tm.int32, [4])
    s = f.reduction("s", {}, {i: 4}, tm.sum, x[i])
    f.outputs(s)
    s.update.tag_distribute(i, combine=tm.TREE)
    return f


def all_at_once() -> tm.Function:
    """All ranks send to all in one call."""
    f = tm.Function("gathered")
    x = f.input("x", tm.int32, [4])
    y = f.computation("y", {i: 4, j: 4}, x[j])
    f.outputs(y)
    x.distribute_array([j], rank=j)
    y.distribute_array([i, j], rank=i)
    y.tag_distribute(i)
    sent, received = ({i: 4, k: 4, j: (i, i + 1)}, k != i), ({i: 4, k: 4, j: (k, k + 1)}, k != i)
    m = f.create_exchange(x[j], send=sent, to=k, recv=received, source=k, collective=True, name="m")
    f.order(m.send, m.recv, y, at=tm.root)
    return f


def chosen_requests() -> tm.Function:
    f = rank_programs.sums()
    m = rank_programs.exchange(f, [tm.NONBLOCK])
    m.send.collapse_many(j)
    m.recv.collapse_many(j)
    m.send.set_wait_access(0)
    f.order(m.send, m.recv, m.send.wait(), f["s"], at=tm.root)
    return f


def trees() -> tm.Function:
    """The threads of a block combine their partial results."""
    f = tm.Function("tree", params=[N, M])
    x = f.input("x", tm.int32, [N, M])
    s = f.reduction("s", {i: N}, {k: M}, tm.sum, x[i, k])
    f.outputs(s)
    s.init.tag_gpu(blocks=[i])
    s.update.split(k, 32, k0, k1).tag_gpu(blocks=[i], threads=[k1], combine=tm.TREE)
    f.derive_transfers()
    return f


def last_blocks() -> tm.Function:
    """Partial results of blocks in one array, and the last of them combines them."""
    f = tm.Function("norms", params=[N, M])
    x = f.input("x", tm.float32, [N, M])
    s = f.reduction("s", {i: N}, {k: M}, tm.sum, x[i, k])
    f.outputs(s)
    s.split(i, 4, i0, i1)
    s.update.split(k, 64, b, k)
    s.update.split(k, 32, k0, t)
    s.update.reorder(i0, b, i1, k0, t)
    s.update.tag_gpu(blocks=[i0, b], threads=[i1, t], combine=tm.TREE, across=tm.LAST_BLOCK)
    f.derive_transfers()
    return f


def calls() -> tm.Function:
    """A C function over whole arrays."""
    double = tm.extern_stage(
        "double_all",
        {"n": tm.int64, "x": tm.reads(tm.float32, 1), "y": tm.writes(tm.float32, 1)},
        lambda n, x: 2 * x,
        source="void double_all(int64_t n, const float *x, float *y) { while (n--) y[n] = 2 * x[n]; }",
    )
    f = tm.Function("called", params=[N])
    x = f.input("x", tm.float32, [N])
    f.outputs(f.stage("y", {i: N}, double(N, x[i])))
    return f


def conditions() -> tm.Function:
    """A value that exists where the values of another array say so."""
    f = tm.Function("inverse", params=[N])
    order = f.input("order", tm.int32, [N], values=(0, N), permutation=True)
    place = f.computation("place", {i: N, j: N}, tm.cast(tm.int32, i), where=order[i] == j)
    place.store_in(tm.Buffer("inverse", [N], tm.int32), [j])
    f.outputs(place)
    return f


def last() -> tm.Function:
    """The last term that is not zero: an operator that does not commute."""
    keep = tm.operator("keep", lambda a, b: tm.select(b == 0, a, b), 0, commutative=False)
    f = tm.Function("last", params=[N])
    x = f.input("x", tm.int32, [N])
    f.outputs(f.reduction("s", {}, {i: N}, keep, x[i]))
    return f


def facts() -> tm.Function:
    """No two iterations add to one value, since a permutation says so."""
    f = tm.Function("counted", params=[N])
    order = f.input("order", tm.int32, [N], values=(0, N), permutation=True)
    h = f.reduction("h", {j: N}, {i: N}, tm.sum, 1, where=order[i] == j)
    f.outputs(h)
    h.update.interchange(j, i)
    h.update.parallelize(i)
    return f


def persistent() -> tm.Function:
    """A few blocks run all, one after another, in the shared memory that they have."""
    f = gpu_programs.pair()
    p, q = f["p"], f["q"]
    q.split(i, 8, i0, i1).tag_gpu([i0], [i1], grid=2)
    p.compute_at(q, i0)
    p.store_in(tm.SHARED)
    p.split(i, 8, y, i1)
    p.tag_gpu(threads=[i1])
    f.derive_transfers()
    return f


def rows() -> tm.Function:
    """A buffer of one iteration of a loop of the host, on the GPU."""
    f = tm.Function("rows", params=[N, M], assume="N >= 1 and M >= 1")
    x = f.input("x", tm.float32, [N, M])
    p = f.computation("p", {i: N, j: M}, 2.0 * x[i, j])
    q = f.computation("q", {i: N, j: M}, p[i, j] + 1.0)
    f.outputs(q)
    p.compute_at(q, i)
    for each in (p, q):
        each.split(j, 8, k0, k1).tag_gpu([k0], [k1])
    f.derive_transfers()
    return f


def runs_by_position() -> tm.Function:
    """A sum of runs in one loop over positions, each of which has one run."""
    f = tm.Function("runs", params=[N, M])
    rows, a = f.segments("rows", N, of=M), f.input("a", tm.float32, [M])
    s = f.reduction("s", {i: N}, {k: rows[i]}, tm.sum, a[k])
    f.outputs(s)
    s.update.interchange(i, k)
    return f


def runs_of_blocks() -> tm.Function:
    """A block program that stores to the runs of a table."""
    f: tm.Function = module_of("sparse_rows").softmax()[0]
    return f


REFUSED: list[tuple[Callable[[], tm.Function], str]] = [
    (in_blocks, "blocks whose bounds are known only at run time"),
    (over_ranks, "combines partial results of its own"),
    (all_at_once, "is a call of all ranks"),
    (chosen_requests, "has requests that are chosen or kept"),
    (trees, "combines partial results of its own"),
    (last_blocks, "combines partial results of its own|goes on in the last of its blocks"),
    (calls, "is a call over whole arrays"),
    (conditions, "has a condition on values"),
    (last, "is not commutative"),
    (runs_by_position, r"s.update of runs runs only where i == int64\(rows_of\[k\]\), which follows from the runs"),
    (runs_of_blocks, "y of sparse_rows has a condition on values"),
    (facts, "would rely on values: the conditions of its updates"),
    (persistent, "one after another .grid=., with p in shared memory"),
    (rows, "exists for one iteration of a loop of the host"),
    (test_copies.lu, "finds a copy in place of"),
]
