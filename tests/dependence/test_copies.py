"""Values that are copies of others: a place that holds one of them holds all, and nothing else is equal."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.oracle.judges.judge import judge, sizes

T, N = tm.params("T N")
t, i, j, k = tm.iters("t i j k")
RNG = np.random.default_rng(0)


def in_place(name: str, dtype: Any, value: Callable[[Any, Any], Any]) -> tm.Function:
    """N levels of an N x N matrix, all in the caller's array."""
    f = tm.Function(name, params=[N], assume="N >= 1")
    A = f.input("A", dtype, [N, N])
    a = f.computation("a", {k: N + 1, i: N, j: N}, lambda a: tm.select(k == 0, A[i, j], value(A, a)))
    f.outputs(a[N, i, j])
    a.store_in(A, [i, j])
    f["a_out"].store_in(A, [i, j])
    return f


def lu(rows: int = 0) -> tm.Function:
    """The rows above the pivot, and the columns left of it, are those of the level before."""
    return in_place("lu", tm.float64, lambda A, a: tm.select(
        (i < k + rows) | (j < k - 1), a[k - 1, i, j], tm.select(
            j == k - 1, a[k - 1, i, j] / a[k - 1, j, j], a[k - 1, i, j] - a[k, i, k - 1] * a[k - 1, k - 1, j])),
    )  # fmt: skip


def paths(row: bool = True, column: bool = True) -> tm.Function:
    """Floyd and Warshall: where no path is negative, the row and the column of the pivot do not change."""

    def value(_: Any, a: Any) -> Any:
        shorter = tm.minimum(a[k - 1, i, j], a[k - 1, i, k - 1] + a[k - 1, k - 1, j])
        same = (i == k - 1) if row else (i == -1)
        return tm.select(same | ((j == k - 1) if column else (j == -1)), a[k - 1, i, j], shorter)

    return in_place("paths", tm.int32, value)  # fmt: skip


def seidel() -> tm.Function:
    """A border that each level takes from the input, in the array of the input."""
    f = tm.Function("seidel", params=[T, N], assume="T >= 1 and N >= 3")
    a = f.input("a", tm.float64, [N])
    h = f.computation(
        "h",
        {t: T + 1, i: N},
        lambda h: tm.select((t == 0) | (i == 0) | (i == N - 1), a[i], (h[t, i - 1] + h[t - 1, i + 1]) * 0.5),
    )
    f.outputs(h[T, i])
    h.store_in(a, [i])
    f["h_out"].store_in(a, [i])
    return f  # fmt: skip


@pytest.mark.parametrize("made", [lu, paths, seidel])
def test_programs_whose_copies_keep_their_places_run_in_the_callers_array(made: Callable[[], tm.Function]) -> None:
    f = made()
    report = f.check()
    assert report.ok, report
    kernel = f.compile()
    (name,) = f.algorithm.inputs
    for n in (3, 4, 7, 16, 17):
        shape = (n,) * len(f.algorithm.inputs[name].shape)
        array = np.abs(RNG.standard_normal(shape)) * 100 + 1
        array = array.astype(f.algorithm.inputs[name].dtype.numpy)
        values = {"N": n, "T": 4} if "T" in f.program.algorithm.params else {"N": n}
        np.testing.assert_array_equal(kernel(array.copy(), **values), f.evaluate(**{name: array}, **values))


@pytest.mark.parametrize(
    ("made", "least"),
    [(lambda: paths(row=False), 2), (lambda: paths(column=False), 2), (lambda: lu(rows=-1), 2)],
    ids=["a row changes", "a column changes", "the pivot's row changes"],
)
def test_with_one_copy_less_they_are_refused_at_the_least_size(made: Callable[[], tm.Function], least: int) -> None:
    f = made()
    report = f.check()
    assert not report.ok
    found = min(v.witness.params["N"] for v in report.violations if v.witness is not None)
    assert found == least
    assert judge(f.program, {"N": least})
    assert not judge(f.program, {"N": least - 1})


def two(value: Callable[[Any], Any], place: Callable[[], list[Any]] = lambda: [i]) -> tm.Function:
    """b is made of a and stored in its array, and z reads a afterwards."""
    f = tm.Function("two", params=[N], assume="N >= 2")
    a = f.input("a", tm.int32, [N])
    b = f.computation("b", {i: N}, value(a))
    z = f.computation("z", {i: N}, a[i] + 1)
    z.after(b, tm.root)
    f.outputs(b, z)
    b.store_in(a, place())
    return f


