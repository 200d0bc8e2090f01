"""Handles of exchanges, and the log of commands on ranks, which can be executed again."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import tiramisu_py as tm
from tests.programs.drafts import texts
from tests.programs.ranks import pipelines as ranked
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
    q0,
    q1,
    r,
    t,
    tiles,
    up,
    x,
)
from tiramisu_py.program.program import Program


class Names(dict[str, Any]):
    """The names of a script: what the user has bound, what the function calls so, iterators and parameters."""

    def __init__(self, f: tm.Function) -> None:
        super().__init__({"tm": tm, f.name: f})
        self.f = f

    def __missing__(self, name: str) -> Any:
        try:
            return self.f[name]
        except tm.DeclarationError:
            (found,) = tm.params(name) if name in self.f.algorithm.params else tm.iters(name)
            return found


def shape(program: Program) -> Any:
    """All of a program that commands determine, in a form that can be compared."""
    numbers = {loop: k for k, loop in enumerate(dict.fromkeys(x for s in program.statements.values() for x in s.loops))}
    return (
        [
            (
                s.name, s.role, str(s.instances), str(s.point), str(s.coords), [numbers[x] for x in s.loops],
                [program.loops[x].tag for x in s.loops], s.link.waits,
                None if s.link.message is None else (
                    s.link.message.exchange, str(s.link.message.peer), s.link.message.asynchronous, s.link.message.mode,
                    s.link.message.persistent, str(s.link.message.slots),
                ),
            )
            for s in program.statements.values()
        ],
        program.positions, program.ranks.distributions, [str(extent) for extent in program.ranks.grid],
    )  # fmt: skip


def by_hand(s: SimpleNamespace) -> None:
    s.down, s.up = down(s, **NONBLOCK), up(s, send_props=(tm.SYNC,), recv_props=[tm.NONBLOCK, tm.PERSISTENT])
    s.down.collapse_many(c)
    s.up.send.split(c, 64, c0, c1).collapse_many(c1)
    s.up.recv.split(c, 64, c0, c1).collapse_many(c1).set_wait_access(q, c // 64)
    waits = [*s.down.wait(), s.up.recv.wait({q: (0, P - 1), r: (q * B + B, q * B + B + 1)}, name="came")]
    s.f.order(s.bx, s.down.send, s.down.recv, s.up.recv, s.up.send, *waits, s.by, at=tm.root)
    s.up.send.before(s.by).interchange(r, c0)


def by_its_own_number(s: SimpleNamespace) -> None:
    rows = {r: (R * B + B - 1, R * B + B), c: s.C}
    s.down = s.f.create_exchange(
        s.bx[r, c], send=(rows, (R < P - 1) & (c >= 0)), to=R + 1, recv=[{R: (1, P), r: (R * B - 1, R * B), c: s.C}],
        source=(R - 1) % P, name="down",
    )  # fmt: skip
    s.f.remove(s.down.send)
    s.f.remove(s.down)
    s.f.create_exchange(
        s.bx[r, c], send={q: P, r: (tm.maximum(q * B, 1), q * B + B), c: s.C}, to=0,
        recv={q: 1, r: (1, P * B), c: s.C}, source=r // B,
    ).recv.collapse_many(c)  # fmt: skip


def on_a_grid(s: SimpleNamespace) -> None:
    s.f.grid(2, 2)
    s.a.distribute_array([i, j], rank=(i // 4, None))
    s.b.distribute_array([i, j], rank=(i // 4, j // 4))
    s.b.tag_distribute(q0, q1, drop_rank_iter=False)
    p, q_ = tm.ranks(2)
    made = s.f.create_exchange(
        s.p[i, j], send={q1: 2, i: (4 * p, 4 * p + 4), j: (4 * q1, 4 * q1 + 4)}, to=(1 - p, q1),
        recv={p: 2, q_: 2, i: 4, j: 4}, source=(p, (q_ + 1) % 2), name="swap",
    )  # fmt: skip
    made.recv.after(made.send, q1)


def over_time(s: SimpleNamespace) -> None:
    made = s.f.create_exchange(
        s.h[t - 1, i], send={t: (1, s.T + 1), q: (0, P - 1), i: (q * B + B - 1, q * B + B)}, to=q + 1,
        recv={t: (1, s.T + 1), q: (1, P), i: (q * B - 1, q * B)}, source=q - 1,
        send_props=[tm.NONBLOCK, tm.PERSISTENT], recv_props=[tm.BLOCK], name="down",
    )  # fmt: skip
    made.send.before(s.h, t)
    made.recv.before(s.h, t)
    s.f.order(made.send, made.send.wait({t: (1, s.T + 1)}), made.recv, at=t)
    s.h.shift(q, 0)


def loops_of_ranks(s: SimpleNamespace) -> None:
    s.image.distribute_array([r, c], rank=None)
    s.by.distribute_array([r, c], rank=(r // 10) % 3)
    s.bx.split(r, B, q, x).tag_distribute(q, axis=0).interchange(x, c)
    s.by.split(r, B, q, x).tag_distribute(q)
    s.by.separate_at(q, [1])[0].parallelize(x)


@pytest.mark.parametrize(
    ("make", "schedule"),
    [
        (blur, by_hand), (blur, by_its_own_number), (tiles, on_a_grid), (heat, over_time),
        (lambda: blur(ranks=False), loops_of_ranks),
    ],
    ids=["by-hand", "own-number", "grid", "time", "loops"],
)  # fmt: skip
def test_the_log_is_a_script_that_makes_the_same_program(
    make: Callable[[], SimpleNamespace], schedule: Callable[[SimpleNamespace], None]
):
    s, fresh = make(), make()
    before = len(s.f.commands)
    schedule(s)
    names = Names(fresh.f)
    for command in texts(s.f)[before:]:
        eval(compile(command, "the log", "eval"), {"__builtins__": {}}, names)
    assert fresh.f.commands == s.f.commands
    assert shape(fresh.f.program) == shape(s.f.program)


def test_an_exchange_and_its_halves_are_found_by_name():
    s = halo()
    assert isinstance(s.f["down"], tm.Exchange)
    assert isinstance(s.f["down_send"], tm.Half)
    assert [repr(s.f[name]) for name in ("down", "down_send", "down_receive")] == ["down", "down.send", "down.recv"]
    wait = s.f["up"].send.wait()
    assert isinstance(s.f["up_send_wait"], tm.Wait)
    assert repr(wait) == "up_send_wait"
    s.f.remove(wait)
    s.f.remove(s.f["down"])
    with pytest.raises(tm.DeclarationError, match="blur has nothing called 'down'"):
        s.f["down"]


def test_what_the_proof_says_names_halves_as_the_user_does():
    s = blur()
    s.down, s.up = down(s), up(s)
    s.f.order(s.bx, s.down.send, s.up.send, s.down.recv, s.up.recv, s.by, at=tm.root)
    text = str(s.f.check())
    assert "deadlock" in text
    assert "down.send" in text
    assert "down_send" not in text


def test_commands_on_an_exchange_are_undone_one_by_one():
    s = halo()
    s.down.collapse_many(c)
    assert texts(s.f)[-2:] == ("down.send.collapse_many(c)", "down.recv.collapse_many(c)")
    s.f.undo()
    s.f.undo()
    s.f.undo()
    assert texts(s.f)[-1].startswith("blur.create_exchange(bx[r, c], send={q: (0, 3), ")
    assert "name='down'" in texts(s.f)[-1]
    other = s.f.copy()
    other.remove(other["down"])
    assert "down_send" in s.f.program.statements
    assert "down_send" not in other.program.statements


def test_the_number_of_the_rank_prints_as_it_is_written():
    a, b = tm.ranks(2)
    assert (str(tm.rank * 2 + 1), str(a + b)) == ("tm.rank * 2 + 1", "tm.ranks(2)[0] + tm.ranks(2)[1]")
    assert tm.ranks(1) == (tm.rank,)
    with pytest.raises(tm.CommandError, match="the number of axes is 0"):
        tm.ranks(0)


def test_ranks_have_no_place_in_the_algorithm():
    (N,) = tm.params("N")
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int32, [N])
    with pytest.raises(tm.DeclarationError, match="rank, which is not among its iterators"):
        f.computation("b", {i: N}, a[i] + tm.rank)


def test_an_input_takes_no_messages_of_its_own_but_an_exchange_does():
    s = ranked.blur()
    assert not hasattr(s.image, "wait")
    made = s.f.create_exchange(
        s.image[r, c], send={q: 1, r: 1, c: 1}, to=1, recv={q: (1, 2), r: 1, c: 1}, source=0, name="row"
    )
    assert made.send.statement_names() == ("row_send",)
