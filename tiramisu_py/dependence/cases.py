"""Cases: instances cut by the affine conditions of the selects in an expression; values that are copies of others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from functools import cached_property

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm, Computation, Input
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Access, Expr, Select, as_typed
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.algorithm.types import TupleType

#: Beyond this number of bodies a select stays in place: a box has an inside, four edges and four corners.
MOST_BODIES = 9
#: A point has this many dimensions less than what is around it, or more: fewer are edges.
FEWEST_PINNED = 2
#: Copies of copies are followed so many times where isl does not know all of them.
MOST_STEPS = 3

Part = tuple[isl.Set, Expr]
#: The branch taken at each cut: 0 if the condition holds, 1 if not.
Branch = tuple[int, ...]
#: A value: its source, and its indices.
Named = tuple[str, tuple[int, ...]]


def chooses(body: Expr) -> bool:
    """Whether a body has a select."""
    return next(_selects(body), None) is not None


def by_branch(reader: Affine, instances: isl.Set, body: Expr) -> list[tuple[Branch, Part]]:
    """The parts of `split_by_cases`, each with the branches that lead to it."""
    return _Splitter(reader).by_branch(instances, body)


def split_by_cases(
    reader: Affine, instances: isl.Set, body: Expr, cuts: Callable[[Expr, Expr], bool] | None = None
) -> list[Part]:
    """Parts of `instances`, each with a body in which selects decided there are resolved.

    What is around a point of a plane, or a line in space, has many convex parts, each a copy of the body: `cuts` says
    whether a select whose condition holds there alone, with the body around it, is a case, or stays in place (without
    it, all are cases).
    """
    return _Splitter(reader, cuts).split(instances, body)


def is_decided(
    reader: Affine, instances: isl.Set, body: Expr, cuts: Callable[[Expr, Expr], bool] | None = None
) -> bool:
    """Whether `split_by_cases` has left no select in a part that it would cut, were there not as many already."""
    return len(_Splitter(reader, cuts).cut(instances, body)) == 1


class _Splitter:
    """Cuts instances by the conditions of the selects in their body."""

    def __init__(self, reader: Affine, cuts: Callable[[Expr, Expr], bool] | None = None) -> None:
        self.reader, self.cuts = reader, cuts

    def split(self, instances: isl.Set, body: Expr) -> list[Part]:
        """Parts of `instances`, each with a body in which selects decided there are resolved.

        Parts that grow with the sizes in every dimension are cut first, so that with too many parts only edges keep a
        select.
        """
        return [part for _, part in self.by_branch(instances, body)]

    def by_branch(self, instances: isl.Set, body: Expr) -> list[tuple[Branch, Part]]:
        """The parts of `split`, each with the branches that lead to it."""
        done: list[tuple[Branch, Part]] = []
        waiting: list[tuple[int, int, Branch, Part]] = [(0, 0, (), (instances, body))]
        number = 0
        while waiting and len(done) + len(waiting) < MOST_BODIES:
            _, _, branch, part = waiting.pop(waiting.index(min(waiting, key=lambda entry: entry[:2])))
            cut = self.cut(*part)
            if len(cut) == 1:
                done.append((branch, cut[0]))
            for which, each in enumerate(cut) if len(cut) > 1 else ():
                number += 1
                waiting.append((sets.thin_dimensions(each[0]), number, (*branch, which), each))
        return done + [(branch, self._implied(part)) for _, _, branch, part in waiting]

    def _implied(self, part: Part) -> Part:
        """A part without the selects that its instances decide, if these are all."""
        found = self.cut(*part)
        return found[0] if len(found) == 1 else part

    def cut(self, instances: isl.Set, body: Expr) -> list[Part]:
        """The parts on which the outermost affine select of a body is decided; the part alone if it has none."""
        kept = set[tuple[object, ...]]()
        while (found := self._affine(body, kept)) is not None:
            select, holds = found
            inside, outside = instances.intersect(holds).coalesce(), instances.subtract(holds).coalesce()
            if inside.is_empty() or outside.is_empty():
                body = _decided(body, select, outside.is_empty())
                continue
            around = _decided(body, select, False)
            if self.cuts is None or not _is_point(instances, inside) or self.cuts(select.condition, around):
                return [(inside, _decided(body, select, True)), (outside, around)]
            kept.add(select.condition.key())
        return [(instances, body)]

    def _affine(self, body: Expr, kept: Collection[tuple[object, ...]]) -> tuple[Select, isl.Set] | None:
        """The outermost affine select of a body whose condition is not kept, and where it holds."""
        for select in _selects(body):
            if select.condition.key() in kept:
                continue
            try:
                return select, self.reader.condition(select.condition)
            except NotAffine:
                continue
        return None


def _is_point(instances: isl.Set, inside: isl.Set) -> bool:
    """Whether a part of some instances has no more than a few of them along two dimensions, where these have many."""
    return sets.thin_dimensions(inside) - sets.thin_dimensions(instances) >= FEWEST_PINNED


def _selects(body: Expr) -> Iterator[Select]:
    """The selects of a body, outer ones first, also those inside indices (neighbours that wrap or are clamped)."""
    waiting, seen = [body], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Select):
            yield node
        waiting += reversed(node.children())


def _decided(body: Expr, decided: Select, holds: bool) -> Expr:
    """The body with one select, and all others of the same condition, replaced by the branch taken."""
    key = decided.condition.key()
    known: dict[int, Expr] = {}  # of selects, by their ids: they may be shared, and stand inside each other

    def branch(e: Expr) -> Expr | None:
        if not isinstance(e, Select) or e.condition.key() != key:
            return None
        if id(e) not in known:
            known[id(e)] = rewrite(as_typed(e.yes if holds else e.no, e.dtype), branch)
        return known[id(e)]

    return rewrite(body, branch)


# -- values that are copies of others


class EqualValues:
    """The values of an algorithm that are, bit for bit, other values: ``h[t, 0] = h[t - 1, 0]``, ``h[0, i] = a[i]``.

    `parents` maps a value to the one that its expression, with its selects decided, is. Two values are equal if they
    come from one value by such steps. Reductions and values of several components are left out.
    """

    def __init__(self, algorithm: Algorithm) -> None:
        self.algorithm = algorithm
        parts = [part for c in algorithm.computations.values() for part in _copied(algorithm, c)]
        self.parents = sets.united(part.to_union_map() for part in parts)

    @cached_property
    def _ancestors(self) -> isl.UnionMap:
        """Each value and those that it comes from; where isl finds no exact closure, only after a few steps."""
        assert self.parents is not None
        closure, is_exact = self.parents.transitive_closure()
        if is_exact:
            return closure
        steps = found = self.parents
        for _ in range(MOST_STEPS):
            steps = steps.apply_range(self.parents)
            found = found.union(steps)
        return found

    def equal(self, a: isl.Map, b: isl.Map) -> isl.Map:
        """The pairs of accesses, from those of a to those of b, that name equal values, by other names or the same."""
        sides = [each.to_union_map() for each in (a, b)]
        first, second = (each.union(each.apply_range(self._ancestors)) for each in sides)
        pairs = first.apply_range(second.reverse())
        space = a.domain().get_space().map_from_domain_and_range(b.domain().get_space())
        return pairs.extract_map(space)

    def copied(self, a: isl.Map, b: isl.Map) -> isl.Map:
        """The pairs of accesses, of a and of b, of which the first names a copy of the second's value."""
        space = a.domain().get_space().map_from_domain_and_range(b.domain().get_space())
        if self.parents is None:
            return isl.Map.empty(space)
        pairs = a.to_union_map().apply_range(self.parents).apply_range(b.to_union_map().reverse())
        return pairs.extract_map(space)

    def roots(self, params: Mapping[str, int]) -> dict[Named, Named]:
        """The value that each copy comes from, at given parameters."""
        found: dict[Named, Named] = {}
        for part in sets.maps_of(self.parents):
            count, names = sets.in_size(part), (sets.in_name(part), sets.out_name(part))
            for pair in sets.points(sets.flat_pairs(sets.fixed_map(part, params), "pair")):
                found[names[0], pair[:count]] = names[1], pair[count:]

        def root(value: Named) -> Named:
            while value in found:
                value = found[value]
            return value

        return {value: root(value) for value in found}


def _copied(algorithm: Algorithm, computation: Computation) -> Iterator[isl.Map]:
    """For each case in which a computation's expression is another value: ``value -> that value``."""
    if not _is_one_number(computation) or computation.guards or computation.stage is not None:
        return
    space = computation.domain.get_space()
    reader = Affine(space, dict(zip(computation.iterators, sets.variables(space), strict=True)))
    for part, body in split_by_cases(reader, computation.domain, computation.expr):
        if not isinstance(body, Access) or not body.indices or body.dtype != computation.dtype:
            continue
        if body.source != computation.name and not _is_one_number(algorithm.source(body.source)):
            continue
        with suppress(NotAffine):
            indices = [reader.value(index) for index in body.indices]
            yield sets.map_of_forms(indices, space, body.source).intersect_domain(part)


def _is_one_number(source: Input | Computation) -> bool:
    is_reduction = isinstance(source, Computation) and source.is_reduction
    return not is_reduction and not isinstance(source.dtype, TupleType)
