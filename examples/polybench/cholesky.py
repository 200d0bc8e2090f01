"""cholesky: the lower triangle L with A = L L^T, where A is symmetric and positive definite."""

from __future__ import annotations

import numpy as np
from kernel_story import Arguments, Array, Sizes, tell

import tiramisu_py as tm

(N,) = tm.params("N")
i, j, k = tm.iters("i j k")
CLOSE = 1e-12
SIZES: dict[str, Sizes] = {
    "ONE": {"N": 1},
    "ODD": {"N": 67},
    "MINI": {"N": 40},
    "SMALL": {"N": 120},
    "LARGE": {"N": 2000},
}


def algorithm() -> tm.Function:
    """Each element from the rows of L to its left; L takes the place of the lower triangle of A."""
    f = tm.Function("cholesky", params=[N], assume="N >= 1")
    A = f.input("A", tm.float64, [N, N])
    with f.together() as g:
        s = g.reduction("s", {i: N, j: i + 1}, {k: j}, tm.sum, lambda: L[i, k] * L[j, k])
        L = g.computation(
            "L",
            {i: N, j: i + 1},
            lambda: tm.select(i == j, tm.sqrt(A[i, j] - s[i, j]), (A[i, j] - s[i, j]) / L[j, j]),
            shape=[N, N],
        )
    f.outputs(L)
    L.store_in(A, [i, j])
    return f


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """As declared."""
    return algorithm()


def sample(sizes: Sizes) -> Arguments:
    """A positive definite matrix, with the eigenvalues of a random one."""
    n = sizes["N"]
    root = np.random.default_rng(0).random((n, n))
    return {"A": root @ root.T / n + np.eye(n)}


def exact(given: Arguments) -> tuple[Array, ...]:
    """LAPACK's factor, below the diagonal of A as it was."""
    A = given["A"]
    return (np.tril(np.linalg.cholesky(A)) + np.triu(A, 1),)


if __name__ == "__main__":
    tell(algorithm, scheduled, SIZES, sample, exact, CLOSE)
