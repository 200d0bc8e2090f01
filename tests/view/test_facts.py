"""Facts of kernels, against what they are by hand: sectors of 32 bytes, turns of 32 banks, alignment, shared bytes."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs import pipelines as pl
from tests.programs.gpu.pipelines import gather, on_gpu, transpose
from tests.programs.pipelines import i, i0, i1, j, j0, j1
from tiramisu_py.program.machine.gpu_target import CUDA
from tiramisu_py.toolchain.compilers.cache import open_cache
from tiramisu_py.toolchain.compilers.nvcc import find_nvcc
from tiramisu_py.view.kernel_facts import AccessFacts, KernelFacts, _turns

a, b, im, it, w, j2 = tm.iters("a b im it w j2")
N, M = tm.params("N M")


def only(f: tm.Function) -> KernelFacts:
    (facts,) = f.cost("kernels")
    return facts


def access(facts: KernelFacts, buffer: str, *, store: bool) -> AccessFacts:
    (found,) = [each for each in facts.accesses if each.buffer == buffer and each.is_store is store]
    return found


def transposed(dtype: tm.DType, pad: int) -> tm.Function:
    f = tm.Function("t", params=[N, M])
    x = f.input("x", dtype, [N, M])
    o = f.computation("o", {i: M, j: N}, x[j, i])
    f.outputs(o)
    o.gpu_tile(i, j, 32, 32, i0, j0, i1, j1)
    o.copy(x, [a, b], at=j0, into=tm.SHARED, pad=pad)
    f.derive_transfers()
    return f


def shifted(by: int, dtype: tm.DType = tm.float32) -> tm.Function:
    """Each element from `by` further."""
    f = tm.Function("shifted", params=[N])
    x = f.input("x", dtype, [N + by])
    o = f.computation("o", {i: N}, x[i + by])
    f.outputs(o)
    on_gpu(o, i, size=128)
    f.derive_transfers()
    return f


def strided(stride: int) -> tm.Function:
    f = tm.Function("strided", params=[N])
    x = f.input("x", tm.float32, [stride * N])
    o = f.computation("o", {i: N}, x[stride * i])
    f.outputs(o)
    on_gpu(o, i, size=64)
    f.derive_transfers()
    return f


# -- global memory


def test_a_warp_of_neighbours_takes_four_sectors():
    loads = access(only(shifted(0)), "x", store=False)
    assert (loads.sectors, loads.least, loads.alignment) == (4, 4, 128)


@pytest.mark.parametrize(("by", "sectors", "alignment"), [(1, 5, 4), (2, 5, 8), (4, 5, 16), (8, 4, 32), (32, 4, 128)])
def test_a_shift_costs_a_sector_unless_it_is_of_whole_ones(by, sectors, alignment):
    loads = access(only(shifted(by)), "x", store=False)
    assert (loads.sectors, loads.least, loads.alignment) == (sectors, 4, alignment)


@pytest.mark.parametrize(("dtype", "sectors"), [(tm.uint8, 1), (tm.float16, 2), (tm.float32, 4), (tm.float64, 8)])
def test_sectors_are_those_of_the_bytes(dtype, sectors):
    facts = only(shifted(0, dtype))
    assert access(facts, "x", store=False).sectors == access(facts, "o", store=True).sectors == sectors


@pytest.mark.parametrize(("stride", "sectors"), [(2, 8), (4, 16), (8, 32), (100, 32)])
def test_a_stride_takes_as_many_sectors_as_it_touches(stride, sectors):
    loads = access(only(strided(stride)), "x", store=False)
    assert (loads.sectors, loads.least) == (sectors, 4)


def test_a_column_takes_a_sector_for_each_thread():
    s = transpose()
    s.o.gpu_tile(i, j, 8, 32, i0, j0, i1, j1)
    s.f.derive_transfers()
    facts = only(s.f)
    assert (access(facts, "a", store=False).sectors, access(facts, "o", store=True).sectors) == (32, 4)


def test_a_vector_is_one_access_of_all_its_bytes():
    f = tm.Function("vectors", params=[N])
    x = f.input("x", tm.float32, [N])
    o = f.computation("o", {i: N}, 2 * x[i])
    f.outputs(o)
    o.split(i, 128, i0, i1).split(i1, 4, i1, w).tag_gpu(blocks=[i0], threads=[i1])
    o.vectorize(w, 4)
    f.derive_transfers()
    whole = [each for each in only(f).accesses if " : " in each.text]
    assert [(each.sectors, each.least) for each in whole] == [(16, 16), (16, 16)]


def test_what_depends_on_values_is_not_judged():
    s = gather()
    on_gpu(s.o, i, size=64)
    s.f.derive_transfers()
    facts = only(s.f)
    assert not access(facts, "a", store=False).known and access(facts, "idx", store=False).sectors == 4
    assert "loads a[int64(idx[64 * s0 + s1])]: it depends on values" in facts.lines()


# -- shared memory


@pytest.mark.parametrize(
    ("dtype", "pad", "turns", "least"),
    [
        (tm.float32, 0, 32, 1), (tm.float32, 1, 1, 1), (tm.float32, 2, 2, 1), (tm.float32, 16, 16, 1),
        (tm.float64, 0, 32, 2), (tm.float64, 1, 2, 2),
    ],
)  # fmt: skip
def test_columns_of_a_tile_conflict_unless_it_is_padded(dtype, pad, turns, least):
    facts = only(transposed(dtype, pad))
    column, row = access(facts, "x_shared", store=False), access(facts, "x_shared", store=True)
    assert (column.conflicts, column.least) == (turns, least)
    assert (row.conflicts, row.least) == (least, least) and "no bank conflict" in str(row)
    assert facts.shared_bytes == 32 * (32 + pad) * dtype.bytes


def test_one_word_for_all_threads_is_no_conflict():
    assert _turns(CUDA, np.arange(4)) == 1


def test_banks_take_turns_over_their_different_words():
    starts = np.random.default_rng(0).integers(0, 200, (50, 32)) * 4
    for first in starts:
        touched = np.unique(first[:, None] + np.arange(4))
        words = {int(at) // 4 for at in touched}
        assert _turns(CUDA, touched) == max(sum(1 for word in words if word % 32 == bank) for bank in range(32))


def test_the_worst_access_of_an_array_is_in_the_source():
    text = transposed(tm.float32, 0).source()["t.cu"]
    assert "// 1024 threads a block (32 x 32 x 1), 4096 bytes of shared memory" in text
    assert "// loads x_shared[thread_x, thread_y]: bank conflicts, 32 turns a warp" in text
    assert "bank conflicts" not in transposed(tm.float32, 1).source()["t.cu"]


# -- kernels


def test_there_are_facts_of_each_kernel_and_of_its_occupancy():
    s: SimpleNamespace = pl.pair()
    for stage in (s.p, s.q):
        on_gpu(stage, i, size=256)
    s.f.derive_transfers()
    first, second = s.f.cost("kernels")
    assert (first.name, second.name, first.threads) == ("p_kernel", "q_kernel", (256, 1, 1))
    assert first.occupancy("H200").share == 1.0 and first.occupancy("H200", registers=64).share == 0.5
    assert KernelFacts("k", (1024, 1, 1), 0, (), {90: 40}).occupancy(90).share == 0.5
    assert "40 registers a thread on sm_90" in KernelFacts("k", (1024, 1, 1), 0, (), {90: 40}).lines()


def test_registers_are_those_of_the_architecture_that_is_asked_for():
    facts = KernelFacts("k", (256, 1, 1), 0, (), {75: 128, 90: 32})
    assert facts.occupancy("H200").share == 1.0 and facts.occupancy("T4").share == 0.5


def test_a_program_that_is_refused_has_no_facts():
    s = pl.pair()
    on_gpu(s.p, i)
    with pytest.raises(tm.LegalityError):
        s.f.cost("kernels")


def summed(threads: int) -> tm.Function:
    f = tm.Function("summed", params=[N])
    x = f.input("x", tm.float64, [N])
    total = f.reduction("total", {}, {i: N}, tm.sum, x[i])
    f.outputs(total)
    total.update.split(i, threads, i0, i1)
    total.tag_gpu(blocks=[i0], threads=[i1], combine=tm.TREE)
    f.derive_transfers()
    return f


@pytest.mark.parametrize(("threads", "bytes_"), [(32, 0), (256, 8 * 8), (48, 48 * 8)])
def test_the_partial_results_of_a_tree_are_in_shared_memory(threads, bytes_):
    f = summed(threads)
    (facts,) = [each for each in f.cost("kernels") if each.threads[0] == threads]
    assert facts.shared_bytes == bytes_
    found = find_nvcc(open_cache())
    if isinstance(found, str):
        pytest.skip(found)
    reported = f.compile(device="gpu", architectures=["sm_90"]).resources
    assert {each["sm_90"].shared_bytes for each in reported.values()} == {0, bytes_}


def test_the_compiler_reports_the_registers_and_agrees_on_shared_memory():
    """Shared memory as nvcc counts it is what the facts say without nvcc."""
    found = find_nvcc(open_cache())
    if isinstance(found, str):
        pytest.skip(found)
    f = transposed(tm.float32, 1)
    kernel = f.compile(device="gpu", architectures=["sm_75", "sm_90"])
    (facts,) = f.cost("kernels", kernel)
    (reported,) = kernel.resources.values()
    assert facts.registers == {75: reported["sm_75"].registers, 90: reported["sm_90"].registers}
    assert reported["sm_90"].shared_bytes == facts.shared_bytes == 4 * 32 * 33
    assert f"{facts.registers[90]} registers a thread on sm_90" in str(facts)
    assert facts.occupancy("H200") == facts.occupancy(90, registers=facts.registers[90])
