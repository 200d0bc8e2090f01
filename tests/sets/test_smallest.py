"""The smallest element of a set with parameters."""

from __future__ import annotations

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.sets import smallest


def test_parameters_have_the_least_sum_not_the_least_first() -> None:
    found = smallest.smallest_params(isl.Set("[N, M] -> { [i] : 3 N + M >= 12 and 0 <= M <= 3 and 0 <= i < N }"))
    assert found == min(({"N": n, "M": m} for n in range(1, 9) for m in range(4) if 3 * n + m >= 12), key=_by_sum)
    assert all(type(value) is int for value in found.values())


def _by_sum(values: dict[str, int]) -> tuple[int, int]:
    return sum(values.values()), values["N"]


def test_a_large_second_parameter_does_not_win() -> None:
    apart = isl.Set("[N, M] -> { [] : (N = 1 and M = 1000000) or (N = 2 and M = 2) }")
    assert smallest.smallest_params(apart) == {"N": 2, "M": 2}


def test_relations_have_smallest_parameters_too() -> None:
    assert smallest.smallest_params(isl.Map("[N] -> { A[i] -> B[j] : 3 <= i < j < N }")) == {"N": 5}


def test_a_set_without_parameters_has_none() -> None:
    assert smallest.smallest_params(isl.Set("{ [3] }")) == {}


def test_the_first_element_is_the_lexicographic_minimum() -> None:
    assert smallest.first(isl.Set("{ [i, j] : 0 <= i < 3 and 5 - i <= j < 9 }")) == (0, 5)


def test_the_minimum_is_found_where_divisions_are_involved() -> None:
    folded = isl.Set("{ [i, j] : exists e : 2e <= i <= 2e + 1 and 3 <= e and j = i - 2e and 0 <= i < 20 }")
    expected = min((a, b) for a in range(20) for b in range(2) if a % 2 == b and a // 2 >= 3)
    assert smallest.first(folded) == expected


def test_the_earliest_element_is_first_in_time() -> None:
    space = isl.Set("[N] -> { A[i, j] : 0 <= i < N and 0 <= j < N }")
    i, j = sets.variables(space.get_space())
    backwards = sets.function(space.get_space(), None, [j.neg(), i])
    assert smallest.earliest(space, backwards, {"N": 3}) == (0, 2)


def test_the_latest_element_is_last_in_time() -> None:
    space = isl.Set("[N] -> { A[i, j] : 0 <= i < N and 0 <= j < N }")
    i, j = sets.variables(space.get_space())
    transposed = sets.function(space.get_space(), None, [j, i])
    fixed = smallest.at(space, {"N": 3})
    assert smallest.latest(fixed, transposed, {"N": 3}) == ((2, 2), (2, 2))


def test_a_function_is_evaluated_at_one_element() -> None:
    space = isl.Set("[N] -> { A[i] : 0 <= i < N }").get_space()
    (i,) = sets.variables(space)
    halves = sets.function(space, "B", [sets.floor_div(i, 2), sets.parameter(space, "N").sub(i)])
    assert smallest.evaluated(halves, (5,), {"N": 9}) == (2, 4)
