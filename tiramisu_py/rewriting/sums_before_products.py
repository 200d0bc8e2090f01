"""A sum before its product: rows that are multiplied with one matrix are summed first, and the sum is multiplied once.

::

    msg[p, j] = sum over k: x[src[p], k] * W[type[p], k, j]
    out[n, j] = sum over p with dst[p] == n: norm[p] * msg[p, j]

    -->   msg_rows[u, k] = sum over p with pairs_of[p] == u: norm[p] * x[src[p], k]     u: the pairs of dst and type
          msg_sums[u, j] = sum over k: msg_rows[u, k] * W[pairs_type[u], k, j]
          out[n, j]      = sum over u with pairs_dst[u] == n: msg_sums[u, j]

Each position has one combination of keys, ``pairs_of[p]``, whose keys are those of the position. Equal as real numbers:
`tm.equivalent` proves it. Source: Wu, Code generation and runtime techniques for enabling data-efficient deep learning
training on GPUs, 3.4.1; relational graph convolution.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm, Computation, DistinctOf, Input
from tiramisu_py.algorithm.declare.declare import declare_reduction
from tiramisu_py.algorithm.domains.affine import Affine
from tiramisu_py.algorithm.domains.extents import extents_of
from tiramisu_py.algorithm.domains.reads import narrowest
from tiramisu_py.algorithm.domains.terms_of_sums import with_terms
from tiramisu_py.algorithm.expressions import Access, Const, Expr, Iter, binary
from tiramisu_py.algorithm.operators import sum_
from tiramisu_py.algorithm.spellings import counted, fresh_name
from tiramisu_py.algorithm.traversal import accesses, mentions, rewrite, substitute
from tiramisu_py.errors import CommandError
from tiramisu_py.records import dataclass
from tiramisu_py.rewriting.compaction import keys_of
from tiramisu_py.rewriting.reassociation import check_may_round, factors_of, fresh_terms, product_of
from tiramisu_py.rewriting.sketches import FreshNames


@dataclass(frozen=True, eq=False)
class SummedFirst:
    """An algorithm after the rewrite: the names of what was added, and whether nothing reads the product any more."""

    algorithm: Algorithm
    rows: str
    sums: str
    unread: bool


def summed_first(
    algorithm: Algorithm, outer: Computation, inner: Computation, given: Sequence[Expr], of: Input
) -> SummedFirst:
    """The algorithm in which `outer`, a sum of products `inner` over positions, sums rows of each combination of keys.

    `of` is the input with the number of each position's combination. Raises `CommandError`, naming what is no sum of
    products, and what depends on the position beside its keys.
    """
    assert of.distinct is not None and of.values is not None
    keys = keys_of(algorithm, outer, given, of_terms=True)
    if keys.sources != of.distinct.keys:
        raise CommandError(
            f"{of.distinct.name} are distinct {', '.join(of.distinct.keys)}, not {', '.join(keys.sources)}"
        )
    for c in (outer, inner):
        check_may_round(c, "sum_first")
    _check_plain(outer, inner, keys.position)
    read, rest = _factors_of_outer(outer, inner)
    terms = fresh_terms(outer, inner)
    instance: dict[str, Expr] = dict(zip(inner.iterators, read.indices, strict=True))
    instance |= {name: Iter(fresh) for name, fresh in terms.items()}
    at_key = _by_combination(algorithm, of.distinct, keys.position)
    rows, weights = list(rest), list[Expr]()
    for factor in (substitute(each, instance) for each in factors_of(inner.expr)):
        (rows if _depends(factor, at_key, keys.position) else weights).append(factor)
    if not weights or len(rows) == len(rest):
        what = "no factor of its own keys, such as W[type[p], k, j]" if not weights else "no row of its position"
        raise CommandError(f"{inner.name} multiplies {what}: {inner.expr}; a sum before its product needs both")
    made = _Sums(algorithm, outer, inner, of, terms, at_key)
    return made.applied(keys.position, rows, weights)


def _factors_of_outer(outer: Computation, inner: Computation) -> tuple[Access, list[Expr]]:
    """The read of the product, and what else each term is multiplied with."""
    factors = factors_of(outer.expr)
    found = [each for each in factors if isinstance(each, Access) and each.source == inner.name]
    others = [each for each in factors if not any(each is one for one in found)]
    if len(found) != 1 or any(a.source == inner.name for each in others for a in accesses(each)):
        inside = any(a.source == inner.name for a in accesses(outer.expr))
        what = f"{inner.name} is in {outer.expr}" if inside else f"{outer.name} does not read {inner.name}"
        raise CommandError(f"{what}: sum_first is for a sum of {inner.name}[..], or of that times factors")
    return found[0], others


def _check_plain(outer: Computation, inner: Computation, position: str) -> None:
    """Refuse sums that are not over all positions, and products under conditions."""
    if outer.over != (position,) or not inner.over:
        raise CommandError(
            f"{outer.name} is to be a sum over {position} alone, and {inner.name} a product with terms of its own"
        )
    if inner.guards:
        raise CommandError(f"{inner.name} has values where {inner.guards[0]}: declare it over all positions, {{p: E}}")


def _by_combination(algorithm: Algorithm, about: DistinctOf, position: str) -> Callable[[Expr], Expr | None]:
    """A key of the position as that of the combination, which has the position's name here."""
    columns = dict(zip(about.keys, about.columns, strict=True))

    def at_key(e: Expr) -> Expr | None:
        if not isinstance(e, Access) or e.source not in columns or len(e.indices) != 1:
            return None
        index = narrowest(e.indices[0])
        is_key = isinstance(index, Iter) and index.name == position
        return Access(columns[e.source], (Iter(position),), e.dtype, algorithm.owner) if is_key else None

    return at_key


