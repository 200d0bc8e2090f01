"""Kernels that are right compute what NumPy computes, in every order of threads, blocks and streams."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from tests.backends.cuda.simulation import (
    Call,
    GpuError,
    configure,
    kernels_library,
    long,
    program,
    random,
    simulator_library,
)

#: Fast and checked, in the plain order and in adverse ones.
RUNS = [(False, ""), (False, "order=reverse"), (False, "seed=1"), (False, "seed=2"), (True, ""), (True, "seed=3")]


@pytest.fixture(params=RUNS, ids=lambda run: f"{'checked' if run[0] else 'fast'} {run[1]}")
def gpu(request: pytest.FixtureRequest) -> Any:
    checked, options = request.param
    configure(options)
    with Call(kernels_library(checked)) as call:
        yield call
    configure()


def test_a_blur_is_the_sum_of_nine_neighbours_in_the_order_of_the_text(gpu: Call) -> None:
    image = random(50, 70)
    by = gpu.to(np.zeros_like(image))
    gpu.launch("blur", (5, 4), long(50), long(70), gpu.to(image), by)
    total = np.zeros((48, 68), np.float32)
    for di in range(3):
        for dj in range(3):
            total = total + image[di : di + 48, dj : dj + 68]
    assert np.array_equal(gpu.back(by, image)[1:-1, 1:-1], total * np.float32(0.11111111))


def test_a_transpose_through_shared_memory(gpu: Call) -> None:
    a = random(64, 64)
    t = gpu.allocate(a.nbytes)
    gpu.launch("transpose", (4, 4), long(64), gpu.to(a), t)
    assert np.array_equal(gpu.back(t, a), a.T)


@pytest.mark.parametrize("name", ["matmul", "matmul_async"])
def test_a_matrix_product_with_tiles(gpu: Call, name: str) -> None:
    a, b = random(48, 48), random(48, 48, seed=1)
    c = gpu.allocate(a.nbytes)
    gpu.launch(name, (3, 3), long(48), gpu.to(a), gpu.to(b), c)
    exact = np.zeros((48, 48), np.float32)
    for k in range(48):
        exact = exact + a[:, k : k + 1] * b[k : k + 1, :]
    assert np.array_equal(gpu.back(c, a), exact)


def test_reductions_by_shuffles_and_by_a_tree(gpu: Call) -> None:
    x = random(5000)
    total, sums = gpu.to(np.zeros(1)), gpu.allocate(4 * 78)
    values = gpu.to(x)
    gpu.launch("reduce_sum", (5,), long(5000), values, total)
    gpu.launch("reduce_tree", (78,), values, sums)
    assert gpu.back(total, np.zeros(1))[0] == pytest.approx(x.sum(dtype=np.float64), rel=1e-12)
    assert gpu.back(sums, np.zeros(78, np.float32)) == pytest.approx(x[:4992].reshape(78, 64).sum(axis=1), rel=1e-6)


def test_vectors_are_loaded_and_stored(gpu: Call) -> None:
    x = random(1000)
    y = gpu.to(np.zeros_like(x))
    gpu.launch("scale4", (4,), long(1000), ctypes.c_float(3.0), gpu.to(x), y)
    assert np.array_equal(gpu.back(y, x), x * np.float32(3))


def test_atomics_of_every_width(gpu: Call) -> None:
    n = 4 * 64
    start = {
        "i": np.zeros(4, np.int32), "f": np.zeros(3, np.float32), "d": np.zeros(1), "u": np.zeros(1, np.uint64),
        "l": np.zeros(2, np.int64), "b": np.zeros(5, np.uint8), "h": np.zeros(1, np.float16),
        "s": np.zeros(1, np.int16),
    }  # fmt: skip
    places = {name: gpu.to(value) for name, value in start.items()}
    gpu.launch("atomics", (4,), *places.values())
    end = {name: gpu.back(place, start[name]) for name, place in places.items()}
    assert end["i"].tolist() == [n, n - 1, -(n - 1), 0]
    assert end["f"][:2].tolist() == [n, n - 1] and np.isnan(end["f"][2])
    assert end["d"][0] == n / 2 and end["u"][0] == 3 * n and end["l"].tolist() == [-2 * n, -(n - 1)]
    assert end["b"].tolist() == [n // 4] * 4 + [255] and end["h"][0] == n and end["s"][0] == 100


def test_16_bit_floats_round_as_numpy_rounds(gpu: Call) -> None:
    a = np.concatenate([np.linspace(-3, 3, 60), [6e4, -6e4, 6e-8, 1e-5]]).astype(np.float16)
    brains = (np.linspace(1, 2, 64).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    c, d, e = gpu.allocate(128), gpu.allocate(128), gpu.allocate(512)
    gpu.launch("halves", (1,), gpu.to(a), gpu.to(brains), c, d, e)
    with np.errstate(over="ignore"):
        twice = (np.float32(2) * a.astype(np.float32) + np.float32(0.1)).astype(np.float16)
        more = (a.astype(np.float64) * 1.0009765625).astype(np.float16).astype(np.float64)
    assert np.array_equal(gpu.back(c, a), twice) and np.array_equal(gpu.back(e, np.empty(64)), more)
    bits = ((brains.astype(np.uint32) << 16).view(np.float32) * np.float32(1.001)).view(np.uint32)
    assert np.array_equal(gpu.back(d, brains), (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)


def test_shuffles_reach_the_lanes_that_cuda_defines(gpu: Call) -> None:
    out = gpu.allocate(4 * 320)
    gpu.launch("shuffles", (1,), out)
    found = gpu.back(out, np.zeros((5, 64), np.int32))
    t = np.arange(64)
    lane, first = t & 31, t & ~31
    assert np.array_equal(found[0], t ^ 1) and np.array_equal(found[4], t ^ 2)
    assert np.array_equal(found[1], first + np.where(lane < 2, lane, lane - 2))
    assert np.array_equal(found[2], first + np.where(lane > 28, lane, lane + 3))
    assert np.array_equal(found[3], first + 5)


def test_dynamic_shared_memory(gpu: Call) -> None:
    x = random(64)
    place = gpu.to(x)
    gpu.launch("reverse_dynamic", (1,), place, shared=256)
    assert np.array_equal(gpu.back(place, x), x[::-1])


def test_an_asynchronous_copy_that_is_waited_for(gpu: Call) -> None:
    x = random(64)
    place = gpu.allocate(256)
    gpu.launch("copy_tile", (1,), gpu.to(x), place)
    assert np.array_equal(gpu.back(place, x), x[::-1])


def test_the_same_seed_gives_the_same_bits() -> None:
    x = np.exp(40 * random(100000))  # of sizes so different that the order of additions shows

    def sums(options: str) -> bytes:
        configure(options)
        with Call(kernels_library()) as gpu:
            total = gpu.to(np.zeros(1))
            gpu.launch("reduce_sum", (98,), long(100000), gpu.to(x), total)
            return gpu.back(total, np.zeros(1)).tobytes()

    assert sums("seed=5") == sums("seed=5")
    assert len({sums(f"seed={seed}") for seed in range(10)}) > 1
    configure()


@pytest.mark.parametrize("options", ["seed", "colour=red", "timing=late", "devices=99", "seed=x"])
def test_options_that_do_not_exist_are_refused(options: str) -> None:
    loaded = ctypes.CDLL(str(simulator_library()))
    assert loaded.tm_simulator_configure(options.encode()) != 0


def test_portable_fibers_run_the_same_kernels() -> None:
    portable = program(kernels_library(False, "PORTABLE"), simulator_library("-DTM_PORTABLE_FIBERS"))
    with Call(of=portable) as gpu:
        a = random(64, 64)
        t = gpu.allocate(a.nbytes)
        gpu.launch("transpose", (4, 4), long(64), gpu.to(a), t)
        assert np.array_equal(gpu.back(t, a), a.T)
    with pytest.raises(GpuError, match="illegal address"), Call(of=portable) as gpu:
        gpu.launch("beyond", (16,), long(1024), long(1), gpu.to(random(1024)))
