"""The read accesses of an expression: for each access a relation from points to the values it may read.

A lazy select restricts the reads of its branches if its condition is affine; of a conjunction, the affine conjuncts
restrict them. An index that is a value itself (``x[col[p]]``) is over-approximated by the facts declared for its
array or by its scalar type, or it is unbounded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm, Computation
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Access, Binary, Cast, Const, Expr, Iter, Select, Unary
from tiramisu_py.algorithm.stacks import Steps, deep, unstacked
from tiramisu_py.algorithm.traversal import rewrite, walk
from tiramisu_py.algorithm.types import DType, int64, weak_int
from tiramisu_py.algorithm.words.stages import StageCall


@dataclass(frozen=True, eq=False)
class Reading:
    """One access of an expression: the relation ``point -> source[index]``.

    `unbounded` are the index parts without known bounds; `facts` are the inputs whose declared values the relation
    relies on. `overflows` are the points at which 32-bit index arithmetic may overflow; the relation assumes that it
    does not (None: it cannot).
    """

    access: Access
    relation: isl.Map
    unbounded: tuple[Expr, ...] = ()
    facts: tuple[str, ...] = ()
    overflows: isl.Set | None = None

    @property
    def narrow(self) -> bool:
        """Whether the relation assumes that 32-bit index arithmetic does not overflow."""
        return self.overflows is not None and not self.overflows.is_empty()

    def where(self, points: isl.Set) -> Reading:
        """The reading restricted to some of the points."""
        overflows = None if self.overflows is None else self.overflows.intersect(points)
        relation = self.relation.intersect_domain(points)
        return replace(self, relation=relation, overflows=overflows)


def readings(algorithm: Algorithm, expression: Expr, space: isl.Space) -> list[Reading]:
    """The accesses of an expression over the frame `space`, in order of evaluation, without scalar inputs.

    An access that occurs in several places is one reading, at the points that reach any of its places. An expression
    that is a call over whole arrays reads, for each value, what the call reads.
    """
    if isinstance(expression, StageCall):
        return _of_call(algorithm.computations[sets.tuple_name(space)], space)
    collector = _Collector(algorithm, space)
    reached = collector.reached(expression)
    read = (e for e in walk(expression) if isinstance(e, Access) and not _is_scalar(algorithm, e.source))
    return [collector.reading(e, reached[id(e)]) for e in read]


def _of_call(c: Computation, space: isl.Space) -> list[Reading]:
    """What calls over whole arrays read: ``value -> source[index]`` for all elements that the value's call reads."""
    assert c.stage is not None
    found = []
    for part in c.stage.parts:
        frame = part.points.get_space()
        reader = Affine(frame, dict(zip(part.iterators, sets.variables(frame), strict=True)))
        forms = [reader.single(index) for index in part.access.indices]
        element = sets.graph(sets.function(frame, part.access.source, forms), part.points)
        call_of = sets.graph(sets.prefix(sets.identity(space), c.stage.each))
        own = sets.graph(sets.prefix(sets.identity(frame), c.stage.each))
        found.append(Reading(part.access, call_of.apply_range(own.reverse().apply_range(element))))
    return found


@deep
def implied(reader: Affine, condition: Expr, truth: bool) -> isl.Set | None:
    """A set that contains every point where a condition is `truth`; None for the whole frame."""
    try:
        holds = reader.condition(condition)
        return holds if truth else holds.complement()
    except NotAffine:
        pass
    match condition:
        case Unary(op="~"):
            return implied(reader, condition.operand, not truth)
        case Binary(op="&" | "|"):
            sides = [implied(reader, condition.left, truth), implied(reader, condition.right, truth)]
            if (condition.op == "&") == truth:
                return _both(*sides)
            return None if sides[0] is None or sides[1] is None else sides[0].union(sides[1])
    return None


def _both(a: isl.Set | None, b: isl.Set | None) -> isl.Set | None:
    if a is None or b is None:
        return b if a is None else a
    return a.intersect(b)


def _either(a: isl.Set | None, b: isl.Set | None) -> isl.Set | None:
    return None if a is None or b is None else a.union(b).coalesce()


class _Collector:
    """Reads one expression over a frame."""

    def __init__(self, algorithm: Algorithm, space: isl.Space) -> None:
        self.algorithm = algorithm
        self.space = space
        self.reader = Affine(space)

    def reached(self, expression: Expr) -> dict[int, isl.Set | None]:
        """The points that reach each node, by its id, through any of the places where it occurs; None for all."""
        paths: dict[int, isl.Set | None] = {id(expression): None}
        for e in reversed(list(walk(expression))):  # a node after all those that use it
            path = paths[id(e)]
            for child, here in self._operands(e, path):
                known = paths.get(id(child), here)
                paths[id(child)] = here if known is here else _either(known, here)
        return paths

    def _operands(self, e: Expr, path: isl.Set | None) -> list[tuple[Expr, isl.Set | None]]:
        """The operands of a node reached from the points `path`, each with the points that reach it."""
        if not isinstance(e, Select):
            return [(child, path) for child in e.children()]
        sides = [(e.yes, True), (e.no, False)]
        taken = [(side, _both(path, implied(self.reader, e.condition, truth))) for side, truth in sides]
        return [(e.condition, path), *taken]

    def reading(self, access: Access, path: isl.Set | None) -> Reading:
        """The reading of an access that is reached from the points `path`."""
        exact = self._exact(access)
        found = exact if exact is not None else approximated(self.algorithm, access, self.space)
        return found if path is None else found.where(path)

    def _exact(self, access: Access) -> Reading | None:
        try:
            affs = [self.reader.single(index) for index in access.indices]
        except NotAffine:
            return None
        if any(_wraps(node) for index in access.indices for node in walk(index)):
            return None
        return Reading(access, sets.graph(sets.function(self.space, access.source, affs)))


