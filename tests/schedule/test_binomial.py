"""recompute(every="binomial"): Revolve's number of levels computed again, the same bits, and what is refused."""

from __future__ import annotations

from functools import cache
from math import comb
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.schedule.test_recompute import N, T, arguments, i, t
from tests.schedule.test_recompute import rod as endless
from tiramisu_py.proof.theorem import check
from tiramisu_py.schedule.locality.binomial import binomial_tree, most_units, sweeps_needed


@cache
def fewest(units: int, places: int) -> int:
    """The fewest units computed to reverse some, by dynamic programming (Griewank and Walther, equation 2)."""
    if units == 1:
        return 0
    if places == 1:
        return units * (units - 1) // 2
    return min(a + fewest(units - a, places - 1) + fewest(a, places) for a in range(1, units))


@pytest.mark.parametrize("places", [1, 2, 3, 6])
def test_a_tree_computes_the_fewest_units(places: int) -> None:
    for units in range(1, 60):
        tree, sweeps = binomial_tree(units, places), sweeps_needed(units, places)
        assert len(tree.paths) == len({*tree.paths}) == units and list(tree.paths) == sorted(tree.paths)
        assert max(map(sum, tree.paths)) <= places  # the place of each, beside the one that a sweep ends in
        closed = sweeps * units - comb(places + sweeps, places + 1)
        assert units - 1 + tree.again() == fewest(units, places) == closed
        assert most_units(places, sweeps - 1) < units <= most_units(places, sweeps) if sweeps else units == 1


def rod(most: int) -> tm.Function:
    """The gradient of a nonlinear rod of at most so many steps."""
    f = tm.Function("rod", params=[T, N], assume=f"T >= 0 and T <= {most} and N >= 2")
    u0, c = f.input("u0", tm.float64, [N]), f.input("c", tm.float64, [N])

    def level(u: Any) -> Any:
        step = u[t - 1, i] + c[i] * u[t - 1, i] * (u[t - 1, i + 1] - u[t - 1, i])
        return tm.select(t == 0, u0[i], tm.select(i < N - 1, step, u[t - 1, i]))

    u = f.computation("u", {t: T + 1, i: N}, level)
    f.outputs(f.computation("last", {i: N}, u[T, i]))
    return tm.vjp(f, wrt=["c"]).step


def wave(most: int) -> tm.Function:
    """The gradient of a wave, whose levels read two levels before, of at most so many steps."""
    f = tm.Function("wave", params=[T, N], assume=f"T >= 0 and T <= {most} and N >= 2")
    u0, c = f.input("u0", tm.float64, [N]), f.input("c", tm.float64, [N])

    def level(u: Any) -> Any:
        step = 2 * u[t - 1, i] - u[t - 2, i] + c[i] * (u[t - 1, i + 1] - u[t - 1, i])
        return tm.select(t <= 1, u0[i], tm.select(i < N - 1, step, 0))

    u = f.computation("u", {t: T + 2, i: N}, level)
    f.outputs(f.computation("last", {i: N}, u[T + 1, i]))
    return tm.vjp(f, wrt=["c"]).step


def check_bits(kept: tm.Function, again: tm.Function, steps: list[int]) -> None:
    first, second = kept.compile(), again.compile()
    for count in steps:
        given = arguments(kept, 6, count)
        np.testing.assert_array_equal(first(**given), second(**given))


def test_revolve_keeps_the_bits_and_computes_as_much_as_its_closed_form_says() -> None:
    kept, again = rod(9), rod(9)
    again["u"].recompute(t, every="binomial", levels=4)
    again["d_u"].fold(t, 2)
    assert again.check().ok, again.check()
    assert "bits preserved" in str(again.check())
    counted = {one.name: one.instances for one in again.cost(T=9, N=50).statements}
    levels = 9  # those that are read late: 0 to 8
    assert counted["u"] == 10 * 50
    assert levels - 1 + counted["u_between"] // 50 == fewest(levels, 3)  # three places, and what a sweep ends with
    assert again.cost("memory", T=9, N=50).peak == (4 + 2 + 2) * 8 * 50  # u_kept, u_between; u and d_u take turns
    check_bits(kept, again, [0, 1, 5, 8, 9])


