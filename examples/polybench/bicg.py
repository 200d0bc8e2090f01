"""bicg: q = A p and s = A^T r, the products of a step of the biconjugate gradient method."""

from __future__ import annotations

from kernel_story import Arguments, Array, Sizes, filled, tell

import tiramisu_py as tm

M, N = tm.params("M N")
i, j, i0, i1 = tm.iters("i j i0 i1")
CLOSE = 1e-12
SIZES: dict[str, Sizes] = {
    "ONE": {"M": 1, "N": 1},
    "ODD": {"M": 35, "N": 67},
    "MINI": {"M": 38, "N": 42},
    "SMALL": {"M": 116, "N": 124},
    "LARGE": {"M": 1900, "N": 2100},
}


def algorithm() -> tm.Function:
    """Both products."""
    f = tm.Function("bicg", params=[M, N], assume="M >= 1 and N >= 1")
    A = f.input("A", tm.float64, [N, M])
    p, r = f.input("p", tm.float64, [M]), f.input("r", tm.float64, [N])
    s = f.reduction("s", {j: M}, {i: N}, tm.sum, r[i] * A[i, j])
    q = f.reduction("q", {i: N}, {j: M}, tm.sum, A[i, j] * p[j])
    f.outputs(s, q)
    return f


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """Eight rows of A at a time, read from memory once: their products with a vector, then their sum, weighted.

    Threads share the blocks of rows, and have sums of columns of their own.
    """
    lanes = (cpu or tm.target()).lanes(tm.float64)
    f = algorithm()
    s, q = f["s"], f["q"]
    s.update.split(i, 8, i0, i1)
    block = s.update.rfactor(i0)
    s.update.reorder(i0, j)
    s.update.parallelize(i0, combine=tm.PRIVATE)
    s.update.vectorize(j, 2 * lanes, remainder="mask")
    block.compute_at(s.update, j)
    block.store_in(tm.REGISTER)
    block.update.unroll(i, remainder="specialize")
    q.update.split(i, 8, i0, i1)
    q.update.parallelize(i0)
    q.update.vectorize(j, 4 * lanes, combine=tm.PRIVATE)
    q.update.prefetch(f["A"], j, 512)
    s.update.after(q.update, i0)
    return f


def sample(sizes: Sizes) -> Arguments:
    """PolyBench's values."""
    m, n = sizes["M"], sizes["N"]
    return {
        "A": filled(lambda r, c: r * (c + 1) % n / n, n, m),
        "p": filled(lambda r: r % m / m, m),
        "r": filled(lambda r: r % n / n, n),
    }


def exact(given: Arguments) -> tuple[Array, ...]:
    """NumPy's products."""
    return given["r"] @ given["A"], given["A"] @ given["p"]


if __name__ == "__main__":
    tell(algorithm, scheduled, SIZES, sample, exact, CLOSE)
