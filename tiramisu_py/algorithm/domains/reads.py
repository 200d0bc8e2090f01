"""The read accesses of an expression: for each access a relation from points to the values it may read.

A lazy select restricts the reads of its branches if its condition is affine; of a conjunction, the affine conjuncts
restrict them. An index that is a value itself (``x[col[p]]``) is over-approximated by the facts declared for its
array or by its scalar type, or it is unbounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm, Computation
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.domains.domain import conjuncts
from tiramisu_py.algorithm.domains.ranges.enclosed import Enclosed
from tiramisu_py.algorithm.domains.ranges.implied import both, implied
from tiramisu_py.algorithm.domains.ranges.index_parts import LARGEST_SIZE, is_converted, may_wrap
from tiramisu_py.algorithm.domains.ranges.value_ranges import ranges_of
from tiramisu_py.algorithm.expressions import COMPARISONS, Access, Binary, Cast, Expr, Iter, Select
from tiramisu_py.algorithm.traversal import kinds, walk
from tiramisu_py.algorithm.types import DType, int64, strong
from tiramisu_py.algorithm.words.stages import StageCall
from tiramisu_py.records import dataclass


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


def readings(algorithm: Algorithm, expression: Expr, space: isl.Space, guards: Sequence[Expr] = ()) -> list[Reading]:
    """The accesses of an expression over the frame `space`, in order of evaluation, without scalar inputs.

    The expression is evaluated only where its `guards` hold, which bound the values in its indices. An access that
    occurs in several places is one reading, at the points that reach any of its places. An expression that is a call
    over whole arrays reads, for each value, what the call reads.
    """
    if isinstance(expression, StageCall):
        return _of_call(algorithm.computations[sets.tuple_name(space)], space)
    collector = _Collector(algorithm, space, guards)
    reached = collector.reached(expression)
    read = (e for e in walk(expression) if isinstance(e, Access) and not _is_scalar(algorithm, e.source))
    return [collector.reading(e, reached[id(e)]) for e in read]


def _of_call(c: Computation, space: isl.Space) -> list[Reading]:
    """The reads of calls over whole arrays: ``value -> source[index]`` for all elements that the value's call reads."""
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


def _either(a: isl.Set | None, b: isl.Set | None) -> isl.Set | None:
    return None if a is None or b is None else a.union(b).coalesce()


class _Collector:
    """Reads one expression over a frame."""

    def __init__(self, algorithm: Algorithm, space: isl.Space, guards: Sequence[Expr]) -> None:
        self.algorithm = algorithm
        self.space = space
        self.guards = guards
        self.reader = Affine(space)

    def reached(self, expression: Expr) -> dict[int, isl.Set | None]:
        """The points that reach each node that reads, by its id, through any of its places; None for all."""
        paths: dict[int, isl.Set | None] = {id(expression): None}
        for e in reversed(list(walk(expression))):  # a node after all those that use it
            if id(e) not in paths:
                continue
            for child, here in self._operands(e, paths[id(e)]):
                if Access not in kinds(child):
                    continue
                known = paths.get(id(child), here)
                paths[id(child)] = here if known is here else _either(known, here)
        return paths

    def _operands(self, e: Expr, path: isl.Set | None) -> list[tuple[Expr, isl.Set | None]]:
        """The operands of a node reached from the points `path`, each with the points that reach it."""
        if not isinstance(e, Select):
            return [(child, path) for child in e.children()]
        sides = [(e.yes, True), (e.no, False)]
        taken = [(side, both(path, implied(self.reader, e.condition, truth))) for side, truth in sides]
        return [(e.condition, path), *taken]

    def reading(self, access: Access, path: isl.Set | None) -> Reading:
        """The reading of an access that is reached from the points `path`."""
        exact = self._exact(access)
        found = exact if exact is not None else approximated(self.algorithm, access, self.space, self.guards)
        return found if path is None else found.where(path)

    def _exact(self, access: Access) -> Reading | None:
        try:
            affs = [self.reader.single(index) for index in access.indices]
        except NotAffine:
            return None
        if any(may_wrap(node, exact=False) for index in access.indices for node in walk(index)):
            return None
        return Reading(access, sets.graph(sets.function(self.space, access.source, affs)))


def _is_scalar(algorithm: Algorithm, source: str) -> bool:
    return source in algorithm.inputs and algorithm.inputs[source].scalar


