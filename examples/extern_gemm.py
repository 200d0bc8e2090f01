"""A C function over whole arrays as a statement: a layer of a network, whose product a library computes.

The rows of x are scaled to a sum of one, `gemm` adds their product with the weights to the bias in place, and the last
computation keeps what is positive. `gemm` stands for any library: here it is a few lines of C that are compiled with
the generated code. With a BLAS, `header="<cblas.h>"` and `libraries=["openblas"]` take the place of `source=` (see the
chapter on libraries of the guide). Two schedules: as declared, and with threads that share the rows in blocks, so that
each thread calls the library for its own ones.
"""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm

SOURCE = """
/* c += a @ b, of matrices in rows whose leading dimensions are lda, ldb and ldc. */
static void gemm(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb, float *c,
                 int64_t ldc)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t p = 0; p < k; p++)
            for (int64_t j = 0; j < n; j++) c[i * ldc + j] += a[i * lda + p] * b[p * ldb + j];
}
"""
gemm = tm.extern_stage(
    "gemm",
    {
        "m": tm.int64,
        "n": tm.int64,
        "k": tm.int64,
        "a": tm.reads(tm.float32, 2),
        "lda": tm.stride("a", 0),
        "b": tm.reads(tm.float32, 2),
        "ldb": tm.stride("b", 0),
        "c": tm.updates(tm.float32, 2),
        "ldc": tm.stride("c", 0),
    },
    lambda m, n, k, a, b, c: c + a @ b,
    source=SOURCE,
)

Q, N, K = tm.params("Q N K")
q, r, j, k = tm.iters("q r j k")
ROWS = 16


def layer() -> tm.Function:
    """``max(x / sum(x) @ w + bias, 0)``, of blocks of 16 rows."""
    f = tm.Function("layer", params=[Q, N, K], assume="K >= 1")
    x = f.input("x", tm.float32, [Q, ROWS, K])
    w, bias = f.input("w", tm.float32, [K, N]), f.input("bias", tm.float32, [N])
    total = f.reduction("total", {q: Q, r: ROWS}, {k: K}, tm.sum, x[q, r, k])
    scaled = f.computation("scaled", {q: Q, r: ROWS, k: K}, x[q, r, k] / total[q, r])
    start = f.computation("start", {q: Q, r: ROWS, j: N}, bias[j])
    call = gemm(ROWS, N, K, scaled[q, r, k], w[k, j], start[q, r, j])
    product = f.stage("product", {q: Q, r: ROWS, j: N}, call, over={k: K}, each=[q])
    f.outputs(f.computation("out", {q: Q, r: ROWS, j: N}, tm.maximum(product[q, r, j], 0)))
    product.store_in(start, [q, r, j])  # where gemm adds
    return f


def in_threads() -> tm.Function:
    """The same with a loop over blocks of rows that threads share; each of them calls gemm."""
    f = layer()
    f["product"].parallelize(q)
    for name, inner in (("scaled", k), ("out", j)):
        f[name].parallelize(q)
        f[name].vectorize(inner, 16)
    return f


def compare(name: str, f: tm.Function) -> None:
    """Against NumPy, at a single row of one number, and at sizes that nothing divides."""
    kernel, rng = f.compile(), np.random.default_rng(1)
    for blocks, columns, depth in ((1, 1, 1), (0, 3, 2), (3, 31, 17)):
        x = rng.random((blocks, ROWS, depth), dtype=np.float32)
        w, bias = rng.standard_normal((depth, columns), np.float32), rng.standard_normal(columns, np.float32)
        right = np.maximum(x / x.sum(axis=2, keepdims=True) @ w + bias, 0)
        np.testing.assert_allclose(kernel(x, w, bias), right, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(f.evaluate(x, w, bias), right, rtol=1e-4, atol=1e-5)
    print(f"{name}: equal to NumPy")


f = layer()
compare("as declared", f)
print(f.check())
compare("in threads", in_threads())

# the product overwrites the bias that is kept there: who reads it afterwards is refused
late = layer()
late["product"].before(late["start"], tm.root)
refused = late.check().violations[0]
print(f"refused: {refused.message}\nrepair:  {refused.repair}")
assert refused.kind in ("order", "overwritten")
print("right: the calls compute what NumPy does, where the schedule says")
