"""Deadlock: programs of exchanges whose verdict is known, and random ones beside a run that puts nothing aside."""

# ruff: noqa: E501  (a case a line is what makes the table readable)

from __future__ import annotations

import random
import re
from typing import Any

import islpy as isl
import pytest

import tiramisu_py as tm
from tests.effort import calls
from tests.oracle.generators.rank_random import random_rank_script
from tests.programs.ranks.exchanges import Link, P, Step, T, Talk, build, deadlocks, found, q, t, x
from tiramisu_py.proof.messages import deadlock, wait_graph

NB = (tm.NONBLOCK,)
SYNC = (tm.SYNC,)
BUFFERED = (tm.BUFFERED,)


def steps(text: str) -> tuple[Step, ...]:
    """``"a.send b.recv wait-a.recv"`` as steps."""
    found = []
    for word in text.split():
        name, kind = word.removeprefix("wait-").split(".")
        found.append((name, f"wait {kind}" if word.startswith("wait-") else kind))
    return tuple(found)


def halo(send: tuple[object, ...] = (), recv: tuple[object, ...] = ()) -> tuple[Link, ...]:
    return Link("down", 1, send=send, recv=recv), Link("up", -1, send=send, recv=recv)


def ring(ranks: int, order: str, send: tuple[object, ...] = (), recv: tuple[object, ...] = ()) -> Talk:
    return Talk((Link("next", 1, ring=True, send=send, recv=recv),), steps(order), ranks)


FREE = {
    "a shift along a line": Talk((Link("down", 1),), steps("down.send down.recv")),
    "a shift along a line, receives first": Talk((Link("down", 1),), steps("down.recv down.send")),
    "a shift along a line, once": Talk((Link("down", 1, send=SYNC),), steps("down.send down.recv"), loop=False),
    "to the second neighbour": Talk((Link("down", 2),), steps("down.send down.recv")),
    "down, then up": Talk(halo(), steps("down.send down.recv up.send up.recv")),
    "all nonblocking": Talk(
        halo(NB, NB),
        steps("down.recv up.recv down.send up.send wait-down.recv wait-up.recv wait-down.send wait-up.send"),
    ),
    "nonblocking receives, synchronous sends": Talk(
        halo(SYNC, NB), steps("down.recv up.recv down.send up.send wait-down.recv wait-up.recv")
    ),
    "nonblocking sends only": Talk(halo(NB), steps("down.send up.send down.recv up.recv wait-down.send wait-up.send")),
    "buffered sends": Talk(halo(BUFFERED), steps("down.send up.send down.recv up.recv")),
    "a ring of buffered sends": ring(3, "next.send next.recv", BUFFERED),
    "a ring of nonblocking sends": ring(4, "next.send next.recv wait-next.send", NB),
    "a ring whose receives are posted first": ring(4, "next.recv next.send wait-next.recv", (), NB),
    "even ranks first": Talk(
        (Link("even", 1, parity=0), Link("odd", 1, parity=1)), steps("even.send even.recv odd.send odd.recv")
    ),
    "a ring, even ranks first": Talk(
        (Link("even", 1, ring=True, parity=0), Link("odd", 1, ring=True, parity=1)),
        steps("even.send even.recv odd.send odd.recv"),
        4,
    ),
}

