"""Computations to be declared: what each is, whatever their order; and their declaration, sources first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, reduce

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.declarations import Algorithm, Computation, Written
from tiramisu_py.algorithm.declare.declare import declare_computation, declare_reduction
from tiramisu_py.algorithm.declare.declare_stage import declare_stage
from tiramisu_py.algorithm.domains.domain import Domain
from tiramisu_py.algorithm.expressions import Access, Expr, Iter, binary
from tiramisu_py.algorithm.operators import Operator
from tiramisu_py.algorithm.reserved import WORDS
from tiramisu_py.algorithm.traversal import accesses, merged, substitute
from tiramisu_py.algorithm.types import DType
from tiramisu_py.algorithm.words.stages import StageCall
from tiramisu_py.errors import DeclarationError
from tiramisu_py.records import dataclass


@dataclass(eq=False)
class FreshNames:
    """Names that are free in an algorithm, each given once."""

    algorithm: Algorithm

    def __post_init__(self) -> None:
        taken = {*self.algorithm.params, *self.algorithm.inputs, *self.algorithm.computations, *WORDS}
        for each in self.algorithm.computations.values():
            taken |= {*ty.array_names(each.name, each.dtype), f"{each.name}_init", f"{each.name}_update"}
        self._taken = taken

    def fresh(self, wanted: str) -> str:
        """The name itself if it is free, else with a number."""
        found, number = wanted, 2
        while {found, f"{found}_init", f"{found}_update"} & self._taken:
            found, number = f"{wanted}_{number}", number + 1
        self._taken |= {found, f"{found}_init", f"{found}_update"}
        return found


@dataclass(frozen=True, eq=False)
class Sketch:
    """A computation, or with `op` a reduction over the dimensions of `points` behind those of `domain`.

    A call over whole arrays is made for each value of the first `each` iterators; `ranges` are those of the iterators
    of what it reads that are not its own.
    """

    name: str
    dtype: DType
    iterators: tuple[str, ...]
    domain: isl.Set
    expr: Expr
    guards: tuple[Expr, ...] = ()
    over: tuple[str, ...] = ()
    points: isl.Set | None = None
    op: Operator | None = None
    like: Computation | None = None
    each: int = 0
    ranges: Mapping[str, tuple[Expr, Expr]] = field(default_factory=dict)

    @cached_property
    def sources(self) -> frozenset[str]:
        """The names of what it reads."""
        return frozenset(access.source for each in (self.expr, *self.guards) for access in accesses(each))

    def declared(self, algorithm: Algorithm, beside: dict[str, int]) -> Computation:
        """The computation, in an algorithm that has all that it reads but those `beside`, given with their ranks."""
        where = reduce(lambda a, b: binary("&", a, b), self.guards) if self.guards else None
        location = None if self.like is None else self.like.location
        domain = Domain(self.iterators, self.domain)
        if isinstance(self.expr, StageCall):
            over, each = {Iter(name): ends for name, ends in self.ranges.items()}, [*map(Iter, self.iterators)]
            made = declare_stage(
                algorithm, self.name, domain, self.expr, over=over, each=each[: self.each], owner=algorithm.owner,
                location=location,
            )  # fmt: skip
            text = _text(self.domain, self.iterators)
            return replace(made, written=Written(text, over, each=tuple(each[: self.each])))
        if self.op is None:
            made = declare_computation(
                algorithm, self.name, domain, merged(self.expr), where=where, dtype=self.dtype, beside=beside,
                owner=algorithm.owner, location=location,
            )  # fmt: skip
            return replace(made, written=Written(_text(self.domain, self.iterators), where=where))
        assert self.points is not None
        dims = (*self.iterators, *self.over)
        made = declare_reduction(
            algorithm, self.name, domain, Domain(dims, self.points), self.op, merged(self.expr), where=where,
            dtype=self.dtype, beside=beside, owner=algorithm.owner, location=location,
        )  # fmt: skip
        return replace(made, written=Written(_text(self.domain, self.iterators), _text(self.points, dims), where=where))


def _text(of: isl.Set, dims: Sequence[str]) -> str:
    return str(sets.with_dims(sets.named(of, None), dims))


def same_domain(c: Computation, name: str, dtype: DType, expr: Expr, op: Operator | None = None) -> Sketch:
    """A computation for the values of another one, or with `op` a reduction over the terms of a reduction."""
    points = c.points if op is not None else None
    over = c.over if op is not None else ()
    return Sketch(name, dtype, c.iterators, c.domain, expr, c.guards, over, points, op, c)


def read(algorithm: Algorithm, name: str, indices: Iterable[Expr], dtype: DType) -> Access:
    """A value of a source that may not be declared yet."""
    return Access(name, tuple(indices), dtype, algorithm.owner)


def own_value(algorithm: Algorithm, c: Computation, name: str, dtype: DType) -> Access:
    """The value of a source at the iterators of a computation."""
    return read(algorithm, name, [Iter(each) for each in c.iterators], dtype)


def with_sketches(algorithm: Algorithm, sketches: Sequence[Sketch]) -> Algorithm:
    """The algorithm with all these computations: sources first, those that read each other in a group."""
    for cycle in _in_order(sketches):
        own = {each.name for each in cycle}
        beside = {each.name: len(each.iterators) for each in cycle}
        joint = len(cycle) > 1 or (cycle[0].op is not None and bool(cycle[0].sources & own))
        made = [each.declared(algorithm, beside) for each in cycle]
        algorithm = algorithm.with_computation(
            *(replace(each, group=cycle[0].name) if joint else each for each in made)
        )
    return algorithm


def _in_order(sketches: Sequence[Sketch]) -> list[list[Sketch]]:
    """The computations by cycles of reads, sources first."""
    known = {each.name: each for each in sketches}
    if len(known) < len(sketches):
        raise DeclarationError("two derived computations have one name")
    needed = {each.name: _reached(each, known) for each in sketches}
    found: list[list[Sketch]] = []
    done: set[str] = set()
    waiting = list(sketches)
    while waiting:
        for each in waiting:
            cycle = [o for o in waiting if o is each or (o.name in needed[each.name] and each.name in needed[o.name])]
            if needed[each.name] <= done | {o.name for o in cycle}:
                found.append(cycle)
                done |= {o.name for o in cycle}
                waiting = [o for o in waiting if o.name not in done]
                break
    return found


def _reached(first: Sketch, known: dict[str, Sketch]) -> set[str]:
    found: set[str] = set()
    waiting = [first]
    while waiting:
        new = {name for name in waiting.pop().sources if name in known} - found
        found |= new
        waiting += [known[name] for name in new]
    return found


def replaced(expression: Expr, values: dict[str, Expr]) -> Expr:
    """An expression with iterators replaced, all at once."""
    return substitute(expression, values)
