"""Programs with GPU parts: compiled for real GPUs and for the simulator, loaded without a driver, and called."""

from __future__ import annotations

import ctypes
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tests.lacking import CXX, without_cxx
from tests.programs.gpu.sources import flip
from tiramisu_py.backends.cuda.simulated import KERNEL_HEADERS
from tiramisu_py.errors import ArgumentError, KernelError, ToolchainError
from tiramisu_py.toolchain import gpu_count, open_cache
from tiramisu_py.toolchain.compilers.cuda_compiler import (
    Architecture,
    chosen_architectures,
    cuda_flags,
    find_cuda_compiler,
    resources_in,
)
from tiramisu_py.toolchain.compilers.images import string_of
from tiramisu_py.toolchain.compilers.nvcc import Nvcc, find_nvcc
from tiramisu_py.toolchain.compilers.nvrtc import find_nvrtc

without_gxx = pytest.mark.skipif(without_cxx(), reason=CXX)


def flipped(x: np.ndarray, a: float) -> np.ndarray:
    return np.float32(a) * np.concatenate([x[i : i + 64][::-1] for i in range(0, len(x), 64)])


@pytest.fixture
def x() -> np.ndarray:
    return np.random.default_rng(0).random(200, dtype=np.float32)


# -- the simulator


@without_gxx
@pytest.mark.parametrize(
    "options", [{}, {"sanitize": True}, {"seed": 3, "sanitize": True}, {"timing": "threads"}], ids=str
)
def test_a_program_runs_on_the_simulator(x, options):
    kernel = flip().compile(device="simulator", **options)
    assert np.array_equal(kernel(2.0, x), flipped(x, 2.0))
    assert kernel.device == "simulator" and kernel.resources == {}


@without_gxx
def test_twenty_seeds_need_one_compilation_and_agree(x):
    kernel = flip().compile(device="simulator", sanitize=True)
    for seed in range(20):
        assert np.array_equal(kernel.seeded(seed)(2.0, x), flipped(x, 2.0))


@without_gxx
def test_a_missing_barrier_is_found_with_both_threads_and_the_source_lines(x):
    kernel = flip("racy", barrier=False).compile(device="simulator", sanitize=True)
    with pytest.raises(KernelError, match=r"racy_flip: race.*tile.*racy\.cu:\d+.*racy\.cu:\d+"):
        kernel(2.0, x)


@without_gxx
def test_a_write_out_of_bounds_is_found_with_the_array_and_the_thread(x):
    kernel = flip("beyond", beyond="+ 1").compile(device="simulator", sanitize=True)
    with pytest.raises(KernelError, match=r"element 200 of y.*thread \(7,0,0\) of block \(3,0,0\)"):
        kernel(2.0, x)


@without_gxx
def test_a_kernel_that_failed_can_be_called_again(x):
    kernel = flip("beyond", beyond="+ (N == 200 ? 1 : 0)").compile(device="simulator", sanitize=True)
    with pytest.raises(KernelError):
        kernel(2.0, x)
    assert np.array_equal(kernel(2.0, x[:128]), flipped(x[:128], 2.0))


@without_gxx
def test_threads_may_call_one_kernel_at_the_same_time(x):
    kernel = flip().compile(device="simulator")

    def run(a: int) -> bool:
        return all(np.array_equal(kernel(float(a), x), flipped(x, a)) for _ in range(20))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(run, range(16)))


@without_gxx
def test_an_empty_array_launches_nothing():
    assert flip().compile(device="simulator")(2.0, np.empty(0, np.float32)).shape == (0,)


@without_gxx
def test_the_simulator_is_compiled_once_and_a_program_once_for_each_mode(x, tmp_path, monkeypatch):
    monkeypatch.setenv("TIRAMISU_CACHE_DIR", str(tmp_path / "cache"))
    entries = tmp_path / "cache" / "entries"
    flip("once").compile(device="simulator")
    made = len(list(entries.iterdir()))
    flip("once").compile(device="simulator", seed=4)
    assert len(list(entries.iterdir())) == made
    flip("once").compile(device="simulator", sanitize=True)
    assert len(list(entries.iterdir())) == made + 2  # its kernels, and the library with their path


