"""What users tell kernels, seen in the text that is emitted, and right in the simulator with checks on."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import tiramisu_py as tm
from tests.lacking import CXX, without_cxx
from tests.programs import pipelines as pl
from tests.programs.gpu.pipelines import on_gpu
from tests.programs.pipelines import i, i0, i1, j, j0, j1, k, x, y

pytestmark = pytest.mark.skipif(without_cxx(), reason=CXX)
N, M = tm.params("N M")
w, u, i2, j2 = tm.iters("w u i2 j2")


def kernels_of(f: tm.Function) -> str:
    return f.source()[f"{f.name}.cu"]


def agrees(f: tm.Function, *cases: dict[str, object]) -> None:
    """The kernels compute in the simulator, with checks on, what the algorithm says."""
    kernel = f.compile(device="simulator", sanitize=True, seed=1)
    for seed, given in enumerate(cases):
        np.testing.assert_array_equal(kernel.seeded(seed)(**given), f.evaluate(**given))


def doubled(dtype: tm.DType, **memory: object) -> SimpleNamespace:
    f = tm.Function("doubled", params=[N])
    a = f.input("a", dtype, [N], **memory)
    o = f.computation("o", {i: N}, a[i] + a[i])
    f.outputs(o)
    return SimpleNamespace(f=f, a=a, o=o)


# -- vectors


@pytest.mark.parametrize(("dtype", "lanes"), [(tm.float32, 2), (tm.float32, 4), (tm.float64, 2), (tm.uint8, 16)])
def test_aligned_elements_are_loaded_and_stored_at_once_and_the_rest_one_by_one(dtype, lanes):
    s = doubled(dtype)
    s.o.split(i, 32 * lanes, i0, i1).split(i1, lanes, i1, w).tag_gpu(blocks=[i0], threads=[i1])
    s.o.vectorize(w, lanes)
    s.f.derive_transfers()
    text = kernels_of(s.f)
    assert f"tm_load<{lanes}>(&a[" in text and "tm_store(&o[" in text
    agrees(s.f, *({"a": np.arange(n).astype(dtype.numpy)} for n in (0, 1, lanes, 33 * lanes - 1, 70 * lanes)))


def test_elements_at_an_odd_offset_are_loaded_one_by_one():
    f = tm.Function("next", params=[N])
    a = f.input("a", tm.float32, [N + 1])
    o = f.computation("o", {i: N}, a[i + 1] * 2)
    f.outputs(o)
    o.split(i, 128, i0, i1).split(i1, 4, i1, w).tag_gpu(blocks=[i0], threads=[i1])
    o.vectorize(w, 4)
    f.derive_transfers()
    assert "tm_load" not in kernels_of(f) and "tm_store(&o[" in kernels_of(f)
    agrees(f, *({"a": np.arange(n, dtype=np.float32)} for n in (1, 5, 131, 257)))


def test_rows_are_vectors_where_sizes_are_known_to_be_multiples():
    for assume, vectors in (("M % 4 = 0", True), (None, False)):
        f = tm.Function("rows", params=[N, M], assume=assume)
        a = f.input("a", tm.float32, [N, M])
        o = f.computation("o", {i: N, j: M}, 2 * a[i, j])
        f.outputs(o)
        o.split(j, 128, j0, j1).split(j1, 4, j1, w).tag_gpu(blocks=[i, j0], threads=[j1])
        o.vectorize(w, 4)
        f.derive_transfers()
        assert ("tm_load<4>" in kernels_of(f)) is vectors
        agrees(f, *({"a": np.random.default_rng(0).random((3, m), dtype=np.float32)} for m in (4, 132)))


# -- launches


def test_launch_bounds_name_the_threads_and_the_blocks_that_are_asked_for():
    s = pl.scale()
    on_gpu(s.o, i, j, size=256, minimum_blocks=4)
    s.f.derive_transfers()
    assert "TM_LAUNCH_BOUNDS(256, 4)" in kernels_of(s.f)


@pytest.mark.parametrize("barriers", [True, False])
def test_a_persistent_block_uses_its_shared_memory_again_only_when_all_threads_are_done(barriers):
    """The barrier between rounds is there whoever places the others: without it seeds find a race."""
    s = pl.pair()
    s.q.split(i, 64, i0, i1)
    s.p.store_in(tm.SHARED)
    s.p.compute_at(s.q, i0)
    s.q.tag_gpu(blocks=[i0], threads=[i1], grid=1, barriers=barriers)
    s.p.tag_gpu(threads=[i])
    if not barriers:
        s.f.barrier(s.p, s.q, at=i0)
    s.f.derive_transfers()
    assert s.f.check().ok and s.f.check().superfluous == ()
    assert kernels_of(s.f).count("TM_BARRIER()") == 2
    agrees(s.f, *({"a": np.arange(n + 1, dtype=np.int32)} for n in (1, 64, 65, 300)))


def test_loops_inside_a_thread_are_unrolled_and_coarsened_threads_run_them():
    s = pl.scale()
    s.o.split(j, 64, j0, j1).tag_gpu(blocks=[i, j0], threads=[j1])
    s.o.coarsen(j1, 4, u).unroll(u)
    s.f.derive_transfers()
    text = kernels_of(s.f)
    assert "TM_LAUNCH_BOUNDS(16)" in text and "#pragma unroll" in text
    agrees(s.f, *({"a": np.arange(3 * m, dtype=np.int32).reshape(3, m)} for m in (1, 16, 63, 130)))


# -- copies


def test_two_buffers_are_filled_in_turn_by_asynchronous_copies():
    s = pl.matmul()
    k0, k1 = tm.iters("k0 k1")
    s.C.gpu_tile(i, j, 8, 8, i0, j0, i1, j1)
    s.C.update.after(s.C.init, j1)
    s.C.update.split(k, 8, k0, k1)
    for factor in (s.A, s.B):
        s.C.update.copy(factor, [y, x], at=k0, into=tm.SHARED, deferred=True, buffers=2)
    s.f.derive_transfers()
    text = kernels_of(s.f)
    assert text.count("[2][8][8]") == 2 and "TM_ASYNC_WAIT()" in text
    numbers = np.random.default_rng(0)
    agrees(s.f, *({"A": numbers.random((9, n), dtype=np.float32), "B": numbers.random((n, 11), dtype=np.float32)}
                  for n in (1, 8, 20)))  # fmt: skip


# -- memories by their names


def test_memories_are_given_by_their_names_too():
    s = pl.pair()
    s.q.split(i, 64, i0, i1)
    s.p.store_in("shared")
    s.p.compute_at(s.q, i0)
    s.q.tag_gpu(blocks=[i0], threads=[i1])
    s.p.tag_gpu(threads=[i])
    assert s.f.program.buffers["p"].memory is tm.SHARED
    assert tm.Buffer("b", [2], tm.float32, memory="pinned").memory is tm.PINNED
    with pytest.raises(tm.CommandError, match=r"p\.store_in\('fast'\): 'fast' is not a memory: choose one of host"):
        s.p.store_in("fast")
    with pytest.raises(tm.DeclarationError, match="'fast' is not a memory"):
        tm.Buffer("b", [2], tm.float32, memory="fast")


def test_an_input_that_lives_on_the_gpu_is_named_by_a_word():
    s = doubled(tm.float32, memory="gpu")
    s.o.store_in("gpu")
    on_gpu(s.o, i, size=32)
    s.o.wait()
    kernel = s.f.compile(device="simulator", sanitize=True)
    a = np.arange(100, dtype=np.float32)
    result = kernel(tm.to_gpu(a, "simulator"))
    assert isinstance(result, tm.DeviceArray)
    np.testing.assert_array_equal(result.get(), 2 * a)


@pytest.mark.parametrize(
    ("memory", "words"),
    [("pinned", r"tm\.pinned_empty"), ("shared", "in shared memory")],
)
def test_the_array_of_a_caller_is_where_the_caller_has_it(memory, words):
    s = doubled(tm.float32)
    with pytest.raises(tm.CommandError, match=f"the caller's array o, .*{words}"):
        s.o.store_in(memory)
    with pytest.raises(tm.DeclarationError, match=r"an input is in tm\.HOST, tm\.GPU_MEMORY or tm\.HOST_MAPPED"):
        s.f.input("b", tm.float32, [N], memory=memory)


# -- limits


def test_limits_hold_for_what_later_commands_bring_together():
    """Two kernels of 1,024 threads, one along x and one along y: in one kernel they need a block of a million."""
    f = tm.Function("two", params=[N, M])
    a = f.input("a", tm.float32, [N, M])
    p = f.computation("p", {i: N, j: M}, a[i, j] + 1)
    q = f.computation("q", {i: N, j: M}, a[i, j] * 2)
    f.outputs(p, q)
    for stage, rows, columns in ((p, 1, 1024), (q, 1024, 1)):
        stage.split(i, rows, i0, i1).split(j, columns, j0, j1).reorder(i0, j0, i1, j1)
        stage.tag_gpu(blocks=[i0, j0], threads=[i1, j1])
    f.derive_transfers()
    assert f.check().ok
    f.order(p, q, at=j0)
    (violation,) = [v for v in f.check().violations if v.kind == "bounds"]
    assert "1024 x 1024 = 1,048,576 threads" in violation.message and "CUDA allows 1,024" in violation.message
    assert violation.command == "two.order(p, q, at=j0)"


def test_shared_memory_is_limited_whichever_command_comes_last():
    def scheduled(*, tagged_last: bool) -> tm.Function:
        s = pl.blur()
        r, c, r0, c0, r1, c1 = tm.iters("r c r0 c0 r1 c1")
        s.by.gpu_tile(r, c, 30, 32, r0, c0, r1, c1)
        s.by.coarsen(r1, 3, u)
        s.by.coarsen(c0, 64, w)
        s.bx.compute_at(s.by, c0)
        s.bx.split(c, 32, *tm.iters("cs ct"))
        if tagged_last:
            s.bx.store_in(tm.SHARED)
        s.bx.tag_gpu(threads=[r, tm.iters("ct")[0]])
        s.bx.store_in(tm.SHARED)
        s.f.derive_transfers()
        return s.f

    with pytest.raises(tm.CommandError, match="needs 262144 bytes of shared memory"):
        scheduled(tagged_last=True)
    (violation,) = [v for v in scheduled(tagged_last=False).check().violations if v.kind == "bounds"]
    assert "262,144 bytes of shared memory" in violation.message and "CUDA allows 232,448" in violation.message


def test_the_partial_results_of_a_tree_count_as_shared_memory():
    """A tile of 227 KiB fits, and with a tree in the same kernel it does not."""

    def scheduled(combine: object) -> tm.Function:
        f = tm.Function("dots", params=[N])
        a = f.input("a", tm.float32, [N, 58112])
        s = f.reduction("s", {i: N}, {k: 58112}, tm.sum, a[i, k])
        f.outputs(s)
        s.init.split(i, 32, *tm.iters("b t")).tag_gpu(blocks=[tm.iters("b")[0]], threads=[tm.iters("t")[0]])
        s.update.split(k, 256, *tm.iters("k0 k1")).tag_gpu(blocks=[i], threads=[tm.iters("k1")[0]], combine=combine)
        s.update.copy(a, [y, x], at=i, into=tm.SHARED)
        f.derive_transfers()
        return f

    (violation,) = scheduled(tm.TREE).check().violations
    assert violation.kind == "bounds" and "232,480 bytes of shared memory" in violation.message
    assert "a_shared 232,448, the tree of s.update 32" in violation.message
    assert scheduled(tm.ATOMIC).check().ok


# -- blame


def test_the_command_that_forbids_barriers_is_blamed_and_not_the_one_that_needs_them():
    """Before it, the barriers that were placed made the kernel right: they are part of the states that are compared."""
    s = pl.pair()
    s.q.split(i, 64, i0, i1)
    s.p.store_in(tm.SHARED)
    s.p.compute_at(s.q, i0)
    s.q.tag_gpu(blocks=[i0], threads=[i1])
    s.p.tag_gpu(threads=[i])
    s.f.derive_transfers()
    assert s.f.check().ok
    s.q.tag_gpu(blocks=[i0], threads=[i1], barriers=False)
    (violation,) = s.f.check().violations
    assert violation.kind == "race" and "with no barrier between" in violation.message
    assert violation.command == "q.tag_gpu(blocks=[i0], threads=[i1], barriers=False)"


# -- combinations


@pytest.mark.parametrize("options", [{}, {"grid": 1}, {"deferred": True, "buffers": 2}], ids=str)
def test_coarsened_blocks_go_through_shared_tiles_even_where_there_may_be_none(options):
    """There may be no term at all: the loop over the block's tiles then bounds what has barriers and what has none."""
    s = pl.matmul()
    k0, k1 = tm.iters("k0 k1")
    s.C.tile(i, j, 4, 4, i0, j0, i1, j1)
    s.C.tag_gpu(blocks=[i0, j0], threads=[i1, j1], grid=options.pop("grid", None))
    s.C.update.after(s.C.init, j1)
    s.C.update.split(k, 4, k0, k1)
    for factor in (s.A, s.B):
        s.C.update.copy(factor, [y, x], at=k0, into=tm.SHARED, **options)
    s.C.coarsen(j0, 2, u)
    s.f.derive_transfers()
    numbers = np.random.default_rng(0)
    agrees(s.f, *({"A": numbers.random((7, n), dtype=np.float32), "B": numbers.random((n, 13), dtype=np.float32)}
                  for n in (0, 1, 4, 9)))  # fmt: skip
