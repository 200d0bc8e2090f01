"""Scatters: what a declared fact proves of the places that values say.

``placed[order[i]] = a[i]`` is a value for each i and place v under the condition order[i] == v, kept in one element for
each v. Two of them would meet in one element if order had the same value twice: that it is a permutation is declared,
used by the proof, and verified by each call. The entries of the rows of a sparse matrix are apart in the same way,
since the starts of rows do not decrease.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse

import tiramisu_py as tm

N, NNZ = tm.params("N NNZ")
i, v, p = tm.iters("i v p")


def scatter(**facts: bool) -> tm.Function:
    """``placed[order[i]] = a[i]``, a vector at a time."""
    f = tm.Function("scatter", params=[N])
    order = f.input("order", tm.int32, [N], values=(0, N), **facts)
    a = f.input("a", tm.float32, [N])
    moved = f.computation("moved", {i: N, v: N}, a[i], where=order[i] == v)
    moved.store_in(tm.Buffer("placed", [N], tm.float32), [v])
    f.outputs(moved)
    moved.vectorize(i, tm.target().lanes(tm.float32))
    return f


def scaled() -> tm.Function:
    """The entries of each row of a matrix times a number of the row, rows on threads."""
    f = tm.Function("scaled", params=[N, NNZ])
    start = f.input("start", tm.int32, [N + 1], values=(0, NNZ + 1), monotone=True)
    value, factor = f.input("value", tm.float64, [NNZ]), f.input("factor", tm.float64, [N])
    entry = f.computation("entry", {i: N, p: (start[i], start[i + 1])}, value[p] * factor[i])
    entry.store_in(tm.Buffer("entries", [NNZ], tm.float64), [p])
    f.outputs(entry)
    entry.parallelize(i)
    return f


print(scatter().check())  # refused: two values may meet in one element
print(scatter(permutation=True).check())
place = scatter(permutation=True).compile()
for size in (0, 1, 7, 8, 1000):
    order = np.random.default_rng(size).permutation(size).astype(np.int32)
    a = np.arange(size, dtype=np.float32)
    wanted = np.empty_like(a)
    wanted[order] = a
    np.testing.assert_array_equal(place(order, a), wanted)

try:
    place(np.array([0, 2, 2], np.int32), np.zeros(3, np.float32))
except tm.ArgumentError as error:
    print(f"refused: {error}")
else:
    raise SystemExit("an array that is no permutation was accepted")

multiply = scaled().compile()
for shape in ((40, 30), (1, 5), (5, 1), (3, 0)):
    matrix = scipy.sparse.random(*shape, 0.2, "csr", rng=np.random.default_rng(0))
    factors = np.arange(1.0, shape[0] + 1)
    wanted = matrix.data * np.repeat(factors, np.diff(matrix.indptr))
    np.testing.assert_array_equal(multiply(matrix.indptr, matrix.data, factors), wanted)
print("right: NumPy's scatter, the rows of SciPy's matrix scaled, and an array that is no permutation refused")
