"""lu: A = L U with ones on the diagonal of L, without pivoting."""

from __future__ import annotations

import numpy as np
from kernel_story import Arguments, Array, Sizes, tell

import tiramisu_py as tm

(N,) = tm.params("N")
i, j, k, block, i0, i1, j0, j1 = tm.iters("i j k block i0 i1 j0 j1")
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
    """Tiles of sums in registers, each of all its terms; the last terms of a tile are elements that it makes itself.

    Threads share the blocks of a diagonal, 12 tiles wide and high.
    """
    f = algorithm()
    in_tiles(f, cpu or tm.target())
    return f


def in_tiles(f: tm.Function, cpu: tm.Target) -> None:
    """The factors, tile after tile; a step k makes a row and a column of the tile, if its own, before it adds to it."""
    lanes = cpu.lanes(tm.float64)
    rows, columns = cpu.rows_of_sums(2), 2 * lanes
    s, a = f["s"], f["a"]
    lower, upper = a.separate_cases(j)
    block_row, block_column = f"floor(i / {12 * rows})", f"floor(j / {12 * columns})"
    blocks = f"diagonal = {block_row} + {block_column}, block = {block_row}"
    outer = f"{blocks}, j0 = floor(j / {columns}), i0 = floor(i / {rows})"
    row, column = f"i1 = i mod {rows}", f"j1 = j mod {columns}"
    s.init.set_schedule(f"{{ [i, j] -> [{outer}, {row}, {column}] }}")
    s.update.set_schedule(f"{{ [i, j, k] -> [{outer}, k, {row}, {column}] }}")
    upper.set_schedule(f"{{ [i, j] -> [{outer}, k = i, {column}] }}")
    lower.set_schedule(f"{{ [i, j] -> [{outer}, k = j, {row}] }}")
    f.order(s.init, upper, at=i0)
    f.order(upper, lower, s.update, at=k)
    s.store_at(s.update, i0)
    for part in (s.init, s.update):
        part.unroll(i1)
        part.vectorize(j1, lanes, remainder="mask")
    upper.vectorize(j1, lanes, remainder="mask")
    s.update.parallelize(block)


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
