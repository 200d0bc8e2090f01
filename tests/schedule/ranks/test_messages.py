"""Exchanges between ranks: the statements that `create_exchange` makes, and what commands do to them."""

from __future__ import annotations

import itertools

import pytest

import tiramisu_py as tm
from tests.programs.drafts import texts
from tests.programs.ranks.pipelines import (
    NONBLOCK,
    B,
    P,
    R,
    blur,
    c,
    c0,
    c1,
    down,
    halo,
    heat,
    i,
    j,
    q,
    r,
    r1,
    t,
    tiles,
    up,
    x,
)
from tiramisu_py import sets
from tiramisu_py.program.loops import Bulk, Rank
from tiramisu_py.program.statement import Role, SendMode, Statement

Pair = tuple[int, tuple[int, ...], int]


def messages(s, name: str, at: dict[str, int]) -> list[Pair]:
    """(rank, value, peer) of every instance of half of an exchange along one axis, in order, by enumeration."""
    statement: Statement = s.f.program.statements[name]
    program = s.f.program
    depth = next(d for d, loop in enumerate(statement.loops) if isinstance(program.loops[loop].tag, Rank))
    assert statement.link.message is not None
    every = sets.joined(
        sets.function(statement.frame, None, [sets.outputs(statement.coords)[depth]]),
        sets.renamed(program.value_of(statement), None), statement.link.message.peer,
    )  # fmt: skip
    found = sets.points(sets.at_params(statement.instances.apply(sets.graph(every)), at))
    return sorted((point[0], point[1:-1], point[-1]) for point in found)


def tags(s, name: str) -> dict[str, object]:
    program = s.f.program
    return {program.loops[number].name: program.loops[number].tag for number in program.statements[name].loops}


DOWN = [(n, (n * B + B - 1, col), n + 1) for n, col in itertools.product(range(P - 1), range(2))]
CAME = [(n, (n * B - 1, col), n - 1) for n, col in itertools.product(range(1, P), range(2))]


def test_an_exchange_is_a_send_and_a_receive():
    s = blur()
    made = down(s)
    send, receive = (s.f.program.statements[name] for name in ("down_send", "down_receive"))
    assert (send.role, send.stores, send.acts, send.receives) == (Role.SEND, False, True, False)
    assert (receive.role, receive.stores, receive.acts, receive.receives) == (Role.COPY, True, True, True)
    assert messages(s, "down_send", {"C": 2}) == DOWN
    assert messages(s, "down_receive", {"C": 2}) == CAME
    assert tags(s, "down_send") == {"q": Rank(0), "r": None, "c": None}
    assert (repr(made), repr(made.send), repr(made.recv)) == ("down", "down.send", "down.recv")
    names = list(s.f.program.statements)
    assert names == ["bx", "down_send", "down_receive", "by"]


