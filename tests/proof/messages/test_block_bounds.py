"""Blocks with bounds that are known at run time: what is proven and what is refused, beside simulated ranks."""

from __future__ import annotations

import random
from typing import Any

import pytest

import tiramisu_py as tm
from tests.oracle.judges.block_ranks import Exchange, Half, Order, splits, verdict
from tiramisu_py.program.ranks.spread import spread

R, lo, hi = tm.params("R lo hi")
(r,) = tm.iters("r")

DOWN = Exchange("down", Half("hi - 1", "hi", "hi < R", 1), Half("lo - 1", "lo", "lo > 0", -1))
UP = Exchange("up", Half("lo", "lo + 1", "lo > 0", -1), Half("hi", "hi + 1", "hi < R", 1))
WIDE_DOWN = Exchange("down", Half("hi - 2", "hi", "hi < R", 1), Half("lo - 2", "lo", "lo > 0", -1))
WIDE_UP = Exchange("up", Half("lo", "lo + 2", "lo > 0", -1), Half("hi", "hi + 2", "hi < R", 1))
PHASES: Order = (("send", "down"), ("recv", "down"), ("send", "up"), ("recv", "up"))
NEAR, FAR = (-1, 0, 1), (-2, 0, 2)


def stencil(
    exchanges: tuple[Exchange, ...] = (), order: Order = (), reach: tuple[int, ...] = NEAR, **properties: Any
) -> Any:
    """``by[r]`` reads ``bx[r + d]`` for each d, in blocks from lo up to hi, after exchanges between neighbours."""
    f, made = built(exchanges, reach, **properties)
    if order:
        f.order(f["bx"], *(getattr(made[name], does) for does, name in order), f["by"], at=tm.root)
    return f


def built(exchanges: tuple[Exchange, ...], reach: tuple[int, ...], **properties: Any) -> tuple[Any, dict[str, Any]]:
    """The stencil and its exchanges, not yet in order."""
    f = tm.Function("stencil", params=[R, lo, hi])
    image = f.input("image", tm.float32, [R])
    bx = f.computation("bx", {r: R}, 2 * image[r])
    total = bx[r + reach[0]]
    for d in reach[1:]:
        total = total + bx[r + d]
    by = f.computation("by", {r: (-min(reach), R - max(reach))}, total, shape=[R])
    f.outputs(by)
    f.blocks(R, lo, hi)
    for array in (image, by):
        array.distribute_array([r], rank=r, bounds=(lo, hi))
    for computation in (bx, by):
        computation.tag_distribute(r, bounds=(lo, hi))
    return f, {e.name: exchange(f, bx, e, **properties) for e in exchanges}


def exchange(f: Any, bx: Any, e: Exchange, **properties: Any) -> Any:
    """The exchange as a user writes it."""

    def rows(half: Half) -> Any:
        names = {"lo": lo, "hi": hi, "R": R}
        return {r: (eval(half.low, {}, names), eval(half.high, {}, names))}, eval(half.where, {}, names)

    return f.create_exchange(
        bx[r], send=rows(e.send), to=tm.rank + e.send.away, recv=rows(e.receive), source=tm.rank + e.receive.away,
        name=e.name, **properties,
    )  # fmt: skip


def simulated(f: Any, exchanges: tuple[Exchange, ...], order: Order, reach: tuple[int, ...]) -> set[str]:
    """What goes wrong with any split of up to seven rows over up to four ranks."""
    blocks = spread(f.program).ranks.blocks
    assert blocks is not None
    found = set()
    for ranks in range(1, 5):
        for extent in range(1, max(8, 2 * blocks.least + 3)):
            found |= {verdict(exchanges, order, reach, split) for split in splits(extent, ranks, blocks.least)}
    return found - {""}


@pytest.mark.parametrize(
    ("exchanges", "reach"), [((DOWN, UP), NEAR), ((WIDE_DOWN, WIDE_UP), FAR), ((WIDE_DOWN, WIDE_UP), NEAR)]
)
def test_a_stencil_with_halos_is_proven_for_every_split(exchanges: Any, reach: Any) -> None:
    f = stencil(exchanges, PHASES, reach)
    assert f.check().ok, f.check()
    assert not simulated(f, exchanges, PHASES, reach)


def test_without_messages_the_row_of_the_neighbour_is_missing() -> None:
    (found,) = stencil().check().violations
    assert found.kind == "communication"
    assert found.witness.reader == ("by", (1,))
    assert found.witness.params == {"R": 3, "lo": 0, "hi": 2}
    assert found.command.startswith("bx.tag_distribute")


