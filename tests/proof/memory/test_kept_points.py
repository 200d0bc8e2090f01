"""Steps that change some points and keep the others, in place: a copy stored over what it copies changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tiramisu_py as tm

T, N = tm.params("T N")
t, i, j = tm.iters("t i j")
Taps = Callable[[tm.Computation], tm.Expr]


def relaxed(taps: Taps, changed: tm.Expr, kept: Callable[[tm.Computation], tm.Expr] | None = None) -> tm.Function:
    """Points of a line that change in some steps, from neighbours, and are kept in others; in the caller's array."""
    f = tm.Function("relax", params=[T, N], assume="N >= 3")
    a = f.input("a", tm.float64, [N])
    inside = (t > 0) & (i > 0) & (i < N - 1) & changed
    same = kept or (lambda u: u[t - 1, i])
    u = f.computation(
        "u", {t: T + 1, i: N}, lambda u: tm.select(inside, taps(u), tm.select(t > 0, same(u), a[i])), dtype=tm.float64
    )
    f.outputs(u[T, i])
    u.store_in(a, [i])
    f["u_out"].store_in(a, [i])
    return f


def sides(u: tm.Computation) -> tm.Expr:
    return 0.5 * (u[t - 1, i - 1] + u[t - 1, i + 1])


@pytest.mark.parametrize(
    ("taps", "changed"),
    [
        (sides, (i + t) % 2 == 0),
        (lambda u: u[t - 1, i - 1] - u[t - 1, i], (i + t) % 2 == 1),
        (lambda u: 3.0 * u[t - 1, i], i % 3 == 1),
    ],
    ids=["red and black", "one side and itself", "itself"],
)
def test_points_that_are_kept_serve_their_readers_in_place(taps: Taps, changed: tm.Expr) -> None:
    f = relaxed(taps, changed)
    assert f.check().ok, f.check()
    kernel = f.compile()
    for steps, n in ((0, 3), (1, 4), (4, 9)):
        a = np.random.default_rng(n).random(n)
        np.testing.assert_array_equal(kernel(a=a.copy(), T=steps), f.evaluate(a=a.copy(), T=steps))


@pytest.mark.parametrize(
    ("taps", "changed", "kept"),
    [
        pytest.param(sides, i % 3 == t % 3, None, marks=pytest.mark.slow),
        (sides, i > 0, None),
        (sides, (i + t) % 2 == 0, lambda u: u[t - 1, i] + 0.0),
        (sides, (i + t) % 2 == 0, lambda u: u[t - 1, tm.minimum(i + 1, N - 1)]),
    ],
    ids=["another colour is between", "all points change", "kept but for the bits", "moved on"],
)
def test_a_value_that_is_replaced_before_it_is_read_is_refused(
    taps: Taps, changed: tm.Expr, kept: Callable[[tm.Computation], tm.Expr] | None
) -> None:
    report = relaxed(taps, changed, kept).check()
    assert {violation.kind for violation in report.violations} == {"overwritten"}


def concurrent(f: tm.Function, command: str) -> tm.Function:
    """The line with threads, or lanes."""
    u = f["u"]
    if command == "colours apart":
        of, colour = tm.iters("of colour")
        u.split(i, 2, of, colour)
        u.interchange(of, colour)
        u.parallelize(of)
    elif command == "lanes":
        u.vectorize(i, 4)
    else:
        u.parallelize(i)
    return f


@pytest.mark.parametrize("command", ["threads", "lanes", "colours apart"])
def test_a_place_may_be_read_where_another_iteration_stores_what_is_there(command: str) -> None:
    f = concurrent(relaxed(sides, (i + t) % 2 == 0), command)
    assert f.check().ok, f.check()
    kernel = f.compile(threads=2)
    for steps, n in ((0, 3), (1, 4), (5, 19)):
        a = np.random.default_rng(n).random(n)
        np.testing.assert_array_equal(kernel(a=a.copy(), T=steps), f.evaluate(a=a.copy(), T=steps))


