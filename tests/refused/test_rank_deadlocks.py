"""Exchanges between ranks that must be refused: messages without a peer, of other sizes, crossed; and deadlocks.

The program is the blur on four ranks with its two exchanges by hand; each case changes one thing, and the whole check
says what is wrong.
"""

# ruff: noqa: E501  (a case a line or two is what makes the table readable)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import tiramisu_py as tm
from tests.programs.ranks.distributed import C, c, q, r
from tests.programs.ranks.distributed import blur as plain_blur
from tiramisu_py.errors import Violation

P, B = 4, 5
r1, k, x = tm.iters("r1 k x")

NB = (tm.NONBLOCK,)


def blur(
    order: str,
    sends: Sequence[Any] = (),
    recvs: Sequence[Any] = (),
    collapse: str = "down.send down.recv up.send up.recv",
    **changes: Any,
) -> Any:
    """The blur, with the steps of `order` between its stages; `changes` are arguments of the first exchange."""
    f, bx, by = plain_blur(P, B)
    given: dict[str, Any] = {
        "send": {q: (0, P - 1), r: (q * B + B - 1, q * B + B), c: C}, "to": q + 1,
        "recv": {q: (1, P), r: (q * B - 1, q * B), c: C}, "source": q - 1,
        "send_props": sends, "recv_props": recvs, **changes,
    }  # fmt: skip
    down = f.create_exchange(bx[r, c], name="down", **given)
    up = f.create_exchange(
        bx[r, c], send={q: (1, P), r: (q * B, q * B + 1), c: C}, to=q - 1,
        recv={q: (0, P - 1), r: (q * B + B, q * B + B + 1), c: C}, source=q + 1, name="up",
        send_props=sends, recv_props=recvs,
    )  # fmt: skip
    halves = {"down.send": down.send, "down.recv": down.recv, "up.send": up.send, "up.recv": up.recv}
    for name in collapse.split():
        halves[name].collapse_many(c)
    todo = [halves[w.removeprefix("wait-")].wait() if w.startswith("wait-") else halves[w] for w in order.split()]
    f.order(bx, *todo, by, at=tm.root)
    return f


RIGHT = "down.send down.recv up.send up.recv"

ACCEPTED = {
    "one direction after the other": lambda: blur(RIGHT),
    "each element a message": lambda: blur(RIGHT, collapse=""),
    "nonblocking": lambda: blur("down.recv up.recv down.send up.send wait-down.recv wait-up.recv wait-down.send wait-up.send", NB, NB),
    "buffered": lambda: blur("down.send up.send down.recv up.recv", (tm.BUFFERED,)),
    "synchronous sends after receives are posted": lambda: blur("down.recv up.recv down.send up.send wait-down.recv wait-up.recv", (tm.SYNC,), NB),
}  # fmt: skip


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name: str) -> None:
    report = ACCEPTED[name]().check()
    assert report.ok, report
    assert "every message of down, up meets its receive, with the same values in the same order" in report.proven
    assert "no deadlock is possible on 4 ranks, whether or not MPI buffers messages" in report.proven


SEND, RECV = {q: (0, P - 1), r: (q * B + B - 1, q * B + B), c: C}, {q: (1, P), r: (q * B - 1, q * B), c: C}

#: What is wrong: the program, the kind, and words of the message.
REFUSED = {
    "sends of both directions first": (lambda: blur("down.send up.send down.recv up.recv"), "deadlock", "rank 2 waits in down.send for rank 3, which waits in up.send for rank 2: none of them continues, at C = 1"),
    "synchronous sends of both directions first": (lambda: blur("down.send up.send down.recv up.recv", (tm.SYNC,)), "deadlock", "rank 2 waits in down.send for rank 3, which waits in up.send for rank 2"),
    "receives of both directions first": (lambda: blur("down.recv up.recv down.send up.send", (tm.BUFFERED,)), "deadlock", "rank 0 waits in up.recv for rank 1, which waits in down.recv for rank 0"),
    "waits before the sends": (lambda: blur("down.recv up.recv wait-down.recv wait-up.recv down.send up.send", (), NB), "deadlock", "rank 0 waits in up_receive_wait for rank 1, which waits in down_receive_wait for rank 0"),
    "to the wrong rank": (lambda: blur(RIGHT, to=q + 2), "communication", "down.send sends bx[14, 0] on rank 2 to rank 4, which does not exist: there are 4 ranks, at C = 1"),
    "one collapsed, the other not": (lambda: blur(RIGHT, collapse="down.send up.send up.recv"), "communication", "down.send sends 2 elements in one message (bx[4, 0] is the first, on rank 0, to rank 1), but down.recv expects 2 messages of one for them, at C = 2"),
    "the other collapsed": (lambda: blur(RIGHT, collapse="down.recv up.send up.recv"), "communication", "down.recv expects 2 elements in one message (bx[4, 0] is the first, on rank 1, from rank 0), but down.send sends 2 messages of one for them, at C = 2"),
}  # fmt: skip

