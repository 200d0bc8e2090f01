"""The words of block programs, as NumPy understands them: what `kernel.interpret` executes.

A compiled kernel is never executed as Python: `tracing` reads its source and knows the words by their names. Here each
word is the plainest NumPy for it, with checks that a machine does not make, so that both can be compared.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Sequence
from math import erf as _erf
from typing import Any

import numpy as np

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.types import (
    as_dtype,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from tiramisu_py.errors import ArgumentError
from tiramisu_py.language.running import ArrayPlace, NumpyBlock, block, machine, product_of

int1 = bool_

__all__ = [
    "abs", "accumulate", "arange", "argmax", "argmin", "assume", "atomic_add", "bfloat16", "broadcast_to",
    "cdiv", "constexpr", "cos", "cumsum", "dot", "erf", "exp", "exp2", "expand_dims", "float16", "float32",
    "float64", "floor", "full", "int1", "int16", "int32", "int64", "int8", "join", "load", "log", "log2",
    "make_tensor_descriptor", "max", "maximum", "min", "minimum", "multiple_of", "num_programs", "permute",
    "program_id", "rand", "range", "reduce", "reshape", "rsqrt", "sigmoid", "sin", "split", "sqrt",
    "static_assert", "static_range", "store", "sum", "swizzle2d", "tanh", "trans", "uint16", "uint32", "uint64",
    "uint8", "unravel_index", "where", "zeros",
]  # fmt: skip


class constexpr:
    """The annotation of an argument that is a constant: ``TM: tl.constexpr``; each value has a kernel of its own."""


# -- programs and ranges


def program_id(axis: int) -> NumpyBlock:
    """The number of this program along an axis of the grid, from 0."""
    return block(machine().program[axis], np.int64)


def num_programs(axis: int) -> NumpyBlock:
    """The number of programs along an axis of the grid."""
    return block(machine().grid[axis], np.int64)


def arange(start: int, end: int) -> NumpyBlock:
    """The integers from `start` up to `end`, both constants, as a block of int64."""
    return block(np.arange(start, end, dtype=np.int64))


def range(*bounds: Any, num_stages: int | None = None) -> Iterator[NumpyBlock]:
    """A sequential loop, with the bounds of Python's range; what it changes is carried from iteration to iteration.

    `num_stages` is given to `tm.recipes.blocks`, or with the arrays: here it is 1.
    """
    for k in builtins.range(*(int(each) for each in bounds)):
        yield block(k, np.int64)


def static_range(*bounds: int) -> Iterator[int]:
    """A loop with constant bounds, whose body is repeated for each iteration."""
    return iter(builtins.range(*bounds))


def cdiv(a: Any, b: Any) -> Any:
    """``a / b`` rounded upwards: of numbers, of blocks, and of sizes in a grid."""
    return (a + (b - 1)) // b if isinstance(a, Expr) or isinstance(b, Expr) else -(-a // b)


# -- blocks


def zeros(shape: Sequence[int], dtype: Any) -> NumpyBlock:
    """A block of zeros."""
    return full(shape, 0, dtype)


def full(shape: Sequence[int], value: Any, dtype: Any) -> NumpyBlock:
    """A block of one value."""
    return block(np.full(tuple(shape), value, as_dtype(dtype).numpy))


def load(place: ArrayPlace, mask: Any = True, other: Any = None) -> NumpyBlock:
    """The elements at a place; where `mask` is false nothing is read, and the value is `other`."""
    return machine().load(place, mask, other)


def store(place: ArrayPlace, value: Any, mask: Any = True) -> None:
    """Store a block at a place, where `mask` is true. Each element is stored by one program, once."""
    machine().store(place, value, mask)


def accumulate(place: ArrayPlace, value: Any, mask: Any = True, combine: Any = None) -> None:
    """Add a block to the sums at a place, over all programs; `combine` says how programs do it.

    ``tm.ORDERED``: in the order of the programs: the bits are those of one program that adds all. ``tm.TWO_PASS`` and
    ``tm.LAST_BLOCK``: programs run at once and store their parts, which a second kernel, or the block that ends last,
    adds up in the order of the programs. ``tm.ATOMIC``: in any order, so that programs may run at once. ``tm.LOCK``:
    likewise, but a program has a lock while it adds its block. Sums begin at zero.
    """
    machine().accumulate(place, value, mask)


def atomic_add(place: ArrayPlace, value: Any, mask: Any = True) -> None:
    """Add a block to the sums at a place, in any order: ``accumulate(place, value, mask, combine=tm.ATOMIC)``."""
    machine().accumulate(place, value, mask)


def dot(a: Any, b: Any, acc: Any = None, *, input_precision: str = "ieee") -> NumpyBlock:
    """The matrix product of two blocks, added to `acc`: term by term, in the order of the inner dimension.

    Floats of 16 bits are summed in float32, integers of 8 bits in int32. Operands keep all their bits, unless
    `input_precision` is "tf32": then tensor cores may take 10 of the 23 bits of a float32 after its point.
    """
    return product_of(a, b, acc)


def trans(x: Any, *order: int) -> NumpyBlock:
    """The block with its dimensions exchanged, or in another `order`."""
    return block(np.transpose(x, order or None))


def permute(x: Any, *order: int) -> NumpyBlock:
    """The block with its dimensions in another order."""
    return block(np.transpose(x, _listed(order)))


def reshape(x: Any, *shape: int) -> NumpyBlock:
    """The elements of a block, row by row, in another shape."""
    return block(np.reshape(x, _listed(shape)))


def expand_dims(x: Any, axis: int) -> NumpyBlock:
    """The block with another dimension, of extent 1."""
    return block(np.expand_dims(x, axis))


def join(a: Any, b: Any) -> NumpyBlock:
    """Two blocks of one shape along a new last dimension, of extent 2."""
    return block(np.stack(np.broadcast_arrays(a, b), axis=-1))


def split(x: Any) -> tuple[NumpyBlock, NumpyBlock]:
    """Both halves of a block whose last dimension has extent 2."""
    return block(x[..., 0]), block(x[..., 1])


def broadcast_to(x: Any, *shape: int) -> NumpyBlock:
    """The block repeated along dimensions of extent 1, up to a shape."""
    return block(np.broadcast_to(x, _listed(shape)))


def unravel_index(number: Any, shape: Sequence[Any]) -> tuple[Any, ...]:
    """The indices, in an array of this shape, of the element with a number, counted row by row."""
    found = []
    for extent in reversed(tuple(shape)[1:]):
        found.append(number % extent)
        number = number // extent
    return (number, *reversed(found))


def swizzle2d(i: Any, j: Any, size_i: Any, size_j: Any, size_g: int) -> tuple[Any, Any]:
    """The numbers of a program in another order: in groups of `size_g` rows, column by column.

    `i` and `j` are the numbers of a program along two axes of the grid, and `size_i` and `size_j` how many programs are
    there. Programs that run one after another then share the rows and columns that they load.
    """
    number = i * size_j + j
    in_group = size_g * size_j
    first = number // in_group * size_g
    rows = np.minimum(size_i - first, size_g)
    left = number % in_group
    return first + left % rows, left // rows


def _listed(given: Sequence[Any]) -> tuple[int, ...]:
    """Dimensions that are given one by one, or as a list."""
    whole = given[0] if len(given) == 1 and isinstance(given[0], list | tuple) else given
    return tuple(int(each) for each in whole)


# -- element by element


def where(condition: Any, yes: Any, no: Any) -> NumpyBlock:
    """`yes` where a condition holds, else `no`, which is not read there."""
    return block(np.where(condition, yes, no))


def maximum(a: Any, b: Any) -> NumpyBlock:
    """The larger one, element by element."""
    return block(np.maximum(a, b))


def minimum(a: Any, b: Any) -> NumpyBlock:
    """The smaller one, element by element."""
    return block(np.minimum(a, b))


def exp(x: Any) -> NumpyBlock:
    """``e ** x``."""
    return block(np.exp(x))


def exp2(x: Any) -> NumpyBlock:
    """``2 ** x``."""
    return block(np.exp2(x))


def log(x: Any) -> NumpyBlock:
    """The natural logarithm."""
    return block(np.log(x))


def log2(x: Any) -> NumpyBlock:
    """The logarithm to base 2."""
    return block(np.log2(x))


def sqrt(x: Any) -> NumpyBlock:
    """The square root."""
    return block(np.sqrt(x))


def rsqrt(x: Any) -> NumpyBlock:
    """``1 / sqrt(x)``."""
    return block(1 / np.sqrt(x))


def sin(x: Any) -> NumpyBlock:
    """The sine."""
    return block(np.sin(x))


def cos(x: Any) -> NumpyBlock:
    """The cosine."""
    return block(np.cos(x))


def tanh(x: Any) -> NumpyBlock:
    """The hyperbolic tangent."""
    return block(np.tanh(x))


def erf(x: Any) -> NumpyBlock:
    """The error function, as `evaluate()` has it."""
    given = np.asarray(x)
    return block(np.vectorize(_erf, otypes=[given.dtype])(given) if given.size else given)


def floor(x: Any) -> NumpyBlock:
    """The largest whole number that is not above."""
    return block(np.floor(x))


def abs(x: Any) -> NumpyBlock:
    """The absolute value."""
    return block(np.abs(x))


def sigmoid(x: Any) -> NumpyBlock:
    """``1 / (1 + exp(-x))``."""
    return block(1 / (1 + np.exp(-x)))


# -- along an axis


def sum(x: Any, axis: int | None = None) -> NumpyBlock:
    """The sum along an axis, or of all elements, in the type of the block."""
    given = np.asarray(x)
    terms, along = (given.reshape(-1), 0) if axis is None else (given, axis)
    return block(np.take(np.add.accumulate(terms, axis=along, dtype=_summed(given)), -1, axis=along))


def _summed(given: Any) -> Any:
    return np.int64 if given.dtype == bool else given.dtype


def max(x: Any, axis: int | None = None) -> NumpyBlock:
    """The largest element along an axis, or of all."""
    return block(np.max(x, axis=axis))


def min(x: Any, axis: int | None = None) -> NumpyBlock:
    """The least element along an axis, or of all."""
    return block(np.min(x, axis=axis))


def argmax(x: Any, axis: int) -> NumpyBlock:
    """The index of the largest element along an axis, of several the first."""
    return block(np.argmax(x, axis=axis))


def argmin(x: Any, axis: int) -> NumpyBlock:
    """The index of the least element along an axis, of several the first."""
    return block(np.argmin(x, axis=axis))


def cumsum(x: Any, axis: int = 0) -> NumpyBlock:
    """The sums of the elements up to each along an axis."""
    return block(np.cumsum(x, axis=axis, dtype=np.asarray(x).dtype))


def reduce(
    x: Any, axis: int | None, combine_fn: Callable[[Any, Any], Any], keep_dims: builtins.bool = False
) -> NumpyBlock:
    """The elements along an axis, or all, combined by a function of two, in their order.

    The function is another ``@tm.jit``, or a word: ``a + b``, ``a * b``, ``tl.maximum``, ``tl.minimum``, ``a & b`` or
    ``a | b``. With `keep_dims` the axis stays, of extent 1.
    """
    given = np.asarray(x)
    found = given.reshape(-1) if axis is None else np.moveaxis(given, axis, 0)
    total = found[0]
    for each in found[1:]:
        total = getattr(combine_fn, "function", combine_fn)(total, each)
    if keep_dims:
        total = np.reshape(total, (1,) * given.ndim) if axis is None else np.expand_dims(total, axis)
    return block(total, given.dtype)


# -- what is known, and what is not there


def multiple_of(x: Any, values: Any) -> Any:
    """The value itself, which is a multiple of a constant: for whoever loads several at once."""
    if np.any(np.asarray(x) % np.asarray(values)):
        raise ArgumentError(f"tl.multiple_of: {x} is not a multiple of {values}")
    return x


def assume(condition: Any) -> None:
    """Assume a condition on sizes: a kernel is called with no others."""
    if not np.all(condition):
        raise ArgumentError("tl.assume: the condition does not hold")


def static_assert(condition: Any, message: str = "") -> None:
    """Require a condition on constants, or the kernel is refused."""
    if not condition:
        raise ArgumentError(f"tl.static_assert: {message or 'the condition does not hold'}")


def rand(seed: Any, offset: Any) -> NumpyBlock:
    """Random float32 from 0 up to 1: those of Philox 4x32 with ten rounds, a function of seed and offset alone.

    Both are integers of 64 bits. Offsets below 2 ** 32 have the numbers that Triton gives to offsets of int32; above,
    the upper half is the second counter, so that no number comes again.
    """
    shape = np.broadcast_shapes(np.shape(seed), np.shape(offset))
    key, counter = (np.broadcast_to(each, shape).astype(np.uint64) for each in (np.asarray(seed), np.asarray(offset)))
    c = [(counter & 0xFFFFFFFF).astype(np.uint32), (counter >> 32).astype(np.uint32), *np.zeros((2, *shape), np.uint32)]
    k = [(key & 0xFFFFFFFF).astype(np.uint32), (key >> 32).astype(np.uint32)]
    for _ in builtins.range(10):
        low = np.uint64(0xD2511F53) * c[0].astype(np.uint64), np.uint64(0xCD9E8D57) * c[2].astype(np.uint64)
        high = [(each >> 32).astype(np.uint32) for each in low]
        c = [high[1] ^ c[1] ^ k[0], low[1].astype(np.uint32), high[0] ^ c[3] ^ k[1], low[0].astype(np.uint32)]
        k = [(k[0] + np.uint64(0x9E3779B9)).astype(np.uint32), (k[1] + np.uint64(0xBB67AE85)).astype(np.uint32)]
    signed = c[0].astype(np.int32)
    return block(np.where(signed < 0, -1 - signed, signed).astype(np.float32) * np.float32(4.6566127342e-10))


def make_tensor_descriptor(array: Any, shape: Any, strides: Any, block_shape: Sequence[int]) -> Any:
    """A view of an array in boxes: ``load([i, j])`` reads the box from there, zeros outside of the array."""
    return machine().descriptor(array, tuple(block_shape))
