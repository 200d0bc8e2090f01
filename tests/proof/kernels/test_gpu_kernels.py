"""What no command would make, and the proof refuses all the same; memories; superfluous waits; what a check costs."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import islpy as isl
import numpy as np
import pytest

import tiramisu_py as tm
from tests.effort import calls
from tests.programs import pipelines
from tests.programs.drafts import ByHand
from tests.programs.gpu.stories import (
    N,
    blur_by_hand,
    checked,
    i,
    i0,
    i1,
    product,
    proven,
    refusal,
    stencil,
    tiled_stencil,
    twice,
)
from tiramisu_py import sets
from tiramisu_py.derive.barriers.barriers import with_barriers
from tiramisu_py.derive.completion import complete
from tiramisu_py.program.loops import Bulk, Combine, GpuBlock, GpuThread, Launch, Parallel
from tiramisu_py.program.statement import Role
from tiramisu_py.proof import Report, check


def tagged(s: SimpleNamespace, tags: dict[str, Any]) -> SimpleNamespace:
    """The program with loops tagged by hand."""

    def change(program: Any) -> Any:
        loops = [replace(x, tag=tags[x.name]) for x in program.loops.values() if x.name in tags]
        return program.with_loop(*loops)

    s.f.apply(ByHand("by hand", change))
    return s


def split(*sizes: int) -> SimpleNamespace:
    """q[i] = 2 a[i] with i split into i0 and i1, transfers included; nothing is tagged."""
    f = tm.Function("twice", params=[N], assume="N >= 1")
    a = f.input("a", tm.float32, [N])
    q = f.computation("q", {i: N}, 2 * a[i])
    f.outputs(q)
    q.split(i, sizes[0], i0, i1)
    up = f.create_xfer({i: N}, a[i], tm.CPU2GPU, name="up").collapse_many(i)
    down = f.create_xfer({i: N}, q[i], tm.GPU2CPU, name="down").collapse_many(i)
    f.order(up, q, down, at=tm.root)
    return SimpleNamespace(f=f, a=a, q=q)


# -- structure and limits


def test_a_block_has_1024_threads_at_most() -> None:
    violation = refusal(tagged(split(2048), {"i0": GpuBlock(0), "i1": GpuThread(0)}).f)
    assert violation.kind == "bounds"
    assert "2,048 threads along axis x" in violation.message and "CUDA allows 1,024" in violation.message


def test_threads_are_counted_over_all_axes() -> None:
    s = split(64)
    i2, i3 = tm.iters("i2 i3")
    s.q.split(i0, 32, i2, i3)
    violation = refusal(tagged(s, {"i2": GpuBlock(0), "i3": GpuThread(1), "i1": GpuThread(0)}).f)
    assert "64 x 32 = 2,048 threads" in violation.message and "CUDA allows 1,024" in violation.message


def test_threads_without_a_constant_bound_are_refused() -> None:
    s = twice(up=True)
    violation = refusal(tagged(s, {"i0": GpuThread(1), "i1": GpuBlock(0)}).f)
    assert violation.kind == "reach"


def test_a_thread_loop_of_the_size_of_the_array_is_refused() -> None:
    f = tm.Function("one", params=[N], assume="N >= 1")
    a = f.input("a", tm.float32, [N, N])
    j = tm.iters("j")[0]
    q = f.computation("q", {i: N, j: N}, 2 * a[i, j])
    f.outputs(q)
    violation = refusal(tagged(SimpleNamespace(f=f), {"i": GpuBlock(0), "j": GpuThread(0)}).f)
    assert violation.kind == "reach" and "its number of iterations has no constant bound" in violation.message
    assert "split it by a constant" in violation.repair


def test_shared_memory_is_limited_and_the_sum_is_said() -> None:
    s = product()
    big = {name: replace(s.f.program.buffers[name], extents=(tm.Buffer("x", [200, 200], tm.float32)).extents)
           for name in ("As", "Bs")}  # fmt: skip
    s.f.apply(ByHand("enlarged", lambda p: p.with_buffer(big["As"]).with_buffer(big["Bs"])))
    violation = refusal(s.f)
    assert violation.kind == "bounds"
    assert "320,000 bytes of shared memory" in violation.message and "CUDA allows 232,448" in violation.message
    assert "As 160,000" in violation.message


@pytest.mark.parametrize(
    ("tags", "words"),
    [
        ({"i1": GpuThread(0)}, "no loop around it runs on blocks"),
        ({"i0": GpuBlock(0), "i1": Parallel()}, "is parallel on the host"),
        ({"i0": GpuBlock(0), "i1": Bulk()}, "is not a transfer"),
        ({"i0": GpuBlock(0), "i1": GpuBlock(0)}, "run along the same axis"),
        ({"i0": GpuBlock(1), "i1": GpuBlock(0, Launch(stream=2))}, "launched in different ways"),
        ({"i0": Parallel(), "i1": GpuBlock(0)}, "inside the parallel loop i0"),
        ({"i0": GpuBlock(0), "i1": GpuThread(0, Combine.PRIVATE)}, "tm.PRIVATE"),
    ],
)
def test_tags_in_wrong_places_are_refused(tags: dict[str, Any], words: str) -> None:
    violation = refusal(tagged(split(32), tags).f)
    assert violation.kind == "reach" and words in violation.message, violation


def test_a_sequential_loop_between_block_loops_is_refused() -> None:
    s = split(64)
    i2, i3 = tm.iters("i2 i3")
    s.q.split(i1, 8, i2, i3)
    violation = refusal(tagged(s, {"i0": GpuBlock(1), "i3": GpuBlock(0)}).f)
    assert violation.kind == "reach" and "between it and the block loops i0" in violation.message


def test_two_loops_of_a_statement_run_on_threads_along_two_axes() -> None:
    s = split(64)
    i2, i3 = tm.iters("i2 i3")
    s.q.split(i1, 8, i2, i3)
    violation = refusal(tagged(s, {"i0": GpuBlock(0), "i2": GpuThread(0), "i3": GpuThread(0)}).f)
    assert violation.kind == "reach" and "loops i2 and i3 of q both run on threads along axis x" in violation.message


def rows(j: tm.Iter) -> tuple[tm.Function, tm.Input, tm.Computation, tm.Computation]:
    """q[i, j] reads p in its row."""
    f = tm.Function("rows", params=[N], assume="N >= 1")
    r, c = tm.iters("r c")
    a = f.input("a", tm.float32, [N, N])
    p = f.computation("p", {r: N, c: N}, 2 * a[r, c])
    q = f.computation("q", {i: N, j: N}, p[i, j] + 1)
    f.outputs(q)
    return f, a, p, q


@pytest.mark.parametrize(
    ("inner", "words"),
    [
        ("q", "loop j of q runs on blocks, but p, in the same kernel, is outside of it"),
        ("p", "q is in the kernel of p, but outside of its block loops i, r"),
    ],
)
def test_statements_of_a_kernel_share_its_block_loops(inner: str, words: str) -> None:
    j = tm.iters("j")[0]
    f, _, p, q = rows(j)
    p.compute_at(q, i)
    loop = "j" if inner == "q" else "r"
    violation = refusal(tagged(SimpleNamespace(f=f), {"i": GpuBlock(1), loop: GpuBlock(0)}).f)
    assert violation.kind == "reach" and words in violation.message


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("transfer", "the transfer given is inside a kernel: the host starts transfers"),
        ("wait", "the wait given_wait is inside a kernel: the host and operation sequences wait"),
    ],
)
def test_the_host_moves_values_and_waits_outside_of_kernels(what: str, words: str) -> None:
    j = tm.iters("j")[0]
    f, a, p, q = rows(j)
    p.inline()
    given = f.create_xfer({i: N, j: N}, a[i, j], tm.CPU2GPU, tm.ASYNC, name="given")
    f.order(given if what == "transfer" else given.wait({i: N}), q, at=i)
    found = check(tagged(SimpleNamespace(f=f), {"i": GpuBlock(0)}).f.program).violations
    assert any(v.kind == "reach" and words in v.message for v in found), found


def test_a_function_of_the_host_cannot_be_called_in_a_kernel() -> None:
    f = tm.Function("calls", params=[N], assume="N >= 1")
    a = f.input("a", tm.float32, [N])
    curve = tm.extern("curve", [tm.float32], tm.float32, np.tanh, header="curve.h")
    q = f.computation("q", {i: N}, curve(a[i]))
    f.outputs(q)
    q.split(i, 32, i0, i1)
    violation = refusal(tagged(SimpleNamespace(f=f), {"i0": GpuBlock(0), "i1": GpuThread(0)}).f)
    assert violation.kind == "reach" and "calls curve in a kernel" in violation.message


def test_a_barrier_that_some_threads_miss_is_refused() -> None:
    s = tiled_stencil()
    program = with_barriers(s.f.program)
    (name,) = [x.name for x in program.statements.values() if x.role is Role.BARRIER]
    barrier = program.statements[name]
    q = program.statements["q"]

    # the barrier moved into the thread loop of q, where the last block has fewer threads
    inside = replace(
        q,
        name=name,
        source="",
        memory=replace(q.memory, target=""),
        role=Role.BARRIER,
        instances=q.instances.set_tuple_name(name),
        point=barrier.point.pullback_multi_aff(_prefix(q, barrier, name)),
        coords=_renamed(q.coords, name),
    )
    report = check(program.with_statement(inside))
    assert any("under divergent control" in v.message and v.kind == "race" for v in report.violations), report


def test_a_barrier_orders_nothing_where_it_does_not_run() -> None:
    program = with_barriers(tiled_stencil().f.program)
    (barrier,) = [each for each in program.statements.values() if each.role is Role.BARRIER]
    assert check(program).ok
    first, *_ = sets.variables(barrier.instances.get_space())
    later = barrier.instances.intersect(sets.within(first, 1, 10**6))
    elsewhere = replace(barrier, instances=later)
    report = check(program.with_statement(elsewhere))
    assert [v.kind for v in report.violations] == ["race"] and "q[0] reads p[1]" in report.violations[0].message


def _prefix(q: Any, barrier: Any, name: str) -> Any:
    from_q = q.prefix(len(barrier.loops))
    return _renamed(from_q, name).set_tuple_name(isl.dim_type.out, barrier.name)


def _renamed(of: Any, name: str) -> Any:
    return of.set_tuple_name(isl.dim_type.in_, name)


# -- memories


def test_an_output_that_the_caller_has_on_the_gpu_needs_no_copy_but_a_wait() -> None:
    s = twice(down=False)
    s.q.store_in(tm.GPU_MEMORY)
    violation = refusal(s.f)
    assert violation.kind == "race" and "the function returns" in violation.message
    done = s.q.wait()
    s.f.order(s.q, done, at=tm.root)
    proven(s.f)


def mapped(wait: bool) -> SimpleNamespace:
    """p on the GPU, in memory of the host that it addresses; q on the host reads it there."""
    s = stencil()
    s.f.remove(s.down)
    s.p.store_in(tm.HOST_MAPPED)
    s.p.split(i, 32, i0, i1)
    s.p.tag_gpu(blocks=[i0], threads=[i1])
    done = s.p.wait()
    s.f.order(s.p, done, s.q, at=tm.root) if wait else s.f.order(s.p, s.q, done, at=tm.root)
    return s


def test_mapped_memory_needs_no_copy_but_a_wait() -> None:
    proven(mapped(True).f)
    violation = refusal(mapped(False).f)
    assert violation.kind == "race" and violation.witness.reader == ("q", (0,))
    assert "p.wait()" in violation.repair


# -- what the report says


def test_waits_that_are_not_needed_are_reported() -> None:
    s = blur_by_hand()
    assert checked(s.f).superfluous == ()
    more = s.bx.wait(on=0, name="more")
    s.f.order(s.bx, more, s.by, at=tm.root)
    assert checked(s.f).superfluous == ("more",)


def test_of_two_waits_for_the_same_both_are_reported() -> None:
    s = blur_by_hand()
    again = s.d2h.wait(name="again")
    s.f.order(s.finished, again, at=tm.root)
    assert set(checked(s.f).superfluous) == {"finished", "again"}


def test_a_barrier_that_is_not_needed_is_reported_and_the_placed_ones_are_needed() -> None:
    s = product()
    assert checked(s.f).superfluous == ("up_A", "up_B")  # synchronous, and what follows them waits anyway
    s.f.barrier(s.C.init, s.C.update, at=tm.iters("j0")[0], name="more")
    assert "more" in checked(s.f).superfluous


def test_a_refusal_names_the_command_and_the_repair() -> None:
    violation = refusal(twice(up=False).f)
    assert violation.command == "q.tag_gpu(blocks=[i0], threads=[i1])"
    assert violation.repair == "twice.derive_transfers(), or twice.create_xfer({i: N}, a[i], tm.CPU2GPU)"
    s = blur_by_hand()
    s.f.remove(s.by_done)
    assert refusal(s.f).command == "blur.remove(by_done)"
    assert refusal(s.f).repair == "by.wait(on=2), ordered between by and d2h"


def test_the_repair_of_a_missing_barrier_is_right() -> None:
    s = tiled_stencil(barriers=False)
    assert refusal(s.f).repair.startswith("stencil.barrier(p, q, at=i0)")
    s.f.barrier(s.p, s.q, at=i0)
    proven(s.f)


# -- cost


def cost(program: Any) -> int:
    """The calls of a check."""
    found: list[Report] = []
    count = calls(lambda: found.append(check(program)))
    assert found[0].ok
    return count


def test_the_blur_is_checked_with_little_work() -> None:
    assert cost(blur_by_hand().f.program) < 20_000  # 8,600


def test_a_product_in_shared_tiles_is_checked_with_little_work() -> None:
    assert cost(with_barriers(product().f.program)) < 30_000  # 12,900


def test_a_barrier_inside_the_threads_of_a_tree_has_no_partial_result() -> None:
    (n,) = tm.params("N")
    i, b, t, m, k = tm.iters("i b t m k")
    f = tm.Function("sums", params=[n], assume="N >= 1")
    a = f.input("a", tm.int32, [n])
    s = f.reduction("s", {}, {i: n}, tm.sum, a[i])
    f.outputs(s)
    s.update.split(i, 32, b, i).split(i, 8, m, t).interchange(m, t)
    s.tag_gpu(blocks=[b], threads=[t], combine=tm.TREE)
    tile = s.update.copy(a, [k], at=m, into=tm.SHARED)
    f.barrier(tile, s.update, at=m, name="filled")
    f.derive_transfers()
    assert f.program.statements["filled"].role is Role.BARRIER
    assert f.check().ok


def test_a_block_that_goes_on_as_another_one_needs_a_barrier_between_its_rounds() -> None:
    s = pipelines.pair()
    s.q.split(pipelines.i, 64, pipelines.i0, pipelines.i1)
    s.p.store_in(tm.SHARED).compute_at(s.q, pipelines.i0)
    s.q.tag_gpu(blocks=[pipelines.i0], threads=[pipelines.i1], grid=1)
    s.p.tag_gpu(threads=[pipelines.i])
    s.f.derive_transfers()
    program = s.f.completed
    (name,) = [each for each in program.statements if each.endswith("_round")]
    statements = {each: statement for each, statement in program.statements.items() if each != name}
    orders = tuple(order for order in program.orders if name not in (order.before, order.after))
    assert check(program).ok
    (violation,) = check(program.with_(statements=statements, orders=orders)).violations
    assert violation.kind == "race" and "with grid=1 one block runs both rounds" in violation.message


def test_blocks_that_combine_nothing_race_even_if_their_threads_combine() -> None:
    f, b, t = tm.Function("total", params=[N], assume="N >= 1"), *tm.iters("b t")
    x = f.input("x", tm.int32, [N])
    s = f.reduction("s", {}, over={i: N}, op=tm.sum, expr=x[i])
    f.outputs(s)
    s.update.split(i, 32, b, t)
    s.update.tag_gpu(blocks=[b], threads=[t], combine=tm.ATOMIC)
    f.derive_transfers()
    blocks = [loop for loop in f.program.loops.values() if isinstance(loop.tag, GpuBlock)]
    alone = f.program.with_loop(*(replace(each, tag=replace(each.tag, combine=None)) for each in blocks))
    kinds = [(each.kind, "by block 1 and block 0" in each.message) for each in check(complete(alone)).violations]
    assert ("race", True) in kinds


@pytest.mark.parametrize(("limit", "fits"), [(1024, True), (1023, False)])
def test_a_block_has_at_most_as_many_threads_as_its_gpu_lets(limit: int, fits: bool) -> None:
    f, (j, i1, j1, i0, j0) = tm.Function("tiles", params=[N]), tm.iters("j i1 j1 i0 j0")
    o = f.computation("o", {i: N, j: N}, i + j)
    f.outputs(o)
    o.gpu_tile(i, j, 32, 32, i0, j0, i1, j1)
    f.derive_transfers()
    report = check(
        complete(
            f.program.with_(targets=replace(f.program.targets, gpu=replace(f.program.targets.gpu, most_threads=limit)))
        )
    )
    assert report.ok is fits
    assert fits or "32 x 32 = 1,024 threads in a block" in str(report)


@pytest.mark.parametrize(("limit", "fits"), [(16, True), (15, False)])
def test_the_number_that_a_block_draws_takes_shared_memory(limit: int, fits: bool) -> None:
    f, t = tm.Function("total", params=[N]), tm.iters("t")[0]
    x = f.input("x", tm.int32, [N, 64])
    s = f.reduction("s", {i: N}, over={t: 64}, op=tm.sum, expr=x[i, t])
    f.outputs(s)
    s.init.tag_gpu(blocks=[i])
    s.update.tag_gpu(blocks=[i, t], combine=tm.ORDERED)
    f.derive_transfers()
    report = check(
        complete(
            f.program.with_(targets=replace(f.program.targets, gpu=replace(f.program.targets.gpu, most_shared=limit)))
        )
    )
    assert report.ok is fits
    assert fits or "in each block (the number that the block draws 4, each at a multiple of 16 bytes)" in str(report)


@pytest.mark.parametrize(("limit", "fits"), [(16, True), (15, False)])
def test_a_tree_takes_shared_memory_in_whole_units(limit: int, fits: bool) -> None:
    f, t = tm.Function("total", params=[N]), tm.iters("t")[0]
    x = f.input("x", tm.int32, [N, 64])
    s = f.reduction("s", {i: N}, over={t: 64}, op=tm.sum, expr=x[i, t])
    f.outputs(s)
    s.init.tag_gpu(blocks=[i])
    s.update.tag_gpu(blocks=[i], threads=[t], combine=tm.TREE)
    f.derive_transfers()
    report = check(
        complete(
            f.program.with_(targets=replace(f.program.targets, gpu=replace(f.program.targets.gpu, most_shared=limit)))
        )
    )
    assert report.ok is fits
    assert (
        fits
        or "needs 16 bytes of shared memory in each block (the tree of s.update 8, each at a multiple of 16"
        in str(report)
    )
