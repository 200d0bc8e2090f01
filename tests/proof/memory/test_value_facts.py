"""Conditions on values, and declared facts about them: what they rule out, and what they do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.errors import Violation

N, P = tm.params("N P")
i, p, v, i0, i1 = tm.iters("i p v i0 i1")


def scattered(dtype: Any = tm.int32, **facts: Any) -> tuple[tm.Function, Any]:
    """``placed[index[i]] = a[i]``"""
    f = tm.Function("scattered", params=[N])
    index = f.input("index", dtype, [N], values=(0, N), **facts)
    a = f.input("a", tm.float32, [N])
    y = f.computation("y", {i: N, v: N}, a[i], where=index[i] == v)
    y.store_in(tm.Buffer("placed", [N], tm.float32), [v])
    f.outputs(y)
    return f, y


def inverse(**facts: Any) -> tuple[tm.Function, Any]:
    """``y[index[i]] += i``, a reduction in the order of i"""
    f = tm.Function("inverse", params=[N])
    index = f.input("index", tm.int32, [N], values=(0, N), **facts)
    y = f.reduction("y", {v: N}, over={i: N}, op=tm.sum, expr=i, where=index[i] == v, dtype=tm.int64)
    f.outputs(y)
    return f, y


def rows(condition: Callable[[Any], Any] | None = None, **facts: Any) -> tuple[tm.Function, Any]:
    """``y[p] += a[p] * s[i]`` for the entries p of row i"""
    f = tm.Function("rows", params=[N, P])
    start = f.input("start", tm.int32, [N + 1], values=(0, P + 1), **facts)
    a, s = f.input("a", tm.float64, [P]), f.input("s", tm.float64, [N])
    where = (start[i] <= p) & (p < start[i + 1]) if condition is None else condition(start)
    y = f.reduction("y", {p: P}, over={i: N}, op=tm.sum, expr=a[p] * s[i], where=where)
    f.outputs(y)
    y.update.interchange(p, i)
    return f, y


def violation(f: tm.Function, kind: str) -> Violation:
    found = [each for each in f.check().violations if each.kind == kind]
    assert len(found) == 1, f.check()
    return found[0]


def test_a_scatter_through_a_permutation_is_parallel() -> None:
    f, y = scattered(permutation=True)
    y.parallelize(i)
    report = f.check()
    assert report.ok
    assert "declared: index is a permutation" in report.trusted


def test_a_scatter_without_the_fact_is_refused_with_the_fact_as_repair() -> None:
    f, y = scattered()
    overwritten = violation(f, "overwritten")
    assert overwritten.witness.params == {"N": 2}
    assert overwritten.repair.startswith("if index is a permutation, declare it so: permutation=True; otherwise ")
    y.parallelize(i)
    race = violation(f, "race")
    assert race.witness.params == {"N": 2}
    assert race.repair.startswith("if index is a permutation, declare it so: permutation=True; otherwise ")


def test_a_fact_that_is_not_needed_is_not_relied_upon() -> None:
    f, _ = inverse(permutation=True)
    report = f.check()
    assert report.ok
    assert "declared: index is a permutation" not in report.trusted


def test_a_reduction_through_a_permutation_needs_no_partial_results() -> None:
    f, y = inverse(permutation=True)
    y.update.parallelize(i)
    report = f.check()
    assert report.ok
    assert report.bits == "bits preserved"


def test_places_of_which_no_two_are_equal_are_parallel() -> None:
    f = tm.Function("placed", params=[N, P])
    index = f.input("index", tm.int32, [N], values=(0, P), distinct=True)
    a = f.input("a", tm.float32, [N])
    y = f.computation("y", {i: N, v: P}, a[i], where=index[i] == v)
    f.outputs(y)
    y.parallelize(i)
    report = f.check()
    assert report.ok and "declared: the elements of index are distinct" in report.trusted
    places, numbers = np.array([4, 0, 3], np.int32), np.array([5, 6, 7], np.float32)
    np.testing.assert_array_equal(f.compile()(places, numbers, P=6), [6, 0, 0, 7, 5, 0])
    np.testing.assert_array_equal(f.evaluate(places, numbers, P=6), [6, 0, 0, 7, 5, 0])


def test_places_that_are_too_many_for_a_permutation_are_to_be_declared_distinct() -> None:
    f = tm.Function("placed", params=[N, P])
    index = f.input("index", tm.int32, [N], values=(0, P))
    y = f.computation("y", {i: N, v: P}, tm.cast(tm.int32, i), where=index[i] == v)
    y.store_in(tm.Buffer("kept", [P], tm.int32), [v])
    f.outputs(y)
    y.parallelize(i)
    repair = violation(f, "race").repair
    assert repair.startswith("if the elements of index are distinct, declare it so: distinct=True; otherwise "), repair


def test_a_gather_through_distinct_places_has_an_adjoint_without_atomics() -> None:
    f = tm.Function("gathered", params=[N, P])
    index = f.input("index", tm.int32, [N], values=(0, P), distinct=True)
    x = f.input("x", tm.float64, [P])
    f.outputs(f.computation("y", {i: N}, 3 * x[index[i]]))
    step = tm.vjp(f, wrt=["x"]).step
    step["d_x"].update.parallelize(tm.iters("i_2")[0])
    report = step.check()
    assert report.ok and report.bits == "bits preserved", report
    assert "declared: the elements of index are distinct" in report.trusted


@pytest.mark.parametrize("facts", [{}, {"monotone": True}])
def test_a_reduction_through_other_indices_needs_them(facts: dict[str, bool]) -> None:
    f, y = inverse(**facts)
    y.update.parallelize(i)
    race = violation(f, "race")
    assert race.witness.params == {"N": 2}
    assert "combine=tm.PRIVATE" in race.repair


def test_a_range_in_which_no_permutation_lies_is_not_called_one() -> None:
    f = tm.Function("histogram", params=[N, P])
    index = f.input("index", tm.int32, [N], values=(0, P))
    y = f.reduction("y", {v: P}, over={i: N}, op=tm.sum, expr=1, where=index[i] == v, dtype=tm.int64)
    f.outputs(y)
    y.update.parallelize(i)
    assert "permutation" not in violation(f, "race").repair


def test_rows_between_monotone_starts_are_parallel() -> None:
    f, y = rows(monotone=True)
    y.update.parallelize(i)
    report = f.check()
    assert report.ok
    assert "declared: start is monotone" in report.trusted


def test_rows_between_other_starts_are_refused_with_the_fact_as_repair() -> None:
    f, y = rows()
    y.update.parallelize(i)
    race = violation(f, "race")
    assert race.witness.params == {"N": 3, "P": 1}  # neighbours share a bound, so that they are apart in any case
    assert race.repair.startswith("if start is monotone, declare it so: monotone=True; otherwise ")


def test_rows_may_share_an_array() -> None:
    f = tm.Function("packed", params=[N, P])
    start = f.input("start", tm.int32, [N + 1], values=(0, P + 1), monotone=True)
    a = f.input("a", tm.float64, [P])
    y = f.computation("y", {i: N, p: (start[i], start[i + 1])}, a[p] * i)
    y.store_in(tm.Buffer("entries", [P], tm.float64), [p])
    f.outputs(y)
    y.parallelize(i)
    assert f.check().ok
    starts, entries = np.array([0, 2, 2, 5], np.int32), np.arange(6.0)
    np.testing.assert_array_equal(f.compile()(starts, entries), [0, 0, 4, 6, 8, 0])


def test_rows_of_a_run_side_by_side_keep_their_positions_apart() -> None:
    """No run at small sizes executes what the conditions exclude: position 0 in two rows."""
    k, d = tm.iters("k d")
    f = tm.Function("messages", params=[N, P])
    start = f.input("start", tm.int32, [N + 1], values=(0, P + 1), monotone=True)
    h = f.input("h", tm.float32, [P, 4])
    y = f.reduction("y", {i: N, p: (start[i], start[i + 1]), d: 4}, {k: 4}, tm.sum, h[p, k] * d)
    f.outputs(y)
    y.update.unroll_and_jam(i, 4)
    assert f.check().ok, f.check()
    given = {"start": np.array([0, 2, 2, 3, 9, 9], np.int32), "h": np.ones((9, 4), np.float32)}
    np.testing.assert_array_equal(f.compile()(**given), f.evaluate(**given))


def test_a_permutation_that_is_overwritten_is_read_before() -> None:
    f = tm.Function("over", params=[N])
    index = f.input("index", tm.int32, [N], values=(0, N), permutation=True)
    y = f.computation("y", {i: N, v: N}, tm.cast(tm.int32, i), where=index[i] == v)
    f.outputs(y)
    y.store_in(index, [v])
    found = violation(f, "overwritten")  # the condition of y[0, 1] is read although it does not hold
    assert found.witness.params == {"N": 2}
    y.parallelize(i)
    assert {"overwritten", "race"} == {each.kind for each in f.check().violations}


# -- against all arrays of small sizes


@dataclass(frozen=True)
class Case:
    """A condition under which iteration i stores to place p, in tiramisu_py and in Python; `proven` if it is to be."""

    condition: Callable[[Any, Any, Any], Any]
    facts: tuple[str, ...] = ()
    proven: bool = False


def both(*conditions: Any) -> Any:
    found = conditions[0]
    for condition in conditions[1:]:
        found = found & condition
    return found


CASES = {
    "rows": Case(lambda s, i, p: both(s[i] <= p, p < s[i + 1]), ("monotone",), True),
    "rows without a fact": Case(lambda s, i, p: both(s[i] <= p, p < s[i + 1])),
    "rows with both ends": Case(lambda s, i, p: both(s[i] <= p, p <= s[i + 1]), ("monotone",)),
    "rows without either end": Case(lambda s, i, p: both(s[i] < p, p < s[i + 1]), ("monotone",), True),
    "rows from the end": Case(lambda s, i, p: both(s[i] < p, s[i + 1] >= p), ("monotone",), True),
    "rows of twice the length": Case(lambda s, i, p: both(s[i] <= p, p < s[i + 2]), ("monotone",)),
    "every second row": Case(lambda s, i, p: both(s[2 * i] <= p, p < s[2 * i + 1]), ("monotone",), True),
    "rows backwards": Case(lambda s, i, p: both(s[3 - i] <= p, p < s[4 - i]), ("monotone",), True),
    "rows moved by their number": Case(lambda s, i, p: both(s[i] <= p - i, p - i < s[i + 1]), ("monotone",), True),
    "rows moved back by their number": Case(lambda s, i, p: both(s[i] <= p + i, p + i < s[i + 1]), ("monotone",)),
    "an end alone": Case(lambda s, i, p: p < s[i], ("monotone", "permutation")),
    "a permutation": Case(lambda s, i, p: s[i] == p, ("permutation",), True),
    "a permutation, moved": Case(lambda s, i, p: p + 1 == s[i + 1], ("permutation",), True),
    "a permutation of pairs": Case(lambda s, i, p: s[i // 2] == p, ("permutation",)),
    "a permutation, halved": Case(lambda s, i, p: s[i] == p // 2 * 2, ("permutation",), True),
    "a permutation, at most": Case(lambda s, i, p: s[i] <= p, ("permutation",)),
    "a permutation, or not": Case(lambda s, i, p: (s[i] == p) | (p == 0), ("permutation",)),
    "a permutation, skewed": Case(lambda s, i, p: s[i] == p + i, ("permutation",)),
    "distinct": Case(lambda s, i, p: s[i] == p, ("distinct",), True),
    "distinct, of pairs": Case(lambda s, i, p: s[i // 2] == p, ("distinct",)),
    "distinct, skewed": Case(lambda s, i, p: s[i] == p + i, ("distinct",)),
    "sorted": Case(lambda s, i, p: s[i] == p, ("monotone",)),
    "sorted, spread": Case(lambda s, i, p: s[i] == p - i, ("monotone",), True),
    "sorted, drawn together": Case(lambda s, i, p: s[i] == p + i, ("monotone",)),
    "the same element": Case(lambda s, i, p: s[0] == p - i, (), True),
    "the same element, folded": Case(lambda s, i, p: s[0] == p - i // 2),
}

#: Iterations, and elements of the array of values, whose values are 0 to LENGTH - 1.
ITERATIONS, LENGTH = 3, 6


def arrays(facts: tuple[str, ...]) -> Iterator[tuple[int, ...]]:
    """The arrays of which the facts hold."""
    for array in product(range(LENGTH), repeat=LENGTH):
        if "monotone" in facts and list(array) != sorted(array):
            continue
        if {"permutation", "distinct"} & {*facts} and len(set(array)) < LENGTH:
            continue
        yield array


def conflict(case: Case) -> bool:
    """Whether two iterations store to one place, for some array of which the facts hold."""
    for array in arrays(case.facts):
        for place in range(LENGTH):
            if sum(bool(case.condition(array, number, place)) for number in range(ITERATIONS)) > 1:
                return True
    return False


@pytest.mark.parametrize("name", CASES)
def test_iterations_are_independent_only_if_no_array_makes_them_conflict(name: str) -> None:
    case = CASES[name]
    f = tm.Function("stores", params=[])
    s = f.input("s", tm.int32, [LENGTH], values=(0, LENGTH), **dict.fromkeys(case.facts, True))
    a = f.input("a", tm.float32, [ITERATIONS])
    where = case.condition(s, i, p)
    y = f.reduction("y", {p: LENGTH}, over={i: ITERATIONS}, op=tm.sum, expr=a[i], where=where)
    f.outputs(y)
    y.update.interchange(p, i).parallelize(i)
    accepted = f.check().ok
    assert not (accepted and conflict(case))
    assert accepted == case.proven


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("backwards", [False, True])
def test_values_share_elements_only_if_no_array_gives_one_to_two_of_them(name: str, backwards: bool) -> None:
    case = CASES[name]
    f = tm.Function("shared", params=[])
    s = f.input("s", tm.int32, [LENGTH], values=(0, LENGTH), **dict.fromkeys(case.facts, True))
    a = f.input("a", tm.float32, [ITERATIONS])
    y = f.computation("y", {i: ITERATIONS, p: LENGTH}, a[i], where=case.condition(s, i, p))
    y.store_in(tm.Buffer("kept", [LENGTH], tm.float32), [p])
    f.outputs(y)
    if backwards:
        y.reverse(i)
    accepted = f.check().ok
    assert not (accepted and conflict(case))
    assert accepted == case.proven


@pytest.mark.parametrize("dtype", [tm.int8, tm.uint8, tm.int16, tm.uint32, tm.int64])
def test_facts_are_used_whatever_the_type_of_the_values(dtype: Any) -> None:
    f, y = scattered(dtype, permutation=True)
    y.parallelize(i)
    assert f.check().ok


def test_a_form_that_may_wrap_excludes_nothing() -> None:
    f = tm.Function("wrapping", params=[])
    index = f.input("index", tm.int32, [600], values=(0, 600), permutation=True)
    a = f.input("a", tm.float32, [600])
    where = index[i] == tm.cast(tm.int32, tm.cast(tm.int8, i) + tm.cast(tm.int8, v))
    y = f.reduction("y", {v: 600}, over={i: 600}, op=tm.sum, expr=a[i], where=where)
    f.outputs(y)
    y.update.parallelize(i)
    assert violation(f, "race").kind == "race"
