"""Vector sums over rows whose lengths vary: a row that fills no vector has no partial results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

N, P = tm.params("N P")
i, p = tm.iters("i p")


def sums(op: Any = tm.sum, dtype: Any = tm.float32) -> tm.Function:
    f = tm.Function("sums", params=[N, P])
    start = f.input("start", tm.int32, [N + 1], values=(0, P + 1), monotone=True)
    a = f.input("a", dtype, [P])
    y = f.reduction("y", {i: N}, over={p: (start[i], start[i + 1])}, op=op, expr=a[p])
    f.outputs(y)
    y.update.vectorize(p, 8, combine=tm.PRIVATE)
    return f


@pytest.mark.parametrize("op", [tm.sum, tm.max])
def test_rows_of_all_lengths_have_the_bits_of_the_schedule(op: Any) -> None:
    f = sums(op)
    start = np.concatenate([[0], np.cumsum([*range(20), 64, 0, 1])]).astype(np.int32)
    a = np.random.default_rng(3).standard_normal(start[-1]).astype(np.float32)
    got = f.compile()(start, a)
    assert got.tobytes() == f.evaluate(start, a, as_scheduled=True).tobytes()
    np.testing.assert_allclose(got, f.evaluate(start, a), rtol=1e-5, atol=1e-5)
    f.validate(start[:12], a[: start[11]])


def test_a_row_that_fills_no_vector_is_added_one_by_one() -> None:
    text = sums().source()["sums.c"]
    head, whole, short = text.partition("if (p_high - p_low >= 8)")[2].partition("} else {")
    assert "y_partial" in head and whole
    assert "y_partial" not in short and "TM_IN_TURN" in short


def test_a_loop_of_one_length_asks_nothing() -> None:
    f = tm.Function("sums", params=[N, P])
    a = f.input("a", tm.float32, [N, P])
    y = f.reduction("y", {i: N}, over={p: P}, op=tm.sum, expr=a[i, p])
    f.outputs(y)
    y.update.vectorize(p, 8, combine=tm.PRIVATE)
    text = f.source()["sums.c"]
    assert "TM_IN_TURN;" not in text and "if (P >= 8)" not in text


def test_declared_bounds_are_not_clamped() -> None:
    (line,) = [line for line in sums().show("pseudocode").splitlines() if "for p in" in line]
    assert line.strip().startswith("for p in p_low .. p_high")
