"""A product of bytes, summed in 32 bits, in the matrix registers of a core: tiles of 16 x 16 sums by 64 terms.

Intel's processors have them from Sapphire Rapids on (AMX). Four tiles of sums stay in registers over all terms; they
need two tiles of each operand. B lies in panels of 16 columns, the four terms of 4 bytes beside each other, and is
packed once, for any number of products. On other processors this is `int8_product`.
"""

from __future__ import annotations

import int8_product
from story import tell

import tiramisu_py as tm

N, M, K = tm.params("N M K")
i, j, k, i0, i1, i2, i3, j0, j1, j2, j3, k0, k1 = tm.iters("i j k i0 i1 i2 i3 j0 j1 j2 j3 k0 k1")
SIDE, GROUP, TERMS = 16, 4, 64  # rows and columns of a tile, terms of 4 bytes, terms of a row of a tile
ACROSS = 2  # tiles of sums beside each other, and below
SIZES = ((1, 1, 1), (7, 65, 5), (32, 32, 64), (31, 37, 41), (73, 129, 1), (19, 131, 1031))
LARGE = (1024, 1024, 1024)
OTHERS = [{"first": tm.int8, "second": tm.uint8}, {"first": tm.int8}, {"second": tm.uint8}]


def algorithm(
    first: tm.DType = tm.uint8, second: tm.DType = tm.int8
) -> tuple[tm.Function, tm.Computation, tm.Reduction]:
    """C = A B in int32, and B as it is packed."""
    f = tm.Function("byte_tiles", params=[N, M, K], assume="N >= 1 and M >= 1 and K >= 1")
    A, B = f.input("A", first, [N, K]), f.input("B", second, [K, M])
    packed = f.computation("packed", {k: K, j: M}, B[k, j])
    term = tm.cast(tm.int32, A[i, k]) * tm.cast(tm.int32, packed[k, j])
    C = f.reduction("C", {i: N, j: M}, {k: K}, tm.sum, term)
    f.outputs(C)
    return f, packed, C


def scheduled(first: tm.DType = tm.uint8, second: tm.DType = tm.int8, cpu: tm.Target | None = None) -> tm.Function:
    """Blocks of two by two tiles; threads share the rows, and B is kept packed."""
    if not (cpu or tm.target()).choose({"amx_int8": True}, default=False):
        return int8_product.scheduled(first, second, cpu)
    f, packed, C = algorithm(first, second)
    panels = tm.Buffer("panels", [(M + SIDE - 1) // SIDE, (K + GROUP - 1) // GROUP, SIDE, GROUP], second)
    packed.store_in(panels, [j // SIDE, k // GROUP, j % SIDE, k % GROUP])
    packed.keep()
    update = C.update
    update.split(i, ACROSS * SIDE, i0, i1).split(i1, SIDE, i2, i3)
    update.split(j, ACROSS * SIDE, j0, j1).split(j1, SIDE, j2, j3)
    update.split(k, TERMS, k0, k1)
    update.reorder(i0, j0, k0, i2, j2, i3, j3, k1)
    update.unroll(i2).unroll(j2)
    update.tensorize(i3, j3, k1, "amx")
    update.parallelize(i0)
    return f


sample, exact = int8_product.sample, int8_product.exact


if __name__ == "__main__":
    tell(scheduled, sample, exact, SIZES, LARGE)
