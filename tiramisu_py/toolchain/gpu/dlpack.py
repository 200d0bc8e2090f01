"""Export of GPU arrays to other libraries: DLPack capsules, https://dmlc.github.io/dlpack/latest/c_api.html."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

#: Kinds of memory in DLPack: CUDA's, memory of extensions (here: the simulator's), and CUDA's managed memory.
CUDA, EXTENSION, CUDA_MANAGED = 2, 12, 13
CAPSULE = b"dltensor"

#: DLPack's type codes, by NumPy's kind and dtype.
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
_BFLOAT = 4


class Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_kind", ctypes.c_int32),
        ("device_number", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class ManagedTensor(ctypes.Structure):
    """DLManagedTensor: a tensor, and the deleter to call when it is no longer used."""

    _fields_ = (("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _Lent:
    """The objects behind a capsule, alive until its consumer calls the deleter."""

    def __init__(self, owner: object, address: int, shape: tuple[int, ...], code: int, bits: int) -> None:
        self.owner = owner
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        tensor = Tensor(address, 0, 0, len(shape), code, bits, 1, self.shape, None, 0)
        self.managed = ManagedTensor(tensor, id(self), ctypes.cast(_DELETER, ctypes.c_void_p))


def _done_with(managed: Any) -> None:
    """The deleter: drops the consumer's reference."""
    _count("Py_DecRef")(ctypes.cast(managed.contents.context, ctypes.py_object))


def _unused(capsule: int) -> None:
    """The destructor of a capsule that was not consumed: a consumed capsule is renamed."""
    if _asked("PyCapsule_IsValid", ctypes.c_int)(capsule, CAPSULE):
        place = _asked("PyCapsule_GetPointer", ctypes.c_void_p)(capsule, CAPSULE)
        _done_with(ctypes.cast(place, ctypes.POINTER(ManagedTensor)))


#: Both as C function pointers: any thread may call the deleter, the interpreter calls a capsule's destructor.
_DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(ManagedTensor))(_done_with)
_DESTRUCTOR = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_unused)


def _count(name: str) -> Any:
    function = ctypes.PYFUNCTYPE(None, ctypes.py_object)
    return function((name, ctypes.pythonapi))


def _asked(name: str, result: Any) -> Any:
    return ctypes.PYFUNCTYPE(result, ctypes.c_void_p, ctypes.c_char_p)((name, ctypes.pythonapi))


def capsule_of(
    owner: object, address: int, shape: tuple[int, ...], dtype: np.dtype[Any], device: tuple[int, int]
) -> object:
    """A capsule around an array, row-major, on a device (its kind and number); it keeps `owner` alive.

    Raises BufferError for element types that DLPack does not have.
    """
    code = _BFLOAT if dtype == ml_dtypes.bfloat16 else _CODES.get(dtype.kind)
    if code is None:
        raise BufferError(f"DLPack has no elements of dtype {dtype}")
    lent = _Lent(owner, address, shape, code, 8 * dtype.itemsize)
    lent.managed.tensor.device_kind, lent.managed.tensor.device_number = device
    _count("Py_IncRef")(lent)
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    new = make(("PyCapsule_New", ctypes.pythonapi))
    return new(ctypes.addressof(lent.managed), CAPSULE, ctypes.cast(_DESTRUCTOR, ctypes.c_void_p))