CHANGED: dict[str, tuple[dict[str, Any], str]] = {
    "a send without a receive": ({"recv": {**RECV, q: (1, P - 1)}}, "down.send sends bx[14, 0] from rank 2 to rank 3, but no down.recv there receives it from rank 2, at C = 1"),
    "a receive without a send": ({"send": {**SEND, q: (0, P - 2)}}, "down.recv receives bx[14, 0] on rank 3, but no down.send on rank 2 sends it to rank 3, at C = 1"),
    "a row too many is sent": ({"send": {**SEND, r: (q * B + B - 2, q * B + B)}}, "down.send sends bx[3, 0] from rank 0 to rank 1, but no down.recv there receives it"),
    "the wrong row is sent": ({"send": {**SEND, r: (q * B + B - 2, q * B + B - 1)}}, "down.send sends bx[3, 0] from rank 0 to rank 1, but no down.recv there receives it"),
    "received from the wrong rank": ({"source": q - 2}, "down.recv receives bx[4, 0] on rank 1 from rank -1, which does not exist"),
    "a column too many is received": ({"send": {**SEND, c: (1, C)}}, "down.recv receives bx[4, 0] on rank 1, but no down.send on rank 0 sends it to rank 1"),
    "elements backwards": ({"recv": {q: (1, P), r: (q * B - 1, q * B), k: (1 - C, 1), c: (-k, 1 - k)}}, "down.recv expects the other order: messages of one exchange are received as they are sent, at C = 2"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    make, kind, words = REFUSED[name]
    _refused(make(), kind, words)


@pytest.mark.parametrize("name", CHANGED)
def test_changed(name: str) -> None:
    changes, words = CHANGED[name]
    _refused(blur(RIGHT, collapse="", **changes), "communication", words)


def _refused(f: Any, kind: str, words: str) -> None:
    violations: tuple[Violation, ...] = f.check().violations
    said = [v for v in violations if words in v.message]
    assert said, violations
    assert said[0].kind == kind
    assert said[0].command
    assert not f.check().ok


def test_a_transposed_message() -> None:
    """Both rows of a block in one message: by rows at one end, by columns at the other."""
    f = tm.Function("edge", params=[C], assume="C >= 2")
    a = f.input("a", tm.float32, [2 * P, C])
    bx = f.computation("bx", {r: 2 * P, c: C}, a[r, c] + 1)
    f.outputs(bx)
    bx.split(r, 2, q, r1)
    bx.tag_distribute(q)
    down = f.create_exchange(
        bx[r, c], send={q: (0, P - 1), r: (2 * q, 2 * q + 2), c: C}, to=q + 1,
        recv={q: (1, P), c: C, r: (2 * q - 2, 2 * q)}, source=q - 1, name="down",
    )  # fmt: skip
    down.send.collapse_many(r, c)
    down.recv.collapse_many(c, r)
    said = [v for v in f.check().violations if "in one message" in v.message]
    assert said[0].kind == "communication"
    assert said[0].message == (
        "in one message from rank 0 to rank 1 down.send sends bx[0, 1] before bx[1, 0], and down.recv takes them in the "
        "other order, at C = 2"
    )


def test_a_ring_of_sends_is_refused_for_two_ranks_and_more_and_proven_when_even_ranks_begin() -> None:
    """Each rank gives its value to the next one round the ring, of four."""
    for parity in (False, True):
        f = tm.Function("ring", params=[])
        a = f.input("a", tm.int32, [P])
        s = f.computation("s", {q: P}, a[q] * 2)
        n = f.computation("n", {q: P}, s[(q + P - 1) % P] + 1)
        f.outputs(n)
        for array in (a, n):
            array.distribute_array([q], rank=q)
        s.tag_distribute(q)
        n.tag_distribute(q)
        steps: list[Any] = []
        for first in (0, 1) if parity else (None,):
            which = "" if first is None else f" and x mod 2 = {first}"
            text = f"{{ [q, x] : 0 <= q < {P} and 0 <= x < {P}{which} and"
            pair = f.create_exchange(
                s[x], send=f"{text} x = q }}", to=(q + 1) % P, recv=f"{text} x = (q + {P - 1}) mod {P} }}",
                source=(q + P - 1) % P, name=f"next{'' if first is None else first}",
            )  # fmt: skip
            steps += [pair.send, pair.recv]
        f.order(s, *steps, n, at=tm.root)
        report = f.check()
        if parity:
            assert report.ok, report
        else:
            (violation,) = report.violations
            assert violation.kind == "deadlock"
            assert violation.message == (
                "rank 0 waits in next.send for rank 1, which waits in next.send for rank 2, which waits in next.send for "
                "rank 3, which waits in next.send for rank 0: none of them continues, for every size"
            )
