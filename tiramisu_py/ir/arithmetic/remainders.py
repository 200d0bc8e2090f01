"""Remainders in place of the arithmetic that computes them: ``k - k // 2 * 2`` is ``k % 2``, and reads better.

Multiples: bounds of whole strips, recognised in any of the forms that isl gives them.

Before: ``C - (C + 1) % 16 + 17``. After: ``(C + 1) // 16 * 16 + 16``, a multiple of 16.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

from tiramisu_py.algorithm.expressions import Binary, Expr, constant
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.algorithm.types import int64
from tiramisu_py.ir import Node
from tiramisu_py.ir.arithmetic.linear import Linear, is_index, linear, number, operands
from tiramisu_py.ir.rewriting import rewrite_expressions


def with_remainders(node: Node) -> Node:
    """The statement with ``%`` where its index arithmetic computes remainders."""
    return rewrite_expressions(node, _changed)


def as_remainders(e: Expr) -> Expr:
    """The expression with ``%`` where its index arithmetic computes remainders."""
    return rewrite(e, _changed)


def _changed(e: Expr) -> Expr | None:
    if not isinstance(e, Binary) or e.op not in ("+", "-") or not is_index(e.dtype):
        return None
    form = linear(e)
    found = _with_one(form) if form.exact else None
    return None if found is None else as_remainders(found.expression())


def _with_one(form: Linear) -> Linear | None:
    """The form with one remainder: ``a * (x // m) - a*n * (x // (m*n))`` is ``a * (x // m % n)``."""
    for atom, factor in form.terms.values():
        divisor = constant(atom.right) if isinstance(atom, Binary) and atom.op == "//" else None
        if divisor is None or not isinstance(atom, Binary):
            continue
        for n in _divisors(divisor):
            if factor % n == 0:
                part = _quotient(atom.left, divisor // n)
                rest = form.without(atom.key()).plus(linear(part), factor // n)
                if len(rest.terms) == len(form.terms) - 1 - len(linear(part).terms):
                    remainder = Binary("%", part, number(n), int64)
                    return rest.plus(linear(remainder), -(factor // n))
    return None


def _divisors(of: int) -> Iterator[int]:
    """The divisors of a number that are greater than 1, the largest first."""
    return (n for n in range(of, 1, -1) if of % n == 0)


def _quotient(e: Expr, divisor: int) -> Expr:
    return e if divisor == 1 else Binary("//", e, number(divisor), int64)


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