@without_gxx
def test_the_second_simulated_gpu_is_used_when_it_is_named(x):
    kernel = flip().compile(device="simulator:1")
    assert kernel.device == "simulator:1" and np.array_equal(kernel(2.0, x), flipped(x, 2.0))
    with pytest.raises(KernelError):
        flip().compile(device="simulator:900")(2.0, x)


def test_without_a_cxx_compiler_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ToolchainError, match=r"no-such-compiler(.|\n)*apt-get install g\+\+"):
        flip("nocxx").compile(device="simulator")


# -- options


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"device": "cuda"}, r'"gpu", "gpu:1"'),
        ({"device": "gpu", "seed": 1}, "for the simulator"),
        ({"sanitize": True}, "for the simulator"),
        ({"device": "gpu", "timing": "lazy"}, "for the simulator"),
        ({"device": "simulator", "architectures": (90,)}, "not for the simulator"),
        ({"device": "simulator", "seed": -1}, "seed"),
        ({"device": "simulator", "timing": "late"}, "eager, lazy, shuffled, threads"),
    ],
    ids=str,
)
def test_options_that_do_not_go_together_are_refused(options, words):
    with pytest.raises(ArgumentError, match=words):
        flip().compile(**options)


@pytest.mark.parametrize(
    "options", [{"device": "simulator"}, {"device": "gpu"}, {"seed": 1}, {"architectures": (90,)}], ids=str
)
def test_options_for_gpus_are_refused_where_a_program_uses_none(saxpy, options):
    with pytest.raises(ArgumentError, match=r"saxpy runs nothing on a GPU.*tag_gpu"):
        saxpy.compile(**options)


# -- real GPUs


def nvcc() -> Nvcc:
    found = find_nvcc(open_cache())
    return pytest.skip(f"no nvcc: {found}") if isinstance(found, str) else found


def nvrtc():
    found = find_nvrtc(open_cache())
    return pytest.skip(f"no NVRTC: {found}") if isinstance(found, str) else found


@pytest.mark.parametrize("find", [nvcc, nvrtc])
@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90", "compute_80"])
def test_kernels_compile_for_every_architecture_and_say_what_they_take(find, architecture):
    compiler = find()
    (chosen,) = chosen_architectures(compiler, [architecture], ())
    program = flip()
    flags = (*cuda_flags(), "--ptxas-options=-v") if not chosen.virtual else cuda_flags()
    content, log = compiler.compile("flip.cu", program.sources, chosen, flags)
    assert (b".target sm_80" in content) if chosen.virtual else content.startswith(b"\x7fELF")
    if not chosen.virtual:
        taken = resources_in(log)["flip_flip"]
        assert 0 < taken.registers <= 255 and taken.shared_bytes == 64 * 4 and taken.spilled_bytes == 0


@pytest.mark.parametrize("find", [nvcc, nvrtc])
def test_what_the_compiler_refuses_is_said_in_its_own_words(find):
    sources = {"bad.cu": '#include "tm_kernel.h"\nTM_KERNEL void bad() { no_such_function(); }\n'}
    sources |= {path.name: path.read_text() for path in KERNEL_HEADERS}
    with pytest.raises(ToolchainError, match=r"bad\.cu for sm_80(.|\n)*no_such_function"):
        find().compile("bad.cu", sources, Architecture(80), cuda_flags())


@pytest.mark.parametrize("find", [nvcc, nvrtc])
@pytest.mark.parametrize(("fast", "fused"), [((), False), (("contract",), True)], ids=["strict", "contract"])
def test_products_and_sums_are_fused_only_where_that_is_asked_for(find, fast, fused):
    text = '#include "tm_kernel.h"\nTM_KERNEL void fused(float *x) { x[0] = x[0] * x[1] + x[2]; }\n'
    sources = {"fused.cu": text} | {path.name: path.read_text() for path in KERNEL_HEADERS}
    ptx, _ = find().compile("fused.cu", sources, Architecture(80, virtual=True), cuda_flags(fast))
    assert (b"fma.rn.f32" in ptx) == fused and (b"mul.rn.f32" in ptx) != fused


