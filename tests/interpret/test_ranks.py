"""Several ranks in one process, on loop IR written by hand: each rank has four numbers of a row, and needs more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.interpret.test_machine import at, number, op, plus
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import Expr, Param
from tiramisu_py.interpret import InterpretError, Traffic, interpret_ranks
from tiramisu_py.ir import (
    Allocate,
    ArrayArgument,
    Block,
    Complete,
    For,
    If,
    Load,
    LoopFunction,
    Node,
    Piece,
    Post,
    ProcessGrid,
    Request,
    Requests,
    Side,
    Store,
)
from tiramisu_py.program.loops import Parallel
from tiramisu_py.program.statement import SendMode

SEEDS = range(12)
B = 4
RANK = Param("rank0", ty.int64)


def piece(first: Expr, count: Expr | int = 1, step: int = 1) -> Piece:
    return Piece((first,), (Side(number(count) if isinstance(count, int) else count, (step,)),))


def send(
    array: str, elements: Node, to: Expr, tag: int = 0, mode: SendMode = SendMode.STANDARD, **more: object
) -> Post:
    made = Post(True, array, ty.float64, elements, to, tag, mode, None, False, f"send {array}")
    return replace(made, **more)  # type: ignore[arg-type]


def receive(array: str, elements: Node, source: Expr, tag: int = 0, **more: object) -> Post:
    made = Post(False, array, ty.float64, elements, source, tag, SendMode.STANDARD, None, False, f"receive {array}")
    return replace(made, **more)  # type: ignore[arg-type]


def using(post: Post, index: int = 0, name: str = "q") -> Post:
    return replace(post, request=Request(name, number(index)))


def wait(first: int = 0, count: int = 1) -> Complete:
    return Complete("q", number(first), number(count), "wait")


def requests(*body: Node, count: int = 1) -> Requests:
    return Requests("q", number(count), Block(body))


def load(buffer: str, index: Expr) -> Load:
    return Load(buffer, (index,), ty.float64)


def store(buffer: str, index: Expr, value: Expr) -> Store:
    return Store(buffer, (index,), value, f"store {buffer}")


def on(condition: Expr, *body: Node) -> If:
    return If(condition, Block(body))


def is_rank(value: int) -> Expr:
    return op("==", RANK, number(value))


def function(*body: Node, ranks: int = 2, halo: int = 1) -> LoopFunction:
    """Each rank has x[B], and gives y[B]; t is a temporary of B + `halo` elements, which starts as x."""
    arrays = (
        ArrayArgument("x", ty.float64, (number(B),), True, False),
        ArrayArgument("y", ty.float64, (number(B),), False, True, covered=False),
    )
    copied = For("i", number(0), number(B), store("t", at("i"), load("x", at("i"))))
    whole = Allocate("t", (number(B + halo),), ty.float64, Block((copied, *body)))
    grid = ProcessGrid((number(ranks),), ("rank0",))
    return LoopFunction("f", (), arrays, (), whole, grid=grid)


DIFFERENCES = For(
    "i", number(0), number(B), store("y", at("i"), op("-", load("t", plus(at("i"), 1)), load("t", at("i"))))
)
FIRST, LAST = piece(number(0)), piece(number(B))
SENT = on(op("<", number(0), RANK), send("t", FIRST, plus(RANK, -1)))
EDGE = store("t", number(B), number(0))


def taken(ranks: int, post: Node | None = None) -> Node:
    """The halo from the next rank; the last rank has zero."""
    inner = op("<", RANK, number(ranks - 1))
    return If(inner, receive("t", LAST, plus(RANK, 1)) if post is None else post, EDGE)


def run(of: LoopFunction, seed: int, ranks: int = 2) -> tuple[np.ndarray, Traffic]:
    whole = np.arange(ranks * B) ** 2.0
    given = [{"x": whole[B * k : B * k + B].copy(), "y": np.full(B, np.nan)} for k in range(ranks)]
    traffic = interpret_ranks(of, given, {}, seed)
    return np.concatenate([one["y"] for one in given]), traffic


def refused(of: LoopFunction, words: str, ranks: int = 2) -> None:
    """Whatever the timing."""
    for seed in SEEDS:
        with pytest.raises(InterpretError, match=words):
            run(of, seed, ranks)


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_ranks_take_halos_from_their_neighbours(ranks: int) -> None:
    whole = np.arange(ranks * B) ** 2.0
    for seed in SEEDS:
        got, traffic = run(function(SENT, taken(ranks), DIFFERENCES, ranks=ranks), seed, ranks)
        np.testing.assert_array_equal(got, np.diff(np.append(whole, 0)))
        assert (traffic.messages, traffic.elements, traffic.bytes) == (ranks - 1, ranks - 1, 8 * (ranks - 1))
        assert [traffic.sent_by(q).bytes for q in range(ranks)] == [8 * (q > 0) for q in range(ranks)]
        assert [traffic.received_by(q).messages for q in range(ranks)] == [int(q < ranks - 1) for q in range(ranks)]


def test_threads_run_inside_of_ranks() -> None:
    parallel = replace(DIFFERENCES, tag=Parallel())
    for seed in SEEDS:
        got, _ = run(function(SENT, taken(2), parallel), seed)
        np.testing.assert_array_equal(got, np.diff(np.append(np.arange(2 * B) ** 2.0, 0)))


def test_ranks_beyond_the_grid_do_nothing() -> None:
    blocks = [{"x": np.arange(4.0), "y": np.zeros(B)} for _ in range(2)]
    assert interpret_ranks(function(SENT, taken(2), DIFFERENCES), [*blocks, {}, {}], {}).messages == 1
    with pytest.raises(InterpretError, match="needs 2 ranks, there are 1"):
        interpret_ranks(function(SENT, taken(2), DIFFERENCES), blocks[:1], {})


# -- deadlock

RING = Block((send("t", FIRST, op("-", number(1), RANK)), receive("t", LAST, op("-", number(1), RANK))))


@pytest.mark.parametrize("mode", [SendMode.STANDARD, SendMode.SYNCHRONOUS])
def test_a_ring_of_blocking_sends_is_a_deadlock(mode: SendMode) -> None:
    ring = Block((replace(RING.body[0], mode=mode), RING.body[1]))  # type: ignore[type-var]
    refused(function(ring, DIFFERENCES), "deadlock: rank 0 waits in send t for rank 1 to receive; rank 1 waits")


def test_a_ring_of_buffered_sends_is_none() -> None:
    ring = Block((replace(RING.body[0], mode=SendMode.BUFFERED), RING.body[1]))  # type: ignore[type-var]
    for seed in SEEDS:
        got, _ = run(function(ring, DIFFERENCES), seed)
        assert (got[B - 1], got[-1]) == (B**2 - (B - 1) ** 2, -((2 * B - 1) ** 2))


def test_nonblocking_receives_make_a_ring_safe() -> None:
    posted = using(receive("t", LAST, op("-", number(1), RANK)))
    sent = send("t", FIRST, op("-", number(1), RANK))
    for seed in SEEDS:
        got, traffic = run(function(requests(posted, sent, wait()), DIFFERENCES), seed)
        assert traffic.messages == 2
        assert (got[B - 1], got[-1]) == (B**2 - (B - 1) ** 2, -((2 * B - 1) ** 2))
    refused(function(requests(using(sent), wait(), receive("t", LAST, op("-", number(1), RANK)))), "deadlock")


def test_a_receive_that_nobody_sends_to_is_a_deadlock() -> None:
    refused(function(taken(2), DIFFERENCES), "deadlock: rank 0 waits in receive t for rank 1 to send, .*has returned")


def test_another_tag_is_another_message() -> None:
    crossed = taken(2, receive("t", LAST, plus(RANK, 1), tag=1))
    refused(function(SENT, crossed, DIFFERENCES), "deadlock: .*rank 0 waits in receive t.*rank 1 waits in send t")


# -- memory in use


def test_what_is_being_received_may_not_be_touched() -> None:
    posted = taken(2, using(receive("t", LAST, plus(RANK, 1))))
    refused(
        function(requests(posted, SENT, DIFFERENCES, wait())), r"on rank 0: store y reads t\[4\], which the receive"
    )
    written = on(is_rank(0), store("t", number(B), number(0)))
    refused(function(requests(posted, SENT, written, wait())), r"on rank 0: store t writes t\[4\]")
    again = on(is_rank(0), receive("t", LAST, plus(RANK, 1)))
    refused(function(requests(posted, SENT, again, wait())), r"on rank 0: receive t writes t\[\[4\]\]")


def test_what_is_being_sent_may_be_read_but_not_written() -> None:
    posted = on(is_rank(1), using(send("t", FIRST, plus(RANK, -1))))
    read = function(requests(posted, taken(2), DIFFERENCES, wait()))
    for seed in SEEDS:
        run(read, seed)
    written = on(is_rank(1), store("t", number(0), number(7)))
    refused(function(requests(posted, taken(2), written, wait())), r"on rank 1: store t writes t\[0\], which the send")
    for seed in SEEDS:
        run(function(requests(posted, taken(2), wait(), written, DIFFERENCES)), seed)


def test_memory_is_not_given_up_while_a_message_uses_it() -> None:
    posted = on(is_rank(1), using(send("s", FIRST, plus(RANK, -1))))
    inner = Allocate("s", (number(1),), ty.float64, Block((store("s", number(0), number(3)), posted)))
    refused(function(requests(inner, taken(2), DIFFERENCES, wait())), "the send send s still uses s when its memory is")


def test_what_is_sent_must_have_been_written() -> None:
    refused(function(on(is_rank(1), send("t", LAST, number(0))), taken(2)), r"on rank 1: send t reads t\[4\]")


def test_an_input_is_not_received_into() -> None:
    refused(function(SENT, taken(2, receive("x", FIRST, plus(RANK, 1)))), "on rank 0: receive t?x? ?writes x")


# -- requests


def test_requests_are_free_when_they_are_used_and_when_they_go() -> None:
    posted = on(is_rank(1), using(send("t", FIRST, number(0))), using(send("t", FIRST, number(0))))
    refused(function(requests(posted, taken(2), wait())), "send t uses request 0 of q, which send t still uses")
    once = on(is_rank(1), using(send("t", FIRST, number(0))))
    refused(function(requests(once, taken(2), DIFFERENCES)), "on rank 1: nothing waits for send t")
    refused(function(requests(once, wait(0, 2))), "waits for requests 0 to 1 of q, which has 1")
    refused(
        function(requests(on(is_rank(1), using(send("t", FIRST, number(0)), 1)))), "uses request 1 of q, which has 1"
    )
    refused(function(once), "on rank 1: send t uses the requests q, which do not exist there")


def test_persistent_requests_stay_what_they_were_set_up_for() -> None:
    def rounds(first: Expr) -> LoopFunction:
        there = on(is_rank(1), using(send("t", piece(first), number(0), persistent=True)), wait())
        here = taken(2, receive("t", LAST, plus(RANK, 1)))
        return function(requests(For("k", number(0), number(2), Block((there, here)))), DIFFERENCES)

    for seed in SEEDS:
        assert run(rounds(number(0)), seed)[1].messages == 2
    refused(rounds(at("k")), "on rank 1: send t starts a persistent request that was set up for something else")


def test_waiting_for_many_waits_for_those_in_use() -> None:
    posted = (taken(2, using(receive("t", LAST, plus(RANK, 1)), 1)), SENT)
    for seed in SEEDS:
        assert run(function(requests(*posted, wait(0, 3), DIFFERENCES, count=3)), seed)[1].messages == 1


# -- what does not fit


def test_messages_fit_each_other() -> None:
    longer = on(is_rank(1), send("t", piece(number(0), 2), number(0)))
    refused(function(longer, taken(2)), "sends 2 elements, receive t on rank 0 takes 1")
    refused(function(on(is_rank(1), SENT, SENT), taken(2), DIFFERENCES), "deadlock: rank 1 waits in send t for rank 0")
    buffered = on(is_rank(1), send("t", FIRST, number(0), mode=SendMode.BUFFERED))
    refused(function(SENT, taken(2), DIFFERENCES, buffered), "send t on rank 1 sends to rank 0, which never takes part")
    refused(function(send("t", FIRST, plus(RANK, 1))), "on rank 1: send t names rank 2, but there are 2 ranks")
    other = replace(send("t", FIRST, number(0)), dtype=ty.float32)
    refused(function(on(is_rank(1), other)), "takes t as float32; it is float64")


def test_messages_of_one_channel_meet_in_order() -> None:
    there = on(is_rank(1), *(using(send("t", piece(number(k)), number(0)), k) for k in range(3)), wait(0, 3))
    here = on(is_rank(0), *(using(receive("t", piece(number(B + k)), number(1)), k) for k in range(3)), wait(0, 3))
    shown = For("i", number(0), number(3), store("y", at("i"), load("t", plus(at("i"), B))))
    result = on(is_rank(0), shown)
    for seed in SEEDS:
        got, traffic = run(function(requests(there, here, result, count=3), halo=3), seed)
        assert got[:3].tolist() == [16, 25, 36]
        assert [one.tag for one in traffic.sent] == [0, 0, 0]


def test_elements_may_be_strided_boxes_and_several_pieces() -> None:
    every_other = piece(number(0), 2, step=2)
    backwards = Block((piece(number(B + 1)), piece(number(B))))
    body = (
        on(is_rank(1), send("t", every_other, number(0))),
        on(is_rank(0), receive("t", backwards, number(1))),
        For("i", number(0), number(B), store("y", at("i"), load("t", at("i")))),
        on(is_rank(0), *(store("y", number(k), load("t", number(B + k))) for k in range(2))),
    )
    for seed in SEEDS:
        got, traffic = run(function(*body, halo=2), seed)
        assert got[:2].tolist() == [36, 16]
        assert traffic.bytes == 16


def test_coordinates_run_row_by_row() -> None:
    y = (ArrayArgument("y", ty.float64, (number(2),), False, True),)
    body = Block((store("y", number(0), Param("r", ty.int64)), store("y", number(1), Param("c", ty.int64))))
    grid = ProcessGrid((number(2), Param("P", ty.int64)), ("r", "c"))
    given = [{"y": np.zeros(2)} for _ in range(6)]
    interpret_ranks(LoopFunction("f", ("P",), y, (), body, grid=grid), given, {"P": 3})
    assert [one["y"].tolist() for one in given] == [[r, c] for r in range(2) for c in range(3)]


def test_errors_name_the_rank_by_its_coordinates() -> None:
    y = (ArrayArgument("y", ty.float64, (number(2),), False, True, covered=False),)
    grid = ProcessGrid((number(1), number(2)), ("r", "c"))
    body = on(op("==", Param("c", ty.int64), number(1)), store("y", number(2), number(0)))
    with pytest.raises(InterpretError, match=r"on rank \(0, 1\): store y accesses y\[2\], outside"):
        interpret_ranks(LoopFunction("f", (), y, (), body, grid=grid), [{"y": np.zeros(2)}] * 2, {})
