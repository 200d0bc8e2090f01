"""Collective exchanges: accepted where they are one call of all ranks, and refused, with the reason, where not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tiramisu_py as tm
from tests.programs.ranks.collectives import (
    all_to_all,
    broadcasts,
    c,
    element_by_element,
    exchange,
    gathered,
    k,
    p,
    panels,
    q,
    r,
    steps,
    transposed,
)
from tiramisu_py.errors import CommandError


def one_rank() -> tm.Function:
    f, b, _ = transposed(1)
    all_to_all(f, b, 1)
    return f


def all_steps_at_once() -> tm.Function:
    f, b, _ = panels()
    broadcasts(f, b)
    return f


@pytest.mark.parametrize("story", [exchange, element_by_element, one_rank, steps, all_steps_at_once])
def test_accepted(story: Callable[[], tm.Function]) -> None:
    report = story().check()
    assert report.ok, report


def between() -> tm.Function:
    f, b, d = transposed()
    e = f.computation("e", {r: 6}, 1.0)
    f.outputs(d, e, replace=True)
    x = all_to_all(f, b)
    f.order(x.send, e, x.recv, d, at=tm.root)
    return f


def the_other_way() -> tm.Function:
    f, b, d = transposed()
    x = all_to_all(f, b)
    f.order(b, x.recv, x.send, d, at=tm.root)
    return f


def in_place() -> tm.Function:
    f, b, _ = transposed()
    mine, other = (q * 2, q * 2 + 2), (p * 2, p * 2 + 2)
    all_to_all(f, b, send={q: 3, p: 3, r: mine, c: other}, recv={q: 3, p: 3, r: other, c: mine})
    return f


def onto_each_other() -> tm.Function:
    f, b, _ = gathered()
    b.store_in(tm.Buffer("folded", [2], tm.float32), [(r + 2) // 4])
    f.create_exchange(
        b[r], send={q: (1, 3), r: (q * 2, q * 2 + 2)}, to=0,
        recv={q: 1, p: (1, 3), r: (p * 2, p * 2 + 2)}, source=p, collective=True, name="x",
    )  # fmt: skip
    return f


def one_tile_short() -> tm.Function:
    f, b, _ = transposed()
    mine, other = (q * 2, q * 2 + 2), (p * 2, p * 2 + 2)
    all_to_all(f, b, send=({q: (0, 2), p: 3, r: mine, c: other}, p != q))
    return f


def packed_on_one_side() -> tm.Function:
    f, b, _ = transposed()
    all_to_all(f, b).send.collapse_many(r, c)
    return f


def a_step_late() -> tm.Function:
    f, b, _ = panels()
    x = f.create_exchange(
        b[k, r], send=({k: 3, q: 3, p: 3, r: 4}, (q == k) & (p != k)), to=p,
        recv=({k: 3, q: 3, r: 4}, q != k), source=k, collective=True, name="x",
    )  # fmt: skip
    x.recv.shift(k, 1)
    f.order(x.send, x.recv, at=k)
    return f


def around_a_message() -> tm.Function:
    """Rank 0 sends, and waits until rank 1 receives, which it does only after the call."""
    f, b, d = transposed()
    x = all_to_all(f, b)
    y = f.create_exchange(b[0, 0], send={q: 1}, to=1, recv={q: (1, 2)}, source=0, send_props=[tm.SYNC], name="y")
    f.order(b, y.send, x.send, x.recv, y.recv, d, at=tm.root)
    return f


REFUSED = {
    between: ("order", "e comes between them"),
    the_other_way: ("order", "comes before x.send"),
    in_place: ("race", "where x.send takes"),
    onto_each_other: ("race", "stores another value in the same call"),
    one_tile_short: ("communication", "no x.send on rank 2 sends it"),
    packed_on_one_side: ("communication", "collapse the same loops"),
    a_step_late: ("communication", "in one call, and x.recv receives it there in another"),
    around_a_message: ("deadlock", "waits in x for rank 0"),
}


@pytest.mark.parametrize("story", REFUSED, ids=lambda story: story.__name__)
def test_refused(story: Callable[[], tm.Function]) -> None:
    kind, words = REFUSED[story]
    report = story().check()
    found = [v for v in report.violations if v.kind == kind]
    assert any(words in f"{v.message} {v.repair}" for v in found), report


@pytest.mark.parametrize(
    "props, words",
    [
        ({"send_props": [tm.NONBLOCK]}, "go on when it is complete"),
        ({"recv_props": [tm.NONBLOCK]}, "go on when it is complete"),
        ({"send_props": [tm.SYNC]}, "synchronous"),
        ({"send_props": [tm.BUFFERED]}, "buffered"),
        ({"send": None}, "send="),
    ],
)
def test_refused_at_once(props: dict[str, object], words: str) -> None:
    f, b, _ = transposed()
    with pytest.raises(CommandError, match=words):
        all_to_all(f, b, **props)


def test_overlap_and_calls_are_refused_together() -> None:
    f, _, _ = transposed()
    with pytest.raises(CommandError, match="choose one"):
        f.derive_transfers(overlap=True, collectives=True)
