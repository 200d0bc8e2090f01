"""Messages that match, and do not: worked out by hand, and at random beside sequences of plain Python."""

# ruff: noqa: E501  (a case a line is what makes the table readable)

from __future__ import annotations

import random
from typing import Any

import pytest

import tiramisu_py as tm
from tests.programs.ranks.exchanges import Layout, Link, P, T, Talk, build, found, layouts, q, t, x
from tiramisu_py.errors import Violation

i, j, p, k = tm.iters("i j p k")


def shifted(send: Any, to: Any, recv: Any, source: Any, order: str = "send recv", grid: Any = None) -> list[Violation]:
    """What is said of one exchange of ``a[x]`` between ranks q of P."""
    f = tm.Function("f", params=[P], assume="P >= 2")
    a = f.input("a", tm.int32, [2 * P])
    o = f.computation("o", {q: P}, a[q] + 1)
    f.outputs(o)
    o.tag_distribute(q)
    if grid is not None:
        f.grid(grid)
    down = f.create_exchange(
        a[x], send=send, to=to, recv=recv, source=source, send_props=[tm.NONBLOCK], name="down"
    )  # fmt: skip
    f.order(*(getattr(down, half) for half in order.split()), o, at=tm.root)
    return found(f)


SEND = {q: (0, P - 1), x: (q, q + 1)}
RECV = {q: (1, P), x: (q - 1, q)}


def test_a_shift_matches() -> None:
    assert shifted(SEND, q + 1, RECV, q - 1) == []
    assert shifted(SEND, q + 1, RECV, q - 1, "recv send") == []


def test_a_cyclic_shift_matches() -> None:
    """Cannon: every rank sends to (q - 1) mod 4."""
    f = tm.Function("f", params=[T], assume="T >= 1")
    a = f.input("a", tm.int32, [T, 4])
    o = f.computation("o", {q: 4}, a[0, q] + 1)
    f.outputs(o)
    o.tag_distribute(q)
    left = f.create_exchange(
        a[t, x], send={t: T, q: 4, x: (q, q + 1)}, to=(q + 3) % 4, recv={t: T, q: 4, x: ((q + 1) % 4, (q + 1) % 4 + 1)},
        source=(q + 1) % 4, send_props=[tm.NONBLOCK], recv_props=[tm.NONBLOCK], name="left",
    )  # fmt: skip
    f.order(left.recv, left.send, left.recv.wait({t: T}), left.send.wait({t: T}), at=t)
    assert found(f) == []


@pytest.mark.parametrize(("others", "kinds"), [("p", []), ("0", ["communication"])])
def test_one_to_all(others: str, kinds: list[str]) -> None:
    """Rank 0 sends a value to every other, in a loop over peers; not all to rank 1."""
    f = tm.Function("f", params=[P], assume="P >= 3")
    a = f.input("a", tm.int32, [1])
    o = f.computation("o", {q: P}, a[0] + q)
    f.outputs(o)
    o.tag_distribute(q)
    out = f.create_exchange(
        a[x], send={q: 1, p: (1, P), x: 1}, to=p if others == "p" else q + 1, recv={q: (1, P), x: 1},
        source=q - q, send_props=[tm.NONBLOCK], name="out",
    )  # fmt: skip
    f.order(out.send, out.recv, o, at=tm.root)
    assert [v.kind for v in found(f)][:1] == kinds


def test_a_grid_of_ranks() -> None:
    f = tm.Function("f", params=[P], assume="P >= 2")
    a = f.input("a", tm.int32, [P, 3])
    o = f.computation("o", {i: P, j: 3}, a[i, j] + 1)
    f.outputs(o)
    o.tag_distribute(i, j)
    x0, x1 = tm.iters("x0 x1")

    def exchange(name: str, to: Any) -> Any:
        return f.create_exchange(
            a[x0, x1], send={i: P, j: (0, 2), x0: (i, i + 1), x1: (j, j + 1)}, to=to,
            recv={i: P, j: (1, 3), x0: (i, i + 1), x1: (j - 1, j)}, source=(i, j - 1), name=name,
        )  # fmt: skip

    exchange("right", (i, j + 1))
    assert found(f) == []
    exchange("wrong", (j, i + 1))
    violations = found(f)
    assert {v.kind for v in violations} == {"communication"}
    assert violations[0].message.startswith(
        "wrong.send sends a[2, 0] on rank (2, 0) to rank (0, 3), which does not exist"
    )
    assert "wrong.send sends a[0, 1] from rank (0, 1) to rank (1, 1), but no wrong.recv there" in violations[1].message


