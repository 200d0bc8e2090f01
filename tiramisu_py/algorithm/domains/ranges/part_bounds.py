"""Bounds of the parts of integer expressions: from facts and types, and through arithmetic.

An operation has its exact result where that fits its type; elsewhere it has any value of the type.
"""

from __future__ import annotations

import math

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.affine import NotAffine
from tiramisu_py.algorithm.domains.ranges.enclosed import Enclosed, Knowledge
from tiramisu_py.algorithm.domains.ranges.float_ranges import FloatRanges
from tiramisu_py.algorithm.domains.ranges.implied import implied
from tiramisu_py.algorithm.domains.ranges.index_parts import LARGEST_SIZE, IndexParts
from tiramisu_py.algorithm.expressions import Access, Binary, Call, Cast, Component, Const, Expr, Iter, Select, Unary
from tiramisu_py.algorithm.types import DType, int64, weak_int

#: Bits of a constant for which ``x ^ constant`` is an exact form.
_MOST_BITS = 3

#: Bounds of more pieces than this become one piece around them.
MOST_PIECES = 12

#: With more parts than this, each has bounds of one piece, or those of its type: frames of many dimensions are slow.
MOST_PARTS = 12


#: The least and the largest of some numbers; None where there is no bound.
Ends = tuple[int | None, int | None]


