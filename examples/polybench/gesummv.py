"""gesummv: y = alpha A x + beta B x, two products of matrices with a vector."""

from __future__ import annotations

from kernel_story import Arguments, Array, Sizes, filled, tell

import tiramisu_py as tm

(N,) = tm.params("N")
i, j = tm.iters("i j")
CLOSE = 1e-12
SIZES: dict[str, Sizes] = {
    "ONE": {"N": 1},
    "ODD": {"N": 67},
    "MINI": {"N": 30},
    "SMALL": {"N": 90},
    "LARGE": {"N": 1300},
}


def algorithm() -> tm.Function:
    """Both products, and their sum."""
    f = tm.Function("gesummv", params=[N], assume="N >= 1")
    alpha, beta = f.scalar("alpha", tm.float64), f.scalar("beta", tm.float64)
    A, B = f.input("A", tm.float64, [N, N]), f.input("B", tm.float64, [N, N])
    x = f.input("x", tm.float64, [N])
    Ax = f.reduction("Ax", {i: N}, {j: N}, tm.sum, A[i, j] * x[j])
    Bx = f.reduction("Bx", {i: N}, {j: N}, tm.sum, B[i, j] * x[j])
    y = f.computation("y", {i: N}, alpha * Ax[i] + beta * Bx[i])
    f.outputs(y)
    return f


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """Both products of a row at a time, with four vectors of partial sums each."""
    lanes = (cpu or tm.target()).lanes(tm.float64)
    f = algorithm()
    f["y"].parallelize(i)
    for product, matrix in ((f["Ax"], f["A"]), (f["Bx"], f["B"])):
        product.compute_at(f["y"], i)
        product.update.vectorize(j, 4 * lanes, combine=tm.PRIVATE)
        product.update.prefetch(matrix, j, 512)
    return f


def sample(sizes: Sizes) -> Arguments:
    """PolyBench's values."""
    n = sizes["N"]
    return {
        "alpha": 1.5,
        "beta": 1.2,
        "A": filled(lambda r, c: (r * c + 1) % n / n, n, n),
        "B": filled(lambda r, c: (r * c + 2) % n / n, n, n),
        "x": filled(lambda r: r % n / n, n),
    }


def exact(given: Arguments) -> tuple[Array, ...]:
    """NumPy's products."""
    return (given["alpha"] * given["A"] @ given["x"] + given["beta"] * given["B"] @ given["x"],)


if __name__ == "__main__":
    tell(algorithm, scheduled, SIZES, sample, exact, CLOSE)
