"""The vocabulary of kernels is taken by nvcc and by NVRTC, without a word."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.backends.cuda.simulation import CASES, RUNTIME
from tiramisu_py.backends.cuda.simulated import KERNEL_HEADERS
from tiramisu_py.toolchain import open_cache
from tiramisu_py.toolchain.compilers.images import Architecture
from tiramisu_py.toolchain.compilers.nvrtc import Nvrtc, find_nvrtc

NVCC = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
ARCHITECTURES = ("sm_75", "sm_80", "sm_90")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_nvcc_compiles_every_kernel_with_warnings_as_errors(architecture: str, tmp_path: Path) -> None:
    if NVCC is None:
        pytest.skip("no nvcc on this machine")
    cubin = tmp_path / "cases.cubin"
    command = [
        NVCC, "-std=c++17", "--fmad=false", "-Werror", "all-warnings", f"-arch={architecture}", f"-I{RUNTIME}",
        "-cubin", str(CASES), "-o", str(cubin),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert cubin.read_bytes()[:4] == b"\x7fELF"


def test_nvcc_makes_vector_accesses_asynchronous_copies_and_atomics(tmp_path: Path) -> None:
    if NVCC is None:
        pytest.skip("no nvcc on this machine")
    ptx = tmp_path / "cases.ptx"
    subprocess.run([NVCC, "-std=c++17", "-arch=sm_80", f"-I{RUNTIME}", "-ptx", str(CASES), "-o", str(ptx)], check=True)
    text = ptx.read_text()
    for instruction in ("ld.global.nc.v4", "st.global.v4", "cp.async.ca.shared", "cp.async.wait_group", "shfl.sync"):
        assert instruction in text
    for atomic in ("add.u64", "add.f32", "add.f64", "max.s32", "min.s64", "cas.b32"):
        assert any(f"{word}{atomic}" in text for word in ("atom.", "atom.global.", "red.global.", "red."))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_nvrtc_compiles_every_kernel_without_any_header_of_a_system(architecture: str) -> None:
    nvrtc = find_nvrtc(open_cache())
    if not isinstance(nvrtc, Nvrtc):
        pytest.skip(nvrtc)
    sources = {file.name: file.read_text() for file in (CASES, *KERNEL_HEADERS)}
    target = Architecture(int(architecture.removeprefix("sm_")))
    cubin, said = nvrtc.compile(CASES.name, sources, target, ["-std=c++17", "--fmad=false"])
    assert cubin[:4] == b"\x7fELF" and said.strip() == ""
