"""Programs with ranks that were accepted although they are wrong, once; and right ones that were refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs.ranks.stories import LATER, T, heat, proven, refusal, t

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
        array.distribute_array([i, j], rank=i // B)
    for stage in (p, s):
        stage.split(i, B, q, x)
        stage.tag_distribute(q)
    m = f.create_exchange(
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


def row_sums(where: str) -> SimpleNamespace:
    """Sums of rows: terms are added by the rank of the row, and each sum is started there, or on every rank."""
    f = tm.Function("sums", params=[N])
    a = f.input("a", tm.int64, [P * B, N])
    s = f.reduction("s", {i: P * B}, {j: N}, tm.sum, a[i, j])
    f.outputs(s)
    a.distribute_array([i, j], rank=i // B)
    s.distribute_array([i], rank=i // B)
    for part in (s.init, s.update) if where == "there" else (s.update,):
        part.split(i, B, q, x)
        part.tag_distribute(q)
    return SimpleNamespace(f=f, s=s)


def test_sums_that_are_started_on_ranks_that_have_no_use_for_them() -> None:
    assert proven(row_sums("there").f)
    s = row_sums("everywhere")
    assert proven(s.f)
    picture = np.arange(18).reshape(6, 3)
    np.testing.assert_array_equal(s.f.simulate(a=picture), picture.sum(1))


def test_sums_that_are_started_everywhere_and_read_where_terms_are_missing() -> None:
    s = row_sums("everywhere")
    s.s.distribute_array([i], rank=None)
    words = "s[2] lacks a term on rank 0: the term j = 0 is added on rank 1"
    assert any(words in violation.message for violation in s.f.check().violations)


R, lo, hi = tm.params("R lo hi")
(r,) = tm.iters("r")


def blocks(value: Any = None, declared: bool = True) -> SimpleNamespace:
    """s reads p one row before, on ranks with blocks whose bounds are known at run time."""
    f = tm.Function("rows", params=[R, lo, hi])
    a = f.input("a", tm.int64, [R])
    p = f.computation("p", {r: R}, a[r] if value is None else a[r] + value)
    s = f.computation("s", {r: (1, R)}, p[r - 1] + p[r], shape=[R])
    f.outputs(s)
    if declared:
        f.blocks(R, lo, hi)
    return SimpleNamespace(f=f, a=a, p=p, s=s)


def dealt(s: SimpleNamespace) -> SimpleNamespace:
    for array in (s.a, s.s):
        array.distribute_array([r], rank=r, bounds=(lo, hi))
    for stage in (s.p, s.s):
        stage.tag_distribute(r, bounds=(lo, hi))
    s.f.derive_transfers()
    return s


@pytest.mark.parametrize(("value", "bound"), [(lo, "lo"), (tm.select(r < hi, 1, 0), "hi")])
def test_values_that_depend_on_who_computes_them(value: Any, bound: str) -> None:
    with pytest.raises(tm.CommandError, match=f"p depends on {bound}, which differs from rank to rank"):
        blocks(value)
    assert proven(dealt(blocks(R)).f)


def test_a_value_that_depends_on_who_computes_it_is_declared_later() -> None:
    s = blocks()
    late = s.f.computation("late", {r: (lo, R)}, s.p[r], shape=[R])
    s.f.outputs(s.s, late, replace=True)
    violation = refusal(s.f)
    assert violation.kind == "communication"
    assert violation.message.startswith("late depends on lo, which differs from rank to rank")


@pytest.mark.parametrize(
    "command",
    [
        lambda s: s.p.split(r, 2, q, x).tag_distribute(q),
        lambda s: s.a.distribute_array([r], rank=r // 2),
        lambda s: s.a.distribute_array([r], rank=0),
        lambda s: s.f.grid(4),
    ],
)
def test_constant_ranks_beside_blocks_with_bounds(command: Any) -> None:
    with pytest.raises(tm.CommandError, match="ranks have blocks already, with the bounds lo, hi: "):
        command(blocks())


def test_arrays_in_full_beside_blocks_with_bounds() -> None:
    s = blocks()
    s.a.distribute_array([r], rank=None)
    s.p.compute_at(s.s, r)
    s.s.distribute_array([r], rank=r, bounds=(lo, hi)).tag_distribute(r, bounds=(lo, hi))
    assert proven(s.f)
