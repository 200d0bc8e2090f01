"""Value-dependent loop bounds: conditions that compare a loop's variable with loaded values become its bounds.

    for p in lo .. hi: if (start[i] <= p & p < start[i + 1]) body
    -->
    if lo < hi: low = start[i]; high = start[i + 1]; for p in max(lo, low) .. min(hi, high): body

    for p in lo .. hi: for r in a .. b: if (start[i] <= p & c[r]) body
    -->
    if lo < hi & a < b: low = start[i]; for p in max(lo, low) .. hi: for r in a .. b: if (c[r]) body

The values are loaded once, and only if the loop has an iteration that would have loaded them. A condition that says
what the variable is leaves one iteration (see `value_places`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tiramisu_py.algorithm.expressions import Binary, Expr, Iter
from tiramisu_py.algorithm.types import bool_, int64
from tiramisu_py.ir import For, If, Let, Node
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.ir.rewriting import variables
from tiramisu_py.lower.loops.value_places import Declared, at_value, is_value, offset_of
from tiramisu_py.lower.statements.loop_names import unique
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class _Bound:
    """A condition on a loop variable: at least `value` (`lower`), or less than `value`."""

    lower: bool
    value: Expr


def tightened(loop: For, taken: frozenset[str], declared: Declared) -> Node:
    """The loop with the guards in its body that compare its variable with loaded values moved into its bounds.

    A loop without a tag whose variable is equal to a loaded value becomes this one iteration. `taken` are names that
    the variables for the loaded values must not have.
    """
    single = at_value(loop, declared)
    if single is not None:
        return single
    inside = _loops_inside(loop)
    guard = (inside[-1] if inside else loop).body
    if not isinstance(guard, If) or guard.otherwise is not None or loop.step != 1:
        return loop
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
    """The loops directly inside a loop that are the same in each of its iterations, outermost first.

    There are none where the bounds of one depend on another one: whether these loops run at all is asked before them.
    """
    found: list[For] = []
    body = loop.body
    while isinstance(body, For) and not body.reductions:
        outer = {loop.variable, *(each.variable for each in found)}
        if outer & (variables(body.lower) | variables(body.upper)):
            return []
        found.append(body)
        body = body.body
    return found


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
    offset = offset_of(large, variable)
    if offset is not None and is_value(small, variable):  # small <= v + offset
        return _Bound(True, arithmetic.plus(small, (1 if strict else 0) - offset))
    offset = offset_of(small, variable)
    if offset is not None and is_value(large, variable):  # v + offset < large
        return _Bound(False, arithmetic.plus(large, (0 if strict else 1) - offset))
    return None
