"""Splits of a level: closed forms, and the best of all splits."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tiramisu_py as tm
from tiramisu_py.tuning.splitting import Cost, Division, LevelCut, fitted, makespan, split


class Anything:
    """Every value of at least 0 is allowed, up to `most`, that is a multiple of `step`."""

    def __init__(self, step: int = 1, at_least: int = 0) -> None:
        self.step, self.at_least = step, at_least

    def largest(self, chosen: object, name: str, most: int) -> int | None:
        value = most // self.step * self.step
        return value if value >= self.at_least else None

    def least(self, chosen: object, name: str, low: int = 0) -> int | None:
        return -(-max(low, self.at_least) // self.step) * self.step


def itself(value: int) -> int:
    return value


def level(extent: int, names: str = "G", executors: tuple[int, ...] | None = None) -> Division:
    cuts = tuple(LevelCut(name, itself) for name in names.split())
    return Division(0, extent, cuts, executors or tuple(range(len(cuts) + 1)))


def test_parts_get_iterations_in_the_proportion_of_their_rates() -> None:
    costs = [Cost(0, 1e-3), Cost(0, 3e-3)]
    assert split(level(8000), costs, Anything()) == {"G": 6000}
    three = [Cost(0, 1.0), Cost(0, 2.0), Cost(0, 4.0)]
    assert split(level(700, "G H"), three, Anything()) == {"G": 400, "H": 600}


def test_a_fixed_cost_is_made_up_for_by_fewer_iterations() -> None:
    found = split(level(1000), [Cost(100.0, 1.0), Cost(0, 1.0)], Anything())
    assert found == {"G": 450}  # 100 + 450 = 550


def test_a_part_whose_fixed_cost_does_not_pay_gets_nothing() -> None:
    assert split(level(100), [Cost(1000.0, 0.01), Cost(0, 1.0)], Anything()) == {"G": 0}
    assert split(level(100), [Cost(0, 1.0), Cost(1000.0, 0.01)], Anything()) == {"G": 100}


def test_assumptions_hold() -> None:
    costs = [Cost(0, 1.0), Cost(0, 1.0)]
    assert split(level(100), costs, Anything(step=32)) in ({"G": 32}, {"G": 64})
    assert split(level(100), costs, Anything(at_least=80)) == {"G": 80}
    with pytest.raises(tm.ArgumentError, match="the assumptions allow no value of G"):

        class Nothing(Anything):
            def largest(self, chosen: object, name: str, most: int) -> int | None:
                return None

        split(level(100), costs, Nothing())


def test_parts_of_one_executor_follow_each_other() -> None:
    costs = [Cost(0, 1.0), Cost(0, 1.0), Cost(0, 1.0)]
    found = split(level(100, "G H", (0, 1, 0)), costs, Anything())
    assert makespan(level(100, "G H", (0, 1, 0)), costs, found) == 50


def test_points_may_be_formulas_of_one_parameter() -> None:
    half = Division(0, 90, (LevelCut("G", lambda v: v // 2), LevelCut("G", itself)), (0, 1, 2))
    assert split(half, [Cost(0, 1.0)] * 3, Anything()) in ({"G": 60}, {"G": 61})
    falling = Division(0, 90, (LevelCut("G", lambda v: 90 - v),), (0, 1))
    assert split(falling, [Cost(0, 1.0), Cost(0, 2.0)], Anything()) == {"G": 30}
    constant = Division(0, 90, (LevelCut("G", itself), LevelCut(None, lambda _: 30)), (0, 1, 2))
    assert split(constant, [Cost(0, 2.0), Cost(0, 1.0), Cost(0, 0.1)], Anything())["G"] == 10


def test_points_of_two_parameters_that_take_turns_are_refused() -> None:
    turns = Division(0, 9, (LevelCut("G", itself), LevelCut("H", itself), LevelCut("G", lambda v: v + 2)), (0, 1, 2, 3))
    with pytest.raises(tm.ArgumentError, match="G and H alternate: give each a range"):
        split(turns, [Cost(0, 1.0)] * 4, Anything())


cost = st.builds(Cost, st.sampled_from([0.0, 0.0, 1.5, 7.0]), st.sampled_from([0.5, 1.0, 2.0, 3.3]))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 9), st.lists(cost, min_size=2, max_size=4))
def test_no_other_split_ends_earlier(extent: int, costs: list[Cost]) -> None:
    names = [f"p{k}" for k in range(len(costs) - 1)]
    division = level(extent, " ".join(names))
    every = (dict(zip(names, values, strict=True)) for values in product(range(extent + 1), repeat=len(names)))
    best = min(makespan(division, costs, at) for at in every)
    found = split(division, costs, Anything())
    assert makespan(division, costs, found) == pytest.approx(best, rel=1e-9)
    assert sum(division.iterations(found)) == extent


def test_two_runs_tell_a_fixed_cost_from_that_of_each_iteration() -> None:
    assert fitted([(100, 7.0), (50, 4.5)]) == pytest.approx((2.0, 0.05))
    assert fitted([(50, 4.5), (100, 7.0)]) == pytest.approx((2.0, 0.05))
    assert fitted([(100, 7.0)]) == pytest.approx((0.0, 0.07))


def test_runs_that_tell_no_growth_count_as_one() -> None:
    assert fitted([(100, 3.0), (50, 4.0)]) == pytest.approx((0.0, 0.03))
    assert fitted([(100, 10.0), (50, 1.0)]) == pytest.approx((0.0, 0.1))  # a fixed cost is never negative
    assert fitted([(0, 0.0), (0, 0.0)]) == (0.0, 0.0)
