"""The words of kernels as instructions: a method for each, called by its name in `words`."""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.types import DType, as_dtype, float32
from tiramisu_py.language import words
from tiramisu_py.language.ir.nodes import BlockType, BlockValue, Instruction, Operand
from tiramisu_py.language.ir.scalars import block_type, dtype_of
from tiramisu_py.language.running import dot_type
from tiramisu_py.language.tracing.expressions import Expressions
from tiramisu_py.language.tracing.symbols import (
    ArrayOperand,
    Method,
    Offsets,
    PlaceOf,
    TensorBoxes,
    is_operand,
    is_static,
)
from tiramisu_py.program.loops import Combine

#: Words that are a function of each element.
_FUNCTIONS = ("exp", "exp2", "log", "log2", "sqrt", "sin", "cos", "tanh", "erf", "floor", "abs")
#: Words that combine the elements along an axis, by the name of the instruction.
_REDUCTIONS = {"sum": "sum", "max": "reduce_max", "min": "reduce_min"}
#: Words that combine the elements along an axis as an instruction of two elements does.
_COMBINED = {
    "add": "sum", "mul": "reduce_mul", "max": "reduce_max", "min": "reduce_min", "and": "reduce_and", "or": "reduce_or",
}  # fmt: skip
_VOID = BlockType("void")
#: How programs add to one place.
HONOURED = (Combine.ORDERED, Combine.TWO_PASS, Combine.LAST_BLOCK, Combine.LOCK, Combine.ATOMIC)


