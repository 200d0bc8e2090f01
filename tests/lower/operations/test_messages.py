"""Messages in loop IR: which elements, to whom, by which request, and what a wait completes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import tiramisu_py as tm
from tests.programs.ranks.distributed import NONBLOCKING, C, agrees, all_of, c, exchanged, lines, q, r, random, t
from tiramisu_py import sets
from tiramisu_py.errors import UnsupportedError
from tiramisu_py.ir import Complete, For, Piece, Post, Requests
from tiramisu_py.ir.rewriting import all_expressions, names, walk
from tiramisu_py.lower import lower
from tiramisu_py.passes.pipeline import optimise
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import SendMode
from tiramisu_py.view.pseudocode import pseudocode

N, T = tm.params("N T")
i, j, s, qi, qj, i1, j1 = tm.iters("i j s qi qj i1 j1")


def changed(program: Program, name: str, **changes: Any) -> Program:
    """The program with another message in one half of an exchange."""
    half = program.statements[name]
    assert half.link.message is not None
    return program.with_statement(replace(half, link=replace(half.link, message=replace(half.link.message, **changes))))


def test_a_row_is_one_message_with_a_tag_for_each_exchange():
    f = exchanged()
    down, up, down_receive, up_receive = all_of(lower(f.completed), Post)
    assert [post.tag for post in (down, up, down_receive, up_receive)] == [1, 2, 1, 2]
    assert [post.sends for post in (down, up, down_receive, up_receive)] == [True, True, False, False]
    assert [str(post.peer) for post in (down, up)] == ["rank0 + 1", "rank0 - 1"]
    assert all(post.request is None and not post.persistent for post in (down, up, down_receive, up_receive))
    assert [line for line in lines(f) if line.startswith("elements")] == [
        "elements from [5, 0], C along [0, 1]",
        "elements from [1, 0], C along [0, 1]",
        "elements from [0, 0], C along [0, 1]",
        "elements from [6, 0], C along [0, 1]",
    ]


def test_single_elements_are_messages_with_a_request_each():
    f = exchanged(whole=False, **NONBLOCKING)
    assert "requests down_send_requests[select(rank0 == 3, 0, C)]" in lines(f)
    assert "send bx to rank rank0 + 1, tag 1, request down_send_requests[c]:" in lines(f)
    assert "elements from [5, c]" in lines(f)
    assert "wait for C of down_send_requests from 0" in lines(f)
    agrees(f, image=random(20, 9), C=7)


@pytest.mark.parametrize("props, mode", [([tm.SYNC], SendMode.SYNCHRONOUS), ([tm.BUFFERED], SendMode.BUFFERED)])
def test_how_sends_are_complete(props: list[Any], mode: SendMode):
    f = exchanged(send_props=[*props, tm.NONBLOCK], recv_props=[tm.NONBLOCK])
    assert {post.mode for post in all_of(lower(f.completed), Post) if post.sends} == {mode}
    agrees(f, image=random(20, 9), C=7)


def columns() -> tm.Function:
    """Columns sent along the second axis of a grid of 2 x 3 ranks."""
    f = tm.Function("columns")
    a = f.input("a", tm.float32, [8, 9])
    b = f.computation("b", {i: 8, j: 9}, a[i, j] * 2)
    d = f.computation("d", {i: 8, j: (1, 9)}, b[i, j - 1] + b[i, j], shape=[8, 9])
    f.outputs(d)
    for array in (a, d):
        array.distribute_array([i, j], rank=(i // 4, j // 3))
    for stage in (b, d):
        stage.tile(i, j, 4, 3, qi, qj, i1, j1)
        stage.tag_distribute(qi, qj)
    across = f.create_exchange(
        b[i, j], send={qi: 2, qj: (0, 2), j: (3 * qj + 2, 3 * qj + 3), i: (4 * qi, 4 * qi + 4)}, to=(qi, qj + 1),
        recv={qi: 2, qj: (1, 3), j: (3 * qj - 1, 3 * qj), i: (4 * qi, 4 * qi + 4)}, source=(qi, qj - 1), name="across",
    )  # fmt: skip
    across.send.collapse_many(i)
    across.recv.collapse_many(i)
    f.order(b, across.send, across.recv, d, at=tm.root)
    return f


def test_a_column_has_a_stride_and_ranks_of_a_grid_have_numbers():
    f = columns()
    assert "send b to rank 3 * rank0 + rank1 + 1, tag 1:" in lines(f)
    assert "elements from [0, 3], 4 along [1, 0]" in lines(f)
    function = lower(f.completed)
    assert function.grid is not None and [str(extent) for extent in function.grid.extents] == ["2", "3"]
    agrees(f, a=random(8, 9))


def halved(low: Any, high: Any, step: int = 1) -> tm.Function:
    """Rank 0 sends the elements a[i, step*j], low <= j < high, of each row i in one message."""
    f = tm.Function("halved", params=[N], assume="N >= 4")
    a = f.computation("a", {q: 2, i: N, j: step * N}, q + i + 2 * j + 1, dtype=tm.int64)
    d = f.computation("d", {q: (1, 2), i: N, j: (low, high)}, a[q - 1, i, step * j] * 2, shape=[2, N, N])
    f.outputs(d)
    d.distribute_array([q, i, j], rank=q)
    for stage in (a, d):
        stage.tag_distribute(q)
    parts = f.create_exchange(
        a[s, i, step * j], send={q: 1, s: (q, q + 1), i: N, j: (low, high)}, to=q + 1,
        recv={q: (1, 2), s: (q - 1, q), i: N, j: (low, high)}, source=q - 1, name="parts",
    )  # fmt: skip
    for half in (parts.send, parts.recv):
        half.collapse_many(i, j)
    f.order(a, parts.send, parts.recv, d, at=tm.root)
    return f


def test_a_box_has_a_side_for_each_loop():
    f = halved(1, N - 1)
    assert "elements from [0, 0, 1], N along [0, 1, 0], N - 2 along [0, 0, 1]" in lines(f)
    agrees(f, N=5)


def test_every_other_element_is_a_side_of_step_two():
    f = halved(0, N, step=2)
    assert "elements from [0, 0, 0], N along [0, 1, 0], N along [0, 0, 2]" in lines(f)
    agrees(f, N=5)


def test_what_is_no_box_is_named_row_by_row():
    f = halved(0, i + 1)
    (post, _) = all_of(lower(f.completed), Post)
    (loop,) = (node for node in walk(post.elements) if isinstance(node, For))
    (piece,) = (node for node in walk(post.elements) if isinstance(node, Piece))
    assert str(loop.upper) == "N" and [str(side.extent) for side in piece.sides] == [f"{loop.variable} + 1"]
    agrees(f, N=5)


def in_steps() -> tm.Function:
    """In each step a rank sends its last number to the next one, and waits for it."""
    f = tm.Function("steps", params=[T], assume="T >= 1")
    a = f.input("a", tm.float32, [12])
    h = f.computation(
        "h", {t: T + 1, i: 12}, lambda h: tm.select((t == 0) | (i == 0), a[i], h[t - 1, i - 1] + h[t - 1, i])
    )
    f.outputs(h[T, i])
    result = f["h_out"]
    h.store_in(tm.Buffer("two", [2, 12], tm.float32), [t % 2, i])
    for array in (a, result):
        array.distribute_array([i], rank=i // 4)
    for stage in (h, result):
        stage.split(i, 4, q, i1)
        stage.tag_distribute(q)
    return f


def test_requests_are_used_again_in_each_step():
    f = in_steps()
    f.derive_transfers()
    assert {str(node.count) for node in all_of(lower(f.completed), Requests)} == {"1"}
    assert {str(node.first) for node in all_of(lower(f.completed), Complete)} == {"0"}
    agrees(f, a=random(12), T=5)


def by_rows(waits: Any) -> tm.Function:
    """Rank 0 sends six rows, one message each; `waits` are the iterations of the wait for the receives."""
    f = tm.Function("rows", params=[C], assume="C >= 1")
    a = f.input("a", tm.float32, [2, 6, C])
    b = f.computation("b", {q: 2, r: 6, c: C}, a[q, r, c] * 2)
    d = f.computation("d", {q: (1, 2), r: 6, c: C}, b[q - 1, r, c] + 1, shape=[2, 6, C])
    f.outputs(d)
    for array in (a, d):
        array.distribute_array([q, r, c], rank=q)
    for stage in (b, d):
        stage.tag_distribute(q)
    rows = f.create_exchange(
        b[s, r, c], send={q: 1, s: (q, q + 1), r: 6, c: C}, to=q + 1,
        recv={q: (1, 2), s: (q - 1, q), r: 6, c: C}, source=q - 1, name="rows", **NONBLOCKING,
    )  # fmt: skip
    for half in (rows.send, rows.recv):
        half.collapse_many(c)
    received = [rows.recv.wait(domain) for domain in waits]
    f.order(b, rows.send, rows.recv, *received, d, rows.send.wait(), at=tm.root)
    return f


def test_a_wait_completes_the_requests_that_it_names():
    f = by_rows([{r: 6}])
    assert "requests rows_receive_requests[6]" in lines(f)
    assert "wait for 1 of rows_receive_requests from r" in lines(f)
    assert "wait for 6 of rows_send_requests from 0" in lines(f)
    agrees(f, a=random(2, 6, 4), C=4)


def test_waits_for_some_of_the_messages():
    f = by_rows([{r: (0, 2)}, {r: (2, 6)}])
    loops = [line for line in lines(f) if line.startswith("for r in") and "C" not in line]
    assert "for r in 0 .. 2:" in loops and "for r in 2 .. 6:" in loops
    agrees(f, a=random(2, 6, 4), C=4)


def test_chosen_elements_of_the_array_of_requests():
    f = by_rows([None])
    program = f.completed
    half = program.statements["rows_receive"]
    row = sets.variables(half.frame)[2]
    slots = sets.function(half.frame, None, [sets.modulo(row, 3)])
    function = lower(changed(program, "rows_receive", slots=slots))
    counts = {node.name: str(node.count) for node in all_of(function, Requests)}
    assert counts["rows_receive_requests"] == "3"
    posts = {post.request.requests: str(post.request.index) for post in all_of(function, Post)}
    assert posts["rows_receive_requests"] == "r % 3"


def test_persistent_requests_are_of_messages_that_stay_the_same():
    program = by_rows([None]).completed
    function = lower(changed(program, "rows_receive", persistent=True))
    assert [post.persistent for post in all_of(function, Post)] == [False, True]
    half = program.statements["rows_receive"]
    alike = sets.function(half.frame, None, [sets.constant(half.frame, 0)])
    with pytest.raises(UnsupportedError, match="change between two uses of a request"):
        lower(changed(program, "rows_receive", persistent=True, slots=alike))
    with pytest.raises(UnsupportedError, match="a blocking message has no request"):
        lower(changed(program, "rows_receive", persistent=True, asynchronous=False))


def test_a_message_has_one_peer():
    f = tm.Function("several")
    b = f.computation("b", {q: 3, i: 4}, i + q, dtype=tm.int64)
    d = f.computation("d", {q: 3, i: 4}, b[q, i] + 1)
    f.outputs(d)
    d.distribute_array([q, i], rank=q)
    for stage in (b, d):
        stage.tag_distribute(q)
    all_ = f.create_exchange(b[q, i], send={q: 1, i: 4, s: (1, 3)}, to=s, recv={q: (1, 3), i: 4}, source=0, name="all")
    all_.send.collapse_many(s)
    with pytest.raises(UnsupportedError, match="goes to several ranks"):
        lower(f.completed)


def test_passes_know_the_parts_of_messages():
    function = lower(exchanged(**NONBLOCKING).completed)
    found = names(function.body)
    assert {"bx", "down_send_requests"} <= found
    kinds = (Post, Piece, Requests, Complete)
    assert [type(node) for node in walk(optimise(function).body) if isinstance(node, kinds)] == [
        type(node) for node in walk(function.body) if isinstance(node, kinds)
    ]
    (post, *_) = all_of(function, Post)
    assert "C" in {str(e) for e in all_expressions(post)}


def test_pseudocode_says_which_rank_it_is():
    assert pseudocode(lower(exchanged().completed)).startswith("blur(C, image, by), on rank rank0 of 4:\n")
    assert pseudocode(lower(columns().completed)).startswith("columns(a, d), on rank (rank0, rank1) of 2 x 3:\n")


def test_small_buffers_of_messages_stay_arrays():
    f = tm.Function("small")
    b = f.computation("b", {q: 2}, q, dtype=tm.int64)
    d = f.computation("d", {q: (1, 2)}, b[q - 1] + b[q], shape=[2])
    f.outputs(d)
    d.distribute_array([q], rank=q)
    for stage in (b, d):
        stage.tag_distribute(q)
    f.derive_transfers()
    agrees(f)


def test_a_wait_for_several_begins_at_the_first_request_that_a_rank_may_use():
    f = tm.Function("f", params=[N], assume="N >= 1")
    a = f.input("a", tm.float32, [N, 4])
    p = f.computation("p", {i: (1, N), j: (1, 4)}, a[i, j - 1] + a[i - 1, j])
    f.outputs(p)
    p.split(i, 1, qi, i1)
    p.split(j, 1, qj, j1)
    p.reorder(qi, qj, i1, j1)
    p.tag_distribute(qi, qj)
    a.distribute_array([i, j], rank=((i // 1) % 2, j // 1))
    p.distribute_array([i, j], rank=(i // 1, j // 1))
    f.derive_transfers()
    starts = {str(node.first) for node in all_of(lower(f.completed), Complete)}
    assert starts == {"0"}  # from 2 * 0 + rank0 % 2, the last of them would be beyond the end
    agrees(f, a=random(3, 4), N=3)