@pytest.mark.parametrize(
    ("value", "ok"),
    [
        (lambda a: a[i], True),
        (lambda a: tm.select(i == 1, a[i], a[i]), True),
        (lambda a: a[i] + 1, False),
        (lambda a: a[N - 1 - i], False),
        (lambda a: tm.select(i == 1, a[0], a[i]), False),
        (lambda a: tm.cast(tm.int32, tm.cast(tm.int8, a[i])), False),
        (lambda a: tm.select(a[i] > 0, a[i], a[i] * 2), False),
    ],
    ids=["copied", "in both cases", "changed", "reversed", "from elsewhere", "narrowed", "by value"],
)
def test_a_reader_finds_a_copy_in_place_of_the_value(value: Callable[[Any], Any], ok: bool) -> None:
    f = two(value)
    assert f.check().ok == ok
    assert (not judge(f.program, {"N": 3})) == ok


@pytest.mark.parametrize("save", [True, False], ids=["saved and stored back", "stored where it was"])
def test_nothing_stores_to_an_input_that_is_no_output(save: bool) -> None:
    """Its array may be read-only, or passed as another input too: the caller must never see a change."""
    f = tm.Function("restored", params=[N], assume="N >= 1")
    a, b = f.input("a", tm.int32, [N]), f.input("b", tm.int32, [N])
    s = f.computation("s", {i: N}, a[i])
    doubled = f.computation("doubled", {i: N}, s[i] * 2)
    z = f.computation("z", {i: N}, doubled[i] + b[i])
    back = f.computation("back", {i: N}, s[i])
    f.outputs(z)
    back.store_in(a, [i])
    if save:
        doubled.store_in(a, [i])
        s.before(doubled, tm.root)
        z.after(doubled, tm.root)
        back.after(z, tm.root)
    report = f.check()
    assert not report.ok
    assert [v.witness.params for v in report.violations if v.witness is not None] == [{"N": 1}]
    assert "the caller's array a is changed: back[0] has been written to a[0]" in str(report)
    assert judge(f.program, {"N": 1})


def drawn(seed: int) -> tm.Function:
    """A recurrence with random cases, some of which are copies, in a random place."""
    choice = random.Random(seed)
    f = tm.Function("drawn", params=[T, N], assume="T >= 1 and N >= 2")
    a = f.input("a", tm.int32, [N + 2])
    tests = [i == 0, i == N - 1, i < t, i + t >= N, t == 1, i == t, i < 2]

    def value(h: Any) -> Any:
        reads = [h[t - 1, i], h[t - 1, tm.minimum(i + 1, N - 1)], h[t - 1, tm.maximum(i - 1, 0)]]
        body: Any = choice.choice(reads) + choice.choice(reads)
        for _ in range(choice.randint(1, 3)):
            copied = choice.choice([h[t - 1, i], h[t - 1, i], a[i], reads[1]])
            body = tm.select(choice.choice(tests), copied, body)
        return tm.select(t == 0, a[i], body)

    h = f.computation("h", {t: T + 1, i: N}, value)
    f.outputs(h[T, i])
    tiled = choice.random() < 0.3
    place = choice.choice(("array", "fold", "two") if tiled else ("array", "fold", "two", "skewed"))
    if place == "array":
        h.store_in(a, [i])
        f["h_out"].store_in(a, [i])
    else:
        h.store_in({"fold": [i], "two": [t % 2, i], "skewed": [(i + t) % 5]}[place])
    if choice.random() < 0.3:
        h.reverse(i)
    if tiled:
        h.tile({t: 2, i: 3})
    return f


@pytest.mark.parametrize("seed", range(60))
def test_the_proof_agrees_with_a_judge_that_follows_copies_by_hand(seed: int) -> None:
    f = drawn(seed)
    report = f.check()
    assert not any(v.kind == "unknown" for v in report.violations), report
    failing = [params for params in sizes(f.program, 4) if judge(f.program, params)]
    if report.ok:
        assert not failing
    elif not any(word in str(command) for command in f.commands for word in ("tile", "%")):
        for violation in report.violations:
            assert violation.witness is not None
            assert judge(f.program, dict(violation.witness.params)), violation