def test_without_a_gpu_kernels_are_compiled_for_the_usual_architectures_and_ptx():
    compiler = nvcc()
    assert [a.name for a in chosen_architectures(compiler, None, ())] == ["sm_75", "sm_80", "sm_90", "compute_75"]
    assert [a.name for a in chosen_architectures(compiler, None, {90, 80})] == ["sm_80", "sm_90"]
    assert [a.name for a in chosen_architectures(compiler, None, {999})] == [f"compute_{compiler.architectures[-1]}"]
    with pytest.raises(ToolchainError, match="nvidia-cuda-nvrtc-cu12"):
        chosen_architectures(compiler, None, {30})


@pytest.mark.parametrize("asked", [["sm_1"], [90.5], "sm_90", [], ["sm_90a"], [True]], ids=repr)
def test_architectures_that_the_compiler_does_not_know_are_refused(asked):
    with pytest.raises(ToolchainError, match=r"architectures|does not compile"):
        chosen_architectures(nvcc(), asked, ())


@pytest.mark.parametrize("asked", [[], ()], ids=repr)
def test_at_least_one_architecture_is_named(asked):
    with pytest.raises(ToolchainError, match="name at least one, or leave it out"):
        chosen_architectures(nvcc(), asked, ())


def test_a_program_for_a_gpu_loads_without_a_driver_and_calling_it_says_that_there_is_none(x):
    find_cuda_compiler(open_cache()) if not isinstance(find_nvcc(open_cache()), str) else nvrtc()
    if gpu_count():
        pytest.skip("there is a GPU")
    kernel = flip("alone").compile(architectures=("sm_80", "compute_80"))
    assert set(kernel.resources["alone_flip"]) == {"sm_80"}
    assert not any(name.endswith((".inc", "_images.c")) for name in kernel.source)
    with pytest.raises(KernelError, match=r'alone: no CUDA driver on this machine.*device="simulator"'):
        kernel(2.0, x)


def test_where_there_is_neither_nvcc_nor_nvrtc_the_message_says_what_to_install(tmp_path, monkeypatch):
    """In a process whose PATH and packages have no CUDA."""
    if Path("/usr/local/cuda/bin/nvcc").exists() and os.geteuid() != 0:
        pytest.skip("there is a toolkit in /usr/local/cuda")
    monkeypatch.setattr("tiramisu_py.toolchain.compilers.nvcc._candidates", lambda: iter(()))
    monkeypatch.setattr("tiramisu_py.toolchain.compilers.nvrtc._candidates", lambda: iter(()))
    with pytest.raises(ToolchainError, match=r'(.|\n)*pip install "tiramisu_py\[nvcc\]"(.|\n)*device="simulator"'):
        flip("nowhere").compile()


def test_an_nvcc_that_does_not_work_is_passed_over(tmp_path, monkeypatch):
    broken = tmp_path / "bin" / "nvcc"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.1'\nexit 1\n")
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{broken.parent}:{os.environ['PATH']}")
    found = find_nvcc(open_cache())
    assert isinstance(found, str) or found.path != str(broken)


def test_bytes_become_the_same_bytes_in_c(tmp_path):
    content = bytes(range(256)) * 3 + b"\x00\x07"
    (tmp_path / "image.inc").write_text(string_of(content))
    (tmp_path / "image.c").write_text('const char image[] =\n#include "image.inc"\n;\nconst int size = sizeof image;\n')
    subprocess.run(
        ["gcc", "-Wall", "-Werror", "-shared", "-fPIC", "-o", "image.so", "image.c"], cwd=tmp_path, check=True
    )
    loaded = ctypes.CDLL(str(tmp_path / "image.so"))
    size = ctypes.c_int.in_dll(loaded, "size").value
    assert bytes((ctypes.c_char * size).in_dll(loaded, "image").raw) == content + b"\0"


def test_importing_the_package_loads_no_driver_and_no_compiler():
    text = """import tiramisu_py.toolchain
maps = open("/proc/self/maps").read()
print("nvrtc" in maps, "libcuda" in maps)"""
    assert (
        subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout
        == "False False\n"
    )