def _is_scalar(algorithm: Algorithm, source: str) -> bool:
    return source in algorithm.inputs and algorithm.inputs[source].scalar


def _wraps(e: Expr) -> bool:
    """Whether integer arithmetic in a narrow type may wrap around."""
    return _is_narrow(e) and isinstance(e, Binary | Unary) and e.op in ("+", "-", "*", "<<")


def _is_narrow(e: Expr) -> bool:
    return e.dtype.is_integer and not e.dtype.weak and e.dtype.name not in ("int64", "int32")


def _with_conversions(e: Expr) -> Expr:
    """An index in which sizes and iterators combined with a value of a narrow type are converted to it explicitly."""
    return unstacked(_converted, e)


def _converted(e: Expr) -> Steps[Expr]:
    children = []
    for child in e.children():
        children.append((yield (child,)))
    if _is_narrow(e) and isinstance(e, Binary | Select):
        children = [Cast(c, e.dtype) if _is_converted(c) else c for c in children]
    changed = any(new is not old for new, old in zip(children, e.children(), strict=True))
    return e.rebuilt(tuple(children)) if changed else e


def _is_converted(operand: Expr) -> bool:
    return operand.dtype is weak_int and not isinstance(operand, Const)


def approximated(algorithm: Algorithm, access: Access, space: isl.Space) -> Reading:
    """The reading of an access with non-affine indices: each value in an index becomes an extra dimension."""
    indices = _Indices(space, access)
    forms, reader = indices.forms()
    known = _Bounds(algorithm, reader)
    bounds = sets.universe(reader.space)
    for name, part in indices.parts.items():
        bounds = bounds.intersect(known.of(part, Iter(name)))
    relation = sets.map_of_forms(forms, reader.space, access.source).intersect_domain(bounds)
    own = sets.prefix(sets.identity(reader.space), sets.size(space))
    back = sets.graph(sets.renamed(own, sets.tuple_name(space) or None)).reverse()
    wrong = _overflows(reader, indices, bounds.intersect(known.typed))
    at = None if wrong is None else wrong.apply(back.reverse())
    return Reading(access, back.apply_range(relation), tuple(known.unbounded), tuple(known.facts), at)


def _overflows(reader: Affine, indices: _Indices, known: isl.Set) -> isl.Set | None:
    """The elements of the frame, of those `known` to be possible, at which a value does not fit its 32 bits."""
    outside = list[isl.Set]()
    for value in (value for index in indices.indices for node in walk(index) for value in _in_32_bits(node)):
        if isinstance(value, Iter) and value.name in indices.parts:
            continue  # of its own type
        number = reader.value(value)
        low, high = (sets.constant(reader.space, bound).to_pw_aff() for bound in (-(2**31), 2**31))
        apart = sets.as_set(number.lt_set(low)).union(sets.as_set(number.ge_set(high)))
        outside.append(apart.intersect(known))
    return sets.united(outside)


def _in_32_bits(e: Expr) -> list[Expr]:
    """The 32-bit operations inside an index node: the result of arithmetic and the operands converted for it."""
    if e.dtype.name != "int32" or not isinstance(e, Binary | Select):
        return []
    operands = (e.left, e.right) if isinstance(e, Binary) else (e.yes, e.no)
    found = [operand for operand in operands if _is_converted(operand)]
    return [*found, e] if isinstance(e, Binary) and e.op in ("+", "-", "*") else found


class _Indices:
    """The indices of one access, with a name for each part that is a value."""

    def __init__(self, space: isl.Space, access: Access) -> None:
        self.space = space
        self.parts: dict[str, Expr] = {}
        indices = map(_with_conversions, access.indices)
        self.indices = [rewrite(index, lambda e: self._named(e) if _wraps(e) else None) for index in indices]

    def forms(self) -> tuple[list[isl.PwAff], Affine]:
        """The affine forms of the indices, on the frame extended by one dimension for each part."""
        while True:
            grown = sets.extended_frame(self.space, len(self.parts))
            names = [*(name or "" for name in sets.dim_names(self.space)), *self.parts]
            reader = Affine(grown, dict(zip(names, sets.variables(grown), strict=True)))
            try:
                return [reader.value(index) for index in self.indices], reader
            except NotAffine as error:
                self._replace(error.part)

    def _named(self, part: Expr) -> Iter:
        for name, known in self.parts.items():
            if known.same_as(part):
                return Iter(name)
        name = f"_value{len(self.parts)}"
        self.parts[name] = part
        return Iter(name)

    def _replace(self, part: Expr) -> None:
        """Name a part; for a condition, every select that it decides."""

        def opaque(e: Expr) -> Expr | None:
            if part.dtype.is_bool:
                decides = isinstance(e, Select) and any(node.same_as(part) for node in walk(e.condition))
                return self._named(e) if decides else None
            return self._named(e) if e.same_as(part) else None

        self.indices = [rewrite(index, opaque) for index in self.indices]


