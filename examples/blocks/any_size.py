"""Products and convolutions of any size on GPUs, with the parameters of Tillet's kernels, and what chooses them.

A program computes ML x NL results and goes through the terms in blocks of U, loaded `stages` - 1 blocks early, by so
many warps. Where the results are few, the terms of each are shared: by KG programs, whose sums are added in memory, or
by KG accumulators of one program, in registers or in shared memory. Operands may be transposed; masks keep to the
matrices. A convolution is the same product: its rows are the pixels of all images, its terms the channels under each
weight of the filter, and no copy is made of the images. KG programs may share its channels, where pixels are few.

Source: P. Tillet, "Blocked Algorithms for Neural Networks" (2020), 4.1: figures 4.3 and 4.4, listings 4.1 and 4.2.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import tiramisu_py as tm
import tiramisu_py.language as tl
from tiramisu_py.tuning import filters

M, N, K, Z, CI, CO = tm.params("M N K Z CI CO")


@tm.jit
def product(
    A, B, C, ML: tl.constexpr, NL: tl.constexpr, U: tl.constexpr, KG: tl.constexpr, COMBINE: tl.constexpr,
    TA: tl.constexpr, TB: tl.constexpr,
):  # fmt: skip
    M, N = C.shape
    K = A.shape[0] if TA else A.shape[1]
    rm, rn = tl.program_id(0) * ML + tl.arange(0, ML), tl.program_id(1) * NL + tl.arange(0, NL)
    inside = (rm[:, None] < M) & (rn < N)
    acc = tl.zeros((ML, NL), tl.float32)
    for k in tl.range(tl.program_id(2) * U, K, KG * U):
        rk = k + tl.arange(0, U)
        in_a, in_b = (rm[:, None] < M) & (rk < K), (rk[:, None] < K) & (rn < N)
        a = tl.load(A[rk, rm[:, None]] if TA else A[rm[:, None], rk], mask=in_a, other=0)
        b = tl.load(B[rn, rk[:, None]] if TB else B[rk[:, None], rn], mask=in_b, other=0)
        acc = tl.dot(a, b, acc)
    if COMBINE is None:
        tl.store(C[rm[:, None], rn], acc, mask=inside)
    else:
        tl.accumulate(C[rm[:, None], rn], acc, mask=inside, combine=COMBINE)


@tm.jit
def product_in_parts(
    A, B, C, ML: tl.constexpr, NL: tl.constexpr, U: tl.constexpr, KG: tl.constexpr, AXIS: tl.constexpr,
    TA: tl.constexpr, TB: tl.constexpr,
):  # fmt: skip
    """KG accumulators, along the first axis: a thread has all those of a result; or along the second: it has one."""
    M, N = C.shape
    K = A.shape[0] if TA else A.shape[1]
    rm, rn = tl.program_id(0) * ML + tl.arange(0, ML), tl.program_id(1) * NL + tl.arange(0, NL)
    acc = tl.zeros((ML, KG, NL) if AXIS else (KG, ML, NL), tl.float32)
    for k in tl.range(0, K, KG * U):
        rk = k + tl.arange(0, KG)[:, None] * U + tl.arange(0, U)
        row, term = rm[:, None, None] if AXIS else rm[:, None], rk if AXIS else rk[:, None, :]
        a = tl.load(A[term, row] if TA else A[row, term], mask=(row < M) & (term < K), other=0)
        down = rk[:, :, None]
        b = tl.load(B[rn, down] if TB else B[down, rn], mask=(down < K) & (rn < N), other=0)
        acc += tl.sum(a[:, :, :, None] * (b[None, :, :, :] if AXIS else b[:, None, :, :]), axis=2)
    tl.store(C[rm[:, None], rn], tl.sum(acc, axis=AXIS), mask=(rm[:, None] < M) & (rn < N))


#: How partial sums are combined in a program: the axis of its accumulators. And in memory, by programs.
IN_PROGRAM = {"registers": 0, "shared memory": 1}
IN_MEMORY = {
    "atomic": tm.ATOMIC, "lock": tm.LOCK, "in turn": tm.ORDERED, "two passes": tm.TWO_PASS,
    "last block": tm.LAST_BLOCK,
}  # fmt: skip


def made(
    rows: int, columns: int, terms: int, parts: int, way: str, warps: int, stages: int,
    first: bool = False, second: bool = False, dtype: tm.DType = tm.float32,
) -> tm.Function:  # fmt: skip
    """A point: the kernel with its constants, on a GPU; `way` says how partial sums are combined, if not "whole"."""
    f = tm.Function("product", params=[M, N, K])
    A, B = f.input("A", dtype, [K, M] if first else [M, K]), f.input("B", dtype, [N, K] if second else [K, N])
    C = f.array("C", tm.float32, [M, N])
    constants: dict[str, Any] = {"ML": rows, "NL": columns, "U": terms, "KG": parts, "TA": first, "TB": second}
    grid = tl.cdiv(M, rows), tl.cdiv(N, columns)
    if way in IN_PROGRAM:
        run = product_in_parts[*grid](A, B, C, AXIS=IN_PROGRAM[way], **constants)
    else:
        run = product[*grid, parts](A, B, C, COMBINE=IN_MEMORY.get(way), **constants)
    f.outputs(C)
    if way == "registers":
        f["acc"].store_in(tm.REGISTER)
    tm.recipes.blocks(run, on=tm.gpu(), num_warps=warps, num_stages=stages)
    f.derive_transfers()
    return f


@tm.jit
def convolution(
    X, W, Y, ML: tl.constexpr, NL: tl.constexpr, U: tl.constexpr, KG: tl.constexpr, COMBINE: tl.constexpr,
    P: tl.constexpr, Q: tl.constexpr, S: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    rows, channels, results = Y.shape[0], W.shape[0], W.shape[3]
    rm, rn = tl.program_id(0) * ML + tl.arange(0, ML), tl.program_id(1) * NL + tl.arange(0, NL)
    z, p, q = rm[:, None] // (P * Q), rm[:, None] // Q % P, rm[:, None] % Q
    acc = tl.zeros((ML, NL), tl.float32)
    if STEPS:  # under each weight the places go on by U channels: nothing is divided
        for r in tl.range(0, S):
            for s in tl.range(0, S):
                for c in tl.range(tl.program_id(2) * U, channels, KG * U):
                    rc = c + tl.arange(0, U)
                    x = tl.load(X[z, p + r, q + s, rc], mask=(rm[:, None] < rows) & (rc < channels), other=0)
                    w = tl.load(W[rc[:, None], r, s, rn], mask=(rc[:, None] < channels) & (rn < results), other=0)
                    acc = tl.dot(x, w, acc)
    else:  # blocks of terms go on from weight to weight: few channels fill them too
        for k in tl.range(tl.program_id(2) * U, channels * S * S, KG * U):
            rk = k + tl.arange(0, U)
            c, r, s = rk // (S * S), rk // S % S, rk % S
            x = tl.load(X[z, p + r, q + s, c], mask=(rm[:, None] < rows) & (c < channels), other=0)
            column = rk[:, None]
            w = tl.load(
                W[column // (S * S), column // S % S, column % S, rn],
                mask=(column < channels * S * S) & (rn < results), other=0,
            )  # fmt: skip
            acc = tl.dot(x, w, acc)
    inside = (rm[:, None] < rows) & (rn < results)
    if COMBINE is None:
        tl.store(Y[rm[:, None], rn], acc, mask=inside)
    else:
        tl.accumulate(Y[rm[:, None], rn], acc, mask=inside, combine=COMBINE)


def convolved(
    rows: int, columns: int, terms: int, warps: int, size: tuple[int, int], filter: int, steps: bool = True,
    parts: int = 1, way: str = "whole",
) -> tm.Function:  # fmt: skip
    """A point of the convolution of images of one size, with a row of results for each pixel; Z, CI and CO are open.

    So many `parts` of the channels are summed by programs of their own, and added in memory as `way` says.
    """
    f = tm.Function("convolved", params=[Z, CI, CO])
    P, Q = (extent - filter + 1 for extent in size)
    x, w = f.input("x", tm.float32, [Z, *size, CI]), f.input("w", tm.float32, [CI, filter, filter, CO])
    y = f.array("y", tm.float32, [P * Q * Z, CO])
    run = convolution[tl.cdiv(Z * P * Q, rows), tl.cdiv(CO, columns), parts](
        x, w, y, ML=rows, NL=columns, U=terms, KG=parts, COMBINE=IN_MEMORY.get(way), P=P, Q=Q, S=filter, STEPS=steps
    )  # fmt: skip
    f.outputs(y)
    tm.recipes.blocks(run, on=tm.gpu(), num_warps=warps)
    f.derive_transfers()
    return f


#: Block sizes, partial sums and how they are combined, warps, and blocks that are loaded early.
SPACE = {
    "rows": [16, 32], "columns": [16], "terms": [8], "parts": [1, 4], "way": ["whole", *IN_PROGRAM, *IN_MEMORY],
    "warps": [2], "stages": [1],
}  # fmt: skip
#: Seconds for each element of a block whose partial sums are combined, on a pretended GPU.
ADDED = {
    "whole": 0, "registers": 1e-10, "shared memory": 5e-10, "atomic": 2e-9, "lock": 3e-9, "in turn": 4e-9,
    "two passes": 2.5e-9, "last block": 2.5e-9,
}  # fmt: skip


def is_point(parts: int, way: str, **_: Any) -> bool:
    """Whether partial sums are combined where there are some."""
    return (parts == 1) == (way == "whole")


def multiprocessors(point: dict[str, Any], sizes: dict[str, int]) -> float:
    """Seconds on a pretended GPU of 32 multiprocessors: a law that no model is told."""
    shared = point["parts"] if point["way"] in IN_MEMORY else 1
    waves = -(-(-(-sizes["M"] // point["rows"]) * -(-sizes["N"] // point["columns"]) * shared) // 32)
    terms = -(-sizes["K"] // shared)
    added = ADDED[point["way"]] * point["rows"] * point["columns"]
    reuse = 1 / point["rows"] + 1 / point["columns"]
    launches = 2 if point["way"] == "two passes" else 1
    each = terms * point["rows"] * point["columns"] * 1e-10 * (0.2 + 8 * reuse)
    return 3e-6 * launches + waves * (each + added)


def sums_of_a_thread(rows: int, columns: int, parts: int, way: str, warps: int, **_: Any) -> float:
    """The sums that a thread has in registers."""
    return rows * columns * (parts if way in IN_PROGRAM else 1) / (32 * warps)


def bytes_of_a_block(rows: int, columns: int, terms: int, parts: int, way: str, stages: int, **_: Any) -> int:
    """The shared memory of a block: what it loads, early, and the accumulators that its threads share."""
    loaded = 4 * terms * (rows + columns) * stages * (parts if way in IN_PROGRAM else 1)
    return loaded + (4 * rows * columns * parts if way == "shared memory" else 0)


def chooser(folder: Path) -> tm.InputAware:
    """The product of any size: the filters of 4.2.1 come before the proof."""
    return tm.input_aware(
        made, SPACE, where=is_point, timer=multiprocessors, database=folder / "samples.sqlite",
        filters=[
            filters.only_powers_of_two("rows", "columns", "terms"),
            filters.limit("registers", sums_of_a_thread, most=64),
            filters.limit("shared memory", bytes_of_a_block, most=tm.GpuTarget.most_shared),
        ],
    )  # fmt: skip


def pixels(x: Any, w: Any) -> Any:
    """The convolution in NumPy, a row for each pixel."""
    size = w.shape[1]
    extents = [extent - size + 1 for extent in x.shape[1:3]]
    under = ((r, s, x[:, r : r + extents[0], s : s + extents[1]]) for r in range(size) for s in range(size))
    return sum(part.reshape(-1, len(w)) @ w[:, r, s] for r, s, part in under)


if __name__ == "__main__":
    numbers = np.random.default_rng(0)

    def integers(*shape: int) -> Any:
        return numbers.integers(0, 5, shape).astype(np.float32)

    a, b = integers(21, 19), integers(19, 18)
    for parts, way, first, second in ((2, "registers", True, False), (2, "in turn", False, True)):
        f = made(16, 16, 8, parts, way, 2, 1, first, second)
        given = a.T.copy() if first else a, b.T.copy() if second else b
        np.testing.assert_array_equal(f.compile(device="simulator", sanitize=True)(*given), a @ b)
    x, w = integers(2, 4, 5, 9), integers(9, 2, 2, 5)
    g = convolved(16, 16, 8, 2, (4, 5), 2)
    np.testing.assert_array_equal(g.compile(device="simulator", sanitize=True)(x, w), pixels(x, w))
    print("right: products in parts that are added in registers and in turn, and a convolution")
