"""A sparse matrix times a vector in three formats: rows (CSR), coordinates (COO), and padded rows in columns (ELL).

CSR: row i has the entries start[i] up to start[i + 1]. COO: entry p is in row row[p]; the sum of a row is a reduction
over all entries under a condition, which says which row each entry is added to.
ELL: row i has its first length[i] entries, the w-th ones of all rows side by side, so that a vector holds rows.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse

import tiramisu_py as tm

N, M, NNZ, W = tm.params("N M NNZ W")
i, p, w, i0, i1 = tm.iters("i p w i0 i1")


def csr() -> tm.Function:
    """Rows on threads."""
    f = tm.Function("csr", params=[N, M, NNZ])
    start = f.input("start", tm.int32, [N + 1], values=(0, NNZ + 1), monotone=True)
    column = f.input("column", tm.int32, [NNZ], values=(0, M))
    value, x = f.input("value", tm.float64, [NNZ]), f.input("x", tm.float64, [M])
    y = f.reduction("y", {i: N}, over={p: (start[i], start[i + 1])}, op=tm.sum, expr=value[p] * x[column[p]])
    f.outputs(y)
    y.update.parallelize(i)
    return f


def coo(combine: tm.Combine | None = None) -> tm.Function:
    """Entries in their order, or on threads that combine their partial results."""
    f = tm.Function("coo", params=[N, M, NNZ])
    row = f.input("row", tm.int32, [NNZ], values=(0, N))
    column = f.input("column", tm.int32, [NNZ], values=(0, M))
    value, x = f.input("value", tm.float64, [NNZ]), f.input("x", tm.float64, [M])
    y = f.reduction("y", {i: N}, over={p: NNZ}, op=tm.sum, expr=value[p] * x[column[p]], where=row[p] == i)
    f.outputs(y)
    if combine is not None:
        y.update.parallelize(p, combine=combine)
    return f


def ell() -> tm.Function:
    """As many rows in a vector as it has lanes, strips of rows on threads."""
    f = tm.Function("ell", params=[N, M, W])
    length = f.input("length", tm.int32, [N], values=(0, W + 1))
    column = f.input("column", tm.int32, [W, N], values=(0, M))
    value, x = f.input("value", tm.float64, [W, N]), f.input("x", tm.float64, [M])
    y = f.reduction("y", {i: N}, over={w: W}, op=tm.sum, expr=value[w, i] * x[column[w, i]], where=w < length[i])
    f.outputs(y)
    lanes = tm.target().lanes(tm.float64)
    y.update.split(i, lanes, i0, i1).reorder(i0, w, i1).vectorize(i1, lanes).parallelize(i0)
    return f


def padded(matrix: scipy.sparse.csr_matrix) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The lengths of the rows, and their columns and values, padded with zeros to the longest."""
    lengths = np.diff(matrix.indptr).astype(np.int32)
    width = max(lengths, default=0)
    columns = np.zeros((width, matrix.shape[0]), np.int32)
    values = np.zeros((width, matrix.shape[0]))
    for number, (low, high) in enumerate(zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)):
        columns[: high - low, number] = matrix.indices[low:high]
        values[: high - low, number] = matrix.data[low:high]
    return lengths, columns, values


def matrices() -> list[scipy.sparse.csr_matrix]:
    """Matrices with and without rows, with empty rows, with one long row."""
    rng = np.random.default_rng(0)
    found = [scipy.sparse.random(n, m, d, "csr", rng=rng) for n, m, d in ((200, 300, 0.05), (9, 5, 0.3), (17, 1, 1))]
    long = scipy.sparse.lil_matrix((13, 400))
    long[5, :] = rng.random(400)
    long[12, 7] = 2.0
    return [*found, long.tocsr(), scipy.sparse.csr_matrix((11, 4)), scipy.sparse.csr_matrix((0, 4))]


kernels = {f.name: f.compile() for f in (csr(), ell())}
by_coordinates = [coo(combine).compile() for combine in (None, tm.PRIVATE, tm.ATOMIC)]
for f in (csr(), coo(), ell()):
    print(f.check())

for matrix in matrices():
    x = np.random.default_rng(1).random(matrix.shape[1])
    wanted = matrix @ x
    np.testing.assert_allclose(kernels["csr"](matrix.indptr, matrix.indices, matrix.data, x), wanted, rtol=1e-12)
    entries = matrix.tocoo()
    for kernel in by_coordinates:
        y = kernel(entries.row, entries.col, entries.data, x, N=matrix.shape[0])
        np.testing.assert_allclose(y, wanted, rtol=1e-12)
    np.testing.assert_allclose(kernels["ell"](*padded(matrix), x), wanted, rtol=1e-12)
print("right: the products of SciPy, in three formats")
