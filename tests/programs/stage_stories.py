"""Functions that call C functions over whole arrays, for tests: a product, one that adds in place, and a solver."""

from __future__ import annotations

from typing import Any

import numpy as np

import tiramisu_py as tm

B, M, N, K = tm.params("B M N K")
n, i, j, k, p = tm.iters("n i j k p")
Array = np.ndarray[Any, np.dtype[Any]]

GEMM = """
static void gemm(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb, float *c,
                 int64_t ldc)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            c[i * ldc + j] = 0;
            for (int64_t p = 0; p < k; p++) c[i * ldc + j] += a[i * lda + p] * b[p * ldb + j];
        }
}
"""
ADD = GEMM.replace("void gemm", "void gemm_add").replace("c[i * ldc + j] = 0;", "")
SOLVE = """
static void solve(int64_t n, const double *l, int64_t ldl, const double *b, double *x)
{
    for (int64_t i = 0; i < n; i++) {
        double rest = b[i];
        for (int64_t j = 0; j < i; j++) rest -= l[i * ldl + j] * x[j];
        x[i] = rest / l[i * ldl + i];
    }
}
"""

_SIZES = {"m": tm.int64, "n": tm.int64, "k": tm.int64}
_READ = {
    "a": tm.reads(tm.float32, 2), "lda": tm.stride("a", 0), "b": tm.reads(tm.float32, 2), "ldb": tm.stride("b", 0),
}  # fmt: skip
gemm = tm.extern_stage(
    "gemm", {**_SIZES, **_READ, "c": tm.writes(tm.float32, 2), "ldc": tm.stride("c", 0)},
    lambda m, n, k, a, b: a @ b, source=GEMM,
)  # fmt: skip
gemm_add = tm.extern_stage(
    "gemm_add", {**_SIZES, **_READ, "c": tm.updates(tm.float32, 2), "ldc": tm.stride("c", 0)},
    lambda m, n, k, a, b, c: c + a @ b, source=ADD,
)  # fmt: skip
solve = tm.extern_stage(
    "solve",
    {"n": tm.int64, "l": tm.reads(tm.float64, 2), "ldl": tm.stride("l", 0), "b": tm.reads(tm.float64, 1),
     "x": tm.writes(tm.float64, 1)},
    lambda n, rows, b: np.linalg.solve(np.tril(rows), b), source=SOLVE,
)  # fmt: skip


def product() -> tm.Function:
    """``d = 2 * ((a + 1) @ b)``: a computation before the call, and one after it."""
    f = tm.Function("f", params=[M, N, K])
    a, b = f.input("a", tm.float32, [M, K]), f.input("b", tm.float32, [K, N])
    a1 = f.computation("a1", {i: M, k: K}, a[i, k] + 1)
    c = f.stage("c", {i: M, j: N}, gemm(M, N, K, a1[i, k], b[k, j]), over={k: K})
    f.outputs(f.computation("d", {i: M, j: N}, 2 * c[i, j]))
    return f


def products() -> tm.Function:
    """``c[n] = a[n] @ b[n]``: one call for each n."""
    f = tm.Function("f", params=[B, M, N, K])
    a, b = f.input("a", tm.float32, [B, M, K]), f.input("b", tm.float32, [B, K, N])
    f.outputs(f.stage("c", {n: B, i: M, j: N}, gemm(M, N, K, a[n, i, k], b[n, k, j]), over={k: K}, each=[n]))
    return f


def sums() -> tm.Function:
    """``c = 3 * y + a @ b``, where c is kept in place of ``3 * y``."""
    f = tm.Function("f", params=[M, N, K])
    a, b, y = f.input("a", tm.float32, [M, K]), f.input("b", tm.float32, [K, N]), f.input("y", tm.float32, [M, N])
    y3 = f.computation("y3", {i: M, j: N}, 3 * y[i, j])
    c = f.stage("c", {i: M, j: N}, gemm_add(M, N, K, a[i, k], b[k, j], y3[i, j]), over={k: K})
    f.outputs(f.computation("d", {i: M, j: N}, c[i, j] - 1))
    return f


def triangle() -> tm.Function:
    """``x = inv(l) @ b``, of a triangle: the other elements of its array are never computed."""
    f = tm.Function("f", params=[N])
    a, b = f.input("a", tm.float64, [N, N]), f.input("b", tm.float64, [N])
    lower = f.computation("l", {i: N, j: (0, i + 1)}, a[i, j] + 1)
    f.outputs(f.stage("x", {i: N}, solve(N, lower[p, k], b[i]), over={p: N, k: (0, p + 1)}))
    return f


def whole(*shape: int, seed: int = 0) -> Array:
    """Small whole numbers, of which every product is exact."""
    return np.random.default_rng(seed).integers(-4, 5, size=shape).astype(np.float32)
