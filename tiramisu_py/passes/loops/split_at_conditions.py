"""Index-set splitting: loops cut where conditions begin and cease to hold, so that no iteration tests them.

Before: ``for c0 in 0 .. (C + 15) // 16: if (C - 16*c0 >= 16) full else general``. After: ``for c0 in 0 .. C // 16:
full``, then ``for c0 in C // 16 .. (C + 15) // 16: general``. Iterations stay in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from tiramisu_py.algorithm.expressions import Binary, Expr, Iter, constant
from tiramisu_py.algorithm.types import int64
from tiramisu_py.ir import (
    AllReduce,
    ArrayCall,
    Await,
    Collective,
    Complete,
    Copy,
    For,
    Launch,
    Let,
    Node,
    Post,
    Record,
)
from tiramisu_py.ir.arithmetic.linear import Linear, linear, number, operands
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.ir.rewriting import Names, block, variables, walk

_OPERATIONS = (AllReduce, ArrayCall, Await, Collective, Complete, Copy, Launch, Post, Record)


def operates(node: Node) -> bool:
    """Whether a statement contains operations of GPUs or messages: tests beside them are cheap, and their text long."""
    return any(isinstance(inner, _OPERATIONS) for inner in walk(node))


def cut_at(loop: For, conditions: Sequence[Expr], full: Node, taken: Names) -> Node | None:
    """The loop with `full` as its body where all conditions hold, and its own body before and after.

    None unless each condition changes at most once over the loop: it begins to hold, or ceases to hold.
    """
    bounds = _bounds(loop, conditions)
    return None if bounds is None else _pieces(loop, *bounds, full, taken)


def cut_apart(
    loop: For, first: Sequence[Expr], last: Sequence[Expr], full: Sequence[Node], taken: Names
) -> Node | None:
    """The loop with one body where the `first` conditions hold, another where the `last` ones do, its own in between.

    They never hold all together. None unless all of the first ones cease to hold, and all of the last ones begin to.
    """
    ceasing, beginning = _bounds(loop, first), _bounds(loop, last)
    if ceasing is None or beginning is None or ceasing[0] or beginning[1]:
        return None
    end, begin = (Iter(taken.fresh(f"{loop.variable}_{what}"), int64) for what in ("full", "begin"))
    pieces = (
        replace(loop, upper=end, body=full[0]), replace(loop, lower=end, upper=begin),
        replace(loop, lower=begin, body=full[1]),
    )  # fmt: skip
    rest = Let(begin.name, _clamped(loop, end, "max", beginning[0]), block(pieces))
    return Let(end.name, _clamped(loop, loop.lower, "min", ceasing[1]), rest)


def _bounds(loop: For, conditions: Sequence[Expr]) -> tuple[list[Expr], list[Expr]] | None:
    """Where conditions begin to hold in a loop, and where they cease to; None if one does neither."""
    begins: list[Expr] = []
    ends: list[Expr] = []
    for condition in conditions:
        bound = _bound(condition, loop.variable)
        if bound is None:
            return None
        (begins if bound[0] else ends).append(bound[1])
    return begins, ends


def _pieces(loop: For, begins: Sequence[Expr], ends: Sequence[Expr], full: Node, taken: Names) -> Node:
    """The loop in pieces: before the last of `begins`, from there to the first of `ends`, and after."""
    names: list[tuple[str, Expr]] = []
    lower, pieces = loop.lower, list[Node]()
    if begins:
        name = taken.fresh(f"{loop.variable}_begin")
        names.append((name, _clamped(loop, lower, "max", begins)))
        start = Iter(name, int64)
        pieces.append(replace(loop, upper=start))
        lower = start
    if ends:
        name = taken.fresh(f"{loop.variable}_full")
        names.append((name, _clamped(loop, lower, "min", ends)))
        end = Iter(name, int64)
        pieces += [replace(loop, lower=lower, upper=end, body=full), replace(loop, lower=end)]
    else:
        pieces.append(replace(loop, lower=lower, body=full))
    result = block(pieces)
    for name, value in reversed(names):
        result = Let(name, value, result)
    return result


def _clamped(loop: For, lower: Expr, op: str, bounds: Sequence[Expr]) -> Expr:
    """The minimum (maximum) of some bounds, clamped to a lower bound and the loop's upper bound."""
    if op == "min":
        high = _least([*bounds, *operands("min", loop.upper)])
    else:
        high = _least([reduce(lambda a, b: Binary(op, a, b, int64), bounds), *operands("min", loop.upper)])
    return simplified(Binary("max", high, lower, int64))


def _least(bounds: Sequence[Expr]) -> Expr:
    """The minimum of some bounds, without those that another one is never above."""
    kept: list[Expr] = []
    for bound in bounds:
        if not any(_is_below(other, bound) for other in kept):
            kept = [*(other for other in kept if not _is_below(bound, other)), bound]
    return reduce(lambda a, b: Binary("min", a, b, int64), reversed(kept))


def _is_below(a: Expr, b: Expr) -> bool:
    """Whether ``a <= b`` always, also for quotients by the same divisor."""
    (x, d), (y, e) = (_quotient(side) for side in (a, b))
    gap = linear(y).plus(linear(x), -1)
    return d == e and gap.is_constant and gap.constant >= 0 and linear(x).exact and linear(y).exact


def _quotient(e: Expr) -> tuple[Expr, int]:
    divisor = constant(e.right) if isinstance(e, Binary) and e.op == "//" else None
    return (e.left, divisor) if isinstance(e, Binary) and divisor is not None and divisor > 0 else (e, 1)


def exclude(a: Expr, b: Expr) -> bool:
    """Whether two conditions, ``form >= constant`` each, never hold together: their sum is a constant, too small."""
    if not (isinstance(a, Binary) and isinstance(b, Binary) and a.op == b.op == ">="):
        return False
    forms = [linear(each.left).plus(linear(each.right), -1) for each in (a, b)]
    total = forms[0].plus(forms[1])
    return all(form.exact for form in forms) and total.is_constant and total.constant < 0


def _bound(condition: Expr, variable: str) -> tuple[bool, Expr] | None:
    """The value of a loop's variable at which ``form >= constant`` begins (True) or ceases (False) to hold."""
    if not isinstance(condition, Binary) or condition.op != ">=":
        return None
    form = linear(condition.left).plus(linear(condition.right), -1)
    here = Iter(variable, int64)
    factor, rest = form.factor(here), form.without(here.key())
    if factor == 0 or not form.exact or any(variable in variables(atom) for atom, _ in rest.terms.values()):
        return None
    size = abs(factor)
    over = rest.plus(Linear({}, size)) if factor < 0 else rest.times(-1).plus(Linear({}, size - 1))
    return factor > 0, simplified(Binary("//", over.expression(), number(size), int64))
