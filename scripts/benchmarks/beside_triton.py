"""Block programs beside Triton's compiler, without a GPU: the same blocks and warps, read in their machine code.

Both compile for a named GPU. All sizes are whole blocks, so that neither has a mask to compute. Compared are the bytes
of shared memory of a block, and the code of the kernel's main loop (of all of it, where there is no loop): barriers,
multiply-adds of float32, products of tensor cores, and all other instructions, for as many multiply-adds.

python scripts/benchmarks beside_triton [--save] [--arch 80] [--only softmax,...]
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import tiramisu_py as tm
import tiramisu_py.language as tl
from benchmarks.common.tables import report, table
from tiramisu_py.records import dataclass
from tiramisu_py.toolchain import machine_code
from tiramisu_py.toolchain.compilers.cache import open_cache
from tiramisu_py.toolchain.compilers.images import Architecture
from tiramisu_py.toolchain.compilers.nvcc import find_nvcc

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "blocks"
M, N, K, L = tm.params("M N K L")
TITLE = "Block programs beside Triton"
#: The goals: bytes of shared memory, and instructions that are no multiply-adds.
SHARED, OTHERS = 1.1, 1.5


def example(name: str) -> Any:
    """The module of an example."""
    spec = importlib.util.spec_from_file_location(f"blocks_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@tm.jit
def rows_by_rows(A, B, C, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr):
    """A product of rows, A @ B.T."""
    rm, rn = tl.program_id(0) * TM + tl.arange(0, TM), tl.program_id(1) * TN + tl.arange(0, TN)
    acc = tl.zeros((TM, TN), tl.float32)
    for k in tl.range(0, A.shape[1], TK):
        rk = k + tl.arange(0, TK)
        acc = tl.dot(tl.load(A[rm[:, None], rk]), tl.load(B[rn[:, None], rk]).T, acc)
    tl.store(C[rm[:, None], rn], acc)


def product(dtype: tm.DType, transposed: bool, rows: int, columns: int, terms: int) -> tuple[tm.Function, Any]:
    """A product whose sizes are whole blocks."""
    whole = f"M mod {rows} = 0 and N mod {columns} = 0 and K mod {terms} = 0"
    f = tm.Function("product", params=[M, N, K], assume=whole)
    A, B = f.input("A", dtype, [M, K]), f.input("B", dtype, [N, K] if transposed else [K, N])
    C = f.array("C", tm.float32, [M, N])
    kernel = rows_by_rows if transposed else example("gemm").matmul
    run = kernel[M // rows, N // columns](A, B, C, TM=rows, TN=columns, TK=terms)
    f.outputs(C)
    return f, run


def softmax() -> tuple[tm.Function, Any]:
    """Rows of 1024 elements."""
    f = tm.Function("softmax", params=[M])
    x, y = f.input("x", tm.float32, [M, 1024]), f.array("y", tm.float32, [M, 1024])
    run = example("softmax").softmax[M](x, y, LANES=1024)
    f.outputs(y)
    return f, run


def layer_norm() -> tuple[tm.Function, Any]:
    """Rows of 1024 elements."""
    f = tm.Function("layer_norm", params=[M])
    x, w, b = f.input("x", tm.float32, [M, 1024]), f.input("w", tm.float32, [1024]), f.input("b", tm.float32, [1024])
    y, mean, rstd = f.array("y", tm.float32, [M, 1024]), f.array("mean", tm.float32, [M]), f.array("r", tm.float32, [M])
    run = example("layer_norm").forward[M](x, w, b, y, mean, rstd, f.scalar("eps", tm.float32), LANES=1024)
    f.outputs(y, mean, rstd)
    return f, run


def attention() -> tuple[tm.Function, Any]:
    """Causal attention in blocks of 32 rows and 32 columns."""
    f = tm.Function("attention", params=[L], assume="L >= 32 and L mod 32 = 0")
    o, qkv = f.array("o", tm.float32, [L, 32]), [f.input(name, tm.float32, [L, 32]) for name in "qkv"]
    run = example("attention").attention[L // 32](*qkv, o, f.scalar("scale", tm.float32), TM=32, TN=32, D=32)
    f.outputs(o)
    return f, run


@dataclass(frozen=True, eq=False)
class Case:
    """A kernel in both languages: how ours is made, and the name, the types and the constants of Triton's."""

    title: str
    ours: Callable[[], tuple[tm.Function, Any]]
    kernel: str
    types: dict[str, str]
    constants: dict[str, Any]
    stages: int = 1
    warps: int = 4


def products(title: str, dtype: tm.DType, transposed: bool, stages: int) -> Case:
    """Products in blocks of 64 by 64 results and 32 terms."""
    kind = "*fp16" if dtype is tm.float16 else "*fp32"
    types = {"A": kind, "B": kind, "C": "*fp32", "M": "i32", "N": "i32", "K": "i32"}
    constants = {"TM": 64, "TN": 64, "TK": 32, "TRANSPOSED": transposed}
    return Case(title, lambda: product(dtype, transposed, 64, 64, 32), "matmul", types, constants, stages)


