"""Results of the kind of the arguments: tensors for tensors, without copies.

Libraries exchange arrays by DLPack, https://dmlc.github.io/dlpack, and name their function for it as the array API
standard does, https://data-apis.org/array-api: ``from_dlpack``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import ml_dtypes
import numpy as np

from tiramisu_py.toolchain.gpu.device_arrays import DeviceArray
from tiramisu_py.toolchain.gpu.dlpack import capsule_of
from tiramisu_py.toolchain.gpu.foreign import lives_on_gpu

_CPU = 1


class _Host:
    """An array as DLPack gives it to other libraries, of a type that NumPy has not: bfloat16."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __dlpack__(self, **_: object) -> object:
        array = self.array
        return capsule_of(array, array.ctypes.data, array.shape, array.dtype, (_CPU, 0))

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU, 0


def in_kind_of(given: Iterable[object], results: tuple[Any, ...]) -> tuple[Any, ...]:
    """The results as arrays of the library of the arguments: of the first one on the host that is not NumPy's, and of
    the first one on a GPU that is not ours. Results that the caller passed stay as they are.
    """
    given = list(given)
    foreign = [each for each in given if _is_foreign(each)]
    if not foreign:
        return results
    on_gpu = [each for each in foreign if lives_on_gpu(each)]
    on_host = [each for each in foreign if not any(each is other for other in on_gpu)]
    made = []
    for result in results:
        passed = any(result is each for each in given)
        of = on_gpu if isinstance(result, DeviceArray) else on_host
        made.append(result if passed or not of else _converted(of[0], result))
    return tuple(made)


def _is_foreign(given: object) -> bool:
    return hasattr(given, "__dlpack__") and not isinstance(given, np.ndarray | np.generic | DeviceArray)


def _converted(like: object, result: Any) -> Any:
    """The result as an array of the library of another; itself if that library has no `from_dlpack`."""
    make = getattr(_library(like), "from_dlpack", None)
    if make is None:
        return result
    return make(_Host(result) if result.dtype == ml_dtypes.bfloat16 else result)


def _library(like: Any) -> Any:
    """The module whose functions make arrays of this kind."""
    if hasattr(like, "__array_namespace__"):
        return like.__array_namespace__()
    return sys.modules.get(type(like).__module__.partition(".")[0])
