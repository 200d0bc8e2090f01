"""Explicit conversions: the same expression without weak types, so that every later stage rounds at the same places."""

from __future__ import annotations

from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import (
    COMPARISONS,
    KEEPING_FUNCTIONS,
    PREDICATES,
    Access,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Iter,
    Param,
    Select,
    Unary,
    as_typed,
    typed_const,
)
from tiramisu_py.algorithm.types import DType
from tiramisu_py.errors import DTypeError


def typed(expression: Expr, dtype: DType | None = None) -> Expr:
    """`expression` with a concrete type at every node, converted to `dtype` (by default its own type).

    Operands of an operator get explicit casts to the type that it computes in; iterators, parameters and index
    arithmetic are int64; what consists of literals and iterators alone is computed in int64 (or float64) and then
    converted to what it meets, as a Python number is. Iterators are compared in int64, so that no comparison wraps.
    Nodes of other kinds (the loop IR's) are kept, with their operands typed. Raises `DTypeError` for literals that
    do not fit and for types that are still unknown.
    """
    return _at(expression, ty.strong(expression.dtype) if dtype is None else dtype)


def compared_in(left: DType, right: DType) -> DType:
    """The type in which two operands are compared."""
    common = ty.promote(left, right)
    if common.is_integer and not common.weak and common.bits < ty.int64.bits and ty.weak_int in (left, right):
        return ty.int64
    return ty.strong(common)


def _at(e: Expr, dtype: DType) -> Expr:
    if dtype is ty.unknown:
        raise DTypeError(f"the type of {e} is not known; give dtype=")
    if isinstance(e, Const):
        return typed_const(e.value, dtype) if e.dtype.weak or e.dtype == dtype else Cast(e, dtype)
    return as_typed(_node(e), dtype)


def _node(e: Expr) -> Expr:
    match e:
        case Const():
            return typed_const(e.value, ty.strong(e.dtype))
        case Iter():
            return Iter(e.name, ty.strong(e.dtype))
        case Param():
            return Param(e.name, ty.strong(e.dtype))
        case Access():
            return e.rebuilt(tuple(_at(index, ty.int64) for index in e.indices))
        case Unary():
            dtype = ty.strong(e.dtype)
            return Unary(e.op, _at(e.operand, dtype), dtype)
        case Binary():
            return _binary(e)
        case Select():
            dtype = ty.strong(e.dtype)
            return Select(_at(e.condition, ty.bool_), _at(e.yes, dtype), _at(e.no, dtype), dtype)
        case Cast():
            return Cast(_at(e.operand, ty.strong(e.operand.dtype)), e.dtype)
        case Call():
            return _call(e)
    return e.rebuilt(tuple(typed(child) for child in e.children()))


def _binary(e: Binary) -> Expr:
    if e.op in COMPARISONS:
        dtype = _comparison(e)
        return Binary(e.op, _at(e.left, dtype), _at(e.right, dtype), ty.bool_)
    dtype = ty.strong(e.dtype)
    return Binary(e.op, _at(e.left, dtype), _at(e.right, dtype), dtype)


def _comparison(e: Binary) -> DType:
    if isinstance(e.left, Const) or isinstance(e.right, Const):
        return ty.strong(ty.promote(e.left.dtype, e.right.dtype))
    return compared_in(e.left.dtype, e.right.dtype)


def _call(e: Call) -> Expr:
    if e.extern is not None:
        pairs = zip(e.arguments, e.extern.arguments, strict=True)
        return Call(e.function, tuple(_at(a, dtype) for a, dtype in pairs), e.extern.result, e.extern)
    if e.function in PREDICATES:
        common = e.arguments[0].dtype
        dtype = common if common.is_float else ty.float64
        return Call(e.function, tuple(_at(a, dtype) for a in e.arguments), ty.bool_)
    dtype = ty.strong(e.dtype)
    if not dtype.is_float and e.function not in KEEPING_FUNCTIONS:
        raise DTypeError(f"{e.function} computes in floating point, not in {dtype}: {e}")
    return Call(e.function, tuple(_at(a, dtype) for a in e.arguments), dtype)