def approximated(algorithm: Algorithm, access: Access, space: isl.Space, guards: Sequence[Expr] = ()) -> Reading:
    """The reading of an access with non-affine indices: each value in an index becomes an extra dimension."""
    found = _under(algorithm, access, space, guards)
    if _wraps(found):
        found = ranges_of(algorithm).enclosed(access.indices, space, exact=True).where(guards)
    wrong = _overflows(found)
    at = None if wrong is None else found.points_of(wrong)
    return Reading(access, found.relation(access.source), found.unbounded, found.facts, at)


def _under(algorithm: Algorithm, access: Access, space: isl.Space, guards: Sequence[Expr]) -> Enclosed:
    """The facts about an access under its guards, which may compare values in its indices with others.

    ``x[k + o[i]]`` under ``k < o[i + 1] - o[i]`` is one of the elements before ``o[i + 1]``.
    """
    ranges = ranges_of(algorithm)
    found, compared = ranges.enclosed(access.indices, space).where(guards), _compared(access, guards)
    if compared:
        beside = ranges.enclosed(access.indices, space, compared=compared).where(guards)
        if set(beside.unbounded) <= set(found.unbounded):
            return beside
    return found


def _compared(access: Access, guards: Sequence[Expr]) -> list[Expr]:
    """The values that guards compare with those in the indices of an access, where some of these are not there."""
    inside = {each.key() for index in access.indices for each in walk(index) if isinstance(each, Access)}
    found = list[Expr]()
    for guard in guards if inside else ():
        for each in conjuncts(guard):
            read = {e.key() for e in walk(each) if isinstance(e, Access)}
            if isinstance(each, Binary) and each.op in COMPARISONS and read & inside and read - inside:
                found += [side for side in (each.left, each.right) if any(isinstance(e, Access) for e in walk(side))]
    return found


def _overflows(found: Enclosed) -> isl.Set | None:
    """The elements, of those that are possible, at which a value does not fit its 32 bits."""
    outside, reader = list[isl.Set](), found.parts.reader
    for value in (value for index in found.parts.given for node in walk(index) for value in _in_32_bits(node)):
        if isinstance(value, Iter) and value.name in found.parts.parts:
            continue  # of its own type
        number = reader.value(value)
        low, high = (sets.constant(reader.space, bound).to_pw_aff() for bound in (-(2**31), 2**31))
        apart = sets.as_set(number.lt_set(low)).union(sets.as_set(number.ge_set(high)))
        outside.append(apart.intersect(found.possible))
    return sets.united(outside)


def _wraps(found: Enclosed) -> bool:
    """Whether 64-bit arithmetic of values may wrap around, for sizes that a call can have."""
    parts, possible = found.parts, sets.with_params_below(found.possible, LARGEST_SIZE)
    for node in (node for index in parts.given for node in walk(index)):
        if node.dtype == int64 and isinstance(node, Binary) and node.op in ("+", "-", "*"):
            number = parts.reader.value(node)
            low, high = sets.most(number.neg(), possible), sets.most(number, possible)
            if (low is not None and low > 2**63) or (high is not None and high >= 2**63):
                return True
    return False


def _in_32_bits(e: Expr) -> list[Expr]:
    """The 32-bit operations inside an index node: the result of arithmetic and the operands converted for it."""
    if e.dtype.name != "int32" or not isinstance(e, Binary | Select):
        return []
    operands = (e.left, e.right) if isinstance(e, Binary) else (e.yes, e.no)
    found = [operand for operand in operands if is_converted(operand)]
    return [*found, e] if isinstance(e, Binary) and e.op in ("+", "-", "*") else found


def narrowest(part: Expr) -> Expr:
    """The operand under a part's widening conversions, which do not change its value.

    Iterators and sizes are of 64 bits, so that ``int64(p)`` is p.
    """
    while isinstance(part, Cast) and _holds(part.dtype, part.operand.dtype):
        part = part.operand
    return part


def _holds(wide: DType, narrow: DType) -> bool:
    """Whether an integer type has all values of another one."""
    if not (wide.is_integer and narrow.is_integer) or wide.weak:
        return False
    narrow = strong(narrow)
    (least, largest), (first, last) = narrow.limits, wide.limits
    return first <= least and largest <= last
