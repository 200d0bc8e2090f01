"""Runs of positions that the caller has already, in COO: `f.segments(.., at=row)`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.errors import ArgumentError, DeclarationError

N, P, M = tm.params("N P M")
i, p, j, e = tm.iters("i p j e")
ROWS = np.array([0, 2, 2, 3, 6], np.int32)
OF = np.repeat(np.arange(4), np.diff(ROWS)).astype(np.int64)


def scaled() -> tuple[tm.Function, Any, Any]:
    """Values in runs, which are read again position by position."""
    f = tm.Function("scaled", params=[N, P])
    row = f.input("row", tm.int64, [P])
    rows = f.segments("rows", N, of=P, at=row)
    a, s = f.input("a", tm.float64, [P]), f.input("s", tm.float64, [N])
    entry = f.computation("entry", {i: N, p: rows[i]}, a[p] * s[i])
    again = f.computation("again", {e: P}, entry[row[e], e] + s[row[e]])
    f.outputs(again)
    return f, entry, rows


def given() -> dict[str, np.ndarray]:
    return {"row": OF, "rows": ROWS, "a": np.arange(1.0, 7.0), "s": np.array([1.0, 10.0, 100.0, 1000.0])}


def wanted() -> np.ndarray:
    one = given()
    return np.asarray(one["a"] * one["s"][OF] + one["s"][OF])


def test_they_are_the_runs_that_values_are_in() -> None:
    f, _, rows = scaled()
    assert f.check().ok
    assert "declared: row has the run of rows that each position is in" in str(f.check())
    assert "rows_of" not in f.algorithm.computations
    assert str(rows.of(3)) == "row[3]"
    np.testing.assert_array_equal(f.evaluate(**given()), wanted())
    np.testing.assert_array_equal(f.compile()(**given()), wanted())


@pytest.mark.parametrize("together", [False, True])
def test_loops_through_positions_find_their_run_there(together: bool) -> None:
    f, entry, _ = scaled()
    if together:
        entry.coalesce(i, p, into=j)
    else:
        entry.interchange(i, p)
    assert f.check().ok
    assert "rows_of" not in f.algorithm.computations
    assert "i = row[" in f.show("pseudocode")
    np.testing.assert_array_equal(f.evaluate(**given(), as_scheduled=True), wanted())


def test_gradients_take_them_along() -> None:
    f, _, _ = scaled()
    gradients = tm.vjp(f, ["a", "s"])
    weights, s, a = np.arange(6.0), given()["s"], given()["a"]
    found = gradients.step.evaluate(**given(), d_again=weights)
    np.testing.assert_allclose(found[-2], weights * s[OF])
    np.testing.assert_allclose(found[-1], np.bincount(OF, weights * (a + 1), minlength=4))
    assert {"row", "rows"} <= set(gradients.backward.algorithm.inputs)


def test_a_backward_step_that_reads_them_can_verify_them() -> None:
    f = tm.Function("spread", params=[N, P])
    row = f.input("row", tm.int64, [P])
    f.segments("rows", N, of=P, at=row)
    a, s = f.input("a", tm.float64, [P]), f.input("s", tm.float64, [N])
    f.outputs(f.computation("again", {e: P}, a[e] * s[row[e]]))
    backward = tm.vjp(f, ["s"]).backward
    assert "rows" in backward.algorithm.inputs
    one = given()
    found = backward.evaluate(row=OF, rows=ROWS, a=one["a"], d_again=np.ones(6))
    np.testing.assert_allclose(found, np.bincount(OF, one["a"], minlength=4))


def test_other_runs_are_refused_at_the_call() -> None:
    f, _, _ = scaled()
    other = {**given(), "row": np.array([0, 0, 2, 3, 2, 3])}
    for run in (f.evaluate, f.compile()):
        with pytest.raises(ArgumentError, match=r"row\[4\] = 2, but position 4 is in the run 3 of rows"):
            run(**other)


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda f: f.segments("rows", N, of=P, at=f.input("row", tm.int64, [N])), r"one for each position, \[P\]"),
        (lambda f: f.segments("rows", N, of=P, at=f.input("row", tm.float64, [P])), "does not have the runs of rows"),
        (lambda f: f.segments("rows", N, of=P, at="row"), "it is an input of this function"),
        (
            lambda f: f.segments("rows", N, of=P, at=f.input("row", tm.int64, [P]), found="search"),
            "found='search' looks for them: leave one out",
        ),
    ],
)
def test_what_does_not_have_the_runs_is_refused(declare: Any, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        declare(tm.Function("f", params=[N, P]))


def test_a_saved_function_has_them(tmp_path: Path) -> None:
    f, _, _ = scaled()
    f.save(tmp_path / "scaled.tm")
    again = tm.load(tmp_path / "scaled.tm")
    assert again.algorithm.inputs["row"].run_of == "rows"