def narrowest(part: Expr) -> Expr:
    """The operand under a part's widening conversions, which do not change its value."""
    while isinstance(part, Cast) and _holds(part.dtype, part.operand.dtype):
        part = part.operand
    return part


def _holds(wide: DType, narrow: DType) -> bool:
    """Whether an integer type has all values of another one."""
    if not (wide.is_integer and narrow.is_integer) or wide.weak or narrow.weak:
        return False
    (least, largest), (first, last) = narrow.limits, wide.limits
    return first <= least and largest <= last


class _Bounds:
    """Known bounds of values that are used as indices; `typed` is the range of the 32-bit types.

    Such a range exceeds the extent of any array; in other relations it would only add constraints.
    """

    def __init__(self, algorithm: Algorithm, reader: Affine) -> None:
        self.algorithm = algorithm
        self.reader = reader
        self.unbounded: list[Expr] = []
        self.facts: list[str] = []
        self.typed = sets.universe(reader.space)

    def of(self, part: Expr, value: Iter) -> isl.Set:
        """The points at which `value` is one that `part` can have."""
        if isinstance(part, Binary) and part.op == "%" and part.dtype in (weak_int, int64):
            return self._modulo(part, value)
        part = narrowest(part)
        declared = self.algorithm.inputs.get(part.source) if isinstance(part, Access) else None
        if declared is not None and declared.values is not None:
            self.facts.append(declared.name)
            return self._between(value, *declared.values)
        if declared is not None and declared.permutation and len(declared.shape) == 1:
            self.facts.append(declared.name)
            return self._between(value, Const(0, weak_int), declared.shape[0])
        if part.dtype.is_integer and not part.dtype.weak:
            converted = self._converted(part, value)
            if converted is not None:
                return converted.intersect(self._of_type(value, part.dtype))
            if part.dtype.bits <= 16:
                return self._of_type(value, part.dtype)
            if part.dtype.bits <= 32:
                self.typed = self.typed.intersect(self._of_type(value, part.dtype))
        self.unbounded.append(part)
        return sets.universe(self.reader.space)

    def _converted(self, part: Expr, value: Iter) -> isl.Set | None:
        """The bounds of a converted size or iterator: its own value if it fits, and never a larger one.

        { v : lo <= x < hi => v = x,  x >= 0 => v <= x }; None if a part is no such conversion.
        """
        if not isinstance(part, Cast) or part.operand.dtype is not weak_int:
            return None
        try:
            x = self.reader.value(part.operand)
        except NotAffine:
            return None
        v, zero = self.reader.value(value), sets.constant(self.reader.space, 0).to_pw_aff()
        fits = self._of_type(part.operand, part.dtype)
        kept = sets.as_set(v.eq_set(x)).union(fits.complement())
        return kept.intersect(sets.as_set(v.le_set(x)).union(sets.as_set(x.lt_set(zero))))

    def _modulo(self, part: Binary, value: Iter) -> isl.Set:
        """The bounds of ``x % n`` of sizes and iterators, where n is not a constant that isl can divide by.

        { v : 0 <= v < n },  and  v = x - k n  if  k n <= x < (k + 1) n  for k = -1, 0, 1:  one period to either side.
        """
        try:
            n = self.reader.value(part.right)
        except NotAffine:
            self.unbounded.append(part)
            return sets.universe(self.reader.space)
        v, zero = self.reader.value(value), sets.constant(self.reader.space, 0).to_pw_aff()
        inside = sets.as_set(v.ge_set(zero)).intersect(sets.as_set(v.lt_set(n)))
        known = inside.union(sets.as_set(n.le_set(zero)))  # for a divisor n <= 0 every value is possible
        try:
            x = self.reader.value(part.left)
        except NotAffine:
            return known
        for moved in (x.add(n), x, x.sub(n)):
            turn = sets.as_set(moved.ge_set(zero)).intersect(sets.as_set(moved.lt_set(n)))
            known = known.intersect(turn.complement().union(sets.as_set(v.eq_set(moved))))
        return known.coalesce()

    def _of_type(self, value: Expr, dtype: DType) -> isl.Set:
        least, largest = dtype.limits
        return self._between(value, Const(least, weak_int), Const(largest + 1, weak_int))

    def _between(self, value: Expr, low: Expr, high: Expr) -> isl.Set:
        return self.reader.condition((low <= value) & (value < high))
