"""Programs on ranks that must be refused, each with its kind and its smallest counterexample, worked out by hand.

A case is (the program, kind, params, writer, reader, words of the message); None leaves a side open where the violation
has none or where several are equally small.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import tiramisu_py as tm
from tests.programs.ranks.stories import (
    LATER,
    B,
    C,
    P,
    T,
    blur,
    c,
    down,
    exchanged,
    heat,
    heat2,
    heat_waited,
    k,
    p,
    q,
    r,
    r1,
    refusal,
    t,
    total,
    up,
    waited,
)
from tiramisu_py.program.loops import Parallel, Rank

Point = tuple[str, tuple[int, ...]] | None


def missing_down() -> SimpleNamespace:
    s = blur()
    s.up = up(s)
    return s


def missing_up() -> SimpleNamespace:
    s = blur()
    s.down = down(s)
    s.f.order(s.bx, s.down.send, s.down.recv, s.by, at=tm.root)
    return s


def one_column_short() -> SimpleNamespace:
    s = blur()
    down(s, LATER, wide=C - 1)
    up(s)
    return s


def one_row_short() -> SimpleNamespace:
    """Three rows are read on either side, and two are sent down."""
    f = tm.Function("wide", params=[C], assume="C >= 1")
    image = f.input("image", tm.float32, [P * B, C])
    bx = f.computation("bx", {r: P * B, c: C}, image[r, c] + 1)
    by = f.computation("by", {r: (3, P * B), c: C}, bx[r - 3, c] + bx[r, c], shape=[P * B, C])
    f.outputs(by)
    for array in (image, by):
        array.distribute_array([r, c], rank=r // B)
    for computation in (bx, by):
        computation.split(r, B, q, r1)
        computation.tag_distribute(q)
    s = SimpleNamespace(f=f, bx=bx, by=by)
    down(s, rows=2)
    return s


def into_the_wrong_place() -> SimpleNamespace:
    """The row that comes from the rank above is kept as the row two above."""
    s = blur()
    s.f.create_exchange(
        s.bx[r, c], send={q: (0, P - 1), r: (q * B + B - 1, q * B + B), c: C}, to=q + 1,
        recv={q: (1, P), r: (q * B - 2, q * B - 1), c: C}, source=q - 1, name="down",
    )  # fmt: skip
    up(s)
    return s


def from_the_wrong_rank() -> SimpleNamespace:
    """What is sent down is the first row of the next rank, not the last one of this."""
    s = blur()
    s.f.create_exchange(
        s.bx[r, c], send={q: (0, P - 1), r: (q * B + B, q * B + B + 1), c: C}, to=q + 1,
        recv={q: (1, P), r: (q * B, q * B + 1), c: C}, source=q - 1, name="down",
    )  # fmt: skip
    return s


def before_it_is_computed() -> SimpleNamespace:
    s = blur()
    s.down, s.up = down(s), up(s)
    s.f.order(s.down.send, s.bx, s.up.send, s.down.recv, s.up.recv, s.by, at=tm.root)
    return s


def after_its_reader() -> SimpleNamespace:
    s = blur()
    s.down, s.up = down(s), up(s)
    s.f.order(s.bx, s.down.send, s.down.recv, s.by, s.up.send, s.up.recv, at=tm.root)
    return s


def of_an_input() -> SimpleNamespace:
    """The image itself is read across the border."""
    f = tm.Function("gradient", params=[C], assume="C >= 1")
    image = f.input("image", tm.float32, [P * B, C])
    by = f.computation("by", {r: P * B - 1, c: C}, image[r + 1, c] - image[r, c], shape=[P * B, C])
    f.outputs(by)
    for array in (image, by):
        array.distribute_array([r, c], rank=r // B)
    by.split(r, B, q, r1)
    by.tag_distribute(q)
    return SimpleNamespace(f=f)


def too_few_ranks() -> SimpleNamespace:
    """Rows in blocks of 20, for 5 ranks, where 4 are declared."""
    s = scaled(lambda by: by.distribute_array([r, c], rank=r // 20))
    s.f.grid(P)
    return s


def scaled(distribute: Callable[[Any], Any], in_place: bool = False) -> SimpleNamespace:
    """by = 2 image, by rows; `distribute` says how by is held."""
    f = tm.Function("scale", params=[C], assume="C >= 1")
    image = f.input("image", tm.float32, [P * B, C])
    by = f.computation("by", {r: P * B, c: C}, 2 * image[r, c])
    f.outputs(by)
    image.distribute_array([r, c], rank=r // B)
    distribute(by)
    if in_place:
        by.store_in(image, [r, c])
    by.split(r, B, q, r1)
    by.tag_distribute(q)
    return SimpleNamespace(f=f, by=by)


def without(make: Callable[[], SimpleNamespace], *numbers: int) -> SimpleNamespace:
    """A program without some of its waits."""
    s = make()
    for number in numbers:
        s.f.remove(s.waits[number])
    return s


def after_the_reader() -> SimpleNamespace:
    """The wait for what comes from above is after by."""
    s = exchanged(LATER)
    waits = [message.wait() for message in s.messages]
    s.f.order(*s.messages, waits[0], waits[1], waits[3], s.by, waits[2], at=tm.root)
    return s


def too_early() -> SimpleNamespace:
    s = exchanged(LATER)
    waits = [message.wait() for message in s.messages]
    s.f.order(s.bx, waits[0], *s.messages, *waits[1:], s.by, at=tm.root)
    return s


def first_step_only() -> SimpleNamespace:
    """The sends to the right are waited for in the first time step alone."""
    s = heat(LATER)
    waits = [s.right.send.wait({t: (0, 1)}), *(message.wait({t: T}) for message in s.messages[1:])]
    s.f.order(*s.messages, *waits, at=t)
    return s


def over_what_is_sent() -> SimpleNamespace:
    """What comes from above is received over what is being sent down."""
    s = heat(LATER, kept=3)
    waits = [message.wait({t: T}) for message in s.messages[1:]]
    s.f.order(*s.messages, *waits, at=t)
    s.f.order(s.u, s.right.send.wait(), s.last, at=tm.root)
    return s


def in_a_scope() -> SimpleNamespace:
    """A row is computed, sent and received in a buffer of one iteration, at whose end nothing waits for the send."""
    f = tm.Function("rows", params=[T], assume="T >= 1")
    a = f.input("a", tm.float32, [T, P])
    b = f.computation("b", {t: T, q: P}, 2 * a[t, q])
    d = f.computation("d", {t: T, q: (1, P)}, b[t, q - 1] + b[t, q], shape=[T, P])
    f.outputs(d)
    for array in (a, d):
        array.distribute_array([t, q], rank=q)
    for computation in (b, d):
        computation.tag_distribute(q)
    down = f.create_exchange(
        b[t, p], send={t: T, q: (0, P - 1), p: (q, q + 1)}, to=q + 1,
        recv={t: T, q: (1, P), p: (q - 1, q)}, source=q - 1, send_props=LATER, name="down",
    )  # fmt: skip
    f.order(b, down.send, down.recv, d, at=t)
    f.order(d, down.send.wait(), at=tm.root)
    b.store_at(d, t)
    return SimpleNamespace(f=f)


def partial_sums(copied: bool) -> SimpleNamespace:
    """s is summed by every rank; rank 0 sends it to all before it is complete, or they receive it while they sum."""
    f = tm.Function("total")
    x = f.input("x", tm.float32, [B])
    s = f.reduction("s", {r: 1}, {k: B}, tm.sum, x[k])
    own = f.computation("own", {q: P}, x[q])
    f.outputs(s, own)
    own.distribute_array([q], rank=q)
    own.tag_distribute(q)
    cast = f.create_exchange(
        s[r], send={q: (0, 1), p: (1, P), r: 1}, to=p, recv={q: (1, P), r: 1}, source=0, name="cast"
    )  # fmt: skip
    if copied:
        f.order(s.init, cast.recv, s.update, cast.send, at=tm.root)
    else:
        f.order(s.init, cast.send, s.update, cast.recv, at=tm.root)
    return SimpleNamespace(f=f)


def started_on_one_rank() -> SimpleNamespace:
    """Every rank adds terms to its sum, which only rank 0 starts."""
    f = tm.Function("total")
    x = f.input("x", tm.float32, [B])
    s = f.reduction("s", {r: 1}, {k: B}, tm.sum, x[k])
    f.outputs(s)
    s.init.split(r, 1, q, r1)
    s.init.tag_distribute(q)
    f.grid(P)
    return SimpleNamespace(f=f)


def threads_exchange() -> SimpleNamespace:
    """The elements of a row are sent by threads."""
    s = blur()
    s.f.create_exchange(
        s.bx[r, c], send={q: (0, P - 1), r: (q * B + B - 1, q * B + B), c: C}, to=q + 1,
        recv={q: (1, P), r: (q * B - 1, q * B), c: C}, source=q - 1, name="down",
    )  # fmt: skip
    up(s)
    program = s.f.program
    loop = program.statements["down_send"].loops[-1]
    s.f._program = program.with_loop(replace(program.loops[loop], tag=Parallel()))
    return s


def one_axis_twice() -> SimpleNamespace:
    s = scaled(lambda by: by.distribute_array([r, c], rank=r // B))
    program = s.f.program
    loop = program.statements["by"].loops[-1]
    s.f._program = program.with_loop(replace(program.loops[loop], tag=Rank(0)))
    return s


def two_distributions() -> SimpleNamespace:
    s = scaled(lambda by: by.distribute_array([r, c], rank=r // B), in_place=True)
    dealt = s.f.program.ranks.distributions
    s.f._program = s.f.program.with_(ranks=replace(s.f.program.ranks, distributions={"image": dealt["image"]}))
    return s


CASES: dict[str, tuple[Callable[[], SimpleNamespace], str, dict[str, int], Point, Point, str]] = {
    "no message at all": (
        blur, "communication", {"C": 1}, ("bx", (24, 0)), ("by", (25, 0)),
        "by[25, 0] reads bx[24, 0] on rank 1, but it is only on rank 0: no message brings it",
    ),
    "no message up": (
        missing_up, "communication", {"C": 1}, ("bx", (25, 0)), ("by", (24, 0)),
        "by[24, 0] reads bx[25, 0] on rank 0, but it is only on rank 1: no message brings it",
    ),
    "no message down": (
        missing_down, "communication", {"C": 1}, ("bx", (24, 0)), ("by", (25, 0)), "only on rank 0",
    ),
    "halo one column short": (
        one_column_short, "communication", {"C": 1}, ("bx", (24, 0)), ("by", (25, 0)), "only on rank 0",
    ),
    "halo one row short": (
        one_row_short, "communication", {"C": 1}, ("bx", (22, 0)), ("by", (25, 0)),
        "by[25, 0] reads bx[22, 0] on rank 1, but it is only on rank 0",
    ),
    "received into the wrong place": (
        into_the_wrong_place, "communication", {"C": 1}, ("bx", (24, 0)), ("by", (25, 0)), "only on rank 0",
    ),
    "sent by a rank that has it not": (
        from_the_wrong_rank, "communication", {"C": 1}, ("bx", (25, 0)), ("bx", (25, 0)),
        "down.send sends bx[25, 0] on rank 0, but it is only on rank 1",
    ),
    "sent before it is computed": (
        before_it_is_computed, "order", {"C": 1}, ("bx", (24, 0)), ("bx", (24, 0)),
        "down.send sends bx[24, 0] on rank 0 before it is computed",
    ),
    "received after it is read": (
        after_its_reader, "order", {"C": 1}, ("bx", (25, 0)), ("by", (24, 0)),
        "by[24, 0] reads bx[25, 0] on rank 0 before it is received",
    ),
    "an input of another rank": (
        of_an_input, "communication", {"C": 1}, None, ("by", (24, 0)),
        "by[24, 0] reads image[25, 0] on rank 0, but it is only in the array of rank 1",
    ),
    "an output that is not gathered": (
        lambda: scaled(lambda by: None), "communication", {"C": 1}, ("by", (0, 0)), ("by", (0, 0)),
        "the caller finds by[0, 0] on rank 1, but it is only on rank 0: no message brings it",
    ),
    "an output for one rank": (
        lambda: scaled(lambda by: by.distribute_array([r, c], rank=0)), "communication", {"C": 1},
        ("by", (25, 0)), ("by", (25, 0)), "the caller finds by[25, 0] on rank 0, but it is only on rank 1",
    ),
    "an output for a rank that does not exist": (
        too_few_ranks, "bounds", {"C": 1}, None, ("by", (80, 0)),
        "by[80, 0] is in the array of no rank",
    ),
    "two distributions of one array": (
        two_distributions, "reach", {}, None, ("by", ()), "are not held by ranks in the same way",
    ),
    "two loops along one axis": (
        one_axis_twice, "reach", {}, None, ("by", ()), "both run along axis 0",
    ),
    "read before the wait": (
        lambda: without(waited, 2), "race", {"C": 1}, ("bx", (24, 0)), ("by", (25, 0)),
        "the computation of by[25, 0] reads bx[24, 0] on rank 1 before the wait for down.recv",
    ),
    "waited for after the reader": (
        after_the_reader, "race", {"C": 1}, ("bx", (24, 0)), ("by", (25, 0)), "before the wait for down.recv",
    ),
    "no wait for a send": (
        lambda: without(waited, 0), "race", {"C": 1}, ("bx", (24, 0)), None,
        "the function returns, and nothing waits for down.send of bx[24, 0] on rank 0",
    ),
    "early wait": (
        too_early, "order", {"C": 1}, ("bx", (24, 0)), None,
        "waits for down.send of bx[24, 0] on rank 0 before it is issued",
    ),
    "overwritten while it is sent": (
        lambda: without(heat_waited, 0), "race", {"T": 1}, ("u", (0, 24)), None, "nothing waits for right.send",
    ),
    "only the first wait": (
        first_step_only, "race", {"T": 2}, ("u", (1, 24)), None, "nothing waits for right.send of u[1, 24] on rank 0",
    ),
    "sent too long": (
        over_what_is_sent, "race", {"T": 3}, ("u", (3, 24)), ("u", (0, 24)),
        "the computation of u[3, 24] overwrites kept[0, 24] on rank 0 before the wait for right.send",
    ),
    "used again while it is sent": (
        in_a_scope, "race", {"T": 1}, ("b", (0, 0)), None,
        "b exists for one iteration of loop t, at whose end nothing waits for down.send of b[0, 0] on rank 0",
    ),
    "kept too short": (
        lambda: heat_waited(kept=1), "overwritten", {"T": 1}, ("u", (1, 0)), ("u", (1, 1)), "on rank 0",
    ),
    "corners of a grid": (
        lambda: heat2(corners=True), "communication", {"T": 1}, ("u", (0, 8, 8)), ("u", (1, 7, 7)),
        "on rank (0, 0), but u[0, 8, 8] is only on rank (1, 1)",
    ),
    "no wait on a grid": (
        lambda: heat2(waits=False), "race", {"T": 1}, ("u", (0, 7, 8)), ("u", (1, 8, 8)),
        "the computation of u[1, 8, 8] reads u[0, 7, 8] on rank (1, 1) before the wait for south.recv",
    ),
    "terms on different ranks": (
        lambda: total("terms"), "reduction", {}, None, ("s", (0,)),
        "s[0] lacks a term on rank 0: the term k = 25 is added on rank 1",
    ),
    "parts on different ranks": (
        total, "communication", {}, ("part", (1,)), ("s", (0,)),
        "s[0] reads part[1] on rank 0, but it is only on rank 1",
    ),
    "a partial sum is sent": (
        lambda: partial_sums(copied=False), "reduction", {}, ("s", (0,)), ("s", (0,)),
        "cast.send sends s[0] before all of its terms are added on rank 0",
    ),
    "received into a partial sum": (
        lambda: partial_sums(copied=True), "overwritten", {}, ("s", (0,)), ("s", (0,)),
        "cast.recv receives s[0] to s[0], where terms are added to it afterwards on rank 1",
    ),
    "started on one rank": (
        started_on_one_rank, "communication", {}, None, ("s", (0,)),
        "the caller finds s[0] on rank 1, but it is only on rank 0",
    ),
    "exchanged by threads": (
        threads_exchange, "reach", {}, None, ("bx", ()), "messages are exchanged by one thread of each rank",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_wrong_programs_on_ranks_are_refused_with_the_smallest_counterexample(case: str) -> None:
    make, kind, params, writer, reader, message = CASES[case]
    found = refusal(make().f)
    assert found.kind == kind, found
    assert dict(found.witness.params) == params, found
    assert writer is None or found.witness.writer == writer, found
    assert reader is None or found.witness.reader == reader, found
    assert message in found.message, found


def test_the_repair_of_a_missing_message_is_a_command_that_makes_it_right() -> None:
    s = missing_up()
    repair = refusal(s.f).repair
    command = repair.partition(", or blur.")[2]
    names = {"bx": s.bx, "q": q, "r": r, "c": c, "C": C, "blur": s.f}
    made = eval(f"blur.{command.removesuffix(' at C = 1')}", names)
    s.f.order(s.bx, made.send, made.recv, s.by, at=tm.root)
    assert s.f.check().ok, s.f.check()
