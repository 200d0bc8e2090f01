"""GPU arrays of other libraries (CuPy, PyTorch, PyCUDA, Numba, JAX), used in place."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

from tiramisu_py.records import dataclass
from tiramisu_py.toolchain.gpu.dlpack import CAPSULE, CUDA, CUDA_MANAGED, Tensor

#: The first versions of the CUDA array interface have no stream: this one is synchronised instead.
LEGACY_STREAM = 1
_WITH_STREAM = 3


@dataclass(frozen=True, eq=False)
class ForeignArray:
    """The description of another library's array. `strides` are in bytes, or None if it is contiguous; `stream` is the
    stream that writes it, or None if there is nothing to wait for; `owner` keeps the memory alive.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    address: int
    strides: tuple[int, ...] | None
    stream: int | None
    read_only: bool
    device: int | None
    owner: object


def lives_on_gpu(given: object) -> bool:
    """Whether an object is an array in the memory of a GPU."""
    return hasattr(given, "__cuda_array_interface__") or _dlpack_device(given) is not None


def foreign_array(given: Any) -> ForeignArray:
    """The array of an object that `lives_on_gpu`. Raises ValueError, or an exception of its library."""
    device = _dlpack_device(given)
    interface = getattr(given, "__cuda_array_interface__", None)
    if interface is not None and (interface.get("version", 0) >= _WITH_STREAM or device is None):
        return _from_interface(given, interface, device)
    return _from_dlpack(given)


def _dlpack_device(given: object) -> int | None:
    """The number of an object's GPU according to DLPack; None if it has none."""
    if not hasattr(given, "__dlpack__") or not hasattr(given, "__dlpack_device__"):
        return None
    try:
        kind, number = given.__dlpack_device__()
    except (RuntimeError, TypeError, ValueError, BufferError):
        return None
    return int(number) if int(kind) in (CUDA, CUDA_MANAGED) else None


def _from_interface(given: object, interface: dict[str, Any], device: int | None) -> ForeignArray:
    if interface.get("mask") is not None:
        raise ValueError("it has a mask, which would be lost")
    address, read_only = interface["data"]
    stream = interface.get("stream") if interface.get("version", 0) >= _WITH_STREAM else LEGACY_STREAM
    if stream == 0:
        raise ValueError("its stream is 0, which the CUDA array interface does not allow")
    strides = interface.get("strides")
    return ForeignArray(
        tuple(interface["shape"]), np.dtype(interface["typestr"]), int(address or 0),
        None if strides is None else tuple(strides), stream, bool(read_only), device, given,
    )  # fmt: skip


# -- DLPack


def _from_dlpack(given: Any) -> ForeignArray:
    """The array of a DLPack capsule, which is kept, not consumed: its destructor returns the memory to its library."""
    capsule = given.__dlpack__()  # the library makes its default stream wait for what it is still doing
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    tensor = Tensor.from_address(pointer(capsule, CAPSULE))
    dtype = _dtype(tensor.code, tensor.bits, tensor.lanes)
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(s * dtype.itemsize for s in tensor.strides[: tensor.ndim]) if tensor.strides else None
    address = (tensor.data or 0) + tensor.byte_offset
    return ForeignArray(shape, dtype, address, strides, LEGACY_STREAM, False, tensor.device_number, capsule)


class _Lender:
    """The memory of another library's array, by the array interface of NumPy; alive as long as the capsule is."""

    def __init__(self, of: ForeignArray) -> None:
        self.kept = of.owner
        self.__array_interface__ = {
            "version": 3, "shape": of.shape, "typestr": f"|V{of.dtype.itemsize}", "data": (of.address, False),
            "strides": of.strides,
        }  # fmt: skip


def host_array(given: Any) -> np.ndarray[Any, Any]:
    """The memory of another library's array on the host, not copied, if NumPy does not read its DLPack: by the array
    interface or the buffer protocol, or, for types that NumPy has not (bfloat16), by DLPack read here.

    Raises what the library raises.
    """
    try:
        return np.asarray(given, copy=False)
    except (TypeError, ValueError, BufferError, RuntimeError):
        found = _from_dlpack(given)
        return np.asarray(_Lender(found)).view(found.dtype)


def _dtype(code: int, bits: int, lanes: int) -> np.dtype[Any]:
    kinds = {0: "int", 1: "uint", 2: "float"}
    if lanes == 1 and code in kinds:
        return np.dtype(f"{kinds[code]}{bits}")
    others: dict[tuple[int, int], Any] = {(4, 16): ml_dtypes.bfloat16, (6, 8): np.bool_}
    if lanes == 1 and (code, bits) in others:
        found: np.dtype[Any] = np.dtype(others[code, bits])
        return found
    raise ValueError(f"its elements are of a type that is not known (DLPack code {code}, {bits} bits, {lanes} lanes)")
