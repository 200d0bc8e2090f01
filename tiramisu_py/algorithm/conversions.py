"""Explicit conversions: the same expression without weak types, so that every later stage rounds at the same places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

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
    Stopped,
    TupleValue,
    Unary,
    as_typed,
    typed_const,
)
from tiramisu_py.algorithm.stacks import Steps, unstacked
from tiramisu_py.algorithm.types import DType, TupleType
from tiramisu_py.errors import DTypeError

#: The comparison with its sides exchanged.
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


def typed(expression: Expr, dtype: DType | None = None) -> Expr:
    """`expression` with a concrete type at every node, converted to `dtype` (by default its own type).

    Operands of an operator get explicit casts to the operator's type. Iterators, parameters and index arithmetic
    are int64. A subexpression of literals and iterators alone is computed in int64 (or float64) and then converted
    to the type of the other operand, as a Python number is. Iterators are compared in int64, so that no comparison
    wraps. Signed integers and uint64 have no common type; their mathematical values are compared, as in NumPy 2.
    Other nodes (the loop IR's) are kept, with their operands typed. Raises `DTypeError` for literals that do not
    fit and for types that are still unknown.
    """
    return unstacked(_at, expression, ty.strong(expression.dtype) if dtype is None else dtype)


def compared_in(left: DType, right: DType) -> DType:
    """The type in which two operands are compared."""
    common = ty.promote(left, right)
    if common.is_integer and not common.weak and common.bits < ty.int64.bits and ty.weak_int in (left, right):
        return ty.int64
    return ty.strong(common)


def _at(e: Expr, dtype: DType) -> Steps[Expr]:
    """`e` in the type `dtype`; yields each operand with the type that it is to have."""
    if dtype is ty.unknown:
        raise DTypeError(f"the type of {e} is not known; give dtype=")
    match e:
        case Const() if e.dtype.weak or e.dtype == dtype:
            return typed_const(e.value, dtype)
        case Const():
            return Cast(e, dtype)
        case Iter() | Param():
            return as_typed(_leaf(e), dtype)
        case Stopped():
            return as_typed((yield e.operand, ty.strong(e.operand.dtype)), dtype)
        case Binary() if (mixed := _mixed_signs(e)) is not None:
            op, signed, unsigned = mixed
            left = yield signed, ty.strong(signed.dtype)
            right = yield unsigned, ty.uint64
            return as_typed(_exact(op, left, right), dtype)
    if isinstance(e, TupleValue) and isinstance(dtype, TupleType):
        values = []
        for value, (_, own) in zip(e.values, dtype.fields, strict=True):
            values.append((yield value, own))
        return TupleValue(tuple(values), dtype)
    wanted, result = _operands(e)
    operands = []
    for operand, own in zip(e.children(), wanted, strict=True):
        operands.append((yield operand, own))
    node = e.rebuilt(tuple(operands))
    return as_typed(_of_type(node, result) if result is not None and node.dtype != result else node, dtype)


def _of_type(e: Expr, dtype: DType) -> Expr:
    """A node whose own type is `dtype`."""
    assert isinstance(e, Unary | Binary | Select | Call)
    return replace(e, dtype=dtype)


def _leaf(e: Iter | Param) -> Expr:
    """An iterator or a parameter with a type of its own."""
    return Iter(e.name, ty.strong(e.dtype)) if isinstance(e, Iter) else Param(e.name, ty.strong(e.dtype))


def _operands(e: Expr) -> tuple[Sequence[DType], DType | None]:
    """The types that a node's operands must have, and the node's own type (None: it keeps the one it has)."""
    match e:
        case Access():
            return [ty.int64] * len(e.indices), None
        case Unary():
            return [ty.strong(e.dtype)], ty.strong(e.dtype)
        case Binary() if e.op in COMPARISONS:
            return [_comparison(e)] * 2, ty.bool_
        case Binary():
            return [ty.strong(e.dtype)] * 2, ty.strong(e.dtype)
        case Select():
            return [ty.bool_, ty.strong(e.dtype), ty.strong(e.dtype)], ty.strong(e.dtype)
        case Cast():
            return [ty.strong(e.operand.dtype)], None
        case Call():
            return _of_call(e)
    return [ty.strong(child.dtype) for child in e.children()], None


def _mixed_signs(e: Binary) -> tuple[str, Expr, Expr] | None:
    """Operator and operands of a comparison of a signed integer with a uint64, the uint64 on the right; else None."""
    if e.op in COMPARISONS and _signs_differ(e.left, e.right):
        return e.op, e.left, e.right
    if e.op in COMPARISONS and _signs_differ(e.right, e.left):
        return _MIRRORED[e.op], e.right, e.left
    return None


def _signs_differ(signed: Expr, unsigned: Expr) -> bool:
    """Whether the first is a signed integer (or made of iterators) and the second is of uint64."""
    literal = isinstance(signed, Const) and signed.dtype.weak
    return signed.dtype.kind == "i" and not literal and unsigned.dtype == ty.uint64


def _exact(op: str, signed: Expr, unsigned: Expr) -> Expr:
    """``s < u`` is ``s < 0 | uint64(s) < u``, ``s > u`` is ``s >= 0 & uint64(s) > u``."""
    below = op in ("<", "<=", "!=")
    sign = Binary("<" if below else ">=", signed, typed_const(0, signed.dtype), ty.bool_)
    size = Binary(op, as_typed(signed, ty.uint64), unsigned, ty.bool_)
    return Binary("|" if below else "&", sign, size, ty.bool_)


def _comparison(e: Binary) -> DType:
    if isinstance(e.left, Const) or isinstance(e.right, Const):
        return ty.strong(ty.promote(e.left.dtype, e.right.dtype))
    return compared_in(e.left.dtype, e.right.dtype)


def _of_call(e: Call) -> tuple[Sequence[DType], DType]:
    if e.extern is not None:
        return e.extern.arguments, e.extern.result
    if e.function == "reinterpret":
        return [ty.strong(e.arguments[0].dtype)], e.dtype
    if e.function in PREDICATES:
        common = e.arguments[0].dtype
        return [common if common.is_float else ty.float64] * len(e.arguments), ty.bool_
    dtype = ty.strong(e.dtype)
    if not dtype.is_float and e.function not in KEEPING_FUNCTIONS:
        raise DTypeError(f"{e.function} computes in floating point, not in {dtype}: {e}")
    return [dtype] * len(e.arguments), dtype
