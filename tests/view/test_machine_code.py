"""Machine code of kernels is counted: from a listing written by hand, and from what nvcc makes of a kernel."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.toolchain import machine_code
from tiramisu_py.toolchain.compilers import nvdisasm
from tiramisu_py.toolchain.compilers.cache import open_cache
from tiramisu_py.toolchain.compilers.nvcc import find_nvcc
from tiramisu_py.view import MachineCode, counted_code

LISTING = """
	.target	sm_80
	.section	.nv.info,"",@"SHT_CUDA_INFO"
        /*0000*/ 	.byte	0x04, 0x2f
	.section	.text.first,"ax",@progbits
        .global         first
first:
.text.first:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_7:
        /*0010*/                   LDG.E.128 R8, [R8.64] ;
        /*0020*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
.L_x_4:
        /*0030*/                   LDS.128 R4, [R0] ;
        /*0040*/              @!P0 BRA `(.L_x_3) ;
        /*0050*/                   FFMA R6, R6, R22, R7 ;
        /*0060*/                   HMMA.16816.F32 R4, R8, R10, R4 ;
        /*0070*/               @P1 BRA `(.L_x_4) ;
.L_x_3:
        /*0080*/                   STL [R1], R4 ;
        /*0090*/              @!P2 BRA `(.L_x_7) ;
        /*00a0*/                   EXIT ;
.L_x_9:
        /*00b0*/                   BRA `(.L_x_9);
	.section	.text.second,"ax",@progbits
.text.second:
        /*0000*/                   EXIT ;
"""


def test_instructions_of_a_listing_are_counted_by_kernel_and_by_loop() -> None:
    found = counted_code(LISTING)
    assert list(found) == ["first", "second"] and found["second"] == MachineCode({"EXIT": 1})
    first = found["first"]
    assert (first.instructions, first.bytes) == (12, 192)
    assert (first.fused, first.tensor, first.wide_loads, first.barriers, first.spills) == (1, 1, 2, 1, 1)
    outer, inner = first.loops  # the jump to itself at the end is none
    assert (outer.instructions, outer.barriers, outer.count("LDG", "BRA"), outer.spills) == (4, 1, 2, 1)
    assert (inner.instructions, inner.barriers, inner.count("BRA"), inner.spills) == (5, 0, 2, 0)
    assert first.lines() == [
        "12 instructions (192 bytes), 1 FFMA, 1 products of tensor cores, 2 loads of 128 bits, 1 barriers, "
        "1 accesses of local memory",
        "a loop of 4 instructions (64 bytes), 1 loads of 128 bits, 1 barriers, 1 accesses of local memory",
        "a loop of 5 instructions (80 bytes), 1 FFMA, 1 products of tensor cores, 1 loads of 128 bits",
    ]


def test_without_a_disassembler_the_message_says_what_installs_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvdisasm, "find_nvdisasm", lambda: None)
    with pytest.raises(tm.ToolchainError, match=r'which is not installed: pip install "tiramisu_py\[tuning\]"'):
        machine_code(b"")


@pytest.fixture
def disassembler() -> str:
    return nvdisasm.find_nvdisasm() or pytest.skip("nvdisasm is not installed")


def test_a_file_that_is_no_cubin_is_refused_by_its_name(disassembler: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no machine code")
    with pytest.raises(tm.ToolchainError, match=r"does not read \S*notes.txt as a cubin"):
        machine_code(tmp_path / "notes.txt")


def test_the_facts_of_a_compiled_kernel_have_its_machine_code(disassembler: str) -> None:
    found = find_nvcc(open_cache())
    if isinstance(found, str):
        pytest.skip(found)
    (N,) = tm.params("N")
    i, b, t = tm.iters("i b t")
    f = tm.Function("fused", params=[N])
    x = f.input("x", tm.float32, [N])
    y = f.computation("y", {i: N}, x[i] * np.float32(2) + np.float32(1))
    f.outputs(y)
    y.split(i, 64, b, t)
    y.tag_gpu(blocks=[b], threads=[t])
    f.derive_transfers()
    kernel = f.compile(device="gpu", architectures=["sm_80"], fast=["contract"])
    ((by_architecture),) = kernel.machine_code().values()
    (facts,) = f.cost("kernels", kernel)
    assert facts.code == {80: by_architecture["sm_80"]}
    assert facts.code[80].fused >= 1 and facts.code[80].spills == 0 and facts.code[80].barriers == 0
    assert f"sm_80: {facts.code[80]}" in facts.lines()


_OF_TRITON = """
import sys
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

@triton.jit
def rows(A, B, C, K, T: tl.constexpr):
    r, k0 = tl.arange(0, T), tl.arange(0, T)
    acc = tl.zeros((T, T), tl.float32)
    for k in range(0, K, T):
        a, b = tl.load(A + r[:, None] * K + k + k0[None, :]), tl.load(B + (k + k0)[:, None] * T + r[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(C + r[:, None] * T + r[None, :], acc)

types = {"A": "*fp16", "B": "*fp16", "C": "*fp32", "K": "i32", "T": "constexpr"}
aligned = {(at,): [["tt.divisibility", 16]] for at in range(4)}
source = ASTSource(fn=rows, signature=types, constexprs={"T": 32}, attrs=aligned)
options = {"num_warps": 1, "num_stages": 1}
open("rows.cubin", "wb").write(triton.compile(source, target=GPUTarget("cuda", 80, 32), options=options).asm["cubin"])
"""


def test_the_machine_code_of_a_cubin_of_triton_is_counted_by_loop(disassembler: str, tmp_path: Path) -> None:
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed")
    (tmp_path / "rows.py").write_text(_OF_TRITON)
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run([sys.executable, "rows.py"], cwd=tmp_path, env=environment, check=True)
    code = machine_code(tmp_path / "rows.cubin")["rows"]
    (loop,) = code.loops
    assert loop.tensor == code.tensor == 32 * 32 * 32 // (16 * 8 * 16)
    assert loop.wide_loads > 0 and loop.barriers > 0 and loop.spills == 0 and loop.fused == 0
    assert 0 < loop.bytes < code.bytes and loop.bytes == 16 * loop.instructions