class PartBounds:
    """The bounds of the parts of some expressions, those of operands first."""

    def __init__(self, ranges: Knowledge, parts: IndexParts, points: isl.Set | None) -> None:
        self.ranges = ranges
        self.algorithm = ranges.algorithm
        self.parts = parts
        self.reader = parts.reader
        self.space = parts.reader.space
        self.points = points
        self.bounds = sets.universe(self.space)
        context = self.algorithm.context.params()
        self.possible = sets.universe(self.space) if points is None else sets.extended(points, self.space)
        self.possible = self.possible.intersect_params(context)
        self.always = parts.always()
        self.facts: list[str] = []
        self.loose: dict[str, list[Expr]] = {}
        for name in parts.in_order():
            self._bound(name)

    def enclosed(self) -> Enclosed:
        """The facts that were found."""
        names = [name for e in self.parts.given for name in self.parts.operands_of(e)]
        unbounded = {part.key(): part for name in names for part in self.loose[name]}
        facts = tuple(dict.fromkeys(self.facts))
        return Enclosed(self.parts, self.bounds, self.possible, tuple(unbounded.values()), facts, self.points)

    def _bound(self, name: str) -> None:
        """Add what is known of a part; of a narrow one among very many, it is what its type says."""
        part, value = self.parts.parts[name], Iter(name)
        dtype = part.dtype
        self.loose[name] = []
        if len(self.parts.parts) > MOST_PARTS and dtype.is_integer and not dtype.weak and dtype.bits <= 16:
            found = None
        else:
            found = self._leaf(part, value) if _is_leaf(part) else self._operation(name, part, value)
        if found is None and not self.loose[name]:
            self.loose[name] = [self.parts.in_words(part)]
        if dtype.is_integer and not dtype.weak and dtype != int64:
            typed = self._of_type(value, dtype)
            if dtype.bits <= 16:
                self.loose[name] = []
                found = typed if found is None else found.intersect(typed)
            elif dtype.kind == "u" and found is None:
                found = self._at_least(self.reader.value(value), self._constant(0))
            self.possible = self.possible.intersect(typed)
        if found is not None and len(self.parts.parts) > MOST_PARTS:
            found = self._in_one_piece(value, found)
        if found is not None:
            self.bounds = sets.at_most(self.bounds.intersect(found), MOST_PIECES)
            self.possible = sets.at_most(self.possible.intersect(found), MOST_PIECES)

    def _in_one_piece(self, value: Iter, found: isl.Set) -> isl.Set:
        """The values of one of very many parts: those between the ends, where there are several pieces."""
        if found.n_basic_set() == 1:
            return found
        least, most = self._ends(self.reader.value(value), found)
        ends = found
        if least is not None and most is not None:
            ends = self._between(value, Const(least, weak_int), Const(most + 1, weak_int))
        return sets.at_most(ends, 1)

    # -- leaves

    def _leaf(self, part: Expr, value: Iter) -> isl.Set | None:
        """The values of a part that is no integer arithmetic."""
        match part:
            case Access():
                return self._of_source(part, value)
            case Component() if isinstance(part.whole, Access):
                return self._of_computation(part.whole, part.position, value)
            case Cast() if part.operand.dtype.is_float:
                return self._truncated(part, value)
            case Call(function="popcount", extern=None):
                return self._between(value, Const(0, weak_int), Const(part.dtype.bits + 1, weak_int))
        return self._between(value, Const(0, weak_int), Const(2, weak_int)) if part.dtype.is_bool else None

    def _of_source(self, part: Access, value: Iter) -> isl.Set | None:
        declared = self.algorithm.inputs.get(part.source)
        if declared is None:
            computed = self.algorithm.computations.get(part.source)
            if computed is not None and computed.run_of and computed.values is not None:
                self.facts.append(computed.run_of)
                return self._declared(value, *computed.values)
            return self._of_computation(part, None, value)
        if part.dtype.is_bool:
            return self._between(value, Const(0, weak_int), Const(2, weak_int))
        if declared.values is not None:
            self.facts.append(declared.name)
            return self._declared(value, *declared.values)
        if declared.permutation and len(declared.shape) == 1:
            self.facts.append(declared.name)
            return self._declared(value, Const(0, weak_int), declared.shape[0])
        return None

    def _declared(self, value: Iter, low: Expr, high: Expr) -> isl.Set:
        """A declared range; where that is empty, any value, as it may be in a branch that is not taken."""
        found, nothing = self._between(value, low, high), self.reader.condition(high <= low)
        if value.name in self.always or self.possible.intersect(nothing).is_empty():
            return found
        return found.union(nothing)

    def _without_value(self, found: isl.Set, value: Iter) -> isl.Set:
        """The elements of the frame at which a part has no value."""
        return self.possible.subtract(sets.freed(found, self._position(value.name)))

    def _of_computation(self, access: Access, component: int | None, value: Iter) -> isl.Set | None:
        """The range of a computation, at the indices that are read.

        Where these are outside of the computation, any value: it may be in a branch that is not taken there, and
        without a value the point itself would be lost.
        """
        if access.dtype.is_bool:
            return self._between(value, Const(0, weak_int), Const(2, weak_int))
        known = self.ranges.of(access.source, component)
        if known is None:
            return None
        written = self.parts.in_words(access)
        assert isinstance(written, Access)
        read = self.ranges.enclosed(written.indices, self.parts.space)
        self.facts += [*known.facts, *read.facts]
        if known.unbounded:
            self.loose[value.name] = [written]
        read_at = read.relation(access.source)
        pairs = sets.named(sets.flat_pairs(read_at.apply_range(known.values), "pair"), None)
        own = sets.variables(self.space)[: sets.size(self.parts.space)]
        at = sets.function(self.space, None, [*own, self.reader.dims[value.name]])
        found = sets.preimage(pairs, at)
        elsewhere = sets.as_set(read_at.subtract_range(sets.as_set(known.values.domain())).domain())
        elsewhere = sets.named(elsewhere, None)
        if self.points is not None:  # nothing is asked of others
            elsewhere = elsewhere.intersect(sets.named(self.points, None))
        found = found.union(sets.extended(elsewhere, self.space))
        return found if value.name in self.always else found.union(self._without_value(found, value))

    def _floats(self) -> FloatRanges:
        return self.ranges.floats(self.parts.space, self.facts)

    def _truncated(self, part: Cast, value: Iter, floats: FloatRanges | None = None) -> isl.Set | None:
        """A float cut towards zero: known if it cannot be NaN, and fits the type."""
        found = (floats or self._floats()).of(self.parts.in_words(part.operand))
        if found.has_nan or not found.has_ends:
            return None
        least, largest = part.dtype.limits
        if math.trunc(found.low) < least or largest < math.trunc(found.high):
            return None
        ends = Const(math.trunc(found.low), weak_int), Const(math.trunc(found.high) + 1, weak_int)
        return self._between(value, *ends)

    # -- operations

    def _operation(self, name: str, part: Expr, value: Iter) -> isl.Set | None:
        """The values of an operation of operands with affine forms, where those wrap around that do not fit."""
        if isinstance(part, Binary) and part.op == "%":
            found = self._modulo(part, value)
            if found is not None:
                return found
        inside = [e for other in self.parts.operands_of(part) for e in self.loose[other]]
        self.loose[name] = inside
        if part.dtype == int64 and inside and (self.parts.exact or not isinstance(part, Binary)):
            return None  # 64 bits may wrap around
        found = self._result(part, value)
        if found is None:
            return None
        if not inside and not _is_exact(part) and not self._is_bounded(name, found):
            self.loose[name] = [self.parts.in_words(part)]
        if _is_within_operands(part):
            self.loose[name] = []
        return self._wrapped(part, value, found)

    def _wrapped(self, part: Expr, value: Iter, found: isl.Set) -> isl.Set:
        """Results that fit the type, and any value of the type at the elements with one that does not.

        What fits 64 bits for all sizes that calls can have is taken to fit: a sum of two sizes, say.
        """
        if part.dtype.weak:
            return found
        typed = self._of_type(value, part.dtype)
        wrong = self.possible.intersect(found).subtract(typed)
        if (sets.with_params_below(wrong, LARGEST_SIZE) if part.dtype == int64 else wrong).is_empty():
            return found
        anywhere = sets.freed(wrong, self._position(value.name))
        return found.intersect(typed).union(anywhere.intersect(typed))

    def _result(self, part: Expr, value: Iter) -> isl.Set | None:
        """The results of an operation as if its type had all integers."""
        v = self.reader.value(value)
        match part:
            case Cast():
                return self._same(v, self.reader.value(part.operand))
            case Call(function="abs"):
                inner = self.reader.value(part.arguments[0])
                return self._same(v, inner.max(inner.neg()))
            case Unary(op="~"):
                inner = self.reader.value(part.operand)
                top = part.dtype.limits[1] if part.dtype.kind == "u" else -1
                return self._same(v, self._constant(top).sub(inner))
            case Select():
                return self._selected(part, v)
        try:
            return self._same(v, self.reader.value(part))
        except NotAffine:
            pass
        return self._approximated(part, v) if isinstance(part, Binary) else None

    def _selected(self, part: Select, v: isl.PwAff) -> isl.Set:
        found, floats = sets.empty(self.space), self._floats()
        condition = self.parts.in_words(part.condition)
        for side, truth in ((part.yes, True), (part.no, False)):
            if floats.excludes(condition, truth):
                continue
            taken, holds = self._same(v, self.reader.value(side)), implied(self.reader, part.condition, truth)
            inside = self.parts.parts.get(side.name) if isinstance(side, Iter) else None
            if isinstance(inside, Cast) and inside.operand.dtype.is_float and isinstance(side, Iter):
                known = self._truncated(inside, side, floats.under(condition, truth))
                taken = taken if known is None else taken.intersect(known)
            found = found.union(taken if holds is None else taken.intersect(holds))
        return found

    def _approximated(self, part: Binary, v: isl.PwAff) -> isl.Set | None:
        """Bounds of the result of two operands by linear inequalities."""
        a, b = self.reader.value(part.left), self.reader.value(part.right)
        (al, ah), (bl, bh) = self._ends(a), self._ends(b)
        positive = al is not None and bl is not None and al >= 0 and bl >= 0
        match part.op:
            case "*":
                return self._product(v, a, b, (al, ah), (bl, bh), part.left.same_as(part.right))
            case "&" if (al is not None and al >= 0) or (bl is not None and bl >= 0):
                found = self._at_least(v, self._constant(0))
                for form, end in ((a, al), (b, bl)):
                    found = found.intersect(self._at_least(form, v)) if end is not None and end >= 0 else found
                return found
            case "^" if (flipped := _flipped(part)) is not None:
                of, mask = flipped
                return self._same(v, self._with_flipped_bits(self.reader.value(of), mask))
            case "^" | "|" if positive:
                least = self._constant(0) if part.op == "^" else a.max(b)
                found = self._at_least(v, least).intersect(self._at_least(a.add(b), v))
                if ah is None or bh is None:
                    return found
                most = (1 << max(ah.bit_length(), bh.bit_length())) - 1
                return found.intersect(self._at_least(self._constant(most), v))
            case "//" if bl is not None and bl >= 1 and al is not None and al >= 0:
                return self._at_least(v, self._constant(0)).intersect(self._at_least(a, v))
            case "//" if bl is not None and bl >= 1:
                zero = self._constant(0)
                return self._at_least(v, a.min(self._constant(-1))).intersect(self._at_least(a.max(zero), v))
            case "<<" if isinstance(part.right, Const) and 0 <= part.right.value < min(part.dtype.bits, 63):
                return self._same(v, sets.scaled(a, 1 << int(part.right.value)))
            case ">>" if positive:
                return self._at_least(v, self._constant(0)).intersect(self._at_least(a, v))
            case "<<" if positive and bh is not None and bl is not None and bh < min(part.dtype.bits, 63):
                low, high = sets.scaled(a, 1 << bl), sets.scaled(a, 1 << bh)
                return self._at_least(v, low).intersect(self._at_least(high, v))
        return None

    def _product(
        self, v: isl.PwAff, a: isl.PwAff, b: isl.PwAff, of_a: Ends, of_b: Ends, is_square: bool
    ) -> isl.Set | None:
        """The planes around ``v = a b`` (McCormick, 1976): each is a product of distances from constant ends.

        ``(a - al)(b - bl) >= 0`` gives ``v >= al b + bl a - al bl``, and so do the other three pairs of ends.
        """
        found: isl.Set | None = None
        for upper_a, x in enumerate(of_a):
            for upper_b, y in enumerate(of_b):
                if x is None or y is None:
                    continue
                plane = sets.raised(sets.scaled(b, x).add(sets.scaled(a, y)), -x * y)
                side = self._at_least(v, plane) if upper_a == upper_b else self._at_least(plane, v)
                found = side if found is None else found.intersect(side)
        if is_square:
            side = self._at_least(v, a).intersect(self._at_least(v, a.neg()))
            found = side if found is None else found.intersect(side)
        return found

    def _with_flipped_bits(self, of: isl.PwAff, mask: int) -> isl.PwAff:
        """``of ^ mask``: a bit k of the mask adds 2**k where the operand has 0 there, and takes it away elsewhere."""
        found = of
        for k in range(mask.bit_length()):
            if mask >> k & 1:
                bit = sets.floor_div(of, 1 << k).mod_val(sets.integer(self.space.get_ctx(), 2))
                found = sets.raised(found.sub(sets.scaled(bit, 2 << k)), 1 << k)
        return found

    def _modulo(self, part: Binary, value: Iter) -> isl.Set | None:
        """The bounds of ``x % n``, where n is not a constant that isl can divide by; None if n has none.

        { v : 0 <= v < n },  and  v = x - k n  if  k n <= x < (k + 1) n  for k = -1, 0, 1:  one period to either side.
        """
        n, x = self.reader.value(part.right), self.reader.value(part.left)
        v, zero = self.reader.value(value), self._constant(0)
        inside = sets.as_set(v.ge_set(zero)).intersect(sets.as_set(v.lt_set(n)))
        backwards = sets.as_set(n.le_set(zero))  # for a divisor n <= 0 every value is possible
        if self.possible.intersect(backwards).is_empty():
            backwards = sets.empty(self.space)
        else:
            of_divisor = [e for other in self.parts.operands_of(part.right) for e in self.loose[other]]
            self.loose[value.name] = of_divisor
        if part.dtype not in (weak_int, int64):
            return inside.union(backwards).coalesce()
        known, elsewhere = backwards, inside
        for moved in (x.add(n), x, x.sub(n)):
            turn = sets.as_set(moved.ge_set(zero)).intersect(sets.as_set(moved.lt_set(n)))
            known = known.union(self._if_possible(turn.intersect(self._same(v, moved))))
            elsewhere = elsewhere.subtract(turn)
        return known.union(self._if_possible(elsewhere)).coalesce()

    def _if_possible(self, found: isl.Set) -> isl.Set:
        """Some values, or none if there are none at the points: each piece that is left out counts."""
        return sets.empty(self.space) if self.possible.intersect(found).is_empty() else found

    # -- sets

    def _ends(self, form: isl.PwAff, within: isl.Set | None = None) -> Ends:
        """The least and the largest value of a form, as far as there are such numbers."""
        possible = self.possible if within is None else self.possible.intersect(within)
        least, most = sets.most(form.neg(), possible), sets.most(form, possible)
        return None if least is None else -least, most

    def _is_bounded(self, name: str, found: isl.Set) -> bool:
        return sets.is_bounded_at(self.possible.intersect(found), self._position(name))

    def _position(self, name: str) -> int:
        return sets.size(self.parts.space) + list(self.parts.parts).index(name)

    def _constant(self, value: int) -> isl.PwAff:
        return sets.constant(self.space, value).to_pw_aff()

    def _same(self, v: isl.PwAff, form: isl.PwAff) -> isl.Set:
        return sets.as_set(v.eq_set(form))

    def _at_least(self, form: isl.PwAff, least: isl.PwAff) -> isl.Set:
        return sets.as_set(form.ge_set(least))

    def _of_type(self, value: Expr, dtype: DType) -> isl.Set:
        least, largest = dtype.limits
        return self._between(value, Const(least, weak_int), Const(largest + 1, weak_int))

    def _between(self, value: Expr, low: Expr, high: Expr) -> isl.Set:
        return self.reader.condition((low <= value) & (value < high))


def _is_leaf(part: Expr) -> bool:
    """Whether a part is no arithmetic of integers."""
    if isinstance(part, Cast):
        return part.operand.dtype.is_float
    is_operation = isinstance(part, Binary | Unary | Select) or (isinstance(part, Call) and part.function == "abs")
    return not is_operation or not part.dtype.is_integer


def _is_exact(part: Expr) -> bool:
    """Whether a result is bounded where its operands are."""
    return not isinstance(part, Binary) or part.op in ("+", "-", "min", "max")


def _is_within_operands(part: Expr) -> bool:
    """Whether a literal bounds a result whatever the other operand is: ``x & 10``."""
    sides = (part.left, part.right) if isinstance(part, Binary) and part.op == "&" else ()
    return any(isinstance(side, Const) and side.value >= 0 for side in sides)


def _flipped(part: Binary) -> tuple[Expr, int] | None:
    """The operand and the literal of ``x ^ literal``, if few bits are flipped."""
    for of, mask in ((part.left, part.right), (part.right, part.left)):
        if isinstance(mask, Const) and mask.value >= 0 and int(mask.value).bit_count() <= _MOST_BITS:
            return of, int(mask.value)
    return None
