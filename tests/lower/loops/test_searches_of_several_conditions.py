"""Loops whose variables several monotone tables bound: no condition is lost, and nothing outside of a table is read."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

N, M, K, A, B = tm.params("N M K A B")
n, p, k, j, n0, n1 = tm.iters("n p k j n0 n1")
LOW = np.array([0, 1, 2, 5, 5, 6], np.int32)
HIGH = np.array([1, 1, 1, 3, 6, 6], np.int32)
COMPARISONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def table(f: tm.Function, name: str, count: Any, most: Any) -> Any:
    return f.input(name, tm.int32, [count], values=(0, most + 1), monotone=True)


@pytest.mark.parametrize("rising", [True, False])
def test_each_of_two_conditions_of_one_direction_holds(rising: bool) -> None:
    compare = operator.lt if rising else operator.ge
    f = tm.Function("both", params=[N, M])
    a, b = table(f, "a", N, M), table(f, "b", N, M)
    y = f.computation("y", {p: M, n: N}, 1.0 * n + 1, where=compare(p, a[n]) & compare(p, b[n]))
    z = f.reduction("z", {p: M}, {n: N}, tm.sum, 1.0 * n + 1, where=compare(p, a[n]) & compare(p, b[n]))
    f.outputs(y, z)
    assert f.check().ok and "_step_half" in f.show("pseudocode")
    place = np.arange(7)[:, None]
    terms = np.where(compare(place, LOW) & compare(place, HIGH), np.arange(1.0, 7), 0)
    for tables in ((LOW, HIGH), (HIGH, LOW)):
        found = f.evaluate(*tables, M=7, as_scheduled=True)
        np.testing.assert_array_equal(found[0], terms)
        np.testing.assert_array_equal(found[1], terms.sum(1))


def test_runs_are_found_by_one_search_beside_another_condition() -> None:
    f = tm.Function("cut", params=[N, M])
    run, b = f.segments("r", N, of=M, found="search"), table(f, "b", N, M)
    x = f.input("x", tm.float64, [M])
    y = f.reduction("y", {n: N}, {p: run[n]}, tm.sum, x[p], where=p < b[n])
    f.outputs(y)
    y.update.interchange(n, p)
    assert f.check().ok and f.show("pseudocode").count("_step_half =") == 1
    starts = np.array([0, 2, 3, 6], np.int32)
    for ends, want in (([5, 5, 6], [3, 3, 15]), ([1, 1, 5], [1, 0, 9])):
        found = f.evaluate(starts, np.array(ends, np.int32), np.arange(1.0, 7), as_scheduled=True)
        np.testing.assert_array_equal(found, want)


def test_a_condition_beside_one_that_a_loop_inside_weakens_holds() -> None:
    f = tm.Function("beside", params=[N, M, K], assume="K >= 1")
    a, b = table(f, "a", N + K, M), table(f, "b", N, M)
    exact, weak = p < b[n], p < a[n + k]
    y, z = (
        f.computation(name, {p: M, n: N, k: K}, 1.0 * n + 10 * k + 1, where=where)
        for name, where in (("y", exact & weak), ("z", weak & exact))
    )
    f.outputs(y, z)
    assert f.check().ok and f.show("pseudocode").count("n_first_step_half =") == 2
    places, rows, inner = np.ogrid[:7, :6, :3]
    wide = np.array([0, 0, 2, 2, 3, 4, 6, 6, 7], np.int32)
    want = np.where((places < HIGH[rows]) & (places < wide[rows + inner]), rows + 10.0 * inner + 1, 0)
    for found in f.evaluate(wide, HIGH, M=7, as_scheduled=True):
        np.testing.assert_array_equal(found, want)


def test_a_table_of_places_in_a_table_is_read_inside_only() -> None:
    f = tm.Function("nested", params=[N, K, A, B, M])
    q, s = table(f, "q", K + B, M - 1), table(f, "s", M, N)
    y = f.computation("y", {n: N, k: K, j: A}, 1.0 * k + j + 1, where=(j < B) & (n < s[q[k + j]]))
    f.outputs(y)
    assert f.check().ok and "k_first_step" in f.show("pseudocode")
    places, starts = np.sort(np.arange(17) % 7).astype(np.int32), np.array([0, 1, 1, 3, 4, 5, 9], np.int32)
    for a, b in ((20, 5), (3, 5)):
        rows, first, inner = np.ogrid[:9, :12, :a]
        read = starts[places[np.minimum(first + inner, 16)]]
        want = np.where((inner < b) & (rows < read), first + inner + 1.0, 0)[:, :, : min(a, b)]
        found = f.evaluate(places[: 12 + b], starts, N=9, K=12, A=a, B=b, as_scheduled=True)
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("dtype", [tm.int8, tm.uint8, tm.int32, tm.uint32], ids=str)
@pytest.mark.parametrize(
    "condition",
    [
        lambda own, t, high: own + high // 2 > p,
        lambda own, t, high: 3 - own < p,
        lambda own, t, high: 2 * own > p,
        lambda own, t, high: t[tm.clip(own + 1, 0, 3)] > p,
    ],
    ids=["sum", "difference", "product", "index"],
)
def test_arithmetic_that_may_wrap_is_not_searched(condition: Callable[[Any, Any, int], Any], dtype: Any) -> None:
    """The elements rise; what is computed from them in their type may fall, and in int64 it rises as they do."""
    low, high = dtype.limits
    values = np.array([max(low, -2), 0, 1, high // 2, high - 1, high], dtype.numpy)
    for wide in (False, True):
        f = tm.Function("wrapped", params=[N, M])
        a, t = f.input("a", dtype, [N], monotone=True), f.input("t", tm.int32, [4], monotone=True)
        where = condition(tm.cast(tm.int64, a[n]) if wide else a[n], t, high)
        f.outputs(f.reduction("y", {p: M}, {n: N}, tm.sum, 1.0 * n + 1, where=where))
        assert f.check().ok and ("_step_half" in f.show("pseudocode")) == wide
        given = {"a": values, "t": np.arange(4, dtype=np.int32)}
        np.testing.assert_array_equal(f.evaluate(**given, M=3, as_scheduled=True), f.evaluate(**given, M=3))


@pytest.mark.parametrize("searched", [True, False])
def test_lanes_stay_where_no_search_is_made(searched: bool) -> None:
    f = tm.Function("lanes", params=[N, M])
    a = table(f, "a", N, M)
    y = f.computation("y", {n: N, p: M}, 1.0 * n + 1, where=p < a[n] if searched else (p < a[n]) & ((n + p) % 3 < 2))
    f.outputs(y)
    y.interchange(n, p).vectorize(p, 4)
    text = f.show("pseudocode")
    assert f.check().ok and ("n_first" in text) == searched == ("vector(4)" not in text)


#: A condition: the table, the place of the loops in it, how its value is compared with p, and what is added to p.
Pick = tuple[str, str, str, int]
PLACES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "rising": lambda n, k, count: n,
    "rising, with a loop inside": lambda n, k, count: n + k,
    "falling": lambda n, k, count: count - 1 - n,
    "twice each": lambda n, k, count: n // 2,
    "falling, with a loop inside": lambda n, k, count: count - 1 - n + k,
}


def held(pick: Pick, tables: Mapping[str, Any], loops: Sequence[Any], count: Any) -> Any:
    """The condition, of expressions or of numbers; the table s is read at places of the table q."""
    name, place, comparison, shift = pick
    p, n, k = loops
    at = PLACES[place](n, k, count)
    return COMPARISONS[comparison](tables["s"][tables["q"][at]] if name == "s" else tables[name][at], p + shift)


@pytest.mark.parametrize("seed", range(30))
def test_any_conditions_are_those_of_numpy(seed: int) -> None:
    choice = random.Random(seed)
    f = tm.Function("any", params=[N, M, K], assume="K >= 1")
    inputs = {name: table(f, name, N + K, M) for name in "abq"} | {"s": table(f, "s", M + 1, M)}
    sums = choice.random() < 0.4
    picks = [
        (choice.choice("abqs"), choice.choice([*PLACES]), choice.choice([*COMPARISONS]), choice.choice([-1, 0, 1]))
        for _ in range(choice.randint(1, 3))
    ]
    where = reduce(operator.and_, (held(pick, inputs, (p, n, k), N) for pick in picks))
    term = 1.0 * n + 10 * k + 100 * p + 1
    if sums:
        y = f.reduction("y", {p: M}, {n: N, k: K}, tm.sum, term, where=where)
    else:
        y = f.computation("y", {p: M, n: N, k: K}, term, where=where)
    f.outputs(y)
    ordered(y.update if sums else y, choice)
    assert f.check().ok
    for rows, most, wide in ((1, 1, 1), (7, 5, 3), (4, 9, 6)):
        numbers = np.random.default_rng(seed + rows)
        sizes = {name: most + 1 if name == "s" else rows + wide for name in inputs}
        tables = {name: np.sort(numbers.integers(0, most + 1, size)).astype(np.int32) for name, size in sizes.items()}
        loops = np.ogrid[:most, :rows, :wide]
        holds = reduce(operator.and_, (held(pick, tables, loops, rows) for pick in picks))
        want = np.where(holds, loops[1] + 10.0 * loops[2] + 100 * loops[0] + 1, 0)
        want = want.sum((1, 2)) if sums else want
        found = f.evaluate(**tables, N=rows, M=most, K=wide, as_scheduled=True)
        box = tuple(map(slice, found.shape))  # no more of y than what the conditions leave of its domain
        np.testing.assert_array_equal(found, want[box])
        assert want.sum() == want[box].sum()


def ordered(command: Any, choice: random.Random) -> None:
    """Split n, and give the loops another order, perhaps."""
    inner = [n, k]
    if choice.random() < 0.4:
        command.split(n, 4, n0, n1)
        inner = [n0, n1, k]
    if choice.random() < 0.5:
        choice.shuffle(inner)
        inner.insert(choice.random() < 0.3, p)
        command.reorder(*inner)
