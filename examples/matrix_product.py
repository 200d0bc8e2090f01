"""A matrix product: a reduction whose order is free, so that it can be tiled, split, and distributed over threads.

Three schedules of one algorithm, each proven and compared with NumPy; the last one splits the sum itself over the
threads, which is refused until the schedule says how partial sums are combined.
"""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm

N, M, K = tm.params("N M K")
i, j, k, i0, j0, i1, j1, k0, k1 = tm.iters("i j k i0 j0 i1 j1 k0 k1")


def product() -> tuple[tm.Function, tm.Reduction]:
    """C = A B."""
    mm = tm.Function("mm", params=[N, M, K], assume="N >= 1 and M >= 1 and K >= 0")
    A = mm.input("A", tm.float32, [N, K])
    B = mm.input("B", tm.float32, [K, M])
    C = mm.reduction("C", {i: N, j: M}, over={k: K}, op=tm.sum, expr=A[i, k] * B[k, j])
    mm.outputs(C)
    return mm, C


def compare(name: str, mm: tm.Function) -> None:
    """Run on sizes that no tile divides."""
    kernel = mm.compile()
    rng = np.random.default_rng(1)
    for n, m, depth in [(1, 1, 0), (33, 31, 7), (129, 97, 61)]:
        a, b = rng.random((n, depth), dtype=np.float32), rng.random((depth, m), dtype=np.float32)
        np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-4, atol=1e-5)
    print(f"{name}: equal to NumPy")


mm, C = product()
compare("as declared", mm)

mm, C = product()
C.update.tile(i, j, 32, 32, i0, j0, i1, j1)
C.update.split(k, 8, k0, k1)
C.update.reorder(i0, j0, k0, i1, k1, j1)
C.update.parallelize(i0)
C.update.vectorize(j1, 16)
compare("tiled, parallel, vectorised", mm)

mm, C = product()
C.update.split(k, 8, k0, k1)
C.update.reorder(k0, i, k1, j)
C.update.parallelize(k0)
violation = mm.check().violations[0]
print(f"refused: {violation}")
assert violation.kind == "race"
C.update.parallelize(k0, combine=tm.PRIVATE)
compare("the sum split over threads", mm)
print("right: three schedules of one product")
