"""Arrays in GPU memory, and host arrays in page-locked memory, which GPUs copy without staging."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from tiramisu_py.algorithm.types import DType
from tiramisu_py.errors import ArgumentError
from tiramisu_py.public_calls import own_call
from tiramisu_py.records import dataclass
from tiramisu_py.toolchain.gpu.available_gpus import Device, as_device
from tiramisu_py.toolchain.gpu.dlpack import CUDA, EXTENSION, capsule_of
from tiramisu_py.toolchain.gpu.runtime import Runtime, host_holder, runtime_for

Array = npt.NDArray[Any]


class DeviceArray:
    """A row-major array in GPU memory. `gpu_empty` and `to_gpu` make it, and kernels return it for outputs in GPU
    memory; ``.get()`` copies it to the host. CuPy, PyTorch, JAX and Numba use it in place
    (``__cuda_array_interface__``, DLPack).
    """

    def __init__(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device, address: int, owner: object
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self._device = device
        self.address = address
        self._owner = owner  # keeps the memory alive

    @property
    def device(self) -> str:
        """The GPU, in the notation of `compile`: "gpu", "gpu:1", "simulator"."""
        return str(self._device)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The number of bytes."""
        return self.size * self.dtype.itemsize

    def get(self, out: Array | None = None) -> Array:
        """A copy on the host: a new NumPy array, or `out`."""
        target = np.empty(self.shape, self.dtype) if out is None else self._fitting(out)
        place = target.__array_interface__["data"][0]
        runtime_for(self._device).copy(self._device.number, place, False, self.address, True, self.nbytes)
        return target

    def set(self, array: Array) -> None:
        """Copies a host array of the same shape and dtype into this one."""
        place = self._fitting(np.asarray(array, order="C")).__array_interface__["data"][0]
        runtime_for(self._device).copy(self._device.number, self.address, True, place, False, self.nbytes)

    def _fitting(self, array: Array) -> Array:
        if array.shape != self.shape or array.dtype != self.dtype or not array.flags.c_contiguous:
            raise ArgumentError(
                f"the array on the host has shape {array.shape} and dtype {array.dtype}; "
                f"it must be contiguous, of shape {self.shape} and dtype {self.dtype}"
            )
        return array

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3. All work on the array is complete when Python gets it, so there is no stream."""
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address if self.size else 0, False),
            "version": 3,
            "strides": None,
            "stream": None,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        """The kind of memory, and the number of the GPU; the simulator's memory is no GPU memory to other libraries."""
        return EXTENSION if self._device.simulated else CUDA, self._device.number

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """A capsule for ``torch.from_dlpack`` and the like. All work on the array is complete, on every stream."""
        if copy:
            raise BufferError("the array is exported in place; make the copy in the other library")
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"the array is on {self.device}; copy it to the host with .get()")
        return capsule_of(self, self.address if self.size else 0, self.shape, self.dtype, self.__dlpack_device__())

    def __getitem__(self, _index: object) -> NoReturn:
        raise TypeError("the array is in the memory of a GPU, and has no elements on the host: index .get() instead")

    def __array__(self, *_given: object, **_named: object) -> Array:
        raise TypeError("the array is in the memory of a GPU; copy it to the host with .get()")

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<DeviceArray {self.dtype}{list(self.shape)} on {self.device}>"


class _Memory:
    """Memory of a runtime, freed with this object."""

    def __init__(self, free: Any, *place: int) -> None:
        finalizer = weakref.finalize(self, free, *place)
        finalizer.atexit = False  # at exit the driver may be gone, and frees everything itself


class _PinnedMemory(_Memory):
    """The buffer that a NumPy array views, and keeps alive."""

    def __init__(self, runtime: Runtime, size: int) -> None:
        place = runtime.allocate_host(size)
        super().__init__(runtime.free_host, place)
        self.__array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (place, False), "version": 3}


