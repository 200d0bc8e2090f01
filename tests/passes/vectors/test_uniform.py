"""Conditions that all lanes agree on: what is said without lanes, checked lane by lane."""

from __future__ import annotations

import random

import pytest

from tests.ir.arithmetic.test_simplify import evaluate, number, random_condition, var
from tiramisu_py.algorithm.expressions import Binary, Const, Expr, Unary
from tiramisu_py.algorithm.traversal import rewrite, walk
from tiramisu_py.algorithm.types import bool_
from tiramisu_py.ir import Ramp
from tiramisu_py.ir.arithmetic.lanes import Lanes
from tiramisu_py.passes.vectors.widen import in_all_lanes, in_no_lane

WIDTH = 4
a, N = var("a"), var("N")


def over_lanes(condition: Expr) -> Expr:
    """The condition with the variable a over four lanes."""
    return rewrite(condition, lambda e: Ramp(e, WIDTH) if e.key() == a.key() else None)


@pytest.mark.parametrize("seed", range(8))
def test_what_is_said_of_all_lanes_holds_in_each(seed: int) -> None:
    rng = random.Random(seed)
    said = 0
    for _ in range(80):
        condition = random_condition(rng, 2)
        every = in_all_lanes(over_lanes(condition), Lanes(), WIDTH)
        none = in_no_lane(over_lanes(condition), Lanes(), WIDTH)
        assert not any(isinstance(part, Ramp) for e in (every, none) for part in walk(e))
        for _ in range(8):
            values = {"a": rng.randint(-9, 9), "b": rng.randint(-9, 9), "N": rng.randint(0, 9), "M": rng.randint(0, 9)}
            lanes = [evaluate(condition, {**values, "a": values["a"] + k}) for k in range(WIDTH)]
            if evaluate(every, values):
                assert all(lanes), (str(condition), str(every), values)
                said += 1
            if evaluate(none, values):
                assert not any(lanes), (str(condition), str(none), values)
                said += 1
    assert said > 20


def test_the_interior_of_a_boundary_condition_is_found() -> None:
    first, last = Binary("==", a, number(0), bool_), Binary("==", a, N - 1, bool_)
    border = over_lanes(Binary("|", first, last, bool_))
    inside = in_no_lane(border, Lanes(), WIDTH)
    for n in (1, 5, 12):
        for start in range(-2, n + 3):
            free = not any(k in (0, n - 1) for k in range(start, start + WIDTH))
            assert evaluate(inside, {"a": start, "N": n}) == free


def test_a_condition_without_lanes_is_itself() -> None:
    test = Binary("<", N, number(3), bool_)
    assert in_all_lanes(test, Lanes(), WIDTH).same_as(test)
    assert evaluate(in_no_lane(test, Lanes(), WIDTH), {"N": 5}) == 1
    assert isinstance(in_all_lanes(Unary("~", Const(False, bool_), bool_), Lanes(), WIDTH), Const)


def test_nothing_is_said_of_variables_with_a_value_in_each_lane() -> None:
    lanes = Lanes().with_variable("a", WIDTH)
    for condition in (Binary("<", a, N, bool_), Binary("<=", over_lanes(a), a, bool_)):
        assert in_all_lanes(condition, lanes, WIDTH).same_as(Const(False, bool_))
        assert in_no_lane(condition, lanes, WIDTH).same_as(Const(False, bool_))
