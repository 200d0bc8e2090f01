"""Array arguments of a compiled function: viewed without copying, or refused with the reason; and new arrays."""

from __future__ import annotations

import ctypes
import math
import reprlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tiramisu_py.algorithm.domains.extents_from_arguments import ElementStrides, element_strides
from tiramisu_py.errors import ArgumentError
from tiramisu_py.ir import ArrayArgument
from tiramisu_py.toolchain.calls.device_arguments import refuse_on_host
from tiramisu_py.toolchain.gpu.device_arrays import DeviceArray
from tiramisu_py.toolchain.gpu.foreign import host_array

Array = npt.NDArray[Any]
#: Where the first element of an array is.
Address = Callable[[Array], int]

ALIGNMENT = 64
#: The exceptions of other libraries if NumPy cannot view their memory.
_FAILURES = (TypeError, ValueError, BufferError, RuntimeError, AttributeError)


def viewed(declared: ArrayArgument, given: object) -> Array:
    """The array of an argument, not copied. Raises `ArgumentError`, naming the argument, if it does not fit."""
    array = _as_array(declared, given)
    _check_type(declared, array)
    if array.ndim != len(declared.passed_extents):
        raise ArgumentError(
            f"{declared.name} has {array.ndim} dimensions, shape {array.shape}; it is declared as {_shape(declared)}"
        )
    _check_layout(declared, array)
    return array


def _as_array(declared: ArrayArgument, given: object) -> Array:
    refuse_on_host(declared, given)
    if isinstance(given, np.ma.MaskedArray):
        name = declared.name
        raise ArgumentError(f"{name} is a masked array, whose mask would be lost; pass {name}.filled(...)")
    if type(given) is np.ndarray:
        return given
    if isinstance(given, np.ndarray):
        return np.asarray(given)  # the attributes of a subclass need not be correct
    wanted = f"{declared.name} is {_described(given)}; pass a NumPy array of {declared.dtype} {_shape(declared)}"
    if given is None or isinstance(given, str | bytes | int | float | complex | list | tuple | dict | set | np.generic):
        raise ArgumentError(wanted)
    try:
        array = _shared(given)
    except _FAILURES as error:
        raise ArgumentError(f"{wanted} ({error})") from error
    if array.dtype == np.object_:  # NumPy wraps objects that it does not know
        raise ArgumentError(wanted)
    return array


def _shared(given: Any) -> Array:
    """The memory of another library's array, not copied; raises one of `_FAILURES`."""
    if hasattr(given, "__dlpack__"):
        try:
            return np.asarray(np.from_dlpack(given))
        except _FAILURES:  # a type that NumPy does not know
            return host_array(given)
    return np.asarray(given, copy=False)


def _described(given: object) -> str:
    return "None" if given is None else f"of type {type(given).__name__}: {reprlib.repr(given)}"


def _check_type(declared: ArrayArgument, array: Array) -> None:
    wanted = declared.dtype.numpy
    if array.dtype == wanted:
        return
    name = declared.name
    if array.dtype.newbyteorder("=") == wanted and not array.dtype.isnative:
        raise ArgumentError(
            f"{name} has the byte order of another machine ({array.dtype.str}); pass {name}.astype(np.{declared.dtype})"
        )
    raise ArgumentError(f"{name} has dtype {array.dtype}, not {declared.dtype}; {_conversion(declared)}")


def _conversion(declared: ArrayArgument) -> str:
    module = "ml_dtypes" if declared.dtype.name == "bfloat16" else "np"
    kind = f"{module}.bool" if declared.dtype.is_bool else f"{module}.{declared.dtype}"
    if declared.is_output:
        return f"it is written in place, so make it with dtype {kind}"
    return f"convert it: {declared.name}.astype({kind})"


def _check_layout(declared: ArrayArgument, array: Array) -> None:
    name = declared.name
    remedy = "it is written in place, so pass an array that is" if declared.is_output else "make it"
    if declared.strides is not None:
        element_strides(name, array)
        check_distinct(declared, array)
    elif not array.flags.c_contiguous:
        how = "np.empty of its shape" if declared.is_output else f"np.ascontiguousarray({name})"
        other = "" if declared.is_output else ", or declare it with strides="
        raise ArgumentError(
            f"{name} is not contiguous in row-major order (strides {array.strides} for shape {array.shape}, "
            f"{array.itemsize} bytes an element); {remedy} contiguous: {how}{other}"
        )
    if address(array) % declared.dtype.bytes:
        how = "np.empty of its shape" if declared.is_output else f"{name}.copy()"
        size = declared.dtype.bytes
        raise ArgumentError(f"{name} is not aligned to its {size}-byte elements; {remedy} aligned: {how}")
    if declared.is_output and not array.flags.writeable:
        raise ArgumentError(f"{name} is read-only, and the function writes it; pass an array that can be written")


def check_distinct(declared: ArrayArgument, array: Array) -> None:
    """Raises `ArgumentError` if elements of an array that is written share memory."""
    if declared.is_output and not has_distinct_elements(array.shape, array.strides):
        raise ArgumentError(
            f"{declared.name} is written, and has elements that share memory (strides {array.strides} for shape "
            f"{array.shape}, {array.itemsize} bytes an element); pass an array in which each has its own"
        )


def strides_of(declared: ArrayArgument, array: Array | DeviceArray) -> ElementStrides | None:
    """The strides of an argument that is declared with strides, in elements."""
    if declared.strides is None or isinstance(array, DeviceArray):
        return None
    return element_strides(declared.name, array)


