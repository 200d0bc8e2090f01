"""durbin: the solution of the Yule-Walker equations, by Durbin's recursion over the order of the system."""

from __future__ import annotations

import numpy as np
from kernel_story import Arguments, Array, Sizes, tell

import tiramisu_py as tm

(N,) = tm.params("N")
i, k = tm.iters("i k")
CLOSE = 1e-10
SIZES: dict[str, Sizes] = {
    "ONE": {"N": 1},
    "ODD": {"N": 67},
    "MINI": {"N": 40},
    "SMALL": {"N": 120},
    "LARGE": {"N": 2000},
}


def algorithm() -> tm.Function:
    """The solution y of order k + 1 from that of order k: plus alpha times its reverse; two orders are kept."""
    f = tm.Function("durbin", params=[N], assume="N >= 1")
    r = f.input("r", tm.float64, [N])
    with f.together() as g:
        s = g.reduction("s", {k: (1, N)}, {i: k}, tm.sum, lambda: r[k - i - 1] * y[k - 1, i])
        beta = g.computation(
            "beta", {k: N}, lambda: tm.select(k == 0, 1.0, (1 - alpha[k - 1] * alpha[k - 1]) * beta[k - 1])
        )
        alpha = g.computation("alpha", {k: N}, lambda: tm.select(k == 0, -r[0], -(r[k] + s[k]) / beta[k]))
        y = g.computation(
            "y",
            {k: N, i: k + 1},
            lambda: tm.select(i == k, alpha[k], y[k - 1, i] + alpha[k] * y[k - 1, k - 1 - i]),
        )
    f.outputs(y[N - 1, i])
    y.fold(k, 2)
    return f


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """The terms of a sum, and the elements of y, in vectors."""
    lanes = (cpu or tm.target()).lanes(tm.float64)
    f = algorithm()
    f["s"].update.vectorize(i, lanes, combine=tm.PRIVATE)
    f["y"].vectorize(i, lanes, remainder="mask")
    return f


def sample(sizes: Sizes) -> Arguments:
    """Correlations that fall off: a positive definite Toeplitz matrix with ones on its diagonal."""
    return {"r": 0.5 ** np.arange(1, sizes["N"] + 1) + 0.1 / np.arange(2, sizes["N"] + 2)}


def exact(given: Arguments) -> tuple[Array, ...]:
    """The system of equations itself, solved by LAPACK."""
    r = given["r"]
    n = len(r)
    columns = np.concatenate([[1.0], r])
    toeplitz = columns[abs(np.arange(n)[:, None] - np.arange(n))]
    return (np.linalg.solve(toeplitz, -r),)


if __name__ == "__main__":
    tell(algorithm, scheduled, SIZES, sample, exact, CLOSE)
