"""Programs that are long, expressions that are deep, and subexpressions that stand in many places."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.algorithm import stacks, traversal
from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.backends import emit

N = tm.params("N")[0]
i, v, w = tm.iters("i v w")


def _left_deep(a: Any, terms: int) -> Expr:
    total = a[i]
    for k in range(terms):
        total = total + a[i] * (k % 7)
    return total


def _right_deep(a: Any, terms: int) -> Expr:
    total = a[i]
    for k in range(terms):
        total = a[i] * (k % 7) - total
    return total


def _choices(a: Any, terms: int) -> Expr:
    chosen = a[i]
    for k in range(terms):
        chosen = tm.select(a[i] < 0.1 * (k % 5), a[i] * (k % 7), chosen)
    return chosen


def _calls(a: Any, terms: int) -> Expr:
    value = a[i]
    for _ in range(terms):
        value = tm.sqrt(value + 1)
    return value


def _doubled(a: Any, times: int) -> Expr:
    value = a[i]
    for _ in range(times):
        value = (value + value) * 0.5
    return value


def _table(a: Any, entries: int) -> Expr:
    value = a[i]
    for k in range(entries):
        value = tm.select(i == k, a[i] * (k % 7), value)
    return value


def _by_index(a: Any, choices: int) -> Expr:
    value = a[i]
    for k in range(choices):
        value = tm.select(i < k, value, a[i] + value)
    return value


def _gathered(a: Any, times: int) -> Expr:
    value = a[i]
    for _ in range(times):
        value = a[tm.clip(tm.cast(tm.int32, value + value), 0, N - 1)]
    return value


def _function(make: Callable[[Any, int], Expr], size: int) -> tm.Function:
    f = tm.Function("f", params=[N], assume="N >= 1")
    a = f.input("a", tm.float64, [N])
    f.outputs(f.computation("p", {i: N}, make(a, size)))
    return f


ARRAY = np.random.default_rng(0).random(21)

KINDS = [(_left_deep, 200), (_right_deep, 200), (_choices, 150), (_calls, 150), (_doubled, 60), (_table, 40)]


@pytest.mark.parametrize(("make", "size"), KINDS)
def test_deep_expressions_are_checked_shown_and_compiled(make: Callable[[Any, int], Expr], size: int) -> None:
    f = _function(make, size)
    assert f.check().ok and f.show("pseudocode")
    np.testing.assert_array_equal(f.compile()(ARRAY), f.evaluate(ARRAY))


@pytest.mark.parametrize(("make", "size"), KINDS[:5])
def test_they_are_right_in_vectors(make: Callable[[Any, int], Expr], size: int) -> None:
    f = _function(make, size)
    f["p"].vectorize(i, 8)
    np.testing.assert_array_equal(f.compile()(ARRAY), f.evaluate(ARRAY))


@pytest.mark.parametrize("make", [_left_deep, _right_deep, _choices, _calls, _doubled])
def test_thousands_of_terms_are_typed_printed_compared_and_evaluated(make: Callable[[Any, int], Expr]) -> None:
    f = tm.Function("f", params=[N], assume="N >= 1")
    a = f.input("a", tm.float64, [N])
    value, again = make(a, 3_000), make(a, 3_000)
    assert value.same_as(again) and hash(value.key()) == hash(again.key()) and not value.same_as(value + 1)
    assert len(str(value)) < 200_000 and repr(value) == str(value)
    assert sum(1 for _ in traversal.walk(typed(value))) < 30_000
    f.outputs(f.computation("p", {i: N}, value))
    assert f.evaluate(ARRAY).shape == ARRAY.shape


def test_a_sum_of_ten_thousand_terms_is_right() -> None:
    f = _function(_left_deep, 10_000)
    expected = ARRAY.copy()
    for k in range(10_000):
        expected = expected + ARRAY * float(k % 7)
    np.testing.assert_array_equal(f.evaluate(ARRAY), expected)
    lowered = f.show("lowered")
    assert lowered.body is not None and len(emit(lowered)["f.c"]) < 600_000


def test_what_stands_in_many_places_is_named_once() -> None:
    f = _function(_doubled, 40)  # 2**40 places
    text = f.source()["f.c"]
    assert len(text) < 40_000 and text.count("part_39 =") == 1
    np.testing.assert_array_equal(f.compile()(ARRAY), ARRAY)


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("make", [_by_index, _gathered])
def test_what_both_branches_or_indices_share_is_named_once(make: Callable[[Any, int], Expr], lanes: int) -> None:
    f = _function(make, 20)  # 2**20 places
    if lanes > 1:
        f["p"].vectorize(i, lanes)
    assert len(f.source()["f.c"]) < 54_000
    np.testing.assert_array_equal(f.compile(sanitize=("undefined",))(ARRAY), f.evaluate(ARRAY))


@pytest.mark.parametrize("lanes", [1, 4])
def test_what_a_condition_on_indices_guards_is_named_under_the_condition(lanes: int) -> None:
    f = tm.Function("f", params=[N], assume="N >= 1")
    a = f.input("a", tm.float64, [N])
    before, after = a[i - 1], a[i + 1]
    for _ in range(30):
        before, after = (before + before) * 0.5, (after + after) * 0.5
    p = f.computation("p", {i: N}, tm.select(i > 0, before, tm.select(i < N - 1, after, a[i]) + 1))
    f.outputs(p)
    if lanes > 1:
        p.vectorize(i, lanes)
    assert len(f.source()["f.c"]) < 40_000
    for size in (1, 2, 21):
        given = np.ascontiguousarray(ARRAY[:size])
        expected = np.concatenate([given[1:2] + 1 if size > 1 else given + 1, given[:-1]])
        np.testing.assert_array_equal(f.compile(sanitize=("undefined",))(given), expected)


def test_a_chain_of_sums_of_neighbours_is_inlined_without_copies() -> None:
    f, stages = tm.Function("f", params=[N], assume="N >= 1"), 16
    stage: Any = tm.boundary.constant(f.input("a", tm.int64, [N]), 0)
    made = []
    for k in range(stages):
        stage = f.computation(f"c{k}", [i] if k < stages - 1 else {i: N}, stage[i] + stage[i + 1])
        made.append(stage)
    f.outputs(stage)
    for each in made[:-1]:
        each.inline()
    (last,) = f.program.storing
    assert sum(1 for _ in traversal.walk(last.body)) < 1_000  # 2**16 places
    values = np.arange(21)
    weights = [math.comb(stages, k) for k in range(stages + 1)]
    expected = [sum(w * v for w, v in zip(weights, values[k:], strict=False)) for k in range(21)]
    np.testing.assert_array_equal(f.compile()(values), expected)


def test_what_a_condition_on_indices_guards_is_read_where_it_holds_alone() -> None:
    f = tm.Function("f", params=[N], assume="N >= 1")
    a = f.input("a", tm.float64, [N])
    inner = a[i - 1]
    for k in range(300):
        inner = inner + a[i - 1] * (k % 3)
    p = f.computation("p", {i: N}, tm.select((i > 0) & (a[i] < 0.5), inner, a[i]) + 1)
    f.outputs(p)
    p.vectorize(i, 4)
    np.testing.assert_array_equal(f.compile(sanitize=("undefined",))(ARRAY), f.evaluate(ARRAY))


def _calls_in(work: Callable[[], object]) -> int:
    """How many functions of Python are called."""
    count = 0

    def profile(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def _costs(f: tm.Function) -> Iterator[int]:
    yield _calls_in(f.check)
    yield _calls_in(lambda: f.show("pseudocode"))
    lowered = f.show("lowered")
    yield _calls_in(lambda: emit(lowered))


@pytest.mark.parametrize(("make", "size"), [(_left_deep, 200), (_choices, 200), (_calls, 200), (_doubled, 60)])
def test_the_cost_grows_with_the_terms_and_not_faster(
    make: Callable[[Any, int], Expr], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stacks, "is_full", lambda most: False)  # profiles are of one thread
    few, many = _costs(_function(make, size)), _costs(_function(make, 2 * size))
    assert all(more < 2.6 * less for less, more in zip(few, many, strict=True))


def _chain(length: int, how: str = "apart") -> tm.Function:
    f = tm.Function("f", params=[N], assume="N >= 1")
    p: Any = f.input("a", tm.float32, [N])
    made = []
    for k in range(length):
        p = f.computation(f"c{k}", {i: N}, p[i] + 1)
        made.append(p)
    f.outputs(p)
    for before, after in pairwise(made):
        if how == "inlined":
            before.inline()
        elif how == "fused":
            after.after(before, i)
    return f


@pytest.mark.parametrize(("length", "how"), [(250, "apart"), (80, "fused"), (150, "inlined")])
def test_long_chains_are_checked_shown_emitted_and_undone(length: int, how: str) -> None:
    f = _chain(length, how)
    values = np.arange(5, dtype=np.float32)
    assert f.check().ok and f"c{length - 1}" in f.show("pseudocode") and f.source()
    np.testing.assert_array_equal(f.evaluate(values), values + length)
    if how != "apart":
        np.testing.assert_array_equal(f.compile()(values), values + length)
        f.undo()
        assert f.check().ok


def test_a_chain_without_a_schedule_compiles_and_runs() -> None:
    values = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(_chain(150).compile()(values), values + 150)


@pytest.mark.parametrize("how", ["apart", "fused", "inlined"])
def test_the_cost_of_a_chain_grows_with_its_length_and_not_faster(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "is_full", lambda most: False)
    few, many = _costs(_chain(20, how)), _costs(_chain(40, how))
    assert all(more < 2.6 * less for less, more in zip(few, many, strict=True))


def test_transfers_of_a_long_chain_are_derived() -> None:
    f = _chain(60)
    for k in range(0, 60, 10):
        f[f"c{k}"].split(i, 32, v, w)
        f[f"c{k}"].tag_gpu([v], [w])
    f.derive_transfers()
    assert f.check().ok


def test_the_blame_for_a_long_chain_is_found() -> None:
    f = _chain(120)
    f["c7"].store_in([i % 2])
    report = f.check()
    assert not report.ok and "c7.store_in" in str(report)
