"""Expressions: what the operators build, what they refuse, and how types become explicit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tiramisu_py.algorithm import functions as tm
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.expressions import (
    FLOAT_FUNCTIONS,
    FLOAT_FUNCTIONS_2,
    Access,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Iter,
    Param,
    as_expr,
    binary,
    cast,
    select,
)
from tiramisu_py.algorithm.traversal import accesses, substitute, walk
from tiramisu_py.errors import DeclarationError, DTypeError

i, j = Iter("i"), Iter("j")
N = Param("N")


def value(dtype: ty.DType, name: str = "x") -> Access:
    return Access(name, (i,), dtype)


NUMERIC = [ty.int8, ty.int32, ty.int64, ty.uint8, ty.uint32, ty.float16, ty.float32, ty.float64]
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b,
    "//": lambda a, b: a // b, "%": lambda a, b: a % b, "**": lambda a, b: a**b,
    "<": lambda a, b: a < b, "==": lambda a, b: a == b, ">=": lambda a, b: a >= b,
}  # fmt: skip


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("a", NUMERIC, ids=str)
@pytest.mark.parametrize("b", NUMERIC, ids=str)
def test_an_operator_has_the_type_of_numpys_result(op: str, a: ty.DType, b: ty.DType) -> None:
    expected = OPERATORS[op](np.ones(1, a.numpy), np.ones(1, b.numpy)).dtype
    built = OPERATORS[op](value(a), value(b, "y"))
    assert built.dtype.numpy == expected
    assert typed(built).dtype == built.dtype


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("a", NUMERIC, ids=str)
def test_a_literal_does_not_widen_its_partner(op: str, a: ty.DType) -> None:
    expected = OPERATORS[op](np.ones(1, a.numpy), 2).dtype
    assert OPERATORS[op](value(a), 2).dtype.numpy == expected
    assert OPERATORS[op](2, value(a)).dtype.numpy == OPERATORS[op](2, np.ones(1, a.numpy)).dtype


def test_a_condition_has_no_truth_value() -> None:
    with pytest.raises(DeclarationError, match="i < j is an expression, not a truth value"):
        bool(i < j)


def test_a_chained_comparison_is_refused_instead_of_dropping_its_first_half() -> None:
    with pytest.raises(DeclarationError, match="not a truth value"):
        _ = 0 < i < 5


def test_an_expression_is_not_iterated() -> None:
    with pytest.raises(TypeError):
        list(value(ty.float32))  # type: ignore[call-overload]


def test_a_numpy_scalar_on_the_left_builds_an_expression() -> None:
    built = np.float32(2) * value(ty.float64)  # type: ignore[operator]
    assert isinstance(built, Binary) and built.dtype == ty.float64


def test_a_numpy_array_in_an_expression_is_refused_with_advice() -> None:
    with pytest.raises(DeclarationError, match=r"declare it with Function.input"):
        value(ty.float32) + np.ones(3)  # type: ignore[operator]


def test_a_literal_that_does_not_fit_is_refused() -> None:
    with pytest.raises(DTypeError, match="300 does not fit uint8"):
        value(ty.uint8) + 300


def test_and_of_numbers_with_floats_is_refused() -> None:
    with pytest.raises(DTypeError, match="& needs integers or conditions"):
        value(ty.float32) & 1


def test_select_needs_a_condition() -> None:
    with pytest.raises(DTypeError, match="the condition of select is int32"):
        select(value(ty.int32), 1, 2)


def test_same_as_compares_trees_and_literals() -> None:
    assert (i + 1).same_as(Iter("i") + 1)
    assert not (i + 1).same_as(i + 2)
    assert not (i + 1).same_as(i + 1.0)
    assert not cast("int32", i).same_as(cast("int64", i))


def test_substitution_replaces_iterators_inside_accesses() -> None:
    changed = substitute(value(ty.float32) * (i + N), {"i": j + 1})
    assert str(changed) == "x[j + 1] * (j + 1 + N)"
    assert [a.source for a in accesses(changed)] == ["x"]


@pytest.mark.parametrize("name", [*FLOAT_FUNCTIONS, "isnan", "isinf", "isfinite"])
@pytest.mark.parametrize("dtype", [ty.float16, ty.float32, ty.float64], ids=str)
def test_functions_of_floats_keep_the_precision(name: str, dtype: ty.DType) -> None:
    result = getattr(tm, name)(value(dtype))
    assert result.dtype == (ty.bool_ if name.startswith("is") else dtype)


@pytest.mark.parametrize("name", FLOAT_FUNCTIONS_2)
def test_functions_of_two_integers_compute_in_float64(name: str) -> None:
    built = typed(getattr(tm, name)(value(ty.int32), value(ty.int16, "y")))
    assert isinstance(built, Call) and built.dtype == ty.float64
    assert [a.dtype for a in built.arguments] == [ty.float64, ty.float64]


def test_absolute_keeps_integers() -> None:
    assert tm.absolute(value(ty.int16)).dtype == ty.int16
    assert abs(value(ty.int16)).dtype == ty.int16


def test_an_external_function_checks_its_arguments() -> None:
    twice = tm.extern("twice", ["float32"], "float32", lambda a: 2 * a)
    assert twice(value(ty.float32)).dtype == ty.float32
    with pytest.raises(DeclarationError, match="twice takes 1 arguments, 2 were given"):
        twice(1.0, 2.0)
    with pytest.raises(DTypeError, match=r"the external function bad.*complex64"):
        tm.extern("bad", ["complex64"], "float32", abs)
    with pytest.raises(DeclarationError, match="needs its equivalent in Python"):
        tm.extern("nothing", ["float32"], "float32", None)  # type: ignore[arg-type]


# -- explicit types


def is_concrete(e: Expr) -> bool:
    """No weak type is left, and the operands of each operator have one type."""
    for node in walk(e):
        if node.dtype.weak or node.dtype is ty.unknown:
            return False
        if isinstance(node, Binary) and node.left.dtype != node.right.dtype:
            return False
    return True


@pytest.mark.parametrize(
    "e",
    [
        value(ty.float32) * 2 + i,
        (i + 1) * value(ty.float32) / 3,
        value(ty.int32) / value(ty.int8),
        select((i == 0) | (value(ty.float32) > 1), 0, value(ty.float64)),
        value(ty.uint8) < i + N,
        tm.sqrt(value(ty.int32)) + tm.minimum(i, 3),
        as_expr(3),
        as_expr(2.5),
        i // 2,
        cast("float32", i * 2) + 1,
        tm.isnan(i),
        tm.absolute(i - N),
    ],
    ids=str,
)
def test_typed_leaves_no_weak_type_and_no_mixed_operands(e: Expr) -> None:
    assert is_concrete(typed(e))
    assert typed(e).dtype == ty.strong(e.dtype)
    assert is_concrete(typed(e, ty.float32)) and typed(e, ty.float32).dtype == ty.float32


def test_index_arithmetic_is_computed_in_int64_before_it_meets_a_float() -> None:
    result = typed((i + 1) * value(ty.float32))
    assert isinstance(result, Binary) and isinstance(result.left, Cast)
    assert (result.left.dtype, result.left.operand.dtype) == (ty.float32, ty.int64)


def test_a_literal_becomes_one_of_its_partners_type() -> None:
    result = typed(value(ty.float32) / 3)
    assert isinstance(result, Binary) and isinstance(result.right, Const)
    assert (result.right.value, result.right.dtype) == (3.0, ty.float32)


def test_a_division_of_integers_converts_its_operands_first() -> None:
    result = typed(value(ty.int32) / value(ty.int32, "y"))
    assert isinstance(result, Binary)
    assert [type(side) for side in (result.left, result.right)] == [Cast, Cast]
    assert result.left.dtype == result.right.dtype == ty.float64


def test_an_iterator_is_compared_with_a_small_integer_in_int64() -> None:
    result = typed(value(ty.int8) < i)
    assert isinstance(result, Binary) and result.left.dtype == result.right.dtype == ty.int64


def test_indices_are_int64() -> None:
    inner = Access("column", (i,), ty.int32)
    result = typed(Access("x", (inner + 1,), ty.float32))
    assert isinstance(result, Access) and result.indices[0].dtype == ty.int64


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(DTypeError, match="give dtype="):
        typed(binary("+", Access("h", (i,), ty.unknown), Access("h", (j,), ty.unknown)))