def _depends(e: Expr, at_key: Callable[[Expr], Expr | None], position: str) -> bool:
    """Whether an expression depends on the position, but by its keys."""
    bare = rewrite(e, lambda node: Const(0, node.dtype) if at_key(node) is not None else None)
    return mentions(bare, [position])


@dataclass(frozen=True, eq=False)
class _Sums:
    """A sum over positions of products, and the keys by which rows are summed first."""

    algorithm: Algorithm
    outer: Computation
    inner: Computation
    of: Input
    terms: Mapping[str, str]
    at_key: Callable[[Expr], Expr | None]

    def applied(self, position: str, rows: Sequence[Expr], weights: Sequence[Expr]) -> SummedFirst:
        algorithm, outer, inner = self.algorithm, self.outer, self.inner
        sizes, names = self._sizes(), FreshNames(algorithm)
        assert self.of.values is not None
        combinations, u = self.of.values[1], Iter(position)
        summed, places = list(self.terms.values()), self._places()
        row = product_of(rows, outer.dtype)
        axes = [name for name in outer.iterators if name not in places and mentions(row, [name])]
        combination = Iter(fresh_name("u", {*outer.point_iterators, *summed, *algorithm.params}, counted))
        every = {Iter(name): sizes[name] for name in (*axes, *summed)}
        number = Access(self.of.name, (u,), self.of.dtype, algorithm.owner)
        first = declare_reduction(
            algorithm, names.fresh(f"{inner.name}_rows"), {combination: combinations, **every},
            {u: sizes[position]}, sum_, row, where=combination == number,
            owner=algorithm.owner, location=outer.location,
        )  # fmt: skip
        summed_rows = Access(first.name, (u, *every), first.dtype, algorithm.owner)
        own = [name for name in outer.iterators if name not in places]
        weight = rewrite(product_of(weights, outer.dtype), self.at_key)
        for name in places:
            if mentions(weight, [name]) or mentions(row, [name]):
                raise CommandError(f"{outer.expr} depends on the place {name} that {outer.name} gives its terms")
        second = declare_reduction(
            algorithm.with_computation(first), names.fresh(f"{inner.name}_sums"),
            {u: combinations, **{Iter(name): sizes[name] for name in own}},
            {Iter(name): sizes[name] for name in summed},
            sum_, binary("*", summed_rows, weight), owner=algorithm.owner, location=inner.location,
        )  # fmt: skip
        value = Access(second.name, (u, *map(Iter, own)), second.dtype, algorithm.owner)
        whole = with_terms(replace(outer, over=(), points=outer.domain), value, (position,), {position: combinations})
        changed = replace(whole, guards=tuple(self._guard(guard, position) for guard in outer.guards))

        def change(c: Computation) -> Computation:
            return changed if c.name == outer.name else c

        made = algorithm.with_rewritten(change, (first, second))
        made = replace(made, reassociated={**algorithm.reassociated, outer.name: second.name})
        readers = {a.source for c in made.computations.values() for e in (c.expr, *c.guards) for a in accesses(e)}
        return SummedFirst(made, first.name, second.name, inner.name not in {*readers, *algorithm.outputs})

    def _places(self) -> list[str]:
        """The iterators of the sum's values that its conditions mention: where its terms go."""
        return [name for name in self.outer.iterators if any(mentions(g, [name]) for g in self.outer.guards)]

    def _guard(self, guard: Expr, position: str) -> Expr:
        if _depends(guard, self.at_key, position):
            raise CommandError(
                f"{self.outer.name} takes a term where {guard}, which is none of the keys "
                f"{', '.join(self.of.distinct.keys if self.of.distinct else ())}: add it to them"
            )
        return rewrite(guard, self.at_key)

    def _sizes(self) -> dict[str, Expr]:
        """The extents of all iterators; raises `CommandError` where a sum has other terms for each value."""
        found: dict[str, Expr] = {}
        for c, named in ((self.outer, {}), (self.inner, self.terms)):
            space, every = c.points.get_space(), extents_of(c.points, self.algorithm.context)
            reader = Affine(space, dict(zip(c.point_iterators, sets.variables(space), strict=True)))
            box = sets.universe(space).intersect_params(self.algorithm.context)
            for name, size in zip(c.point_iterators, every, strict=True):
                box = box.intersect(reader.condition((Iter(name) >= 0) & (Iter(name) < size)))
            if not box.is_equal(c.points.intersect_params(self.algorithm.context)):
                raise CommandError(f"{c.name} does not sum over the same terms for each value: their order is kept")
            for name, size in zip(c.point_iterators, every, strict=True):
                if c is self.outer or name in named:
                    found[named.get(name, name)] = size
        return found
