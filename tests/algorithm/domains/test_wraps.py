"""Indices modulo a parameter, and recurrences whose border is copied from the inside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

N, T = tm.params("N T")
i, j, t = tm.iters("i j t")


def wrapped(*offsets: int) -> tuple[tm.Function, Any]:
    f = tm.Function("wrapped", params=[N], assume="N >= 1")
    c = f.input("c", tm.int64, [N])
    total = c[(i + offsets[0]) % N]
    for weight, offset in enumerate(offsets[1:], 2):
        total = total + weight * c[(i + offset) % N]
    p = f.computation("p", {i: N}, total)
    f.outputs(p)
    return f, p


@pytest.mark.parametrize("offsets", [(-1,), (1,), (-1, 0, 1), (-5, 7)])
def test_a_wrapped_neighbour_is_inside_its_array(offsets: tuple[int, ...]) -> None:
    f, _ = wrapped(*offsets)
    assert f.check().ok, f.check()
    kernel = f.compile()
    for n in (1, 2, 3, 8):
        c = np.arange(n, dtype=np.int64) * 10 + 1
        expected = sum(w * np.roll(c, -offset) for w, offset in enumerate(offsets, 1))
        assert np.array_equal(kernel(c=c), expected)
        assert np.array_equal(f.evaluate(c=c), expected)


def test_a_wrapped_neighbour_is_known_exactly_one_turn_to_either_side() -> None:
    """Only the first value needs the last one: the others may be computed as their neighbours come."""
    f = tm.Function("f", params=[N], assume="N >= 2")
    c = f.input("c", tm.int64, [N])
    p = f.computation("p", {i: N}, c[i] * 2)
    q = f.computation("q", {i: (1, N)}, p[(i - 1) % N])
    f.outputs(q)
    q.store_in([i - 1])
    q.after(p, i)
    assert f.check().ok, f.check()
    c_ = np.arange(9, dtype=np.int64)
    assert np.array_equal(f.compile()(c=c_), 2 * c_[:-1])


def test_a_wrapped_neighbour_that_comes_later_is_refused() -> None:
    f = tm.Function("f", params=[N], assume="N >= 1")
    c = f.input("c", tm.int64, [N])
    p = f.computation("p", {i: N}, c[i] * 2)
    q = f.computation("q", {i: N}, p[(i - 1) % N])
    f.outputs(q)
    q.after(p, i)
    violation = f.check().violations[0]
    assert (violation.kind, dict(violation.witness.params)) == ("order", {"N": 2})
    assert (violation.witness.reader, violation.witness.element) == (("q", (0,)), ("p", (1,)))


def test_an_index_modulo_the_wrong_size_is_refused() -> None:
    f = tm.Function("f", params=[N, T], assume="N >= 1 and T >= 1")
    c = f.input("c", tm.int64, [N])
    f.outputs(f.computation("p", {i: N}, c[(i - 1) % T]))
    violation = f.check().violations[0]
    assert violation.kind == "bounds"
    n, size = violation.witness.params["N"], violation.witness.params["T"]
    assert violation.witness.reader is not None
    assert (violation.witness.reader[1][0] - 1) % size >= n


def test_indices_of_which_nothing_is_known_are_one_reason() -> None:
    f = tm.Function("f", params=[N], assume="N >= 1")
    c, x = f.input("c", tm.int64, [N]), f.input("x", tm.int64, [N])
    f.outputs(f.computation("p", {i: N}, c[x[i] + 1] + c[x[i] * 2] + c[x[N - 1 - i]]))
    report = f.check()
    assert [violation.kind for violation in report.violations] == ["bounds"]
    assert "nothing is known of the indices x[i], x[N - 1 - i]" in report.violations[0].message


def ghosts(border: str) -> tuple[tm.Function, Any]:
    f = tm.Function("ghosts", params=[T, N], assume="T >= 1 and N >= 2")
    a = f.input("a", tm.float64, [N])

    def expression(h: Any) -> Any:
        left, right = (h[t, 0], h[t, N - 1]) if border == "mirrored" else (h[t, N - 1], h[t, 0])
        inside = tm.select(t == 0, a[i], (h[t - 1, i - 1] + h[t - 1, i + 1]) * 0.5)
        return tm.select(i == -1, left, tm.select(i == N, right, inside))

    h = f.computation("h", {t: T + 1, i: (-1, N + 1)}, expression)
    result = f.computation("result", {i: N}, h[T, i])
    f.outputs(result)
    h.store_in([t, i + 1])
    return f, h


@pytest.mark.parametrize("border", ["mirrored", "wrapped"])
def test_a_recurrence_with_ghost_cells_ends_and_computes(border: str) -> None:
    f, h = ghosts(border)
    assert [violation.kind for violation in f.check().violations] == ["order"]
    left, inside, right = h.separate_at(i, [0, N])
    left.after(inside, t)
    right.after(left, t)
    assert f.check().ok, f.check()
    a = np.random.default_rng(0).standard_normal(9)
    state = a
    for _ in range(5):
        state = np.pad(state, 1, mode="edge" if border == "mirrored" else "wrap")
        state = (state[:-2] + state[2:]) * 0.5
    assert np.array_equal(f.compile()(a=a, T=5), state)
    assert np.array_equal(f.evaluate(a=a, T=5), state)


def test_a_recurrence_without_an_end_is_refused_beside_its_border() -> None:
    f = tm.Function("f", params=[N], assume="N >= 3")
    a = f.input("a", tm.float64, [N])
    f.outputs(f.computation("h", {i: N}, lambda h: tm.select(i == 1, a[i], h[N - 1 - i])))
    assert f.check().violations[0].kind == "algorithm"