STUCK = {
    "a ring of standard sends": (ring(3, "next.send next.recv"), {"P": 1, "T": 1}, "rank 0 waits in next.send for rank 1, which waits in next.send for rank 2, which waits in next.send for rank 0:"),
    "a ring of synchronous sends": (ring(2, "next.send next.recv", SYNC), {"P": 1, "T": 1}, "rank 0 waits in next.send for rank 1, which waits in next.send for rank 0:"),
    "a ring of receives first": (ring(2, "next.recv next.send", BUFFERED), {"P": 1, "T": 1}, "rank 0 waits in next.recv for rank 1, which waits in next.recv for rank 0:"),
    "to itself": (ring(1, "next.send next.recv"), {"P": 1, "T": 1}, "rank 0 waits in next.send for rank 0 itself, and does not continue"),
    "sends of both neighbours first": (Talk(halo(), steps("down.send up.send down.recv up.recv")), {"P": 2, "T": 1}, "rank 0 waits in down.send for rank 1, which waits in up.send for rank 0: none of them continues, at P = 2, T = 1"),
    "receives of both neighbours first": (Talk(halo(), steps("down.recv up.recv down.send up.send")), {"P": 2, "T": 1}, "waits in up.recv for rank 1, which waits in down.recv for rank 0"),
    "only from three ranks on": (Talk((Link("far", 2), Link("back", -2)), steps("far.send back.send far.recv back.recv")), {"P": 3, "T": 1}, "rank 0 waits in far.send for rank 2, which waits in back.send for rank 0"),
    "a wait before the sends": (Talk(halo((), NB), steps("down.recv up.recv wait-down.recv wait-up.recv down.send up.send")), {"P": 2, "T": 1}, "rank 0 waits in up_receive_wait for rank 1, which waits in down_receive_wait for rank 0"),
    "a wait for a send before the receives": (Talk(halo(NB), steps("down.send up.send wait-down.send wait-up.send down.recv up.recv")), {"P": 2, "T": 1}, "rank 0 waits in down_send_wait for rank 1, which waits in up_send_wait for rank 0"),
    "two exchanges, crossed": (Talk((Link("one", 1, parity=0), Link("two", -1, parity=1)), steps("two.recv one.send one.recv two.send")), {"P": 2, "T": 1}, "rank 0 waits in two.recv for rank 1, which waits in one.recv for rank 0"),
    "a receive before the send that lets it come": (Talk((Link("down", 1, recv=NB), Link("up", -1)), steps("down.recv up.recv down.send wait-down.recv up.send")), {"P": 2, "T": 1}, "rank 0 waits in up.recv for rank 1, which waits in"),
}  # fmt: skip


@pytest.mark.parametrize("name", FREE)
def test_free_of_deadlock(name: str) -> None:
    talk = FREE[name]
    assert not any(deadlocks(talk, p, n) for p in ([talk.ranks] if talk.ranks else range(1, 7)) for n in (1, 3))
    assert found(build(talk).f) == []


@pytest.mark.parametrize("name", STUCK)
def test_deadlock(name: str) -> None:
    talk, params, words = STUCK[name]
    (violation,) = found(build(talk).f)
    assert violation.kind == "deadlock"
    assert words in violation.message
    assert violation.witness.params == params
    assert deadlocks(talk, talk.ranks or params["P"], params["T"])
    if talk.ranks is None:
        assert not any(deadlocks(talk, p, n) for p in range(1, 6) for n in range(1, 6) if p + n < sum(params.values()))


def test_the_order_is_blamed() -> None:
    s = build(Talk(halo(), steps("down.send down.recv up.send up.recv")))
    assert not found(s.f)
    s = build(Talk(halo(), steps("down.send up.send down.recv up.recv")))
    (violation,) = (v for v in s.f.check().violations if v.kind == "deadlock")
    assert violation.command == "talk.order(down.send, up.send, down.recv, up.recv, at=t)"


def test_any_number_of_ranks_is_proven_without_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("a run at given sizes")

    monkeypatch.setattr(deadlock, "_search", lambda *_: (None, False))
    monkeypatch.setattr(deadlock, "_not_known", never)
    for name, talk in FREE.items():
        if talk.ranks is None:
            assert found(build(talk).f) == [], name


def test_what_is_not_known_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlock.Needs, "has_ranking", lambda _: False)
    (violation,) = found(build(FREE["down, then up"]).f)
    assert violation.kind == "unknown"
    assert "no deadlock of down, up was found at small sizes" in violation.message
    assert "use constants in place of P, T" in violation.repair


def random_talk(rng: random.Random) -> Talk:
    ranks = rng.choice([None, None, 2, 3, 4])
    links: list[Link] = []
    order: list[Step] = []
    for k in range(rng.randint(1, 3)):
        send = rng.choice([(), (), SYNC, BUFFERED, NB, NB, (tm.NONBLOCK, tm.SYNC)])
        recv = rng.choice([(), NB])
        around = ranks is not None and rng.random() < 0.5
        links.append(Link(f"e{k}", rng.choice([1, 1, -1, -1, 2]), around, rng.choice([None, None, 0, 1]), send, recv))
        for kind, props in (("send", send), ("recv", recv)):
            mine = [(f"e{k}", kind), *([(f"e{k}", f"wait {kind}")] if tm.NONBLOCK in props else [])]
            spots = sorted(rng.randint(0, len(order)) for _ in mine)
            for later, (spot, step) in enumerate(zip(spots, mine, strict=True)):
                order.insert(spot + later, step)
    return Talk(tuple(links), tuple(order), ranks, rng.random() < 0.6)


