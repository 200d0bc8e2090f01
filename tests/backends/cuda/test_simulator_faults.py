"""Every fault that is planted in a kernel or in its use is found, and the message says where."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.backends.cuda.simulation import Call, GpuError, configure, kernels_library, long, random, simulator_library

CHECKED = True


def message(kernels: Path, use: Callable[[Call], object]) -> str:
    """What the call says that must fail."""
    with pytest.raises(GpuError) as caught, Call(kernels) as gpu:
        use(gpu)
    return str(caught.value)


def said(name: str, *defined: str, options: str = "") -> str:
    """What a kernel of one array of 64 floats says, checked."""
    configure(options)
    try:
        return message(kernels_library(CHECKED, *defined), lambda gpu: gpu.launch(name, (1,), gpu.to(random(64))))
    finally:
        configure()


def line_of(text: str, nth: int = 0) -> int:
    """The number of the nth line of cases.cu that contains a text."""
    lines = (Path(__file__).parent / "cases.cu").read_text().splitlines()
    return [number for number, line in enumerate(lines, 1) if text in line][nth]


# -- shared memory that launches ask for


def test_places_of_shared_arrays_are_checked() -> None:
    def placed(gpu: Call, shared: int = 512) -> np.ndarray:
        place = gpu.to(random(64))
        gpu.launch("reverse_placed", (1,), place, shared=shared)
        return gpu.back(place, random(64))

    with Call(kernels_library(CHECKED)) as gpu:
        assert np.array_equal(placed(gpu), random(64)[::-1])
    short = message(kernels_library(CHECKED), lambda gpu: placed(gpu, 500))
    assert "the shared array r ends at byte 512, and the launch asks for 500" in short
    assert "the shared arrays s and r overlap" in message(kernels_library(CHECKED, "OVERLAPPING"), placed)


# -- missing barriers


def product(gpu: Call, name: str = "matmul") -> float:
    a, b = random(48, 48), random(48, 48, seed=1)
    c = gpu.allocate(a.nbytes)
    gpu.launch(name, (3, 3), long(48), gpu.to(a), gpu.to(b), c)
    return float(np.abs(gpu.back(c, a) - a @ b).max())


@pytest.mark.parametrize("barrier", ["NO_BARRIER_1", "NO_BARRIER_2"])
def test_a_missing_barrier_of_the_matrix_product_is_a_race_with_both_lines(barrier: str) -> None:
    text = message(kernels_library(CHECKED, barrier), product)
    assert "race, " in text and "shared array t" in text and "without a barrier between them" in text
    assert len(set(re.findall(r"thread \(\d+,\d+,\d+\)", text))) == 2
    assert f"cases.cu:{line_of('sum += ta[t0][k1]')}" in text and "matmul<<<(3, 3, 1), (16, 16, 1)>>>" in text


@pytest.mark.parametrize("barrier", ["NO_BARRIER_1", "NO_BARRIER_2"])
@pytest.mark.parametrize("options", ["order=forward", "order=reverse", "seed=1", "seed=2", "seed=3"])
def test_a_missing_barrier_gives_wrong_values_without_checks_too(barrier: str, options: str) -> None:
    configure(options)
    with Call(kernels_library(False, barrier)) as gpu:
        error = product(gpu)
    configure()
    assert not error < 1e-3


def test_a_missing_barrier_of_a_tree_is_found_where_order_hides_it() -> None:
    def tree(gpu: Call) -> None:
        gpu.launch("reduce_tree", (2,), gpu.to(random(128)), gpu.allocate(8))

    assert "race, " in message(kernels_library(CHECKED, "NO_BARRIER_1"), tree)


def test_a_missing_barrier_of_the_warp_is_a_race() -> None:
    assert "race, " in said("no_warp_barrier")
    with Call(kernels_library(CHECKED, "WARP_BARRIER")) as gpu:
        place = gpu.allocate(256)
        gpu.launch("no_warp_barrier", (1,), place)
        assert np.array_equal(gpu.back(place, random(64)), np.arange(64) ^ 1)


def test_a_missing_wait_for_an_asynchronous_copy() -> None:
    def copy(gpu: Call) -> np.ndarray:
        place = gpu.to(np.zeros(64, np.float32))
        gpu.launch("copy_tile", (1,), gpu.to(random(64)), place)
        return gpu.back(place, random(64))

    with Call(kernels_library(False, "NO_ASYNC_WAIT")) as gpu:
        assert not np.array_equal(copy(gpu), random(64)[::-1])
    assert "asynchronous copy not waited for: element" in message(kernels_library(CHECKED, "NO_ASYNC_WAIT"), copy)
    text = message(kernels_library(CHECKED, "NO_ASYNC_WAIT"), lambda gpu: product(gpu, "matmul_async"))
    assert "shared array ta" in text or "shared array tb" in text


def test_a_buffer_that_a_copy_overwrites_while_it_is_read() -> None:
    assert "matmul_async" in message(kernels_library(CHECKED, "NO_BARRIER_2"), lambda gpu: product(gpu, "matmul_async"))


# -- races between blocks, and what was never written


def test_two_blocks_that_write_one_place() -> None:
    text = message(kernels_library(CHECKED), lambda gpu: gpu.launch("block_race", (4,), gpu.to(random(128))))
    line = f"cases.cu:{line_of('blockIdx.x / 2')}"
    assert "race, write after write: element" in text and "of x, which has 128 elements of 4 bytes" in text
    assert text.count(line) == 2 and "block (0,0,0)" in text and "block (1,0,0)" in text


def test_shared_memory_that_nothing_has_written() -> None:
    text = said("unwritten")
    assert "read of shared memory that nothing has written: element 63 of shared array s" in text
    assert "thread (63,0,0)" in text


def test_device_memory_that_nothing_has_written() -> None:
    text = message(kernels_library(CHECKED), lambda gpu: gpu.launch("add_one", (1,), long(64), gpu.allocate(256)))
    assert "read of device memory that nothing has written: element" in text


def test_memory_that_nothing_has_written_is_poison() -> None:
    with Call(kernels_library()) as gpu:
        place = gpu.allocate(256)
        gpu.launch("add_one", (1,), long(64), place)
        assert np.isnan(gpu.back(place, random(64))).all()


# -- bounds


@pytest.mark.parametrize("shift", [1, -1])
def test_an_access_beyond_an_array_by_one_names_the_element(shift: int) -> None:
    text = message(
        kernels_library(CHECKED), lambda gpu: gpu.launch("beyond", (16,), long(1000), long(shift), gpu.to(random(1000)))
    )
    element, thread = (
        (1000, "thread (39,0,0) of block (15,0,0)") if shift == 1 else (-1, "thread (0,0,0) of block (0,0,0)")
    )
    assert f"write outside of an array: element {element} of x, which has 1000 elements of 4 bytes" in text
    assert thread in text and f"cases.cu:{line_of('x[i + shift]')}" in text


@pytest.mark.parametrize(("guard", "shift"), [("right", 1), ("left", -1)])
def test_without_checks_guard_pages_find_it_on_one_side(guard: str, shift: int) -> None:
    configure(f"guard={guard}")
    text = message(
        kernels_library(), lambda gpu: gpu.launch("beyond", (16,), long(1024), long(shift), gpu.to(random(1024)))
    )
    configure()
    element = 1024 if shift == 1 else -1
    assert "illegal address at cases.cu:" in text and f"element {element} of x" in text and "(700)" in text


def test_an_access_beyond_a_shared_array() -> None:
    text = message(
        kernels_library(CHECKED), lambda gpu: gpu.launch("shared_beyond", (1,), gpu.to(random(64)), ctypes.c_int(1))
    )
    assert "access outside of the shared arrays: element 64 of shared array s, which has 64 elements" in text


# -- meetings


@pytest.mark.parametrize("checked", [False, True])
def test_a_thread_that_returns_before_a_barrier(checked: bool) -> None:
    text = message(kernels_library(checked), lambda gpu: gpu.launch("early_exit", (1,), gpu.to(random(64))))
    assert "divergent barrier: thread (0,0,0) waits at the barrier of cases.cu:" in text
    assert "thread (5,0,0) has returned" in text and "(719)" in text


def test_two_barriers_that_meet() -> None:
    text = message(kernels_library(), lambda gpu: gpu.launch("two_sites", (1,), gpu.to(random(64))))
    assert "divergent barrier: thread (0,0,0) waits at the barrier" in text and "thread (32,0,0) waits" in text


def test_a_shuffle_of_half_a_warp() -> None:
    text = message(kernels_library(), lambda gpu: gpu.launch("partial_shuffle", (1,), gpu.to(random(64))))
    assert "partial warp operation: thread (0,0,0) waits in the warp operation" in text and "thread (16,0,0)" in text


# -- signals


def test_a_division_by_zero_and_too_much_private_memory_are_errors() -> None:
    x = random(64)
    assert "integer division by zero" in message(
        kernels_library(), lambda gpu: gpu.launch("divide", (1,), gpu.to(x), ctypes.c_int(0))
    )
    assert "bytes of private memory" in message(kernels_library(), lambda gpu: gpu.launch("too_deep", (1,), gpu.to(x)))


def test_after_a_fault_the_next_call_works() -> None:
    said("early_exit")
    with Call() as gpu:
        place = gpu.to(np.ones(64, np.float32))
        gpu.launch("add_one", (1,), long(64), place)
        assert (gpu.back(place, random(64)) == 2).all()


# -- addresses


def test_a_host_address_given_to_a_kernel() -> None:
    x = random(64)
    text = message(kernels_library(), lambda gpu: gpu.launch("add_one", (1,), long(64), x.ctypes.data))
    assert "kernel add_one: argument x is a host address" in text


def test_an_address_that_was_freed() -> None:
    def use(gpu: Call) -> None:
        place = gpu.to(random(64))
        gpu.free(place)
        gpu.launch("add_one", (1,), long(64), place)

    text = message(kernels_library(), use)
    assert "argument x is byte 0 of allocation #" in text and "is freed" in text


def test_memory_that_is_freed_while_a_kernel_is_pending() -> None:
    def use(gpu: Call) -> None:
        place = gpu.to(random(64))
        gpu.launch("add_one", (1,), long(64), place, stream=0)
        gpu.free(place)

    configure("timing=lazy")
    text = message(kernels_library(), use)
    configure()
    assert "is freed while kernel add_one is pending, which uses it" in text


def test_a_copy_that_is_too_long() -> None:
    def use(gpu: Call) -> None:
        gpu.send(gpu.to(random(64)), random(65), -1)

    assert "a copy of 260 bytes whose target reaches byte 259 of allocation #" in message(kernels_library(), use)


def test_a_copy_whose_ends_are_mistaken() -> None:
    assert "said to be on a device, and is a host address" in message(
        kernels_library(), lambda gpu: gpu.send(random(64).ctypes.data, random(64), -1)
    )


def test_host_code_that_follows_a_device_address_ends_with_a_message() -> None:
    program = textwrap.dedent(
        """
        import ctypes
        from tests.backends.cuda.simulation import Call, random
        with Call() as gpu:
            print(ctypes.c_float.from_address(gpu.to(random(64)) + 64).value)
        """
    )
    simulator_library()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode < 0 and done.stdout == ""
    assert "host code followed a device address: byte 64 of allocation #" in done.stderr
