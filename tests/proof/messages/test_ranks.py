"""Programs on ranks that are right: what each rank reads it has computed, was passed or has received."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import tiramisu_py as tm
from tests.effort import calls
from tests.programs.ranks.stories import (
    B,
    C,
    P,
    blur,
    c,
    down,
    heat2,
    heat_waited,
    i,
    i1,
    j,
    k,
    on_gpus,
    p,
    proven,
    q,
    r,
    refusal,
    total,
    up,
    waited,
)

(N,) = tm.params("N")


def chain() -> SimpleNamespace:
    """The blur with messages that block: down first, then up, so that no ring of ranks waits for itself."""
    s = blur()
    s.down, s.up = down(s), up(s)
    s.f.order(s.bx, s.down.send, s.down.recv, s.up.send, s.up.recv, s.by, at=tm.root)
    return s


def pointwise(*, rank: Any, split: bool = True, held: bool = True) -> SimpleNamespace:
    """b = 2 a in blocks of 5 that go round 4 ranks; both arrays are held as `rank` says."""
    f = tm.Function("twice")
    a = f.input("a", tm.float32, [P * B])
    b = f.computation("b", {i: P * B}, 2 * a[i])
    f.outputs(b)
    if held:
        a.distribute_array([i], rank=rank)
    b.distribute_array([i], rank=rank)
    if split:
        b.split(i, 5, j, i1)
        b.split(j, P, k, q)
        b.tag_distribute(q)
    return SimpleNamespace(f=f, a=a, b=b)


def recomputed() -> SimpleNamespace:
    """Every rank computes all of b, of an array that all ranks hold; each has its part of d."""
    f = tm.Function("recomputed")
    a = f.input("a", tm.float32, [P * B])
    b = f.computation("b", {i: P * B}, 2 * a[i])
    d = f.computation("d", {i: P * B - 1}, b[i] + b[i + 1], shape=[P * B])
    f.outputs(d)
    d.distribute_array([i], rank=i // B)
    d.split(i, B, q, i1)
    d.tag_distribute(q)
    return SimpleNamespace(f=f, b=b, d=d)


def line(assume: str = "N >= 1") -> SimpleNamespace:
    """One element on each of N ranks; each adds that of its left neighbour."""
    f = tm.Function("line", params=[N], assume=assume)
    a = f.input("a", tm.float32, [N])
    b = f.computation("b", {q: N}, 2 * a[q])
    d = f.computation("d", {q: (1, N)}, b[q] + b[q - 1], shape=[N])
    f.outputs(d)
    for array in (a, d):
        array.distribute_array([q], rank=q)
    for computation in (b, d):
        computation.tag_distribute(q)
    right = f.create_exchange(
        b[k], send={q: (0, N - 1), k: (q, q + 1)}, to=q + 1, recv={q: (1, N), k: (q - 1, q)}, source=q - 1, name="right"
    )
    return SimpleNamespace(f=f, b=b, d=d, right=right)


def gathered() -> SimpleNamespace:
    """The parts of a sum are sent to rank 0, which adds them up."""
    s = total()
    s.gather = s.f.create_exchange(
        s.part[k], send={q: (1, P), k: (q, q + 1)}, to=0, recv={q: (0, 1), k: (1, P)}, source=k, name="gather"
    )
    s.f.order(s.part, s.gather.send, s.gather.recv, s.s, at=tm.root)
    return s


def replicated_sum() -> SimpleNamespace:
    """Every rank has all terms, and the whole sum."""
    f = tm.Function("total")
    x = f.input("x", tm.float32, [B])
    s = f.reduction("s", {r: 1}, {k: B}, tm.sum, x[k])
    f.outputs(s)
    f.grid(P)
    return SimpleNamespace(f=f, s=s)


def brought_to_one() -> SimpleNamespace:
    """Every rank computes rows, and rank 0, which the caller asks, is sent those of the others."""
    f = tm.Function("gather", params=[C], assume="C >= 1")
    image = f.input("image", tm.float32, [P * B, C])
    by = f.computation("by", {r: P * B, c: C}, 2 * image[r, c])
    f.outputs(by)
    image.distribute_array([r, c], rank=r // B)
    by.distribute_array([r, c], rank=0)
    by.split(r, B, q, i1)
    by.tag_distribute(q)
    rows = {r: (q * B, q * B + B), c: C}
    gather = f.create_exchange(
        by[r, c], send={q: (1, P), **rows}, to=0, recv={q: (0, 1), p: (1, P), r: (p * B, p * B + B), c: C}, source=p,
        name="gather",
    )  # fmt: skip
    return SimpleNamespace(f=f, by=by, gather=gather)


def deep_halo() -> SimpleNamespace:
    """Both rows next to a block are received, and only one is needed."""
    s = blur()
    s.down, s.up = down(s, rows=2), up(s)
    s.f.order(s.bx, s.down.send, s.down.recv, s.up.send, s.up.recv, s.by, at=tm.root)
    return s


RIGHT = {
    "blocking": chain,
    "asynchronous": waited,
    "more than is needed": deep_halo,
    "time loop, two steps kept": heat_waited,
    "time loop, every step kept": lambda: heat_waited(kept=None),
    "a grid of ranks": heat2,
    "a block on each rank": lambda: pointwise(rank=i // B, split=False, held=False),
    "blocks that go round": lambda: pointwise(rank=(i // 5) % P),
    "everything on every rank": lambda: pointwise(rank=None, split=False),
    "computed again on every rank": recomputed,
    "as many ranks as N says": line,
    "no rank at all": lambda: line("N >= 0"),
    "parts of a sum": gathered,
    "the sum on every rank": replicated_sum,
    "brought to one rank": brought_to_one,
    "a GPU on each rank": on_gpus,
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_programs_on_ranks_are_proven(name: str) -> None:
    assert proven(RIGHT[name]().f)


@pytest.mark.parametrize("name", ["blocking", "asynchronous", "time loop, two steps kept", "as many ranks as N says"])
def test_messages_that_are_needed_are_not_superfluous(name: str) -> None:
    assert RIGHT[name]().f.check().superfluous == ()


def test_rows_that_nothing_reads_are_reported() -> None:
    assert deep_halo().f.check().superfluous == (
        "down brings bx[23, 0] to rank 1, which nothing there reads (3 of 6 elements, 12 bytes, in vain at C = 1)",
    )


def test_the_ends_of_rows_that_the_edge_does_not_read_are_reported() -> None:
    assert heat2().f.check().superfluous[0] == (
        "south brings u[0, 7, 0] to rank (1, 0), which nothing there reads "
        "(2 of 24 elements, 8 bytes, in vain at T = 1)"
    )


def test_rows_that_come_twice_are_reported() -> None:
    s = chain()
    again = down(s, name="again")
    s.f.order(s.up.recv, again.send, again.recv, s.by, at=tm.root)
    in_vain = "brings bx[24, 0] to rank 1, which it has already (3 of 3 elements, 12 bytes, in vain at C = 1)"
    assert s.f.check().superfluous == (f"down {in_vain}", f"again {in_vain}")


def test_what_a_rank_computes_itself_need_not_be_sent() -> None:
    s = recomputed()
    made = s.f.create_exchange(
        s.b[i], send={q: (1, P), i: (q * B, q * B + 1)}, to=q - 1,
        recv={q: (0, P - 1), i: (q * B + B, q * B + B + 1)}, source=q + 1, name="left",
    )  # fmt: skip
    s.f.order(s.b, made.send, made.recv, s.d, at=tm.root)
    (sentence,) = s.f.check().superfluous
    assert sentence == "left brings b[25] to rank 0, which it has already (3 of 3 elements, 12 bytes, in vain)"


def test_the_report_says_what_ranks_and_messages_were_proven_for() -> None:
    facts = waited().f.check().proven
    assert "each rank reads only what it computes, receives, or has in its arrays" in facts
    assert "nothing overwrites, or reads too early, the memory of the messages of down, up" in facts
    assert "every rank is passed the same C" in waited().f.check().trusted
    assert "every rank is passed the same x" in replicated_sum().f.check().trusted


def test_bits_are_preserved_where_every_rank_adds_in_order() -> None:
    assert replicated_sum().f.check().bits == "bits preserved"
    assert gathered().f.check().bits == "bits preserved"


def test_the_witness_is_the_earliest_on_its_rank_and_then_the_first_rank() -> None:
    """Row 0 of every block but the first lacks a row: rank 1 is the first of these ranks."""
    found = refusal(blur().f)
    assert found.witness.reader == ("by", (25, 0))
    s = blur()
    down(s)
    assert refusal(s.f).witness.reader == ("by", (24, 0))


def test_the_command_to_blame_is_the_one_that_spread_the_computation() -> None:
    assert refusal(blur().f).command.endswith("tag_distribute(q)")


def test_removing_one_exchange_blames_the_removal() -> None:
    s = on_gpus()
    s.f.remove(s.halo)
    found = refusal(s.f)
    assert (found.kind, found.command) == ("communication", "stencil.remove(halo)")
    assert "d[63] reads p[64] on rank 0 in the memory of GPU 0, but it is only in host memory" in found.message


def cost(make: Callable[[], SimpleNamespace]) -> int:
    """The calls of a check."""
    made = make()
    found: list[object] = []
    count = calls(lambda: found.append(proven(made.f)))
    assert found[0]
    return count


def test_a_blur_on_ranks_is_checked_with_little_work() -> None:
    assert cost(waited) < 30_000  # 14,000


def test_heat_on_a_grid_with_four_exchanges_is_checked_with_little_work() -> None:
    assert cost(heat2) < 80_000  # 35,000


@pytest.mark.parametrize("name", ["q", "rank", "rank0", "rank_row"])
def test_a_report_says_that_every_rank_computes_only_what_no_loop_of_the_user_runs_on_ranks(name: str):
    n, n0, n1 = tm.Iter("n"), tm.Iter(name), tm.Iter("n1")
    f = tm.Function("twice")
    a = f.input("a", tm.float32, [8])
    dealt, same = f.computation("dealt", {n: 8}, 2 * a[n]), f.computation("same", {n: 8}, 3 * a[n])
    f.outputs(dealt, same)
    dealt.distribute_array([n], rank=n // 2)
    dealt.split(n, 2, n0, n1).tag_distribute(n0)
    assert [fact for fact in f.check().proven if "every rank computes" in fact] == ["every rank computes same"]


@pytest.mark.parametrize("name", ["q", "rank0"])
def test_the_message_that_is_missing_is_for_the_loop_of_the_user_that_runs_on_ranks(name: str):
    n, n0, n1 = tm.Iter("n"), tm.Iter(name), tm.Iter("n1")
    f = tm.Function("across")
    a = f.input("a", tm.float32, [9])
    first = f.computation("first", {n: 8}, 2 * a[n])
    second = f.computation("second", {n: 8}, first[tm.minimum(n + 1, 7)] + a[n])
    f.outputs(second)
    for stage in (first, second):
        stage.split(n, 2, n0, n1).tag_distribute(n0)
    second.distribute_array([n], rank=n // 2)
    (violation,) = [v for v in f.check().violations if v.kind == "communication"]
    assert f"send={{{name}: " in violation.repair
