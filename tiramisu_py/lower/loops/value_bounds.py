"""Value-dependent loop bounds: conditions that compare a loop's variable with loaded values become its bounds.

    for p in lo .. hi: if (start[i] <= p & p < start[i + 1]) body
    -->
    if lo < hi: low = start[i]; high = start[i + 1]; for p in max(lo, low) .. min(hi, high): body

    for v in lo .. hi: if (index[i] == v) body
    -->
    if lo < hi: v = index[i]; if (lo <= v & v < hi) body

    for p in lo .. hi: for r in a .. b: if (start[i] <= p & c[r]) body
    -->
    if lo < hi & a < b: low = start[i]; for p in max(lo, low) .. hi: for r in a .. b: if (c[r]) body

The values are loaded once, and only if the loop has an iteration that would have loaded them. What is declared of them
may say that they lie in the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tiramisu_py.algorithm.expressions import Binary, Cast, Const, Expr, Iter
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.algorithm.types import bool_, int64
from tiramisu_py.ir import For, If, Let, Load, Node
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.ir.rewriting import variables
from tiramisu_py.lower.statements.loop_names import unique


@dataclass(frozen=True, eq=False)
class _Bound:
    """A condition on a loop variable: at least `value` (`lower`), or less than `value`."""

    lower: bool
    value: Expr


#: The least value, and the end of the values, that an expression is declared to have; None if nothing is declared.
Declared = Callable[[Expr], tuple[Expr, Expr] | None]


def tightened(loop: For, taken: frozenset[str], declared: Declared) -> Node:
    """The loop with the guards in its body that compare its variable with loaded values moved into its bounds.

    A loop without a tag whose variable is equal to a loaded value becomes this one iteration. `taken` are names that
    the variables for the loaded values must not have.
    """
    inside = _loops_inside(loop)
    guard = (inside[-1] if inside else loop).body
    if not isinstance(guard, If) or guard.otherwise is not None or loop.step != 1:
        return loop
    if not inside and loop.tag is None and (single := _single(loop, guard, declared)) is not None:
        return single
    bounds: list[_Bound] = []
    kept: list[Expr] = []
    fixed = {inner.variable for inner in inside}
    for condition in arithmetic.conjuncts(guard.condition):
        bound = None if variables(condition) & fixed else _bound(condition, loop.variable)
        if bound is None:
            kept.append(condition)
        else:
            bounds.append(bound)
    if not bounds:
        return loop
    rest = arithmetic.conjunction(kept)
    body: Node = guard.then if rest is None else replace(guard, condition=rest)
    for inner in reversed(inside):
        body = replace(inner, body=body)
    return _hoisted(replace(loop, body=body), bounds, taken, inside)


def _loops_inside(loop: For) -> list[For]:
    """The loops directly inside a loop that are the same in each of its iterations, outermost first."""
    found: list[For] = []
    body = loop.body
    while isinstance(body, For) and not body.reductions:
        if loop.variable in variables(body.lower) | variables(body.upper):
            return []
        found.append(body)
        body = body.body
    return found


def _single(loop: For, guard: If, declared: Declared) -> Node | None:
    """The one iteration of a loop in which its variable is equal to a loaded value; None if no condition says so."""
    conditions = arithmetic.conjuncts(guard.condition)
    for condition in conditions:
        value = _equal(condition, loop.variable)
        if value is None:
            continue
        rest = arithmetic.conjunction(other for other in conditions if other is not condition)
        body = guard.then if rest is None else If(rest, guard.then)
        within = _within(loop, declared(value))
        inside = Let(loop.variable, value, body if within is None else If(within, body))
        return If(Binary("<", loop.lower, loop.upper, bool_), inside)
    return None


def _within(loop: For, known: tuple[Expr, Expr] | None) -> Expr | None:
    """Whether the loop's variable lies in its bounds; None if its declared values do."""
    variable, (low, high) = Iter(loop.variable, int64), known or (None, None)
    return arithmetic.conjunction(
        [
            *([] if low is not None and low.same_as(loop.lower) else [Binary("<=", loop.lower, variable, bool_)]),
            *([] if high is not None and high.same_as(loop.upper) else [Binary("<", variable, loop.upper, bool_)]),
        ]
    )


def _equal(condition: Expr, variable: str) -> Expr | None:
    """The loaded value that is equal to the variable where a condition holds, or None."""
    if not isinstance(condition, Binary) or condition.op != "==":
        return None
    for side, other in ((condition.left, condition.right), (condition.right, condition.left)):
        offset = _offset(side, variable)
        if offset is not None and _is_value(other, variable) and (offset == 0 or isinstance(other, Cast)):
            return arithmetic.plus(other, -offset)  # a value of a narrower type, which does not wrap
    return None


def _hoisted(loop: For, bounds: Sequence[_Bound], taken: frozenset[str], inside: Sequence[For]) -> Node:
    lower, upper = loop.lower, loop.upper
    lets: list[tuple[str, Expr]] = []
    for bound in bounds:
        name = unique(f"{loop.variable}_{'low' if bound.lower else 'high'}", taken.union(n for n, _ in lets))
        lets.append((name, bound.value))
        if bound.lower:
            lower = arithmetic.larger(lower, Iter(name, int64))
        else:
            upper = arithmetic.smaller(upper, Iter(name, int64))
    node: Node = replace(loop, lower=lower, upper=upper)
    for name, value in reversed(lets):
        node = Let(name, value, node)
    runs = arithmetic.conjunction(Binary("<", each.lower, each.upper, bool_) for each in (loop, *inside))
    assert runs is not None
    return If(runs, node)


def _bound(condition: Expr, variable: str) -> _Bound | None:
    """The condition as a bound of the variable by loaded values, or None."""
    if not isinstance(condition, Binary) or condition.op not in ("<", "<=", ">", ">="):
        return None
    small, large = condition.left, condition.right
    if condition.op in (">", ">="):
        small, large = large, small
    strict = condition.op in ("<", ">")
    offset = _offset(large, variable)
    if offset is not None and _is_value(small, variable):  # small <= v + offset
        return _Bound(True, arithmetic.plus(small, (1 if strict else 0) - offset))
    offset = _offset(small, variable)
    if offset is not None and _is_value(large, variable):  # v + offset < large
        return _Bound(False, arithmetic.plus(large, (0 if strict else 1) - offset))
    return None


def _offset(e: Expr, variable: str) -> int | None:
    """c if the expression is ``variable + c`` in int64, else None."""
    match e:
        case Iter():
            return 0 if e.name == variable else None
        case Binary(op="+" | "-", right=Const(value=own)) if e.dtype == int64:
            inner = _offset(e.left, variable)
            return None if inner is None else inner + int(own) * (1 if e.op == "+" else -1)
    return None


def _is_value(e: Expr, variable: str) -> bool:
    """Whether an int64 expression loads something and does not depend on the variable."""
    nodes = list(walk(e))
    if e.dtype != int64 or any(isinstance(node, Iter) and node.name == variable for node in nodes):
        return False
    return any(isinstance(node, Load) for node in nodes)
