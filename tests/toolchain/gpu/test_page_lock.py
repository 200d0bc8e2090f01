"""Arrays of the caller that are page-locked during a call, on the simulator, which has the driver's rules."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import tiramisu_py as tm
from tests.lacking import CXX, without_cxx
from tests.programs.gpu.cooperative_blur import G, H, R, blur, c0, c1, picture, r, simulator, stages

pytestmark = pytest.mark.skipif(without_cxx(), reason=CXX)
SIZES = {"G": 4, "H": 7}
BYTES = 4 * (12 * 90 + 10 * 88)


@pytest.fixture(params=[(1, "async"), (2, "staged")], ids=["adverse", "as the driver"])
def seed(request, monkeypatch):
    """What happens to copies from pageable memory: they read it as late as they can, or before the call returns."""
    monkeypatch.setenv("TM_SIMULATOR", f"pageable={request.param[1]}")
    return request.param[0]


def test_arrays_are_locked_once_for_all_copies_and_unlocked_when_the_call_ends(seed):
    f = blur((G, H))
    kernel = f.compile(device="simulator", sanitize=True, seed=seed, page_lock=True)
    image = picture()
    for _ in range(2):
        np.testing.assert_array_equal(kernel(image, **SIZES), f.evaluate(image, **SIZES))
        assert simulator().tm_simulator_locked_bytes() == BYTES


def test_nothing_is_locked_unless_it_is_asked_for_and_copied(seed):
    f = blur((G, H))
    image = picture()
    f.compile(device="simulator", seed=seed)(image, **SIZES)
    locked = f.compile(device="simulator", seed=seed, page_lock=True)
    locked(image, G=0, H=0)
    assert simulator().tm_simulator_locked_bytes() == 0
    assert "tm_gpu_lock_pages" not in f.source()["blur.c"]
    assert locked.source["blur.c"].count("tm_gpu_lock_pages(gpu, ") == 2


def test_memory_that_is_locked_already_is_copied_as_it_is(seed):
    f = blur((G, H))
    kernel = f.compile(device="simulator", sanitize=True, seed=seed, page_lock=True)
    image, by = tm.pinned_empty((12, 90), tm.float32, "simulator"), tm.pinned_empty((10, 88), tm.float32, "simulator")
    image[:] = picture()
    kernel(image, by=by, **SIZES)
    np.testing.assert_array_equal(by, f.evaluate(image, **SIZES))
    assert simulator().tm_simulator_locked_bytes() == 0


def _sum(first_device: int = 0) -> tm.Function:
    f = tm.Function("total", params=[R, G], assume="G <= R")
    a, b = f.input("a", tm.float32, [R]), f.input("b", tm.float32, [R])
    o = f.computation("o", {r: R}, a[r] + b[r])
    f.outputs(o)
    part, _ = o.separate_at(r, [G])
    part.split(r, 32, c0, c1)
    part.tag_gpu(blocks=[c0], threads=[c1], device=first_device)
    f.derive_transfers()
    return f


@pytest.mark.parametrize(("begin", "bytes_locked"), [(0, 400), (30, 520), (100, 800)], ids=["same", "partly", "next"])
def test_inputs_that_overlap_are_locked_together(seed, begin, bytes_locked):
    kernel = _sum().compile(device="simulator", sanitize=True, seed=seed, page_lock=True)
    memory = np.random.default_rng(3).random(200, dtype=np.float32)
    a, b = memory[:100], memory[begin : begin + 100]
    np.testing.assert_array_equal(kernel(a, b, G=60), a + b)
    assert simulator().tm_simulator_locked_bytes() == bytes_locked + 400  # and the output


def test_a_call_that_fails_unlocks(seed):
    f = tm.Function("far", params=[R])
    a, at = f.input("a", tm.float32, [R]), f.input("at", tm.int32, [R], values=(0, R))
    o = f.computation("o", {r: R}, a[at[r]])
    f.outputs(o)
    o.split(r, 32, c0, c1)
    o.tag_gpu(blocks=[c0], threads=[c1])
    f.derive_transfers()
    kernel = f.compile(device="simulator", sanitize=True, seed=seed, page_lock=True, verify_values=False)
    values, wrong = np.ones(64, np.float32), np.full(64, 1000, np.int32)
    for _ in range(2):  # where the first had left them locked, the second would lock nothing
        with pytest.raises(tm.KernelError):
            kernel(values, wrong)
        assert simulator().tm_simulator_locked_bytes() == 3 * 4 * 64


def test_threads_that_share_an_array_unlock_it_when_the_last_is_done():
    f = blur((G, H))
    kernel = f.compile(device="simulator", page_lock=True, timing="threads")
    image = picture()
    expected = f.evaluate(image, **SIZES)
    wrong: list[object] = []

    def run() -> None:
        for _ in range(10):
            try:
                if not np.array_equal(kernel(image, **SIZES), expected):
                    wrong.append("a result")
            except tm.KernelError as failure:
                wrong.append(failure)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_temporary_that_cores_compute_and_a_gpu_loads_is_page_locked():
    f = stages()
    assert f.check().ok and "tm_gpu_allocate_host(gpu, 0, (void **)&t" in f.source()["stages.c"]
    kernel = f.compile(device="simulator", sanitize=True, seed=5)
    values = np.random.default_rng(2).random((6, 40), dtype=np.float32)
    for g in (0, 1, 6):
        np.testing.assert_array_equal(kernel(values, G=g), 2 * values + 1)
