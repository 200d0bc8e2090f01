"""Programs in several forms that give equal values, and the same with a mistake."""

from __future__ import annotations

from typing import Any

import tiramisu_py as tm

M, N, K, H, W, C = tm.params("M N K H W C")
i, j, k, t, q, b, h, w, c, r, s = tm.iters("i j k t q b h w c r s")


def product(turned: bool = False, dtype: Any = tm.float32, top: int = 0) -> tm.Function:
    """``C = A @ B``, one sum."""
    f = tm.Function("algorithm", params=[M, N, K])
    A, B = f.input("A", dtype, [M, K]), f.input("B", dtype, [K, N])
    left, right = (tm.cast(tm.float32, each) for each in (A[i, k], B[k, j]))
    term = right * left if turned else left * right
    f.outputs(f.reduction("C", {i: M, j: N}, {k: K + top}, tm.sum, term) if not top else _clipped(f, A, B, top))
    return f


def _clipped(f: tm.Function, A: Any, B: Any, top: int) -> Any:
    return f.reduction("C", {i: M, j: N}, {k: (top, K)}, tm.sum, A[i, k] * B[k, j])


def blocks(size: int = 16, masked: bool = True, first: float = 0.0, step: int = 1) -> tm.Function:
    """The same as a program over blocks of k: padded loads, a product of blocks, a sum that is carried."""
    f = tm.Function("blocks", params=[M, N, K])
    A, B = f.input("A", tm.float32, [M, K]), f.input("B", tm.float32, [K, N])
    count = (K + size - 1) // size
    at = tm.minimum(t * size + q, K - 1)
    inside = t * size + q < (K if masked else K - 1)
    a = f.computation("a", {i: M, t: count, q: size}, tm.select(t * size + q < K, A[i, at], 0.0))
    d = f.computation("b", {t: count, q: size, j: N}, tm.select(inside, B[at, j], 0.0))
    dot = f.reduction("dot", {i: M, j: N, t: count}, {q: size}, tm.sum, a[i, t, q] * d[t, q, j])
    acc = f.computation(
        "acc", {i: M, j: N, t: count + 1},
        lambda acc: tm.select(t >= step, acc[i, j, t - step] + dot[i, j, t - 1], first),
    )  # fmt: skip
    f.outputs(f.computation("C", {i: M, j: N}, acc[i, j, count]))
    return f


def split(parts: int, size: int = 8) -> tm.Function:
    """A sum in parts: each part carries a sum over every so many blocks."""
    f = tm.Function(f"split_{parts}", params=[N])
    x = f.input("x", tm.float32, [N])
    count = (N + parts * size - 1) // (parts * size)
    at = (t * parts + b) * size + q
    part = f.reduction("part", {b: parts, t: count}, {q: size}, tm.sum,
                       tm.select(at < N, x[tm.minimum(at, N - 1)], 0.0))  # fmt: skip
    acc = f.computation(
        "acc", {b: parts, t: count + 1}, lambda acc: tm.select(t > 0, acc[b, t - 1] + part[b, t - 1], 0.0)
    )
    f.outputs(f.reduction("y", {}, {b: parts}, tm.sum, acc[b, count]))
    return f


