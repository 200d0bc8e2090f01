"""Small algorithms for tests of commands; each builds a function and returns it with its handles by name."""

from __future__ import annotations

from types import SimpleNamespace

import tiramisu_py as tm

i, j, k, r, c, t, p = tm.iters("i j k r c t p")
i0, i1, j0, j1, k0, k1, r0, r1, c0, c1 = tm.iters("i0 i1 j0 j1 k0 k1 r0 r1 c0 c1")
d, e, t0, t1, y, x = tm.iters("d e t0 t1 y x")


def blur() -> SimpleNamespace:
    """Two stages: ``bx`` over R + 2 rows, ``by`` over R rows; float32."""
    R, C = tm.params("R C")
    f = tm.Function("blur", params=[R, C])
    image = f.input("image", tm.float32, [R + 2, C + 2])
    bx = f.computation("bx", {r: R + 2, c: C}, (image[r, c] + image[r, c + 1] + image[r, c + 2]) / 3)
    by = f.computation("by", {r: R, c: C}, (bx[r, c] + bx[r + 1, c] + bx[r + 2, c]) / 3)
    f.outputs(by)
    return SimpleNamespace(f=f, image=image, bx=bx, by=by, params=("R", "C"))


def pair() -> SimpleNamespace:
    """``q[i] = p[i] + p[i + 1]`` with ``p[i] = 2 * a[i]``; int32."""
    (N,) = tm.params("N")
    f = tm.Function("pair", params=[N])
    a = f.input("a", tm.int32, [N + 1])
    p_ = f.computation("p", {i: N + 1}, 2 * a[i])
    q = f.computation("q", {i: N}, p_[i] + p_[i + 1])
    f.outputs(q)
    return SimpleNamespace(f=f, a=a, p=p_, q=q, params=("N",))


def matmul() -> SimpleNamespace:
    """``C[i, j] = sum over k of A[i, k] * B[k, j]``; float32."""
    N, M, K = tm.params("N M K")
    f = tm.Function("mm", params=[N, M, K])
    A = f.input("A", tm.float32, [N, K])
    B = f.input("B", tm.float32, [K, M])
    C = f.reduction("C", {i: N, j: M}, over={k: K}, op=tm.sum, expr=A[i, k] * B[k, j])
    f.outputs(C)
    return SimpleNamespace(f=f, A=A, B=B, C=C, params=("N", "M", "K"))


def heat() -> SimpleNamespace:
    """A 1-D three-point recurrence over T + 1 time levels with fixed ends; float64."""
    T, N = tm.params("T N")
    f = tm.Function("heat", params=[T, N], assume="N >= 1")
    start = f.input("start", tm.float64, [N])
    h = f.computation(
        "h",
        {t: T + 1, i: N},
        lambda h: tm.select(
            (t == 0) | (i == 0) | (i == N - 1), start[i], (h[t - 1, i - 1] + h[t - 1, i] + h[t - 1, i + 1]) / 3
        ),
    )
    f.outputs(h)
    return SimpleNamespace(f=f, start=start, h=h, params=("T", "N"))


def triangle() -> SimpleNamespace:
    """A triangular domain: ``s[i, j] = a[i] - a[j]`` for j <= i; int64."""
    (N,) = tm.params("N")
    f = tm.Function("triangle", params=[N])
    a = f.input("a", tm.int64, [N])
    s = f.computation("s", {i: N, j: i + 1}, a[i] - a[j], shape=[N, N])
    f.outputs(s)
    return SimpleNamespace(f=f, a=a, s=s, params=("N",))


def scale() -> SimpleNamespace:
    """One point-wise stage over two dimensions: ``o[i, j] = 3 * a[i, j] + i - j``; int32."""
    N, M = tm.params("N M")
    f = tm.Function("scale", params=[N, M])
    a = f.input("a", tm.int32, [N, M])
    o = f.computation("o", {i: N, j: M}, 3 * a[i, j] + i - j)
    f.outputs(o)
    return SimpleNamespace(f=f, a=a, o=o, params=("N", "M"))


def volume() -> SimpleNamespace:
    """One stage over three dimensions; float32."""
    N, M, K = tm.params("N M K")
    f = tm.Function("volume", params=[N, M, K])
    a = f.input("a", tm.float32, [N, M, K])
    o = f.computation("o", {i: N, j: M, k: K}, a[i, j, k] * 0.5 + 1)
    f.outputs(o)
    return SimpleNamespace(f=f, a=a, o=o, params=("N", "M", "K"))


def chain() -> SimpleNamespace:
    """Three point-wise stages, p then q then z; int32."""
    (N,) = tm.params("N")
    f = tm.Function("chain", params=[N])
    a = f.input("a", tm.int32, [N])
    p_ = f.computation("p", {i: N}, a[i] + 1)
    q = f.computation("q", {i: N}, p_[i] * 2)
    z = f.computation("z", {i: N}, q[i] - a[i])
    f.outputs(z)
    return SimpleNamespace(f=f, a=a, p=p_, q=q, z=z, params=("N",))


def update() -> SimpleNamespace:
    """``b[i] = 2 * a[i]`` for i of the inner part of a, to be stored over a; int32."""
    (N,) = tm.params("N")
    f = tm.Function("update", params=[N], assume="N >= 1")
    a = f.input("a", tm.int32, [N])
    b = f.computation("b", {i: (1, N - 1)}, 2 * a[i], shape=[N])
    f.outputs(b)
    return SimpleNamespace(f=f, a=a, b=b, params=("N",))
