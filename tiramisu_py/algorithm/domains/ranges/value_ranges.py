"""Facts about integer values: of the parts of an index, and of everything that an algorithm computes.

A range is a relation from the points of a frame to the values possible there, ``{ [i, j] -> [v] : 0 <= v <= i + N }``.
It follows from the facts declared about inputs, from types, and through arithmetic, computations and reductions. An
operation has its exact result where that fits its type; elsewhere it has any value of the type.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm, Computation
from tiramisu_py.algorithm.domains.affine import Affine
from tiramisu_py.algorithm.domains.ranges.enclosed import Enclosed, KnownValues
from tiramisu_py.algorithm.domains.ranges.float_ranges import ANY, FloatRange, FloatRanges
from tiramisu_py.algorithm.domains.ranges.index_parts import IndexParts
from tiramisu_py.algorithm.domains.ranges.part_bounds import PartBounds
from tiramisu_py.algorithm.expressions import Access, Const, Expr, Iter, TupleValue
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.algorithm.types import DType, TupleType, int64

#: A range of more pieces than this becomes one piece around them.
_MOST_PIECES = 6

#: The operators of which something is known.
_REDUCTIONS = ("sum", "min", "max", "argmin", "argmax")


def ranges_of(algorithm: Algorithm) -> ValueRanges:
    """The ranges of an algorithm, which it keeps."""
    kept = algorithm.known_values
    if not kept:
        kept.append(ValueRanges(algorithm))
    found: ValueRanges = kept[0]
    return found


class ValueRanges:
    """The ranges of everything that an algorithm computes, each found when it is asked for."""

    def __init__(self, algorithm: Algorithm) -> None:
        self.algorithm = algorithm
        self._known: dict[tuple[str, int | None], KnownValues | None] = {}
        self._floats: dict[str, tuple[FloatRange, tuple[str, ...]]] = {}

    # -- expressions

    @deep
    def enclosed(
        self, given: Sequence[Expr], space: isl.Space, exact: bool = False, compared: Sequence[Expr] = ()
    ) -> Enclosed:
        """The facts about integer expressions over a frame, which is that of a computation if it has its name.

        What conditions on them compare can be told by `compared`: values in it are known beside those in them.
        """
        parts = IndexParts(space, given, exact, compared)
        return PartBounds(self, parts, self._points(space)).enclosed()

    def _points(self, space: isl.Space) -> isl.Set | None:
        """The points of the computation that a frame belongs to; None if there is none with known points."""
        c = self.algorithm.computations.get(sets.tuple_name(space))
        if c is None or c.is_open:
            return None
        for points, names in ((c.points, c.point_iterators), (c.domain, c.iterators)):
            if sets.size(space) == len(names):
                return sets.named(points, None).intersect_params(self.algorithm.context.params())
        return None

    def floats(self, space: isl.Space, facts: list[str]) -> FloatRanges:
        """The ranges of floating-point expressions over a frame; `facts` takes the inputs that they rely on."""

        def leaf(of: Expr) -> FloatRange:
            if of.dtype.is_float:
                found, relied = self._float_of(of.source) if isinstance(of, Access) else (ANY, ())
            else:
                found, relied = self._as_float(of, space)
            facts.extend(relied)
            return found

        return FloatRanges(leaf, is_strict=self.algorithm.rounds_as_written)

    def _as_float(self, e: Expr, space: isl.Space) -> tuple[FloatRange, tuple[str, ...]]:
        """The numbers between the ends of an integer expression for all parameters, and the facts behind them."""
        if e.dtype.is_bool:
            return FloatRange(0.0, 1.0), ()
        found = self.enclosed([e], space, exact=True)
        at = sets.at_any_params(sets.as_set(found.values().range()))
        ends = sets.interval(at, 0) or (None if e.dtype.weak else _typed_interval(at, e.dtype))
        return FloatRange(-math.inf, math.inf) if ends is None else FloatRange(*_float_ends(*ends)), found.facts

    @deep
    def _float_of(self, source: str) -> tuple[FloatRange, tuple[str, ...]]:
        """The range of all values of a computation of floats, and the facts that it relies on."""
        c = self.algorithm.computations.get(source)
        if c is None or (c.op is not None and c.op.own_name not in ("min", "max")) or not c.dtype.is_float:
            return ANY, ()
        if source not in self._floats:
            self._floats[source] = ANY, ()  # while it is being found out: of a recurrence nothing is known
            facts: list[str] = []
            found = self.floats(self.algorithm.frame(c.name, c.point_iterators), facts).of(c.expr)
            if c.op is not None and not _always_has_terms(c):
                end = math.inf if c.op.own_name == "min" else -math.inf
                found = found.around(FloatRange(end, end))
            self._floats[source] = found, tuple(dict.fromkeys(facts))
        return self._floats[source]

    # -- computations

    @deep
    def of(self, source: str, component: int | None = None) -> KnownValues | None:
        """The range of a computation, or of one of its components; None if nothing is known."""
        c = self.algorithm.computations.get(source)
        if c is None or not _dtype_of(c, component).is_integer:
            return None
        key = (source, component)
        if key not in self._known:
            self._known[key] = self._declared(c)  # which holds for the values that it reads of itself
            found, declared = self._inferred(c, component), self._known[key]
            self._known[key] = declared if found is None else _both(found, declared)
        return self._known[key]

    def _declared(self, c: Computation) -> KnownValues | None:
        """The range that the user has declared."""
        if c.values is None:
            return None
        space = self.algorithm.frame(None, ("v",))
        low, high = c.values
        line = Affine(space).condition((low <= Iter("v")) & (Iter("v") < high))
        return KnownValues(isl.Map.from_domain_and_range(self._domain(c), sets.with_dims(line, ("v",))))

    def _domain(self, c: Computation) -> isl.Set:
        domain = sets.universe(self.algorithm.frame(c.name, c.iterators)) if c.is_open else c.domain
        return sets.named(domain, c.name).intersect_params(self.algorithm.context.params())

    def inferred(self, source: str) -> KnownValues | None:
        """The range of a computation as its expression gives it, where declared ranges hold for what this reads."""
        return self._inferred(self.algorithm.computations[source], None)

    def _inferred(self, c: Computation, component: int | None) -> KnownValues | None:
        e = c.expr
        if component is not None:
            if not isinstance(e, TupleValue):
                return None
            e = e.values[component]
        if c.op is not None and c.op.own_name not in _REDUCTIONS:
            return None
        space = self.algorithm.frame(c.name, c.point_iterators)
        enclosed = self.enclosed([e], space, exact=True).where(c.guards)
        values = enclosed.values()
        if not c.is_open:
            values = values.intersect_domain(sets.named(c.points, c.name))
        if c.op is not None:
            terms = sets.project_domain_prefix(values, len(c.iterators), c.name)
            reduced = self._reduced(c, component, terms, bool(enclosed.unbounded))
            if reduced is None:
                return None
            values = reduced
        return KnownValues(_in_few(values), enclosed.facts, enclosed.unbounded)

    # -- reductions

    def _reduced(self, c: Computation, component: int | None, terms: isl.Map, is_loose: bool) -> isl.Map | None:
        """The results ``name[point] -> [value]`` of a reduction, from its terms ``name[point] -> [term]``."""
        assert c.op is not None
        if c.op.own_name == "sum":
            return None if is_loose or c.is_open else self._summed(c, terms)
        identity = c.op.identity(c.dtype)
        neutral = identity if component is None else identity.children()[component]
        if _always_has_terms(c) or not isinstance(neutral, Const):
            return terms
        empty = self._domain(c)
        if not c.guards and not c.is_open:
            empty = empty.subtract(sets.as_set(terms.domain()))
        return terms.union(_constantly(empty, int(neutral.value)))

    def _summed(self, c: Computation, terms: isl.Map) -> isl.Map | None:
        """The sums of terms: between the least and the largest term, times the largest number of terms."""
        domain = self._domain(c)
        wide = terms.union(_constantly(domain, 0))
        try:
            (low,), (high,) = sets.component_bounds(wide)
            counted = self._count(c)
        except isl.Error:
            return None
        if counted is None:
            return None
        factor, count = counted
        if count is None:
            ends = [sets.scaled(end, factor) for end in (low, high)]
        else:
            least, most = sets.most(low.neg(), domain), sets.most(high, domain)
            if least is None or most is None:
                return None
            ends = [sets.scaled(count, -least * factor), sets.scaled(count, most * factor)]
        box = sets.domain_named(sets.box(ends[:1], ends[1:], domain.get_space()), c.name).intersect_domain(domain)
        found = box.union(_constantly(domain.subtract(sets.as_set(box.domain())), 0))
        fits = sets.as_set(found.range()).is_subset(_type_line(found, c.dtype))
        return found if fits or c.dtype == int64 else None

    def _count(self, c: Computation) -> tuple[int, isl.PwAff | None] | None:
        """An upper bound of the number of terms of a value: a factor, and the extent of one dimension that has no
        constant bound; None if several have none."""
        factor, extent = 1, None
        points = sets.named(c.points, c.name).intersect_params(self.algorithm.context.params())
        for position in range(len(c.iterators), len(c.point_iterators)):
            line = sets.project_domain_prefix(_coordinate(points, position), len(c.iterators), c.name)
            (low,), (high,) = sets.component_bounds(line)
            count = sets.extent_between(low, high)
            most = sets.most(count, self._domain(c))
            if most is not None:
                factor *= most
            elif extent is None:
                extent = count
            else:
                return None
        return factor, extent


def _dtype_of(c: Computation, component: int | None) -> DType:
    if component is None or not isinstance(c.dtype, TupleType):
        return c.dtype
    return c.dtype.fields[component][1]


def _always_has_terms(c: Computation) -> bool:
    """Whether each value of a reduction has a term at least."""
    if c.guards or c.is_open:
        return False
    having = sets.project_prefix(sets.named(c.points, None), len(c.iterators))
    return bool(sets.named(c.domain, None).is_subset(having))


def _both(a: KnownValues, b: KnownValues | None) -> KnownValues:
    if b is None:
        return a
    return KnownValues(a.values.intersect(b.values), tuple(dict.fromkeys([*a.facts, *b.facts])))


def _coordinate(points: isl.Set, position: int) -> isl.Map:
    """``point -> [its coordinate]``."""
    space = points.get_space()
    return sets.graph(sets.function(space, None, [sets.variables(space)[position]]), points)


def _constantly(domain: isl.Set, value: int) -> isl.Map:
    """``point -> [value]``."""
    space = domain.get_space()
    return sets.graph(sets.function(space, None, [sets.constant(space, value)]), domain)


def _in_few(values: isl.Map) -> isl.Map:
    """A range in a few pieces."""
    values = values.coalesce()
    return values if len(sets.basic_maps(values)) <= _MOST_PIECES else sets.hull_of_pairs(values)


def _type_line(of: isl.Map, dtype: DType) -> isl.Set:
    space = sets.as_set(of.range()).get_space()
    least, largest = dtype.limits
    return sets.within(sets.variables(space)[0], least, largest + 1)


def _typed_interval(at: isl.Set, dtype: DType) -> tuple[int, int]:
    """The ends of a set of numbers, as far as it has them, or of its type."""
    least, largest = dtype.limits
    low, high = sets.smallest_value(at, 0), sets.largest_value(at, 0)
    return least if low is None else low, largest if high is None else high


def _float_ends(low: int, high: int) -> tuple[float, float]:
    """Integers as floats, rounded outwards."""
    first, last = float(low), float(high)
    return math.nextafter(first, -math.inf) if first > low else first, (
        math.nextafter(last, math.inf) if last < high else last
    )
