"""Linformer: keys and values are projected to a few rows, so that attention is dense products, linear in the length.

No pattern is needed: `recipes.matmul` schedules the products, and the softmax is computed row by row.

Source: Wang et al., "Linformer: Self-attention with linear complexity" (2020); Tillet, "Blocked Algorithms for Neural
Networks" (2020), 6.1, as the alternative that sparse blocks are not needed for.
"""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm

L, D, R = tm.params("L D R")  # tokens, the width of a head, rows that keys and values are projected to
m, d, r = tm.iters("m d r")


def attention() -> tm.Function:
    """softmax(Q (P K)^T / sqrt(D)) (F V), with P and F of R x L."""
    f = tm.Function("linformer", params=[L, D, R], assume="L >= 1 and D >= 1 and R >= 1")
    Q, Key, Val = (f.input(name, tm.float32, [L, D]) for name in ("Q", "Key", "Val"))
    P, F = (f.input(name, tm.float32, [R, L]) for name in ("P", "F"))
    near = f.reduction("near", {r: R, d: D}, {m: L}, tm.sum, P[r, m] * Key[m, d])
    far = f.reduction("far", {r: R, d: D}, {m: L}, tm.sum, F[r, m] * Val[m, d])
    s = f.reduction("s", {m: L, r: R}, {d: D}, tm.sum, Q[m, d] * near[r, d])
    scaled = f.computation("scaled", {m: L, r: R}, s[m, r] / tm.sqrt(tm.cast(tm.float32, D)))
    top = f.reduction("top", {m: L}, {r: R}, tm.max, scaled[m, r])
    power = f.computation("power", {m: L, r: R}, tm.exp(scaled[m, r] - top[m]))
    total = f.reduction("total", {m: L}, {r: R}, tm.sum, power[m, r])
    share = f.computation("share", {m: L, r: R}, power[m, r] / total[m])
    out = f.reduction("out", {m: L, d: D}, {r: R}, tm.sum, share[m, r] * far[r, d])
    f.outputs(out)
    for product in (near, far, scaled, out):
        tm.recipes.matmul(product)
    share.parallelize(m)
    for each in (total, power, top):
        each.compute_at(share, m)
    for each in (share, power):
        each.vectorize(r, tm.target().lanes(tm.float32), remainder="mask")
    return f


def dense(Q: np.ndarray, Key: np.ndarray, Val: np.ndarray, P: np.ndarray, F: np.ndarray) -> np.ndarray:
    """The same in NumPy, in float64."""
    Q, Key, Val, P, F = (each.astype(np.float64) for each in (Q, Key, Val, P, F))
    s = Q @ (P @ Key).T / Q.shape[1] ** 0.5
    power = np.exp(s - s.max(1, keepdims=True))
    return np.asarray(power / power.sum(1, keepdims=True) @ (F @ Val))


def products(f: tm.Function, length: int, rows: int) -> int:
    """Multiplications of the two products with attention scores."""
    cost = f.cost(L=length, D=64, R=rows)
    return sum(int(each.instances) for each in cost.statements if each.name.split("_")[0].split(".")[0] in ("s", "out"))


if __name__ == "__main__":
    f = attention()
    print(str(f.check()).splitlines()[0])
    kernel, numbers = f.compile(fast=("contract",)), np.random.default_rng(0)
    for length, width, rows in ((1, 1, 1), (37, 16, 8), (130, 64, 32)):
        q, key, val = (numbers.standard_normal((length, width), np.float32) for _ in range(3))
        p, across = (numbers.standard_normal((rows, length), np.float32) / np.float32(length**0.5) for _ in range(2))
        np.testing.assert_allclose(kernel(q, key, val, p, across), dense(q, key, val, p, across), rtol=1e-3, atol=1e-4)
    assert products(f, 4096, 64) == 2 * products(f, 2048, 64)  # linear in the length
    print("right: as in NumPy, and twice the tokens are twice the products")
