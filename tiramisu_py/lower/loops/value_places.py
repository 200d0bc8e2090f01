"""Loops whose variable is equal to a loaded value, which become this one iteration: direct updates of a scatter.

    for v in lo .. hi: if (index[i] == v) body
    -->
    if lo < hi: v = index[i]; if (lo <= v & v < hi) body

    for k in 0 .. K: for d in 0 .. D: if (label[i] == k) body
    -->
    if 0 < K & 0 < D: k = label[i]; if (0 <= k & k < K) for d in 0 .. D: body

    for x in 0 .. X: for z in 0 .. Z: if (px[i] == x & pz[i] == z) body
    -->
    if 0 < X & 0 < Z: z = pz[i]; if (0 <= z & z < Z) x = px[i]; if (0 <= x & x < X) body

    for v in a .. hi step 4: if (4 * index[i] + a == v) body
    -->
    if a < hi: v = 4 * index[i] + a; if (a <= v & v < hi) body

What lies between the loop and its equation, and does not depend on the loop's variable, moves out of the loop: a
choice, or a value. A loop stays around the body. The value is loaded once, and only if an iteration would have loaded
it. What is declared of it, or its type, may say that it lies in the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tiramisu_py.algorithm.expressions import Binary, Cast, Const, Expr, Iter
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.algorithm.types import bool_, int64
from tiramisu_py.ir import For, If, Let, Load, Node
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.ir.arithmetic.intervals import bounds
from tiramisu_py.ir.arithmetic.linear import linear
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.ir.rewriting import variables
from tiramisu_py.records import dataclass

#: The least value, and the end of the values, that an expression is declared to have; None if nothing is declared.
Declared = Callable[[Expr], tuple[Expr, Expr] | None]


def at_value(loop: For, declared: Declared) -> Node | None:
    """The one iteration of a loop in which its variable is equal to a loaded value; None if no condition says so."""
    if loop.tag is not None:
        return None
    found = _equation(loop.body, loop.variable)
    if found is None:
        return None
    within = _within(loop, found.value, declared(found.value))
    inside: Node = Let(loop.variable, found.value, found.body if within is None else If(within, found.body))
    for each in reversed(found.around):
        inside = Let(each[0], each[1], inside) if isinstance(each, tuple) else _where(each, inside)
    return _where(_not_empty(loop), inside)


def offset_of(e: Expr, variable: str) -> int | None:
    """c if the expression is ``variable + c`` in int64, else None."""
    match e:
        case Iter():
            return 0 if e.name == variable else None
        case Binary(op="+" | "-", right=Const(value=own)) if e.dtype == int64:
            inner = offset_of(e.left, variable)
            return None if inner is None else inner + int(own) * (1 if e.op == "+" else -1)
    return None


def is_value(e: Expr, variable: str) -> bool:
    """Whether an int64 expression loads something and does not depend on the variable."""
    nodes = list(walk(e))
    if e.dtype != int64 or any(isinstance(node, Iter) and node.name == variable for node in nodes):
        return False
    return any(isinstance(node, Load) for node in nodes)


#: What stays around the one iteration: a condition, or a name and its value.
_Around = Expr | tuple[str, Expr]


@dataclass(frozen=True, eq=False)
class _Equation:
    """A variable's value, and the body without the equation that says so.

    `around` is what lies before the equation, outermost first, and moves out: choices, values, and that a loop has an
    iteration. None of it depends on the variable, or on the loops that it leaves.
    """

    value: Expr
    body: Node
    around: tuple[_Around, ...] = ()

    def inside(self, outer: _Around) -> _Equation:
        """The equation inside one more choice or value."""
        return replace(self, around=(outer, *self.around))

    def depends(self, variable: str) -> bool:
        """Whether what moves out depends on a variable."""
        needed = [self.value, *(each[1] if isinstance(each, tuple) else each for each in self.around)]
        return any(variable in variables(e) for e in needed)


def _equation(node: Node, variable: str) -> _Equation | None:
    """The equation of a variable in a node: in its own condition, or further inside; None if there is none."""
    match node:
        case If(otherwise=None):
            own = _of_condition(node, variable)
            found = _equation(node.then, variable) if own is None else None
            free = variable not in variables(node.condition)
            return own if found is None else found.inside(node.condition) if free else None
        case Let():
            found = _equation(node.body, variable)
            free = variable not in variables(node.value)
            return found.inside((node.variable, node.value)) if found is not None and free else None
        case For() if not node.reductions and variable not in variables(node.lower) | variables(node.upper):
            found = _equation(node.body, variable)
            if found is None or found.depends(node.variable):
                return None
            return replace(found, body=replace(node, body=found.body)).inside(_not_empty(node))
    return None


def _of_condition(guard: If, variable: str) -> _Equation | None:
    conditions = arithmetic.conjuncts(guard.condition)
    for condition in conditions:
        value = _equal(condition, variable)
        if value is not None:
            rest = arithmetic.conjunction(other for other in conditions if other is not condition)
            return _Equation(value, guard.then if rest is None else replace(guard, condition=rest))
    return None


def _not_empty(loop: For) -> Expr:
    return simplified(Binary("<", loop.lower, loop.upper, bool_))


def _where(condition: Expr, body: Node) -> Node:
    """The body where a condition holds, which need not be asked if it always does."""
    return body if isinstance(condition, Const) and condition.value else If(condition, body)


def _within(loop: For, value: Expr, known: tuple[Expr, Expr] | None) -> Expr | None:
    """Whether the loop's variable lies in its bounds; None if all that is declared, or its type, says so."""
    variable, typed = Iter(loop.variable, int64), bounds(value)
    low, high = known or (arithmetic.number(typed.low), arithmetic.number(typed.high))
    ends = Binary("<=", high, loop.upper, bool_) if known else Binary("<", high, loop.upper, bool_)
    tests = []
    if not _always(Binary("<=", loop.lower, low, bool_)):
        tests.append(Binary("<=", loop.lower, variable, bool_))
    if not _always(ends):
        tests.append(Binary("<", variable, loop.upper, bool_))
    if loop.step != 1:
        beyond = linear(value).plus(linear(loop.lower), -1)
        parts = (beyond.constant, *(factor for _, factor in beyond.terms.values()))
        if not beyond.exact or any(part % loop.step for part in parts):
            after = Binary("-", variable, loop.lower, int64)
            rest = Binary("%", after, arithmetic.number(loop.step), int64)
            tests.append(Binary("==", rest, arithmetic.number(0), bool_))
    return arithmetic.conjunction(tests)


def _always(condition: Expr) -> bool:
    found = simplified(condition)
    return isinstance(found, Const) and bool(found.value)


def _equal(condition: Expr, variable: str) -> Expr | None:
    """The loaded value that is equal to the variable where a condition holds, or None."""
    if not isinstance(condition, Binary) or condition.op != "==":
        return None
    for side, other in ((condition.left, condition.right), (condition.right, condition.left)):
        offset = offset_of(side, variable)
        if offset is not None and is_value(other, variable) and (offset == 0 or isinstance(other, Cast)):
            return arithmetic.plus(other, -offset)  # a value of a narrower type, which does not wrap
    return None
