"""Idioms found in vector expressions: the same bits for all operands, and found where users write them."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.expressions import Binary, Call, Cast, Const, Expr, Select, Unary, select
from tiramisu_py.algorithm.functions import absolute
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.algorithm.types import DType
from tiramisu_py.interpret.evaluator import bound
from tiramisu_py.ir import Idiom, Load, Ramp
from tiramisu_py.passes.vectors.idioms import recognised

PAIRS = 2**16
ALL = Ramp(Const(0, ty.int64), PAIRS)
#: All pairs of two bytes, as two vectors; signed ones too.
FIRST = Cast(ALL, ty.uint8)
SECOND = Cast(Binary(">>", ALL, Const(8, ty.int64), ty.int64), ty.uint8)
BYTES = {ty.uint8: (FIRST, SECOND), ty.int8: (Cast(ALL, ty.int8), Cast(SECOND, ty.int8))}
TYPES = (ty.uint8, ty.int8, ty.uint16, ty.int16, ty.uint32, ty.int32, ty.int64)
SMALL = (-129, -128, -1, 0, 1, 2, 7, 126, 127, 128, 254, 255, 256, 32767, 32768, 65535)


def value(e: Expr) -> np.ndarray:
    """What an expression is for all pairs."""
    return np.broadcast_to(bound({})(e), PAIRS)


def check(e: Expr) -> Expr:
    """The expression with its idioms, which is the same for all pairs."""
    found = recognised(e)
    assert found.dtype == e.dtype
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(value(found), value(e), err_msg=f"{e}\n{found}", strict=True)
    return found


def minimum(x: Expr | int, y: Expr | int) -> Expr:
    return typed(Binary("min", *_same(x, y)))


def maximum(x: Expr | int, y: Expr | int) -> Expr:
    return typed(Binary("max", *_same(x, y)))


def _same(x: Expr | int, y: Expr | int) -> tuple[Expr, Expr, DType]:
    dtype = next(side.dtype for side in (x, y) if isinstance(side, Expr))
    left, right = (Const(side, dtype) if isinstance(side, int) else side for side in (x, y))
    return left, right, dtype


def wide(dtype: DType) -> tuple[Expr, Expr]:
    return Cast(FIRST, dtype), Cast(SECOND, dtype)


def names(e: Expr) -> list[str]:
    return [part.name for part in walk(e) if isinstance(part, Idiom)]


def widest(e: Expr) -> int:
    """The bits of the widest type that is computed in."""
    operations = (part for part in walk(e) if isinstance(part, Binary | Idiom | Select | Unary))
    return max(
        (part.dtype.bits for part in operations if not any(inner.same_as(ALL) for inner in part.children())), default=8
    )


@pytest.mark.parametrize("dtype", [ty.uint16, ty.int16, ty.int32, ty.int64], ids=str)
def test_sums_that_stop_at_the_end_of_the_type(dtype: DType) -> None:
    x, y = wide(dtype)
    assert names(check(Cast(minimum(typed(x + y), 255), ty.uint8))) == ["add_saturated"]
    assert names(check(Cast(minimum(255, typed(x + (x >> 1))), ty.uint8))) == ["add_saturated"]
    assert names(check(Cast(minimum(typed(x + x // 2), 255), ty.uint8))) == ["add_saturated"]
    if dtype.kind == "i":
        assert names(check(Cast(maximum(typed(x - y), 0), ty.uint8))) == ["subtract_saturated"]
        assert names(check(Cast(minimum(maximum(typed(x - y), 0), 255), ty.uint8))) == ["subtract_saturated"]
        p, q = (Cast(e, dtype) for e in BYTES[ty.int8])
        for total, name in ((p + q, "add_saturated"), (p - q, "subtract_saturated")):
            assert names(check(Cast(minimum(maximum(typed(total), -128), 127), ty.int8))) == [name]
            assert names(check(Cast(maximum(minimum(typed(total), 127), -128), ty.int8))) == [name]


def test_sums_that_stop_elsewhere_are_left_as_they_are() -> None:
    x, y = wide(ty.int16)
    p, q = (Cast(e, ty.int16) for e in BYTES[ty.int8])
    for e in (
        minimum(typed(x + y), 254),
        minimum(typed(x + y), 256),
        maximum(typed(x - y), 1),
        minimum(typed(p + q), 127),
    ):
        assert names(check(Cast(e, ty.uint8))) == []
    assert names(check(Cast(minimum(typed(x + y + x), 255), ty.uint8))) == []
    assert names(check(minimum(typed(FIRST + SECOND), 255))) == []  # wraps before


@pytest.mark.parametrize("dtype", [ty.uint16, ty.uint32], ids=str)
def test_a_difference_without_a_sign_wraps_before_it_stops(dtype: DType) -> None:
    x, y = wide(dtype)
    assert names(check(Cast(minimum(typed(x - y), 255), ty.uint8))) == []
    assert names(check(Cast(maximum(typed(x - y), 0), ty.uint8))) == []


@pytest.mark.parametrize("dtype", [ty.uint8, ty.int8], ids=str)
def test_distances_as_users_write_them(dtype: DType) -> None:
    x, y = BYTES[dtype]
    assert names(check(maximum(x, y) - minimum(y, x))) == ["distance"]
    assert names(check(typed(select(x > y, x - y, y - x)))) == ["distance"]
    assert names(check(typed(select(x <= y, y - x, x - y)))) == ["distance"]
    assert names(check(typed(select(x > y, y - x, x - y)))) == []
    p, q = Cast(x, ty.int16), Cast(y, ty.int16)
    assert names(check(Cast(typed(absolute(p - q)), dtype))) == ["distance"]
    assert names(check(Cast(maximum(p, q) - minimum(p, q), dtype))) == ["distance"]


def test_means_of_two() -> None:
    x, y = wide(ty.uint16)
    assert names(check(Cast(typed((x + y + 1) >> 1), ty.uint8))) == ["average"]
    assert names(check(Cast(typed((x + y + 1) // 2), ty.uint8))) == ["average"]
    assert names(check(Cast(typed((x + y) >> 1), ty.uint8))) == []
    assert names(check(Cast(typed((2 * x + y + 1) >> 1), ty.uint8))) == []


def test_arithmetic_is_as_narrow_as_its_result_allows() -> None:
    x, y = wide(ty.int32)
    assert widest(check(Cast(typed(255 - x), ty.uint8))) == 8
    assert widest(check(Cast(typed((x + y + x) >> 2), ty.uint8))) == 16
    assert widest(check(Cast(typed(x * 77 + y * 150 + 128 >> 8), ty.uint8))) == 16
    assert widest(check(Cast(typed(x * 4899 + y * 9617 + 8192 >> 14), ty.uint8))) == 32
    assert widest(check(Cast(typed(select(x > 7, x, y)), ty.uint8))) == 8
    found = check(typed(x > y + 1))
    assert isinstance(found, Binary) and found.left.dtype.bits == 16


def test_what_has_no_lanes_is_left_to_scalar_code() -> None:
    x, y = (Cast(Load("a", (Const(k, ty.int64),), ty.uint8), ty.uint16) for k in range(2))
    e = Cast(minimum(typed(x + y), 255), ty.uint8)
    assert recognised(e) is e
    assert names(recognised(typed(e + FIRST))) == []


def tree(source: random.Random, depth: int) -> Expr:
    """A random expression of an integer type."""
    if depth == 0 or source.random() < 0.1:
        leaf = source.choice(BYTES[source.choice((ty.uint8, ty.int8))])
        return Cast(leaf, source.choice(TYPES)) if source.random() < 0.7 else leaf
    dtype = source.choice(TYPES)
    kind = source.choice(
        ("cast", "+", "-", "+", "-", "*", "min", "max", "&", "^", ">>", "//", "<<", "abs", "select", "~")
    )
    left = _as(tree(source, depth - 1), dtype)
    if kind == "cast":
        return left
    if kind in (">>", "<<", "//"):
        return Binary(kind, left, Const(source.choice((1, 2, 3, 7)), dtype), dtype)
    if kind == "abs":
        return Call("abs", (left,), dtype)
    if kind == "~":
        return Unary(source.choice("-~"), left, dtype)
    fitting = [n for n in SMALL if np.iinfo(dtype.numpy).min <= n <= np.iinfo(dtype.numpy).max]
    constant = Const(source.choice(fitting), dtype)
    right = constant if source.random() < 0.4 else _as(tree(source, depth - 1), dtype)
    if kind == "select":
        test = Binary(source.choice(("<", ">=", "!=")), left, right, ty.bool_)
        return Select(test, Binary("-", left, right, dtype), Binary("-", right, left, dtype), dtype)
    return Binary(kind, left, right, dtype)


def _as(e: Expr, dtype: DType) -> Expr:
    return e if e.dtype == dtype else Cast(e, dtype)


@pytest.mark.parametrize("seed", range(8))
def test_random_expressions_are_the_same_for_all_pairs(seed: int) -> None:
    source = random.Random(seed)
    changed = 0
    for _ in range(60):
        e = Cast(tree(source, source.randint(1, 4)), source.choice(TYPES[:4]))
        changed += check(e) is not e
    assert changed > 10