def convolution(tile: int = 0, shift: int = 0) -> tm.Function:
    """A convolution of 3 x 3, directly, or as a product with the rows of a matrix that nobody makes, in tiles."""
    f = tm.Function(f"convolution_{tile}", params=[C, H, W], assume="H >= 4 and W >= 4 and C >= 1")
    x, weights = f.input("x", tm.float32, [C, H, W]), f.input("weights", tm.float32, [C, 3, 3])
    domain = {h: H - 3, w: W - 3}
    if not tile:
        term = x[c, h + r, w + s] * weights[c, r, s]
        f.outputs(f.reduction("y", domain, {c: C, r: 3, s: 3}, tm.sum, term))
        return f
    n = t * tile + q
    at = tm.minimum(n // 9, C - 1), n % 9 // 3, n % 3
    value = x[at[0], h + at[1], w + at[2] + shift] * weights[at[0], at[1], at[2]]
    count = (C * 9 + tile - 1) // tile
    part = f.reduction("part", {**domain, t: count}, {q: tile}, tm.sum, tm.select(n < 9 * C, value, 0.0))
    f.outputs(f.reduction("y", domain, {t: count}, tm.sum, part[h, w, t]))
    return f


def softmax(in_steps: bool, base: Any = tm.exp) -> tm.Function:
    """Rows scaled to sum 1, with the exponentials kept or computed twice."""
    f = tm.Function(f"softmax_{int(in_steps)}", params=[M, N], assume="N >= 1")
    x = f.input("x", tm.float32, [M, N])
    top = f.reduction("top", {i: M}, {j: N}, tm.max, x[i, j])
    if in_steps:
        e = f.computation("e", {i: M, j: N}, base(x[i, j] - top[i]))
        total = f.reduction("total", {i: M}, {k: N}, tm.sum, e[i, k])
        f.outputs(f.computation("y", {i: M, j: N}, e[i, j] / total[i]))
    else:
        total = f.reduction("sums", {i: M}, {k: N}, tm.sum, base(x[i, k] - top[i]))
        f.outputs(f.computation("y", {i: M, j: N}, base(x[i, j] - top[i]) / total[i]))
    return f


def chain(from_the_right: bool) -> tm.Function:
    """``A @ B @ v``, from the left or from the right."""
    f = tm.Function(f"chain_{int(from_the_right)}", params=[M, N, K])
    A, B, v = f.input("A", tm.float32, [M, K]), f.input("B", tm.float32, [K, N]), f.input("v", tm.float32, [N])
    if from_the_right:
        u = f.reduction("u", {k: K}, {j: N}, tm.sum, B[k, j] * v[j])
        f.outputs(f.reduction("y", {i: M}, {k: K}, tm.sum, A[i, k] * u[k]))
    else:
        u = f.reduction("u", {i: M, j: N}, {k: K}, tm.sum, A[i, k] * B[k, j])
        f.outputs(f.reduction("y", {i: M}, {j: N}, tm.sum, u[i, j] * v[j]))
    return f


def gram(turned: bool = False, squares: bool = False) -> tm.Function:
    """``A @ A.T``: both factors are elements of one array."""
    f = tm.Function("gram", params=[M, K])
    A = f.input("A", tm.float32, [M, K])
    left, right = (A[j, k], A[i, k]) if turned else (A[i, k], A[i if squares else j, k])
    f.outputs(f.reduction("G", {i: M, j: M}, {k: K}, tm.sum, left * right))
    return f


def histogram(by_select: bool, at: int = 0) -> tm.Function:
    """Sums by the value of an index array, as a scatter or with a choice in each term."""
    f = tm.Function("histogram", params=[N])
    index, x = f.input("index", tm.int32, [N], values=(0, 8)), f.input("x", tm.float32, [N])
    if by_select:
        f.outputs(f.reduction("y", {b: 8}, {i: N}, tm.sum, tm.select(b + at == index[i], x[i], 0.0)))
    else:
        f.outputs(f.reduction("y", {b: 8}, {i: N}, tm.sum, x[i], where=index[i] == b))
    return f


def halo(pieces: bool, edge: int = 0) -> tm.Function:
    """A sum of neighbours, clipped at the ends: by one expression, or in pieces."""
    f = tm.Function(f"halo_{int(pieces)}", params=[N], assume="N >= 3")
    x = f.input("x", tm.float32, [N])
    if pieces:
        inner = x[tm.maximum(i - 1, 0)] + x[tm.minimum(i + 1, N - 1)]
        ends = tm.select(i == 0, x[0] + x[1], x[N - 1] + x[N - 2 + edge])
        f.outputs(f.computation("y", {i: N}, tm.select((i > 0) & (i < N - 1), inner, ends)))
    else:
        f.outputs(f.computation("y", {i: N}, x[tm.maximum(i - 1, 0)] + x[tm.minimum(i + 1, N - 1)]))
    return f
