"""Reads at places that values choose, written out: so that what is computed for each key is found in what reads it.

::

    v[r, k] = sum over j: W[r, k, j] * w[r, j]
    y[p]    = sum over k: x[p, k] * v[type[p], k]

    -->   y[p] = sum over k, j: x[p, k] * W[type[p], k, j] * w[type[p], j]

Distinct keys are declared facts: ``pairs_src[pairs[p]]`` is ``src[p]``. Each position has one combination of them, so
that a sum over all combinations of sums over the positions of each is one over positions::

    rows[u] = sum over p with pairs[p] == u: g(p)
    y[n]    = sum over u with pairs_dst[u] == n: f(u) * rows[u]

    -->   y[n] = sum over p with dst[p] == n: f(pairs[p]) * g(p)

A value that is no sum of products with what is read stays as it is, and so does a sum over other terms for each value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tiramisu_py.algorithm.declarations import Algorithm, Computation, Input
from tiramisu_py.algorithm.declare.run_numbers import known_numbers
from tiramisu_py.algorithm.domains.reads import narrowest
from tiramisu_py.algorithm.domains.terms_of_sums import sizes_of_terms, with_terms
from tiramisu_py.algorithm.expressions import Access, Binary, Expr, Iter
from tiramisu_py.algorithm.operators import sum_
from tiramisu_py.algorithm.traversal import accesses, rewrite, substitute
from tiramisu_py.equivalence.declared_facts import by_places, by_positions


def written_out(algorithm: Algorithm) -> Algorithm:
    """The algorithm with sums that are read at places of values inside of what reads them."""
    done = by_positions(algorithm)
    for name in algorithm.computations:
        for _ in range(8):  # a read may be in what a read is replaced by
            c = done.computations[name]
            changed = _by_facts(done, _with_sum_of_keys(done, _with_one_sum(done, by_places(done, c))))
            if changed is c:
                break
            done = done.with_computations({**done.computations, name: changed})
    return done


def _with_one_sum(algorithm: Algorithm, c: Computation) -> Computation:
    """The computation with one sum written out; itself, if it reads none at a place of a value."""
    factors = _factors(c.expr)
    for number, factor in enumerate(factors):
        inner = algorithm.computations.get(factor.source) if isinstance(factor, Access) else None
        if inner is None or not isinstance(factor, Access) or not any(accesses(index) for index in factor.indices):
            continue
        rest = factors[:number] + factors[number + 1 :]
        if not _is_plain(c) or not _is_plain(inner) or inner.guards or inner.op not in (None, sum_):
            continue
        names, whole = _product(c, factor, inner, rest)
        if inner.op is None:
            return replace(c, expr=whole)
        sizes = sizes_of_terms(algorithm, inner)
        if sizes is None:
            continue
        own = {names[name]: size for name, size in sizes.items()}
        return with_terms(replace(c, op=sum_), whole, (*c.over, *own), own)
    return c


def _product(c: Computation, factor: Access, inner: Computation, rest: Sequence[Expr]) -> tuple[dict[str, str], Expr]:
    """The terms of an inner sum times the other factors, and the names of its iterators there."""
    names = {name: _free(name, c) for name in inner.over}
    instance: dict[str, Expr] = dict(zip(inner.iterators, factor.indices, strict=True))
    instance |= {name: Iter(fresh) for name, fresh in names.items()}
    whole = substitute(inner.expr, instance)
    for each in rest:
        whole = Binary("*", whole, each, c.expr.dtype)
    return names, whole


def _with_sum_of_keys(algorithm: Algorithm, c: Computation) -> Computation:
    """The computation with a sum over all combinations of keys written out; itself, if it has none."""
    known = [each for each in algorithm.inputs.values() if each.distinct is not None]
    sizes = sizes_of_terms(algorithm, c) if known and c.op is sum_ and _is_plain(c) else None
    if sizes is None:
        return c
    for of in known:
        assert of.values is not None
        for name in (name for name, size in sizes.items() if of.values is not None and size.same_as(of.values[1])):
            factors = _factors(c.expr)
            for number, factor in enumerate(factors):
                rest = factors[:number] + factors[number + 1 :]
                changed = _of_positions(algorithm, c, (factor, rest), (name, sizes), of)
                if changed is not None:
                    return changed
    return c


def _of_positions(
    algorithm: Algorithm,
    c: Computation,
    factors: tuple[Expr, Sequence[Expr]],
    terms: tuple[str, Mapping[str, Expr]],
    of: Input,
) -> Computation | None:
    """A sum over combinations with a factor written out: as it is, or as one over the positions of the combinations."""
    (factor, rest), (combination, sizes) = factors, terms
    inner = algorithm.computations.get(factor.source) if isinstance(factor, Access) else None
    if not isinstance(factor, Access) or inner is None or inner.op is not sum_ or not _is_plain(inner):
        return None
    axes = [axis for axis, index in enumerate(factor.indices) if _is_iterator(index, combination)]
    own = sizes_of_terms(algorithm, inner)
    if len(axes) != 1 or own is None:
        return None
    names, whole = _product(c, factor, inner, rest)
    kept = dict(sizes) | {names[name]: size for name, size in own.items()}
    bare = replace(c, over=(), points=c.domain)
    if not inner.guards:
        return with_terms(bare, whole, tuple(kept), kept)
    position = _numbered(inner, inner.iterators[axes[0]], of)
    if position is None:
        return None
    del kept[combination]
    at: dict[str, Expr] = {combination: Access(of.name, (Iter(names[position]),), of.dtype, algorithm.owner)}
    guards = tuple(substitute(guard, at) for guard in c.guards)
    return with_terms(replace(bare, guards=guards), substitute(whole, at), tuple(kept), kept)


def _numbered(inner: Computation, row: str, of: Input) -> str | None:
    """The term of a sum that is of the combination `row` alone, ``of[p] == row``; None for other conditions."""
    if len(inner.guards) != 1 or not isinstance(inner.guards[0], Binary) or inner.guards[0].op != "==":
        return None
    for one, other in ((inner.guards[0].left, inner.guards[0].right), (inner.guards[0].right, inner.guards[0].left)):
        number = narrowest(other)
        if not _is_iterator(one, row) or not isinstance(number, Access) or number.source != of.name:
            continue
        at = narrowest(number.indices[0])
        if isinstance(at, Iter) and at.name in inner.over:
            return at.name
    return None


def _is_iterator(e: Expr, name: str) -> bool:
    bare = narrowest(e)
    return isinstance(bare, Iter) and bare.name == name


def _is_plain(c: Computation) -> bool:
    """Whether a value is one sum, or one product, of its own."""
    return not c.group and c.stage is None and c.op in (None, sum_) and c.dtype.is_float


def _by_facts(algorithm: Algorithm, c: Computation) -> Computation:
    """The computation with the keys of a position in place of those of its combination."""

    def known(e: Expr) -> Expr | None:
        if not isinstance(e, Access) or len(e.indices) != 1:
            return None
        index = narrowest(e.indices[0])
        of = algorithm.inputs.get(index.source) if isinstance(index, Access) else None
        column = algorithm.runs_numbered(e.source) or e.source  # of a run it is the number that is the key
        if of is None or of.distinct is None or not isinstance(index, Access) or column not in of.distinct.columns:
            return None
        key: Input | Computation | None = algorithm.inputs[of.distinct.keys[of.distinct.columns.index(column)]]
        if isinstance(key, Input) and key.covers is not None:
            key = known_numbers(algorithm, key.name) if column != e.source else None
        return None if key is None else Access(key.name, (index.indices[0],), key.dtype, e.owner)

    expr, guards = rewrite(c.expr, known), tuple(rewrite(guard, known) for guard in c.guards)
    same = expr is c.expr and all(new is old for new, old in zip(guards, c.guards, strict=True))
    return c if same else replace(c, expr=expr, guards=guards)


def _factors(e: Expr) -> list[Expr]:
    if isinstance(e, Binary) and e.op == "*":
        return [*_factors(e.left), *_factors(e.right)]
    return [e]


def _free(name: str, c: Computation) -> str:
    found, number = name, 2
    while found in c.point_iterators:
        found, number = f"{name}_{number}", number + 1
    return found
