"""Loads and stores in C of the first lanes of a vector, the lanes that a mask makes active."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tiramisu_py.algorithm.expressions import Expr, Iter, constant
from tiramisu_py.algorithm.types import DType, strong, uint8
from tiramisu_py.backends.c.expressions.parentheses import Code, call
from tiramisu_py.backends.c.expressions.scope import NamedArray
from tiramisu_py.ir import Load, Store

if TYPE_CHECKING:
    from tiramisu_py.backends.c.vectors.vectors import Vectors

HEADER = "tm_masks.h"
#: The element in lane 0, and the distance from lane to lane; None if lanes are not evenly spaced.
Spaced = tuple[str, Expr] | None


class FirstLanes:
    """The vector types for which a source loads or stores only the first lanes."""

    def __init__(self) -> None:
        self._used: dict[tuple[str, int], DType] = {}

    def __bool__(self) -> bool:
        return bool(self._used)

    def use(self, dtype: DType, lanes: int) -> None:
        """Record the use of a type."""
        dtype = uint8 if dtype.is_bool else strong(dtype)
        self._used[dtype.name, lanes] = dtype

    def declarations(self) -> Iterator[str]:
        """The lines that define the functions for loads and stores of the first lanes."""
        for (name, lanes), dtype in sorted(self._used.items()):
            size = dtype.bytes * lanes * 8
            known = size if size in (128, 256, 512) else "OTHER"
            yield f"TM_FIRST({dtype.c_name}, {name}x{lanes}, {lanes}, {dtype.bytes * 8}, {known})"


def first_loaded(vectors: Vectors, e: Load, spaced: Spaced) -> Code:
    """A load of the first lanes."""
    name, count = _name(vectors, e.dtype), _count(vectors)
    if spaced is None:
        macro, _, address, index = vectors.gathered(e)
        return call(macro.replace("TM_GATHER", "TM_GATHER_FIRST"), name, address, index, count)
    place, step = spaced
    first = _address(vectors, vectors.scope.arrays[e.buffer], place)
    if constant(step) == 1:
        return call(f"load_first_{name}", first, count)
    return call("TM_STRIDED_FIRST", name, first, vectors.scalars(step), count)


def first_stored(vectors: Vectors, node: Store, value: Code, spaced: Spaced) -> Code:
    """A store of the first lanes."""
    array = vectors.scope.arrays[node.buffer]
    name, count = _name(vectors, array.dtype), _count(vectors)
    if spaced is None:
        return call("TM_SCATTER_FIRST", name, array.name, vectors(array.flat(node.indices)), value, count)
    place, step = spaced
    first = _address(vectors, array, place)
    if constant(step) == 1:
        return call(f"store_first_{name}", first, value, count)
    return call("TM_STORE_STRIDED_FIRST", name, first, vectors.scalars(step), value, count)


def _name(vectors: Vectors, dtype: DType) -> str:
    vectors.types.first.use(dtype, vectors.lanes)
    return vectors.type(dtype)


def _address(vectors: Vectors, array: NamedArray, place: str) -> Code | str:
    """The address of the element in lane 0, which need not exist where no lane is active: of the first strip, whose
    count is a variable or a number, one is. The compiler knows the ends of arrays of constant extents alone: no address
    past those is formed.
    """
    mask = vectors.scope.mask
    assert mask is not None
    begun = isinstance(mask.count, Iter) or constant(mask.count) is not None
    known = all(constant(extent) is not None for extent in array.extents)
    return call("TM_IF_ANY", _count(vectors), place) if known and not begun else f"&{place}"


def _count(vectors: Vectors) -> Code:
    mask = vectors.scope.mask
    assert mask is not None
    return vectors.scalars(mask.count)