def _shape(declared: ArrayArgument) -> str:
    return f"[{', '.join(map(str, declared.passed_extents))}]"


def address(array: Array | DeviceArray) -> int:
    """The address of the first element."""
    if isinstance(array, DeviceArray):
        return array.address
    return int(array.__array_interface__["data"][0])


def address_of(like: Array) -> Address:
    """A function that gives the `address` of arrays of the type, shape, strides and flags of this one."""
    flags, dtype = like.flags, like.dtype
    plain = dtype.kind in "biuf" and dtype.isnative and flags.writeable and flags.c_contiguous and like.size > 0
    return _address_of_buffer if plain else address


def _address_of_buffer(array: Any) -> int:
    """The address of an array that is a plain buffer, five times as fast."""
    return ctypes.addressof(ctypes.c_char.from_buffer(array))


def check_overlap(arrays: Sequence[tuple[ArrayArgument, Array | DeviceArray]]) -> None:
    """Raises `ArgumentError` if an output shares memory with another argument, or what lies between its elements."""
    ranges = [(declared, array, address(array), byte_range(array)) for declared, array in arrays if array.nbytes]
    bounds = [(declared, array, start + low, start + high) for declared, array, start, (low, high) in ranges]
    for written, array, first, end in bounds:
        for other, other_array, other_first, other_end in bounds if written.is_output else ():
            if other is written or first >= other_end or other_first >= end:
                continue
            if (
                isinstance(array, DeviceArray)
                or isinstance(other_array, DeviceArray)
                or not ((written.strides or other.strides) and are_interleaved(array, other_array, first, other_first))
            ):
                raise ArgumentError(
                    f"{written.name} is written, and shares memory with {other.name}; "
                    f"pass another array as {written.name}, or a copy: {other.name}.copy()"
                )


def byte_range(array: Array | DeviceArray) -> tuple[int, int]:
    """The bytes of an array, from the first to behind the last one, relative to its first element."""
    if isinstance(array, DeviceArray) or array.flags.c_contiguous:
        return 0, int(array.nbytes)
    if not array.size:
        return 0, 0
    steps = [(extent - 1) * stride for extent, stride in zip(array.shape, array.strides, strict=True)]
    return sum(step for step in steps if step < 0), sum(step for step in steps if step > 0) + array.itemsize


def check_bools(name: str, array: Array) -> None:
    """Raises `ArgumentError` if the byte of a bool is not 0 or 1, which is possible in a view of other memory."""
    bytes_ = array.view(np.uint8)
    if array.size == 0 or bytes_.max() <= 1:
        return
    first = np.unravel_index(int((bytes_ > 1).argmax()), array.shape)
    element = f"{name}[{', '.join(str(int(i)) for i in first)}]"
    raise ArgumentError(f"{element} holds the byte {bytes_[first]}, which is neither False nor True")


def allocated(declared: ArrayArgument, shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> Array:
    """A new array, aligned for vectors; filled with zeros unless the function writes every element.

    Its lowest element is the aligned one. `strides`, in bytes, are those of an array that is not contiguous.
    """
    return allocated_at(declared, shape, strides)[0]


def allocated_at(
    declared: ArrayArgument, shape: tuple[int, ...], strides: tuple[int, ...] | None = None
) -> tuple[Array, int]:
    """A new array as `allocated` makes it, and its address."""
    low, size = 0, math.prod(shape) * declared.dtype.bytes
    if strides is not None and size:
        steps = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
        low = sum(step for step in steps if step < 0)
        size = sum(map(abs, steps)) + declared.dtype.bytes
    try:
        memory = (np.empty if declared.covered else np.zeros)(size + ALIGNMENT, dtype=np.uint8)
    except (MemoryError, ValueError, OverflowError) as error:
        raise ArgumentError(f"{declared.name} of shape {shape} cannot be allocated ({size} bytes)") from error
    begins = _address_of_buffer(memory)
    start = -begins % ALIGNMENT - low
    return np.ndarray(shape, declared.dtype.numpy, memory, start, strides if size else None), begins + start


# -- arrays whose elements are not contiguous


def has_distinct_elements(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether no two elements share memory, where one step along each dimension leads beyond all steps along those
    with smaller strides. Other arrays are taken to have such elements.
    """
    reached = 0
    for stride, extent in sorted((abs(stride), extent) for stride, extent in zip(strides, shape, strict=True)):
        if extent > 1 and stride <= reached:
            return 0 in shape
        reached += (extent - 1) * stride if extent > 1 else 0
    return True


def are_interleaved(first: Array, second: Array, from_first: int, from_second: int) -> bool:
    """Whether two arrays, whose lowest elements are at these addresses, share no memory since they take different
    bytes of each `step` bytes: different columns of one matrix, or its even and odd rows.
    """
    for step in {abs(stride) for each in (first, second) for stride in _strides(each)} - {0}:
        one, other = _taken(first, step), _taken(second, step)
        offset = (from_second - from_first) % step
        if one <= offset and offset + other <= step:
            return True
    return False


def _strides(array: Array) -> list[int]:
    """The distances of neighbours that there are."""
    return [stride for extent, stride in zip(array.shape, array.strides, strict=True) if extent > 1]


def _taken(array: Array, step: int) -> int:
    """How many of each `step` bytes an array takes, from its lowest element on."""
    pairs = zip(array.shape, array.strides, strict=True)
    taken: int = array.itemsize + sum((extent - 1) * abs(stride) for extent, stride in pairs if stride % step)
    return taken
