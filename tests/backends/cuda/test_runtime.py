"""tm_gpu.h: memory, copies, streams, events, limits and messages, over the simulator's driver."""

from __future__ import annotations

import ctypes
import subprocess
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.backends.cuda.simulation import (
    HOST,
    RUNTIME,
    WAIT,
    Box,
    Call,
    GpuError,
    checked,
    configure,
    kernels_library,
    long,
    program,
    random,
    runtime,
    simulator_library,
)
from tiramisu_py.backends.cuda.simulated import KERNEL_HEADERS, RUNTIME_SOURCES, SIMULATOR_SOURCES

CUDA_INCLUDE = Path("/usr/local/cuda/include")
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")


# -- copies


@pytest.mark.parametrize(
    "pitches", [(40, 400, 32, 256), (32, 256, 40, 400), (24, 192, 24, 192), (40, 365, 32, 259), (24, 200, 24, 200)]
)
@pytest.mark.parametrize("directions", [(0, HOST), (HOST, 0), (0, 0), (1, 0), (HOST, HOST)])
def test_a_box_is_copied_as_numpy_copies_it(pitches: tuple[int, ...], directions: tuple[int, int]) -> None:
    target_pitch, target_plane, source_pitch, source_plane = pitches
    run, lines, planes = 24, 8, 5
    source = np.random.default_rng(0).integers(0, 255, 2000).astype(np.uint8)
    expected = np.full(2000, 7, np.uint8)
    for p in range(planes):
        for r in range(lines):
            to, start = p * target_plane + r * target_pitch, p * source_plane + r * source_pitch
            expected[to : to + run] = source[start : start + run]
    into, out_of = directions
    target = np.full(2000, 7, np.uint8)
    with Call() as gpu:
        here = source.ctypes.data if out_of == HOST else gpu.to(source, out_of)
        there = target.ctypes.data if into == HOST else gpu.to(target, into)
        box = Box(run, lines, planes, target_pitch, target_plane, source_pitch, source_plane)
        gpu.box(there, into, here, out_of, box)
        found = target if into == HOST else gpu.back(there, target, into)
    assert np.array_equal(found, expected)


def test_an_empty_box_is_not_copied_and_memory_is_set_to_zero() -> None:
    with Call() as gpu:
        gpu.box(0, 0, 0, HOST, Box(16, 0, 1))
        place = gpu.to(random(64))
        checked(runtime().tm_gpu_zero(gpu.handle, 0, ctypes.c_void_p(place), ctypes.c_size_t(128), WAIT))
        assert np.array_equal(gpu.back(place, random(64)), np.concatenate([np.zeros(32), random(64)[32:]]))


def test_pinned_memory_is_reached_by_kernels() -> None:
    with Call() as gpu:
        values = gpu.pinned((64,))
        values[:] = 1
        gpu.launch("add_one", (1,), long(64), values.ctypes.data)
        assert (values == 2).all()


# -- streams: three of them, two buffers, and a wait that is left out

CHUNKS, SIZE = 6, 500


def pipeline(missing: int) -> bool:
    """Whether the result is wrong. Waits: 1 the kernel for its input; 2 the copy out for the kernel; 3 the copy in for
    the kernel that read the buffer; 4 for the copy out of it; 5 the host before it refills the staging memory; 6 the
    host for the result."""
    with Call() as gpu:
        stage, result = gpu.pinned((SIZE,)), gpu.pinned((CHUNKS, SIZE))
        buffers = [gpu.allocate(4 * SIZE) for _ in range(2)]
        copied, done, fetched = gpu.events(2), gpu.events(2), gpu.events(2)
        for chunk in range(CHUNKS):
            b = chunk & 1
            if chunk > 0 and missing != 5:
                gpu.wait(copied[1 - b])
            stage[:] = np.arange(chunk * SIZE, (chunk + 1) * SIZE)
            if missing != 3:
                gpu.wait(done[b], 0)
            if missing != 4:
                gpu.wait(fetched[b], 0)
            gpu.send(buffers[b], stage, 0)
            gpu.record(0, copied[b])
            if missing != 1:
                gpu.wait(copied[b], 1)
            gpu.launch("add_one", (8,), long(SIZE), buffers[b], stream=1)
            gpu.record(1, done[b])
            if missing != 2:
                gpu.wait(done[b], 2)
            gpu.fetch(result[chunk], buffers[b], 2)
            gpu.record(2, fetched[b])
        if missing != 6:
            for event in fetched:
                gpu.wait(event)
        return not np.array_equal(result.ravel(), np.arange(1, CHUNKS * SIZE + 1))


def wrong_runs(missing: int, options: str, seeds: int = 20) -> int:
    """How many of the seeds give a wrong result."""
    wrong = 0
    for seed in range(seeds):
        configure(f"seed={seed} {options}")
        wrong += pipeline(missing)
    configure()
    return wrong


