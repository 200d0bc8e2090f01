"""Reassociation: a sum of products of sums, with the sums in another order.

::

    hs[p, j] = sum over k: x[src[p], k] * W[type[p], k, j]
    atts[p]  = sum over j: hs[p, j] * w[type[p], j]

    -->   v[r, k]  = sum over j: W[r, k, j] * w[r, j]             for each type: a product of weights
          atts[p]  = sum over k: x[src[p], k] * v[type[p], k]

Indices of the weights that are none of the sums, such as ``type[p]``, become iterators of the product, which has a
value wherever the weights have elements. Equal as real numbers: `tm.equivalent` proves it. Source: Wu, Code generation
and runtime techniques for enabling data-efficient deep learning training on GPUs, 3.4.1, linear operator reordering.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from math import prod

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm, Computation, Input
from tiramisu_py.algorithm.declare.declare import declare_reduction
from tiramisu_py.algorithm.domains.affine import Affine
from tiramisu_py.algorithm.domains.extents import extents_of
from tiramisu_py.algorithm.domains.extents_from_arguments import extent_value
from tiramisu_py.algorithm.domains.reads import narrowest
from tiramisu_py.algorithm.domains.terms_of_sums import sizes_of_terms, with_terms
from tiramisu_py.algorithm.evaluate.given_values import extents
from tiramisu_py.algorithm.expressions import Access, Binary, Const, Expr, Iter, as_typed, binary
from tiramisu_py.algorithm.operators import sum_
from tiramisu_py.algorithm.traversal import accesses, mentions, rewrite, substitute
from tiramisu_py.algorithm.types import DType
from tiramisu_py.errors import CommandError
from tiramisu_py.records import dataclass
from tiramisu_py.rewriting.sketches import FreshNames

_LETTERS = "abcdefgh"


@dataclass(frozen=True, eq=False)
class Reassociated:
    """An algorithm after the rewrite: the name of the product of weights, and whether nothing reads the inner sum."""

    algorithm: Algorithm
    product: str
    unread: bool


def reassociated(
    algorithm: Algorithm, outer: Computation, inner: Computation, sizes_to_count: Mapping[str, int] | None = None
) -> Reassociated:
    """The algorithm in which `outer`, a sum over products with `inner`, multiplies weights first.

    What is multiplied first may be anything, if `sizes_to_count` are given, at which that has to be less work. Raises
    `CommandError`, naming what is no product of sums, and where what would be multiplied first is no weight.
    """
    read, rest = _factors_of_outer(algorithm, outer, inner)
    data, weights = _factors_of_inner(outer, inner, read)
    names = FreshNames(algorithm)
    terms = fresh_terms(outer, inner)
    at = {name: Iter(terms[name]) for name in inner.over}
    instance: dict[str, Expr] = dict(zip(inner.iterators, read.indices, strict=True)) | at
    data, weights = (substitute(each, instance) for each in (data, weights))
    over = tuple(terms[name] for name in inner.over)
    sizes = _sizes_of_terms(algorithm, outer) | {
        terms[name]: size for name, size in _sizes_of_terms(algorithm, inner).items()
    }
    factors = (data, binary("*", weights, rest))
    product, parts = _product_of_weights(
        algorithm, outer, factors, (over, sizes), names, only_weights=sizes_to_count is None
    )
    own = Access(product.name, (*parts, *map(Iter, over)), product.dtype, algorithm.owner)
    changed = with_terms(outer, binary("*", data, own), over, sizes)

    def change(c: Computation) -> Computation:
        return changed if c.name == outer.name else c

    made = algorithm.with_rewritten(change, (product,))
    made = replace(made, reassociated={**algorithm.reassociated, outer.name: product.name})
    readers = {a.source for c in made.computations.values() for e in (c.expr, *c.guards) for a in accesses(e)}
    unread = inner.name not in {*readers, *algorithm.outputs}
    if sizes_to_count is not None:
        before = work(algorithm, (inner, outer), sizes_to_count)
        after = work(made, (product, changed, *(() if unread else (inner,))), sizes_to_count)
        if after >= before:
            raise CommandError(
                f"{outer.name} has {before} products and sums at these sizes, and {after} where {product.name} is "
                "multiplied first: leave it as it is"
            )
    return Reassociated(made, product.name, unread)


def work(algorithm: Algorithm, computations: Sequence[Computation], sizes: Mapping[str, int]) -> int:
    """How many multiplications and additions sums of products take, over boxes of these sizes."""
    missing = next((name for name in algorithm.params if name not in sizes), None)
    if missing is not None:
        raise CommandError(f"work is counted at sizes, and that of {missing} is not given")
    return sum(
        prod(extent_value(each, sizes) for each in extents_of(c.points, algorithm.context)) * len(factors_of(c.expr))
        for c in computations
    )


def _factors_of_outer(algorithm: Algorithm, outer: Computation, inner: Computation) -> tuple[Access, Expr]:
    """The read of the inner sum, and what it is multiplied with."""
    for c in (outer, inner):
        check_may_round(c, "reassociate")
    factors = factors_of(outer.expr)
    found = [each for each in factors if isinstance(each, Access) and each.source == inner.name]
    if len(found) != 1 or len(factors) < 2:
        inside = any(a.source == inner.name for a in accesses(outer.expr))
        what = f"{inner.name} is in {outer.expr}" if inside else f"{outer.name} does not read {inner.name}"
        raise CommandError(
            f"{what}: reassociate is for a sum of products, {inner.name}[..] * w[..], and nothing else, such as exp, "
            "may be between them"
        )
    (read,) = found
    others = [each for each in factors if each is not read]
    if any(a.source == inner.name for each in others for a in accesses(each)):
        raise CommandError(f"{outer.name} reads {inner.name} twice in one product")
    return read, product_of(others, outer.dtype)


def check_may_round(c: Computation, command: str) -> None:
    """Refuse what is no sum of floats of its own, in any order."""
    if c.op is not sum_ or not c.dtype.is_float or c.ordered or c.group or c.stage is not None:
        raise CommandError(f"{c.name} is no sum of floats on its own: {command} moves a product out of a sum")
    if c.determinism is not None and str(c.determinism) == "ordered":
        raise CommandError(f"{c.name} is declared determinism='ordered', and {command} rounds in another way")


def _factors_of_inner(outer: Computation, inner: Computation, read: Access) -> tuple[Expr, Expr]:
    """The factors that the inner sum multiplies: those without the iterators of the outer sum, and those with them."""
    summed = [name for name, at in zip(inner.iterators, read.indices, strict=True) if mentions(at, outer.over)]
    data = [each for each in factors_of(inner.expr) if not mentions(each, summed)]
    weights = [each for each in factors_of(inner.expr) if mentions(each, summed)]
    if not data or not weights or not summed:
        raise CommandError(
            f"{inner.name} is no product of one factor that {outer.name} sums over and one that it does not: "
            f"{inner.expr}"
        )
    if any(mentions(guard, inner.over) for guard in inner.guards) or any(mentions(g, outer.over) for g in outer.guards):
        raise CommandError(f"the terms of {inner.name} and {outer.name} have conditions: their order cannot be changed")
    return product_of(data, outer.dtype), product_of(weights, outer.dtype)


def factors_of(e: Expr) -> list[Expr]:
    """The factors of an expression as real numbers: a product of integers, which may wrap, is one factor."""
    if isinstance(e, Binary) and e.op == "*" and e.dtype.is_float:
        return [*factors_of(e.left), *factors_of(e.right)]
    return [e]


def product_of(factors: Sequence[Expr], dtype: DType) -> Expr:
    """The product of some factors, in order, each in the type of the whole product: part of it is in no narrower one.

    Of ``x * w`` alone, the type of an int8 `x` is that of `w`; a sum of `x` by itself would wrap.
    """
    return reduce(lambda a, b: binary("*", a, b), (as_typed(each, dtype) for each in factors))


def fresh_terms(outer: Computation, inner: Computation) -> dict[str, str]:
    """Names for the iterators of the inner sum that the outer computation does not have."""
    taken, found = {*outer.point_iterators}, {}
    for name in inner.over:
        fresh, number = name, 2
        while fresh in taken:
            fresh, number = f"{name}_{number}", number + 1
        taken.add(fresh)
        found[name] = fresh
    return found


def _sizes_of_terms(algorithm: Algorithm, c: Computation) -> dict[str, Expr]:
    """The extents of the iterators of a sum, which is over a box from 0; raises `CommandError` for another one."""
    found = sizes_of_terms(algorithm, c)
    if found is None:
        raise CommandError(f"{c.name} does not sum over the same terms for each value: their order cannot be changed")
    return found


def _product_of_weights(
    algorithm: Algorithm,
    outer: Computation,
    factors: tuple[Expr, Expr],
    terms: tuple[tuple[str, ...], Mapping[str, Expr]],
    names: FreshNames,
    *,
    only_weights: bool,
) -> tuple[Computation, list[Expr]]:
    """The product of weights, and the indices at which the outer sum reads it, before those of the terms."""
    data, expr = factors
    over, sizes = terms
    own = {*over, *outer.over}
    parts: list[tuple[Expr, Iter, Expr]] = []
    taken = {*outer.point_iterators, *algorithm.params}

    def generalised(e: Expr) -> Expr | None:
        if not isinstance(e, Access):
            return None
        if any(mentions(index, own) and not isinstance(narrowest(index), Iter) for index in e.indices):
            raise CommandError(f"{e} is read at other indices than the terms of the sums")
        shape = _shape(algorithm, e.source)
        return replace(
            e,
            indices=tuple(
                index if mentions(index, own) else _part(parts, index, size, e, taken)
                for index, size in zip(e.indices, shape, strict=True)
            ),
        )

    general = rewrite(expr, generalised)
    left = [i for i in outer.iterators if mentions(general, [i]) and i not in {one.name for _, one, _ in parts}]
    if left:
        raise CommandError(f"{expr} depends on {left[0]} itself: it is no product of weights")
    for index, _, size in parts if only_weights else ():
        if any(size.same_as(other) for other in _sizes_of_data(algorithm, data)):
            raise CommandError(
                f"{expr} has a value for each {index}, as many as {data} has rows: it is no product of weights, and "
                "reassociate would make more work of it; by='count' counts it"
            )
    space = {one: size for _, one, size in parts} | {Iter(name): sizes[name] for name in over}
    name = names.fresh(f"{outer.name}_weights")
    made = declare_reduction(
        algorithm, name, space, {Iter(each): sizes[each] for each in outer.over}, sum_, general,
        owner=algorithm.owner, location=outer.location,
    )  # fmt: skip
    return made, [index for index, _, _ in parts]


def _part(parts: list[tuple[Expr, Iter, Expr]], index: Expr, size: Expr, e: Access, taken: set[str]) -> Expr:
    """The iterator of the product of weights for an index; one for all that are equal."""
    for known, one, extent in parts:
        if known.same_as(index):
            if not extent.same_as(size):
                raise CommandError(
                    f"{index} is an index of weights of {extent} and of {size}: they must be of one size"
                )
            return one
    fresh = next(name for name in (*_LETTERS, *(f"part_{n}" for n in range(99))) if name not in taken)
    taken.add(fresh)
    parts.append((index, Iter(fresh), size))
    return parts[-1][1]


def _shape(algorithm: Algorithm, name: str) -> tuple[Expr, ...]:
    """The extents of the box of what a weight has elements for; raises `CommandError` for values that are no box."""
    if name in algorithm.inputs:
        return algorithm.inputs[name].shape
    c = algorithm.computations[name]
    found = extents(algorithm, c)
    if c.guards or len(found) != len(c.iterators):
        raise CommandError(f"{name} has values in runs only: it is no weight")
    box = {Iter(i): size for i, size in zip(c.iterators, found, strict=True)}
    reader = Affine(c.domain.get_space(), dict(zip(c.iterators, sets.variables(c.domain.get_space()), strict=True)))
    whole: isl.Set = sets.universe(c.domain.get_space()).intersect_params(algorithm.context)
    for i, size in box.items():
        whole = whole.intersect(reader.condition((i >= 0) & (i < size)))
    if not whole.is_equal(c.domain):
        raise CommandError(f"{name} has no value for some indices of the box around them: it is no weight")
    return found


def _sizes_of_data(algorithm: Algorithm, data: Expr) -> list[Expr]:
    """The extents of what is read that are no numbers, but for those of the terms."""
    found: list[Expr] = []
    for access in accesses(data):
        shape = algorithm.source(access.source)
        extents_of_source = shape.shape if isinstance(shape, Input) else extents(algorithm, shape)
        found += [size for size in extents_of_source if not isinstance(size, Const)]
    return found
