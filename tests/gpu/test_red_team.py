"""Programs of an adversary: right ones must run right in the simulator under seeds, wrong ones must be refused.

What is accepted is compared with `evaluate()` bit for bit, with checks on, under several seeds and timings of streams.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

import tiramisu_py as tm

N, M, R, C, T = tm.params("N M R C T")
i, j, k, r, c, t, u, b, v = tm.iters("i j k r c t u b v")
i0, i1, j0, j1, k0, k1, y, x, y1, x1 = tm.iters("i0 i1 j0 j1 k0 k1 y x y1 x1")

Arguments = Mapping[str, "np.ndarray | int"]
RUNS = ((0, "lazy"), (1, "lazy"), (0, "shuffled"), (1, "shuffled"), (2, "shuffled"), (0, "eager"), (0, "threads"))


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-50, 50, shape).astype(np.int32)


def listed(results: object) -> tuple[object, ...]:
    return results if isinstance(results, tuple) else (results,)


def agrees(f: tm.Function, *samples: Arguments) -> None:
    """A program is proven, and computes what it should whatever the order of what has none."""
    report = f.check()
    assert report.ok, report
    kernel = f.compile(device="simulator", sanitize=True)
    for given in samples:
        expected = listed(f.evaluate(**given))
        for seed, timing in RUNS:
            copies = {name: np.copy(a) if isinstance(a, np.ndarray) else a for name, a in given.items()}
            for found, right in zip(listed(kernel.seeded(seed, timing)(**copies)), expected, strict=True):
                np.testing.assert_array_equal(found, right, err_msg=f"seed {seed}, {timing}")


def on_gpu(part: tm.Computation, size: int, loop: tm.Iter = i, **options: int) -> None:
    """A loop on blocks of `size` threads."""
    part.split(loop, size, b, t)
    part.tag_gpu(blocks=[b], threads=[t], **options)


# -- right ones


def two_stages() -> tuple[tm.Function, tm.Input, tm.Computation, tm.Computation]:
    """Rows: ``q = p + 3`` of ``p = 2 * a + 1``."""
    f = tm.Function("two", params=[R, C])
    a = f.input("a", tm.int32, [R, C])
    p = f.computation("p", {r: R, c: C}, a[r, c] * 2 + 1)
    q = f.computation("q", {r: R, c: C}, p[r, c] + 3)
    f.outputs(q)
    return f, a, p, q


def pipeline_with_two_rows_of_memory(late: int) -> tm.Function:
    """A row at a time on four operation sequences; p keeps two rows, and waits until `late` rows ago are used up."""
    f, a, p, q = two_stages()
    p.store_in(tm.Buffer("rows", [2, C], tm.int32, tm.GPU_MEMORY), [r % 2, c])
    into = f.create_xfer({r: R, c: C}, a[r, c], tm.CPU2GPU, tm.ASYNC, stream=1).collapse_many(c)
    for stream, stage in ((0, p), (3, q)):
        on_gpu(stage, 16, c, stream=stream)
    back = f.create_xfer({r: R, c: C}, q[r, c], tm.GPU2CPU, tm.ASYNC, stream=2).collapse_many(c)
    arrived, computed, finished = into.wait({r: R}, on=0), p.wait({r: R}, on=3), q.wait({r: R}, on=2)
    done, used = back.wait(), q.wait({r: R}, on=0)
    used.shift(r, late)
    f.order(into, arrived, used, p, computed, q, finished, back, at=r)
    f.order(back, done, at=tm.root)
    return f


@pytest.mark.parametrize("late", [1, 2])
def test_a_row_is_overwritten_only_after_its_last_use_on_another_sequence(late: int) -> None:
    agrees(pipeline_with_two_rows_of_memory(late), {"a": numbers(7, 40)}, {"a": numbers(1, 3)}, {"a": numbers(0, 4)})


def test_a_row_that_may_be_overwritten_before_its_last_use_is_refused() -> None:
    report = pipeline_with_two_rows_of_memory(3).check()
    assert [violation.kind for violation in report.violations] == ["race"]
    assert report.violations[0].witness.params == {"R": 3, "C": 1}
    assert report.violations[0].repair == "q.wait(on=0), ordered between q and p"


def test_waits_for_rows_of_tiles_wait_for_all_tiles_of_the_row() -> None:
    f = tm.Function("tiles", params=[R, C])
    a = f.input("a", tm.int32, [R, C])
    p = f.computation("p", {r: R, c: C}, a[r, c] * 2 + 1)
    f.outputs(p)
    into = f.create_xfer({r: R, c: C}, a[r, c], tm.CPU2GPU, tm.ASYNC, stream=1)
    into.tile(r, c, 4, 8, i0, j0, i1, j1).collapse_many(i1, j1)
    arrived = into.wait({r: R}, on=0)
    on_gpu(p, 8, c)
    f.order(arrived, p, at=r)
    f.create_xfer({r: R, c: C}, p[r, c], tm.GPU2CPU).collapse_many(r, c)
    agrees(f, {"a": numbers(13, 20)}, {"a": numbers(3, 3)})


def test_two_gpus_exchange_what_lies_between_them_in_each_time_step() -> None:
    f = tm.Function("halo", params=[N, T], assume="N >= 17")
    a = f.input("a", tm.int32, [N])
    edge = (i == 0) | (i == N - 1)
    h = f.computation(
        "h",
        {u: T + 1, i: N},
        lambda h: tm.select(u == 0, a[i], tm.select(edge, h[u - 1, i], h[u - 1, i - 1] - h[u - 1, i + 1])),
    )
    f.outputs(h[T, i])
    h.store_in(tm.Buffer("two", [2, N], tm.int32), [u % 2, i])
    low, high = h.separate_at(i, [16])
    on_gpu(low, 8)
    on_gpu(high, 8, device=1)
    up = f.create_xfer({u: T, i: (15, 16)}, h[u, i], tm.GPU2GPU, tm.ASYNC, device=0, to_device=1, name="up")
    down = f.create_xfer({u: T, i: (16, 17)}, h[u, i], tm.GPU2GPU, tm.ASYNC, device=1, to_device=0, name="down")
    f.order(low, high, up, down, at=u)
    f.derive_transfers()
    agrees(f, {"a": numbers(72), "T": 3}, {"a": numbers(17), "T": 0})


def test_the_host_computes_even_elements_and_the_gpu_odd_ones() -> None:
    f = tm.Function("even_odd", params=[N])
    a = f.input("a", tm.int32, [N])
    p = f.computation("p", {i: N}, a[i] * 2 + 1)
    q = f.computation("q", {i: N}, p[i] + p[N - 1 - i])
    f.outputs(q)
    p.split(i, 2, i0, i1)
    _, odd = p.separate_at(i1, [1])
    on_gpu(odd, 8, i0)
    on_gpu(q, 32)
    f.derive_transfers()
    agrees(f, {"a": numbers(70)}, {"a": numbers(1)}, {"a": numbers(0)})


def test_wavefronts_of_tiles_with_wavefronts_of_threads_inside() -> None:
    f = tm.Function("wave", params=[N, M])
    a = f.input("a", tm.int32, [N, M])
    h = f.computation(
        "h",
        {i: N, j: M},
        lambda h: tm.select((i == 0) | (j == 0), a[i, j], h[i - 1, j] + h[i, j - 1] - h[i - 1, j - 1] + a[i, j]),
    )
    f.outputs(h)
    h.tile(i, j, 8, 8, i0, j0, i1, j1)
    h.skew(i0, j0, 1).interchange(i0, j0)
    h.skew(i1, j1, 1).interchange(i1, j1)
    h.tag_gpu(blocks=[i0], threads=[i1])
    f.derive_transfers()
    agrees(f, {"a": numbers(19, 13)}, {"a": numbers(1, 1)}, {"a": numbers(3, 0)})


@pytest.mark.parametrize("grid", [None, 2])
def test_a_block_computes_all_steps_in_two_buffers_of_shared_memory(grid: int | None) -> None:
    f = tm.Function("steps", params=[M])
    a = f.input("a", tm.int32, [64, M])
    h = f.computation(
        "h",
        {j: M, k: 7, i: 64},
        lambda h: tm.select(
            k == 0,
            a[i, j],
            tm.select(i >= 4 * k, h[j, k - 1, i] + h[j, k - 1, i - 4 * k], h[j, k - 1, i]),
        ),
    )
    out = f.computation("out", {j: M, i: 64}, h[j, 6, 63 - i])
    f.outputs(out)
    for stage in (h, out):
        stage.tag_gpu(blocks=[j], threads=[i], grid=grid)
    out.after(h, j)
    h.store_at(out, j)
    h.store_in(tm.Buffer("two", [2, 64], tm.int32, tm.SHARED), [k % 2, i])
    f.derive_transfers()
    agrees(f, {"a": numbers(64, 5)}, {"a": numbers(64, 1)})


def test_three_stages_in_shared_memory_each_with_the_halo_of_the_next() -> None:
    f = tm.Function("chain", params=[R, C], assume="R >= 1 and C >= 1")
    a = f.input("a", tm.int32, [R + 6, C + 6])
    p = f.computation("p", {r: R + 4, c: C + 4}, a[r, c] + a[r + 2, c + 2])
    q = f.computation("q", {r: R + 2, c: C + 2}, p[r, c] + p[r + 2, c + 2])
    s = f.computation("s", {r: R, c: C}, q[r, c] + q[r + 2, c + 2])
    f.outputs(s)
    s.gpu_tile(r, c, 8, 16, i0, j0, i1, j1)
    for stage, consumer in ((q, s), (p, q)):
        stage.compute_at(consumer, j0)
        stage.store_in(tm.SHARED)
        stage.split(r, 8, y, y1)
        stage.split(c, 16, x, x1)
        stage.tag_gpu(threads=[y1, x1])
    p.copy(a, [u, v], at=j0, into=tm.SHARED, pad=1)
    f.derive_transfers()
    agrees(f, {"a": numbers(20, 31)}, {"a": numbers(7, 7)})


def matrix_product() -> tuple[tm.Function, tm.Input, tm.Input, tm.Reduction, tm.Computation]:
    f = tm.Function("product", params=[N, M, T])
    left = f.input("A", tm.float32, [N, T])
    right = f.input("B", tm.float32, [T, M])
    total = f.reduction("total", {i: N, j: M}, {k: T}, tm.sum, left[i, k] * right[k, j])
    result = f.computation("result", {i: N, j: M}, total[i, j] * 2)
    f.outputs(result)
    return f, left, right, total, result


def test_a_matrix_product_with_every_cache_at_once() -> None:
    f, left, right, total, result = matrix_product()
    i2, j2 = tm.iters("i2 j2")
    result.tile(i, j, 32, 32, i0, j0, i1, j1)
    result.split(i1, 4, i1, i2).split(j1, 4, j1, j2).reorder(i0, j0, i1, j1, i2, j2)
    result.tag_gpu(blocks=[i0, j0], threads=[i1, j1])
    result.unroll(i2).vectorize(j2, 4)
    total.compute_at(result, j1)
    total.store_in(tm.REGISTER)
    total.unroll(i).unroll(j)
    update = total.update
    update.split(k, 8, k0, k1).reorder(k0, k1, i, j).unroll(k1)
    for matrix, pad in ((left, 1), (right, 0)):
        update.copy(matrix, [y, x], at=k0, into=tm.SHARED, pad=pad, deferred=True, buffers=2)
        update.copy(matrix, [y, x], at=k1, into=tm.REGISTER)
    f.derive_transfers()
    given = {"A": numbers(40, 21).astype(np.float32), "B": numbers(21, 37).astype(np.float32)}
    agrees(f, given)


def test_reductions_of_rows_follow_each_other_in_shared_memory_of_one_kernel() -> None:
    f = tm.Function("rows", params=[N, M])
    a = f.input("a", tm.int32, [N, M])
    most = f.reduction("most", {i: N}, {j: M}, tm.max, a[i, j])
    total = f.reduction("total", {i: N}, {j: M}, tm.sum, a[i, j] - most[i])
    out = f.computation("out", {i: N, j: M}, a[i, j] * 2 - total[i])
    f.outputs(out)
    out.split(j, 32, j0, j1).tag_gpu(blocks=[i], threads=[j1])
    for reduction in (total, most):
        reduction.compute_at(out, i)
        reduction.store_in(tm.SHARED)
        reduction.update.split(j, 32, j0, j1)
        reduction.update.tag_gpu(threads=[j1], combine=tm.ATOMIC)
    f.derive_transfers()
    agrees(f, {"a": numbers(5, 70)}, {"a": numbers(3, 0)})


@pytest.mark.parametrize("combine", [tm.ATOMIC, tm.TREE])
@pytest.mark.parametrize("dtype", [tm.int8, tm.uint64])
def test_sums_of_types_without_atomics_of_their_own(dtype: tm.DType, combine: tm.Combine) -> None:
    f = tm.Function("total", params=[N])
    a = f.input("a", dtype, [N])
    total = f.reduction("total_of_a", {}, {i: N}, tm.sum, a[i])
    f.outputs(total)
    total.init.tag_gpu()
    total.update.split(i, 64, b, t)
    total.update.tag_gpu(blocks=[b], threads=[t], combine=combine)
    f.derive_transfers()
    agrees(f, {"a": numbers(150).astype(dtype.numpy)}, {"a": numbers(0).astype(dtype.numpy)})


def test_a_deferred_copy_is_read_before_its_source_is_overwritten() -> None:
    f = tm.Function("in_place", params=[N])
    a = f.input("a", tm.int32, [N])
    p = f.computation("p", {i: N}, a[i] * 2)
    q = f.computation("q", {i: N}, a[i] + 1)
    f.outputs(p, q)
    for stage in (p, q):
        on_gpu(stage, 32)
    q.store_in(a, [i])
    q.after(p, b)
    p.copy(a, [x], at=b, into=tm.SHARED, deferred=True)
    f.derive_transfers()
    agrees(f, {"a": numbers(70)})


def test_a_value_in_a_register_is_stored_before_it_is_read() -> None:
    f = tm.Function("registers", params=[N])
    a = f.input("a", tm.int32, [N])
    p = f.computation("p", {i: N}, a[i] + 1)
    q = f.computation("q", {i: N}, p[i] * 2)
    f.outputs(q)
    on_gpu(q, 8)
    p.compute_at(q, t)
    p.store_in(tm.REGISTER)
    f.derive_transfers()
    agrees(f, {"a": numbers(64)}, {"a": numbers(5)})


# -- wrong ones


def neighbours(**options: bool) -> tuple[tm.Function, tm.Computation]:
    """One block: in each step, each thread reads what another has stored in the step before."""
    f = tm.Function("steps", params=[T])
    a = f.input("a", tm.int32, [64])
    h = f.computation("h", {u: T + 1, i: 64}, lambda h: tm.select(u == 0, a[i], h[u - 1, 63 - i] + 1))
    f.outputs(h[T, i])
    h.split(i, 64, b, i).reorder(b, u, i)
    h.tag_gpu(blocks=[b], threads=[i], **options)
    return f, h


def test_a_barrier_of_the_user_in_the_right_loop_is_enough() -> None:
    f, h = neighbours(barriers=False)
    f.barrier(h, h, at=u)
    f.derive_transfers()
    agrees(f, {"a": numbers(64), "T": 4})


@pytest.mark.parametrize("level", [None, b])
def test_a_barrier_that_is_missing_or_outside_of_the_loop_is_refused(level: tm.Iter | None) -> None:
    f, h = neighbours(barriers=False)
    if level is not None:
        f.barrier(h, h, at=level)
    f.derive_transfers()
    (violation,) = f.check().violations
    assert violation.kind == "race"
    assert violation.witness.params == {"T": 1}


def test_one_buffer_for_two_steps_is_refused() -> None:
    f, h = neighbours()
    h.store_in(tm.Buffer("one", [64], tm.int32), [i])
    f.derive_transfers()
    assert {violation.kind for violation in f.check().violations} >= {"race"}


def waiting(awaited: Callable[[tm.Transfer], object]) -> tm.Function:
    """One kernel on sequence 0 of what element-wise transfers on sequence 1 bring."""
    f = tm.Function("waits", params=[N], assume="N >= 1")
    a = f.input("a", tm.int32, [N])
    p = f.computation("p", {i: N}, a[i] * 2 + 1)
    f.outputs(p)
    on_gpu(p, 32)
    awaited(f.create_xfer({i: N}, a[i], tm.CPU2GPU, tm.ASYNC, stream=1))
    f.create_xfer({i: N}, p[i], tm.GPU2CPU).collapse_many(i)
    return f


def test_waiting_for_the_last_operation_of_a_sequence_is_enough() -> None:
    agrees(waiting(lambda transfer: transfer.wait({i: (N - 1, N)}, on=0)), {"a": numbers(70)}, {"a": numbers(1)})


@pytest.mark.parametrize(
    "awaited",
    [
        lambda transfer: None,
        lambda transfer: transfer.wait({i: (0, 1)}, on=0),
        lambda transfer: transfer.wait({i: (0, N - 1)}, on=0),
        lambda transfer: transfer.wait(on=2),
        lambda transfer: transfer.wait(on=0, device=1),
    ],
)
def test_waits_for_the_wrong_operations_or_of_the_wrong_sequence_are_refused(
    awaited: Callable[[tm.Transfer], object],
) -> None:
    report = waiting(awaited).check()
    assert {violation.kind for violation in report.violations} == {"race"}
    assert any("nothing makes it wait for the transfer a_to_gpu" in v.message for v in report.violations)


def test_one_device_starts_a_reduction_and_another_adds_to_it_is_refused_with_both_named() -> None:
    f = tm.Function("sums", params=[N])
    a = f.input("a", tm.int32, [N])
    total = f.reduction("total", {}, {i: N}, tm.sum, a[i])
    f.outputs(total)
    total.update.split(i, 16, b, t)
    total.update.tag_gpu(blocks=[b], threads=[t], combine=tm.ATOMIC)
    f.derive_transfers()
    repairs = [violation.repair for violation in f.check().violations]
    assert any("total.update (now on GPU 0) and total.init (now on the host) on one device" in r for r in repairs)


def test_the_repair_of_a_reduction_names_block_loops_as_they_were_given() -> None:
    f, _, _, total, _ = matrix_product()
    update = total.update
    update.split(k, 8, k0, k1).reorder(i, k0, j, k1)
    update.tag_gpu(blocks=[i, k0], threads=[k1])
    found = [violation.repair for violation in f.check().violations if "combine" in violation.repair]
    assert found
    assert all("total.update.tag_gpu(blocks=[i, k0], threads=[k1], combine=tm.ATOMIC)" in repair for repair in found)


# -- names


def test_a_value_called_like_the_function_and_another_kernel() -> None:
    f = tm.Function("both", params=[N])
    a = f.input("a", tm.int32, [N])
    p = f.computation("both_q", {i: N}, a[i] * 2)
    q = f.computation("q", {i: N}, p[i] + 1)
    f.outputs(q)
    for stage in (p, q):
        on_gpu(stage, 32)
    f.derive_transfers()
    agrees(f, {"a": numbers(40)})


def test_an_input_called_self_can_be_given_by_name() -> None:
    f = tm.Function("named", params=[N])
    a = f.input("self", tm.int32, [N])
    p = f.computation("p", {i: N}, a[i] * 2)
    f.outputs(p)
    np.testing.assert_array_equal(f.evaluate(self=numbers(5)), numbers(5) * 2)


@pytest.mark.parametrize("name", ["va", "tm"])
def test_a_function_cannot_be_called_what_the_generated_source_needs(name: str) -> None:
    with pytest.raises(tm.DeclarationError, match=f"'{name}' cannot be the name of a function"):
        tm.Function(name, params=[N])


def persistent_rows(where: tm.Expr) -> tm.Function:
    """Sums of some elements of each row, by blocks that go on as other ones; 100 threads are no whole warps."""
    f = tm.Function("rows", params=[N, M, R])
    a = f.input("a", tm.int64, [N, M])
    s = f.reduction("s", {i: N}, {j: M}, tm.sum, a[i, j], where=where)
    f.outputs(s)
    s.update.split(j, 400, j0, j)
    s.update.split(j, 100, k, t)
    s.update.tag_gpu(blocks=[i], threads=[t], combine=tm.TREE, grid=2)
    s.init.tag_gpu(blocks=[i])
    s.update.copy(a, [x, y], at=j0, into=tm.SHARED)
    f.derive_transfers()
    return f


@pytest.mark.parametrize("where", [(j < R) | (i < 3), i != R], ids=str)
def test_copies_of_a_tree_share_one_array_of_partial_results(where: tm.Expr) -> None:
    """A condition on sizes splits the tree: the array counts once, as in the proof, and its copies do not collide."""
    f = persistent_rows(where)
    assert f.cost("kernels")[-1].shared_bytes == 8 * (400 + 100)
    given = numbers(7, 950).astype(np.int64)
    agrees(f, {"a": given, "R": 4}, {"a": given[:2], "R": 500}, {"a": given, "R": 0})
    kernels = f.source()["rows.cu"]
    assert kernels.count("TM_SHARED(int64_t, ") == 2


def test_a_tree_over_blocks_alone_adds_what_one_thread_of_each_block_has() -> None:
    f = tm.Function("rows", params=[N])
    a = f.input("a", tm.int32, [N])
    p = f.computation("p", {i: N, j: 40}, a[i] * j)
    total = f.reduction("total", {}, {i: N, k: 40}, tm.sum, p[i, k])
    f.outputs(total)
    p.store_in(tm.SHARED)
    total.init.tag_gpu()
    total.update.tag_gpu(blocks=[i], combine=tm.TREE)
    p.compute_at(total.update, i)
    p.tag_gpu(threads=[j])
    total.update.after(total.init, tm.root)
    f.derive_transfers()
    agrees(f, {"a": numbers(7)}, {"a": numbers(0)})


def test_a_tree_counts_no_term_for_threads_that_only_another_statement_uses() -> None:
    """The partial result of each thread is in a register, but its terms are not those of all threads."""
    f = tm.Function("rows", params=[N])
    a = f.input("a", tm.int32, [N])
    p = f.computation("p", {i: N, u: 4, t: 40}, a[i] * t + u)
    total = f.reduction("total", {}, {i: N, j: 4, k: 40}, tm.sum, p[i, j, k])
    f.outputs(total)
    p.store_in(tm.SHARED)
    total.init.tag_gpu()
    total.update.tag_gpu(blocks=[i], threads=[k], combine=tm.TREE)
    p.compute_at(total.update, i)
    p.tag_gpu(threads=[u, t])
    total.update.after(total.init, tm.root)
    f.derive_transfers()
    agrees(f, {"a": numbers(7)}, {"a": numbers(0)})


@pytest.mark.parametrize(("elements", "fits"), [(58108, True), (58109, False)])
def test_arrays_in_shared_memory_begin_at_multiples_of_16_bytes(elements: int, fits: bool) -> None:
    """The 3 partial results of 96 threads need 12 bytes, and 4 more where another array follows."""
    f = tm.Function("rows", params=[N, M])
    a = f.input("a", tm.float32, [N, M])
    s = f.reduction("s", {i: N}, {j: M}, tm.sum, a[i, j])
    f.outputs(s)
    s.update.split(j, elements, j0, j)
    s.update.split(j, 96, k, t)
    s.update.tag_gpu(blocks=[i], threads=[t], combine=tm.TREE)
    s.init.tag_gpu(blocks=[i])
    s.update.copy(a, [x, y], at=j0, into=tm.SHARED)
    f.derive_transfers()
    report = f.check()
    assert report.ok is fits
    assert all("bytes of shared memory" in violation.message for violation in report.violations)
