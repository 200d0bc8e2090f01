"""Programs with GPU parts, lowered: what the host does, and what each thread executes."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
from tests.effort import calls
from tests.lower.kernels.alignment import lanes_together
from tests.lower.kernels.gpu_text import kernel_text, text
from tests.programs import pipelines as pl
from tests.programs.gpu.pipelines import CASES, rows, total
from tests.programs.pipelines import c, c0, c1, i, i0, i1, j, j0, j1, k, k0, k1, r
from tiramisu_py.errors import UnsupportedError
from tiramisu_py.interpret import run
from tiramisu_py.ir import (
    Allocate,
    Await,
    Barrier,
    Copy,
    Events,
    GpuIndex,
    If,
    Launch,
    LoopFunction,
    Ramp,
    Record,
    Store,
    TreeReduce,
)
from tiramisu_py.ir.arithmetic.build import number
from tiramisu_py.ir.rewriting import walk
from tiramisu_py.ir.uniform_control import check_uniform
from tiramisu_py.lower import lower
from tiramisu_py.passes.pipeline import optimise
from tiramisu_py.program.storage import Memory

s0, s1, t0, t1, x, y = tm.iters("s0 s1 t0 t1 x y")


def nodes(function: LoopFunction, kind: type) -> list:
    return [node for node in walk(function.body) if isinstance(node, kind)]


def lowered(f: tm.Function) -> LoopFunction:
    return lower(f.completed)


def test_a_kernel_names_its_coordinates_and_guards_the_last_block():
    s = pl.scale()
    s.o.split(j, 64, j0, j1).tag_gpu(blocks=[i, j0], threads=[j1])
    s.f.derive_transfers()
    function = lowered(s.f)
    assert kernel_text(function.gpus.kernels[0]) == (
        "kernel o_kernel(N, M, const a, o) 64 x 1 x 1\n"
        "  j1 = threadIdx.x\n"
        "  i = blockIdx.y\n"
        "  j0 = blockIdx.x\n"
        "  if M >= 64 * j0 + j1 + 1\n"
        "    # o[i, j] = 3 * a[i, j] + i - j\n"
        "    o[i, 64 * j0 + j1] = 3 * a[i, 64 * j0 + j1] + int32(i) - int32(64 * j0 + j1)\n"
    )


def test_all_of_the_host_s_part_of_a_blur_by_hand():
    case = next(case for case in CASES if case.name == "blur row by row on three sequences")
    s = case.make()
    case.schedule(s)
    shown = text(lowered(s.f).body)
    assert shown.index("events h2d_done[R + 2] of 0") < shown.index("for r")
    assert (
        "for r = 0 .. R + 2\n"
        "  copy image@gpu0[r, 0] = image[r, 0] x [1, C + 2] from host to gpu0 on 0:1\n"
        "  record h2d_done[r] on 0:1\n"
        "  0:0 waits for h2d_done[r]\n"
        "  bx_kernel<(C + 3) // 4, 1, 1>(R, C, r, image@gpu0, bx@gpu0) on 0:0\n"
        "for r = 0 .. R\n"
        "  by_kernel<(C + 3) // 4, 1, 1>(R, C, r, bx@gpu0, by@gpu0) on 0:0\n"
        "  record by_done[r] on 0:0\n"
        "  0:2 waits for by_done[r]\n"
        "  copy by[r, 0] = by@gpu0[r, 0] x [1, C] from gpu0 to host on 0:2\n"
        "  record d2h_done[] on 0:2\n"
        "host waits for d2h_done[]\n"
    ) in shown.replace("  if C >= 1\n", "")


def test_memory_of_a_gpu_exists_until_the_end_of_the_function():
    s = pl.pair()
    s.p.split(i, 4, i0, i1).tag_gpu(blocks=[i0], threads=[i1])
    s.q.split(i, 4, i0, i1).tag_gpu(blocks=[i0], threads=[i1])
    s.f.derive_transfers()
    function = lowered(s.f)
    on_gpu = [node for node in nodes(function, Allocate) if node.memory is Memory.GPU]
    assert {node.buffer for node in on_gpu} == {"a@gpu0", "p@gpu0", "q@gpu0"}
    for node in on_gpu:
        assert any(isinstance(inner, Copy) and inner.target == "q" for inner in walk(node)), "the last operation"
    assert not any(node.buffer == "p" for node in nodes(function, Allocate)), "the host has no use for p"


def test_the_copy_of_a_triangle_is_a_copy_for_each_row():
    s = pl.triangle()
    s.s.gpu_tile(i, j, 4, 4, i0, j0, i1, j1)
    s.f.derive_transfers()
    back = next(node for node in nodes(lowered(s.f), Copy) if node.target == "s")
    assert [str(extent) for extent in back.extents] == ["1", "i + 1"]


def test_a_transfer_that_is_collapsed_whole_is_one_copy_of_a_box():
    s = pl.volume()
    s.o.tile(i, j, k, 2, 2, 4, i0, j0, k0, i1, j1, k1)
    s.o.tag_gpu(blocks=[i0, j0, k0], threads=[i1, j1, k1])
    s.f.derive_transfers()
    function = lowered(s.f)
    assert [len(node.extents) for node in nodes(function, Copy)] == [3, 3]
    assert function.gpus.kernels[0].threads == (4, 2, 2)
    (launch,) = nodes(function, Launch)
    assert [str(extent) for extent in launch.grid] == ["(K + 3) // 4", "(M + 1) // 2", "(N + 1) // 2"]


def test_a_part_of_an_array_is_copied_from_and_to_its_first_index():
    N, M = tm.params("N M")
    f = tm.Function("part", params=[N, M], assume="N >= 8 and M >= 4")
    a = f.input("a", tm.float32, [N, M])
    o = f.computation("o", {i: (2, N - 3), j: (1, M - 1)}, 2 * a[i, j], shape=[N, M])
    f.outputs(o)
    o.split(j, 4, j0, j1).tag_gpu(blocks=[i, j0], threads=[j1])
    f.derive_transfers()
    up, down = nodes(lowered(f), Copy)
    for copy in (up, down):
        assert [str(e) for e in copy.extents] == ["N - 5", "M - 2"]
        assert [str(e) for e in copy.first] == [str(e) for e in copy.into] == ["2", "1"]


def test_a_wait_for_everything_shares_no_events_with_one_for_each_row():
    case = next(case for case in CASES if case.name == "blur row by row on three sequences")
    s = case.make()
    case.schedule(s)
    function = lowered(s.f)
    names = [node.name for node in nodes(function, Events)]
    assert len(names) == len(set(names)) == 3
    recorded = {node.event for node in nodes(function, Record)}
    assert recorded == set(names) == {node.event for node in nodes(function, Await)}


def test_a_kernel_that_computes_all_rows_records_one_event_for_waits_by_row():
    s = pl.blur()
    R, C = tm.params("R C")
    s.bx.inline()
    up = s.f.create_xfer({r: R + 2, c: C + 2}, s.image[r, c], tm.CPU2GPU, name="up")
    down = s.f.create_xfer({r: R, c: C}, s.by[r, c], tm.GPU2CPU, tm.ASYNC, stream=1, name="down")
    up.collapse_many(r, c)
    down.collapse_many(c)
    s.by.split(c, 4, c0, c1).tag_gpu(blocks=[r, c0], threads=[c1])
    done = s.by.wait({r: R}, on=1)
    finished = down.wait()
    s.f.order(done, down, at=r)
    s.f.order(up, s.by, done, finished, at=tm.root)
    assert s.f.check().ok, s.f.check()
    function = lowered(s.f)
    assert [node.event for node in nodes(function, Record)].count("by_done") == 1
    image = np.random.default_rng(0).random((5, 9), dtype=np.float32)
    got = np.zeros((3, 7), np.float32)
    run(function, {"image": image, "by": got}, {"R": 3, "C": 7}, 2)
    np.testing.assert_array_equal(got, s.f.evaluate(image=image))


def test_shared_tiles_are_refilled_between_barriers_that_all_threads_meet():
    case = next(case for case in CASES if case.name == "matrix product through shared tiles")
    s = case.make()
    case.schedule(s)
    (kernel,) = lowered(s.f).gpus.kernels
    shown = kernel_text(kernel).splitlines()
    assert shown[1:3] == ["  shared A_shared[4, 4]", "  shared B_shared[4, 4]"]
    assert sum(isinstance(node, Barrier) for node in walk(kernel.body)) == 2
    assert [line for line in shown if "barrier" in line] == [
        line for line in shown if line.startswith("    barrier")
    ], "barriers stand in the loop over k0 and under no condition"


def test_a_barrier_under_a_condition_of_the_thread_is_refused():
    guarded = If(GpuIndex("thread", 0) < 4, Barrier("meet"))
    with pytest.raises(UnsupportedError, match=r"meet in kernel k is under a condition that differs between threads"):
        check_uniform(guarded, "k")
    check_uniform(If(GpuIndex("block", 0) < 4, Barrier("meet")), "k")


def test_unrolled_tiles_around_a_barrier_do_not_part_the_threads():
    s = pl.matmul()
    s.C.tile(i, j, 8, 8, i0, j0, s0, s1).tile(s0, s1, 2, 2, t0, t1, i1, j1)
    s.C.tag_gpu(blocks=[i0, j0], threads=[t0, t1])
    s.C.update.after(s.C.init, t1)
    s.C.update.split(k, 4, k0, k1)
    s.C.update.reorder(k0, k1, i1, j1)
    s.C.unroll(i1).unroll(j1)
    s.C.update.copy(s.A, [y, x], at=k0, into=tm.SHARED)
    s.C.update.copy(s.B, [y, x], at=k0, into=tm.SHARED)
    s.f.derive_transfers()
    function = s.f.show("lowered")  # this checks it again, after all passes
    shown = kernel_text(function.gpus.kernels[0])
    assert sum(line.strip().startswith("barrier") for line in shown.splitlines()) == 2
    for n in (5, 8, 9):
        rng = np.random.default_rng(n)
        a, b = (rng.integers(-4, 5, (n, n)).astype(np.float32) for _ in range(2))
        got = np.zeros((n, n), np.float32)
        run(function, {"A": a, "B": b, "C": got}, {"N": n, "M": n, "K": n}, n)
        np.testing.assert_array_equal(got, a @ b)


def test_updates_of_one_element_by_several_threads_are_atomic():
    s = rows(tm.int32)
    s.s.init.split(i, 4, i0, i1).tag_gpu(blocks=[i0], threads=[i1])
    s.s.update.split(k, 4, k0, k1).tag_gpu(blocks=[i, k0], threads=[k1], combine=tm.ATOMIC)
    s.f.derive_transfers()
    start, update = lowered(s.f).gpus.kernels
    assert [store.atomic for store in walk(start.body) if isinstance(store, Store)] == [False]
    assert [store.atomic for store in walk(update.body) if isinstance(store, Store)] == [True]


def test_updates_that_no_other_thread_shares_are_plain():
    s = rows(tm.int32)
    s.s.split(i, 4, i0, i1).tag_gpu(blocks=[i0], threads=[i1], combine=tm.ATOMIC)
    s.f.derive_transfers()
    stores = [n for kernel in lowered(s.f).gpus.kernels for n in walk(kernel.body) if isinstance(n, Store)]
    assert stores and not any(store.atomic for store in stores)


def test_a_tree_starts_at_the_neutral_element_and_combines_once_a_block():
    s = total()
    s.s.update.split(k, 4, k0, k1).tag_gpu(blocks=[k0], threads=[k1], combine=tm.TREE)
    s.f.derive_transfers()
    function = lowered(s.f)
    shown = kernel_text(function.gpus.kernels[0])
    assert "  combine s_update_partial[] sum s_update_partial[]\n" in shown
    (merge,) = [n for n in walk(function.gpus.kernels[0].body) if isinstance(n, Store) and n.buffer == "s"]
    assert merge.atomic and shown.index("combine") < shown.index("s[0] ")
    assert "s_update_partial[] = 0\n" in shown
    (combine,) = [n for n in walk(function.gpus.kernels[0].body) if isinstance(n, TreeReduce)]
    assert combine.statement == "s_update"


def test_a_tree_over_elements_that_differ_within_a_block_is_refused():
    s = rows()
    s.s.update.tile(i, k, 4, 4, i0, k0, i1, k1).tag_gpu([i0, k0], [i1, k1], combine=tm.TREE)
    with pytest.raises(UnsupportedError, match=r"s_update is combined as a tree, .* different elements"):
        lower(s.f.program)


def test_a_persistent_kernel_goes_round_by_round():
    s = pl.scale()
    s.o.split(j, 4, j0, j1).tag_gpu(blocks=[i, j0], threads=[j1], grid=2)
    s.f.derive_transfers()
    function = lowered(s.f)
    (launch,) = nodes(function, Launch)
    assert str(launch.grid[0]) == "min((M + 3) // 4, 2)"
    assert "for round = 0 .. " in kernel_text(function.gpus.kernels[0])


def test_a_persistent_kernel_with_shared_memory_meets_after_each_round():
    s = pl.blur()
    s.bx.inline()
    s.by.tile(r, c, 2, 4, s0, s1, t0, t1).tag_gpu([s0, s1], [t0, t1], grid=1)
    s.by.copy(s.image, [y, x], at=s1, into=tm.SHARED)
    s.f.derive_transfers()
    function = s.f.show("lowered")
    shown = kernel_text(function.gpus.kernels[0]).splitlines()
    assert shown[-1] == "    barrier by_round"
    image = np.random.default_rng(0).random((7, 13), dtype=np.float32)
    for seed in range(3):
        got = np.zeros((5, 11), np.float32)
        run(function, {"image": image, "by": got}, {"R": 5, "C": 11}, seed)
        np.testing.assert_array_equal(got, s.f.evaluate(image=image))


def test_a_grid_that_may_be_too_large_becomes_a_precondition():
    s = pl.scale()
    s.o.split(j, 64, j0, j1).tag_gpu(blocks=[i, j0], threads=[j1])
    s.f.derive_transfers()
    words = [words for _, words in lowered(s.f).preconditions]
    assert "N <= 65535, the blocks of kernel o along y" in words
    assert "(M + 63) // 64 <= 2147483647, the blocks of kernel o along x" in words, words


def test_a_grid_that_sizes_bound_needs_no_precondition():
    (N,) = tm.params("N")
    f = tm.Function("small", params=[N], assume="N <= 1000")
    a = f.input("a", tm.float32, [N])
    o = f.computation("o", {i: N}, 2 * a[i])
    f.outputs(o)
    o.split(i, 64, i0, i1).tag_gpu(blocks=[i0], threads=[i1])
    f.derive_transfers()
    assert not any("blocks" in words for _, words in lowered(f).preconditions)


def test_an_output_that_only_the_gpu_computes_is_covered_by_the_copy_back():
    s = pl.scale()
    s.o.split(j, 4, j0, j1).tag_gpu(blocks=[i, j0], threads=[j1])
    uncovered = {a.name: a.covered for a in lower(s.f.program).arguments}
    s.f.derive_transfers()
    covered = {a.name: a.covered for a in lowered(s.f).arguments}
    assert not uncovered["o"] and covered["o"]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_unoptimised_loops_compute_what_the_algorithm_says(case):
    s = case.make()
    case.schedule(s)
    function = lowered(s.f)
    size = case.sizes[-1]
    sizes = dict.fromkeys(s.params, size)
    rng = np.random.default_rng(1)
    arrays = {}
    for declared in s.f.algorithm.inputs.values():
        shape = [eval(str(extent), {}, sizes) for extent in declared.shape]
        low, high = (eval(str(v), {}, sizes) for v in declared.values) if declared.values else (0, 5)
        arrays[declared.name] = rng.integers(low, high, shape).astype(declared.dtype.numpy)
    wanted = s.f.evaluate(**arrays, **sizes)
    over = function.outputs[0]
    got = arrays[over].copy() if over in arrays else np.zeros_like(wanted)
    run(function, {**arrays, over: got}, sizes, 3)
    np.testing.assert_array_equal(got, wanted)


def test_the_blur_is_lowered_with_little_work():
    s = pl.blur()
    for stage in (s.bx, s.by):
        stage.split(c, 64, c0, c1).tag_gpu(blocks=[r, c0], threads=[c1])
    s.f.derive_transfers()
    program = s.f.completed
    assert calls(lambda: optimise(lower(program))) < 80_000  # 47,000


@pytest.mark.parametrize(
    ("extents", "base", "lanes", "together"),
    [([64], 0, 4, 4), ([64], 2, 4, 1), ([8, 64], 4, 4, 4), ([8, 66], 4, 4, 1), ([64], 0, 8, 1), ([64], 2, 2, 2)],
)
def test_lanes_are_one_access_where_every_row_is_aligned(extents, base, lanes, together):
    indices = [*(number(1) for _ in extents[1:]), Ramp(number(base), lanes)]
    assert lanes_together(indices, list(map(number, extents)), tm.float32) == together


def test_rows_of_unknown_size_are_not_known_to_be_aligned():
    (N,) = tm.params("N")
    indices = [number(1), Ramp(number(4), 4)]
    assert lanes_together(indices, [number(8), N], tm.float32) == 1
    assert lanes_together(indices, [number(8), 4 * tm.cast(tm.int64, N)], tm.float32) == 4


def test_an_index_of_two_buffers_in_turn_needs_no_remainder_of_a_sum():
    case = next(case for case in CASES if case.name == "matrix product, two buffers")
    s = case.make()
    case.schedule(s)
    shown = kernel_text(s.f.show("lowered").gpus.kernels[0])
    assert "A_shared[k0 % 2, i1, k1]" in shown, shown


def test_a_deferred_copy_of_what_no_thread_needs_is_gone_with_its_buffer():
    (N,), (x,) = tm.params("N"), tm.iters("x")
    f = tm.Function("nothing", params=[N])
    a = f.input("a", tm.int64, [N])
    p = f.computation("p", {i: N}, a[i] - a[i])
    f.outputs(p)
    p.split(i, 4, i0, i1).tag_gpu(blocks=[i0], threads=[i1])
    p.copy(a, [x], at=i0, into=tm.SHARED, deferred=True, name="tile")
    f.derive_transfers()
    plain = lower(f.completed)
    assert "tile" in kernel_text(plain.gpus.kernels[0])
    assert "tile" not in kernel_text(optimise(plain).gpus.kernels[0])
