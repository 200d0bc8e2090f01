"""Machine code of the parametrised matrix product of GPUs: the bytes of its loop over terms beside two estimates.

Nothing is run: nvcc compiles, nvdisasm reads, and a file keeps what was found.

python -m benchmarks.loop_bytes FILE [--points 50] [--seconds 200]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from itertools import product as combinations
from pathlib import Path
from typing import Any

import numpy as np

import tiramisu_py as tm
from benchmarks.common.tables import table
from tiramisu_py.toolchain import machine_code
from tiramisu_py.toolchain.compilers.cache import open_cache
from tiramisu_py.toolchain.compilers.images import Architecture
from tiramisu_py.toolchain.compilers.nvcc import find_nvcc
from tiramisu_py.tuning.filters import loop_bytes

M, N, K = tm.params("M N K")
i, j, k, i0, j0, i1, j1, i2, j2, k0, k1, p, q = tm.iters("i j k i0 j0 i1 j1 i2 j2 k0 k1 p q")
j3, k2, w, h, y, x, h0, x0, jj = tm.iters("j3 k2 w h y x h0 x0 jj")
ARCHITECTURE = 80
NEAR = 0.25
#: Kernels whose sizes are multiples of their blocks, and kernels of any size, whose loops have code for borders too.
KINDS = {"whole": "multiples of the blocks", "any": "any"}
#: Columns of a warp and terms of a block, of products on tensor cores; their key in the file.
TENSOR_POINTS = [(columns, terms) for terms in (16, 32) for columns in (8, 16, 32, 64)]
TENSOR = "tensor"


def tiles(rows: int, columns: int, of_rows: int, of_columns: int, terms: int, *, whole: bool = False) -> tm.Function:
    """Blocks of rows x columns results, of which a thread has `of_rows` x `of_columns`; blocks of terms.

    Of sizes that are multiples of the blocks, all blocks are `whole`: the loop has no code for borders.
    """
    multiples = f"M mod {rows} = 0 and N mod {columns} = 0 and K mod {terms} = 0"
    f = tm.Function("product", params=[M, N, K], assume=multiples if whole else "N mod 4 = 0 and K mod 4 = 0")
    A, B = f.input("A", tm.float32, [M, K]), f.input("B", tm.float32, [K, N])
    total = f.reduction("total", {i: M, j: N}, {k: K}, tm.sum, A[i, k] * B[k, j])
    C = f.computation("C", {i: M, j: N}, total[i, j])
    f.outputs(C)
    C.tile(i, j, rows, columns, i0, j0, i1, j1)
    C.split(i1, of_rows, i1, i2)
    C.split(j1, of_columns, j1, j2)
    C.reorder(i0, j0, i1, j1, i2, j2)
    C.tag_gpu(blocks=[i0, j0], threads=[i1, j1])
    C.unroll(i2)
    C.vectorize(j2, 4)
    total.compute_at(C, j1)
    total.store_in(tm.REGISTER)
    total.update.split(k, terms, k0, k1)
    total.update.reorder(k0, k1, i, j)
    total.update.unroll(k1)
    for source, layout in ((A, [p, q + 4 * (p // 8 % 2)]), (B, [p, q + 4 * (q // 32)])):
        total.update.copy(source, [p, q], at=k0, into=tm.SHARED, layout=layout, vector=4)
    f.derive_transfers()
    return f


def on_tensor_cores(columns: int, terms: int) -> tm.Function:
    """Products of float16, summed in float32: two warps a block, each with 16 rows and so many columns."""
    f = tm.Function("product", params=[M, N, K], assume=f"M mod 32 = 0 and N mod {columns} = 0 and K mod {terms} = 0")
    A, B = f.input("A", tm.float16, [M, K]), f.input("B", tm.float16, [K, N])
    factors = (tm.cast(tm.float32, each) for each in (A[i, k], B[k, j]))
    total = f.reduction("total", {i: M, j: N}, {k: K}, tm.sum, next(factors) * next(factors))
    C = f.computation("C", {i: M, j: N}, total[i, j])
    f.outputs(C)
    C.split(i, 32, i0, i1).split(i1, 16, w, i2).split(i2, 8, h, y)
    C.split(j, columns, j0, j1).split(j1, 8, j2, j3).split(j3, 2, x, p)
    C.reorder(i0, j0, w, y, x, j2, h, p)
    C.tag_gpu(blocks=[i0, j0], threads=[w, y, x])
    total.compute_at(C, x)
    total.store_in(tm.REGISTER)
    for part in (total.init, total.update):  # the rows and columns of a thread
        part.split(i, 8, h, h0).split(j, 8, jj, j3).split(j3, 2, x0, p)
    total.init.reorder(h0, x0, jj, h, p)
    total.update.split(k, terms, k0, k1).split(k1, 16, k1, k2).reorder(k0, k1, h0, x0, jj, h, p, k2)
    total.update.unroll(k1)
    total.update.unroll(jj)
    for source in (A, B):
        total.update.copy(source, [p, q], at=k0, into=tm.SHARED)
    total.update.tensorize(h, p, k2, "m16n8k16")
    f.derive_transfers()
    return f


def points(count: int) -> list[tuple[int, ...]]:
    """Points with one to sixteen warps, spread over the space."""
    found = [
        (rows, columns, of_rows, of_columns, terms)
        for rows, columns, of_rows, of_columns, terms in combinations(
            (32, 64, 128), (32, 64, 128), (2, 4, 8), (4, 8), (4, 8, 16)
        )
        if 32 <= rows * columns // (of_rows * of_columns) <= 512
    ]
    order = np.random.default_rng(0).permutation(len(found))
    return [found[number] for number in order[:count]]


def counted(point: tuple[int, ...], whole: bool) -> dict[str, Any]:
    """What the machine code of a point has: the loop over the terms, and the spills of the kernel."""
    code = machine_code_of(tiles(*point, whole=whole))
    loop = max(code.loops, key=lambda each: each.fused)
    return {"bytes": loop.bytes, "instructions": loop.instructions, "fused": loop.fused, "wide": loop.wide_loads,
            "barriers": loop.barriers, "spills": code.spills, "loops": len(code.loops)}  # fmt: skip


def machine_code_of(f: tm.Function) -> Any:
    """The machine code of a function's one kernel."""
    compiler = find_nvcc(open_cache())
    if isinstance(compiler, str):
        raise SystemExit(compiler)
    image, _ = compiler.compile("product.cu", f.source(), Architecture(ARCHITECTURE), ("-std=c++17",))
    (code,) = machine_code(image).values()
    return code


