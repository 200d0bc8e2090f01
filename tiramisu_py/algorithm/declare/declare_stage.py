"""Declarations of stages: computations whose values calls of a C function over whole arrays compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import (
    Algorithm,
    Computation,
    Location,
    StagePart,
    StageSets,
    Written,
)
from tiramisu_py.algorithm.declare.declare import check_components, check_free, computed_shape
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.domains.domain import Domain, conjuncts, parse_domain, parse_over
from tiramisu_py.algorithm.domains.references import check_extern, check_references
from tiramisu_py.algorithm.expressions import Access, Expr, Iter, as_expr
from tiramisu_py.algorithm.traversal import iterators, walk
from tiramisu_py.algorithm.types import DType
from tiramisu_py.algorithm.words.stages import StageCall
from tiramisu_py.errors import DeclarationError


def declare_stage(
    algorithm: Algorithm,
    name: str,
    domain: Any,
    call: Any,
    *,
    over: Any = None,
    where: Any = None,
    each: Any = (),
    shape: Sequence[Any] | None = None,
    owner: object = None,
    location: Location | None = None,
) -> Computation:
    """The values ``name[domain]``, computed by `call`, once for each value of the iterators `each`.

    `over` has the iterators of what it reads that are none of its values. Raises `DeclarationError`, naming the stage.
    """
    check_free(algorithm, name, "a stage")
    if not isinstance(call, StageCall):
        raise DeclarationError(f"{name} is computed by {call!r}: call a function that tm.extern_stage has declared")
    check_components(algorithm, name, call.dtype)
    declared = _Declared(algorithm, name, domain, call, over or {}, where, owner)
    written = Written(domain, over, where, each=declared.calls(each))
    declared.check()
    values = declared.values
    extents = computed_shape(algorithm, name, shape, len(values.iterators), owner)
    return Computation(
        name, call.dtype, values.iterators, values.points, values.points, call, shape=extents, location=location,
        written=written, stage=declared.sets(),
    )  # fmt: skip


class _Declared:
    """The arguments of one declaration, and the sets that they describe."""

    def __init__(
        self, algorithm: Algorithm, name: str, domain: Any, call: StageCall, over: Any, where: Any, owner: object
    ) -> None:
        if not isinstance(over, Mapping):
            raise DeclarationError(f"over= of {name} is {over!r}; write a dict such as {{k: K}}")
        self.algorithm, self.name, self.call, self.owner = algorithm, name, call, owner
        self.over = {key.name if isinstance(key, Iter) else str(key): (key, extent) for key, extent in over.items()}
        self.conditions = [] if where is None else conjuncts(as_expr(where))
        outer = [c for c in self.conditions if not iterators(c) & self.over.keys()]
        self.values = parse_domain(algorithm, name, domain, _conjunction(outer), owner)
        self._check_affine(self.values)
        self.each = 0

    def calls(self, given: Any) -> tuple[Iter, ...]:
        """The iterators that number the calls: the first ones of the domain."""
        listed = [given] if isinstance(given, Iter) else list(given) if isinstance(given, list | tuple) else None
        if listed is None or not all(isinstance(each, Iter) for each in listed):
            raise DeclarationError(f"each= of {self.name} is {given!r}; list iterators of its domain, each=[n]")
        names, own = tuple(each.name for each in listed), self.values.iterators
        if names != own[: len(names)]:
            raise DeclarationError(
                f"each= of {self.name} is {', '.join(names)}: name the first iterators of its domain, in the order "
                f"{', '.join(own)}"
            )
        self.each = len(names)
        return tuple(listed)

    def check(self) -> None:
        """Refuse arguments that the function cannot take, and values that are no box in each call."""
        call, name = self.call, self.name
        check_extern(self.algorithm, name, call.stage)
        for scalar, dtype in call.scalars:
            self._check_range(scalar, dtype)
            check_references(self.algorithm, name, scalar, self.values.iterators[: self.each], self.owner)
            for node in walk(scalar):
                if isinstance(node, Access) and node.indices:
                    raise DeclarationError(f"{name} passes {node} to {call.function}: a scalar argument is no element")
        for _, _, access in call.arrays:
            check_references(self.algorithm, name, access, [*self.values.iterators, *self.over], self.owner)
            if access.source == name:
                raise DeclarationError(f"{name} reads itself: what {call.function} updates is another computation")
        stored, rank = call.stage.stored[0][1], len(self.values.iterators) - self.each
        if rank != stored.rank:
            raise DeclarationError(
                f"{call.function} stores to an array of {stored.rank} dimensions, but a call computes values of {name} "
                f"with {rank} indices of their own{self._of_all_calls()}"
            )
        self._check_box()
        self._check_update()

    def _check_range(self, scalar: Expr, dtype: DType) -> None:
        """Refuse an argument of a narrow type of which the compiler cannot say when it fits."""
        if not scalar.dtype.weak or not iterators(scalar) or dtype.bits == 64 or not dtype.is_integer:
            return
        try:
            Affine(self.values.points.get_space()).single(scalar)
        except NotAffine:
            raise DeclarationError(
                f"{self.name} passes {scalar} to {self.call.function} as {dtype}, and whether it fits depends on more "
                "than sizes: let the function take int64"
            ) from None

    def _of_all_calls(self) -> str:
        return f", besides {', '.join(self.values.iterators[: self.each])}" if self.each else ""

    def _check_affine(self, domain: Domain) -> None:
        if domain.guards:
            raise DeclarationError(
                f"{domain.guards[0]} is a value: what {self.call.function} reads and writes for {self.name} depends on "
                "sizes and iterators alone"
            )

    def _check_box(self) -> None:
        points, count = self.values.points, self.each
        calls = sets.graph(sets.prefix(sets.identity(points.get_space()), count), points).reverse()
        elements = sets.out_parts(calls, count, sets.size(points) - count)
        lows, highs = sets.component_bounds(elements)
        box = sets.box(lows, highs, elements.get_space().domain()).intersect_domain(elements.domain())
        if not box.is_subset(elements):
            raise DeclarationError(
                f"the values of {self.name} are no box: a call of {self.call.function} writes all elements of an array"
            )

    def _check_update(self) -> None:
        updated, name = self.call.updated, self.name
        if updated is None:
            return
        own = tuple(getattr(index, "name", "") for index in updated.indices)
        listed = ", ".join(self.values.iterators)
        if own != self.values.iterators:
            raise DeclarationError(
                f"{self.call.function} updates {updated}, and computes {name}[{listed}]: give "
                f"{updated.source}[{listed}], which it overwrites in place"
            )
        others = [a for _, of, a in self.call.arrays if not of.is_stored and a.source == updated.source]
        if others:
            raise DeclarationError(
                f"{self.call.function} updates {updated.source} in place and reads {others[0]}: an array that it "
                "overwrites is no other argument"
            )

    # -- the sets

    def sets(self) -> StageSets:
        """The elements that each call reads, and the ranges of its iterators."""
        ranges = {name: self._projected([name]) for name in (*self.values.iterators[self.each :], *self.over)}
        return StageSets(self.each, ranges, tuple(self._part(of.rank, access) for _, of, access in self.call.arrays))

    def _part(self, rank: int, access: Access) -> StagePart:
        own = self.values.iterators[: self.each]
        names = [*self.values.iterators, *self.over]
        used = [name for name in names if name not in own and name in iterators(access)]
        points = self._projected(used)
        frame = (*own, *used)
        varying = tuple(self._moving(access, index, points.get_space(), frame) for index in access.indices)
        moving = [name for name in varying if name]
        if len(set(moving)) < len(moving):
            raise DeclarationError(f"{self.name} takes the part {access}: each iterator may be in one index only")
        if len(moving) != rank:
            raise DeclarationError(
                f"{self.name} takes the part {access} of {access.source}, which has {len(moving)} dimensions in a "
                f"call; {self.call.function} takes an array of {rank}"
            )
        return StagePart(access, frame, points, varying)

    def _moving(self, access: Access, index: Expr, space: isl.Space, frame: Sequence[str]) -> str:
        """The iterator that moves along an index, by one; "" if the index is the same in a call."""
        try:
            form = sets.terms(Affine(space, dict(zip(frame, sets.variables(space), strict=True))).single(index))
        except NotAffine as error:
            raise DeclarationError(f"{self.name} takes the part {access}: {error.part} is not affine") from None
        moving = [k for k in range(self.each, len(frame)) if form.dims[k]]
        if not moving and not form.divs:
            return ""
        if form.divs or form.denominator != 1 or len(moving) > 1 or form.dims[moving[0]] != 1:
            raise DeclarationError(
                f"{self.name} takes the part {access}: an index is an iterator, or an iterator plus what is the same "
                f"in a call, not {index}"
            )
        return frame[moving[0]]

    def _projected(self, names: Sequence[str]) -> isl.Set:
        """The values of some iterators within each call, over the iterators of the call and these."""
        inner = self._needed([name for name in names if name in self.over])
        found = self.values
        if inner:
            conditions = [c for c in self.conditions if iterators(c) & inner]
            given = {key: extent for name, (key, extent) in self.over.items() if name in inner}
            found = parse_over(self.algorithm, self.name, self.values, given, _conjunction(conditions), self.owner)
            self._check_affine(found)
        own = (*self.values.iterators[: self.each], *names)
        frame = found.points.get_space()
        variables = dict(zip(found.iterators, sets.variables(frame), strict=True))
        kept = sets.function(frame, self.name, [variables[name] for name in own])
        return sets.with_dims(found.points.apply(sets.graph(kept)).coalesce(), own)

    def _needed(self, names: Sequence[str]) -> frozenset[str]:
        """Some iterators of `over` with those on which their bounds and conditions depend."""
        found, before = set(names), set[str]()
        while found != before:
            before = set(found)
            for name in before:
                _, extent = self.over[name]
                bounds = extent if isinstance(extent, tuple | list) else (extent,)
                found |= {i for bound in bounds for i in _names(bound)} & self.over.keys()
            for condition in self.conditions:
                mentioned = iterators(condition) & self.over.keys()
                found |= mentioned if mentioned & found else set()
        return frozenset(found)


def _names(bound: Any) -> frozenset[str]:
    return iterators(bound) if isinstance(bound, Expr) else frozenset()


def _conjunction(conditions: Sequence[Expr]) -> Expr | None:
    whole: Expr | None = None
    for condition in conditions:
        whole = condition if whole is None else whole & condition
    return whole
