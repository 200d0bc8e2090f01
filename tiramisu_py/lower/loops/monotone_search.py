"""Bounds of loops by binary search: in which iterations a condition holds, where values grow with the loop's variable.

    p < start[n + 1], for n in lower .. upper, where start never falls: false in the first iterations, then true
    -->
    at = lower
    for step in 0 .. steps:
        half = (((upper - lower) >> step) + 1) >> 1
        if half > 0: if start[at + half] <= p: at += half

After each step the first iteration that is sought is in ``at .. at + ((upper - lower) >> step + 1)``. Only such
elements are loaded as the loop would load to test the condition in each of its iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce

from tiramisu_py.algorithm.domains.reads import narrowest
from tiramisu_py.algorithm.expressions import Binary, Const, Expr, Iter, Select
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.algorithm.traversal import rewrite, substitute
from tiramisu_py.algorithm.types import bool_, int64
from tiramisu_py.ir import Assign, Block, Declare, For, If, Let, Load, Node, Variable
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.ir.arithmetic.linear import linear, number, operands
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.ir.rewriting import loads_in, variables
from tiramisu_py.records import dataclass

_OTHER = {"min": "max", "max": "min"}

#: Whether the elements of an array grow with their index.
NeverFalls = Callable[[str], bool]


@dataclass(frozen=True, eq=False)
class MonotoneTest:
    """A condition on the variable of a loop that changes once: to true where it is `rising`, else to false.

    ``small + strict <= large`` says it. `exact` is whether it is the condition, or what follows from it for the
    variables of loops inside.
    """

    variable: str
    small: Expr
    large: Expr
    strict: int
    rising: bool
    exact: bool

    @property
    def condition(self) -> Expr:
        """The condition as an expression."""
        return Binary("<" if self.strict else "<=", self.small, self.large, bool_)

    @property
    def opposite(self) -> Expr:
        """The condition that holds where it does not."""
        return Binary("<=" if self.strict else "<", self.large, self.small, bool_)

    def ends_after(self, other: MonotoneTest) -> bool:
        """Whether this rising condition, where it holds, says that another one does not hold one iteration later."""
        if not (self.rising and not other.rising and self.exact and other.exact):
            return False
        later = {self.variable: arithmetic.plus(Iter(self.variable, int64), 1)}
        own = linear(self.large).plus(linear(self.small), -1).plus(linear(number(-self.strict)))
        small, large = (linear(simplified(substitute(e, later))) for e in (other.small, other.large))
        total = own.plus(large).plus(small, -1).plus(linear(number(-other.strict)))
        return total.is_constant and total.constant < 0  # own >= 0 and other >= 0 exclude each other

    def search(self, at: str, step: str, lower: Expr, upper: Expr) -> Node:
        """Statements that make `at` the iteration of ``lower .. upper`` from which on the condition is another."""
        count, half = simplified(arithmetic.subtracted(upper, lower)), Iter(f"{step}_half", int64)
        further = Binary("+", Variable(at, int64), half, int64)
        before = self._at(self.opposite if self.rising else self.condition, Binary("-", further, number(1), int64))
        tested = If(Binary("<", number(0), half, bool_), If(before, Assign(at, further, at)))
        remaining = Binary("+", Binary(">>", count, Iter(step, int64), int64), number(1), int64)
        inside = Let(half.name, Binary(">>", remaining, number(1), int64), tested)
        return Block((Declare(at, lower), For(step, number(0), _steps(count), inside)))

    def step_after(self, at: str, first: Expr, upper: Expr) -> Node:
        """Statements that make `at` the iteration after `first` if the condition holds there, else `first`."""
        further = If(self._at(self.condition, first), Assign(at, arithmetic.plus(first, 1), at))
        return Block((Declare(at, first), If(Binary("<", first, upper, bool_), further)))

    def _at(self, condition: Expr, place: Expr) -> Expr:
        return simplified(substitute(condition, {self.variable: place}))


def _steps(count: Expr) -> Expr:
    """At least as many steps as a search among so many iterations takes."""
    known = [int(each.value) for each in operands("min", count) if isinstance(each, Const)]
    if known:
        return number(max(min(known), 0).bit_length())
    few, many = (Binary("<", count, number(1 << bits), bool_) for bits in (16, 32))
    return Select(few, number(16), Select(many, number(32), number(63), int64), int64)


def monotone_test(
    small: Expr, large: Expr, strict: int, variable: str, loops: Sequence[For], never_falls: NeverFalls
) -> MonotoneTest | None:
    """``small + strict <= large`` as a condition on the variable of a loop that changes once, or None.

    `loops` are those inside of it, outermost first, whose variables the condition may have: then what it says for some
    iteration of theirs.
    """
    inner = False
    for loop in reversed(loops):  # the bounds of one may have the variables of those around it
        if loop.variable not in variables(small) | variables(large):
            continue
        inner = True
        small, large = _extreme(small, loop, False, never_falls), _extreme(large, loop, True, never_falls)
        if loop.variable in variables(small) | variables(large):
            return None
    if not any(variable in variables(load) for side in (small, large) for load in loads_in(side)):
        return None
    if inner and not any(_compared(side, variable) for side in (small, large)):
        return None  # the loops inside go through all that it could say
    down, up = _direction(small, variable, never_falls), _direction(large, variable, never_falls)
    if down is None or up is None:
        return None
    signs = {-down, up} - {0}
    if len(signs) != 1:
        return None
    return MonotoneTest(variable, small, large, strict, signs == {1}, not inner)


def _compared(e: Expr, variable: str) -> set[str]:
    """The variables that say what an element is compared with: those outside of what is loaded for `variable`."""

    def none(part: Expr) -> Expr | None:
        return number(0) if isinstance(part, Load) and variable in variables(part) else None

    return variables(rewrite(e, none)) - {variable}


def _extreme(e: Expr, loop: For, largest: bool, never_falls: NeverFalls) -> Expr:
    """A value that an expression does not exceed (or is never below), whatever the iteration of a loop inside is."""
    if loop.step != 1:
        return e
    sign = _direction(e, loop.variable, never_falls)
    if sign is None or not sign:
        return e
    op = "min" if (sign > 0) == largest else "max"
    ends = [arithmetic.plus(end, -1) for end in operands(op, loop.upper)] if op == "min" else operands(op, loop.lower)

    def loaded(part: Expr) -> Expr | None:
        if not isinstance(part, Load) or loop.variable not in variables(part):
            return None
        (index,) = part.indices
        if loads_in(index):  # the place in the innermost array is decided: at another one there may be no element
            return replace(part, indices=(at_the_end(index),))
        rises = _direction(index, loop.variable, never_falls) == 1
        placed = [linear(substitute(index, {loop.variable: end})).expression() for end in ends]
        return replace(part, indices=(reduce(_extremum(op if rises else _OTHER[op]), placed),))

    def at_the_end(value: Expr) -> Expr:
        return substitute(rewrite(value, loaded), {loop.variable: reduce(_extremum(op), ends)})

    return at_the_end(e)


def _extremum(op: str) -> Callable[[Expr, Expr], Expr]:
    return arithmetic.smaller if op == "min" else arithmetic.larger


@deep
def _direction(e: Expr, variable: str, never_falls: NeverFalls) -> int | None:
    """1 if an expression never falls with a variable, -1 if it never rises, 0 without it; None if that is not known.

    Sums and products of narrower types than int64 may wrap.
    """
    if variable not in variables(e):
        return 0
    inner = narrowest(e)
    if isinstance(inner, Binary) and inner.op in ("+", "-", "*") and inner.dtype != int64:
        return None
    match inner:
        case Iter():
            return 1
        case Load(buffer=buffer, indices=(index,)) if never_falls(buffer):
            return _direction(index, variable, never_falls)
        case Binary(op="+" | "min" | "max"):
            return _common(*(_direction(side, variable, never_falls) for side in (inner.left, inner.right)))
        case Binary(op="-"):
            right = _direction(inner.right, variable, never_falls)
            return _common(_direction(inner.left, variable, never_falls), None if right is None else -right)
        case Binary(op="*", left=Const(value=factor)):
            sign = _direction(inner.right, variable, never_falls)
            return None if sign is None else sign * (1 if factor > 0 else -1 if factor < 0 else 0)
        case Binary(op="//", right=Const(value=divisor)) if divisor > 0:
            return _direction(inner.left, variable, never_falls)
    return None


def _common(left: int | None, right: int | None) -> int | None:
    if left is None or right is None or left * right < 0:
        return None
    return left or right
