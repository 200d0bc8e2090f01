"""A made-up kind of GPU: limits, proof, lowering and kernels follow the `GpuTarget`, and nothing is left of CUDA's."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

import tiramisu_py as tm
from tiramisu_py.algorithm.expressions import Const
from tiramisu_py.backends import emit
from tiramisu_py.backends.cuda.kernel_scope import KernelScope
from tiramisu_py.backends.cuda.kernel_text import emit_kernels, signatures
from tiramisu_py.backends.cuda.kernel_vectors import vector
from tiramisu_py.errors import ArgumentError, CommandError, CompilerDefect, ToolchainError
from tiramisu_py.interpret.devices import kernel_run as machine
from tiramisu_py.interpret.machine_faults import InterpretError
from tiramisu_py.ir import Block, KernelFunction, LoopFunction
from tiramisu_py.lower import lower
from tiramisu_py.passes.pipeline import optimise
from tiramisu_py.program.machine.gpu_target import CUDA, GpuTarget
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.spread import spread
from tiramisu_py.proof import check
from tiramisu_py.schedule.devices.tag_gpu import check_limits
from tiramisu_py.toolchain import compile_function
from tiramisu_py.view.kernel_facts import kernel_facts

(N,) = tm.params("N")
i, i0, i1 = tm.iters("i i0 i1")

#: Twice CUDA's warp, and every limit another one.
TOY = GpuTarget(
    name="toy",
    warp=64,
    most_threads=512,
    most_along=(512, 256, 32),
    most_shared=32 * 1024,
    most_blocks=(60000, 1000, 1000),
    widest=8,
    sector=128,
    banks=16,
    word=8,
    header="/nowhere/tm_toy.h",
    compiler="toycc",
    architecture="toy_",
)


def on_toy(f: tm.Function, target: GpuTarget = TOY) -> Program:
    """The function's program, for the made-up GPU."""
    return replace(f.completed, targets=replace(f.completed.targets, gpu=target))


def scaled(threads: int) -> tm.Function:
    """``o[i] = 2 * a[i]``, a block of some threads at a time."""
    f = tm.Function("scale", params=[N])
    a = f.input("a", tm.float32, [N])
    o = f.computation("o", {i: N}, 2 * a[i])
    f.outputs(o)
    o.split(i, threads, i0, i1)
    o.tag_gpu(blocks=[i0], threads=[i1])
    f.derive_transfers()
    return f


def summed(threads: int) -> tm.Function:
    """The sum of all elements, a tree over the threads of a block."""
    f = tm.Function("sums", params=[N])
    a = f.input("a", tm.int32, [N])
    total = f.reduction("total", {}, {i: N}, tm.sum, a[i])
    f.outputs(total)
    total.update.split(i, threads, i0, i1)
    total.tag_gpu(blocks=[i0], threads=[i1], combine=tm.TREE)
    f.derive_transfers()
    return f


def lowered(program: Program) -> LoopFunction:
    """The loops of a program, as they are emitted."""
    return optimise(lower(spread(program)), 64)


def refusal(program: Program) -> str:
    """What the proof says, in all words; empty where it has nothing against it."""
    report = check(spread(program))
    return "" if report.ok else str(report)


def test_the_proof_knows_the_limits_of_the_kind_of_gpu() -> None:
    f = scaled(768)
    assert refusal(on_toy(f, CUDA)) == ""
    assert "toy allows 512" in refusal(on_toy(f))
    assert "along axis x; toy allows 500" in refusal(on_toy(f, replace(TOY, most_along=(500, 1, 1))))
    assert refusal(on_toy(f, replace(TOY, most_threads=768, most_along=(768, 1, 1)))) == ""


def test_the_proof_counts_the_shared_memory_of_a_tree_in_warps_of_the_kind_of_gpu() -> None:
    f = summed(128)
    assert refusal(on_toy(f, replace(TOY, most_shared=16))) == ""  # a partial result of 4 bytes for each of two warps
    f = summed(256)
    assert "needs 32 bytes of shared memory" in refusal(on_toy(f, replace(TOY, most_shared=16, warp=32)))