@pytest.mark.parametrize("timing", ["eager", "lazy", "shuffled", "threads"])
def test_a_pipeline_with_all_waits_is_right_in_every_timing(timing: str) -> None:
    assert wrong_runs(0, f"timing={timing}", 20 if timing != "threads" else 5) == 0


@pytest.mark.parametrize("missing", range(1, 7))
def test_every_seed_of_lazy_streams_finds_a_missing_wait(missing: int) -> None:
    # the third is implied: the copy in waits for the copy out, which waits for the kernel
    assert wrong_runs(missing, "timing=lazy") == (0 if missing == 3 else 20)


@pytest.mark.parametrize("missing", [1, 2, 4, 5, 6])
def test_some_seeds_of_shuffled_streams_find_a_missing_wait(missing: int) -> None:
    assert wrong_runs(missing, "timing=shuffled") >= 5


def test_no_missing_wait_shows_when_streams_are_eager() -> None:
    assert [wrong_runs(missing, "timing=eager", 1) for missing in range(1, 7)] == [0] * 6


# -- limits and messages


@pytest.mark.parametrize(
    ("grid", "block", "text"),
    [
        ((2**31, 1, 1), None, "the grid has 2147483648 in x; the limit is 2147483647"),
        ((1, 65536, 1), None, "the grid has 65536 in y; the limit is 65535"),
        ((1, 1, 70000), None, "the grid has 70000 in z; the limit is 65535"),
        ((1, 1, 1), (1, 1, 65), "a block has 65 in z; the limit is 64"),
        ((1, 1, 1), (64, 32, 1), "a block has 2048 threads; the limit is 1024"),
        ((1, 1, 1), (32, 1, 1), "compiled for blocks of 64 x 1 x 1 threads, and launched with 32 x 1 x 1"),
    ],
)
def test_a_launch_beyond_a_limit_is_refused_with_the_number(grid: Any, block: Any, text: str) -> None:
    with pytest.raises(GpuError) as caught, Call() as gpu:
        gpu.launch("add_one", grid, long(64), gpu.to(random(64)), block=block)
    assert text in str(caught.value) and "kernel add_one<<<(" in str(caught.value) and caught.value.code == 105


@pytest.mark.parametrize("grid", [(0, 1, 1), (1, 0, 1), (1, 1, -3)])
def test_an_empty_grid_launches_nothing(grid: tuple[int, ...]) -> None:
    with Call() as gpu:
        gpu.launch("add_one", grid, long(64), 0)


def test_too_much_shared_memory_is_refused() -> None:
    with pytest.raises(GpuError, match="300000 bytes of shared memory; there are 232448"), Call() as gpu:
        gpu.launch("reverse_dynamic", (1,), gpu.to(random(64)), shared=300000)


def test_a_machine_without_a_driver_says_so() -> None:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        with pytest.raises(GpuError, match=r"no CUDA driver on this machine \(libcuda.so.1: cannot open") as caught:
            Call(of=program(kernels_library(), None))
        assert caught.value.code == 101
    else:
        pytest.skip("this machine has a CUDA driver")


def test_a_driver_that_is_none_says_so(tmp_path: Path) -> None:
    with pytest.raises(GpuError, match=r"the driver .*none\.so cannot be opened"):
        Call(of=program(kernels_library(), tmp_path / "none.so"))
    with pytest.raises(GpuError, match="has no cuInit"):
        Call(of=program(kernels_library(), kernels_library()))


def test_a_device_that_is_not_there_says_how_many_are() -> None:
    with pytest.raises(GpuError, match="GPU 2 is asked for, and there are 2, numbered from 0"), Call(first=2) as gpu:
        gpu.allocate(4)
    configure("devices=4")
    with Call(first=2) as gpu:
        gpu.allocate(4, device=1)
    configure()


def test_an_image_for_another_architecture_says_which_there_are() -> None:
    cubin = program(kernels_library(), simulator_library(), 1, 90)
    with (
        pytest.raises(GpuError, match=r"cases was compiled for sm_90; GPU 0 is a tiramisu simulated GPU \(sm_0\)"),
        Call(of=cubin) as gpu,
    ):
        gpu.allocate(4)


def test_an_error_keeps_its_words_when_the_call_ends() -> None:
    with Call() as gpu:
        with pytest.raises(GpuError) as caught:
            gpu.free(12345)
        assert "that the call did not allocate" in str(caught.value)
        runtime().tm_gpu_error.restype = ctypes.c_char_p
        words = runtime().tm_gpu_error()
        handle, gpu.handle = gpu.handle, ctypes.c_void_p()
        assert runtime().tm_gpu_end(handle, 42) == 42 and runtime().tm_gpu_error() == words


# -- what is kept


def test_memory_that_is_given_back_is_used_again_until_it_is_trimmed() -> None:
    configure("pools=1")
    with Call() as gpu:
        first = gpu.allocate(100000)
    with Call() as gpu:
        assert gpu.allocate(99900) == first
        assert gpu.allocate(99900) != first
    path = str(simulator_library()).encode()
    checked(runtime().tm_gpu_trim(path))
    with Call() as gpu:
        assert gpu.allocate(100000) != first
    checked(runtime().tm_gpu_trim(path))
    configure()


