"""Small programs with a certificate: a stage and its reader, rings, recurrences, reductions, tiles, inlined values."""

from __future__ import annotations

import tiramisu_py as tm

N, M, T = tm.params("N M T")
i, j, k, t = tm.iters("i j k t")
i0, i1, j0, j1 = tm.iters("i0 i1 j0 j1")


def stages() -> tm.Function:
    f = tm.Function("stages", params=[N], assume="N >= 2")
    x = f.input("x", tm.float32, [N])
    p = f.computation("p", {i: N}, 2.0 * x[i])
    q = f.computation("q", {i: N - 1}, p[i] + p[i + 1])
    f.outputs(q)
    return f


def ring() -> tm.Function:
    """A stage that is computed just before its reader, in a ring of four elements."""
    f = tm.Function("ring", params=[N], assume="N >= 3")
    x = f.input("x", tm.float32, [N])
    p = f.computation("p", {i: N}, 2.0 * x[i])
    q = f.computation("q", {i: N - 2}, p[i] + p[i + 1] + p[i + 2])
    f.outputs(q)
    p.shift(i, -2)
    p.fuse(q, i)
    p.fold(i, 4)
    return f


def recurrence() -> tm.Function:
    f = tm.Function("recurrence", params=[T, N], assume="T >= 1 and N >= 3")
    x = f.input("x", tm.float64, [N])
    h = f.computation("h", {t: T + 1, i: N}, lambda h: _step(x, h))
    f.outputs(h)
    return f


def _step(x: tm.Input, h: tm.Computation) -> tm.Expr:
    inside = 0.5 * (h[t - 1, i - 1] + h[t - 1, i + 1])
    return tm.select(t == 0, x[i], tm.select((i > 0) & (i < N - 1), inside, h[t - 1, i]))


def tiled_recurrence() -> tm.Function:
    f = recurrence()
    h = f["h"]
    h.skew(t, i, 1)
    h.tile(t, i, 8, 16, i0, j0, i1, j1)
    return f


def total() -> tm.Function:
    f = tm.Function("total", params=[N, M])
    x = f.input("x", tm.float32, [N, M])
    s = f.reduction("s", {i: N}, {k: M}, tm.sum, x[i, k])
    o = f.computation("o", {i: N}, s[i] / 2.0)
    f.outputs(o)
    return f


def shared_total() -> tm.Function:
    f = total()
    s = f["s"]
    s.update.interchange(i, k)
    s.update.parallelize(k, combine=tm.PRIVATE)
    return f


def read_beside(combine: tm.Combine = tm.ATOMIC) -> tm.Function:
    """Each iteration adds to both sums, atomically; the fourth adds all there is of one, which is read there."""
    f = tm.Function("beside", params=[])
    x = f.input("x", tm.float32, [10])
    s = f.reduction("s", {i: 2}, {k: (3 * i, 10 - 6 * i)}, tm.sum, x[k])
    o = f.computation("o", {k: (3, 4)}, 2.0 * s[k - 2])
    f.outputs(o, f.computation("w", {i: 2}, 2.0 * s[i]))
    s.update.interchange(i, k)
    s.update.parallelize(k, combine=combine)
    o.fuse(s.update, k)
    return f


def tiled_product() -> tm.Function:
    f = tm.Function("product", params=[N, M])
    a, b = f.input("a", tm.float32, [N, M]), f.input("b", tm.float32, [M, N])
    c = f.reduction("c", {i: N, j: N}, {k: M}, tm.sum, a[i, k] * b[k, j])
    f.outputs(c)
    c.tile(i, j, 16, 32, i0, j0, i1, j1).parallelize(i0).vectorize(j1, 8)
    return f


def bands() -> tm.Function:
    """A producer computed again in each band of its reader, with vectors; a value that is inlined."""
    f = tm.Function("bands", params=[N, M], assume="N >= 3")
    x = f.input("x", tm.float32, [N, M])
    y = f.computation("y", {i: N, j: M}, x[i, j] + 1.0)
    p = f.computation("p", {i: N, j: M}, 2.0 * y[i, j])
    q = f.computation("q", {i: N - 2, j: M}, p[i, j] + p[i + 2, j])
    f.outputs(q)
    y.inline()
    q.split(i, 8, i0, i1).parallelize(i0).vectorize(j, 8)
    p.compute_at(q, i0)
    return f


ALL = [stages, ring, recurrence, tiled_recurrence, total, shared_total, read_beside, tiled_product, bands]