class WordCalls(Expressions):
    """Calls of the words, of methods, and of other kernels."""

    #: The condition under which the program gets here; None for always.
    path: BlockValue | None

    def called(self, node: ast.Call, function: Any, arguments: list[Any], named: dict[str, Any]) -> Any:
        """The result of a call."""
        if isinstance(function, Method):
            return self._method(node, function, arguments, named)
        if getattr(function, "__module__", "") == words.__name__:
            word = function.__name__
            reader = getattr(self, f"_word_{word}", None)
            if word in _FUNCTIONS and len(arguments) == 1 and not named:
                return self.builder.function(word, self._operand(node, arguments[0]))
            if word in _REDUCTIONS:
                return self._along_axis(node, _REDUCTIONS[word], *arguments, **named)
            if reader is None:
                self.refuse(node, f"tl.{word} is not built yet")
            try:
                return reader(node, *arguments, **named)
            except TypeError as error:
                self.refuse(
                    node,
                    str(error)
                    .replace(f"WordCalls._word_{word}()", f"tl.{word}")
                    .replace(f"Tracer._word_{word}()", f"tl.{word}"),
                )
        if hasattr(function, "__tiramisu_source__"):
            return self.inlined(node, function, arguments, named)
        return self.builtin(node, function, arguments, named)

    @abstractmethod
    def inlined(self, node: ast.Call, function: Any, arguments: list[Any], named: dict[str, Any]) -> Any:
        """A call of another kernel, whose body is read in its place; defined with the statements."""

    def _operand(self, node: ast.AST, given: Any) -> Operand:
        if not is_operand(given):
            self.refuse(node, f"{given!r} is no value" if is_static(given) else "a place is no value: load it")
        found: Operand = given
        return found

    def _block(self, node: ast.AST, given: Any, rank: int | None = None) -> BlockValue:
        if not isinstance(given, BlockValue) or (rank is not None and len(given.type.shape) != rank):
            self.refuse(node, "a block was expected" + (f" of {rank} dimensions" if rank is not None else ""))
        return given

    # -- programs and ranges

    def _word_program_id(self, node: ast.Call, axis: int) -> BlockValue:
        return self.builder.emit("get_program_id", block_type(ty.int64), (), [self._axis(node, axis, 3)])

    def _word_num_programs(self, node: ast.Call, axis: int) -> BlockValue:
        return self.builder.emit("get_num_programs", block_type(ty.int64), (), [self._axis(node, axis, 3)])

    def _word_arange(self, node: ast.Call, start: int, end: int) -> BlockValue:
        if not (is_static(start) and is_static(end)) or not isinstance(start, int) or not isinstance(end, int):
            self.refuse(node, "the ends of tl.arange are constants: tl.constexpr arguments and numbers")
        if end <= start:
            self.refuse(node, f"tl.arange({start}, {end}) is empty")
        return self.builder.emit("make_range", block_type(ty.int64, (end - start,)), (), [start, end])

    def _word_cdiv(self, node: ast.Call, a: Any, b: Any) -> Any:
        if is_static(a) and is_static(b):
            return -(-a // b)
        above = self.combined(node, ast.Add(), a, self.combined(node, ast.Sub(), b, 1))
        return self.combined(node, ast.FloorDiv(), above, b)

    def _axis(self, node: ast.AST, axis: Any, rank: int) -> int:
        if not isinstance(axis, int) or not -rank <= axis < rank:
            self.refuse(node, f"the axis is {axis!r}; it is a number from 0 to {rank - 1}")
        return axis % rank

    # -- blocks

    def _shape(self, node: ast.AST, given: Sequence[Any]) -> tuple[int, ...]:
        whole = given[0] if len(given) == 1 and isinstance(given[0], tuple | list) else given
        if not all(isinstance(each, int) and not isinstance(each, bool) for each in whole):
            self.refuse(node, "the extents of blocks are constants: tl.constexpr arguments and numbers")
        return tuple(whole)

    def _word_zeros(self, node: ast.Call, shape: Any, dtype: Any) -> BlockValue:
        return self._word_full(node, shape, 0, dtype)

    def _word_full(self, node: ast.Call, shape: Any, value: Any, dtype: Any) -> BlockValue:
        found = as_dtype(dtype)
        own = self.builder.cast(self._operand(node, value), found)
        return self.builder.emit("splat", block_type(found, self._shape(node, [shape])), [own])

    def _place(self, node: ast.Call, given: Any) -> PlaceOf:
        if isinstance(given, ArrayOperand):
            return PlaceOf(given, (0,) * given.rank)
        if isinstance(given, Offsets):
            return PlaceOf(given.array, given.indices)
        if not isinstance(given, PlaceOf):
            self.refuse(node, "the place is an element or a block of an array: A[i, j], or A + i * A.stride(0) + j")
        return given

    def _pointers(self, place: PlaceOf, shape: tuple[int, ...]) -> BlockValue:
        pointer = BlockType(place.array.value.type.scalar, shape)
        indices = [self.builder.broadcast(each, shape) for each in place.indices]
        return self.builder.emit("getelementptr", pointer, [place.array.value, *indices])

    def _masked(self, node: ast.AST, mask: Any) -> Operand:
        """A mask together with the condition under which the program gets here; True for none."""
        given = True if mask is None else self._operand(node, mask)
        if not dtype_of(given).is_bool:
            self.refuse(node, f"mask= is {dtype_of(given)}, not a condition")
        if self.path is None:
            return given
        return self.path if given is True else self.builder.binary("&", self.path, given)

    def _word_load(self, node: ast.Call, place: Any, mask: Any = None, other: Any = None, **hints: Any) -> BlockValue:
        found = self._place(node, place)
        self._check_hints(node, hints)
        dtype = dtype_of(found.array.value)
        if mask is not None and mask is not True and other is None:
            self.refuse(node, "the load has a mask and no other=: give the value of masked lanes, such as other=0")
        wanted = self._masked(node, mask)
        shape = self.builder.common_shape(*found.indices, wanted)
        type_ = block_type(dtype, shape)
        pointers = self._pointers(found, shape)
        if wanted is True:
            return self.builder.emit("load", type_, [pointers])
        own = self.builder.broadcast(
            self.builder.cast(self._operand(node, 0 if other is None else other), dtype), shape
        )
        return self.builder.emit("masked_load", type_, [pointers, self.builder.broadcast(wanted, shape), own])

    def _check_hints(self, node: ast.AST, hints: dict[str, Any]) -> None:
        known = ("cache_modifier", "eviction_policy", "volatile")
        wrong = [name for name in hints if name not in known]
        if wrong:
            self.refuse(node, f"tl.load has no argument {wrong[0]}")

    def _stored(self, node: ast.Call, op: str, place: Any, value: Any, mask: Any, attributes: Sequence[str]) -> None:
        found = self._place(node, place)
        wanted, given = self._masked(node, mask), self._operand(node, value)
        shape = self.builder.common_shape(*found.indices)
        everything = self.builder.common_shape(*found.indices, given, wanted)
        if everything != shape:
            self.refuse(
                node, f"a block of shape {list(everything)} is stored at a place of shape {list(shape)}: several "
                "elements would go to one"
            )  # fmt: skip
        own = self.builder.broadcast(self.builder.cast(given, dtype_of(found.array.value)), shape)
        operands = [self._pointers(found, shape), own]
        if wanted is True:
            self.builder.effect(op, _VOID, operands, attributes)
        else:
            self.builder.effect(f"masked_{op}", _VOID, [*operands, self.builder.broadcast(wanted, shape)], attributes)

    def _word_store(self, node: ast.Call, place: Any, value: Any, mask: Any = None, **hints: Any) -> None:
        self._check_hints(node, hints)
        self._stored(node, "store", place, value, mask, ())

    def _word_accumulate(self, node: ast.Call, place: Any, value: Any, mask: Any = None, combine: Any = None) -> None:
        if combine not in HONOURED:
            known = ", ".join(f"tm.{each.name}" for each in HONOURED[:-1])
            self.refuse(node, f"combine={combine!r}: give {known} or tm.{HONOURED[-1].name}")
        self._stored(node, "accumulate", place, value, mask, [combine.value])

    def _word_atomic_add(self, node: ast.Call, place: Any, value: Any, mask: Any = None, **_: Any) -> None:
        self._word_accumulate(node, place, value, mask, Combine.ATOMIC)

    def _word_dot(
        self, node: ast.Call, a: Any, b: Any, acc: Any = None, *, input_precision: str = "ieee"
    ) -> BlockValue:
        return self.product(node, a, b, acc, input_precision)

    def product(self, node: ast.AST, a: Any, b: Any, acc: Any, precision: str) -> BlockValue:
        """The product of two blocks, added to `acc`."""
        left, right = self._block(node, a, 2), self._block(node, b, 2)
        (rows, inner), (terms, columns) = left.type.shape, right.type.shape
        if inner != terms:
            self.refuse(
                node, f"the product of blocks of shapes {[rows, inner]} and {[terms, columns]}: {inner} is not {terms}"
            )
        if dtype_of(left) != dtype_of(right):
            self.refuse(node, f"the product of {dtype_of(left)} and {dtype_of(right)}: convert one with .to(...)")
        if precision not in ("ieee", "tf32"):
            self.refuse(node, f'input_precision={precision!r}: give "ieee" or "tf32"')
        if precision == "tf32" and dtype_of(left) != float32:
            self.refuse(node, f'input_precision="tf32" is for factors of float32: leave it out for {dtype_of(left)}')
        attributes = [precision] if precision == "tf32" else []
        result = block_type(as_dtype(dot_type(dtype_of(left).numpy)), (rows, columns))
        if acc is None:
            return self.builder.emit("dot", result, [left, right], attributes=attributes)
        total = self._block(node, acc, 2)
        if total.type != result:
            self.refuse(node, f"the product is {result}, and is added to {total.type}")
        return self.builder.emit("dot", result, [left, right, total], attributes=attributes)

    def _word_trans(self, node: ast.Call, x: Any, *order: int) -> BlockValue:
        block = self._block(node, x)
        return self.transposed(block, order or tuple(reversed(range(len(block.type.shape)))))

    def _word_permute(self, node: ast.Call, x: Any, *order: Any) -> BlockValue:
        return self.transposed(self._block(node, x), self._shape(node, order))

    def _word_reshape(self, node: ast.Call, x: Any, *shape: Any) -> BlockValue:
        return self.builder.reshape(self._block(node, x), self._shape(node, shape))

    def _word_expand_dims(self, node: ast.Call, x: Any, axis: int) -> BlockValue:
        block = self._block(node, x)
        shape = list(block.type.shape)
        shape.insert(self._axis(node, axis, len(shape) + 1), 1)
        return self.builder.reshape(block, tuple(shape))

    def _word_broadcast_to(self, node: ast.Call, x: Any, *shape: Any) -> Operand:
        wanted = self._shape(node, shape)
        block = self._block(node, x)
        if self.builder.common_shape(block, BlockValue("", BlockType("i1", wanted))) != wanted:
            self.refuse(node, f"a block of shape {list(block.type.shape)} is not broadcast to {list(wanted)}")
        return self.builder.broadcast(block, wanted)

    def _word_join(self, node: ast.Call, a: Any, b: Any) -> BlockValue:
        shape, both = self.builder.together(self._operand(node, a), self._operand(node, b))
        common = ty.promote(dtype_of(both[0]), dtype_of(both[1]))
        return self.builder.emit(
            "join", block_type(common, (*shape, 2)), [self.builder.cast(each, common) for each in both]
        )

    def _word_split(self, node: ast.Call, x: Any) -> tuple[BlockValue, BlockValue]:
        block = self._block(node, x)
        if not block.type.shape or block.type.shape[-1] != 2:
            self.refuse(node, f"tl.split cuts a last dimension of extent 2, and the shape is {list(block.type.shape)}")
        type_ = replace(block.type, shape=block.type.shape[:-1])
        return self.builder.emit("part", type_, [block], [0]), self.builder.emit("part", type_, [block], [1])

    def _word_unravel_index(self, node: ast.Call, number: Any, shape: Any) -> tuple[Any, ...]:
        found: list[Any] = []
        for extent in reversed(tuple(shape)[1:]):
            found.append(self.combined(node, ast.Mod(), number, extent))
            number = self.combined(node, ast.FloorDiv(), number, extent)
        return (number, *reversed(found))

    def _word_swizzle2d(
        self, node: ast.Call, i: Any, j: Any, size_i: Any, size_j: Any, size_g: Any
    ) -> tuple[BlockValue, BlockValue]:
        if not isinstance(size_g, int) or isinstance(size_g, bool) or size_g < 1:
            self.refuse(node, "the group of tl.swizzle2d is a constant of at least 1")
        operands = [self._operand(node, each) for each in (i, j, size_i, size_j)]
        made = block_type(ty.int64)
        row = self.builder.emit("swizzle2d", made, operands, [size_g, 0])
        return row, self.builder.emit("swizzle2d", made, operands, [size_g, 1])

    # -- element by element

    def _word_where(self, node: ast.Call, condition: Any, yes: Any, no: Any) -> Operand:
        return self.builder.select(*(self._operand(node, each) for each in (condition, yes, no)))

    def _word_maximum(self, node: ast.Call, a: Any, b: Any) -> Operand:
        return self.builder.binary("max", self._operand(node, a), self._operand(node, b))

    def _word_minimum(self, node: ast.Call, a: Any, b: Any) -> Operand:
        return self.builder.binary("min", self._operand(node, a), self._operand(node, b))

    def _word_rsqrt(self, node: ast.Call, x: Any) -> Operand:
        return self.builder.binary("/", 1, self.builder.function("sqrt", self._operand(node, x)))

    def _word_sigmoid(self, node: ast.Call, x: Any) -> Operand:
        b = self.builder
        power = b.function("exp", b.binary("-", 0, self._operand(node, x)))
        return b.binary("/", 1, b.binary("+", 1, power))

    def _word_rand(self, node: ast.Call, seed: Any, offset: Any) -> BlockValue:
        b, given = self.builder, [self._operand(node, each) for each in (seed, offset)]
        for each, name in zip(given, ("seed", "offset"), strict=True):
            if isinstance(each, bool) or not dtype_of(each).is_integer:
                self.refuse(node, f"the {name} of tl.rand is {dtype_of(each)}: give an integer")
        shape, both = b.together(*given)
        return b.emit("rand", block_type(float32, shape), both)

    # -- along an axis

    def _word_reduce(self, node: ast.Call, x: Any, axis: Any, combine_fn: Any, keep_dims: bool = False) -> BlockValue:
        if isinstance(x, tuple | list):
            self.refuse(node, "tl.reduce takes one block: of values and their places tl.argmax and tl.argmin")
        block = self._block(node, x)
        found = self._along_axis(node, self._combining(node, combine_fn, dtype_of(block)), block, axis)
        if not keep_dims:
            return found
        rank = len(block.type.shape)
        kept = range(rank) if axis is None else (self._axis(node, axis, rank),)
        return self.builder.reshape(found, tuple(1 if k in kept else e for k, e in enumerate(block.type.shape)))

    def _combining(self, node: ast.Call, function: Any, dtype: DType) -> str:
        """The instruction that combines the elements along an axis as a function of two elements does."""
        b, names = self.builder, self.builder.names()
        with b.inside() as nodes:
            left, right = b.value("left", block_type(dtype)), b.value("right", block_type(dtype))
            found = self.called(node, function, [left, right], {})
        b.forget(names)
        last = nodes[0] if len(nodes) == 1 else None
        if (
            not isinstance(last, Instruction) or last.result is not found
            or last.op not in _COMBINED or {*last.operands} != {left, right}
        ):  # fmt: skip
            self.refuse(
                node, f"{ast.unparse(node.args[2] if len(node.args) > 2 else node)} is not known to be associative: "
                "combine two elements by a + b, a * b, tl.maximum, tl.minimum, a & b or a | b alone, and do the rest "
                "before or after"
            )  # fmt: skip
        if dtype.is_bool and last.op in ("add", "mul"):
            self.refuse(node, "the block is of conditions: combine them by a & b or a | b, or count with .to(tl.int32)")
        return _COMBINED[last.op]

    def _along_axis(self, node: ast.Call, op: str, x: Any, axis: Any = None) -> BlockValue:
        block = self._block(node, x)
        if not block.type.shape:
            self.refuse(node, "a scalar has no axis")
        if axis is None:
            flat = self.builder.reshape(block, (int(_product(block.type.shape)),))
            return self._along_axis(node, op, flat, 0)
        along = self._axis(node, axis, len(block.type.shape))
        dtype = dtype_of(block)
        dtype = ty.int64 if op == "sum" and dtype.is_bool else dtype
        shape = block.type.shape[:along] + block.type.shape[along + 1 :]
        return self.builder.emit(op, block_type(dtype, shape), [self.builder.cast(block, dtype)], [along])

    def _word_argmax(self, node: ast.Call, x: Any, axis: int) -> BlockValue:
        return self._end_along(node, "argmax", x, axis)

    def _word_argmin(self, node: ast.Call, x: Any, axis: int) -> BlockValue:
        return self._end_along(node, "argmin", x, axis)

    def _end_along(self, node: ast.Call, op: str, x: Any, axis: int) -> BlockValue:
        block = self._block(node, x)
        along = self._axis(node, axis, len(block.type.shape))
        shape = block.type.shape[:along] + block.type.shape[along + 1 :]
        return self.builder.emit(op, block_type(ty.int64, shape), [block], [along])

    def _word_cumsum(self, node: ast.Call, x: Any, axis: int = 0) -> BlockValue:
        block = self._block(node, x)
        return self.builder.emit("cumsum", block.type, [block], [self._axis(node, axis, len(block.type.shape))])

    # -- what is known

    def _word_multiple_of(self, node: ast.Call, x: Any, values: Any) -> Any:
        return x

    def _word_static_assert(self, node: ast.Call, condition: Any, message: str = "") -> None:
        if not is_static(condition):
            self.refuse(node, "tl.static_assert is for constants; of sizes say tl.assume(...)")
        if not condition:
            self.refuse(node, f"tl.static_assert does not hold{': ' + message if message else ''}")

    def _word_assume(self, node: ast.Call, condition: Any) -> None:
        if is_static(condition):
            return self._word_static_assert(node, condition)
        self.builder.effect("assume", _VOID, [self.condition(node, condition)])
        return None

    def _word_make_tensor_descriptor(
        self, node: ast.Call, array: Any, shape: Any = None, strides: Any = None, block_shape: Any = None
    ) -> TensorBoxes:
        if not isinstance(array, ArrayOperand):
            self.refuse(node, "tl.make_tensor_descriptor takes an array of the kernel")
        box = self._shape(node, [block_shape])
        if len(box) != array.rank:
            self.refuse(node, f"the array {array.name} has {array.rank} dimensions, and block_shape has {len(box)}")
        return TensorBoxes(array, box)

    # -- methods

    def _method(self, node: ast.Call, method: Method, arguments: list[Any], named: dict[str, Any]) -> Any:
        if method.name == "to":
            wanted = [*arguments, *named.values()]
            if len(wanted) != 1 or not isinstance(wanted[0], DType | str | type):
                self.refuse(node, ".to takes a type: x.to(tl.float16)")
            return self.builder.cast(method.of, as_dtype(wanted[0]))
        if method.name == "stride":
            return self._stride(node, method.of, *arguments)
        start = arguments[0] if arguments else ()
        place, inside = self._box(node, method.of, tuple(start))
        if method.name == "load":
            return self._word_load(node, place, inside, 0)
        return self._word_store(node, place, arguments[1], inside)

    def _stride(self, node: ast.Call, of: ArrayOperand, axis: Any = None) -> Any:
        return self.stride_of(of, self._axis(node, axis, of.rank))

    @abstractmethod
    def stride_of(self, of: ArrayOperand, axis: int) -> Any:
        """The distance of neighbours along an axis; defined with the statements."""

    def _box(self, node: ast.Call, boxes: TensorBoxes, start: Sequence[Any]) -> tuple[PlaceOf, Operand]:
        """The place of a box from here on, and the condition that an element is inside of the array."""
        b, rank, indices, inside = self.builder, len(boxes.shape), list[Operand](), None
        if len(start) != rank:
            self.refuse(node, f"the box begins at {rank} indices, {len(start)} were given")
        for axis, (begin, extent) in enumerate(zip(start, boxes.shape, strict=True)):
            along = b.emit("make_range", block_type(ty.int64, (extent,)), (), [0, extent])
            shape = tuple(extent if k == axis else 1 for k in range(rank))
            index = b.binary("+", self._operand(node, begin), b.reshape(along, shape))
            low, high = b.binary(">=", index, 0), b.binary("<", index, self.extent(boxes.array, axis))
            own = b.binary("&", low, high)
            inside = own if inside is None else b.binary("&", inside, own)
            indices.append(index)
        assert inside is not None
        return PlaceOf(boxes.array, tuple(indices)), inside


def _product(shape: Sequence[int]) -> int:
    found = 1
    for extent in shape:
        found *= extent
    return found
