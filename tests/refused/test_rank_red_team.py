"""Programs with ranks that were accepted although they are wrong, once; and right ones that were refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import tiramisu_py as tm
from tests.proof.rank_stories import LATER, T, heat, proven, refusal, t

N = tm.params("N")[0]
i, j, q, x = tm.iters("i j q x")
P, B = 3, 2


def rows(later: str) -> SimpleNamespace:
    """s reads the last row of p on the rank before, whose elements are messages of their own."""
    f = tm.Function("rows", params=[N])
    a = f.input("a", tm.int64, [P * B, N])
    p = f.computation("p", {i: P * B, j: N}, 2 * a[i, j])
    s = f.computation("s", {i: (1, P * B), j: N}, p[i - 1, j] + p[i, j], shape=[P * B, N])
    f.outputs(s)
    for array in (a, s):
        array.distribute([i, j], rank=i // B)
    for stage in (p, s):
        stage.split(i, B, q, x)
        stage.tag_distribute(q)
    m = f.create_xfer(
        p[i, j], send={q: (0, P - 1), i: (q * B + B - 1, q * B + B), j: N}, to=q + 1,
        recv={q: (1, P), i: (q * B - 1, q * B), j: N}, source=q - 1, name="m",
        send_props=LATER if later == "send" else (), recv_props=LATER if later == "recv" else (),
    )  # fmt: skip
    half = getattr(m, later)
    f.order(p, m.send, m.recv, half.wait(), s, at=tm.root)
    return SimpleNamespace(f=f, m=m, half=half)


@pytest.mark.parametrize(
    ("later", "index", "words"),
    [
        ("send", 0, "m.send of p[1, 1] uses a request on rank 0 before the wait for m.send of p[1, 0], which uses it"),
        ("send", j % 2, "m.send of p[1, 2] uses a request on rank 0 before the wait for m.send of p[1, 0]"),
        ("recv", j // 2, "m.recv of p[1, 1] uses a request on rank 1 before the wait for m.recv of p[1, 0]"),
        ("send", q, "m.send of p[1, 1] uses a request on rank 0 before the wait for m.send of p[1, 0]"),
    ],
)
def test_two_messages_under_way_in_one_request(later: str, index: Any, words: str) -> None:
    s = rows(later)
    s.half.set_wait_access(index)
    (violation,) = s.f.check().violations
    assert (violation.kind, violation.command.split("(")[0]) == ("race", f"m.{later}.set_wait_access")
    assert words in violation.message


def test_each_message_has_a_request_of_its_own() -> None:
    s = rows("send")
    s.half.set_wait_access(2 * j + q)
    assert proven(s.f)
    s = rows("send")
    s.half.set_wait_access(0)
    s.m.collapse_many(j)
    assert proven(s.f)


def later(away: int, kept: int | None, requests: Any = None) -> SimpleNamespace:
    """Heat, whose sends are waited for some iterations later, before the next send."""
    s = heat(LATER, kept)
    s.waits = {name: getattr(s, name).send.wait({t: T}) for name in ("right", "left")}
    received = [getattr(s, name).recv.wait({t: T}) for name in ("right", "left")]
    for name, wait in s.waits.items():
        wait.shift(t, away)
        if requests is not None:
            getattr(s, name).send.set_wait_access(requests)
    s.f.order(*s.waits.values(), s.u, *s.messages, *received, at=t)
    return s


def test_requests_in_turn_while_messages_are_under_way_over_several_iterations() -> None:
    assert proven(later(1, 2, 0).f)
    assert proven(later(2, 3, t % 2).f)
    words = "right.send of u[1, 24] uses a request on rank 0 before the wait for right.send of u[0, 24], which uses it"
    assert words in refusal(later(2, 3, 0).f).message


def test_a_wait_that_finds_another_message_in_its_request() -> None:
    """The second wait for message t is of t - 1 in time t: nothing is in the request, or message t."""
    s = later(1, 3, 0)
    again = s.right.send.wait({t: T})
    again.shift(t, 1)
    s.f.order(s.right.send, again, at=t)
    violation = refusal(s.f)
    assert violation.kind == "race"
    assert (
        "right_send_wait2 would wait for right.send of u[1, 24] on rank 0, which uses the request" in violation.message
    )
