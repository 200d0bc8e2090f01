"""The threads that have the elements of each value: what stays in registers, and products on tensor cores."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
import tiramisu_py.language as tl
from tests.language.kernels import CASES, declared, numbers, tensor_product
from tests.selection import some
from tiramisu_py import interpret
from tiramisu_py.ir import Mma
from tiramisu_py.ir.rewriting import walk
from tiramisu_py.toolchain.compilers.cache import open_cache
from tiramisu_py.toolchain.compilers.cuda_compiler import find_nvcc
from tiramisu_py.toolchain.compilers.images import Architecture

#: The values of each kernel that no thread but their own reads.
REGISTERS = {
    "add": {"x", "y"},
    "transposed": set(),
    "softmax": set(),
    "product_1": {"acc"},
    "product_4": {"acc"},
    "attention": {"product", "largest", "summed", "acc_product", "acc"},
}


@pytest.mark.parametrize("name", REGISTERS)
def test_a_value_that_no_other_thread_reads_is_in_registers(name: str) -> None:
    _, run = declared(next(case for case in CASES if case.name == name))
    text = tm.recipes.blocks(run, on=tm.gpu(), num_warps=2)
    kept = {memory: set(re.findall(rf"(\w+)\.store_in\(tm\.{memory}\)", text)) for memory in ("REGISTER", "SHARED")}
    assert kept["REGISTER"] == REGISTERS[name]
    assert kept["REGISTER"] | kept["SHARED"] == {v.name for v in run.values} - set(run.outputs)


def instructions(f: tm.Function) -> list[str]:
    found = [node for kernel in f.show("lowered").gpus.kernels for node in walk(kernel.body)]
    return [node.instruction for node in found if isinstance(node, Mma)]


SHAPES: list[dict[str, int]] = [{}, {"SPLIT": 4}, {"TM": 64, "TN": 32, "TK": 32}, {"TM": 16, "TN": 64}]


@pytest.mark.parametrize("dtype", some([tm.float16, tm.bfloat16], lambda each: each is tm.float16), ids=str)
@pytest.mark.parametrize(
    ("constants", "warps"), some(list(zip(SHAPES, (4, 2, 8, 1), strict=True)), lambda c: c[1] == 4)
)
def test_products_of_halves_run_on_tensor_cores(dtype: tm.DType, constants: dict[str, int], warps: int) -> None:
    f, run = tensor_product(dtype, **constants)
    text = tm.recipes.blocks(run, on=tm.gpu(), num_warps=warps, num_stages=2)
    assert "acc.update.tensorize(" in text and "pipeline" in text
    f.derive_transfers()
    report = f.check()
    assert report.ok and "tensor cores" in report.bits, report
    assert set(instructions(f)) == {"m16n8k16"}
    kernel = f.compile(device="simulator", sanitize=True)
    for m, n, k in ((64, 32, 33), (33, 17, 50)):
        a, b = numbers(m, k, dtype=dtype.numpy), numbers(n, k, dtype=dtype.numpy)
        expected = a.astype(np.float32) @ b.astype(np.float32).T
        for each in (kernel, kernel.seeded(1, "lazy")):
            np.testing.assert_array_equal(each(a, b), expected)


@pytest.mark.slow
def test_float32_runs_on_tensor_cores_where_the_source_allows_fewer_bits() -> None:
    f, run = tensor_product(tm.float32, TK=8, PRECISION="tf32")
    assert ".tf32" in str(run.ir) and str(tl.parse(str(run.ir))) == str(run.ir)
    text = tm.recipes.blocks(run, on=tm.gpu(), num_warps=2)
    assert "'m16n8k8.tf32'" in text
    f.derive_transfers()
    report = f.check()
    assert report.ok and "factors keep 10 of their 23 bits" in report.bits, report
    assert set(instructions(f)) == {"m16n8k8.tf32"}
    a, b = numbers(33, 20), numbers(17, 20)
    np.testing.assert_array_equal(f.evaluate(a, b), a @ b.T)
    np.testing.assert_array_equal(f.compile(device="simulator", sanitize=True)(a, b), a @ b.T)
    _, exact = tensor_product(tm.float32, TK=8)
    assert "tensorize" not in tm.recipes.blocks(exact, on=tm.gpu(), num_warps=2)


@tm.jit
def halves_of_attention(S, V, Out, TM: tl.constexpr, TN: tl.constexpr, D: tl.constexpr):
    """The second product of attention: scores are rounded to 16 bits."""
    rm, rn, rd = tl.program_id(0) * TM + tl.arange(0, TM), tl.arange(0, TN), tl.arange(0, D)
    inside = (rm[:, None] < S.shape[0]) & (rn < S.shape[1])
    p = tl.exp(tl.load(S[rm[:, None], rn], mask=inside, other=0))
    v = tl.load(V[rn[:, None], rd], mask=rn[:, None] < S.shape[1], other=0)
    tl.store(Out[rm[:, None], rd], tl.dot(p.to(tl.float16), v), mask=rm[:, None] < S.shape[0])


def test_factors_that_a_kernel_rounds_are_values_of_16_bits() -> None:
    M, N = tm.params("M N")
    f = tm.Function("halves", params=[M, N], assume="N <= 16")
    S, V, out = f.input("S", tm.float32, [M, N]), f.input("V", tm.float16, [N, 8]), f.array("o", tm.float32, [M, 8])
    run = halves_of_attention[tl.cdiv(M, 16)](S, V, out, TM=16, TN=16, D=8)
    f.outputs(out)
    text = tm.recipes.blocks(run, on=tm.gpu(), num_warps=1)
    assert "product.update.tensorize(" in text and "rounded.store_in(tm.SHARED, swizzle=(2, 8, 4))" in text
    f.derive_transfers()
    s, v = np.log(1 + numbers(18, 11)).astype(np.float32), numbers(11, 8, dtype=np.float16)
    expected = f.evaluate(s, v)
    p = np.exp(s).astype(np.float16).astype(np.float32)
    np.testing.assert_allclose(expected, p @ v.astype(np.float32), rtol=1e-2)
    np.testing.assert_allclose(f.compile(device="simulator", sanitize=True)(s, v), expected, rtol=1e-2)


@pytest.mark.slow
def test_warps_without_rows_are_not_waited_for() -> None:
    """Two of four warps have the rows of a block; the interpreter lets each warp multiply by itself."""
    f, run = tensor_product()
    tm.recipes.blocks(run, on=tm.gpu(), num_warps=4)
    f.derive_transfers()
    function = f.show("lowered")
    a, b, c = numbers(32, 16, dtype=np.float16), numbers(16, 16, dtype=np.float16), np.zeros((32, 16), np.float32)
    interpret.run(function, {"A": a, "B": b, "C": c}, {"M": 32, "N": 16, "K": 16})
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)


@pytest.mark.parametrize("constants", [{"TN": 4}, {"TM": 8}, {"TK": 8}], ids=str)
def test_products_that_are_no_whole_tiles_are_loops(constants: dict[str, int]) -> None:
    _, run = tensor_product(**constants)
    text = tm.recipes.blocks(run, on=tm.gpu(), num_warps=2)
    assert "tensorize" not in text and "acc.store_in(tm.REGISTER)" in text


TILES: list[tuple[dict[str, int], int]] = [
    ({"TM": 32, "TN": 32, "TK": 8}, 2),
    ({"TM": 16, "TN": 64, "TK": 64}, 4),
    ({"TM": 64, "TN": 32, "SPLIT": 2}, 1),
]


@pytest.mark.parametrize(("constants", "warps"), some(TILES, lambda each: each[1] == 2), ids=str)
def test_a_thread_has_a_tile_of_a_product_of_floats(constants: dict[str, int], warps: int) -> None:
    f, run = tensor_product(tm.float32, **constants)
    text = tm.recipes.blocks(run, on=tm.gpu(), num_warps=warps)
    assert "acc.store_in(tm.REGISTER)" in text
    assert "acc.update.unroll(rn_own)" in text and ("acc.update.unroll(rm_part)" in text) == (constants["TM"] > 16)
    f.derive_transfers()
    report = f.check()
    assert report.ok and report.bits == "bits preserved", report
    kernel = f.compile(device="simulator", sanitize=True)
    for m, n, k in ((64, 32, 33), (33, 17, 50), (1, 1, 0)):
        a, b = numbers(m, k), numbers(n, k)
        for each in (kernel, kernel.seeded(1, "lazy")):
            np.testing.assert_array_equal(each(a, b), a @ b.T)


@pytest.mark.parametrize("constants", [{"TM": 4, "TN": 32}, {"TM": 32, "TN": 16}], ids=str)
def test_products_of_floats_that_are_no_whole_tiles_have_threads_side_by_side(constants: dict[str, int]) -> None:
    _, run = tensor_product(tm.float32, **constants)
    text = tm.recipes.blocks(run, on=tm.gpu(), num_warps=2)
    assert "rn_own" not in text and "acc.store_in(tm.REGISTER)" in text


def test_sums_that_the_user_keeps_elsewhere_are_added_in_loops() -> None:
    f, run = tensor_product()
    run["acc"].store_in(tm.SHARED)
    assert "tensorize" not in tm.recipes.blocks(run, on=tm.gpu(), num_warps=2)
    f.derive_transfers()
    assert f.check().ok


def test_tensor_cores_are_for_the_gpus_that_have_them() -> None:
    f, run = tensor_product()
    f.gpu_target(tm.GpuTarget("other", compiler="hip", architecture="gfx"))
    assert "tensorize" not in tm.recipes.blocks(run, on=tm.gpu(), num_warps=2)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", [80, 90])
@pytest.mark.parametrize("constants", SHAPES, ids=str)
def test_nvcc_keeps_sums_in_registers(constants: dict[str, int], architecture: int) -> None:
    compiler = find_nvcc(open_cache())
    if isinstance(compiler, str):
        pytest.skip(compiler)
    f, run = tensor_product(**constants)
    tm.recipes.blocks(run, on=tm.gpu(), num_warps=4, num_stages=2)
    f.derive_transfers()
    flags = ("-std=c++17", "-Werror", "all-warnings", "-Xptxas", "-v")
    _, words = compiler.compile("half.cu", f.source(), Architecture(architecture), flags)
    frames: list[Any] = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", words)
    assert set(frames) == {("0", "0", "0")}


def test_what_an_iteration_replaces_is_kept_once() -> None:
    _, run = declared(next(case for case in CASES if case.name == "attention"))
    text = tm.recipes.blocks(run, on=tm.cores())
    assert "acc.fold(start_step, 1)" in text and "total.fold(start_step, 1)" in text
    assert "high.fold(start_step, 2)" in text  # decay reads both
