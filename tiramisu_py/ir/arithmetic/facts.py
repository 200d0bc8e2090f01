"""Facts from the loops around a statement, and the maxima, minima and tests of indices that they decide.

Before: ``max(min(256, C - 256*c0), 0)`` inside ``for c0 in 0 .. (C + 255) // 256``. After: ``min(256, C - 256*c0)``,
since c0 <= (C - 1) / 256.

Facts are inequalities between variables and sizes, and no ranges (`intervals`): ``C - 256*c0 >= 1`` is lost if c0 and C
have an interval each, and a sign is to be decided though neither variable has a constant bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from math import gcd

from tiramisu_py.algorithm.expressions import COMPARISONS, Binary, Const, Expr, Iter, Param, constant
from tiramisu_py.algorithm.traversal import kinds, rewrite
from tiramisu_py.algorithm.types import bool_, int64
from tiramisu_py.ir import For, GpuIndex, If, Let, LoopFunction, Node
from tiramisu_py.ir.arithmetic.linear import LANE, Key, Linear, as_less, gap, is_index, linear, operands
from tiramisu_py.ir.rewriting import contents, with_children, with_expressions
from tiramisu_py.records import dataclass

#: The operators of the parts that facts may decide.
_DECIDABLE = frozenset((*COMPARISONS, "min", "max", "//"))

#: The depth of nested facts in a proof that a form is at least 0; a fact can lead back to itself.
MOST_FACTS = 2


@dataclass(frozen=True)
class Facts:
    """Linear forms that are at least 0 at some place of a function, in addition to those that always are.

    `multiples` are forms of sizes, each with a number of which it is a multiple.
    """

    forms: tuple[Linear, ...] = ()
    multiples: tuple[tuple[Linear, int], ...] = ()

    def inside(self, node: Node) -> Facts:
        """The facts inside a loop or a definition."""
        match node:
            case For():
                return self._without(node.variable)._and(_of_loop(node))
            case Let() if is_index(node.value.dtype):
                variable = linear(Iter(node.variable, int64))
                known = self._without(node.variable)
                known = known._and([variable]) if self.nonnegative(node.value) else known
                return known._and([*_of_thread(variable, node.value, known), *_of_extremum(variable, node.value)])
            case Let():
                return self._without(node.variable)
        return self

    def in_blocks(self, shape: tuple[int, int, int]) -> Facts:
        """The facts in a kernel whose blocks have this shape (threads along each axis)."""
        threads = (linear(GpuIndex("thread", axis)) for axis in range(3))
        return self._and([Linear({}, size - 1).plus(thread, -1) for thread, size in zip(threads, shape, strict=True)])

    def nonnegative_variables(self, names: Iterable[str]) -> Facts:
        """The facts where some variables are at least 0."""
        return self._and([linear(Iter(name, int64)) for name in names])

    def where(self, condition: Expr) -> Facts:
        """The facts where a condition holds."""
        found = self._and(list(_of_condition(condition)))
        more = tuple(_multiples(condition))
        return replace(found, multiples=(*found.multiples, *more)) if more else found

    def behind(self, guard: If) -> Facts:
        """The facts in the first branch of a guard: none more if that may run where the condition does not hold."""
        return self if guard.anywhere else self.where(guard.condition)

    def _and(self, more: list[Linear]) -> Facts:
        return replace(self, forms=(*self.forms, *more)) if more else self

    def _without(self, variable: str) -> Facts:
        """The facts without those on an outer variable of the same name."""
        kept = tuple([form for form in self.forms if variable not in form.iterators])
        return self if len(kept) == len(self.forms) else replace(self, forms=kept)

    def nonnegative(self, e: Expr, most: int = MOST_FACTS) -> bool:
        """Whether facts, nested at most `most` deep, show that an int64 expression is at least 0."""
        form = linear(e, lanes=True)
        return form.exact and self._holds(form, most)

    def is_multiple(self, e: Expr, of: int) -> bool:
        """Whether an index is a multiple of a number: by its factors, and by what is known of sizes."""
        for op in ("min", "max"):
            parts = operands(op, e)
            if len(parts) > 1:
                return all(self.is_multiple(part, of) for part in parts)
        form = linear(e)
        if not form.exact:
            return False
        for known, divisor in self.multiples:
            ((key, (_, own)), *_) = known.terms.items()
            times = _factor(form, key) * own
            if abs(own) == 1 and times * divisor % of == 0:
                form = form.plus(known, -times)
        return form.constant % of == 0 and all(factor % of == 0 for _, factor in form.terms.values())

    def _holds(self, form: Linear, most: int = MOST_FACTS) -> bool:
        if self._plain(form, most):
            return True
        if most == 0:
            return False
        below = [(key, factor) for key, (_, factor) in form.terms.items() if factor < 0]
        return any(
            self._plain(form.plus(fact, -1), most - 1)
            for fact in (self._above.get(below[0][0], ()) if below else self.forms)
            if fact.constant <= form.constant and all(_factor(fact, key) <= factor for key, factor in below)
        )

    @cached_property
    def _above(self) -> dict[Key, list[Linear]]:
        """The facts that bound a variable above."""
        found: dict[Key, list[Linear]] = {}
        for fact in self.forms:
            for key, (_, factor) in fact.terms.items():
                if factor < 0:
                    found.setdefault(key, []).append(fact)
        return found

    @cached_property
    def _bounded(self) -> frozenset[Key]:
        """The variables that a fact bounds below by 0 or more."""
        alone = (fact for fact in self.forms if len(fact.terms) == 1 and fact.constant <= 0)
        return frozenset(key for fact in alone for key, (_, factor) in fact.terms.items() if factor > 0)

    def _plain(self, form: Linear, most: int) -> bool:
        if form.constant < 0:
            return False
        for _, factor in form.terms.values():
            if factor < 0:
                return False
        return all(self._atom(atom, most) for atom, _ in form.terms.values())

    def _atom(self, e: Expr, most: int) -> bool:
        match e:
            case Param() | GpuIndex():
                return True
            case Iter():
                return e is LANE or e.key() in self._bounded
            case Binary(op="max"):
                return self.nonnegative(e.right, most) or self.nonnegative(e.left, most)
            case Binary(op="min"):
                return self.nonnegative(e.left, most) and self.nonnegative(e.right, most)
            case Binary(op="//" | "%", right=Const() as divisor) if divisor.value > 0:
                return e.op == "%" or self.nonnegative(e.left, most)
        return False

    def decided(self, e: Expr) -> Expr | None:
        """The expression with the extremum, comparison or quotient at its root decided; None if the facts do not."""
        if not isinstance(e, Binary) or not is_index(e.left.dtype) or not is_index(e.right.dtype):
            return None
        if e.op in ("min", "max"):
            more, less = (e.left, e.right) if e.op == "max" else (e.right, e.left)
            if self._at_least(more, less):
                return self.folded(e.left)
            return self.folded(e.right) if self._at_least(less, more) else None
        if e.op in COMPARISONS and e.dtype.is_bool:
            return self._compared(e)
        divisor = constant(e.right) if e.op == "//" else None
        return self._quotient(e, divisor) if divisor is not None and divisor > 1 else None

    def _quotient(self, e: Binary, divisor: int) -> Expr | None:
        """``(4*x + y) // 8`` with y from 0 to 3 is ``x // 2``."""
        form = linear(e.left)
        factors = {gcd(factor, divisor) for _, factor in form.terms.values()} if form.exact else set()
        for common in sorted(factors - {1}, reverse=True):
            whole = Linear({k: (a, f // common) for k, (a, f) in form.terms.items() if f % common == 0})
            rest = Linear({k: t for k, t in form.terms.items() if t[1] % common}, form.constant)
            if rest.is_constant or (self._holds(rest) and self._holds(Linear({}, common - 1).plus(rest, -1))):
                inner = whole.plus(Linear({}, rest.constant // common)) if rest.is_constant else whole
                left = self.folded(inner.expression())
                return left if common == divisor else Binary("//", left, Const(divisor // common, int64), int64)
        return None

    def _at_least(self, a: Expr, b: Expr, by: int = 0) -> bool:
        """Whether ``a >= b + by``; each operand of a minimum must be, one operand of a maximum."""
        if isinstance(a, Binary) and a.op in ("min", "max"):
            decide = all if a.op == "min" else any
            return decide(self._at_least(side, b, by) for side in (a.left, a.right))
        x, y = linear(a, lanes=True), linear(b, lanes=True)
        return x.exact and y.exact and self._holds(x.plus(y, -1).plus(Linear({}, -by)))

    def _compared(self, e: Binary) -> Expr | None:
        a, b, strict = as_less(e)
        if a is None or b is None:
            return None
        if self._at_least(b, a, strict):
            return Const(True, bool_)
        return Const(False, bool_) if self._at_least(a, b, 1 - strict) else None

    def folded(self, e: Expr) -> Expr:
        """The expression with every part decided that the facts decide.

        Copies of a statement have the same expressions in the same place, so each is looked at once.
        """
        if kinds(e).isdisjoint(_DECIDABLE):
            return e
        found = self._folded.get(id(e))
        if found is None:
            found = self._folded[id(e)] = (rewrite(e, self.decided), e)
        return found[0]

    @cached_property
    def _folded(self) -> dict[int, tuple[Expr, Expr]]:
        """Folded expressions by id. The key expression is kept alive, so that its id is not used again."""
        return {}


#: The facts where nothing is known.
NO_FACTS = Facts()


def _factor(form: Linear, key: Key) -> int:
    """The factor of an atom in a form."""
    term = form.terms.get(key)
    return 0 if term is None else term[1]


def _of_condition(condition: Expr) -> Iterator[Linear]:
    """The forms that are at least 0 where a condition holds, as far as it is a conjunction of comparisons."""
    if not isinstance(condition, Binary):
        return
    if condition.op == "&" and condition.dtype.is_bool:
        yield from _of_condition(condition.left)
        yield from _of_condition(condition.right)
    elif (form := gap(condition)) is not None:
        yield form


def _multiples(condition: Expr) -> Iterator[tuple[Linear, int]]:
    """The sizes that are multiples of a number where a condition holds: N - 4 of 16 for ``N % 16 == 4``."""
    match condition:
        case Binary(op="&") if condition.dtype.is_bool:
            yield from _multiples(condition.left)
            yield from _multiples(condition.right)
        case Binary(op="==", left=Binary(op="%") as rest, right=Const() as left_over) if is_index(rest.dtype):
            divisor, form = constant(rest.right), linear(rest.left).plus(Linear({}, -int(left_over.value)))
            is_of_sizes = all(isinstance(atom, Param) for atom, _ in form.terms.values())
            if divisor is not None and divisor > 0 and form.terms and form.exact and is_of_sizes:
                yield form, divisor


def _of_loop(loop: For) -> list[Linear]:
    """The bounds of a loop's variable: ``lower <= variable < upper``."""
    variable = linear(Iter(loop.variable, int64))
    lows = [form for low in operands("max", loop.lower) if (form := linear(low)).exact]
    highs = [form for high in operands("min", loop.upper) if (form := linear(high)).exact]
    return [variable.plus(low, -1) for low in lows] + [fact for high in highs for fact in _below(variable, high)]


def _of_extremum(variable: Linear, value: Expr) -> list[Linear]:
    """The bounds of a variable that is the minimum (maximum) of some values: above (below) none of them."""
    for op, sign in (("max", 1), ("min", -1)):
        parts = operands(op, value)
        if len(parts) > 1:
            forms = [form for part in parts if (form := linear(part)).exact]
            return [variable.plus(form, -1).times(sign) for form in forms]
    return []


def _of_thread(variable: Linear, value: Expr, known: Facts) -> list[Linear]:
    """The bound of a variable that is a thread's number plus a constant."""
    form = linear(value)
    if not any(isinstance(atom, GpuIndex) and atom.unit == "thread" for atom, _ in form.terms.values()):
        return []
    above = (fact.plus(form).plus(variable, -1) for fact in known.forms)
    return [fact for fact in above if set(fact.terms) == set(variable.terms)]


def _below(variable: Linear, high: Linear) -> Iterator[Linear]:
    """``high - 1 - variable >= 0``; for ``high = e // d + k`` also ``e + d*(k - 1) - d*variable >= 0``."""
    yield high.plus(Linear({}, 1), -1).plus(variable, -1)
    if len(high.terms) == 1:
        ((atom, factor),) = high.terms.values()
        d = constant(atom.right) if isinstance(atom, Binary) and atom.op == "//" else None
        if factor == 1 and d is not None and d > 0 and isinstance(atom, Binary):
            yield linear(atom.left).plus(Linear({}, d * (high.constant - 1))).plus(variable, -d)


def facts_of(function: LoopFunction) -> Facts:
    """The preconditions of a function, which it checks first, and the bounds of a rank's coordinates in the grid."""
    facts = Facts()
    for condition, _ in function.preconditions:
        facts = facts.where(condition)
    if function.grid is not None:
        for extent, name in zip(function.grid.extents, function.grid.coordinates, strict=True):
            facts = facts.where(Binary("<", Param(name, int64), extent, bool_))
    return facts


def decide(node: Node, facts: Facts) -> Node:
    """The statement without the extrema and comparisons of indices that the facts around them decide."""
    if contents(node).isdisjoint(_DECIDABLE):
        return node
    node = with_expressions(node, facts.folded)
    if isinstance(node, If):
        otherwise = None if node.otherwise is None else decide(node.otherwise, facts)
        return replace(node, then=decide(node.then, facts.behind(node)), otherwise=otherwise)
    inside = facts.inside(node)
    return with_children(node, lambda child: decide(child, inside))