@pytest.mark.parametrize(
    ("send", "to", "recv", "source"),
    [
        ({R: (0, P - 1), r: (R * B + B - 1, R * B + B), c: 1}, R + 1, {R: (1, P), r: (R * B - 1, R * B), c: 1}, R - 1),
        (
            ({r: (R * B + B - 1, R * B + B), c: 1}, R < P - 1), R + 1,
            ({r: (R * B - 1, R * B), c: 1}, R > 0), R - 1,
        ),
        (
            ({q: P, r: P * B - 1, c: 1}, (r % B == B - 1) & (r // B == q)), r // B + 1,
            ({q: (1, P), r: P * B, c: 1}, r == q * B - 1), r // B,
        ),
        (
            [{q: (n, n + 1), r: (n * B + B - 1, n * B + B), c: 1} for n in range(P - 1)], q + 1,
            [{q: (n, n + 1), r: (n * B - 1, n * B), c: 1} for n in range(1, P)], (q + P - 1) % P,
        ),
        (
            f"[C] -> {{ [q, r, c] : 0 <= q < {P - 1} and r = {B} q + {B - 1} and 0 <= c < 1 }}", q + 1,
            f"[C] -> {{ [q, r, c] : 1 <= q < {P} and r = {B} q - 1 and 0 <= c < 1 }}", r // B,
        ),
    ],
    ids=["rank-listed", "rank-not-listed", "floor", "pieces-and-modulo", "isl-text"],
)  # fmt: skip
def test_halves_say_who_sends_what_to_whom(send, to, recv, source):
    s = blur()
    s.f.create_exchange(s.bx[r, c], send=send, to=to, recv=recv, source=source, name="down")
    assert messages(s, "down_send", {"C": 2}) == [pair for pair in DOWN if pair[1][1] == 0]
    assert messages(s, "down_receive", {"C": 2}) == [pair for pair in CAME if pair[1][1] == 0]


def test_the_number_of_the_rank_needs_no_loop_of_its_name():
    s = blur(ranks=False)
    s.f.grid(3)
    s.f.create_exchange(
        s.image[r, c], send={r: 1, c: 2}, to=(R + 1) % 3, recv={r: 1, c: 2}, source=(R - 1) % 3, name="ring"
    )
    assert messages(s, "ring_send", {"C": 2}) == [(n, (0, col), (n + 1) % 3) for n in range(3) for col in range(2)]
    assert tags(s, "ring_receive") == {"rank": Rank(0), "r": None, "c": None}


def test_on_a_grid_coordinates_and_peers_are_tuples():
    s = tiles()
    s.f.grid(2, 2)
    a, b = tm.ranks(2)
    s.f.create_exchange(
        s.p[i, j], send={a: (0, 1), i: (4 * a + 3, 4 * a + 4), j: (4 * b, 4 * b + 4)}, to=(a + 1, b),
        recv={a: (1, 2), b: 2, i: (4 * a - 1, 4 * a), j: (4 * b, 4 * b + 4)}, source=(a - 1, b), name="south",
    )  # fmt: skip
    for name in ("south_send", "south_receive"):
        found = tags(s, name)
        assert {found["rank0"], found["rank1"]} == {Rank(0), Rank(1)}
        assert sets.out_size(sets.graph(s.f.program.statements[name].link.message.peer)) == 2
    assert "to=(tm.ranks(2)[0] + 1, tm.ranks(2)[1])" in texts(s.f)[-1]


@pytest.mark.parametrize(
    ("props", "nonblocking", "mode", "persistent"),
    [
        ([], False, SendMode.STANDARD, False),
        ([tm.ASYNC, tm.BLOCK], False, SendMode.STANDARD, False),
        ([tm.SYNC], False, SendMode.SYNCHRONOUS, False),
        ([tm.SYNC, tm.NONBLOCK], True, SendMode.SYNCHRONOUS, False),
        ((tm.BUFFERED,), False, SendMode.BUFFERED, False),
        ([tm.ASYNC, tm.NONBLOCK, tm.PERSISTENT], True, SendMode.STANDARD, True),
    ],
)
def test_properties_say_when_a_send_is_complete(props, nonblocking, mode, persistent):
    s = blur()
    down(s, send_props=props)
    message = s.f.program.statements["down_send"].link.message
    assert (message.asynchronous, message.mode, message.persistent) == (nonblocking, mode, persistent)
    received = s.f.program.statements["down_receive"].link.message
    assert (received.asynchronous, received.mode, received.persistent) == (False, SendMode.STANDARD, False)


def test_messages_are_merged_from_the_inside_also_partly():
    s = halo()
    s.down.collapse_many(c)
    assert tags(s, "down_send") == {"q": Rank(0), "r": None, "c": Bulk()} == tags(s, "down_receive")
    s.up.send.split(c, 64, c0, c1).collapse_many(c1)
    assert tags(s, "up_send") == {"q": Rank(0), "r": None, "c0": None, "c1": Bulk()}
    s.up.recv.collapse_many(r, c)
    assert s.f.program.host_depth(s.f.program.statements["up_receive"]) == 1


def test_the_blur_by_hand_is_proven():
    s = blur()
    s.down, s.up = down(s, **NONBLOCK), up(s, **NONBLOCK)
    for exchange in (s.down, s.up):
        exchange.collapse_many(c)
    s.f.order(s.bx, s.down.send, s.up.send, s.down.recv, s.up.recv, *s.down.wait(), *s.up.wait(), s.by, at=tm.root)
    assert s.f.check().ok, s.f.check()


def test_waits_run_on_the_ranks_that_they_name():
    s = halo()
    wait = s.up.send.wait({q: (1, P), r: (q * B, q * B + 1)})
    assert tags(s, wait.name) == {"q": Rank(0), "r": None}
    everything = s.up.recv.wait()
    assert s.f.program.statements[everything.name].loops == ()


def test_half_of_an_exchange_that_is_blocking_is_not_waited_for():
    s = blur()
    made = down(s, recv_props=[tm.NONBLOCK])
    (wait,) = made.wait()
    assert wait.name == "down_receive_wait"


def test_in_a_time_loop_halves_share_the_loops_of_computations():
    s = heat()
    for name, source, offset, other in (("down", -1, B - 1, -1), ("up", 1, 0, B)):
        away = -source
        low, high = (0, P - 1) if away > 0 else (1, P)
        made = s.f.create_exchange(
            s.h[t - 1, i], send={t: (1, s.T + 1), q: (low, high), i: (q * B + offset, q * B + offset + 1)}, to=q + away,
            recv={t: (1, s.T + 1), q: (low + away, high + away), i: (q * B + other, q * B + other + 1)},
            source=q + source, name=name, **NONBLOCK,
        )  # fmt: skip
        setattr(s, name, made)
    halves = [s.down.send, s.up.send, s.down.recv, s.up.recv]
    s.f.order(*halves, at=t)
    waits = [half.wait({t: (1, s.T + 1)}) for half in halves]
    s.f.order(s.up.recv, *waits, s.h, at=t)
    outermost = {s.f.program.statements[half.name].loops[0] for half in (*halves, *waits, s.h)}
    assert len(outermost) == 1
    assert s.f.check().ok, s.f.check()


def test_an_exchange_of_the_callers_array_brings_its_halo():
    s = blur(ranks=False)
    for array in (s.image, s.by):
        array.distribute_array([r, c], rank=r // B)
    for computation in (s.bx, s.by):
        computation.split(r, B, q, r1).tag_distribute(q)
    made = s.f.create_exchange(
        s.image[r, c], send={q: (0, P - 1), r: (q * B + B - 1, q * B + B), c: s.C + 2}, to=q + 1,
        recv={q: (1, P), r: (q * B - 1, q * B), c: s.C + 2}, source=q - 1, name="halo",
    )  # fmt: skip
    assert s.f.program.statements["halo_receive"].memory.target == "image"
    made.collapse_many(c)
    s.f.order(made.send, made.recv, s.bx, at=tm.root)
    assert s.f.program.positions["halo_receive"] < s.f.program.positions["bx"]


def test_requests_are_kept_where_the_user_says():
    s = halo()
    s.up.send.collapse_many(c).set_wait_access(q % 2, 0)
    slots = s.f.program.statements["up_send"].link.message.slots
    found = s.f.program.statements["up_send"].instances.apply(sets.graph(slots))
    assert set(sets.points(sets.at_params(found, {"C": 3}))) == {(0, 0), (1, 0)}
    assert texts(s.f)[-1] == "up.send.set_wait_access(q % 2, 0)"


def test_default_names_are_free_and_a_removed_exchange_gives_its_name_back():
    s = blur()
    row = {"send": {q: (0, 3), r: 1, c: s.C}, "to": q + 1, "recv": {q: (1, 4), r: 1, c: s.C}, "source": q - 1}
    first, second = (s.f.create_exchange(s.bx[r, c], **row) for _ in range(2))
    assert (first.name, second.name) == ("bx_exchange", "bx_exchange2")
    s.f.remove(first)
    assert [name for name in s.f.program.statements if "exchange" in name] == [
        "bx_exchange2_send", "bx_exchange2_receive",
    ]  # fmt: skip
    assert "bx" in s.f.program.buffers
    assert s.f.create_exchange(s.bx[r, c], **row).name == "bx_exchange"
    s.f.remove(second.send)
    assert second.statement_names() == ("bx_exchange2_receive",)


def test_the_loop_of_an_iterator_of_another_name_is_tagged_by_hand():
    s = blur()
    made = s.f.create_exchange(
        s.bx[r, c], send={x: (0, P - 1), r: (x * B + B - 1, x * B + B), c: s.C}, to=x + 1,
        recv={x: (1, P), r: (x * B - 1, x * B), c: s.C}, source=x - 1, name="down",
    )  # fmt: skip
    assert tags(s, "down_send")["x"] is None
    made.send.tag_distribute(x)
    made.recv.tag_distribute(x)
    assert messages(s, "down_send", {"C": 2}) == DOWN
    assert messages(s, "down_receive", {"C": 2}) == CAME
