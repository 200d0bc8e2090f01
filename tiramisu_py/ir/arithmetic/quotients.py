"""Multiples: bounds of whole strips, recognised in any of the forms that isl gives them.

Before: ``C - (C + 1) % 16 + 17``. After: ``(C + 1) // 16 * 16 + 16``, a multiple of 16.
"""

from __future__ import annotations

from functools import reduce

from tiramisu_py.algorithm.expressions import Binary, Expr, constant
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.algorithm.types import int64
from tiramisu_py.ir.arithmetic.linear import Linear, linear, number, operands


@deep
def in_quotients(e: Expr) -> Expr:
    """A bound with quotients in place of remainders if that makes it shorter."""
    for op in ("min", "max"):
        parts = operands(op, e)
        if len(parts) > 1:
            return reduce(lambda a, b: Binary(op, a, b, int64), map(in_quotients, parts))
    form = linear(e)
    for atom, factor in form.terms.values():
        divisor = _divisor(atom, "%")
        if divisor is None or factor >= 0 or not isinstance(atom, Binary):
            continue
        inner = linear(atom.left)
        rest = form.without(atom.key()).plus(inner, factor)
        if form.exact and len(rest.terms) < len(form.terms) - 1:
            whole = Binary("//", atom.left, number(divisor), int64)
            return in_quotients(rest.plus(Linear({whole.key(): (whole, -factor * divisor)})).expression())
    return e


def _divisor(e: Expr, op: str) -> int | None:
    divisor = constant(e.right) if isinstance(e, Binary) and e.op == op else None
    return divisor if divisor is not None and divisor > 0 else None
