"""Folding of index arithmetic, and removal of the code that becomes dead by it.

Only int64 arithmetic and conditions are folded; arithmetic that may wrap is folded only in ways that wrap alike.
Operations on values stay as the algorithm has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from operator import is_

from tiramisu_py.algorithm.expressions import (
    COMPARISONS,
    Binary,
    Cast,
    Const,
    Expr,
    Iter,
    Param,
    Select,
    Unary,
    constant,
)
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.algorithm.traversal import iterators, kinds, mentions
from tiramisu_py.algorithm.types import bool_, int64
from tiramisu_py.ir import (
    Allocate,
    Block,
    Declare,
    Deferred,
    For,
    If,
    Lane,
    Let,
    Mask,
    Node,
    Ramp,
    Scalar,
    Store,
    Variable,
)
from tiramisu_py.ir.arithmetic.linear import Linear, difference, is_index, linear, number, operands
from tiramisu_py.ir.rewriting import (
    EMPTY,
    block,
    contents,
    defined,
    expressions,
    is_empty,
    is_read,
    substitute,
    variables,
    walk,
    with_children,
    with_expressions,
)
from tiramisu_py.program.loops import Parallel

_MARK = "_folded"

_COMPARE = {
    "<": lambda d: d < 0,
    "<=": lambda d: d <= 0,
    ">": lambda d: d > 0,
    ">=": lambda d: d >= 0,
    "==": lambda d: d == 0,
    "!=": lambda d: d != 0,
}


def simplified(e: Expr) -> Expr:
    """The expression with index arithmetic and conditions folded; it has the same value everywhere.

    Folded expressions are marked, since passes ask again and again for the same ones.
    """
    if isinstance(e, Const | Param) or _MARK in e.__dict__:
        return e
    result = _folded(e)
    result.__dict__[_MARK] = True
    return result


@deep
def _folded(e: Expr) -> Expr:
    parts = e.children()
    changed = tuple([simplified(part) for part in parts])
    return _root_folded(e if all(map(is_, changed, parts)) else e.rebuilt(changed))


def _root_folded(e: Expr) -> Expr:
    """An expression whose operands are folded."""
    match e:
        case Binary() if e.dtype.is_bool and e.op in COMPARISONS:
            return _comparison(e)
        case Binary() if e.dtype.is_bool and e.op in ("&", "|"):
            return _logic(e)
        case Binary() if is_index(e.dtype):
            return _index(e)
        case Unary() if is_index(e.dtype) and e.op == "-":
            return linear(e).expression()
        case Unary(op="~", operand=Const() as operand) if e.dtype.is_bool:
            return Const(not operand.value, bool_)
        case Select(condition=Const() as condition):
            return e.yes if condition.value else e.no
        case Lane(vector=Const() | Param() | Scalar()):
            return e.vector
        case Cast() if e.dtype == e.operand.dtype or (is_index(e.dtype) and is_index(e.operand.dtype)):
            return e.operand
    return e


def _index(e: Binary) -> Expr:
    if e.op in ("+", "-", "*"):
        return _ramped(linear(e))
    if e.op in ("min", "max"):
        return _extremum(e)
    divisor = constant(e.right)
    return _divided(e, divisor) if e.op in ("//", "%") and divisor is not None and divisor > 0 else e


def _ramped(form: Linear) -> Expr:
    """A form with one `Ramp` of step 1 is a `Ramp` itself."""
    ramps = [key for key, (atom, factor) in form.terms.items() if isinstance(atom, Ramp) and factor == 1]
    others = [atom for key, (atom, _) in form.terms.items() if key not in ramps]
    if len(ramps) != 1 or any(map(_has_lanes, others)):
        return form.expression()
    base, ramp = Linear({}, form.constant), form.terms[ramps[0]][0]
    assert isinstance(ramp, Ramp)
    for key, (atom, factor) in form.terms.items():
        base = base.plus(linear(ramp.base) if key == ramps[0] else Linear({key: (atom, factor)}))
    return Ramp(base.expression(), ramp.lanes, ramp.dtype)


def _has_lanes(e: Expr) -> bool:
    """Whether an expression may have lanes: a variable may hold a vector."""
    return not kinds(e).isdisjoint((Ramp, Variable))


def _extremum(e: Binary) -> Expr:
    """The minimum (maximum) without the operands that another one is never above (below)."""
    if not linear(e).exact:
        return e
    kept: list[Expr] = []
    for part in operands(e.op, e):
        gaps = [difference(part, other) for other in kept]
        sign = 1 if e.op == "min" else -1
        if not any(gap is not None and sign * gap >= 0 for gap in gaps):
            kept = [other for other, gap in zip(kept, gaps, strict=True) if gap is None]
            kept.append(part)
    result = kept[0]
    for part in kept[1:]:
        result = Binary(e.op, result, part, int64)
    return result


def _divided(e: Binary, divisor: int) -> Expr:
    """``(divisor * x + rest) // divisor`` is ``x + rest // divisor``; the remainder is that of the rest."""
    form = linear(e.left)
    if not form.exact:
        return e
    whole = Linear({k: (a, f // divisor) for k, (a, f) in form.terms.items() if f % divisor == 0})
    rest = Linear({k: t for k, t in form.terms.items() if t[1] % divisor}, form.constant)
    if rest.is_constant:
        whole = whole.plus(Linear({}, rest.constant // divisor))
        return whole.expression() if e.op == "//" else number(rest.constant % divisor)
    if not whole.terms:
        return e
    part = Binary(e.op, rest.expression(), e.right, int64)
    return part if e.op == "%" else whole.plus(linear(part)).expression()


def _comparison(e: Binary) -> Expr:
    if not (is_index(e.left.dtype) and is_index(e.right.dtype)):
        return e
    left, right = linear(e.left), linear(e.right)
    gap = left.plus(right, -1)
    if gap.is_constant and left.exact and right.exact:
        return Const(_COMPARE[e.op](gap.constant), bool_)
    return _of_each(e) if left.exact and right.exact else e


def _of_each(e: Binary) -> Expr:
    """``min(x, 16) > 0`` is ``x > 0``: each operand of a minimum must be greater, each of a maximum less."""
    op = {">": "min", ">=": "min", "<": "max", "<=": "max"}.get(e.op)
    parts = operands(op, e.left) if op is not None else []
    if op is None or len(parts) < 2:
        return e
    tests = [_comparison(Binary(e.op, part, e.right, bool_)) for part in parts]
    if any(isinstance(test, Const) and not test.value for test in tests):
        return Const(False, bool_)
    kept = [part for part, test in zip(parts, tests, strict=True) if not isinstance(test, Const)]
    if len(kept) == len(parts):
        return e
    left = reduce(lambda a, b: Binary(op, a, b, int64), kept)
    return Binary(e.op, left, e.right, bool_)


def _logic(e: Binary) -> Expr:
    for side, other in ((e.left, e.right), (e.right, e.left)):
        if isinstance(side, Const):
            return other if bool(side.value) == (e.op == "&") else side
    return e


class Substitution:
    """Variables replaced by expressions, and the result folded: ``simplify(substitute(node, values))`` in one step.

    A part that occurs in several statements is replaced once, and the result is used in all of them.
    """

    def __init__(self, values: Mapping[str, Expr]) -> None:
        self.values = values
        self.known: dict[int, tuple[Expr, Expr]] = {}

    def statement(self, node: Node) -> Node:
        """A statement with the variables replaced, except where an inner variable of the same name hides them."""
        hidden = defined(node)
        inside = self
        if hidden in self.values:
            inside = Substitution({name: value for name, value in self.values.items() if name != hidden})
        return _of_statement(with_children(with_expressions(node, self.expression), inside.statement))

    def expression(self, e: Expr) -> Expr:
        """An expression with the variables replaced."""
        return self._with_values(e) if mentions(e, self.values) else simplified(e)

    @deep
    def _with_values(self, e: Expr) -> Expr:
        found = self.known.get(id(e))
        if found is None:
            found = self.known[id(e)] = (self._replaced(e), e)
            found[0].__dict__[_MARK] = True
        return found[0]

    def _replaced(self, e: Expr) -> Expr:
        if isinstance(e, Iter):
            return simplified(self.values[e.name])
        if isinstance(e, Binary) and e.op in ("+", "-", "*") and is_index(e.dtype) and _MARK in e.__dict__:
            form = self._form(linear(e))
            if form is not None:
                return _ramped(form)
        return _root_folded(e.rebuilt(tuple([self.expression(part) for part in e.children()])))

    def _form(self, form: Linear) -> Linear | None:
        """A form with the variables replaced; None if one occurs inside an atom."""
        result = Linear({}, form.constant)
        for key, (atom, factor) in form.terms.items():
            value = self.values.get(atom.name) if isinstance(atom, Iter) else None
            if value is None and mentions(atom, self.values):
                return None
            result = result.plus(Linear({key: (atom, 1)}) if value is None else linear(value), factor)
        return result


def simplify(node: Node) -> Node:
    """The statement with its expressions folded, and without the code that is then never executed or never read.

    Statements that stay as they are are marked, since passes ask again and again for the same ones.
    """
    if _MARK in node.__dict__:
        return node
    result = _of_statement(with_children(with_expressions(node, simplified), simplify))
    if result is node:
        node.__dict__[_MARK] = True
    return result


def _of_statement(node: Node) -> Node:
    """A statement whose expressions, and statements inside, are folded."""
    match node:
        case For():
            return _loop(node)
        case If():
            return _guard(node)
        case Let():
            return _let(node)
        case Allocate():
            return _allocation(node)
        case Mask():
            return _masked(node)
    return node


def _masked(node: Mask) -> Node:
    """The statement without its mask where all lanes are active; nothing if none is, and it declares nothing."""
    count = constant(node.count)
    if is_empty(node.body) or (count is not None and count <= 0 and not _declares(node.body)):
        return EMPTY
    return node.body if count is not None and count >= node.width else node


def _loop(node: For) -> Node:
    trip = linear(node.upper).plus(linear(node.lower), -1)
    if is_empty(node.body) or (trip.is_constant and trip.constant <= 0):
        return EMPTY
    once = trip.is_constant and trip.constant <= node.step
    if once and not node.reductions and not isinstance(node.tag, Parallel) and not _declares(node.body):
        return simplify(substitute(node.body, {node.variable: node.lower}))
    return node


def _declares(node: Node) -> bool:
    """Whether the names that a loop's body declares need a block of their own."""
    return Declare in contents(node)


def _guard(node: If) -> Node:
    if isinstance(node.condition, Const):
        taken = node.then if node.condition.value else node.otherwise
        return EMPTY if taken is None else taken
    otherwise = None if node.otherwise is None or is_empty(node.otherwise) else node.otherwise
    if not is_empty(node.then):
        return replace(node, otherwise=otherwise)
    return EMPTY if otherwise is None else If(_negated(node.condition), otherwise)


def _negated(condition: Expr) -> Expr:
    return simplified(Unary("~", condition, bool_))


def _let(node: Let) -> Node:
    if not any(node.variable in iterators(e) for inner in walk(node.body) for e in expressions(inner)):
        return node.body
    if isinstance(node.value, Const | Iter | Param):
        captured = variables(node.value)
        if not any(getattr(inner, "variable", None) in captured for inner in walk(node.body)):
            return simplify(substitute(node.body, {node.variable: node.value}))
    return node


def _allocation(node: Allocate) -> Node:
    """The allocation; a buffer that is never loaded goes, and so do its stores."""
    if is_empty(node.body):
        return EMPTY
    if is_read(node.body, node.buffer):
        return node
    return simplify(without_stores(node.body, node.buffer))


def without_stores(node: Node, buffer: str) -> Node:
    """The statement without the stores to one buffer."""
    stored = node.store if isinstance(node, Deferred) else node
    if isinstance(stored, Store) and stored.buffer == buffer:
        return Block(())
    return block([with_children(node, lambda child: without_stores(child, buffer))])
