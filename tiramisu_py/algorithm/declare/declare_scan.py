"""Scans: all prefixes of terms along one iterator, as a recurrence, or in chunks that are independent of each other.

::

    y[s] = op(y[s - 1], term[s])      -->      sums[b]    = op of the terms of chunk b
                                               carries[b] = op(carries[b - 1], sums[b - 1])
                                               y[s]       = op(carries[s // n], term[s])   where s % n == 0
                                               y[s]       = op(y[s - 1], term[s])          elsewhere

These are computations like any others: nothing else in the compiler knows of scans. Each chunk reads its terms twice,
and no chunk waits for another one of its pass. Source: Blelloch, *Prefix sums and their applications*, 1990.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tiramisu_py.algorithm.declarations import Algorithm, Computation, Location
from tiramisu_py.algorithm.declare.declare import combined_term, declare_computation, declare_reduction
from tiramisu_py.algorithm.expressions import Access, Const, Expr, Iter, as_expr, as_typed, select
from tiramisu_py.algorithm.operators import Operator, min_
from tiramisu_py.algorithm.traversal import substitute
from tiramisu_py.errors import DeclarationError
from tiramisu_py.records import dataclass


def declare_scan(
    algorithm: Algorithm,
    name: str,
    domain: Any,
    term: Any,
    op: Any,
    *,
    exclusive: bool = False,
    chunks: Any = None,
    dtype: Any = None,
    shape: Any = None,
    owner: object = None,
    location: Location | None = None,
) -> list[Computation]:
    """The computations of a scan, in an order in which each reads earlier ones; raises `DeclarationError`."""
    *_, (along, bounds) = _iterators(name, domain)
    low, high = bounds if isinstance(bounds, tuple) and len(bounds) == 2 else (0, bounds)
    found = combined_term(name, op, term, along.name, dtype)
    scan = _Scan(name, domain, along, as_expr(low), as_expr(high), found, op, exclusive, owner)
    sizes = _sizes(name, chunks or {}, domain)
    made: list[Computation] = []
    if sizes:
        made = _carries(algorithm, scan, sizes, location)
        algorithm = algorithm.with_computation(*made)
    size = sizes[0][1] if sizes else None
    value = declare_computation(
        algorithm, name, domain, scan.recurrence(size), dtype=found.dtype, shape=shape, owner=owner, location=location
    )
    return [*made, value]


@dataclass(frozen=True, eq=False)
class _Scan:
    """A scan of a typed `term` along one iterator, from `low` to before `high`."""

    name: str
    domain: Mapping[Iter, Any]
    along: Iter
    low: Expr
    high: Expr
    term: Expr
    op: Operator
    exclusive: bool
    owner: object

    @property
    def outer(self) -> list[Iter]:
        """The iterators that number the scans."""
        return [each for each in self.domain if each.name != self.along.name]

    def combined(self, before: Expr, term: Expr) -> Expr:
        """The terms before, combined with one more."""
        return as_typed(self.op.combine(before, term), self.term.dtype)

    def recurrence(self, size: int | None) -> Callable[[Any], Expr]:
        """The values, given by those before them; those at which a chunk begins, by what comes before the chunk."""
        term, along = self.term, self.along
        last = substitute(term, {along.name: along - 1}) if self.exclusive else term

        def value(own: Any) -> Expr:
            step = self.combined(own[(*self.outer, along - 1)], last)
            if size is None:
                return select(along == self.low, self._first(), step)
            carry = self._carry(along // size)
            if not self.exclusive:
                carry = select(along == 0, term, self.combined(carry, term))
            return select(along % size == 0, carry, step)

        return value

    def _first(self) -> Expr:
        return self.op.identity(self.term.dtype) if self.exclusive else self.term

    def _carry(self, chunk: Expr) -> Expr:
        return Access(f"{self.name}_carries", (*self.outer, chunk), self.term.dtype, self.owner)


def _carries(
    algorithm: Algorithm, scan: _Scan, sizes: Sequence[tuple[Iter, int]], location: Location | None
) -> list[Computation]:
    """The results of chunks, and their exclusive scan: what comes before each chunk."""
    (chunk, size), *rest = sizes
    if not isinstance(scan.low, Const) or scan.low.value != 0:
        raise DeclarationError(
            f"chunks= of {scan.name} count from 0, and {scan.along} begins at {scan.low}: give the extent "
            f"{scan.high - scan.low}, and write {scan.along + scan.low} in the terms"
        )
    outer = {each: extent for each, extent in scan.domain.items() if each.name != scan.along.name}
    numbered = {**outer, chunk: (scan.high + (size - 1)) // size}
    inside = {scan.along: (size * chunk, min_(size * chunk + size, scan.high))}
    sums = declare_reduction(
        algorithm, f"{scan.name}_sums", numbered, inside, scan.op, scan.term, dtype=scan.term.dtype, owner=scan.owner,
        location=location,
    )  # fmt: skip
    read = Access(sums.name, (*outer, chunk), scan.term.dtype, scan.owner)
    before = declare_scan(
        algorithm.with_computation(sums), f"{scan.name}_carries", numbered, read, scan.op, exclusive=True,
        chunks=dict(rest), dtype=scan.term.dtype, owner=scan.owner, location=location,
    )  # fmt: skip
    return [sums, *before]


def _iterators(name: str, domain: Any) -> list[tuple[Iter, Any]]:
    """The iterators of a scan with their bounds; raises `DeclarationError`."""
    if not isinstance(domain, Mapping) or not domain or not all(isinstance(each, Iter) for each in domain):
        raise DeclarationError(
            f"{name} is a scan along the last iterator of its domain: give a dict of iterators and extents, such as "
            "{i: N, s: S}"
        )
    return [*domain.items()]


def _sizes(name: str, chunks: Any, domain: Mapping[Iter, Any]) -> list[tuple[Iter, int]]:
    """The iterators over chunks, innermost chunks first, with their sizes; raises `DeclarationError`."""
    if not isinstance(chunks, Mapping) or not all(isinstance(each, Iter) for each in chunks):
        raise DeclarationError(f"chunks={chunks!r} of {name}: give an iterator over chunks and their size, {{b: 1024}}")
    taken = [each.name for each in domain]
    for each, size in chunks.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise DeclarationError(f"chunks of {name} over {each} have {size} terms: give a constant of at least 1")
        if each.name in taken:
            raise DeclarationError(f"{each} of chunks= of {name} is an iterator of its domain: give another one")
    return [*chunks.items()]
