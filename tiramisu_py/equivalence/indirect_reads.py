"""Reads at places that values choose, written out: so that what is computed for each key is found in what reads it.

::

    v[r, k] = sum over j: W[r, k, j] * w[r, j]
    y[p]    = sum over k: x[p, k] * v[type[p], k]

    -->   y[p] = sum over k, j: x[p, k] * W[type[p], k, j] * w[type[p], j]

Distinct keys are declared facts: ``pairs_src[pairs[p]]`` is ``src[p]``. A value that is no sum of products with what is
read stays as it is, and so does a sum over other terms for each value.
"""

from __future__ import annotations

from dataclasses import replace

from tiramisu_py.algorithm.declarations import Algorithm, Computation, sum_
from tiramisu_py.algorithm.domains.domain import with_size
from tiramisu_py.algorithm.domains.reads import narrowest
from tiramisu_py.algorithm.domains.terms_of_sums import sizes_of_terms, with_terms
from tiramisu_py.algorithm.expressions import Access, Binary, Expr, Iter, Param
from tiramisu_py.algorithm.traversal import accesses, rewrite, substitute


def with_keys_of(one: Algorithm, other: Algorithm) -> Algorithm:
    """An algorithm with the distinct keys that only the other one takes: facts about inputs that both have."""
    for of in other.inputs.values():
        about = of.distinct
        if about is None or of.name in one.inputs or any(key not in one.inputs for key in about.keys):
            continue
        sizes = [size.name for size in (of.values or ()) if isinstance(size, Param) and size.name not in one.params]
        for name in sizes:
            one = with_size(one, name)
        for name in (*about.columns, of.name):
            one = one.with_input(other.inputs[name])
    return one


def written_out(algorithm: Algorithm) -> Algorithm:
    """The algorithm with sums that are read at places of values inside of what reads them."""
    done = algorithm
    for name in algorithm.computations:
        for _ in range(8):  # a read may be in what a read is replaced by
            c = done.computations[name]
            changed = _by_facts(done, _with_one_sum(done, c))
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
        names = {name: _free(name, c) for name in inner.over}
        instance: dict[str, Expr] = dict(zip(inner.iterators, factor.indices, strict=True))
        instance |= {name: Iter(fresh) for name, fresh in names.items()}
        whole = substitute(inner.expr, instance)
        for each in rest:
            whole = Binary("*", whole, each, c.expr.dtype)
        if inner.op is None:
            return replace(c, expr=whole)
        sizes = sizes_of_terms(algorithm, inner)
        if sizes is None:
            continue
        own = {names[name]: size for name, size in sizes.items()}
        return with_terms(replace(c, op=sum_), whole, (*c.over, *own), own)
    return c


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
        if of is None or of.distinct is None or not isinstance(index, Access) or e.source not in of.distinct.columns:
            return None
        key = of.distinct.keys[of.distinct.columns.index(e.source)]
        if algorithm.inputs[key].covers is not None:
            return None
        return Access(key, (index.indices[0],), e.dtype, e.owner)

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