@pytest.mark.parametrize(
    ("taps", "changed", "kept"),
    [
        (sides, (i + t) % 2 == 0, lambda u: u[t - 1, i] + 0.0),
        (lambda u: u[t - 1, i - 1] + u[t - 1, i], (i + t) % 3 != 0, None),
    ],
    ids=["kept but for the bits", "neighbours change"],
)
def test_a_place_that_another_iteration_changes_is_a_race(
    taps: Taps, changed: tm.Expr, kept: Callable[[tm.Computation], tm.Expr] | None
) -> None:
    report = concurrent(relaxed(taps, changed, kept), "threads").check()
    assert "race" in {violation.kind for violation in report.violations}


def test_what_stores_the_bits_that_it_has_loaded_is_in_order_with_changes() -> None:
    """Each row changes one element and keeps the others: the row that keeps it may store what it has loaded before."""
    f = tm.Function("diagonal", params=[N])
    x = f.input("x", tm.int32, [N])
    line = tm.Buffer("line", [N], tm.int32)
    v = f.computation(
        "v", {i: N, j: N}, lambda v: tm.select(j == i, x[i], tm.select(i > 0, v[i - 1, j], 0)), dtype=tm.int32
    )
    f.outputs(v[N - 1, j])
    v.store_in(line, [j])
    assert f.check().ok, f.check()
    v.parallelize(i)
    report = f.check()
    assert {violation.kind for violation in report.violations} == {"race"}


def test_colours_are_in_their_order_but_for_what_they_keep() -> None:
    """The colours of a step in turn: a store of what is there comes before a read that it came after."""
    f = relaxed(sides, (i + t) % 2 == 0)
    of, colour = tm.iters("of colour")
    f["u"].split(i, 2, of, colour)
    f["u"].interchange(of, colour)
    assert f.check().ok, f.check()
    with pytest.raises(tm.UnsupportedError, match="no certificate covers this yet"):
        f.certificate()
    sweep = relaxed(lambda u: u[t - 1, i + 1] + u[t - 1, i], i % 3 != 1)
    assert sweep.check().ok, sweep.check()
    sweep["u"].split(i, 3, of, colour)
    sweep["u"].interchange(of, colour)
    assert {violation.kind for violation in sweep.check().violations} == {"overwritten"}


@pytest.mark.slow
@pytest.mark.parametrize("command", ["", "threads", "threads and lanes"])
def test_red_and_black_points_of_a_plane_are_relaxed_in_place(command: str) -> None:
    """Gauss and Seidel's method, of points of one colour at a time: Halide #4613."""
    f = tm.Function("redblack", params=[T, N], assume="N >= 3")
    a = f.input("a", tm.float64, [N, N])
    inside = (t > 0) & (i > 0) & (i < N - 1) & (j > 0) & (j < N - 1) & ((i + j + t) % 2 == 0)

    def next_of(u: tm.Computation) -> tm.Expr:
        around = u[t - 1, i - 1, j] + u[t - 1, i + 1, j] + u[t - 1, i, j - 1] + u[t - 1, i, j + 1]
        return tm.select(inside, 0.25 * around, tm.select(t > 0, u[t - 1, i, j], a[i, j]))

    u = f.computation("u", {t: 2 * T + 1, i: N, j: N}, next_of, dtype=tm.float64)
    f.outputs(u[2 * T, i, j])
    u.store_in(a, [i, j])
    f["u_out"].store_in(a, [i, j])
    if "threads" in command:
        u.parallelize(i)
    if "lanes" in command:
        u.vectorize(j, 4)
    assert f.check().ok, f.check()
    given = np.random.default_rng(0).random((13, 13))
    np.testing.assert_array_equal(f.compile(threads=2)(a=given.copy(), T=3), f.evaluate(a=given, T=3))