def counted_products(point: tuple[int, int]) -> dict[str, int]:
    """The HMMA in the loop over the terms, and those that the schedule asks for: of 16 x 8 results and 16 terms."""
    columns, terms = point
    code = machine_code_of(on_tensor_cores(*point))
    loop = max(code.loops, key=lambda each: each.tensor)
    return {"columns": columns, "terms": terms, "products": loop.tensor, "asked": columns // 8 * (terms // 16),
            "instructions": loop.instructions, "spills": code.spills}  # fmt: skip


def copies(point: tuple[int, ...]) -> int:
    """The copies of four elements that a thread makes in an iteration."""
    rows, columns, of_rows, of_columns, terms = point
    threads = rows * columns // (of_rows * of_columns)
    return sum(-(-extent * terms // (4 * threads)) for extent in (rows, columns))


#: The estimates of a loop's bytes.
ESTIMATES: dict[str, Callable[[tuple[int, ...]], float]] = {
    "the thesis: a load of each element": lambda point: loop_bytes(*point[2:]),
    "loads of four elements, copies, and the loop": lambda point: loop_bytes(*point[2:], wide=4, copies=copies(point)),
}


def told(known: dict[str, dict[str, Any]]) -> str:
    """How near both estimates are, and what the loops do."""
    rows, lines = [], []
    for kind, title in KINDS.items():
        some = {tuple(json.loads(name)): found[kind] for name, found in known.items() if kind in found}
        if not some:
            continue
        for words, estimate in ESTIMATES.items():
            ratios = [loop_of(point, found) / estimate(point) for point, found in some.items()]
            near = np.mean([abs(ratio - 1) <= NEAR for ratio in ratios])
            rows.append(
                (title, words, f"{near:.0%}", f"{np.median(ratios):.2f}", f"{min(ratios):.2f} to {max(ratios):.2f}")
            )
        lines.append(f"- {title}: {of_loops(some)}")
    header = ("sizes", "estimate of the loop's bytes", f"within {NEAR:.0%}", "bytes over it, median", "least to most")
    products = [tuple(map(str, found.values())) for found in known.get(TENSOR, {}).values()]
    of_tensor_cores = table(
        ("columns of a warp", "terms of a block", "HMMA in the loop", "HMMA asked for", "instructions of the loop",
         "accesses of local memory"), products,
    )  # fmt: skip
    parts = [table(header, rows), f"Of sm_{ARCHITECTURE}, float32:", "\n".join(lines)]
    if products:
        parts += ["Tensor cores, float16 summed in float32, 16 rows a warp:", of_tensor_cores]
    return "\n\n".join(parts)


def loop_of(point: tuple[int, ...], found: dict[str, Any]) -> float:
    """The bytes of the loop for one block of terms: the compiler may put several into one iteration."""
    return float(found["bytes"] * point[2] * point[3] * point[4] / found["fused"])


def of_loops(some: dict[tuple[int, ...], dict[str, Any]]) -> str:
    """How many points there are, what they spill, and the share of FFMA of the largest tiles."""
    spilled = sum(found["spills"] > 0 for found in some.values())
    words = f"{len(some)} points, {spilled} of them with accesses of local memory"
    largest = [(point, found) for point, found in some.items() if point[2:4] == (8, 8)]
    for terms in sorted({point[4] for point, _ in largest}):
        shares = [found["fused"] / found["instructions"] for point, found in largest if point[4] == terms]
        words += f"; 8 x 8 results a thread, blocks of {terms} terms ({len(shares)}): {min(shares):.0%} to "
        words += f"{max(shares):.0%} of the loop's instructions are FFMA"
    return words


def main() -> None:
    """Count until the time is over; print what is known."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("file", type=Path)
    options.add_argument("--points", type=int, default=50)
    options.add_argument("--seconds", type=float, default=3600.0)
    asked = options.parse_args()
    known = json.loads(asked.file.read_text()) if asked.file.exists() else {}
    start = time.monotonic()
    for pair in TENSOR_POINTS:
        found = known.setdefault(TENSOR, {})
        if json.dumps(pair) not in found and time.monotonic() - start < asked.seconds:
            found[json.dumps(pair)] = counted_products(pair)
            asked.file.write_text(json.dumps(known))
    for point in points(asked.points):
        found = known.setdefault(json.dumps(point), {})
        for kind in KINDS:
            if kind not in found and time.monotonic() - start < asked.seconds:
                found[kind] = counted(point, kind == "whole")
                asked.file.write_text(json.dumps(known))
                print(point, kind, found[kind], file=sys.stderr, flush=True)
    print(told(known))


if __name__ == "__main__":
    main()
