"""One rank's part of a program: guards, memory that a rank needs, and its blocks of the caller's arrays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import tiramisu_py as tm
from tests.programs.ranks.distributed import (
    NONBLOCKING,
    C,
    agrees,
    all_of,
    blur,
    c,
    exchanged,
    k,
    lines,
    q,
    r,
    r1,
    random,
    text,
)  # fmt: skip
from tiramisu_py.errors import UnsupportedError
from tiramisu_py.ir import Allocate, ArrayArgument, For, Launch, LoopFunction, Post
from tiramisu_py.lower import lower
from tiramisu_py.passes.pipeline import optimise
from tiramisu_py.program.machine.distribution import Distribution

(N,) = tm.params("N")
i, j, s, qi, qj, i1, j1 = tm.iters("i j s qi qj i1 j1")


def extents(function: LoopFunction) -> dict[str, list[str]]:
    """The extents of the arrays that the caller passes, and of those that are allocated."""
    passed = [a for a in function.arguments if isinstance(a, ArrayArgument)]
    found = {array.name: list(map(str, array.extents)) for array in passed}
    return found | {array.buffer: list(map(str, array.extents)) for array in all_of(function, Allocate)}


def doubled(rank: Any, *, cyclic: bool = False) -> tm.Function:
    """b[r] = 2 * a[r], both distributed alike."""
    f = tm.Function("doubled", params=[N], assume="N >= 1")
    a = f.input("a", tm.float32, [N])
    b = f.computation("b", {r: N}, a[r] * 2)
    f.outputs(b)
    for array in (a, b):
        array.distribute_array([r], rank=rank)
    if cyclic:
        b.split(r, 3, k, q)
    else:
        b.split(r, 5, q, r1)
    b.tag_distribute(q)
    return f


def test_the_code_of_a_rank_has_the_guards_that_it_needs_and_no_loop_over_ranks():
    f = exchanged()
    guards = [line for line in lines(f) if line.startswith("if ")]
    assert guards == ["if rank0 <= 2:", "if rank0 >= 1:", "if rank0 <= 2:"]
    function = lower(f.completed)
    assert function.params == ("C",)
    assert function.grid is not None and function.grid.coordinates == ("rank0",)
    assert [str(extent) for extent in function.grid.extents] == ["4"]
    assert {loop.variable for loop in all_of(function, For)} == {"r1", "c"}


def test_a_rank_has_its_own_rows_and_those_of_its_neighbours():
    f = exchanged(**NONBLOCKING)
    assert extents(lower(f.completed)) == {"image": ["5", "C + 2"], "by": ["5", "C"], "bx": ["7", "C"]}
    assert "by[r1, c] = (bx[r1, c] + bx[r1 + 1, c] + bx[r1 + 2, c]) / 3.0" in lines(f)
    agrees(f, image=random(20, 9), C=7)


def test_inner_loops_stay_vectorised():
    f, bx, by = blur()
    for stage in (bx, by):
        stage.vectorize(c, 4)
    f.derive_transfers()
    assert [loop.step for loop in all_of(optimise(lower(f.completed)), For)].count(4) == 2
    agrees(f, image=random(20, 14), C=12)


def test_the_number_of_ranks_follows_from_the_size():
    function = lower(doubled(r // 5).completed)
    assert function.grid is not None
    assert [str(extent) for extent in function.grid.extents] == ["(N + 4) // 5"]
    assert extents(function) == {"a": ["min(5, N - 5 * rank0)"], "b": ["min(5, N - 5 * rank0)"]}
    for size in (1, 5, 13):
        agrees(doubled(r // 5), a=random(size), N=size)


def test_indices_that_are_dealt_out_in_turn():
    f = doubled(r % 3, cyclic=True)
    assert "b[k] = a[k] * 2.0" in lines(f)
    assert extents(lower(f.completed))["a"] == ["(N - rank0 + 2) // 3"]
    for size in (1, 3, 13):
        agrees(f, a=random(size), N=size)


def test_blocks_that_are_dealt_out_in_turn():
    f = tm.Function("rounds", params=[N], assume="N >= 1")
    a = f.input("a", tm.float32, [N])
    b = f.computation("b", {r: N}, a[r] + 1)
    f.outputs(b)
    for array in (a, b):
        array.distribute_array([r], rank=(r // 2) % 3)
    b.split(r, 6, k, r1)
    b.split(r1, 2, q, s)
    b.tag_distribute(q)
    assert "b[2 * k + s] = a[2 * k + s] + 1.0" in lines(f)
    for size in (1, 2, 5, 12, 17):
        agrees(f, a=random(size), N=size)


def test_an_array_that_ranks_use_in_turns_keeps_its_indices():
    f = tm.Function("turns", params=[N], assume="N >= 1")
    a = f.input("a", tm.float32, [N])
    b = f.computation("b", {r: N}, a[r] * 2)
    d = f.computation("d", {r: N}, b[r] + 1)
    f.outputs(d)
    for array in (a, d):
        array.distribute_array([r], rank=r % 3)
    for stage in (b, d):
        stage.split(r, 3, k, q)
        stage.tag_distribute(q)
    assert extents(lower(f.completed))["b"] == ["N"]
    agrees(f, a=random(13), N=13)


@pytest.mark.parametrize("local", [True, False])
def test_arrays_are_kept_in_full_where_that_is_asked_for(local: bool):
    f = tm.Function("kept", params=[N], assume="N >= 1")
    a = f.input("a", tm.float32, [N])
    b = f.computation("b", {r: N}, a[r] * 2)
    d = f.computation("d", {r: N}, b[r] + 1)
    f.outputs(d)
    for array in (a, d):
        array.distribute_array([r], rank=r // 5)
    for stage in (b, d):
        stage.split(r, 5, q, r1)
    b.tag_distribute(q, drop_rank_iter=local)
    d.tag_distribute(q)
    assert extents(lower(f.completed))["b"] == (["5"] if local else ["N"])
    agrees(f, a=random(13), N=13)


def neighbours(in_place: bool = False) -> tm.Function:
    """b[r] = a[r - 1] + a[r], which needs a row of the rank before."""
    f = tm.Function("neighbours", params=[C], assume="C >= 1")
    a = f.input("a", tm.float32, [20, C])
    b = f.computation("b", {r: 20, c: C}, tm.select(r == 0, a[r, c], a[r - 1, c] + a[r, c]))
    f.outputs(b)
    if in_place:
        b.store_in(a)
    for array in (a, b):
        array.distribute_array([r, c], rank=r // 5)
    b.split(r, 5, q, r1)
    if in_place:
        b.reverse(r1)
    b.tag_distribute(q)
    f.derive_transfers()
    return f


def test_rows_of_an_input_are_received_beside_a_copy_of_the_block():
    f = neighbours()
    assert extents(lower(f.completed)) == {"a": ["5", "C"], "b": ["5", "C"], "a_local": ["6", "C"]}
    assert "a_local[d0 + 1, d1] = a[d0, d1]" in lines(f)
    assert {post.array for post in all_of(lower(f.completed), Post)} == {"a_local"}
    agrees(f, a=random(20, 6), C=6)


def test_an_array_that_is_input_and_output_is_copied_back():
    f = neighbours(in_place=True)
    function = lower(f.completed)
    assert extents(function) == {"a": ["5", "C"], "a_local": ["6", "C"]}
    (argument,) = (a for a in function.arguments if isinstance(a, ArrayArgument))
    assert argument.is_input and argument.is_output and argument.covered
    assert lines(f)[-1] == "a[r, c] = a_local[r + 1, c]"
    agrees(f, a=random(20, 6), C=6)


def test_what_is_in_one_array_is_distributed_alike():
    f = tm.Function("unlike", params=[C], assume="C >= 1")
    a = f.input("a", tm.float32, [20, C])
    b = f.computation("b", {r: 20, c: C}, a[r, c] * 2)
    f.outputs(b)
    b.store_in(a)
    a.distribute_array([r, c], rank=r // 5)
    b.split(r, 5, q, r1)
    b.tag_distribute(q)
    alike = f.completed.ranks.distributions["a"]
    unlike = f.completed.with_(ranks=replace(f.completed.ranks, distributions={"a": alike, "b": Distribution((None,))}))
    with pytest.raises(UnsupportedError, match="distribute both in the same way"):
        lower(unlike)


def test_an_array_on_one_rank_is_empty_on_the_others():
    f = tm.Function("one", params=[N], assume="N >= 1")
    a = f.input("a", tm.float32, [N])
    b = f.computation("b", {q: 3, i: N}, a[i] * (q + 1))
    f.outputs(b)
    a.distribute_array([i], rank=1)
    b.distribute_array([q, i], rank=q)
    b.tag_distribute(q)
    f.derive_transfers()
    found = extents(lower(f.completed))
    assert found == {"a": ["select(rank0 == 1, N, 0)"], "b": ["1", "N"], "a_local": ["N"]}
    agrees(f, a=random(5), N=5)


def test_an_output_without_a_distribution_is_whole_on_every_rank():
    f = tm.Function("everywhere", params=[N], assume="N >= 1")
    a = f.input("a", tm.float32, [3, N])
    b = f.computation("b", {q: 3, i: N}, a[q, i] * 2)
    f.outputs(b)
    a.distribute_array([q, i], rank=q)
    b.tag_distribute(q)
    f.derive_transfers()
    assert extents(lower(f.completed)) == {"a": ["1", "N"], "b": ["3", "N"]}
    agrees(f, a=random(3, 5), N=5)


def test_statements_without_ranks_run_on_every_rank():
    f = tm.Function("replicated", params=[N], assume="N >= 1")
    b = f.computation("b", {i: N}, i, dtype=tm.int64)
    d = f.computation("d", {q: 3, i: N}, b[i] + q)
    f.outputs(d)
    d.distribute_array([q, i], rank=q)
    d.tag_distribute(q)
    assert lines(f)[1:4] == ["allocate b[N] in memory:", "for i in 0 .. N:", "b[i] = int64(i)"]
    agrees(f, N=5)


def test_names_of_coordinates_are_free():
    f = tm.Function("named", params=[N], assume="N >= 1")
    rank0 = tm.iters("rank0")[0]
    a = f.input("rank1", tm.float32, [4, N])
    b = f.computation("b", {r: 4, rank0: N}, a[r, rank0] * 2)
    f.outputs(b)
    for array in (a, b):
        array.distribute_array([r, i], rank=(r, None))
    b.tag_distribute(r)
    function = lower(f.completed)
    assert function.grid is not None and function.grid.coordinates == ("rank0", "rank1_1")
    assert "for rank0_1 in 0 .. N:" in text(f)
    agrees(f, rank1=random(4, 3), N=3)


def test_the_coordinate_of_the_rank_is_passed_on_to_kernels():
    f = tm.Function("kernels", params=[N], assume="N >= 1")
    b = f.computation("b", {q: 3, i: N}, q + i * 2.0)
    f.outputs(b)
    b.distribute_array([q, i], rank=q)
    b.tag_distribute(q)
    b.split(i, 32, i1, j1)
    b.tag_gpu([i1], [j1])
    f.derive_transfers()
    function = lower(f.completed)
    (kernel,), (launch,) = function.gpus.kernels, all_of(function, Launch)
    assert kernel.params == ("N", "rank0") and [str(value) for value in launch.values] == ["N", "rank0"]