@own_call
def gpu_empty(shape: int | Sequence[int], dtype: DType | npt.DTypeLike, device: str | Device = "gpu") -> DeviceArray:
    """A new, uninitialised array in the memory of a GPU: ``"gpu"``, ``"gpu:1"`` or ``"simulator"``.

    Raises `KernelError` if there is no such GPU, or not enough memory.
    """
    where, extents, kind = as_device(device), _extents(shape), _numpy_dtype(dtype)
    runtime = runtime_for(where)
    address = runtime.allocate(where.number, math.prod(extents) * kind.itemsize)
    return DeviceArray(extents, kind, where, address, _Memory(runtime.free, where.number, address))


@own_call
def to_gpu(array: npt.ArrayLike, device: str | Device = "gpu") -> DeviceArray:
    """A copy of an array in the memory of a GPU."""
    source = np.asarray(array)
    if source.dtype == np.object_:
        raise ArgumentError(f"{array!r:.60} is not an array of numbers")
    made = gpu_empty(source.shape, source.dtype, device)
    made.set(source)
    return made


@own_call
def pinned_empty(shape: int | Sequence[int], dtype: DType | npt.DTypeLike, device: str | Device = "gpu") -> Array:
    """A new NumPy array in page-locked memory, which GPUs copy without staging, and while they compute.

    It is unified: GPUs address it, and read inputs with ``memory=tm.HOST_MAPPED`` in place. It begins at a page. With
    the array and its last view the memory goes back to a pool (see `host_pool`). Raises `KernelError` if there is no
    driver.
    """
    where, extents, kind = as_device(device), _extents(shape), _numpy_dtype(dtype)
    size = math.prod(extents) * kind.itemsize
    memory = np.asarray(_PinnedMemory(runtime_for(where), max(size, 1)))
    return memory[:size].view(kind).reshape(extents)


@own_call
def to_unified(array: npt.ArrayLike, device: str | Device = "gpu") -> Array:
    """A copy of an array in page-locked memory of the host that GPUs address, as `pinned_empty` makes it.

    ::

        rows = tm.to_unified(features)      # for f.input("rows", tm.float32, [M, W], memory=tm.HOST_MAPPED)
    """
    source = np.asarray(array)
    if source.dtype == np.object_:
        raise ArgumentError(f"{array!r:.60} is not an array of numbers")
    made = pinned_empty(source.shape, source.dtype, device)
    made[...] = source
    return made


@own_call
def is_unified(array: object) -> bool:
    """Whether GPUs address an array of the host in place: one of `pinned_empty` or `to_unified`, or a part of one."""
    return isinstance(array, np.ndarray) and bool(unified_on(array))


def unified_on(array: Array) -> str:
    """The GPUs that address an array of the host: "gpu" or "simulator"; "" if none does."""
    first, end = np.lib.array_utils.byte_bounds(array)
    return host_holder(first, end - first)


@dataclass(frozen=True)
class HostPool:
    """The page-locked arrays of `pinned_empty` and `to_unified` so far, and the pool that their memory returns to.

    Of `arrays` that were made, `allocations` took new memory from the driver, and the others what was kept. Of the
    memory, `used` bytes belong to arrays, and `kept` bytes wait for the next ones.
    """

    arrays: int
    allocations: int
    used: int
    kept: int


@own_call
def host_pool(device: str | Device = "gpu", trim: bool = False) -> HostPool:
    """The pool of page-locked arrays; `trim` gives what it keeps back to the driver first.

    ::

        print(tm.host_pool())
        -->    HostPool(arrays=100, allocations=1, used=1048576, kept=0)

    Making page-locked memory takes long, so that it is kept when an array dies. The simulator keeps none unless it is
    told to (``TM_SIMULATOR=pools=1``), to find what is used too late. Raises `KernelError` if there is no driver.
    """
    runtime = runtime_for(as_device(device))
    if trim:
        runtime.trim()
    return HostPool(*runtime.host_statistics())


def _extents(shape: int | Sequence[int]) -> tuple[int, ...]:
    given = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    if not all(isinstance(e, int | np.integer) and e >= 0 for e in given):
        raise ArgumentError(f"{shape!r} is not a shape: a tuple of integers from 0 on")
    return tuple(int(extent) for extent in given)


def _numpy_dtype(dtype: DType | npt.DTypeLike) -> np.dtype[Any]:
    return dtype.numpy if isinstance(dtype, DType) else np.dtype(dtype)
