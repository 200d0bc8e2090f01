"""What is said of the values of index expressions and integers, against enumeration."""

from __future__ import annotations

import random
from itertools import product

import pytest

from tests.ir.arithmetic.test_simplify import evaluate, random_index
from tiramisu_py.algorithm.expressions import Binary, Const, Expr
from tiramisu_py.algorithm.types import bool_, float32
from tiramisu_py.ir.arithmetic import type_ranges
from tiramisu_py.ir.arithmetic.facts import Facts
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


@pytest.mark.parametrize(("low", "high", "divisor"), [(-9, 7, 4), (0, 3, 8), (5, 6, 1), (-8, -1, 3)])
def test_quotients_and_remainders_of_an_interval_lie_between_the_bounds(low: int, high: int, divisor: int) -> None:
    quotients = [value // divisor for value in range(low, high + 1)]
    assert type_ranges.divided("//", (low, high), divisor) == (min(quotients), max(quotients))
    least, most = type_ranges.divided("%", (low, high), divisor)
    assert all(least <= value % divisor <= most for value in range(low, high + 1))
    assert (least, most) == (0, divisor - 1)