def test_a_grid_that_is_declared_is_not_left() -> None:
    assert shifted({q: (0, 3), x: (q, q + 1)}, q + 1, {q: (1, 4), x: (q - 1, q)}, q - 1, grid=P) != []
    first, *_ = shifted({q: (0, P), x: (q, q + 1)}, q + 1, {q: (1, P + 1), x: (q - 1, q)}, q - 1, grid=P)
    assert first.kind == "communication"
    assert first.message.startswith("down.send sends a[1] on rank 1 to rank 2, which does not exist: there are 2 ranks")


def test_peers_have_as_many_coordinates_as_the_grid() -> None:
    f = tm.Function("f", params=[P], assume="P >= 2")
    a = f.input("a", tm.int32, [P, 3])
    o = f.computation("o", {i: P, j: 3}, a[i, j] + 1)
    f.outputs(o)
    o.tag_distribute(i, j)
    try:
        f.create_exchange(a[x, 0], send={i: (0, P - 1), j: 1, x: (i, i + 1)}, to=i + 1,
                      recv={i: (1, P), j: 1, x: (i - 1, i)}, source=i - 1, name="down")  # fmt: skip
    except tm.CommandError as error:
        assert "coordinate" in str(error)
        return
    violations = found(f)
    assert violations
    assert all("names its peer by 1 coordinate, and the process grid has 2 axes" in v.message for v in violations)


