"""Several values at once: how they are declared, named, evaluated and saved, and what they cannot be."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.algorithm.types import TupleType, tuple_type

N, K = tm.params("N K")
i, j, k, k0, k1 = tm.iters("i j k k0 k1")


def merged(a: Any, b: Any) -> tuple[Any, ...]:
    """Count, mean and sum of squared distances of two parts together (Welford; Chan, Golub and LeVeque)."""
    (n, mean, m2), (m, other, o2) = a, b
    total = n + m
    share = tm.select(total == 0, 0.0, m / total)
    apart = other - mean
    return total, mean + apart * share, m2 + o2 + apart * apart * n * share


def rescaled(a: Any, b: Any) -> tuple[Any, ...]:
    """The largest value, and the sum of exponentials relative to it (online softmax)."""
    (m, s), (n, t) = a, b
    top = tm.maximum(m, n)
    return top, tm.select(m == top, s, s * tm.exp(m - top)) + tm.select(n == top, t, t * tm.exp(n - top))


WELFORD = tm.operator("welford", merged, identity=(0.0, 0.0, 0.0), names=("count", "mean", "m2"))
SOFTMAX = tm.operator("softmax", rescaled, identity=(float("-inf"), 0.0), names=("max", "sum"))


def variance() -> tuple[tm.Function, Any]:
    f = tm.Function("variance", params=[N, K])
    a = f.input("a", tm.float64, [N, K])
    w = f.reduction("w", {i: N}, {k: K}, WELFORD, (1.0, a[i, k], 0.0))
    f.outputs(f.computation("var", {i: N}, w[i]["m2"] / w[i]["count"]))
    return f, w


def in_parts(w: Any) -> None:
    w.update.split(k, 4, k0, k1)
    w.update.rfactor(k1).update.parallelize(i)


@pytest.mark.parametrize("schedule", [lambda w: None, lambda w: w.update.parallelize(i), in_parts])
def test_a_variance_of_one_pass_is_that_of_two(schedule: Callable[[Any], Any]) -> None:
    f, w = variance()
    schedule(w)
    assert f.check().ok
    assert "the operator welford is associative" in str(f.check())
    assert ("changes the order in which the terms of w are combined" in str(f.check())) == (schedule is in_parts)
    for shape in ((1, 1), (5, 7), (3, 130)):
        a = np.random.default_rng(shape).normal(1e4, 2, shape)
        np.testing.assert_allclose(f.compile()(a), a.var(axis=1), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(f.evaluate(a), a.var(axis=1), rtol=1e-9, atol=1e-9)


def test_a_softmax_of_one_pass_is_that_of_three() -> None:
    f = tm.Function("softmax", params=[N, K])
    a = f.input("a", tm.float64, [N, K])
    s = f.reduction("s", {i: N}, {k: K}, SOFTMAX, (a[i, k], 1.0))
    f.outputs(f.computation("p", {i: N, k: K}, tm.exp(a[i, k] - s[i]["max"]) / s[i]["sum"]))
    s.update.interchange(i, k)
    s.update.vectorize(i, 4)
    x = np.random.default_rng(0).normal(0, 300, (6, 11))
    with np.errstate(under="ignore"):
        want = np.exp(x - x.max(axis=1, keepdims=True))
    want /= want.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(f.evaluate(x), want, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(f.compile()(x), want, rtol=1e-12, atol=1e-300)


def test_components_are_named_by_number_name_or_unpacking() -> None:
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.float32, [N])
    best = f.reduction("best", {}, {i: N}, tm.argmin, a[i])
    value, index = best[()]
    assert (value.dtype, index.dtype) == (tm.float32, tm.int64)
    assert value.same_as(best[()][0]) and index.same_as(best[()]["index"]) and index.same_as(best[()][-1])
    assert str(index) == "best[1]" and best.dtype.name == "(value: float32, index: int64)"
    f.outputs(f.computation("both", {}, value + index))
    assert f.evaluate(np.float32([3, 1, 2])) == 2.0


def test_a_computation_may_have_several_values() -> None:
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int32, [N])
    ends = f.computation("ends", {i: N}, (tm.minimum(a[i], 0), tm.maximum(a[i], 0), i))
    f.outputs(f.computation("sum", {i: N}, ends[i][0] + ends[i][1] + ends[i][2]), ends)
    ends.vectorize(i, 4)
    x = np.int32([5, -3, 0, 7, -9])
    want = [x + np.arange(5), np.minimum(x, 0), np.maximum(x, 0), np.arange(5)]
    for found in (f.evaluate(x), f.compile()(x)):
        for got, one in zip(found, want, strict=True):
            np.testing.assert_array_equal(got, one)


def test_elements_that_nothing_computes_keep_what_the_caller_gave() -> None:
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int32, [N])
    f.outputs(f.computation("p", {i: (1, N)}, (a[i], -a[i]), shape=[N]))
    given, x = np.int32([9, 9, 9]), np.int32([1, 2, 3])
    np.testing.assert_array_equal(f.evaluate(a=x, p_0=given)[0], [9, 2, 3])
    np.testing.assert_array_equal(f.evaluate(a=x, p_0=given)[1], [0, -2, -3])
    np.testing.assert_array_equal(f.compile()(a=x, p_0=given.copy())[0], [9, 2, 3])


def test_tuples_are_saved_and_sent() -> None:
    made = tuple_type((("value", tm.float32), ("index", tm.int64)))
    assert pickle.loads(pickle.dumps(made)) == made and isinstance(made, TupleType)


@pytest.mark.parametrize("make", ["variance", "argmax"])
def test_a_reduction_to_several_values_is_loaded_as_it_was(make: str, tmp_path: Path) -> None:
    x = np.random.default_rng(1).normal(0, 1, (4, 9))
    if make == "variance":
        f, w = variance()
        in_parts(w)
    else:
        f = tm.Function("f", params=[N, K], assume="K >= 1")
        a = f.input("a", tm.float64, [N, K])
        f.outputs(f.reduction("best", {i: N}, {k: K}, tm.argmax, a[i, k]))
    f.save(tmp_path / "f.json")
    again = tm.load(tmp_path / "f.json")
    kernel = pickle.loads(pickle.dumps(again.compile()))
    for got, evaluated, want in zip(
        *(found if isinstance(found, tuple) else (found,) for found in (kernel(x), again.evaluate(x), f.evaluate(x))),
        strict=True,
    ):
        np.testing.assert_allclose(got, want)
        np.testing.assert_allclose(evaluated, want)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda f, a, b: b[i] + 1, r"best\[i\] has several values.*name one of them, best\[i\]\[0\]"),
        (lambda f, a, b: tm.sqrt(b[i]), "has several values"),
        (lambda f, a, b: -b[i], "has several values"),
        (lambda f, a, b: tm.select(a[i, 0] > 0, b[i], 1.0), "has several values"),
        (lambda f, a, b: tm.cast(tm.float32, b[i]), "has several values"),
        (lambda f, a, b: b[i]["worth"], r"no component 'worth': .* has 0 \(value\), 1 \(index\)"),
        (lambda f, a, b: b[i][2], "no component 2"),
        (lambda f, a, b: f.computation("best_index", {i: N}, 1), "an array of best has it"),
        (lambda f, a, b: f.input("best_value", tm.int32, [N]), "an array of best has it"),
        (
            lambda f, a, b: f.reduction("z", {i: N}, {k: K}, tm.sum, (a[i, k], 1)),
            "tm.sum cannot combine.*single",
        ),
        (
            lambda f, a, b: f.reduction("z", {i: N}, {k: K}, tm.min, b[i]),
            "tm.min cannot .* single values, each",
        ),
        (lambda f, a, b: f.reduction("z", {i: N}, {k: K}, tm.argmin, (1, 2, 3)), "3 components; give 2 values"),
        (lambda f, a, b: f.reduction("z", {i: N}, {k: K}, tm.argmin, (k, 1.0)), "index: float64.*not an integer"),
        (
            lambda f, a, b: f.reduction("z", {}, {i: N, k: K}, tm.argmin, a[i, k]),
            r"tm\.argmin of z runs over i, k: give",
        ),
        (
            lambda f, a, b: f.reduction("z", {i: N}, {k: K}, WELFORD, a[i, k]),
            "operator welford of z .*give .count, m",
        ),
        (lambda f, a, b: f.computation("z", {i: N}, (a[i, 0],)), "two values at least"),
        (
            lambda f, a, b: f.computation("z", {i: N}, a[b[i], 0]),
            r"them, best\[i\]\[0\], or best\[i\]\['value",
        ),
        (lambda f, a, b: f.scatter("z", {j: 4}, {i: N}, [b[i]], tm.sum, 1), r"name one of them, best\[i\]\[0\]"),
        (lambda f, a, b: b * 2.0, r"best stands for many values: name one by its indices, best\[...\]"),
        (lambda f, a, b: f.reduction("z", {}, {i: N}, tm.argmin, a[i, 0]) * 2.0, r"not its value: write z\[\(\)\]"),
        (lambda f, a, b: f.reduction("z", {}, {i: N}, tm.argmin, a[i, 0])[()] * 2.0, r"name one .* z\[\(\)\]\['value"),
        (lambda f, a, b: b[i, k], r"best has 1 index, 2 were given"),
        (lambda f, a, b: a[i], r"a has 2 indices, 1 was given"),
        (lambda f, a, b: tm.operator("o", merged, (0, 0), names=("x",)), "name each once"),
        (lambda f, a, b: tm.operator("o", merged, (0, 0), names=("x", "2")), "cannot be the name of a component"),
        (lambda f, a, b: tm.operator("o", merged, (0, "x")), "give a number"),
    ],
)
def test_what_several_values_cannot_be(make: Callable[..., Any], says: str) -> None:
    f = tm.Function("f", params=[N, K], assume="K >= 1")
    a = f.input("a", tm.float32, [N, K])
    best = f.reduction("best", {i: N}, {k: K}, tm.argmin, a[i, k])
    with pytest.raises((tm.DTypeError, tm.DeclarationError), match=says):
        make(f, a, best)


# -- recurrences of several values


def _oscillator(body: Callable[[Any], Any]) -> tuple[tm.Function, tm.Computation]:
    (steps,), (t,) = tm.params("T"), tm.iters("t")
    f = tm.Function("oscillator", params=[steps])
    z = f.computation("z", {t: steps}, lambda z: body(z[t - 1]))
    f.outputs(f.computation("o", {t: steps}, z[t][0] + z[t][1]))
    return f, z


def _by_number(before: Any) -> tuple[Any, Any]:
    (t,) = tm.iters("t")
    return tm.select(t == 0, 1.0, 0.5 * before[0] - before[1]), tm.select(t == 0, 2, tm.cast(tm.int64, before[0]) + 1)


def _unpacked(before: Any) -> tuple[Any, Any]:
    (t,) = tm.iters("t")
    x, n = before
    return tm.select(t == 0, 1.0, 0.5 * x - n), tm.select(t == 0, 2, tm.cast(tm.int64, x) + 1)


@pytest.mark.parametrize("body", [_by_number, _unpacked])
def test_a_recurrence_takes_its_own_values_apart(body: Callable[[Any], Any]) -> None:
    f, z = _oscillator(body)
    assert str(z.dtype) == "(0: float64, 1: int64)"
    x, n, wanted = 1.0, 2, []
    for _ in range(9):
        wanted.append(x + n)
        x, n = 0.5 * x - n, int(x) + 1
    np.testing.assert_array_equal(f.evaluate(T=9), wanted)
    np.testing.assert_array_equal(f.compile()(T=9), wanted)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (lambda before: (before[1], before[0]), "component 0 of the recurrence z does not follow"),
        (lambda before: (1.0, before[2]), "there is no component 2"),
        (lambda before: (1.0, before), "has several values"),
        (lambda before: before[0], "the recurrence z does not follow from its expression; give dtype="),
    ],
    ids=["types", "component", "whole", "no tuple"],
)
def test_a_recurrence_that_does_not_say_its_types_is_refused(body: Callable[[Any], Any], words: str) -> None:
    with pytest.raises((tm.DTypeError, tm.DeclarationError), match=re.escape(words)):
        _oscillator(body)


def test_a_type_that_does_not_follow_may_be_cast_in_the_tuple() -> None:
    (t,) = tm.iters("t")
    chosen = lambda one, other: tm.select(t == 0, 1, tm.cast(tm.int64, other) if one else other)  # noqa: E731
    f, _ = _oscillator(lambda before: (chosen(True, before[1]), chosen(False, before[0])))
    np.testing.assert_array_equal(f.evaluate(T=3), [2, 2, 2])