FLOATS = "*fp32"
CASES = [
    products("product, float32", tm.float32, False, 1),
    products("product, float32, 2 boxes", tm.float32, False, 2),
    products("product, float16", tm.float16, False, 1),
    products("product, float16, 2 boxes", tm.float16, False, 2),
    products("product of rows, float16, 2 boxes", tm.float16, True, 2),
    Case("softmax", softmax, "softmax", {"X": FLOATS, "Y": FLOATS}, {"LANES": 1024}),
    Case(
        "layer norm", layer_norm, "layer_norm",
        {**dict.fromkeys(("X", "W", "B", "Y", "Mean", "Rstd"), FLOATS), "eps": "fp32"}, {"LANES": 1024},
    ),
    Case(
        "attention", attention, "attention",
        {**dict.fromkeys(("Q", "K", "V", "Out"), FLOATS), "scale": "fp32"}, {"TM": 32, "TN": 32, "D": 32},
    ),
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class Found:
    """What the machine code of a kernel has."""

    shared: int
    barriers: int
    fused: int
    tensor: int
    others: int
    spills: int


def found(image: bytes, shared: int) -> Found:
    """The counts of the main loop, which has the most multiply-adds; of all code, where there is no loop."""
    code = max(machine_code(image).values(), key=lambda each: each.instructions)
    main = max(code.loops, key=lambda each: (each.fused + each.tensor, each.barriers, each.instructions), default=code)
    others = main.instructions - main.fused - main.tensor
    return Found(shared, main.barriers, main.fused, main.tensor, others, code.spills)


def ours(case: Case, arch: int) -> Found:
    """What our compiler and nvcc make of a block program."""
    compiler = find_nvcc(open_cache())
    if isinstance(compiler, str):
        raise SystemExit(compiler)
    f, run = case.ours()
    tm.recipes.blocks(run, on=tm.gpu(), num_warps=case.warps, num_stages=case.stages)
    f.derive_transfers()
    sources = f.source()
    (name,) = [each for each in sources if each.endswith(".cu")]
    image, words = compiler.compile(name, sources, Architecture(arch), ("-std=c++17", "-Xptxas", "-v"))
    shared = max((int(each) for each in re.findall(r"(\d+) bytes smem", words)), default=0)
    return found(image, shared)


def theirs(case: Case, arch: int) -> Found:
    """What Triton makes of it."""
    compiled = import_module("benchmarks.triton_kernels").compiled  # where Triton is installed
    stages = case.stages + 1 if case.stages > 1 else 1  # of which Triton holds one less
    return found(*compiled(case.kernel, case.types, case.constants, case.warps, stages, arch))


def scaled(one: Found, other: Found) -> float:
    """The other instructions of one for as many multiply-adds as of another one, over its others."""
    here, there = one.fused + one.tensor, other.fused + other.tensor
    return one.others / max(other.others, 1) * (there / here if here and there else 1)


def row(case: Case, mine: Found, peer: Found) -> list[str]:
    """A row of the table."""
    misses = []
    if mine.shared > SHARED * peer.shared and peer.shared:
        misses.append("shared memory")
    if mine.barriers > peer.barriers:
        misses.append("barriers")
    if scaled(mine, peer) > OTHERS:
        misses.append("others")
    cells = [(each.shared, each.barriers, each.fused, each.tensor, each.others) for each in (mine, peer)]
    pairs = [f"{one} / {other}" for one, other in zip(*cells, strict=True)]
    return [case.title, *pairs, f"{scaled(mine, peer):.2f}", str(mine.spills), ", ".join(misses) or "none"]


BOXES = "What a loop loads early is in n boxes of shared memory: num_stages=n here, n + 1 in Triton.\n\n"
#: Why ours have more of something.
#: The architecture whose machine code the reasons were read from.
READ = 80
WHY = """\n
Counted is the text of the main loop, once: where ours is a loop inside of another one, or Triton's is unrolled, counts
of kernels without products do not compare.

- Products: indices have 64 bits, and Triton's 32, since its sizes were said to be `i32`. Warps of float16 are one below
  the other, so each loads all columns of the second factor, by `ldmatrix` as Triton's, which are two by two.
- Softmax: quotients and `e ** x` are those of IEEE and of CUDA's `expf`, by multiply-adds; Triton's are `.approx`.
- Softmax and layer norm: rows are in registers, and their sums are trees; each tree has 4 bytes of shared memory for a
  warp of its own, where Triton's take turns. Layer norm keeps a mean and a scale there, too.
- Attention: values that take turns in shared memory cost a barrier; rows that are summed lie there, and each thread
  goes through a whole one.
"""
HEADER = (
    "kernel: ours / Triton's", "shared bytes", "barriers", "FFMA", "HMMA", "other instructions", "others, for as many",
    "spills", "beyond the goals",
)  # fmt: skip


def main() -> None:
    """Compile all cases, and print their table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--save", action="store_true", help="write docs/results/blocks-triton.md")
    options.add_argument("--arch", type=int, default=READ)
    options.add_argument("--only", default="", help="the cases with these words")
    given = options.parse_args()
    if importlib.util.find_spec("triton") is None:
        raise SystemExit('Triton is not installed: pip install "tiramisu_py[tuning]"')
    rows = []
    for case in CASES:
        if any(word in case.title for word in given.only.split(",")):
            rows.append(row(case, ours(case, given.arch), theirs(case, given.arch)))
            print(rows[-1], flush=True)
    as_read = given.arch == READ and not given.only
    version = importlib.metadata.version("triton")
    text = BOXES + f"Compiled for sm_{given.arch}, with 4 warps, beside Triton {version}; nothing is run.\n\n"
    report(
        "blocks-triton",
        TITLE,
        text + table(HEADER, rows) + (WHY if as_read else ""),
        given.save,
        "scripts/bench beside_triton",
    )


if __name__ == "__main__":
    main()
