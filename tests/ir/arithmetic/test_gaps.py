"""What is said of the values of index expressions and integers, against enumeration."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from operator import add, and_, floordiv, lshift, mod, mul, rshift, sub

import pytest

from tests.ir.arithmetic.test_simplify import evaluate, random_index
from tiramisu_py.algorithm.expressions import Binary, Const, Expr, Iter
from tiramisu_py.algorithm.types import bool_, float32, int32
from tiramisu_py.ir.arithmetic.facts import Facts
from tiramisu_py.ir.arithmetic.intervals import Interval, Ranges
from tiramisu_py.ir.arithmetic.linear import gap, number

SMALL = [dict(zip("abNM", values, strict=True)) for values in product((-5, 0, 1, 4), (-3, 0, 2), (0, 1, 7), (0, 3))]


@pytest.mark.parametrize("seed", range(6))
def test_a_gap_is_at_least_zero_exactly_where_its_comparison_holds(seed: int) -> None:
    rng = random.Random(seed)
    said = 0
    for _ in range(40):
        condition = Binary(rng.choice(("<", "<=", ">", ">=")), random_index(rng, 2), random_index(rng, 2), bool_)
        form = gap(condition)
        said += form is not None
        for values in SMALL if form is not None else ():
            assert form is not None
            assert (evaluate(form.expression(), values) >= 0) == evaluate(condition, values), str(condition)
    assert said > 10


@pytest.mark.parametrize("op", ["==", "!=", "&"])
def test_what_is_no_inequality_of_indices_has_no_gap(op: str) -> None:
    assert gap(Binary(op, number(1), number(2), bool_)) is None
    assert gap(number(3)) is None


def test_a_comparison_of_values_has_no_gap() -> None:
    assert gap(Binary("<", Const(1.0, float32), Const(2.0, float32), bool_)) is None


@pytest.mark.parametrize("seed", range(6))
def test_what_facts_say_holds_wherever_the_facts_hold(seed: int) -> None:
    rng = random.Random(seed)
    said = 0
    for _ in range(60):
        condition = Binary(rng.choice(("<", "<=", ">", ">=")), random_index(rng, 1), random_index(rng, 1), bool_)
        e: Expr = random_index(rng, 2)
        if not Facts().where(condition).nonnegative(e):
            continue
        said += 1
        for values in SMALL:
            assert not evaluate(condition, values) or evaluate(e, values) >= 0, (str(condition), str(e), values)
    assert said > 5


@pytest.mark.parametrize(("low", "high", "divisor"), [(-9, 7, 4), (0, 3, 8), (5, 6, 1), (-8, -1, 3), (9, 11, 4)])
def test_quotients_and_remainders_of_an_interval_lie_between_the_bounds(low: int, high: int, divisor: int) -> None:
    quotients = [value // divisor for value in range(low, high + 1)]
    assert Interval(low, high) // divisor == Interval(min(quotients), max(quotients))
    remainders = [value % divisor for value in range(low, high + 1)]
    once = len(set(quotients)) == 1
    expected = Interval(min(remainders), max(remainders)) if once else Interval(0, divisor - 1)
    assert Interval(low, high) % divisor == expected


class _Known(Ranges):
    """The ranges of expressions over a from -3 to 4 and b from 1 to 5."""

    def of(self, e: Expr) -> Interval | None:
        return {"a": Interval(-3, 4), "b": Interval(1, 5)}[e.name] if isinstance(e, Iter) else self.computed(e)


def _results(op: str, second: Expr) -> set[int]:
    right = [int(second.value)] if isinstance(second, Const) else range(1, 6)
    meaning: dict[str, Callable[[int, int], int]] = {
        "+": add, "-": sub, "*": mul, "//": floordiv, "%": mod, "min": min, "max": max,
        "&": and_, "<<": lshift, ">>": rshift,
    }  # fmt: skip
    return {meaning[op](a, b) for a in range(-3, 5) for b in right}


@pytest.mark.parametrize(
    ("op", "second", "exact"),
    [
        *((op, Iter("b", int32), True) for op in ("+", "-", "*", "min", "max")),
        *((op, Const(3, int32), True) for op in ("+", "-", "*", "//", "%", "<<", ">>", "min", "max")),
        ("&", Iter("b", int32), False),
    ],
)
def test_the_range_of_an_operation_has_all_its_results(op: str, second: Expr, exact: bool) -> None:
    found, results = _Known().of(Binary(op, Iter("a", int32), second, int32)), _results(op, second)
    assert found is not None
    assert found.low <= min(results) and max(results) <= found.high
    assert not exact or found == Interval(min(results), max(results))


@pytest.mark.parametrize("op", ["<<", ">>", "//", "%"])
def test_shifts_and_divisions_by_what_varies_have_no_known_range(op: str) -> None:
    assert _Known().of(Binary(op, Iter("a", int32), Iter("b", int32), int32)) is None
