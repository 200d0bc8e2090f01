"""Arguments in GPU memory: checked, synchronised, and used in place; and new arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tiramisu_py.errors import ArgumentError
from tiramisu_py.ir import ArrayArgument
from tiramisu_py.toolchain.gpu.available_gpus import Device
from tiramisu_py.toolchain.gpu.device_arrays import DeviceArray, gpu_empty, pinned_empty, unified_on
from tiramisu_py.toolchain.gpu.foreign import ForeignArray, foreign_array, lives_on_gpu
from tiramisu_py.toolchain.gpu.runtime import runtime_for


def device_viewed(declared: ArrayArgument, given: object, device: Device) -> DeviceArray:
    """The array of an argument in the memory of a device, not copied; waits for the stream that writes it.

    Raises `ArgumentError`, naming the argument, if it does not fit.
    """
    name = declared.name
    if isinstance(given, DeviceArray):
        if given.device != str(device):
            raise ArgumentError(f"{name} is on {given.device}, but is used on {device}; {_remedy(name, device)}")
        array = given
    else:
        array = _foreign(declared, given, device)
    _check(declared, array)
    return array


def refuse_on_host(declared: ArrayArgument, given: object) -> None:
    """Raises `ArgumentError` for an array on a GPU that should be on the host."""
    if isinstance(given, DeviceArray) or (not isinstance(given, np.ndarray) and lives_on_gpu(given)):
        if declared.is_input:
            remedy = "declare the input with memory=tm.GPU_MEMORY to use it in place"
        else:
            remedy = "keep the output in a buffer with memory=tm.GPU_MEMORY to have it written in place"
        raise ArgumentError(
            f"{declared.name} is kept in the host's memory, and the array given lives on a GPU "
            f"({type(given).__name__}); {remedy}, or pass a copy on the host, such as {declared.name}.get()"
        )


def device_allocated(declared: ArrayArgument, shape: tuple[int, ...], device: Device) -> DeviceArray:
    """A new array on a device; filled with zeros unless the function writes every element."""
    made = gpu_empty(shape, declared.dtype, device)
    if not declared.covered:
        made.set(np.zeros(shape, made.dtype))
    return made


def require_unified(declared: ArrayArgument, array: np.ndarray[Any, Any], device: Device) -> None:
    """Raises `ArgumentError` for ordinary memory of the host where a GPU addresses an array in place."""
    wanted, found = "simulator" if device.simulated else "gpu", unified_on(array) if array.size else ""
    if found == wanted or not array.size:
        return
    name, kind = declared.name, f"unified for {found}" if found else "an ordinary array"
    device_words = "" if wanted == "gpu" else ', device="simulator"'
    if declared.is_output:
        remedy = f"tm.pinned_empty(shape, dtype{device_words}), or leave {name} out"
    else:
        remedy = f"tm.to_unified({name}{device_words}), or make it with tm.pinned_empty"
    raise ArgumentError(
        f"{name} is {kind}, and {wanted} addresses it where it is (memory=tm.HOST_MAPPED): it must be unified: "
        f"pass {remedy}"
    )


def unified_allocated(declared: ArrayArgument, shape: tuple[int, ...], device: Device) -> np.ndarray[Any, Any]:
    """A new array that a device addresses; filled with zeros unless the function writes every element."""
    made = pinned_empty(shape, declared.dtype, device)
    if not declared.covered:
        made[...] = 0
    return made


def _foreign(declared: ArrayArgument, given: object, device: Device) -> DeviceArray:
    name = declared.name
    if isinstance(given, np.ndarray) or not lives_on_gpu(given):
        kind = "an array of the host" if isinstance(given, np.ndarray) else f"of type {type(given).__name__}"
        raise ArgumentError(
            f"{name} lives in the memory of {device}, and the argument is {kind}; {_remedy(name, device)}, "
            "or an array of CuPy, PyTorch or Numba"
        )
    try:
        found = foreign_array(given)
    except (TypeError, ValueError, RuntimeError, BufferError, KeyError, AttributeError) as error:
        raise ArgumentError(f"{name}, of type {type(given).__name__}, cannot be used in place: {error}") from error
    if found.device is not None and (device.simulated or found.device != device.number):
        raise ArgumentError(f"{name} is on GPU {found.device}, but is used on {device}; {_remedy(name, device)}")
    if found.read_only and declared.is_output:
        raise ArgumentError(f"{name} is read-only, and the function writes it; pass an array that can be written")
    _check_strides(name, found)
    if found.stream is not None:
        runtime_for(device).synchronize(device.number, found.stream)
    return DeviceArray(found.shape, found.dtype, device, found.address, found.owner)


def _check(declared: ArrayArgument, array: DeviceArray) -> None:
    name, dtype = declared.name, declared.dtype
    if array.dtype != dtype.numpy:
        raise ArgumentError(
            f"{name} has dtype {array.dtype}, not {dtype}; convert it on the GPU, or before it goes there"
        )
    if array.ndim != len(declared.passed_extents):
        wanted = ", ".join(map(str, declared.passed_extents))
        raise ArgumentError(f"{name} has {array.ndim} dimensions, shape {array.shape}; it is declared as [{wanted}]")
    if array.address % dtype.bytes:
        raise ArgumentError(f"{name} is not aligned to its {dtype.bytes}-byte elements; pass a copy of it")


def _check_strides(name: str, found: ForeignArray) -> None:
    """Refuse arrays that are not contiguous; dimensions of extent 1 and empty arrays may have any stride."""
    if found.strides is None or math.prod(found.shape) == 0:
        return
    expected: list[int] = []
    size = found.dtype.itemsize
    for extent in reversed(found.shape):
        expected.insert(0, size)
        size *= extent
    steps = [
        (own, wanted)
        for extent, own, wanted in zip(found.shape, found.strides, expected, strict=True)
        if extent > 1 and own != wanted
    ]
    if steps:
        raise ArgumentError(
            f"{name} is not contiguous in row-major order (strides {found.strides} for shape {found.shape}, "
            f"{found.dtype.itemsize} bytes an element); make it contiguous"
        )


def _remedy(name: str, device: Device) -> str:
    return f'pass tm.to_gpu({name}, device="{device}")'
