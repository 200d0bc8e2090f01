"""Sums of four products of bytes: ``sum + a[4*g]*b[g, j, 0] + ... + a[4*g + 3]*b[g, j, 3]`` in int32, for lanes j.

The four bytes of `a` are the same in all lanes, and those of `b` lie together, lane after lane: processors multiply and
add them in one instruction (vpdpbusd, sdot, udot), or in a few that multiply pairs of int16. No product and no sum of
two leaves int32, so any order of the terms gives the same bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiramisu_py.algorithm.expressions import Binary, Cast, Expr
from tiramisu_py.algorithm.types import DType, int8, int32, uint8
from tiramisu_py.backends.c.expressions.parentheses import Code, call
from tiramisu_py.backends.c.vectors.dots import spaced_bytes, terms_of
from tiramisu_py.ir import Load
from tiramisu_py.ir.arithmetic.linear import difference
from tiramisu_py.records import dataclass

if TYPE_CHECKING:
    from tiramisu_py.backends.c.vectors.vectors import Vectors

#: The products of a group, and the lanes of the sum.
GROUP, LANES = 4, (4, 8, 16)


@dataclass(frozen=True, eq=False)
class _Product:
    """A term: a byte that all lanes share, times one that is `GROUP` bytes further from lane to lane."""

    term: int
    shared: Load
    spread: Load

    def place(self, vectors: Vectors) -> tuple[Expr, Expr]:
        """The index of the shared byte, and that of the other one in the first lane."""
        spaced = spaced_bytes(vectors, self.spread)
        assert spaced is not None
        return vectors.scope.arrays[self.shared.buffer].flat(self.shared.indices), spaced[2]


def fourfold(vectors: Vectors, e: Binary) -> Code | None:
    """A sum with four products of neighbours; None if `e` is no such sum."""
    if e.op != "+" or e.dtype != int32 or vectors.lanes not in LANES or vectors.scope.mask is not None:
        return None
    terms = terms_of(e)
    products = [found for k, term in enumerate(terms) if (found := _product(vectors, k, term)) is not None]
    for first in products if len(products) >= GROUP else ():
        group = _group(vectors, first, products)
        if group is None:
            continue
        taken = {product.term for product in group}
        rest = [term for k, term in enumerate(terms) if k not in taken]
        function = vectors.types.idioms.quads(first.shared.dtype, first.spread.dtype, vectors.lanes)
        spaced = spaced_bytes(vectors, first.spread)
        assert spaced is not None
        shared = vectors.scalars.element(first.shared.buffer, first.shared.indices)
        return call(function, _sum(vectors, rest), f"&{shared}", f"&{spaced[0]}")
    return None


def _product(vectors: Vectors, number: int, term: Expr) -> _Product | None:
    """The product that a term is, if it is one of bytes as their own values."""
    if not (isinstance(term, Binary) and term.op == "*" and term.left.dtype == term.right.dtype == int32):
        return None
    left, right = _byte(term.left), _byte(term.right)
    if left is None or right is None:
        return None
    for shared, spread in ((left, right), (right, left)):
        lanes = vectors.scope.lanes
        if lanes.of(shared) != 1 or lanes.of(spread) == 1 or vectors.scope.arrays[shared.buffer].lanes > 1:
            continue
        spaced = spaced_bytes(vectors, spread)
        if spaced is not None and spaced[1] == GROUP:
            return _Product(number, shared, spread)
    return None


def _byte(e: Expr) -> Load | None:
    if isinstance(e, Cast) and isinstance(e.operand, Load) and e.operand.dtype in (int8, uint8):
        return e.operand
    return None


def _group(vectors: Vectors, first: _Product, products: list[_Product]) -> list[_Product] | None:
    """The products of the first bytes, the second ones, and so on; None if one is missing."""
    start, kinds = first.place(vectors), _arrays(first)
    found: dict[int, _Product] = {}
    for product in products:
        if _arrays(product) == kinds:
            offsets = {difference(own, other) for own, other in zip(product.place(vectors), start, strict=True)}
            offset = offsets.pop() if len(offsets) == 1 else None
            if offset is not None:
                found.setdefault(offset, product)
    group = [found[k] for k in range(GROUP) if k in found]
    return group if len(group) == GROUP else None


def _arrays(product: _Product) -> tuple[str, DType, str, DType]:
    return product.shared.buffer, product.shared.dtype, product.spread.buffer, product.spread.dtype


def _sum(vectors: Vectors, terms: list[Expr]) -> Code:
    """The vector of the other terms' sum."""
    if not terms:
        return Code(f"({vectors.type(int32)}){{0}}")
    total: Expr = terms[0]
    for term in terms[1:]:
        total = Binary("+", total, term, int32)
    return vectors(total)
