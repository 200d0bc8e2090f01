"""One program after another in NumPy, in random order: the machine behind `kernel.interpret`."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from itertools import product
from typing import Any

import numpy as np

from tiramisu_py.algorithm.types import as_dtype, float32, float64, int32, int64
from tiramisu_py.errors import ArgumentError, CallError


class NumpyBlock(np.ndarray[Any, Any]):
    """A NumPy array with the methods that blocks have; scalars are blocks without dimensions."""

    def to(self, dtype: Any) -> NumpyBlock:
        """The block in another type, as `numpy.ndarray.astype` converts it."""
        return block(self.astype(as_dtype(dtype).numpy))

    def __matmul__(self, other: Any) -> Any:
        return product_of(self, other)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return array.view(NumpyBlock)


def block(given: Any, dtype: Any = None) -> NumpyBlock:
    """Anything that NumPy takes, as a block."""
    return np.asarray(given, dtype=dtype).view(NumpyBlock)


def product_of(a: Any, b: Any, acc: Any = None) -> NumpyBlock:
    """The matrix product of two blocks, added to `acc` term by term, in the order of the inner dimension."""
    wide = dot_type(np.asarray(a).dtype)
    left, right = np.asarray(a).astype(wide), np.asarray(b).astype(wide)
    total = np.zeros((left.shape[0], right.shape[1]), wide) if acc is None else np.array(acc)
    for k in builtins.range(left.shape[1]):
        total = total + left[:, k, None] * right[None, k, :]
    return block(total)


def dot_type(dtype: Any) -> Any:
    """The type in which products of a type are summed: at least float32, or int32."""
    found = as_dtype(dtype)
    if found.is_float:
        return (float64 if found.bits == 64 else float32).numpy
    return (int64 if found.bits == 64 else int32).numpy


class ArrayPlace:
    """Elements of an array: an index for each dimension, or offsets from its first element."""

    def __init__(self, view: ArrayView, indices: tuple[Any, ...] | None, offset: Any = 0) -> None:
        self.view, self.indices, self.offset = view, indices, offset

    def __add__(self, other: Any) -> ArrayPlace:
        if self.indices is not None:
            raise CallError(f"{self.view.name}[..] is a place: add to its indices, not to it")
        return ArrayPlace(self.view, None, self.offset + other)

    __radd__ = __add__

    def flat(self, mask: Any) -> tuple[Any, Any]:
        """The numbers of the elements in the array, row by row, and the mask, both in the shape of the place.

        Raises `ArgumentError` for a place outside of the array under a true mask.
        """
        array = self.view.array
        if self.indices is None:
            numbers, wanted = np.broadcast_arrays(np.asarray(self.offset), np.asarray(mask))
            return self._checked(numbers, wanted, (numbers >= 0) & (numbers < array.size))
        *indices, wanted = np.broadcast_arrays(*map(np.asarray, self.indices), np.asarray(mask))
        numbers = np.zeros(wanted.shape, np.int64)
        inside = np.ones(wanted.shape, builtins.bool)
        for index, extent in zip(indices, array.shape, strict=True):
            numbers = numbers * extent + index
            inside = inside & (index >= 0) & (index < extent)
        return self._checked(numbers, wanted, inside)

    def _checked(self, numbers: Any, wanted: Any, inside: Any) -> tuple[Any, Any]:
        wrong = wanted & ~inside
        if wrong.any():
            at = tuple(np.argwhere(wrong)[0])
            indices = (
                [numbers[at]]
                if self.indices is None
                else [np.broadcast_to(each, wrong.shape)[at] for each in self.indices]
            )
            element = f"{self.view.name}[{', '.join(map(str, indices))}]"
            raise ArgumentError(
                f"program {machine().program} touches {element}, outside of {self.view}: a mask is missing"
            )
        return numbers, wanted


class ArrayView:
    """An array as a program has it: its shape, its strides in elements, and places in it."""

    def __init__(self, name: str, array: np.ndarray[Any, Any]) -> None:
        self.name, self.array = name, array

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        found: tuple[int, ...] = self.array.shape
        return found

    @property
    def dtype(self) -> Any:
        """The type of the elements."""
        return as_dtype(self.array.dtype)

    def stride(self, axis: int) -> int:
        """How many elements neighbours along an axis are apart."""
        return int(np.prod(self.array.shape[axis + 1 :], dtype=np.int64))

    def __getitem__(self, indices: Any) -> ArrayPlace:
        given = indices if isinstance(indices, tuple) else (indices,)
        if len(given) != self.array.ndim:
            raise CallError(f"{self} has {self.array.ndim} indices, {len(given)} were given")
        return ArrayPlace(self, given)

    def __add__(self, offset: Any) -> ArrayPlace:
        return ArrayPlace(self, None, offset)

    __radd__ = __add__

    def __str__(self) -> str:
        return f"the array {self.name} of shape {list(self.array.shape)}"


class BoxView:
    """An array in boxes of one shape, with zeros outside."""

    def __init__(self, view: ArrayView, shape: tuple[int, ...]) -> None:
        self.view, self.shape = view, shape

    def _place(self, at: Sequence[Any]) -> tuple[ArrayPlace, Any]:
        rank, indices = len(self.shape), []
        inside: Any = True
        for axis, (start, extent) in enumerate(zip(at, self.shape, strict=True)):
            along = [1] * rank
            along[axis] = extent
            index = np.asarray(start) + np.arange(extent).reshape(along)
            inside = inside & (index >= 0) & (index < self.view.shape[axis])
            indices.append(index)
        return self.view[tuple(indices)], inside

    def load(self, at: Sequence[Any]) -> NumpyBlock:
        """The box from here on."""
        place, inside = self._place(at)
        return machine().load(place, inside, 0)

    def store(self, at: Sequence[Any], value: Any) -> None:
        """Store a box, as far as it is inside of the array."""
        place, inside = self._place(at)
        machine().store(place, value, inside)


class Interpretation:
    """The state of one interpretation: the grid, the program that runs, and who has stored what."""

    def __init__(self, grid: tuple[int, ...]) -> None:
        self.grid = (*grid, 1, 1, 1)[: builtins.max(3, len(grid))]
        self.program: tuple[int, ...] = ()
        self._writers: dict[int, np.ndarray[Any, Any]] = {}
        self._sums: list[tuple[tuple[int, ...], ArrayView, Any, Any]] = []

    def run(self, function: Callable[..., Any], arguments: Mapping[str, Any], order: Any) -> None:
        """KernelRun all programs of the grid, in an order."""
        programs = list(product(*map(builtins.range, self.grid)))
        token = _MACHINE.set(self)
        try:
            for number in order.permutation(len(programs)):
                self.program = programs[number]
                function(**arguments)
            self._finish()
        finally:
            _MACHINE.reset(token)

    def load(self, place: Any, mask: Any, other: Any) -> NumpyBlock:
        """The elements at a place."""
        place = self._as_place(place, "tl.load")
        if other is None and mask is not True:
            raise ArgumentError(
                f"tl.load of {place.view.name} has a mask and no other=: give the value of masked lanes"
            )
        numbers, wanted = place.flat(mask)
        array = place.view.array
        found = np.full(numbers.shape, 0 if other is None else other, array.dtype)
        found[wanted] = array.reshape(-1)[numbers[wanted]]
        return block(found)

    def store(self, place: Any, value: Any, mask: Any) -> None:
        """Store a block at a place."""
        place = self._as_place(place, "tl.store")
        numbers, wanted = place.flat(mask)
        array, given = place.view.array, np.broadcast_to(value, numbers.shape)
        writers = self._writers.setdefault(id(array), np.full(array.size, -1, np.int64))
        own = int(np.ravel_multi_index(self.program, self.grid))
        at = numbers[wanted]
        others = writers[at]
        if (others >= 0).any() or len(np.unique(at)) < len(at):
            raise ArgumentError(f"{place.view.name} has an element that is stored twice, by program {self.program}")
        writers[at] = own
        array.reshape(-1)[at] = given[wanted].astype(array.dtype)

    def accumulate(self, place: Any, value: Any, mask: Any) -> None:
        """Note a block that is added to a place once all programs have run, in their order."""
        place = self._as_place(place, "tl.accumulate")
        numbers, wanted = place.flat(mask)
        self._sums.append((self.program, place.view, numbers[wanted], np.broadcast_to(value, numbers.shape)[wanted]))

    def _finish(self) -> None:
        """Add up what programs accumulate."""
        begun: set[int] = set()
        for _, view, numbers, values in sorted(self._sums, key=lambda each: each[0]):
            flat = view.array.reshape(-1)
            if id(view.array) not in begun:
                begun.add(id(view.array))
                flat[...] = 0
            np.add.at(flat, numbers, values.astype(view.array.dtype))

    def descriptor(self, array: Any, shape: tuple[int, ...]) -> BoxView:
        """A view of an array in boxes."""
        return BoxView(array, shape)

    @staticmethod
    def _as_place(place: Any, word: str) -> ArrayPlace:
        if isinstance(place, ArrayView) and not place.shape:
            return place[()]
        if not isinstance(place, ArrayPlace):
            raise CallError(f"{word} takes a place, such as A[i, j] or A + i * A.stride(0) + j, not {place!r}")
        return place


_MACHINE: ContextVar[Interpretation] = ContextVar("_MACHINE")


def is_interpreting() -> bool:
    """Whether a kernel is being interpreted."""
    return _MACHINE.get(None) is not None


def machine() -> Interpretation:
    """The machine that interprets; raises `CallError` where none does."""
    try:
        return _MACHINE.get()
    except LookupError:
        raise CallError(
            "the words of tiramisu_py.language are for kernels: write them inside of a function with @tm.jit, and call "
            "kernel[grid](...), or kernel.interpret[grid](...)"
        ) from None
