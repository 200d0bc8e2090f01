"""Arrays that nobody can change: facts about their values are verified once, not at each call.

NumPy lets the owner of an array make it writeable again, so that a read-only array may have been changed between two
calls. One over a `bytes` object cannot be made writeable by anyone.
"""

from __future__ import annotations

from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from tiramisu_py.algorithm.declare.distinct import Distinct, distinct_of
from tiramisu_py.algorithm.declare.inverses import Inverse, inverse_of
from tiramisu_py.public_calls import own_call
from tiramisu_py.toolchain.calls.numpy_arrays import Array

Key = tuple[object, ...]


@own_call
def frozen(array: npt.ArrayLike) -> Array:
    """A copy of an array that nobody can change, as an argument of kernels.

    ::

        column = tm.frozen(matrix.indices)
        for step in range(1000):
            x = spmv(start, column, value, x)      verifies the facts about column once

    Declared facts about an input (``values=``, ``monotone=``, ``permutation=``, ``distinct=``) are verified when a
    kernel is first called with the copy, and not again as long as it lives. It is in row-major order.
    """
    given = np.asarray(array)
    return np.frombuffer(given.tobytes(), given.dtype).reshape(given.shape) if given.size else given.copy()


@own_call
def inverse(index: npt.ArrayLike, count: int) -> Inverse:
    """The inverse of an index with values from 0 to `count`, as an argument of kernels: `Function.inverse`.

    ::

        into = tm.inverse(dst, nodes)           into.order[into.start[n] : into.start[n + 1]]: where dst is n

    Positions with one value are in their order. It takes a sort by counting, which is stable. Nobody can change the
    arrays, so that they are verified once. Raises `ArgumentError`.
    """
    return Inverse(*map(frozen, inverse_of(index, count)))


@own_call
def distinct(*keys: npt.ArrayLike) -> Distinct:
    """The distinct combinations of keys, as an argument of kernels: `Computation.compact`.

    ::

        pairs = tm.distinct(src, etype)         src[p] is pairs.columns[0][pairs.of[p]], and etype[p] that of the other

    They are in the order of the last key; ``len(pairs)`` is their number. Nobody can change the arrays, so that they
    are verified once. Raises `ArgumentError`.
    """
    of, columns = distinct_of(keys)
    return Distinct(frozen(of), tuple(map(frozen, columns)))


def is_frozen(array: Array) -> bool:
    """Whether the memory of an array cannot be changed by anyone."""
    memory: object = array
    while type(memory) is np.ndarray:
        if memory.flags.writeable:
            return False
        memory = memory.base
    return type(memory) is bytes


class VerifiedArrays:
    """The frozen arrays whose facts have been verified, each for an input and sizes, while they are alive."""

    def __init__(self) -> None:
        self._arrays: WeakValueDictionary[Key, Array] = WeakValueDictionary()

    def __contains__(self, key: Key) -> bool:
        return key in self._arrays

    def add(self, key: Key, array: Array) -> None:
        """Keep that the facts hold."""
        self._arrays[key] = array

    @staticmethod
    def key(name: str, array: Array, params: tuple[tuple[str, int], ...]) -> Key | None:
        """A key of what facts about an input depend on; None for an array that may change."""
        if not is_frozen(array):
            return None
        layout = (array.ctypes.data, array.dtype, array.shape, array.strides)
        return (name, id(array), layout, params)
