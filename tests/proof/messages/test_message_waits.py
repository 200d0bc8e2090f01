"""Asynchronous messages and the waits for them: what may be touched in between, and by whom."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

import tiramisu_py as tm
from tests.programs.ranks.stories import (
    LATER,
    B,
    P,
    T,
    blur,
    down,
    exchanged,
    heat,
    heat_waited,
    i,
    proven,
    q,
    refusal,
    t,
    up,
    waited,
)
from tiramisu_py import sets
from tiramisu_py.program.loops import Loop, Rank
from tiramisu_py.program.program import Program


def messages(f: tm.Function) -> list[str]:
    """The messages of all violations."""
    return [violation.message for violation in f.check().violations]


def one_step_later(kept: int) -> SimpleNamespace:
    """Heat that waits for its sends only in the next time step, and for its receives at once."""
    s = heat(LATER, kept)
    sends, receives = s.messages[:2], s.messages[2:]
    received = [half.wait({t: T}) for half in receives]
    sent = [half.wait({t: T}) for half in sends]
    s.f.order(s.u, *s.messages, *received, at=t)
    for wait in sent:
        wait.shift(t, 1)
    s.f.order(s.u, *sent, s.messages[0], at=t)
    return s


def test_sends_may_be_waited_for_a_step_later_where_two_steps_are_kept() -> None:
    assert proven(one_step_later(kept=2).f)


def test_sends_waited_for_a_step_later_are_overwritten_where_one_step_is_kept() -> None:
    found = messages(one_step_later(kept=1).f)
    assert any("overwrites kept[0, 24] on rank 0 before the wait for right.send" in text for text in found)


@pytest.mark.parametrize("kept", [2, 3, None])
def test_waits_in_the_time_loop_order_all_that_is_kept(kept: int | None) -> None:
    assert proven(heat_waited(kept).f)


def test_blocking_halves_are_complete_at_once() -> None:
    s = blur()
    first, second = down(s), up(s)
    s.f.order(s.bx, first.send, first.recv, second.send, second.recv, s.by, at=tm.root)
    assert proven(s.f)
    assert s.f.check().superfluous == ()


def test_a_wait_for_a_half_that_blocks_is_superfluous() -> None:
    s = blur()
    first, second = down(s), up(s)
    wait = first.send.wait(name="needless")
    s.f.order(s.bx, first.send, wait, first.recv, second.send, second.recv, s.by, at=tm.root)
    assert s.f.check().superfluous == ("needless",)


def test_a_second_wait_for_the_same_messages_is_superfluous() -> None:
    s = waited()
    again = s.down.recv.wait(name="again")
    s.f.order(s.waits[-1], again, s.by, at=tm.root)
    assert set(s.f.check().superfluous) == {"again", s.waits[2].name}


def test_only_the_receives_need_a_wait_before_the_reader() -> None:
    s = exchanged(LATER)
    waits = [half.wait() for half in s.messages]
    s.f.order(*s.messages, *waits[2:], s.by, *waits[:2], at=tm.root)
    assert proven(s.f)


def test_a_wait_orders_nothing_on_other_ranks() -> None:
    """Rank 0 alone waits for what comes from below: rank 1 reads what may not have arrived."""
    s = exchanged(LATER)
    waits = [half.wait() for half in s.messages[:3]]
    first = s.up.recv.wait(name="first")
    s.f.order(*s.messages, *waits, first, s.by, at=tm.root)
    assert proven(s.f)
    s.f._program = on_rank_zero(s.f.program, "first")
    found = refusal(s.f)
    assert found.kind == "race"
    assert found.witness.reader == ("by", (49, 0))
    assert "reads bx[50, 0] on rank 1 before the wait for up.recv" in found.message


def on_rank_zero(program: Program, name: str) -> Program:
    """The program in which only rank 0 waits."""
    wait = program.statements[name]
    loop = Loop(program.next_loop(), "q", Rank(0))
    space = sets.frame(wait.frame.get_ctx(), program.algorithm.params, name, ["q"])
    instances = sets.within(sets.variables(space)[0], 0, 1).intersect_params(program.context.params())
    changed = replace(
        wait, dims=("q",), instances=instances, point=sets.function(space, None, []), loops=(loop.id,),
        coords=sets.renamed(sets.identity(space), None),
    )  # fmt: skip
    return program.with_loop(loop).with_statement(changed)


def test_each_half_is_waited_for_by_itself() -> None:
    """There is no order among messages: waiting for the one that is issued last does not complete the first."""
    s = exchanged(LATER)
    waits = [s.up.recv.wait(), s.up.send.wait(), s.down.send.wait()]
    s.f.order(*s.messages, *waits, s.by, at=tm.root)
    found = messages(s.f)
    assert len(found) == 2
    assert "by[25, 0] reads bx[24, 0] on rank 1 before the wait for down.recv" in found[0]
    assert "the function returns, and nothing waits for down.recv of bx[24, 0] on rank 1" in found[1]


def test_waiting_for_the_last_step_does_not_complete_the_steps_before() -> None:
    s = heat(LATER, kept=None)
    waits = [half.wait({t: T}) for half in s.messages[1:]]
    last = s.right.send.wait({t: (T - 1, T)})
    s.f.order(*s.messages, last, *waits, at=t)
    found = refusal(s.f)
    assert (found.kind, dict(found.witness.params), found.witness.writer) == ("race", {"T": 2}, ("u", (0, 24)))


def test_what_is_received_may_not_be_received_over_before_the_wait() -> None:
    s = heat(LATER)
    waits = [half.wait({t: T}) for half in (s.right.send, s.left.send, s.left.recv)]
    s.f.order(*s.messages, *waits, at=t)
    s.f.order(s.u, s.right.recv.wait(), s.last, at=tm.root)
    found = messages(s.f)
    late = "right.recv of u[2, 24] overwrites kept[0, 24] on rank 1 before the wait for right.recv"
    assert any(text.startswith(late) for text in found)


def test_the_repair_of_a_missing_wait_is_a_wait() -> None:
    s = waited()
    s.f.remove(s.waits[2])
    assert refusal(s.f).repair == "down.recv.wait(), ordered before by"
    again = s.down.recv.wait()
    s.f.order(s.messages[-1], again, s.by, at=tm.root)
    assert proven(s.f)


def test_the_repair_in_a_time_loop_waits_in_the_loop() -> None:
    s = heat_waited()
    s.f.remove(s.waits[2])
    assert refusal(s.f).repair == "right.recv.wait({t: ...}) in loop t, ordered before u"


def test_blocks_of_which_nothing_is_left_need_no_message() -> None:
    """A line of ranks whose last blocks are empty: no instance, no message, no wait."""
    f = tm.Function("ends")
    a = f.input("a", tm.float32, [P * B])
    b = f.computation("b", {i: (0, 2 * B)}, 2 * a[i], shape=[P * B])
    f.outputs(b)
    for array in (a, b):
        array.distribute_array([i], rank=i // B)
    b.split(i, B, q, tm.iters("i1")[0])
    b.tag_distribute(q)
    f.grid(P)
    assert proven(f)