REFUSED = {
    "halo one row short": ((Exchange("down", DOWN.send, DOWN.receive), ), FAR, "communication"),
    "no message upwards": ((DOWN,), NEAR, "communication"),
    "wrong peer": ((Exchange("down", Half("hi - 1", "hi", "hi < R", 2), DOWN.receive), UP), NEAR, "communication"),
    "wrong side": ((Exchange("down", Half("hi - 1", "hi", "lo > 0", -1), DOWN.receive), UP), NEAR, "communication"),
    "another row": ((Exchange("down", Half("lo", "lo + 1", "hi < R", 1), DOWN.receive), UP), NEAR, "communication"),
    "no guard at the end": ((Exchange("down", Half("hi - 1", "hi", "hi <= R", 1), DOWN.receive), UP), NEAR,
                            "communication"),
    "no guard at the start": ((Exchange("down", DOWN.send, Half("lo - 1", "lo", "lo >= 0", -1)), UP), NEAR,
                              "communication"),
    "nobody receives": ((Exchange("down", DOWN.send, Half("lo - 1", "lo", "lo > 1", -1)), UP), NEAR, "communication"),
    "one row more than is received": ((Exchange("down", WIDE_DOWN.send, DOWN.receive), UP), NEAR, "communication"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_goes_wrong_with_some_split_is_refused(name: str) -> None:
    exchanges, reach, kind = REFUSED[name]
    order = tuple(one for one in PHASES if one[1] in {e.name for e in exchanges})
    f = stencil(exchanges, order, reach)
    assert kind in {violation.kind for violation in f.check().violations}, f.check()
    assert simulated(f, exchanges, order, reach)


def test_both_neighbours_that_send_first_are_a_deadlock() -> None:
    order: Order = (("send", "down"), ("send", "up"), ("recv", "down"), ("recv", "up"))
    f = stencil((DOWN, UP), order)
    assert [violation.kind for violation in f.check().violations] == ["deadlock"]
    assert simulated(f, (DOWN, UP), order, NEAR) == {"deadlock"}


@pytest.mark.parametrize("reach", [NEAR, FAR, (-1, 0), (0, 3), (0, 0)])
def test_what_is_derived_is_proven(reach: tuple[int, ...]) -> None:
    f, _ = built((), reach)
    f.derive_transfers()
    assert f.check().ok, f.check()
    exchanges = {s.link.message.exchange for s in f.program.statements.values() if s.link.message is not None}
    expected = {"bx_to_next"} if min(reach) < 0 else set[str]()
    assert exchanges == expected | ({"bx_to_previous"} if max(reach) > 0 else set())


def test_what_one_rank_sends_is_counted() -> None:
    f, _ = built((), FAR)
    f.derive_transfers()
    sent = {
        (low, high): f.cost("communication", R=12, lo=low, hi=high).elements for low, high in ((0, 4), (4, 8), (8, 12))
    }
    assert sent == {(0, 4): 2, (4, 8): 4, (8, 12): 2}
    assert f.cost("communication", R=12, lo=0, hi=12).elements == 0


@pytest.mark.parametrize("waits", [True, False])
def test_messages_that_do_not_block_need_their_waits_alone(waits: bool) -> None:
    both = {"send_props": [tm.NONBLOCK], "recv_props": [tm.NONBLOCK]}
    f, made = built((DOWN, UP), NEAR, **both)
    halves = [made["down"].send, made["up"].send, made["down"].recv, made["up"].recv]
    f.order(f["bx"], *halves, *([half.wait() for half in halves] if waits else []), f["by"], at=tm.root)
    assert {violation.kind for violation in f.check().violations} == (set() if waits else {"race"})


def test_a_time_loop_exchanges_rows_in_every_step() -> None:
    (T,), (t,) = tm.params("T"), tm.iters("t")
    f = tm.Function("heat", params=[R, T, lo, hi], assume="T >= 1")
    start = f.input("start", tm.float32, [R])
    edge = (t == 0) | (r == 0) | (r == R - 1)
    heat = f.computation(
        "heat", {t: T + 1, r: R}, lambda h: tm.select(edge, start[r], h[t - 1, r - 1] + h[t - 1, r + 1])
    )
    f.outputs(heat[T, r])
    result = f["heat_out"]
    heat.store_in(tm.Buffer("two", [2, R], tm.float32), [t % 2, r])
    f.blocks(R, lo, hi)
    for array in (start, result):
        array.distribute_array([r], rank=r, bounds=(lo, hi))
    for computation in (heat, result):
        computation.tag_distribute(r, bounds=(lo, hi))
    down = f.create_exchange(heat[t, r], send=({t: T, r: (hi - 1, hi)}, hi < R), to=tm.rank + 1,
                         recv=({t: T, r: (lo - 1, lo)}, lo > 0), source=tm.rank - 1, name="down")  # fmt: skip
    f.order(heat, down.send, down.recv, at=t)
    assert {violation.kind for violation in f.check().violations} == {"communication"}
    up = f.create_exchange(heat[t, r], send=({t: T, r: (lo, lo + 1)}, lo > 0), to=tm.rank - 1,
                       recv=({t: T, r: (hi, hi + 1)}, hi < R), source=tm.rank + 1, name="up")  # fmt: skip
    f.order(down.recv, up.send, up.recv, at=t)
    assert f.check().ok, f.check()


def test_the_report_says_what_ranks_agree_on() -> None:
    f = stencil((WIDE_DOWN, WIDE_UP), PHASES, FAR)
    (agreed,) = [fact for fact in f.check().trusted if fact.startswith("agreed")]
    assert "lo..hi" in agreed and "to R" in agreed and agreed.endswith("has 2 at least")


def test_an_output_in_nobodys_block_is_refused() -> None:
    f = tm.Function("twice", params=[R, lo, hi])
    image = f.input("image", tm.float32, [R + 1])
    b = f.computation("b", {r: R + 1}, 2 * image[r])
    f.outputs(b)
    f.blocks(R, lo, hi)
    b.distribute_array([r], rank=r, bounds=(lo, hi))
    b.tag_distribute(r, bounds=(lo, hi))
    (found,) = f.check().violations
    assert found.kind == "bounds" and "b[0] is in the array of no rank: blocks cover 0 to R - 1" in found.message


def test_a_row_of_an_input_in_the_neighbours_array_is_missing_until_a_message_brings_it() -> None:
    f = tm.Function("sums", params=[R, lo, hi], assume="R >= 2")
    image = f.input("image", tm.float32, [R])
    b = f.computation("b", {r: R - 1}, image[r] + image[r + 1], shape=[R])
    f.outputs(b)
    f.blocks(R, lo, hi)
    for array in (image, b):
        array.distribute_array([r], rank=r, bounds=(lo, hi))
    b.tag_distribute(r, bounds=(lo, hi))
    (found,) = f.check().violations
    assert found.kind == "communication"
    assert "b[0] reads image[1] on the rank with the block from lo=0 up to hi=1, but it is only on another" in str(
        found
    )
    f.derive_transfers()
    assert f.check().ok, f.check()


def test_an_output_that_every_rank_returns_needs_all_rows_everywhere() -> None:
    f = tm.Function("twice", params=[R, lo, hi])
    image = f.input("image", tm.float32, [R])
    b = f.computation("b", {r: R}, 2 * image[r])
    f.outputs(b)
    f.blocks(R, lo, hi)
    b.tag_distribute(r, bounds=(lo, hi))
    assert {violation.kind for violation in f.check().violations} == {"communication"}


@pytest.mark.parametrize("seed", range(12))
def test_verdicts_agree_with_ranks_that_run(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(3):
        exchanges, order, reach = mutant(rng)
        f = stencil(exchanges, order, reach)
        report, wrong = f.check(), simulated(f, exchanges, order, reach)
        assert report.ok == (not wrong), (exchanges, order, reach, wrong, report)


def mutant(rng: random.Random) -> tuple[tuple[Exchange, ...], Order, tuple[int, ...]]:
    """A stencil with a few random changes of its halos, guards, peers and order."""
    wide = rng.random() < 0.4
    exchanges = [WIDE_DOWN, WIDE_UP] if wide else [DOWN, UP]
    for k in range(2):
        e = exchanges[k]
        if rng.random() < 0.5:
            continue
        both = rng.random() < 0.4
        shift = rng.choice(["", " + 1", " - 1"])
        where = rng.choice([e.send.where, "hi < R", "lo > 0", "lo >= 0", "lo > 1"])
        change = rng.choice(["low", "high", "where", "away"])

        def changed(half: Half, change: str = change, shift: str = shift, where: str = where) -> Half:
            values = {"low": half.low + shift, "high": half.high + shift, "where": where, "away": half.away}
            values["away"] = -half.away if change == "away" else half.away
            return Half(**{key: values[key] if key == change else getattr(half, key) for key in values})

        send = changed(e.send) if both or rng.random() < 0.5 else e.send
        exchanges[k] = Exchange(e.name, send, changed(e.receive) if both else e.receive)
    order = list(PHASES)
    if rng.random() < 0.4:
        rng.shuffle(order)
    return tuple(exchanges), tuple(order), rng.choice([FAR, FAR, NEAR] if wide else [NEAR, NEAR, (-1, 0), (0, 1)])