@pytest.mark.parametrize("seed", range(21))
def test_random_programs(seed: int) -> None:
    """Ten programs each: the verdict is that of runs at small sizes; of 210, none is unknown."""
    for k in range(10):
        talk = random_talk(random.Random(10 * seed + k))
        violations = found(build(talk).f)
        sizes = [talk.ranks] if talk.ranks is not None else range(1, 7)
        stuck = {(p, n) for p in sizes for n in range(1, 4) if deadlocks(talk, p, n)}
        if not violations:
            assert not stuck, talk
            continue
        (violation,) = violations
        assert violation.kind == "deadlock", (violation, talk)
        ranks, turns = talk.ranks or violation.witness.params["P"], violation.witness.params["T"]
        assert (ranks, turns) in stuck, (violation, talk)
        assert not any(p + n < ranks + turns for p, n in stuck), (violation, talk)


@pytest.mark.parametrize("ranks", [P, 5])
def test_an_order_that_depends_on_parity(ranks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Odd ranks receive before they send, even ranks after: no ranking is affine in the rank."""
    f = tm.Function("parity", params=[P], assume="P >= 1")
    a = f.input("a", tm.int32, [P if ranks is P else 5])
    o = f.computation("o", {q: ranks}, a[q] + 1)
    f.outputs(o)
    o.tag_distribute(q)
    (k,) = tm.iters("k")
    down = f.create_exchange(
        a[x], send=f"[P] -> {{ [q, k, x] : 0 <= q < {ranks} - 1 and x = q and k = 0 }}", to=q + 1,
        recv=f"[P] -> {{ [q, k, x] : 1 <= q < {ranks} and x = q - 1 and k = 1 - 2 * (q mod 2) }}", source=q - 1,
        name="down",
    )  # fmt: skip
    f.order(down.send, down.recv, at=k)
    assert found(f) == []
    if ranks is P:
        whole = deadlock.Needs._partitions
        monkeypatch.setattr(deadlock.Needs, "_partitions", lambda self: [next(whole(self))])
        assert [v.kind for v in found(f)] == ["unknown"]


def test_a_wait_in_the_next_iteration() -> None:
    """What is sent in one iteration is waited for in the next."""
    s = build(Talk((Link("down", 1, send=NB),), steps("down.send down.recv")))
    wait = s.down.send.wait({t: T})
    wait.shift(t, 1)
    s.f.order(wait, s.down.send, at=t)
    assert found(s.f) == []
    s = build(Talk((Link("down", 1, send=NB), Link("up", -1, send=NB)), steps("down.send up.send down.recv up.recv")))
    for half in (s.down.send, s.up.send):
        wait = half.wait({t: T})
        wait.shift(t, 1)
        s.f.order(wait, s.down.send, at=t)
    assert found(s.f) == []


def heat(order: str, props: tuple[Any, ...]) -> Any:
    """Halos in four directions on a grid of X x Y ranks, in each of T iterations."""
    X, Y = tm.params("X Y")
    qi, qj, i, j = tm.iters("qi qj i j")
    f = tm.Function("heat", params=[X, Y, T], assume="X >= 1 and Y >= 1 and T >= 1")
    a = f.input("a", tm.float32, [T, 8 * X, 8 * Y])
    o = f.computation("o", {qi: X, qj: Y}, a[0, qi, qj])
    f.outputs(o)
    o.tag_distribute(qi, qj)
    halves: dict[str, Any] = {}
    for name, (di, dj) in {"down": (1, 0), "up": (-1, 0), "right": (0, 1), "left": (0, -1)}.items():
        edge = f"i = 8 * si + {7 if di > 0 else 0}" if di else f"j = 8 * sj + {7 if dj > 0 else 0}"
        along = "8 * sj <= j < 8 * sj + 8" if di else "8 * si <= i < 8 * si + 8"
        line = j if di else i

        def domain(si: str, sj: str, edge: str = edge, along: str = along, di: int = di, dj: int = dj) -> str:
            text = f"0 <= t < T and 0 <= si < X and 0 <= sj < Y and 0 <= si + {di} < X and 0 <= sj + {dj} < Y"
            text = f"{text} and {edge} and {along}".replace("si", f"({si})").replace("sj", f"({sj})")
            return f"[X, Y, T] -> {{ [t, qi, qj, {'i, j' if di else 'j, i'}] : {text} }}"

        pair = f.create_exchange(
            a[t, i, j], send=domain("qi", "qj"), to=(qi + di, qj + dj), recv=domain(f"qi - {di}", f"qj - {dj}"),
            source=(qi - di, qj - dj), name=name, send_props=list(props), recv_props=list(props),
        )  # fmt: skip
        for kind, half in (("send", pair.send), ("recv", pair.recv)):
            half.collapse_many(line)
            halves[f"{name}.{kind}"] = half
    steps = [halves[w.removeprefix("wait-")].wait({t: T}) if "wait" in w else halves[w] for w in order.split()]
    f.order(*steps, at=t)
    return f


SENDS, RECVS = "down.send up.send right.send left.send", "down.recv up.recv right.recv left.recv"


@pytest.mark.parametrize(
    ("order", "props", "kinds"),
    [
        (f"{RECVS} {SENDS} wait-{RECVS.replace(' ', ' wait-')} wait-{SENDS.replace(' ', ' wait-')}", NB, []),
        ("down.send down.recv up.send up.recv right.send right.recv left.send left.recv", (), []),
        (f"{SENDS} {RECVS}", (), ["deadlock"]),
    ],
)
def test_a_grid_of_ranks_is_decided_with_little_work(order: str, props: tuple[Any, ...], kinds: list[str]) -> None:
    f = heat(order, props)
    answers: list[Any] = []
    assert calls(lambda: answers.append(found(f))) < 90_000  # 8,200; 40,100; 8,300
    (violations,) = answers
    assert [v.kind for v in violations] == kinds
    if kinds:
        assert "rank (0, 0) waits in right.send for rank (0, 1)" in violations[0].message


def test_isl_is_not_asked_for_a_schedule_that_it_works_on_for_hours() -> None:
    assert not random_rank_script(5217003).function.check().ok  # 1760 relations: it ends


def reached(edges: isl.UnionMap) -> set[tuple[str, str]]:
    """All pairs of points that a path of edges joins."""
    found: set[tuple[str, str]] = set()
    edges.wrap().foreach_point(lambda p: found.add(ends_of(str(p))))
    while True:
        more = {(a, c) for a, b in found for other, c in found if other == b} - found
        if not more:
            return found
        found |= more


def ends_of(point: str) -> tuple[str, str]:
    first, second = re.findall(r"\w+\[\d+\]", point)
    return first, second


@pytest.mark.parametrize("seed", range(12))
def test_relations_that_others_imply_are_left_out(seed: int) -> None:
    """What is left has the same paths, in orders and in cycles."""
    rng = random.Random(seed)
    nodes = [f"{name}[{number}]" for name in "abcd" for number in range(3)]
    pairs = [(a, b) for a in nodes for b in nodes if a != b and (a < b or seed % 3 == 0)]
    chosen = rng.sample(pairs, min(len(pairs), rng.randrange(10, 60)))
    edges = isl.UnionMap(f"{{ {'; '.join(f'{a} -> {b}' for a, b in chosen)} }}")
    left = wait_graph._without_implied(edges)
    assert left.is_subset(edges)
    assert reached(left) == reached(edges)


def test_what_an_order_implies_is_gone() -> None:
    edges = isl.UnionMap(
        "{ a[i] -> b[i]; b[i] -> c[i]; a[i] -> c[i]; c[i] -> d[i] : i > 0; b[i] -> d[i]; a[i] -> d[i] : i > 0 }"
    )
    wanted = isl.UnionMap("{ a[i] -> b[i]; b[i] -> c[i]; c[i] -> d[i] : i > 0; b[i] -> d[i] }")
    assert wait_graph._without_implied(edges).is_equal(wanted)
