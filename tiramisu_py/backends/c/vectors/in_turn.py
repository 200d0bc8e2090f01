"""Strided stores that fill each other's gaps, printed as one store of whole vectors.

``a[2*x], a[2*x + 2], ... = even`` and ``a[2*x + 1], a[2*x + 3], ... = odd`` become one store of the lanes of both in
turn. The stores stand in one run of stores to the buffer, with other elements between them, and read nothing of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import cgen

from tiramisu_py.algorithm.expressions import Cast, Expr
from tiramisu_py.algorithm.types import DType, int32, strong, uint16, uint32
from tiramisu_py.backends.c.expressions.parentheses import Code, call, cast, infix
from tiramisu_py.backends.c.expressions.scalars import operand
from tiramisu_py.backends.c.expressions.scope import Scope
from tiramisu_py.backends.c.vectors.vector_types import VectorTypes
from tiramisu_py.backends.c.vectors.vectors import Vectors
from tiramisu_py.ir import Comment, Node, Store
from tiramisu_py.ir.arithmetic.intervals import saturated
from tiramisu_py.ir.arithmetic.linear import along_lanes, difference
from tiramisu_py.ir.rewriting import buffers_in
from tiramisu_py.records import dataclass

#: The most bytes of a vector of both stores.
MOST_BYTES = 64
STEP = 2


@dataclass(frozen=True, eq=False)
class Strided:
    """A store of every second element of a row: its row, the first element, and the number of lanes."""

    store: Store
    row: tuple[object, ...]
    first: Expr
    lanes: int

    def before(self, other: Strided) -> int | None:
        """How many elements the other store's first one is behind; None if that is not known, or in another row."""
        return difference(other.first, self.first) if self.row == other.row else None

    def meets(self, other: Strided) -> bool:
        """Whether both may store to one element."""
        behind = self.before(other)
        if behind is None:
            return True
        return behind % STEP == 0 and -STEP * other.lanes < behind < STEP * self.lanes


@dataclass(frozen=True, eq=False)
class Pair:
    """Two stores whose elements alternate: `even` has the first one."""

    even: Strided
    odd: Strided

    def statement(self, scope: Scope, types: VectorTypes) -> cgen.Generable:
        """One store of the lanes of both."""
        vectors = Vectors(scope, types, self.even.lanes)
        array = scope.arrays[self.even.store.buffer]
        values = [operand(each.store.value, array.dtype) for each in (self.even, self.odd)]
        spaced = vectors.spaced(self.even.store.buffer, self.even.store.indices)
        assert spaced is not None
        both = _of_wide(vectors, values, array.dtype)
        if both is None:
            both = call(types.in_turn(array.dtype, self.even.lanes), *map(vectors, values))
        return cgen.Statement(
            call("TM_STORE", types.name(array.dtype, 2 * self.even.lanes), f"&{spaced[0]}", both).text
        )


def _of_wide(vectors: Vectors, values: Sequence[Expr], dtype: DType) -> Code | None:
    """The lanes of two in turn, where both are made narrower for it: put together first, and made narrower once."""
    wides = [value.operand for value in values if isinstance(value, Cast) and saturated(value.operand, dtype) is None]
    kinds = {strong(wide.dtype) for wide in wides}
    if len(wides) < len(values) or not dtype.is_integer or dtype.bits > 16 or not kinds < {int32, uint32}:
        return None
    even, odd = map(vectors, wides)
    bits, (kind,) = dtype.bits, kinds
    both = infix("|", infix("&", even, Code(str(2**bits - 1))), infix("<<", odd, Code(str(bits))))
    if bits == 8:
        both = call(vectors.types.idioms.conversion(kind, uint16, vectors.lanes), both)
    return cast(vectors.types.name(dtype, 2 * vectors.lanes), both)


def paired(body: Sequence[Node], scope: Scope) -> list[list[Node] | Pair]:
    """The statements of a block in groups that are printed one after another: as they are, or a pair as one store."""
    groups: list[list[Node] | Pair] = []
    for each in _with_pairs(body, scope):
        if isinstance(each, Pair):
            groups.append(each)
        elif groups and isinstance(groups[-1], list):
            groups[-1].append(each)
        else:
            groups.append([each])
    return groups


def _with_pairs(body: Sequence[Node], scope: Scope) -> Iterator[Node | Pair]:
    for run in _runs(body):
        stores = {at: _strided(node, scope) for at, node in enumerate(run) if isinstance(node, Store)}
        known = {at: store for at, store in stores.items() if store is not None}
        pairs, moved = _pairs(known) if len(known) == len(stores) > 1 else ({}, set())
        for at, node in enumerate(run):
            if at not in moved:
                yield pairs.get(at, node)


def _runs(body: Sequence[Node]) -> Iterator[list[Node]]:
    """Stores to one buffer that follow one another, with comments between them; other statements alone."""
    run: list[Node] = []
    buffer = None
    for node in body:
        own = node.buffer if isinstance(node, Store) else None
        if (own is None and not (isinstance(node, Comment) and buffer)) or own not in (None, buffer):
            yield run
            run, buffer = [], own
        run.append(node)
    yield run


def _pairs(stores: dict[int, Strided]) -> tuple[dict[int, Pair], set[int]]:
    """The pairs by the place of the later store, to which the other one moves if none between them meets it."""
    pairs: dict[int, Pair] = {}
    moved: set[int] = set()
    for i, j in itertools.combinations(stores, 2):
        if moved.isdisjoint((i, j)) and pairs.keys().isdisjoint((i, j)):
            pair = _pair(stores[i], stores[j])
            if pair is not None and not any(stores[i].meets(stores[k]) for k in stores if i < k < j):
                pairs[j] = pair
                moved.add(i)
    return pairs, moved


def _pair(one: Strided, other: Strided) -> Pair | None:
    behind = one.before(other)
    if one.lanes != other.lanes or behind not in (1, -1):
        return None
    return Pair(one, other) if behind == 1 else Pair(other, one)


def _strided(node: Store, scope: Scope) -> Strided | None:
    """A store of every second element of a row that may change places with others; None for any other store."""
    array = scope.arrays.get(node.buffer)
    if array is None:
        return None  # it begins beside the store, outside of vectors
    if node.update is not None or node.atomic or node.nontemporal or scope.mask is not None:
        return None
    if array.lanes > 1 or array.strides is not None or array.dtype.bytes > 4 or array.dtype.is_bool:
        return None
    if node.buffer in scope.atomic or node.buffer in buffers_in(node.value):
        return None
    lines = [along_lanes(index) for index in node.indices]
    known = [line for line in lines if line is not None]
    lanes = max((scope.lanes.of(index) for index in node.indices), default=1)
    if len(known) < len(lines) or [step for _, step in known] != [0] * (len(known) - 1) + [STEP] or lanes < 2:
        return None
    if any(scope.lanes.of(base) > 1 for base, _ in known) or 2 * lanes * array.dtype.bytes > MOST_BYTES:
        return None
    return Strided(node, tuple(base.key() for base, _ in known[:-1]), known[-1][0], lanes)