def test_commands_know_the_limits_of_the_kind_of_gpu() -> None:
    check_limits(on_toy(scaled(512)), ["o"])
    with pytest.raises(CommandError, match="toy allows 512 in a block"):
        check_limits(on_toy(scaled(768), replace(TOY, most_along=(1024, 1, 1))), ["o"])
    with pytest.raises(CommandError, match="along x: toy allows 512 there"):
        check_limits(on_toy(scaled(768)), ["o"])


def test_a_function_checks_that_its_blocks_fit_a_grid_of_the_kind_of_gpu() -> None:
    words = [words for _, words in lowered(on_toy(scaled(64))).preconditions]
    assert any("<= 60000, the blocks of kernel o along x" in said for said in words), words


def test_the_machine_runs_no_larger_blocks_than_the_kind_of_gpu() -> None:
    kernel = KernelFunction("k", (), (), (), (768, 1, 1), Block(()))
    machine.launched(kernel, (1, 1, 1), [], [], 0, random.Random(0))
    with pytest.raises(InterpretError, match="more than a GPU allows"):
        machine.launched(replace(kernel, gpu=TOY), (1, 1, 1), [], [], 0, random.Random(0))


@pytest.mark.parametrize(("threads", "warp", "parts"), [(128, 64, 2), (128, 32, 4), (64, 64, 0), (32, 64, 32)])
def test_trees_are_of_warps_of_the_kind_of_gpu(threads: int, warp: int, parts: int) -> None:
    kernels = lowered(on_toy(summed(threads), replace(TOY, warp=warp))).gpus.kernels
    assert max(kernel_facts(kernel).shared_bytes for kernel in kernels) == 4 * parts


def test_the_emitted_kernels_follow_the_kind_of_gpu() -> None:
    text = emit_kernels(lowered(on_toy(summed(128))))
    assert '#include "tm_toy.h"' in text and "tm_kernel.h" not in text
    assert "for (int tm_step = 32; tm_step > 0; tm_step /= 2)" in text
    assert "TM_SHARED(int32_t, tm_parts, [2])" in text
    assert "if (tm_number % 64 == 0)" in text and "tm_parts[tm_number / 64] = tm_part" in text


def test_the_header_of_the_kind_of_gpu_goes_with_the_sources(tmp_path: Path) -> None:
    header = tmp_path / "tm_toy.h"
    header.write_text("/* a toy */")
    sources = emit(lowered(on_toy(scaled(64), replace(TOY, header=str(header)))))
    assert sources["tm_toy.h"] == "/* a toy */" and "tm_kernel.h" not in sources


def test_what_a_warp_moves_is_counted_in_sectors_of_the_kind_of_gpu() -> None:
    def sectors(target: GpuTarget) -> set[int]:
        (kernel,) = lowered(on_toy(scaled(256), target)).gpus.kernels
        return {access.sectors for access in kernel_facts(kernel).accesses}

    assert sectors(CUDA) == {32 * 4 // 32} and sectors(TOY) == {64 * 4 // 128}


def test_vectors_are_as_wide_as_the_kind_of_gpu_loads() -> None:
    scope = KernelScope({}, widest=TOY.widest)
    assert vector(tm.float32, 2, scope) == "tm_vec<float, 2>"
    with pytest.raises(CompilerDefect, match="lanes of at most 8 bytes"):
        vector(tm.float32, 4, scope)
    assert scope.divisor(Const(48, tm.int64)) == 8 and KernelScope({}).divisor(Const(48, tm.int64)) == 16


def test_kernels_are_compiled_by_the_compiler_of_the_kind_of_gpu() -> None:
    function, f = lowered(on_toy(scaled(64), replace(TOY, header=CUDA.header))), scaled(64)
    with pytest.raises(ToolchainError, match="kernels for toy need the compiler 'toycc'"):
        compile_function(function, emit(function), f.algorithm, kernels=signatures(function), device="simulator")


def test_a_program_without_its_kernels_is_refused_with_where_they_are() -> None:
    f = scaled(64)
    function = f.show("lowered")
    with pytest.raises(ArgumentError, match=r"scale launches \w+, and kernels= has 0 of 1: .*signatures\(function\)"):
        compile_function(function, emit(function), f.algorithm, device="simulator")
