"""Barriers: as few as needed, as far out as possible, none under divergent control."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.derive.barriers.enumerated import exposed
from tests.effort import calls
from tests.programs.drafts import Draft
from tests.programs.gpu.kernels import barriers, only_kernel
from tests.programs.stories import M, N, R, T, c, c0, c1, i, i0, i1, j, j0, j1, k, k0, k1, product, r, t
from tiramisu_py.algorithm.expressions import Iter, select
from tiramisu_py.algorithm.operators import sum_
from tiramisu_py.algorithm.types import float32
from tiramisu_py.dependence import kernel_order
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.derive.barriers.barriers import conflicts, fewest, with_barriers
from tiramisu_py.function.handles.computations import Input
from tiramisu_py.program.loops import Combine, GpuBlock
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role
from tiramisu_py.program.storage import Memory
from tiramisu_py.schedule.devices.place_waits import with_barrier

x, y, s, s0, s1 = (Iter(name) for name in ["x", "y", "s", "s0", "s1"])


def tiled_product(**options: object) -> Draft:
    """The matrix product in tiles of 4, with tiles of both factors in shared memory."""
    f, result = product()
    result.init.tile(i, j, 4, 4, i0, j0, i1, j1)
    result.update.tile(i, j, 4, 4, i0, j0, i1, j1)
    result.update.split(k, 4, k0, k1)
    result.update.reorder(i0, j0, k0, i1, j1, k1)
    result.update.after(result.init, j0)
    for part in (result.init, result.update):
        part.tag_gpu(blocks=[i0, j0], threads=[i1, j1])
    for name in "AB":
        result.update.copy(Input(f, name), [y, x], at=k0, into=Memory.SHARED, name=f"{name}_tile", **options)
    return f


def doubly_buffered_product() -> Draft:
    return tiled_product(buffers=2)


def deferred_product() -> Draft:
    return tiled_product(deferred=True)


def transposed() -> Draft:
    """Through a tile in shared memory, so that both sides touch rows."""
    f = Draft("transpose", "N M", (N >= 1) & (M >= 1))
    a = f.input("a", float32, [N, M])
    b = f.computation("b", {j: M, i: N}, a[i, j])
    f.outputs(b)
    b.gpu_tile(j, i, 4, 4, j0, i0, j1, i1)
    b.copy(a, [y, x], at=i0, into=Memory.SHARED, name="tile")
    return f


def stencil() -> Draft:
    """Three points of a row, a tile and its halo in shared memory."""
    f = Draft("stencil", "N", N >= 3)
    a = f.input("a", float32, [N])
    b = f.computation("b", {i: (1, N - 1)}, a[i - 1] + a[i] + a[i + 1], shape=[N])
    f.outputs(b)
    b.split(i, 4, i0, i1)
    b.tag_gpu(blocks=[i0], threads=[i1])
    b.copy(a, [x], at=i0, into=Memory.SHARED, name="tile")
    return f


def stencil_2d() -> Draft:
    """Two stages in one kernel, the first in shared memory, with its halo recomputed by each block."""
    f = Draft("blur", "R N", (R >= 3) & (N >= 3))
    a = f.input("a", float32, [R + 2, N + 2])
    p = f.computation("p", {r: R + 2, c: N}, a[r, c] + a[r, c + 1] + a[r, c + 2])
    q = f.computation("q", {r: R, c: N}, p[r, c] + p[r + 1, c] + p[r + 2, c])
    f.outputs(q)
    q.gpu_tile(r, c, 4, 4, i0, j0, i1, j1)
    p.compute_at(q, j0)
    p.store_in(Memory.SHARED)
    p.split(c, 4, c0, c1)
    p.reorder(c0, r, c1)
    p.tag_gpu(threads=[r, c1])
    return f


def in_time() -> Draft:
    """Each block goes through all steps of time of its row, two levels in turn in shared memory."""
    f = Draft("heat", "T N", (T >= 1) & (N >= 1))
    start = f.input("start", float32, [N, 8])
    edge = (t == 0) | (i == 0) | (i == 7)
    u = f.computation(
        "u", {r: N, t: T + 1, i: 8}, lambda u: select(edge, start[r, i], u[r, t - 1, i - 1] + u[r, t - 1, i + 1])
    )
    last = f.computation("last", {r: N, i: 8}, u[r, T, i])
    f.outputs(last)
    u.store_in([r, t % 2, i])
    last.after(u, r)
    u.tag_gpu(blocks=[r], threads=[i])
    last.tag_gpu(blocks=[r], threads=[i])
    return f


def halving() -> Draft:
    """A sum by halves: in each of four steps a thread adds what another has."""
    f = Draft("total", "N", N >= 1)
    a = f.input("a", float32, [N, 16])
    part = f.computation(
        "part",
        {r: N, s: 5, i: 16},
        lambda part: select(s == 0, a[r, i], part[r, s - 1, i] + part[r, s - 1, (i + 8) % 16]),
    )
    total = f.computation("total", {r: N}, part[r, 4, 0])
    f.outputs(total)
    total.after(part, r)
    part.tag_gpu(blocks=[r], threads=[i])
    total.tag_gpu(blocks=[r])
    return f


def triangle() -> Draft:
    """Thread i does i + 1 steps, and in each reads what its neighbour has stored in the same step."""
    f = Draft("triangle", "N", N >= 1)
    inside = [{r: N, i: 8, k: (0, i + 1)}]
    p = f.computation("p", inside, 1.0 * k + i)
    q = f.computation("q", inside, p[r, i, k] + select(i < 7, p[r, i + 1, k], 0))
    f.outputs(q)
    q.after(p, k)
    p.store_in([r, i])
    q.tag_gpu(blocks=[r], threads=[i])
    return f


KERNELS: dict[str, tuple[Callable[[], Draft], Mapping[str, int], list[str]]] = {
    "tiled product": (tiled_product, {"N": 5, "M": 6, "K": 9}, ["i0 j0 k0", "i0 j0 k0"]),
    "double buffering": (doubly_buffered_product, {"N": 5, "M": 6, "K": 13}, ["i0 j0 k0"]),
    "deferred copies": (deferred_product, {"N": 5, "M": 6, "K": 9}, ["i0 j0 k0", "i0 j0 k0"]),
    "transpose": (transposed, {"N": 5, "M": 7}, ["j0 i0"]),
    "stencil": (stencil, {"N": 11}, ["i0"]),
    "steps of time": (in_time, {"T": 3, "N": 2}, ["r t"]),
    "halving": (halving, {"N": 2}, ["r s"]),
    "triangle": (triangle, {"N": 2}, ["r i k", "r i k"]),
    "two stages": (stencil_2d, {"R": 5, "N": 6}, ["i0 j0"]),
}


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_gets_the_barriers_it_needs_where_they_are_needed(name: str) -> None:
    make, sizes, expected = KERNELS[name]
    before = make().program
    program = with_barriers(before)
    assert barriers(program) == expected
    assert exposed(before, sizes) > 0
    assert exposed(program, sizes) == 0


@pytest.mark.parametrize("name", KERNELS)
def test_without_any_one_of_its_barriers_a_kernel_has_conflicts(name: str) -> None:
    make, sizes, _ = KERNELS[name]
    program = with_barriers(make().program)
    for barrier in [s.name for s in program.statements.values() if s.role is Role.BARRIER]:
        without = without_statement(program, barrier)
        assert exposed(without, sizes) > 0
        assert unserved(without)


@pytest.mark.parametrize("name", KERNELS)
def test_statements_keep_their_order(name: str) -> None:
    before = KERNELS[name][0]().program
    after = with_barriers(before)
    assert sorted(before.statements, key=before.positions.__getitem__) == sorted(
        before.statements, key=after.positions.__getitem__
    )


def without_statement(program: Program, name: str) -> Program:
    return program.with_(statements={n: s for n, s in program.statements.items() if n != name})


def unserved(program: Program) -> bool:
    """Whether a kernel has conflicts that barriers could separate and do not."""
    nest = only_kernel(program)
    found = conflicts(nest, MemoryAccesses(program))
    left = (kernel_order.without_separated(nest, one.first, one.second, one.times) for one in found)
    return any(not times.is_empty() for times in left)


def test_threads_that_keep_to_themselves_need_no_barrier() -> None:
    f = Draft("two", "N", N >= 1)
    a = f.input("a", float32, [N])
    p = f.computation("p", {i: N}, a[i] + 1)
    q = f.computation("q", {i: N}, p[i] + 1)
    f.outputs(q)
    for stage in (p, q):
        stage.split(i, 4, i0, i1)
    q.after(p, i0)
    for stage in (p, q):
        stage.tag_gpu(blocks=[i0], threads=[i1])
    assert barriers(with_barriers(f.program)) == []


def test_kernels_in_a_loop_of_the_host_need_no_barrier() -> None:
    f = Draft("heat", "T N", (T >= 1) & (N >= 3))
    start = f.input("start", float32, [N])
    edge = (t == 0) | (i == 0) | (i == N - 1)
    u = f.computation("u", {t: T, i: N}, lambda u: select(edge, start[i], u[t - 1, i - 1] + u[t - 1, i + 1]))
    f.outputs(u)
    u.split(i, 64, i0, i1)
    u.tag_gpu(blocks=[i0], threads=[i1])
    assert barriers(with_barriers(f.program)) == []


def test_updates_that_threads_combine_need_barriers_only_around_them() -> None:
    f = Draft("sums", "N", N >= 1)
    a = f.input("a", float32, [N, 32])
    total = f.reduction("total", {i: N}, {k: 32}, sum_, a[i, k])
    twice = f.computation("twice", {i: N, k: 32}, total[i] * a[i, k])
    f.outputs(twice)
    total.update.after(total.init, i)
    twice.after(total.update, i)
    total.init.tag_gpu(blocks=[i])
    total.update.tag_gpu(threads=[k], combine=Combine.ATOMIC)
    twice.tag_gpu(threads=[k])
    program = with_barriers(f.program)
    assert barriers(program) == ["i", "i"]
    assert sorted(program.statements, key=program.positions.__getitem__)[::2] == [
        "total_init",
        "total_update",
        "twice",
    ]


@pytest.mark.parametrize("deferred", [False, True])
def test_a_deferred_copy_needs_a_barrier_even_where_each_thread_reads_its_own(deferred: bool) -> None:
    f = Draft("own", "N", N >= 1)
    a = f.input("a", float32, [N])
    b = f.computation("b", {i: N}, a[i] + 1)
    f.outputs(b)
    b.split(i, 4, i0, i1)
    b.tag_gpu(blocks=[i0], threads=[i1])
    b.copy(a, [x], at=i0, into=Memory.SHARED, deferred=deferred, name="tile")
    program = with_barriers(f.program)
    assert barriers(program) == (["i0"] if deferred else [])
    assert exposed(f.program, {"N": 6}) == (6 if deferred else 0)
    assert exposed(program, {"N": 6}) == 0


def test_who_does_without_barriers_gets_none() -> None:
    f = stencil_2d()
    loop = next(x for x in f.program.loops.values() if isinstance(x.tag, GpuBlock))
    launch = replace(loop.tag.launch, barriers=False)  # type: ignore[union-attr]
    for x in f.program.loops.values():
        if isinstance(x.tag, GpuBlock):
            tag = replace(x.tag, launch=launch)
            f.change("barriers=False", lambda p, x=x, tag=tag: p.with_loop(replace(x, tag=tag)))  # type: ignore[misc]
    assert barriers(with_barriers(f.program)) == []


def test_a_barrier_of_the_user_counts() -> None:
    f = transposed()
    loops = f.program.statements["tile"].loops[:2]
    f.change("barrier", lambda p: with_barrier(p, "mine", loops, "tile", "b", "f.barrier(tile, b, at=i0)"))
    assert barriers(with_barriers(f.program)) == ["j0 i0"]


def test_barriers_of_a_tiled_product_are_found_with_little_work() -> None:
    program = tiled_product().program
    assert calls(lambda: with_barriers(program)) < 20_000  # 6,700


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 7)), max_size=7))
def test_the_fewest_places_are_found(needs: list[tuple[int, int]]) -> None:
    arcs = [frozenset((start + step) % 7 for step in range(length)) for start, length in needs]
    chosen = fewest(arcs, 7)
    assert all(arc & set(chosen) for arc in arcs)
    smaller = combinations(range(7), len(chosen) - 1) if chosen else ()
    assert not any(all(arc & set(places) for arc in arcs) for places in smaller)
