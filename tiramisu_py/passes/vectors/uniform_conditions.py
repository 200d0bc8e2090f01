"""Scalar tests for whether a condition is the same in all lanes of a vector.

Over the lanes i = c .. c + 15, ``i >= 1`` holds in all if ``c >= 1``, and in none if ``c + 15 < 1``. Such tests find
the interior of a stencil with a boundary condition, strip by strip.
"""

from __future__ import annotations

from tiramisu_py.algorithm.expressions import COMPARISONS, Binary, Const, Expr, Unary
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.algorithm.types import bool_, int64
from tiramisu_py.ir.arithmetic.lanes import Lanes
from tiramisu_py.ir.arithmetic.linear import along_lanes, is_index, linear, number
from tiramisu_py.ir.arithmetic.simplify import simplified

_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
_FALSE = Const(False, bool_)


def in_all_lanes(condition: Expr, lanes: Lanes, width: int) -> Expr:
    """A condition without lanes that holds only where `condition` holds in all lanes."""
    return simplified(_all(condition, True, lanes, width))


def in_no_lane(condition: Expr, lanes: Lanes, width: int) -> Expr:
    """A condition without lanes that holds only where `condition` holds in no lane."""
    return simplified(_all(condition, False, lanes, width))


@deep
def _all(e: Expr, value: bool, lanes: Lanes, width: int) -> Expr:
    """A scalar test that holds only if a condition has the given value in all lanes; false if none is known."""
    if lanes.of(e) == 1:
        return e if value else Unary("~", e, bool_)
    match e:
        case Unary(op="~"):
            return _all(e.operand, not value, lanes, width)
        case Binary(op="&" | "|") if e.dtype.is_bool:
            op = e.op if value else {"&": "|", "|": "&"}[e.op]
            return Binary(op, _all(e.left, value, lanes, width), _all(e.right, value, lanes, width), bool_)
        case Binary() if e.op in COMPARISONS and is_index(e.left.dtype) and is_index(e.right.dtype):
            return _compared(e.op if value else _OPPOSITE[e.op], e.left, e.right, lanes, width)
    return _FALSE


def _compared(op: str, left: Expr, right: Expr, lanes: Lanes, width: int) -> Expr:
    """A scalar test for ``left op right`` in all lanes: an evenly growing difference is extreme at either end.

    There is none for variables with a value of its own in each lane.
    """
    spaced = along_lanes(Binary("-", left, right, int64))
    exact = linear(left, lanes=True).exact and linear(right, lanes=True).exact
    if spaced is None or not exact or lanes.of(spaced[0]) > 1:
        return _FALSE
    first, step = spaced
    last: Expr = Binary("+", first, number(step * (width - 1)), int64)
    least, most = (first, last) if step >= 0 else (last, first)
    zero = number(0)
    match op:
        case "<" | "<=":
            return Binary(op, most, zero, bool_)
        case ">" | ">=":
            return Binary(op, least, zero, bool_)
        case "!=":
            return Binary("|", Binary(">", least, zero, bool_), Binary("<", most, zero, bool_), bool_)
    return Binary("==", first, zero, bool_) if step == 0 else _FALSE