@pytest.mark.slow
@pytest.mark.parametrize(("most", "levels"), [(12, 3), (20, 7)])
def test_sweeps_inside_of_sweeps(most: int, levels: int) -> None:
    kept, again = rod(most), rod(most)
    again["u"].recompute(t, every="binomial", levels=levels)
    again["d_u"].fold(t, 2)
    assert again.check().ok, again.check()
    computed = {one.name: one.instances for one in again.cost(T=most, N=50).statements if "between" in one.name}
    swept = sum(count for name, count in computed.items() if not name.endswith("start"))
    assert most - 1 + swept // 50 == fewest(most, levels - 1)
    check_bits(kept, again, [0, 1, most // 2, most - 1, most])


@pytest.mark.slow
def test_values_that_read_two_levels_have_two_in_each_place() -> None:
    kept, again = wave(13), wave(13)
    again["u"].recompute(t, every="binomial", levels=3)
    assert again.check().ok, again.check()
    assert f"{3 * 2 * 8 * 50}  u_kept" in str(again.cost("memory", T=13, N=50))
    check_bits(kept, again, [0, 1, 6, 12, 13])


def test_one_place_less_than_the_program_needs_is_refused() -> None:
    f = rod(9)
    f["u"].recompute(t, every="binomial", levels=4)
    f["d_u"].fold(t, 1)
    report = f.check()
    assert not report.ok and report.violations[0].kind == "overwritten"


@pytest.mark.parametrize("name", ["u_kept2", "u_between_start", "u_between", "u_kept_again"])
def test_each_copy_and_each_sweep_is_needed(name: str) -> None:
    f = rod(9)
    f["u"].recompute(t, every="binomial", levels=4)
    program = f.completed
    assert name in program.statements
    assert not check(program.with_(statements={n: s for n, s in program.statements.items() if n != name})).ok


def twice() -> tm.Function:
    """Levels of which each late reader takes two, last one first."""
    f = tm.Function("twice", params=[T, N], assume="T >= 0 and T <= 40 and N >= 1")
    first = f.input("first", tm.float64, [N])
    u = f.computation("u", {t: T + 2, i: N}, lambda u: tm.select(t == 0, first[i], u[t - 1, i] * 1.25 + i))
    top = f.computation("top", {i: N}, u[T + 1, i])
    y = f.computation("y", {t: T + 1, i: N}, (u[t + 1, i] - u[t, i]) / top[i])
    f.outputs(y)
    y.reverse(t)
    return f


def upwards() -> tm.Function:
    """Levels that are read again in their own order."""
    f = tm.Function("upwards", params=[T, N], assume="T >= 0 and T <= 9 and N >= 1")
    first = f.input("first", tm.float64, [N])
    u = f.computation("u", {t: T + 1, i: N}, lambda u: tm.select(t == 0, first[i], u[t - 1, i] * 1.25 + i))
    top = f.computation("top", {i: N}, u[T, i])
    f.outputs(f.computation("y", {t: T + 1, i: N}, u[t, i] / top[i]))
    return f


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (lambda: rod(9), {"every": "binomial"}, r"every='binomial' needs levels=, how many levels are kept: levels=10"),
    (lambda: rod(9), {"every": "binary", "levels": 4}, r"every='binary': give a number of levels, .* or 'binomial'"),
    (lambda: rod(9), {"every": 4, "levels": 4}, r"levels=4 is how many levels every='binomial' keeps, not every=4"),
    (lambda: rod(9), {"every": "binomial", "levels": 1}, "levels is 1: give an integer of at least 2"),
    (lambda: rod(9), {"every": "binomial", "levels": 9}, "u has 9 levels, which these places hold"),
    (endless, {"every": "binomial", "levels": 4}, r"how many levels u has at most.*assume=\"T <= 1000\""),
    (twice, {"every": "binomial", "levels": 4}, "the loop of y reads 2 levels of u in one iteration, .* give every=20"),
    (upwards, {"every": "binomial", "levels": 4}, "y reads levels of u in the order in which they are computed"),
]


@pytest.mark.parametrize(("program", "given", "words"), REFUSED)
def test_what_has_no_binomial_schedule_is_refused(program: Any, given: dict[str, Any], words: str) -> None:
    f = program()
    with pytest.raises(tm.CommandError, match=words):
        f["u"].recompute(t, **given)


@pytest.mark.slow
def test_files_hold_the_command(tmp_path: Any) -> None:
    f = rod(9)
    f["u"].recompute(t, every="binomial", levels=4)
    f.save(tmp_path / "rod.json")
    assert str(tm.load(tmp_path / "rod.json").show("lowered")) == str(f.show("lowered"))
