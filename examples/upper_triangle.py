"""Products of all pairs of columns: a triangular domain, whose bounds use an outer iterator.

Only the upper triangle is computed; the other elements stay zero, or as the caller passed them.
"""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm

M, K = tm.params("M K")
i, j, k = tm.iters("i j k")

f = tm.Function("pairs", params=[M, K])
A = f.input("A", tm.float64, [K, M])
G = f.reduction("G", {i: M, j: (i, M)}, over={k: K}, op=tm.sum, expr=A[k, i] * A[k, j], shape=[M, M])
f.outputs(G)
G.update.reorder(i, k, j)
G.update.parallelize(i)
G.update.vectorize(j, 8)

print(f.check())
kernel = f.compile()
for depth, columns in [(0, 4), (5, 1), (17, 23), (64, 100)]:
    a = np.random.default_rng(0).random((depth, columns))
    np.testing.assert_allclose(kernel(a), np.triu(a.T @ a), rtol=1e-12, atol=1e-12)

kept = np.full((23, 23), -1.0)
a = np.random.default_rng(0).random((17, 23))
kernel(a, G=kept)
assert (np.tril(kept, -1) == np.tril(np.full((23, 23), -1.0), -1)).all()
print("right: the upper triangle of A' A, and the lower one untouched")
