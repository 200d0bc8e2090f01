"""What is computed more than once is found, whether its occurrences are copies or one object."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tiramisu_py.algorithm.expressions import Binary, Expr, Iter
from tiramisu_py.algorithm.types import int64
from tiramisu_py.ir.arithmetic.common_values import repeated


def product() -> Expr:
    return Binary("*", Iter("a", int64), Iter("b", int64), int64)


def added(left: Expr, right: Expr) -> Expr:
    return Binary("+", left, right, int64)


def copied(make: Callable[[], Expr]) -> tuple[Expr, Expr]:
    return make(), make()


def one_object(make: Callable[[], Expr]) -> tuple[Expr, Expr]:
    made = make()
    return made, made


@pytest.mark.parametrize("twice", [copied, one_object])
def test_a_value_that_occurs_twice_is_found(twice: Callable[[Callable[[], Expr]], tuple[Expr, Expr]]) -> None:
    first, second = twice(product)
    found = list(repeated([added(first, Binary("-", second, Iter("c", int64), int64))], lambda e: bool(e.children())))
    assert [str(e) for e in found] == ["a * b"]


@pytest.mark.parametrize("twice", [copied, one_object])
def test_a_value_inside_another_one_is_found_if_it_occurs_more_often(
    twice: Callable[[Callable[[], Expr]], tuple[Expr, Expr]],
) -> None:
    first, second = twice(lambda: added(product(), Iter("c", int64)))
    found = list(repeated([Binary("*", first, second, int64)], lambda e: bool(e.children())))
    assert [str(e) for e in found] == ["a * b + c"]
    found = list(repeated([Binary("*", first, second, int64), product()], lambda e: bool(e.children())))
    assert [str(e) for e in found] == ["a * b", "a * b + c"]
