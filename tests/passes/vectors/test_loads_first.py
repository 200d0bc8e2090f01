"""Rows in one iteration that read the array to which they are stored: all are computed before the first is stored."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.ir import Block, Declare, For, Node, Store
from tiramisu_py.ir.rewriting import walk
from tiramisu_py.passes.vectors.loads_first import MOST_WAITING

(T, R, C), (t, r, c) = tm.params("T R C"), tm.iters("t r c")


def means(rows: int, lanes: int, levels: int) -> tm.Function:
    """Means of three rows of the level before, kept in `levels` levels, with some rows at a time."""
    f = tm.Function("means", params=[T, R, C], assume="T >= 1 and R >= 1 and C >= 1")
    x = f.input("x", tm.float32, [R + 2, C])
    edge = (t == 0) | (r == 0) | (r == R + 1)
    m = f.computation(
        "m",
        {t: T + 1, r: R + 2, c: C},
        lambda m: tm.select(edge, x[r, c], m[t - 1, r - 1, c] + m[t - 1, r, c] * 2 + m[t - 1, r + 1, c]),
    )
    f.outputs(m[T, r, c])
    inside = m.separate_cases(t)[1]
    m.store_in(tm.Buffer("two", [levels, R + 2, C], tm.float32), [t % levels, r, c])
    inside.unroll_and_jam(r, rows)
    inside.vectorize(c, lanes)
    return f


def iterations(f: tm.Function) -> Iterator[tuple[Node, ...]]:
    """The statements in an iteration of each loop, for vectors of 32 bytes."""
    loops = (node for node in walk(f.show("lowered", 32).body) if isinstance(node, For))
    yield from (loop.body.body for loop in loops if isinstance(loop.body, Block))


def waiting(f: tm.Function) -> int:
    """The most results that are kept for stores in an iteration; each is stored."""
    found = 0
    for body in iterations(f):
        kept = [node.variable for node in body if isinstance(node, Declare)]
        stored = [node.value.name for node in body if isinstance(node, Store) and isinstance(node.value, Iter)]
        assert stored == kept
        found = max(found, len(kept))
    return found


@pytest.mark.parametrize(
    ("rows", "lanes", "levels", "most"), [(4, 8, 2, 4), (2, 8, 3, 2), (4, 16, 2, 8), (6, 8, 2, 6), (1, 8, 2, 0)]
)
def test_rows_wait_for_each_other(rows: int, lanes: int, levels: int, most: int) -> None:
    """Two vectors of a row share nothing, and wait for their own neighbours."""
    f = means(rows, lanes, levels)
    assert waiting(f) == most
    x = np.random.default_rng(rows).random((21, 37), np.float32)
    np.testing.assert_array_equal(f.compile()(x, T=5), f.evaluate(x=x, T=5))


def test_no_more_than_four_wait_at_a_time() -> None:
    """Six rows are four, stored together, and two."""
    kinds = [
        "".join("kept "[: 5 * isinstance(each, Declare)] or "stored " * isinstance(each, Store) for each in body)
        for body in iterations(means(6, 8, 2))
    ]
    assert any(
        ("kept " * MOST_WAITING + "stored " * MOST_WAITING + "kept " * 2 + "stored " * 2) in each for each in kinds
    )


def test_rows_that_the_next_one_reads_are_stored_one_after_another() -> None:
    f = tm.Function("sums", params=[R, C], assume="R >= 1 and C >= 1")
    x = f.input("x", tm.float32, [R + 1, C])
    s = f.computation("s", {r: R + 1, c: C}, lambda s: tm.select(r <= 1, x[r, c], s[r - 1, c] + s[r - 2, c]))
    f.outputs(s)
    inside = s.separate_cases()[1]
    inside.unroll_and_jam(r, 4)
    inside.vectorize(c, 8)
    assert waiting(f) == 0
    given = np.random.default_rng(0).random((14, 37), np.float32)
    np.testing.assert_array_equal(f.compile()(given), f.evaluate(x=given))
