"""cholesky: the lower triangle L with A = L L^T, where A is symmetric and positive definite."""

from __future__ import annotations

import numpy as np
from kernel_story import Arguments, Array, Sizes, tell

import tiramisu_py as tm

(N,) = tm.params("N")
i, j, k, x, y, block, i0, i1, j0, j1 = tm.iters("i j k x y block i0 i1 j0 j1")
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
    """Tiles of sums in registers, each of all its terms, from a transposed copy of L that grows beside it.

    A step k makes column k of the tile, if that is its own, before it adds to the rest. Threads share the blocks of a
    diagonal, 12 tiles wide and high.
    """
    cpu = cpu or tm.target()
    lanes = cpu.lanes(tm.float64)
    rows, columns = cpu.rows_of_sums(2), 2 * lanes
    f = algorithm()
    s, L = f["s"], f["L"]
    diagonal, below = L.separate_cases(j)
    block_row, block_column = f"floor(i / {12 * rows})", f"floor(j / {12 * columns})"
    blocks = f"diagonal = {block_row} + {block_column}, block = {block_row}"
    outer = f"{blocks}, j0 = floor(j / {columns}), i0 = floor(i / {rows})"
    row, column = f"i1 = i mod {rows}", f"j1 = j mod {columns}"
    s.init.set_schedule(f"{{ [i, j] -> [{outer}, {row}, {column}] }}")
    s.update.set_schedule(f"{{ [i, j, k] -> [{outer}, k, {row}, {column}] }}")
    for part in (diagonal, below):
        part.set_schedule(f"{{ [i, j] -> [{outer}, k = j, {row}] }}")
    transposed = s.update.copy(L, [x, y], layout=[y, x])
    transposed.set_schedule(f"{{ [i, j] -> [{outer}, k = j, {row}] }}")
    f.order(s.init, diagonal, at=i0)
    f.order(diagonal, below, transposed, s.update, at=k)
    s.store_at(s.update, i0)
    for part in (s.init, s.update):
        part.unroll(i1)
        part.vectorize(j1, lanes, remainder="mask")
    s.update.parallelize(block)
    return f


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