def test_memory_that_is_kept_gives_way_when_there_is_no_other() -> None:
    configure("pools=1 poison=0")
    with Call() as gpu:
        gpu.allocate(9 << 30)
    with Call() as gpu:
        gpu.allocate(10 << 30)  # of 16 GiB: only when the 9 are given back
    with pytest.raises(GpuError, match="allocated on GPU 0: CUDA_ERROR_OUT_OF_MEMORY") as caught, Call() as gpu:
        gpu.allocate(17 << 30)
    assert caught.value.code == 104
    checked(runtime().tm_gpu_trim(str(simulator_library()).encode()))
    configure()


def test_arrays_that_calls_page_lock_at_the_same_time_are_the_same_or_apart() -> None:
    memory = random(300)

    def copied(gpu: Call, begin: int) -> np.ndarray[Any, Any]:
        piece = memory[begin : begin + 100]
        locked = runtime().tm_gpu_lock_pages
        checked(locked(gpu.handle, ctypes.c_void_p(piece.ctypes.data), ctypes.c_size_t(piece.nbytes)))
        return gpu.back(gpu.to(piece), np.empty(100, np.float32))

    with Call() as first:
        copied(first, 0)
        for begin in (0, 200):
            with Call() as second:
                assert np.array_equal(copied(second, begin), memory[begin : begin + 100])
        with pytest.raises(GpuError, match="another call has page-locked a part of an array of this"), Call() as second:
            copied(second, 50)
    with Call() as alone:
        assert np.array_equal(copied(alone, 50), memory[50:150])


def test_arrays_outside_of_calls() -> None:
    driver = str(simulator_library()).encode()
    x, y = random(100), np.zeros(100, np.float32)
    name, architecture = ctypes.create_string_buffer(100), ctypes.c_int(7)
    count, place = ctypes.c_int(), ctypes.c_void_p()
    checked(runtime().tm_gpu_device_count(driver, ctypes.byref(count)))
    checked(runtime().tm_gpu_device_name(driver, 1, name, ctypes.c_size_t(100), ctypes.byref(architecture)))
    assert (count.value, name.value, architecture.value) == (2, b"tiramisu simulated GPU", 0)
    checked(runtime().tm_gpu_array_allocate(driver, 1, ctypes.byref(place), ctypes.c_size_t(400)))
    checked(runtime().tm_gpu_array_copy(driver, 1, place, 1, ctypes.c_void_p(x.ctypes.data), 0, ctypes.c_size_t(400)))
    checked(runtime().tm_gpu_synchronize(driver, 1, ctypes.c_size_t(1)))
    checked(runtime().tm_gpu_array_copy(driver, 1, ctypes.c_void_p(y.ctypes.data), 0, place, 1, ctypes.c_size_t(400)))
    checked(runtime().tm_gpu_array_free(driver, 1, place))
    assert np.array_equal(x, y) and runtime().tm_gpu_array_free(driver, 1, place) != 0


def test_calls_of_several_threads_do_not_disturb_each_other() -> None:
    wrong: list[str] = []

    def work(seed: int) -> None:
        configure(f"seed={seed}")
        for _ in range(10):
            with Call() as gpu:
                place = gpu.to(random(640, seed=seed))
                gpu.launch("add_one", (10,), long(640), place, stream=0)
                found = np.empty(640, np.float32)
                gpu.fetch(found, place, 0)
                event = gpu.events(1)[0]
                gpu.record(0, event)
                gpu.wait(event)
                if not np.array_equal(found, random(640, seed=seed) + np.float32(1)):
                    wrong.append(f"seed {seed}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# -- compilers


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("source", [*RUNTIME_SOURCES, *SIMULATOR_SOURCES], ids=lambda source: source.name)
def test_the_sources_compile_without_a_warning(compiler: str, source: Path, tmp_path: Path) -> None:
    standard = "-std=c11" if source in RUNTIME_SOURCES else "-std=gnu11"
    command = [compiler, standard, *WARNINGS, "-fsyntax-only", f"-I{RUNTIME}", str(source)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    except FileNotFoundError:
        pytest.skip(f"no {compiler} on this machine")
    assert done.returncode == 0, done.stderr


def test_the_driver_interface_is_that_of_cuda_h(tmp_path: Path) -> None:
    if not (CUDA_INCLUDE / "cuda.h").exists():
        pytest.skip("no cuda.h on this machine")
    abi = Path(__file__).parent / "interface.c"
    command = ["gcc", "-std=gnu11", f"-I{CUDA_INCLUDE}", f"-I{RUNTIME}", "-fsyntax-only", str(abi)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_kernel_vocabulary_is_in_one_file() -> None:
    assert [header.name for header in KERNEL_HEADERS] == ["tm_kernel.h"]
