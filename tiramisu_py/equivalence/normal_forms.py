"""The form of each value of an algorithm: reductions, copies, pieces and recurrences that add up become sums.

::

    acc[i, t] = select(t > 0, acc[i, t - 1], 0) + s[i, t],  s[i, t] = sum of A[i, k] over 16 t <= k < 16 t + 16
    -->  acc[i, t] = sum of A[i, k] over t' <= t and 16 t' <= k < 16 t' + 16

A recurrence that adds to its own last value is followed to its start by the transitive closure of ``t -> t - 1``. What
is no sum of products (``exp``, a quotient, a choice by a value, an element whose place is a value) is one factor, named
by its text; values that are sums are named in it by their class: values of both algorithms that are equal have one.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import isfinite

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.declarations import Algorithm, Computation
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.domains.domain import conjuncts
from tiramisu_py.algorithm.domains.reads import narrowest
from tiramisu_py.algorithm.expressions import Access, Binary, Call, Cast, Const, Expr, Select, Stopped, Unary
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.algorithm.types import DType, TupleType
from tiramisu_py.equivalence.arranging import arranged, in_order, kinds_of
from tiramisu_py.equivalence.comparing import differences
from tiramisu_py.equivalence.terms import Factor, Form, Term, Unknown, in_bounds, inlined, pieces, products, scaled
from tiramisu_py.records import dataclass

#: One value is a sum of at most so many kinds of products.
MOST_TERMS = 400
#: The text of a factor has at most so many versions, by the points.
_MOST_PIECES = 64
_COMMUTATIVE = frozenset({"min", "max", "==", "!=", "&", "|", "^"})
#: Integers of so many bits are exact in a float of as many as the key.
_EXACT_BITS = {16: 11, 32: 24, 64: 53}


class Classes:
    """Names for values that are sums, in the text of others: equal values, of either algorithm, have one name."""

    def __init__(self) -> None:
        self._known: list[tuple[isl.Set, Form]] = []

    def name(self, domain: isl.Set, form: Form) -> str:
        """The name of the class of a value."""
        for number, (other, known) in enumerate(self._known):
            if self._are_equal(domain, form, other, known):
                return f"value {number}"
        self._known.append((domain, form))
        return f"value {len(self._known) - 1}"

    def _are_equal(self, domain: isl.Set, form: Form, other: isl.Set, known: Form) -> bool:
        if form is known:
            return True
        is_alike = (form.rank, form.by) == (known.rank, known.by) and not form.by.startswith("operator")
        if not is_alike or not domain.is_equal(other):
            return False
        try:
            return not differences(form, known)
        except Unknown:
            return False


@dataclass(eq=False)
class Texts:
    """A factor that is not looked into, by its points: what it is called, and the indices in its holes."""

    pieces: list[tuple[isl.Set, str, tuple[isl.Aff, ...]]]


class NormalForms:
    """The forms of the values of one algorithm. `regrouped`: whether a product of a sum became a sum of products."""

    def __init__(self, algorithm: Algorithm, params: isl.Space, classes: Classes) -> None:
        self.algorithm = algorithm
        self.params = params
        self.classes = classes
        self.regrouped = False
        self._forms: dict[str, Form] = {}
        self._names: dict[str, str] = {}
        self._open: list[str] = []

    def domain(self, name: str) -> isl.Set:
        """The indices of a value, in a frame without names."""
        return self._points(self.algorithm.computations[name].domain)

    @deep
    def form(self, name: str) -> Form:
        """The normal form of the value `name`. Raises `Unknown`."""
        if name not in self._forms:
            if name in self._open:
                raise Unknown(f"{name} is a recurrence that does not only add to its last value")
            self._open.append(name)
            try:
                self._forms[name] = self._made(self.algorithm.computations[name])
            finally:
                self._open.pop()
        return self._forms[name]

    def class_of(self, name: str) -> str:
        """The name of a value in the text of others."""
        if name not in self._names:
            self._names[name] = self.classes.name(self.domain(name), self.form(name))
        return self._names[name]

    def _points(self, of: isl.Set) -> isl.Set:
        plain = sets.sized_frame(self.params, None, sets.size(of))
        back = sets.function(plain, sets.tuple_name(of) or None, sets.variables(plain))
        here = sets.in_context(of, self.params.get_ctx())
        return sets.preimage(here.align_params(self.params), back)

    def _made(self, c: Computation) -> Form:
        if c.stage is not None:
            raise Unknown(f"{c.name} is what a call of a C function returns")
        if isinstance(c.dtype, TupleType):
            raise Unknown(f"{c.name} has several components")
        if c.run_of:
            return self._number_of_run(c)
        reading = _Reading(self, c, self._points(c.points))
        rank, by = len(c.iterators), "sum" if c.op is None else c.op.own_name or f"operator {id(c.op)}"
        terms = reading.sum_of(typed(c.expr, c.dtype))
        if c.op is not None:
            for guard in (each for given in c.guards for each in conjuncts(given)):
                terms = products(terms, reading.indicator(guard), MOST_TERMS)
        if by == "sum":
            return Form(rank, tuple(self._added_up(c, reading.resolved(terms, sums=True))))
        if c.guards:
            raise Unknown(f"{c.name} combines by {by} under conditions on values")
        found = reading.texts_of(reading.resolved(terms, sums=False), reading.points)
        one = Fraction(1)
        return Form(rank, tuple(Term(where, one, (Factor(text, at),)) for where, text, at in found.pieces), by)

    def _number_of_run(self, c: Computation) -> Form:
        """The run that each position is in: one factor, told by the input that says where runs begin."""
        points = self._points(c.domain)
        own = Factor(f"the run of {c.run_of}", tuple(sets.variables(points.get_space())))
        return Form(1, (Term(points, Fraction(1), (own,)),))

    def _added_up(self, c: Computation, terms: list[Term]) -> list[Term]:
        """The terms of a value, with those that are the value itself at other places followed to where they start."""
        own = [each for each in terms if any(factor.source == c.name for factor in each.factors)]
        if not own:
            return terms
        if any(len(t.factors) > 1 or t.coefficient != 1 or sets.size(t.points) > len(c.iterators) for t in own):
            raise Unknown(f"{c.name} is a recurrence that does not only add to its last value")
        steps = [
            sets.graph(sets.function(t.points.get_space(), None, list(t.factors[0].indices)), t.points) for t in own
        ]
        step = sets.union_of(steps)
        if not step.is_single_valued() or any(
            not a.domain().is_disjoint(b.domain()) for k, a in enumerate(steps) for b in steps[:k]
        ):
            raise Unknown(f"{c.name} is a recurrence that adds several of its own values")
        closure, is_exact = step.transitive_closure()
        if not is_exact:
            raise Unknown(f"the steps of the recurrence {c.name} are not followed exactly")
        here = sets.graph(sets.identity(self.domain(c.name).get_space()), self.domain(c.name))
        back = closure.union(here)
        return [_from(back, each) for each in terms if each not in own]


def _from(back: isl.Map, term: Term) -> Term:
    """A term of ``v[q]`` as one of each ``v[x]`` from which a recurrence leads to q: over (x, q, y)."""
    rank, outer = sets.in_size(back), sets.size(term.points)
    frame = sets.sized_frame(term.points.get_space(), None, rank + outer)
    dims = sets.variables(frame)
    moved = term.at(sets.function(frame, None, dims[rank:]))
    pairs = sets.named(sets.flat_pairs(back, "pairs"), None)
    return moved.within(sets.preimage(pairs, sets.function(frame, None, dims[: 2 * rank])))


class _Reading:
    """The expression of one computation, read on the frame of its points."""

    def __init__(self, forms: NormalForms, c: Computation, points: isl.Set) -> None:
        self.forms = forms
        self.c = c
        self.points = points
        space = points.get_space()
        self.affine = Affine(space, dict(zip(c.point_iterators, sets.variables(space), strict=True)))
        self._known: dict[int, tuple[Expr, list[Term]]] = {}

    # -- sums

    def sum_of(self, e: Expr) -> list[Term]:
        """An expression as a sum of products, of which computed values are factors."""
        kept = self._known.get(id(e))
        if kept is None:
            kept = self._known[id(e)] = (e, in_bounds(self._sum_of(e), MOST_TERMS))
        return kept[1]

    def _sum_of(self, e: Expr) -> list[Term]:
        if e.dtype.is_integer and (whole := self._affine(e)) is not None:
            return whole
        match e:
            case Const() if not e.dtype.is_bool and isfinite(e.value):
                value = Fraction(e.value)
                return [Term(self.points, value)] if value else []
            case Access():
                return self._access(e)
            case Stopped():
                return self.sum_of(e.operand)
            case Unary(op="-"):
                return scaled(self.sum_of(e.operand), Fraction(-1))
            case Binary(op="+" | "-") if not e.dtype.is_bool:
                sign = Fraction(1 if e.op == "+" else -1)
                return self.sum_of(e.left) + scaled(self.sum_of(e.right), sign)
            case Binary(op="*") if not e.dtype.is_bool:
                left, right = self.sum_of(e.left), self.sum_of(e.right)
                self.forms.regrouped |= _is_sum(left) or _is_sum(right)
                return products(left, right, MOST_TERMS)
            case Binary(op="/") if isinstance(e.right, Const) and isfinite(e.right.value) and e.right.value:
                return scaled(self.sum_of(e.left), 1 / Fraction(e.right.value))
            case Binary(op="/") if not isinstance(e.left, Const):
                one = Binary("/", Const(1.0, e.dtype), e.right, e.dtype)
                return products(self.sum_of(e.left), self.sum_of(one), MOST_TERMS)
            case Select() if not e.dtype.is_bool:
                return self._chosen(e)
            case Cast() if (same := self._converted(e)) is not None:
                return same
        return self._factors(self.texts(e))

    def _affine(self, e: Expr) -> list[Term] | None:
        try:
            form = self.affine.value(e)
        except NotAffine:
            return None
        found = []
        for where, aff in pieces(form.intersect_domain(self.points)):
            if not sets.is_constant(aff):
                found.append(Term(where, Fraction(1), (Factor("·", (aff,)),)))
            elif value := sets.constant_of(aff):
                found.append(Term(where, Fraction(value)))
        return found

    def _access(self, e: Access) -> list[Term]:
        found = [Term(self.points, Fraction(1), (Factor(e.source, ()),))]
        for index in e.indices:
            try:
                form = self.affine.value(index)
            except NotAffine:
                return self._factors(self.texts(e))
            found = [
                Term(t.points.intersect(where), t.coefficient, (Factor(e.source, (*t.factors[0].indices, aff)),))
                for t in found
                for where, aff in pieces(form)
                if not t.points.is_disjoint(where)
            ]
        return found

    def _chosen(self, e: Select) -> list[Term]:
        yes, no = self.sum_of(e.yes), self.sum_of(e.no)
        try:
            taken = self.affine.condition(e.condition)
        except NotAffine:
            where = self.indicator(e.condition)
            kept = products(yes, where, MOST_TERMS)
            return [*kept, *no, *scaled(products(no, where, MOST_TERMS), Fraction(-1))]
        found = [each.within(taken) for each in yes] + [each.within(taken.complement()) for each in no]
        return [each for each in found if not each.points.is_empty()]

    def indicator(self, condition: Expr) -> list[Term]:
        """1 where a condition on values holds, and 0 elsewhere."""
        try:
            return [Term(self.points.intersect(self.affine.condition(condition)), Fraction(1))]
        except NotAffine:
            found = self.texts(typed(condition))
        return [Term(where, Fraction(1), (Factor(f"[{text}]", at),)) for where, text, at in found.pieces]

    def _converted(self, e: Cast) -> list[Term] | None:
        """A conversion that changes no value, of one element or of a choice of elements; None for others."""
        source, dtype = e.operand.dtype, e.dtype
        if source.is_bool or not _is_exact(source, dtype):
            return None
        terms = self.resolved(self.sum_of(e.operand), sums=False)
        if any(len(t.factors) > 1 or (abs(t.coefficient) != 1 and t.factors) for t in terms):
            return None
        if any(not a.points.is_disjoint(b.points) for k, a in enumerate(terms) for b in terms[:k]):
            return None
        wide = [tuple(Factor(f.source, f.indices, dtype.name) for f in t.factors) for t in terms]
        return [Term(t.points, t.coefficient, own) for t, own in zip(terms, wide, strict=True)]

    def _factors(self, texts: Texts) -> list[Term]:
        return [Term(where, Fraction(1), (Factor(text, at),)) for where, text, at in texts.pieces]

    def resolved(self, terms: Sequence[Term], sums: bool) -> list[Term]:
        """Terms without computed values: those that are sums of products are put in, or else named by their class.

        With `sums` also those that sum over points of their own; the value itself stays, in either case.
        """
        found: list[Term] = []
        waiting = [*terms]
        while waiting:
            term = waiting.pop()
            computed = self.forms.algorithm.computations
            factor = next((f for f in term.factors if f.source in computed and self._is_other(f.source, sums)), None)
            if factor is None:
                found.append(term)
                continue
            form = self.forms.form(factor.source)
            if factor.as_type or form.by != "sum" or not (sums or form.is_plain):
                named = Factor(self.forms.class_of(factor.source), factor.indices, factor.as_type)
                others = tuple(named if each is factor else each for each in term.factors)
                waiting.append(Term(term.points, term.coefficient, others))
                continue
            if len(term.factors) > 1 and not (len(form.terms) == 1 and form.is_plain):
                self.forms.regrouped |= not form.is_plain or _is_sum(form.terms)
            waiting += inlined(term, factor, form)
            in_bounds(waiting + found, MOST_TERMS)
        return found

    def _is_other(self, source: str, sums: bool) -> bool:
        """Whether a computed value is not the one that is read; without `sums` that one is a recurrence."""
        if source == self.c.name and not sums:
            raise Unknown(f"{source} is a recurrence that does not only add to its last value")
        return source != self.c.name

    # -- texts

    def texts(self, e: Expr) -> Texts:
        """The text of a node that is no sum of products, with its operands in their order."""
        read = map(narrowest, e.indices) if isinstance(e, Access) else e.children()
        operands = [self._operand(each) for each in read]
        head = "/".join(map(str, e.facets()))
        if isinstance(e, Call) and e.extern is not None:
            head += f" of {e.extern.header!r} {e.extern.source!r}"
        if isinstance(e, Access) and e.source in self.forms.algorithm.computations:
            self._is_other(e.source, sums=False)
            head = self.forms.class_of(e.source)
        found: list[tuple[isl.Set, list[tuple[str, tuple[isl.Aff, ...]]]]] = [(self.points, [])]
        for operand in operands:
            found = [
                (piece.intersect(where), [*before, (text, at)])
                for piece, before in found
                for where, text, at in operand.pieces
                if not piece.is_disjoint(where)
            ]
            if len(found) > _MOST_PIECES:
                raise Unknown(f"{self.c.name} has an expression with more than {_MOST_PIECES} cases")
        commutes = isinstance(e, Binary) and e.op in _COMMUTATIVE
        result = []
        for where, parts in found:
            orders = in_order(where, parts, _first, _second) if commutes else [(where, tuple(parts))]
            for there, listed in orders:
                text = f"{head}({', '.join(own for own, _ in listed)})"
                result.append((there, text, tuple(index for _, at in listed for index in at)))
        return Texts(result)

    def _operand(self, e: Expr) -> Texts:
        if e.dtype.is_bool:
            return self._condition(e)
        return self.texts_of(self.resolved(self.sum_of(e), sums=False), self.points)

    def _condition(self, e: Expr) -> Texts:
        try:
            holds = self.points.intersect(self.affine.condition(e))
        except NotAffine:
            return self.texts(e) if e.children() and not isinstance(e, Access) else self._operand_of_bool(e)
        sides = [(holds, "True", ()), (self.points.subtract(holds), "False", ())]
        return Texts([(where, text, at) for where, text, at in sides if not where.is_empty()])

    def _operand_of_bool(self, e: Expr) -> Texts:
        if isinstance(e, Access):
            return self.texts_of(self.resolved(self._access(e), sums=False), self.points)
        return Texts([(self.points, str(e), ())])

    def texts_of(self, terms: Sequence[Term], points: isl.Set) -> Texts:
        """The text of a sum of products without points of its own: one for each choice of products that are there."""
        pieces_of: list[tuple[isl.Set, list[Term]]] = [(points, [])]
        for term in (each for one in terms for each in arranged(one)):
            if sets.size(term.points) != sets.size(points):
                raise Unknown(f"{self.c.name} has a sum inside of another function")
            parted = []
            for where, present in pieces_of:
                for there, more in ((where.intersect(term.points), [term]), (where.subtract(term.points), [])):
                    if not there.is_empty():
                        parted.append((there, [*present, *more]))
            pieces_of = parted
            if len(pieces_of) > _MOST_PIECES:
                raise Unknown(f"{self.c.name} has an expression with more than {_MOST_PIECES} cases")
        found = []
        for where, present in pieces_of:
            for there, ordered in in_order(where, present, _kind, _indices):
                text = " + ".join(map(_product_text, ordered)) or "0"
                found.append((there, text, tuple(index for each in ordered for index in _indices(each))))
        return Texts(found)


def _first(part: tuple[str, tuple[isl.Aff, ...]]) -> str:
    return part[0]


def _second(part: tuple[str, tuple[isl.Aff, ...]]) -> tuple[isl.Aff, ...]:
    return part[1]


def _kind(term: Term) -> tuple[object, str]:
    return kinds_of(term.factors), str(term.coefficient)


def _indices(term: Term) -> list[isl.Aff]:
    return [index for each in term.factors for index in each.indices]


def _product_text(term: Term) -> str:
    words = [f"{f.as_type}({_factor_text(f)})" if f.as_type else _factor_text(f) for f in term.factors]
    return " * ".join([str(term.coefficient), *words] if term.coefficient != 1 or not words else words)


def _factor_text(factor: Factor) -> str:
    if not factor.indices or "(" in factor.source or "[" in factor.source or factor.source == "·":
        return factor.source
    return f"{factor.source}[{', '.join('·' for _ in factor.indices)}]"


def _is_sum(terms: Sequence[Term]) -> bool:
    """Whether some points have several products."""
    return any(not a.points.is_disjoint(b.points) for k, a in enumerate(terms) for b in terms[:k])


def _is_exact(source: DType, target: DType) -> bool:
    """Whether a conversion changes no value."""
    if source.is_float:
        return target.is_float and (target.bits > source.bits or target.name == source.name)
    if target.is_float:
        return source.bits - (source.kind == "i") <= _EXACT_BITS[target.bits] and target.name != "bfloat16"
    low, high = source.limits
    return target.is_integer and target.limits[0] <= low and high <= target.limits[1]
