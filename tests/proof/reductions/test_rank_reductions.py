"""Reductions over ranks: what is proven, what is refused, and that no deadlock hides in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs.ranks.sums import STORIES, product, shared_value, total

r, c, q, z, i1, r_ = tm.iters("r c q z i1 r_")


@pytest.mark.parametrize("name", STORIES)
def test_it_is_proven(name: str) -> None:
    f, _ = STORIES[name]()
    report = f.check()
    assert report.ok, report
    assert any("every term is in" in fact for fact in report.proven)


def test_bits_of_floats_are_given_up_by_the_command() -> None:
    f, _ = product()
    assert "bits given up by c.update.tag_distribute(q, combine=tm.PRIVATE)" in str(f.check())
    f, _ = total(dtype=tm.int64)
    assert "bits preserved" in str(f.check())


def refused(f: tm.Function, kind: str, words: str, command: str) -> Any:
    found = [v for v in f.check().violations if v.kind == kind and words in v.message]
    assert found, f.check()
    assert found[0].command == command
    return found[0]


def test_without_combine_terms_are_missing() -> None:
    f, _, _ = shared_value(combined=False)
    found = refused(
        f, "reduction", "s[0] lacks a term on rank 0: the term i = 26 is added on rank 1", "s.update.tag_distribute(q)"
    )
    assert "combine them with s.update.tag_distribute(q, combine=tm.PRIVATE)" in found.repair


def test_a_reader_inside_the_loop() -> None:
    f, s, y = shared_value()
    assert f.check().ok
    y.after(s.update, q)
    words = "y[0] reads s[0] on rank 0 inside loop q, which combines the partial results of its ranks only at its end"
    assert refused(f, "reduction", words, "y.after(s.update, q)").repair == "move it out of loop q"


def test_a_reader_before_the_loop() -> None:
    f, s, y = shared_value()
    y.before(s.update)
    words = "y[0] reads s[0] before all of its terms are added on rank 0"
    assert refused(f, "reduction", words, "y.before(s.update)").repair == "y.after(s.update, tm.root)"


def test_a_start_on_one_rank_only() -> None:
    f, s, _ = shared_value()
    s.init.split(z, 1, q, i1)
    s.init.tag_distribute(q)
    words = "s[0] gets a term without a start on rank 1"
    found = refused(f, "reduction", words, "s.init.tag_distribute(q)")
    assert "let each of them start it, with no loop over ranks around s.init" in found.repair


def test_a_start_after_the_terms() -> None:
    f, s, _ = shared_value()
    s.init.after(s.update)
    refused(f, "reduction", "is added to s[0] before its start", "s.init.after(s.update)")


def test_a_start_inside_the_loop() -> None:
    f, s, _ = shared_value()
    s.init.split(z, 1, q, i1)
    s.init.tag_distribute(q)
    s.init.before(s.update, q)
    refused(f, "reduction", "s[0] gets a term without a start on rank 1", "s.init.tag_distribute(q)")


# -- with messages


def mixed(props: list[Any] | None = None) -> tuple[tm.Function, Any, Any, Any]:
    """Rows that are sent upwards, and their sum, on four ranks."""
    f = tm.Function("mixed", params=[])
    x = f.input("x", tm.int64, [4, 10])
    a = f.computation("a", {r: 4, c: 10}, 2 * x[r, c])
    s = f.reduction("s", {z: 1}, {r: 4, c: 10}, tm.sum, a[r, c])
    y = f.computation("y", {r: 3, c: 10}, a[r + 1, c] + s[0])
    f.outputs(y)
    x.distribute_array([r, c], rank=r)
    y.distribute_array([r, c], rank=r)
    a.tag_distribute(r)
    s.update.reorder(r, z, c)
    s.update.tag_distribute(r, combine=tm.PRIVATE)
    y.tag_distribute(r)
    up = f.create_exchange(
        a[r_, c], send={r: (1, 4), r_: (r, r + 1), c: 10}, to=r - 1, recv={r: 3, r_: (r + 1, r + 2), c: 10},
        source=r + 1, name="up", send_props=props or [],
    )  # fmt: skip
    up.collapse_many(c)
    return f, up, s, y


@pytest.mark.parametrize("place", [0, 2])
def test_messages_before_or_after_the_combination(place: int) -> None:
    f, up, s, y = mixed()
    order = [up.send, up.recv]
    order.insert(place, s.update)
    f.order(*order, at=tm.root)
    y.after(order[-1])
    assert f.check().ok, f.check()
    x = np.arange(40).reshape(4, 10)
    for seed in range(3):
        np.testing.assert_array_equal(f.simulate(seed=seed, x=x), f.evaluate(x=x))


def test_a_combination_between_a_send_and_its_receive() -> None:
    f, up, s, _ = mixed([tm.SYNC])
    f.order(up.send, s.update, up.recv, at=tm.root)
    words = "rank 0 waits in the combination of s_update for rank 1, which waits in up.send for rank 0"
    refused(f, "deadlock", words, "mixed.order(up.send, s.update, up.recv, at=tm.root)")


def test_a_nonblocking_send_lets_its_rank_combine() -> None:
    f, up, s, y = mixed([tm.NONBLOCK])
    f.order(up.send, s.update, up.recv, up.send.wait(), y, at=tm.root)
    assert f.check().ok, f.check()
    x = np.arange(40).reshape(4, 10)
    np.testing.assert_array_equal(f.simulate(seed=1, x=x), f.evaluate(x=x))
