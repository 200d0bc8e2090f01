"""Value ranges of a kernel's variables, and the worst case of a condition over them.

The ends of a loop are linear forms, since they depend on sizes and outer loops: a sum of variables gets its range by
replacing each by an end. What is left, quotients and remainders, is the arithmetic of `intervals`.

The worst case of ``64*i0 + 4*i1 + u < M``, with i1 the number of one of 16 threads and u from 0 to 3, is
``64*i0 + 64 <= M``: where that holds, the condition holds for all threads and all u. It is uniform over a block.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from math import gcd

from tiramisu_py.algorithm.expressions import Binary, Expr, Iter, Param, constant
from tiramisu_py.algorithm.types import bool_, int64
from tiramisu_py.ir import For, GpuIndex, Let, Node
from tiramisu_py.ir.arithmetic.build import plus
from tiramisu_py.ir.arithmetic.intervals import Interval, Ranges
from tiramisu_py.ir.arithmetic.linear import Linear, difference, gap, is_index, linear, number
from tiramisu_py.ir.arithmetic.linear import operands as operands_of
from tiramisu_py.records import dataclass

#: The least and the largest value of a variable, as linear forms.
Span = tuple[Linear, Linear]

#: Bounds can depend on each other; this many replacements suffice for any nest of loops.
MOST_REPLACEMENTS = 32


@dataclass(frozen=True)
class Limits(Ranges):
    """The spans of variables, in a kernel with blocks of `shape` threads."""

    shape: tuple[int, int, int]
    spans: Mapping[str, Span] = field(default_factory=dict)

    def inside(self, node: Node) -> Limits:
        """The spans inside a loop or a definition."""
        match node:
            case For():
                return self._with(node.variable, _of_loop(node))
            case Let():
                return self._with(node.variable, _constant(self.of(node.value)))
        return self

    def _with(self, name: str, span: Span | None) -> Limits:
        kept = {known: own for known, own in self.spans.items() if known != name and not _mentions(own, name)}
        return Limits(self.shape, kept if span is None else {**kept, name: span})

    def of(self, e: Expr) -> Interval | None:
        """The range of an index of thread numbers, variables and constants."""
        if not is_index(e.dtype):
            return None
        low, high = self._extreme(linear(e), False), self._extreme(linear(e), True)
        if low is None or high is None or not (low.is_constant and high.is_constant):
            return None
        return Interval(low.constant, high.constant)

    def worst(self, form: Linear) -> Linear | None:
        """A form that is at least 0 only if the given one is for all values in the spans; None if none is found."""
        found = self._extreme(form, False)
        return None if found is None else reduced(found)

    def most(self, form: Linear) -> int | None:
        """A constant upper bound of a form over the spans of its variables; None if there is none."""
        found = self._extreme(form, True)
        return found.constant if found is not None and found.is_constant else None

    def varies(self, form: Linear) -> bool:
        """Whether a form depends on a variable, thread number or quotient with a span."""
        return any(self._span(atom) is not None for atom, _ in form.terms.values())

    def _extreme(self, form: Linear, largest: bool) -> Linear | None:
        for _ in range(MOST_REPLACEMENTS):
            found = next(((key, atom, f) for key, (atom, f) in form.terms.items() if self._span(atom)), None)
            if found is None:
                return form if form.exact else None
            key, atom, factor = found
            span = self._span(atom)
            assert span is not None
            form = form.without(key).plus(span[int((factor > 0) == largest)], factor)
        return None

    def _span(self, atom: Expr) -> Span | None:
        match atom:
            case Iter():
                return self.spans.get(atom.name)
            case GpuIndex(unit="thread"):
                return Linear(), Linear({}, self.shape[atom.axis] - 1)
            case Binary(op="//" | "%"):
                return _constant(self.computed(atom))
        return None

    def form(self, condition: Expr) -> Linear | None:
        """A form that is at least 0 exactly where a comparison holds; a quotient of sizes is multiplied out."""
        form = gap(condition)
        while form is not None:
            sizes = any(isinstance(atom, Param) for atom, _ in form.terms.values())
            key = next((k for k, (a, f) in form.terms.items() if self._is_open(a, sizes) and abs(f) == 1), None)
            if key is None:
                return self._divided(form) if form.exact else None
            form = _multiplied_out(form, key)
        return None

    def _divided(self, form: Linear) -> Linear:
        """``4*M - 4*i - t - 1 >= 0`` as ``M - i - t // 4 - 1 >= 0``, for an atom t with a span."""
        single = [(key, atom) for key, (atom, factor) in form.terms.items() if factor == -1 and self._span(atom)]
        if len(single) != 1 or form.constant != -1 or len(form.terms) < 2:
            return form
        ((key, atom),) = single
        rest = form.without(key)
        common = gcd(*(factor for _, factor in rest.terms.values()))
        if common < 2:
            return form
        part = Binary("//", atom, number(common), int64)
        return reduced(Linear(rest.terms)).plus(linear(part), -1).plus(Linear({}, -1))

    def _is_open(self, atom: Expr, sizes: bool) -> bool:
        """Whether a quotient is to be multiplied out: one without a span, or any if the form has no sizes."""
        is_quotient = isinstance(atom, Binary) and atom.op == "//" and bool(constant(atom.right))
        return is_quotient and (not sizes or self._span(atom) is None)


