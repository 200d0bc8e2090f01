"""ludcmp: the solution of A x = b by factors L U, and substitution forwards and backwards."""

from __future__ import annotations

import numpy as np
from kernel_story import Arguments, Array, Sizes, tell
from lu import in_tiles

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
    """The factors as in `lu`, in the place of A; then L y = b, and U x = y from the last element to the first."""
    f = tm.Function("ludcmp", params=[N], assume="N >= 1")
    A, b = f.input("A", tm.float64, [N, N]), f.input("b", tm.float64, [N])
    with f.together() as g:
        s = g.reduction("s", {i: N, j: N}, {k: tm.min(i, j)}, tm.sum, lambda: a[i, k] * a[k, j])
        a = g.computation("a", {i: N, j: N}, lambda: tm.select(j < i, (A[i, j] - s[i, j]) / a[j, j], A[i, j] - s[i, j]))
    with f.together() as g:
        below = g.reduction("below", {i: N}, {j: i}, tm.sum, lambda: a[i, j] * y[j])
        y = g.computation("y", {i: N}, lambda: b[i] - below[i])
    with f.together() as g:
        above = g.reduction("above", {i: N}, {j: (i + 1, N)}, tm.sum, lambda: a[i, j] * x[j])
        x = g.computation("x", {i: N}, lambda: (y[i] - above[i]) / a[i, i])
    f.outputs(a, y, x)
    a.store_in(A, [i, j])
    return f


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """The factors in tiles, as in `lu`."""
    f = algorithm()
    in_tiles(f, cpu or tm.target())
    return f


def sample(sizes: Sizes) -> Arguments:
    """A random matrix with a large diagonal, which needs no pivoting."""
    n = sizes["N"]
    return {"A": np.random.default_rng(0).random((n, n)) + n * np.eye(n), "b": np.arange(1.0, n + 1) / n / 2 + 4}


def exact(given: Arguments) -> tuple[Array, ...]:
    """Elimination of a column after the other; x by LAPACK with pivoting."""
    A, b = given["A"].copy(), given["b"]
    for step in range(len(A) - 1):
        A[step + 1 :, step] /= A[step, step]
        A[step + 1 :, step + 1 :] -= np.outer(A[step + 1 :, step], A[step, step + 1 :])
    L = np.tril(A, -1) + np.eye(len(A))
    return A, np.linalg.solve(L, b), np.linalg.solve(given["A"], b)


if __name__ == "__main__":
    tell(algorithm, scheduled, SIZES, sample, exact, CLOSE)
