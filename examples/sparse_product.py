"""A sparse matrix times a vector: bounds and indices are values of arrays, with declared facts that the proof may use.

Row i has the entries from start[i] to start[i + 1]; entry p is in column column[p]. The facts declared of the two
arrays make every read provable, and are verified when the kernel is called.
"""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm

N, M, NNZ = tm.params("N M NNZ")
i, p = tm.iters("i p")

spmv = tm.Function("spmv", params=[N, M, NNZ], assume="N >= 1 and M >= 1 and NNZ >= 0")
start = spmv.input("start", tm.int32, [N + 1], values=(0, NNZ + 1), monotone=True)
column = spmv.input("column", tm.int32, [NNZ], values=(0, M))
value = spmv.input("value", tm.float64, [NNZ])
x = spmv.input("x", tm.float64, [M])
y = spmv.reduction("y", {i: N}, over={p: (start[i], start[i + 1])}, op=tm.sum, expr=value[p] * x[column[p]])
spmv.outputs(y)
y.parallelize(i)
print(spmv.check())

rng = np.random.default_rng(0)
dense = rng.random((200, 300)) * (rng.random((200, 300)) < 0.05)
rows, columns = np.nonzero(dense)
starts = np.searchsorted(rows, np.arange(201)).astype(np.int32)
columns, values, vector = columns.astype(np.int32), dense[np.nonzero(dense)], rng.random(300)

kernel = spmv.compile()
np.testing.assert_allclose(kernel(starts, columns, values, vector), dense @ vector, rtol=1e-12)

columns[7] = 300
try:
    kernel(starts, columns, values, vector)
except tm.ArgumentError as error:
    print(f"refused: {error}")
else:
    raise SystemExit("a column outside the matrix was accepted")
print("right: the product of NumPy's dense matrix, and a wrong column refused")