def _constant(values: Interval | None) -> Span | None:
    return None if values is None else (Linear({}, values.low), Linear({}, values.high))


def _of_loop(loop: For) -> Span | None:
    """The span of a loop's variable; None unless the trip count is constant and the step 1."""
    low, high = linear(loop.lower), linear(loop.upper)
    extent = high.plus(low, -1)
    if loop.step != 1 or not extent.is_constant or not low.exact:
        return None
    return low, high.plus(Linear({}, 1), -1)


def reduced(form: Linear) -> Linear:
    """An equivalent of ``form >= 0``, its factors divided by their common divisor."""
    common = gcd(*(factor for _, factor in form.terms.values())) or 1
    return Linear({k: (a, f // common) for k, (a, f) in form.terms.items()}, form.constant // common)


def _mentions(span: Span, name: str) -> bool:
    key = Iter(name, int64).key()
    return any(key in bound.terms for bound in span)


def _multiplied_out(form: Linear, key: object) -> Linear | None:
    """``e // d + rest >= 0`` as ``e + d*rest >= 0``; ``rest - e // d >= 0`` as ``d*rest + d - 1 - e >= 0``."""
    quotient, factor = next(term for own, term in form.terms.items() if own == key)
    assert isinstance(quotient, Binary)
    divisor = constant(quotient.right)
    inner = linear(quotient.left)
    if divisor is None or divisor <= 0 or not inner.exact:
        return None
    rest = form.without(quotient.key()).times(divisor)
    return rest.plus(inner) if factor > 0 else rest.plus(Linear({}, divisor - 1)).plus(inner, -1)


def condition_of(form: Linear, whole: bool = False) -> Expr:
    """``form >= 0`` in readable form: ``64*i0 + 3 < M``; with `whole`, as for a whole tile: ``64*i0 + 64 <= M``."""
    below = Linear({k: (a, -f) for k, (a, f) in form.terms.items() if f < 0})
    above = Linear({k: (a, f) for k, (a, f) in form.terms.items() if f > 0})
    c = form.constant
    if not below.terms:
        return Binary(">=", above.expression(), number(-c), bool_)
    if not above.terms or c >= 0:
        return Binary(
            "<=" if c == 0 else "<", below.expression(), above.plus(Linear({}, c + (c != 0))).expression(), bool_
        )
    if whole:
        return Binary("<=", below.plus(Linear({}, -c)).expression(), above.expression(), bool_)
    return Binary("<", below.plus(Linear({}, -c - 1)).expression(), above.expression(), bool_)


@dataclass(frozen=True, eq=False)
class ConstantSpan:
    """Bounds of a loop in a full tile, with a constant extent, and the tests under which they are the loop's bounds."""

    low: Expr
    high: Expr
    extent: int
    tests: tuple[Expr, ...]


def constant_span(loop: For, limits: Limits) -> ConstantSpan | None:
    """The smallest constant span that contains a loop's iterations; None if its bounds give none."""
    lowers, uppers = operands_of("max", loop.lower), operands_of("min", loop.upper)
    fixed = [(low, high, limits.most(linear(high).plus(linear(low), -1))) for low in lowers for high in uppers]
    known = [(extent, low, high) for low, high, extent in fixed if extent is not None and extent > 0]
    if not known:
        return None
    extent, low, high = min(known, key=lambda pair: pair[0])
    exact = difference(high, low) is not None
    here = Iter(loop.variable, int64)
    above = [Binary(">=", here, other, bool_) for other in lowers if other is not low]
    below = [Binary("<", here, other, bool_) for other in uppers if other is not high or not exact]
    return ConstantSpan(low, high if exact else plus(low, extent), extent, (*above, *below))
