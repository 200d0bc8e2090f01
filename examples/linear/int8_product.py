"""A product of bytes, summed in 32 bits: four terms at a time, as processors have an instruction for.

Each lane of the instruction takes four neighbours of a row of A and four of a column of B, so the terms come in groups
of four: both operands are padded with zeros to whole groups, and B is laid out in panels as wide as a tile, in which
the four terms of a column lie together. That is done once: a kernel takes B packed, for any number of products.
"""

from __future__ import annotations

import numpy as np
from story import Arguments, Array, tell

import tiramisu_py as tm

N, M, K = tm.params("N M K")
i, j, k, g, i0, j0, i1, j1, i2, g0, g1, jo, jv = tm.iters("i j k g i0 j0 i1 j1 i2 g0 g1 jo jv")
GROUP, GC, MC = 4, 256, 12  # terms of a group, groups of a block, tiles of a block
ROWS, COLUMNS = 6, 64  # rows of a tile that share the pairs of its columns, and the most columns
SIZES = ((1, 1, 0), (1, 1, 1), (7, 65, 5), (31, 37, 41), (73, 129, 0), (19, 131, 1031))
LARGE = (1024, 1024, 1024)
OTHERS = [{"first": tm.int8, "second": tm.uint8}, {"first": tm.int8}, {"second": tm.uint8}]


def algorithm(
    first: tm.DType = tm.uint8, second: tm.DType = tm.int8
) -> tuple[tm.Function, tm.Computation, tm.Computation, tm.Reduction]:
    """C = A B in int32, and A and B with zeros for the terms that fill the last group."""
    f = tm.Function("int8_product", params=[N, M, K], assume="N >= 1 and M >= 1 and K >= 0")
    A = f.input("A", first, [N, K])
    B = f.input("B", second, [K, M])
    terms = (K + GROUP - 1) // GROUP * GROUP
    rows = f.computation("rows", {i: N, k: terms}, tm.select(k < K, A[i, k], first.numpy.type(0)))
    columns = f.computation("columns", {k: terms, j: M}, tm.select(k < K, B[k, j], second.numpy.type(0)))
    products = [
        tm.cast(tm.int32, rows[i, GROUP * g + n]) * tm.cast(tm.int32, columns[GROUP * g + n, j]) for n in range(GROUP)
    ]
    C = f.reduction("C", {i: N, j: M}, {g: (K + GROUP - 1) // GROUP}, tm.sum, sum(products[1:], products[0]))
    f.outputs(C)
    return f, rows, columns, C


def tile(cpu: tm.Target) -> tuple[int, int]:
    """The rows and columns of a tile: as many as registers hold, by 4 of 32 registers or 2 of 16.

    Without an instruction for four products, bytes are multiplied in pairs, which are made of both operands in each
    sums. Wide tiles share them, and are faster than what registers hold, though some of their sums are on the stack.
    """
    lanes, vectors = cpu.lanes(tm.int32), cpu.vector_registers // 8
    if cpu.choose({"avx512vnni": True, "avxvnni": True, "dotprod": True}, default=False):
        return cpu.rows_of_sums(vectors), vectors * lanes
    return ROWS, min(8 * lanes, COLUMNS)


def scheduled(first: tm.DType = tm.uint8, second: tm.DType = tm.int8, cpu: tm.Target | None = None) -> tm.Function:
    """Tiles of rows by a few vectors of columns, in blocks of 12 tiles by 1024 terms; threads share the rows.

    B is kept packed.
    """
    f, rows, columns, C = algorithm(first, second)
    MR, NR = tile(cpu or tm.target())
    C.init.parallelize(i)
    C.update.split(g, GC, g0, g1)
    sums = C.update.rfactor(g0)
    C.update.tile(i, j, MR, NR, i0, j0, i1, j1)
    C.update.split(i0, MC, i2, i0)
    C.update.reorder(g0, i2, j0, i0, i1, j1)
    C.update.parallelize(i2)
    C.update.unroll(i1, remainder="specialize")
    C.update.vectorize(j1, NR, remainder="mask")
    sums.compute_at(C.update, i0)
    sums.store_in(tm.REGISTER)
    sums.update.reorder(g, i, j)
    sums.unroll(i, remainder="specialize")
    sums.vectorize(j, NR, remainder="pad")
    rows.compute_at(C.update, i2)
    f.order(columns, C.init, C.update, at=tm.root)
    packed = tm.Buffer("panels", [(M + NR - 1) // NR, (K + GROUP - 1) // GROUP, NR, GROUP], second)
    columns.store_in(packed, [j // NR, k // GROUP, j % NR, k % GROUP])
    columns.parallelize(k)
    columns.keep()
    return f


def sample(rows: int, columns: int, terms: int, first: tm.DType = tm.uint8, second: tm.DType = tm.int8) -> Arguments:
    """Random bytes, the largest and the smallest often among them."""
    rng = np.random.default_rng(0)

    def drawn(dtype: tm.DType, *shape: int) -> Array:
        ends = np.iinfo(dtype.name)
        numbers = rng.integers(2 * ends.min - ends.max, 2 * ends.max - ends.min, shape, endpoint=True)
        return np.clip(numbers, ends.min, ends.max).astype(dtype.name)

    return {"A": drawn(first, rows, terms), "B": drawn(second, terms, columns)}


def exact(given: Arguments) -> tuple[Array, Array]:
    """The product; nothing is rounded."""
    values = given["A"].astype(np.int64) @ given["B"].astype(np.int64)
    return values, np.zeros(values.shape)


if __name__ == "__main__":
    tell(scheduled, sample, exact, SIZES, LARGE)
