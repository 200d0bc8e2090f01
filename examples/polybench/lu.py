"""lu: A = L U with ones on the diagonal of L, without pivoting."""

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
    """Below the diagonal the elements of L, elsewhere those of U, from those to the left and above; in place."""
    f = tm.Function("lu", params=[N], assume="N >= 1")
    A = f.input("A", tm.float64, [N, N])
    with f.together() as g:
        s = g.reduction("s", {i: N, j: N}, {k: tm.min(i, j)}, tm.sum, lambda: a[i, k] * a[k, j])
        a = g.computation("a", {i: N, j: N}, lambda: tm.select(j < i, (A[i, j] - s[i, j]) / a[j, j], A[i, j] - s[i, j]))
    f.outputs(a)
    a.store_in(A, [i, j])
    return f


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """As declared."""
    return algorithm()


def sample(sizes: Sizes) -> Arguments:
    """A random matrix with a large diagonal, which needs no pivoting."""
    n = sizes["N"]
    return {"A": np.random.default_rng(0).random((n, n)) + n * np.eye(n)}


def exact(given: Arguments) -> tuple[Array, ...]:
    """Elimination of a column after the other."""
    A: Array = given["A"].copy()
    for step in range(len(A) - 1):
        A[step + 1 :, step] /= A[step, step]
        A[step + 1 :, step + 1 :] -= np.outer(A[step + 1 :, step], A[step, step + 1 :])
    return (A,)


if __name__ == "__main__":
    tell(algorithm, scheduled, SIZES, sample, exact, CLOSE)
