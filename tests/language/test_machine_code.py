"""The kernels of the examples as nvcc compiles them: without warnings, and with nothing in the stack."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import tiramisu_py as tm
import tiramisu_py.language as tl
from tests.language.kernels import tensor_product
from tests.language.test_masks_left_out import module_of
from tests.selection import covering
from tiramisu_py.toolchain.compilers.cache import open_cache
from tiramisu_py.toolchain.compilers.images import Architecture
from tiramisu_py.toolchain.compilers.nvcc import find_nvcc

ARCHITECTURES = (75, 80, 90)


def scheduled(f: tm.Function, runs: Any, warps: int = 4, **options: Any) -> tm.Function:
    for run in runs if isinstance(runs, list) else [runs]:
        tm.recipes.blocks(run, on=tm.gpu(), num_warps=warps, **options)
    f.derive_transfers()
    return f


def whole_product(dtype: tm.DType, stages: int) -> tm.Function:
    """A product of rows of which threads load 16 bytes at once."""
    f, run = tensor_product(dtype, assume="K mod 8 = 0", TM=64, TN=64, TK=32)
    return scheduled(f, run, num_stages=stages)


def dropped() -> tm.Function:
    (n,) = tm.params("n")
    f = tm.Function("dropped", params=[n])
    x, out = f.input("x", tm.float32, [n]), f.array("out", tm.float32, [n])
    keep, seed = f.scalar("keep", tm.float32), f.scalar("seed", tm.int32)
    run = module_of("vector_add").dropout[tl.cdiv(n, 256)](x, out, keep, seed, BLOCK=256)
    f.outputs(out)
    return scheduled(f, run)


CASES: dict[str, Callable[[], tm.Function]] = {
    "vector add": lambda: scheduled(*module_of("vector_add").sum_of_vectors()),
    "dropout": dropped,
    "softmax": lambda: scheduled(*module_of("softmax").rows()),
    "layer norm": lambda: scheduled(*module_of("layer_norm").normalised()),
    "layer norm, gradients": lambda: scheduled(*module_of("layer_norm").gradients()),
    "product": lambda: scheduled(*module_of("gemm").product()),
    "product in stages": lambda: scheduled(*module_of("gemm").product(), num_stages=2),
    "product, split sums": lambda: scheduled(*module_of("gemm").product(4)),
    "product, transposed": lambda: module_of("any_size").made(32, 32, 8, 2, "atomic", 2, 1, True, True),
    "product, partial sums in registers": lambda: module_of("any_size").made(16, 16, 8, 4, "registers", 2, 1),
    "product, partial sums in shared memory": lambda: module_of("any_size").made(16, 16, 8, 2, "shared memory", 2, 1),
    "product, 16 bytes at once": lambda: whole_product(tm.float32, 2),
    "product of halves, 16 bytes at once": lambda: whole_product(tm.float16, 1),
    "product of halves, three stages": lambda: whole_product(tm.float16, 3),
    "convolution": lambda: scheduled(*module_of("convolution").convolved()),
    "scores of blocks": lambda: scheduled(*module_of("block_sparse").scores()),
    "sums of blocks": lambda: scheduled(*module_of("block_sparse").sums()),
    "rectified": lambda: scheduled(*module_of("listings").rectified()),
    "transposed": lambda: scheduled(*module_of("listings").transposed()),
    "attention": lambda: scheduled(*module_of("attention").attended()),
    "attention, forward": lambda: scheduled(*module_of("attention_backward").attended()),
    "attention, gradients": lambda: scheduled(*module_of("attention_backward").gradients()),
}


@pytest.mark.parametrize(("case", "architecture"), covering([*CASES], ARCHITECTURES))
def test_an_example_is_compiled_without_warnings_and_without_a_stack(case: str, architecture: int) -> None:
    compiler = find_nvcc(open_cache())
    if isinstance(compiler, str):
        pytest.skip(compiler)
    if "halves" in case and architecture < 80:
        pytest.skip("GPUs have m16n8k16 from sm_80 on")
    sources = CASES[case]().source()
    (name,) = [each for each in sources if each.endswith(".cu")]
    flags = ("-std=c++17", "--fmad=false", "-Werror", "all-warnings", "-Xptxas", "-v")
    _, words = compiler.compile(name, sources, Architecture(architecture), flags)
    frames = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", words)
    assert set(frames) == {("0", "0", "0")}
