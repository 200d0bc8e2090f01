"""Unified arrays: inputs and outputs that GPUs address in the host's memory, their pool, and their traffic."""

from __future__ import annotations

import ctypes
import gc

import numpy as np
import pytest

import tiramisu_py as tm
from tests.lacking import CXX, without_cxx
from tests.programs.gpu.cooperative_blur import simulator

pytestmark = pytest.mark.skipif(without_cxx(), reason=CXX)
N, M = tm.params("N M")
i, j, i0, i1, q, q0, q1 = tm.iters("i j i0 i1 q q0 q1")
WIDTH = 40  # rows of 160 bytes
numbers = np.random.default_rng(7)


def gather(memory: tm.Memory = tm.HOST_MAPPED) -> tm.Function:
    """Rows of an array of the host, a block for each."""
    f = tm.Function("gather", params=[N, M])
    rows = f.input("rows", tm.float32, [M, WIDTH], memory=memory)
    index = f.input("index", tm.int32, [N], values=(0, M))
    g = f.computation("g", {i: N, j: WIDTH}, rows[index[i], j])
    f.outputs(g)
    g.tag_gpu(blocks=[i], threads=[j])
    f.derive_transfers()
    return f


def doubled(two: bool = False, wait: bool = True) -> tm.Function:
    """Twice an array, in place on both sides; on the first GPU, or one half on each of two."""
    f = tm.Function("doubled", params=[N])
    a = f.input("a", tm.float32, [N], memory=tm.HOST_MAPPED)
    o = f.computation("o", {i: N}, a[i] + a[i])
    f.outputs(o)
    o.store_in(tm.HOST_MAPPED)
    for device, part in enumerate(o.separate_at(i, [N // 2]) if two else (o,)):
        part.split(i, 32, i0, i1).tag_gpu(blocks=[i0], threads=[i1], device=device)
    if wait:
        f.derive_transfers()
    return f


def unified(array: np.ndarray) -> np.ndarray:
    return tm.to_unified(array, "simulator")


@pytest.fixture(scope="module")
def gathering() -> tm.Kernel:
    return gather().compile(device="simulator", sanitize=True)


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return unified(numbers.random((50, WIDTH), np.float32))


# -- arrays


def test_unified_arrays_begin_at_a_page_and_their_parts_are_unified():
    array = tm.pinned_empty((3, 700), np.float32, "simulator")
    assert array.ctypes.data % 4096 == 0
    assert tm.is_unified(array) and tm.is_unified(array[1:, 5]) and tm.is_unified(array[::-1])
    assert not tm.is_unified(np.empty(4)) and not tm.is_unified([1.0]) and not tm.is_unified(np.array(array))
    copied = unified([[1, 2], [3, 4]])
    assert tm.is_unified(copied) and copied.tolist() == [[1, 2], [3, 4]]
    with pytest.raises(tm.ArgumentError, match="not an array of numbers"):
        unified(np.array([None]))


def test_memory_that_an_array_no_longer_needs_is_not_unified():
    array = tm.pinned_empty(5000, np.uint8, "simulator")
    address = array.ctypes.data
    del array
    gc.collect()
    assert not tm.is_unified(np.ctypeslib.as_array((ctypes.c_uint8 * 4).from_address(address)))


def test_a_hundred_arrays_one_after_another_take_the_memory_of_one(monkeypatch):
    simulator().tm_simulator_configure(b"pools=1")
    try:
        gc.collect()
        tm.host_pool("simulator", trim=True)
        before = tm.host_pool("simulator")
        for _ in range(100):
            tm.pinned_empty((123, 77), np.float64, "simulator")[...] = 1
        after = tm.host_pool("simulator")
        assert after.arrays - before.arrays == 100 and after.allocations - before.allocations == 1
        assert after.used == before.used and after.kept >= 123 * 77 * 8
        assert tm.host_pool("simulator", trim=True).kept == 0
    finally:
        simulator().tm_simulator_configure(b"")


# -- programs


def test_rows_are_gathered_where_they_lie(gathering, rows):
    index = numbers.integers(0, 50, 30).astype(np.int32)
    np.testing.assert_array_equal(gathering(rows, index), rows[index])
    np.testing.assert_array_equal(gather().evaluate(rows, index, as_scheduled=True), rows[index])
    assert "rows" not in "".join(line for line in gathering.source["gather.c"].splitlines() if "tm_gpu_copy(" in line)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("two", [False, True], ids=["one GPU", "two GPUs"])
def test_results_are_written_where_the_caller_has_them(two, seed):
    f = doubled(two)
    assert f.check().ok and f.cost("communication", N=300).bytes == 0
    kernel = f.compile(device="simulator", sanitize=True, seed=seed)
    a = unified(np.arange(300, dtype=np.float32))
    made, own = kernel(a), tm.pinned_empty(300, np.float32, "simulator")
    assert tm.is_unified(made) and kernel(a, o=own) is own
    np.testing.assert_array_equal(made, 2 * a)
    np.testing.assert_array_equal(own, 2 * a)
    assert kernel.traffic == {"a": tm.ArrayTraffic(0, 1200, 0, kernel.traffic["a"].requests),
                              "o": tm.ArrayTraffic(0, 0, 1200, kernel.traffic["o"].requests)}  # fmt: skip
    assert kernel(unified(np.empty(0, np.float32))).shape == (0,)


def test_a_result_that_nobody_waits_for_is_refused_by_the_proof():
    report = doubled(wait=False).check()
    assert not report.ok and "nothing waits for the computation of o[0]" in str(report)


def test_the_host_reads_what_a_kernel_has_written_in_place():
    f = tm.Function("both", params=[N])
    a = f.input("a", tm.int32, [N], memory=tm.HOST_MAPPED)
    o = f.computation("o", {i: N}, a[i] + 1)
    p = f.computation("p", {i: N}, o[i] * a[i])
    f.outputs(o, p)
    o.store_in(tm.HOST_MAPPED)
    o.split(i, 32, i0, i1).tag_gpu(blocks=[i0], threads=[i1])
    assert not f.check().ok
    f.derive_transfers()
    a = unified(np.arange(100, dtype=np.int32))
    for one, other in zip(f.compile(device="simulator", sanitize=True)(a), (a + 1, (a + 1) * a), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_saved_program_keeps_where_its_arrays_are(rows, tmp_path):
    gather().save(tmp_path / "gather.json")
    f = tm.load(tmp_path / "gather.json")
    index = np.arange(5, dtype=np.int32)
    np.testing.assert_array_equal(f.compile(device="simulator")(rows, index), rows[index])


def test_an_array_of_the_kernel_is_unified():
    kernel = doubled().compile(device="simulator")
    a = kernel.empty("a", N=70)
    assert tm.is_unified(a) and a.shape == (70,) and not a.any()
    assert tm.is_unified(kernel(a))


def test_vectors_ask_for_parts_that_begin_where_vectors_do():
    f = tm.Function("wide", params=[N])
    a = f.input("a", tm.float32, [N], memory=tm.HOST_MAPPED)
    o = f.computation("o", {i: N}, a[i] + a[i])
    f.outputs(o)
    o.split(i, 128, i0, i1).split(i1, 4, i1, j).tag_gpu(blocks=[i0], threads=[i1])
    o.vectorize(j, 4)
    f.derive_transfers()
    assert "tm_load<4>(&a[" in f.source()["wide.cu"]
    kernel, a = f.compile(device="simulator", sanitize=True), unified(np.arange(264, dtype=np.float32))
    np.testing.assert_array_equal(kernel(a[4:]), 2 * a[4:])
    with pytest.raises(tm.KernelError, match="a must begin at a multiple of 16 bytes"):
        kernel(a[1:])


def test_an_output_may_be_in_the_array_of_a_unified_input():
    f = tm.Function("thrice", params=[N])
    a = f.input("a", tm.float32, [N], memory=tm.HOST_MAPPED)
    o = f.computation("o", {i: N}, a[i] * 3)
    f.outputs(o)
    o.store_in(a)
    o.split(i, 32, i0, i1).tag_gpu(blocks=[i0], threads=[i1])
    f.derive_transfers()
    kernel, a = f.compile(device="simulator", sanitize=True), unified(np.arange(50, dtype=np.float32))
    assert kernel(a) is a
    np.testing.assert_array_equal(a, 3 * np.arange(50, dtype=np.float32))
    assert (kernel.traffic["a"].read, kernel.traffic["a"].written, kernel.traffic["a"].copied) == (200, 200, 0)


# -- traffic


def test_what_is_read_in_place_is_predicted_and_counted(gathering, rows):
    index = numbers.integers(0, 50, 30).astype(np.int32)
    gathering(rows, index)
    told = gather().cost("communication", N=30, M=50)
    assert [(one.name, one.direction, one.bytes) for one in told.in_place] == [
        ("rows", "gpu 0 reads in place", 30 * WIDTH * 4)
    ]
    assert "rows          gpu 0 reads in place" in str(told)
    moved = gathering.traffic
    assert moved["rows"].copied == 0 and moved["rows"].read == told.in_place[0].bytes
    assert moved["index"] == tm.ArrayTraffic(copied=120) and moved["g"] == tm.ArrayTraffic(copied=30 * WIDTH * 4)
    assert moved["index"].copied + moved["g"].copied == told.bytes


def test_requests_are_the_lines_that_warps_touch(gathering, rows):
    index = numbers.integers(0, 50, 30).astype(np.int32)
    gathering(rows, index)
    warps = [range(32), range(32, WIDTH)]
    first = (rows.ctypes.data % 128 + index.astype(np.int64) * WIDTH * 4)[:, None]
    lines = [np.unique((at + 4 * np.array(warp)) // 128).size for at in first for warp in warps]
    assert gathering.traffic["rows"].requests == sum(lines)


def test_without_checks_only_copies_are_counted(rows):
    kernel = gather().compile(device="simulator")
    with pytest.raises(tm.ArgumentError, match="gather has no traffic: it has not been called"):
        _ = kernel.traffic
    kernel(rows, np.zeros(3, np.int32))
    assert kernel.traffic["rows"] == tm.ArrayTraffic(0, None, None, None) and kernel.traffic["index"].copied == 12
    kernel(rows, np.zeros(0, np.int32))
    assert kernel.traffic["index"].copied == 0


def test_a_kernel_without_gpus_has_no_traffic():
    f = tm.Function("plain", params=[N])
    a = f.input("a", tm.float32, [N], memory=tm.HOST_MAPPED)
    f.outputs(f.computation("o", {i: N}, a[i] + 1))
    kernel = f.compile()
    np.testing.assert_array_equal(kernel(np.ones(5, np.float32)), 2)  # nothing addresses it but the host
    with pytest.raises(tm.ArgumentError, match="plain uses no GPU"):
        _ = kernel.traffic


# -- refusals


def test_an_ordinary_array_is_refused_with_the_remedy(gathering):
    ordinary = np.zeros((5, WIDTH), np.float32)
    with pytest.raises(
        tm.ArgumentError, match=r"rows is an ordinary array.*unified.*tm\.to_unified\(rows, device=\"sim"
    ):
        gathering(ordinary, np.zeros(3, np.int32))
    kernel = doubled().compile(device="simulator")
    with pytest.raises(tm.ArgumentError, match=r"o is an ordinary array.*tm\.pinned_empty\(shape, dtype.*leave o out"):
        kernel(unified(np.ones(9, np.float32)), o=np.ones(9, np.float32))


def test_a_library_for_c_refuses_ordinary_memory(gathering, rows):
    """What the checks of Python keep from it."""
    run = ctypes.CDLL(str(gathering.library))
    gathering(rows, np.zeros(1, np.int32))
    result = np.zeros((1, WIDTH), np.float32)
    ordinary, index = np.zeros((5, WIDTH), np.float32), np.zeros(1, np.int32)
    places = [ctypes.c_void_p(each.ctypes.data) for each in (ordinary, index, result)]
    assert run.gather(ctypes.c_int64(1), ctypes.c_int64(5), *places) == 106
    run.gather_last_error.restype = ctypes.c_char_p
    assert b"rows is in ordinary memory" in run.gather_last_error()
    # an array that is too small: its end lies beyond the memory that is unified
    places[0] = ctypes.c_void_p(rows.ctypes.data)
    assert run.gather(ctypes.c_int64(1), ctypes.c_int64(50 + 10**6), *places) == 106


def test_arrays_with_strides_and_other_memories_are_refused():
    f = tm.Function("f", params=[N])
    with pytest.raises(tm.DeclarationError, match="strides= of a: unified arrays are contiguous"):
        f.input("a", tm.float32, [N], strides=[2], memory=tm.HOST_MAPPED)
    a = f.input("b", tm.float32, [N])
    with pytest.raises(tm.CommandError, match=r"give memory=tm\.GPU_MEMORY or tm\.HOST_MAPPED when it is declared"):
        a.store_in(tm.HOST_MAPPED)


def test_transfers_of_unified_arrays_are_refused():
    f = gather()
    f.create_xfer({i: M, j: WIDTH}, f["rows"][i, j], tm.CPU2GPU, name="up")
    report = f.check()
    assert not report.ok
    assert "copies rows, which is host_mapped: every device addresses the one copy there is" in str(report)


def test_ranks_have_no_part_of_unified_arrays():
    f = tm.Function("apart", params=[N, M])
    a = f.input("a", tm.float32, [N], memory=tm.HOST_MAPPED)
    o = f.computation("o", {i: N}, a[i] + 1)
    f.outputs(o)
    o.split(i, 4, i0, i1).tag_distribute(i0)
    report = f.check()
    assert not report.ok
    assert "o reads a, a unified array, in a function of ranks, which have no part of such arrays" in str(report)
    assert "keep a in tm.HOST memory" in str(report)
