"""Places of loads at computed indices: the part that all lanes share is added to the address, once.

Before: ``row[(2*low + 2 + k)*n + (c + 8 + lane)//8]``, in each lane. After: the address ``row + (2 + k)*n + 1``, and
``2*low*n + (c + lane)//8`` in each lane. Loads whose places differ by a shared part alone have the same lanes, which
the compiler computes once; there are no products of 64 bits in vectors before AVX-512.
"""

from __future__ import annotations

from collections.abc import Callable

from tiramisu_py.algorithm.expressions import Binary, Cast, Const, Expr, constant
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.algorithm.types import int32, int64
from tiramisu_py.ir import Ramp
from tiramisu_py.ir.arithmetic.linear import is_index, linear, number
from tiramisu_py.ir.arithmetic.simplify import simplified

IsUniform = Callable[[Expr], bool]
#: A sum of a part that all lanes share and a part that differs; None stands for 0.
Parts = tuple[Expr | None, Expr | None]


def apart(place: Expr, uniform: IsUniform) -> tuple[Expr, Expr] | None:
    """The shared part of a place and the rest, which add up to it modulo 2**64; None if nothing is shared.

    A shared number below 0 stays in the lanes, since an address before the array would be formed.
    """
    shared, rest = _parts(place, uniform)
    if shared is None or rest is None:
        return None
    shared = simplified(shared)
    value = constant(shared)
    return None if value is not None and value <= 0 else (shared, rest)


@deep
def _parts(e: Expr, uniform: IsUniform) -> Parts:
    if uniform(e):
        return e, None
    match e:
        case Ramp() if is_index(e.dtype) and constant(e.base) != 0:
            return e.base, Ramp(number(0), e.lanes, e.dtype)
        case Binary(op="+" | "-") if is_index(e.dtype):
            left, right = _parts(e.left, uniform), _parts(e.right, uniform)
            return _combined(e.op, left[0], right[0]), _combined(e.op, left[1], right[1])
        case Binary(op="*", left=left, right=right) if is_index(e.dtype) and (uniform(left) or uniform(right)):
            factor, varying = (left, right) if uniform(left) else (right, left)
            shared, rest = _parts(varying, uniform)
            return _scaled(shared, factor), _scaled(rest, factor)
        case Binary(op="//", left=left, right=right) if is_index(e.dtype):
            return _quotient(e, left, constant(right))
        case Cast(operand=Binary(op="+", left=left, right=Const() as added)) if (
            e.dtype == int64 and e.operand.dtype == left.dtype == int32 and int(added.value) > 0
        ):  # the sum is an index, and no index is so small that it could have wrapped around
            return number(int(added.value)), Cast(left, int64)
    return None, e


def _combined(op: str, left: Expr | None, right: Expr | None) -> Expr | None:
    if right is None:
        return left
    if left is None:
        return right if op == "+" else Binary("-", number(0), right, int64)
    return Binary(op, left, right, int64)


def _scaled(e: Expr | None, factor: Expr) -> Expr | None:
    if e is None or constant(e) == 1:
        return None if e is None else factor
    return Binary("*", e, factor, int64)


def _quotient(e: Binary, left: Expr, divisor: int | None) -> Parts:
    """``(x + 8*k)//8`` as ``k + x//8``, of a vector of neighbours."""
    if divisor is None or divisor <= 0 or not isinstance(left, Ramp):
        return None, e
    base = linear(left.base)
    whole = base.constant // divisor if base.exact else 0
    if whole == 0:
        return None, e
    first = base.plus(linear(number(-whole * divisor))).expression()
    return number(whole), Binary("//", Ramp(first, left.lanes, left.dtype), e.right, int64)