REFUSED = {
    "no receive at all ranks": (SEND, q + 1, {q: (2, P), x: (q - 1, q)}, q - 1, {"P": 2}, "down.send sends a[0] from rank 0 to rank 1, but no down.recv there receives it from rank 0, at P = 2"),
    "no send for a receive": ({q: (1, P - 1), x: (q, q + 1)}, q + 1, RECV, q - 1, {"P": 2}, "down.recv receives a[0] on rank 1, but no down.send on rank 0 sends it to rank 1, at P = 2"),
    "another value": (SEND, q + 1, {q: (1, P), x: (q, q + 1)}, q - 1, {"P": 2}, "down.send sends a[0] from rank 0 to rank 1, but no down.recv there receives it"),
    "another peer": (SEND, q + 1, {q: (1, P - 1), x: (q - 1, q)}, q + 1, {"P": 2}, "down.send sends a[0] from rank 0 to rank 1, but no down.recv there"),
    "rank -1": ({q: P, x: (q, q + 1)}, q - 1, {q: (0, P - 1), x: (q + 1, q + 2)}, q + 1, {"P": 2}, "down.send sends a[0] on rank 0 to rank -1, which does not exist: there are 2 ranks, at P = 2"),
    "beyond the last rank": (SEND, q + 1, {q: P, x: (q, q + 1)}, q + 1, {"P": 2}, "down.recv receives a[1] on rank 1 from rank 2, which does not exist: there are 2 ranks"),
    "two of one": (SEND, q + 1, {q: (1, P), k: 2, x: (q - 1, q)}, q - 1, {"P": 2}, "down.send sends a[0] once from rank 0 to rank 1, and down.recv receives it twice, at P = 2"),
    "crossed": ({q: (0, P - 1), x: (q, q + 2)}, q + 1, {q: (1, P), k: (-q, 2 - q), x: (-k, 1 - k)}, q - 1, {"P": 2}, "down.send sends a[0] before a[1] from rank 0 to rank 1, and down.recv expects the other order: messages of one exchange are received as they are sent, at P = 2"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    send, to, recv, source, params, words = REFUSED[name]
    violations = shifted(send, to, recv, source)
    assert violations
    assert {v.kind for v in violations} == {"communication"}
    assert any(words in v.message for v in violations), violations
    assert violations[0].witness.params == params


def test_computations_run_on_ranks_that_exist() -> None:
    f = tm.Function("f", params=[P], assume="P >= 2")
    a = f.input("a", tm.int32, [P])
    o = f.computation("o", {q: P}, a[q] + 1)
    f.outputs(o)
    o.shift(q, -1)
    o.tag_distribute(q)
    (violation,) = found(f)
    assert violation.kind == "bounds"
    assert violation.message.startswith("o[0] runs on rank -1, which does not exist: there")


def test_sizes_of_messages() -> None:
    whole, parts = Layout(("i", "j"), 1, (0, 2), (0, 3)), Layout(("i", "j"), 0, (0, 2), (0, 3))
    (violation,) = found(layouts(whole, parts))
    assert violation.message == (
        "down.send sends 3 elements in one message (a[0, 0] is the first, on rank 0, to rank 1), but down.recv expects "
        "3 messages of one for them, at P = 2, T = 1"
    )
    (violation,) = found(layouts(parts, whole))
    assert violation.message.startswith("down.recv expects 3 elements in one message (a[0, 0] is the first, on rank 1")
    assert violation.repair == "collapse the same loops of down.recv and down.send: collapse_many"
    (violation,) = found(layouts(Layout(("i", "j"), 2, (0, 2), (0, 3)), whole))
    assert "sends 6 elements in one message" in violation.message
    assert "down.recv expects 2 messages for them" in violation.message


def test_elements_of_a_message_are_transposed() -> None:
    rows, columns = Layout(("i", "j"), 2, (0, 2), (0, 2)), Layout(("j", "i"), 2, (0, 2), (0, 2))
    (violation,) = found(layouts(rows, columns))
    assert violation.kind == "communication"
    assert violation.message == (
        "in one message from rank 0 to rank 1 down.send sends a[0, 1] before a[1, 0], and down.recv takes them in the "
        "other order, at P = 2, T = 1"
    )
    assert violation.repair == "order the loops of down.send and down.recv alike"


def random_layout(rng: random.Random) -> Layout:
    loops = rng.choice([("i", "j"), ("j", "i"), ("i", "j"), ("-i", "j"), ("i", "-j")])
    rows, columns = rng.choice([(0, 2), (0, 3), (0, 1)]), rng.choice([(0, 2), (0, 2), (0, 1)])
    return Layout(loops, rng.randint(0, 2), rows, columns, rng.choice([1, 1, 1, 2]))


def test_random_layouts() -> None:
    """The verdict is that of the two sequences of messages; it is never unknown."""
    verdicts = set()
    for seed in range(100):
        rng = random.Random(seed)
        send = random_layout(rng)
        recv = random_layout(rng)
        if rng.random() < 0.5:
            loops, bulk = rng.choice([send.loops, ("i", "j"), ("j", "i")]), rng.choice([send.bulk, send.bulk, 1])
            recv = Layout(loops, bulk, send.rows, send.columns, send.times)
        same = send.messages() == recv.messages()
        kinds = {v.kind for v in found(layouts(send, recv))}
        assert kinds == (set() if same else {"communication"}), (send, recv)
        verdicts.add(same)
    assert verdicts == {True, False}


def test_a_deadlock_is_not_looked_for_before_messages_match() -> None:
    s = build(
        Talk((Link("down", 1), Link("up", -1)), (("down", "send"), ("up", "send"), ("down", "recv"), ("up", "recv")))
    )
    assert [v.kind for v in found(s.f)] == ["deadlock"]
    s.f.create_exchange(
        s.a[t, x], send={t: T, q: (0, P - 1), x: (q, q + 1)}, to=q + 1,
        recv={t: T, q: (2, P), x: (q - 1, q)}, source=q - 1, name="third",
    )  # fmt: skip
    assert {v.kind for v in found(s.f)} == {"communication"}
