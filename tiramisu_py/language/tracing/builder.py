"""Instructions are emitted here: operands get one type and one shape, as in NumPy, by explicit instructions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import prod

from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import BITWISE, COMPARISONS
from tiramisu_py.algorithm.types import DType
from tiramisu_py.errors import DTypeError
from tiramisu_py.language.ir.nodes import BlockType, BlockValue, Instruction, Node, Operand
from tiramisu_py.language.ir.scalars import block_type, dtype_of, shape_of

#: The instruction of each operator.
OPERATORS = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "//": "floordiv", "%": "rem", "**": "pow", "min": "min",
    "max": "max", "&": "and", "|": "or", "^": "xor", "<<": "shl", ">>": "shr", "<": "lt", "<=": "le", ">": "gt",
    ">=": "ge", "==": "eq", "!=": "ne",
}  # fmt: skip


class Builder:
    """The instructions of a kernel, as they are emitted; one list a loop body."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.line = 0
        self._names: dict[str, int] = {}
        self._count = 0

    # -- names and blocks of instructions

    def value(self, name: str, type_: BlockType) -> BlockValue:
        """A new value with this name, or with a similar one if the name is taken."""
        count = self._names.get(name, 0)
        self._names[name] = count + 1
        if not count:
            return BlockValue(name, type_)
        return self.value(f"{name}_{count}", type_)

    def names(self) -> dict[str, int]:
        """The names that are taken so far."""
        return dict(self._names)

    def forget(self, names: dict[str, int]) -> None:
        """Take back the names that have been given since; what had them is read again."""
        self._names = dict(names)

    @contextmanager
    def inside(self) -> Iterator[list[Node]]:
        """A body of its own, for a loop."""
        before, self.nodes = self.nodes, []
        try:
            yield self.nodes
        finally:
            self.nodes = before

    def emit(
        self,
        op: str,
        type_: BlockType,
        operands: Sequence[Operand] = (),
        static: Sequence[int] = (),
        attributes: Sequence[str] = (),
    ) -> BlockValue:
        """An instruction with a result."""
        self._count += 1
        result = self.value(f"%{self._count}", type_)
        self.nodes.append(Instruction(op, type_, tuple(operands), result, tuple(static), tuple(attributes), self.line))
        return result

    def effect(self, op: str, type_: BlockType, operands: Sequence[Operand], attributes: Sequence[str] = ()) -> None:
        """An instruction without a result."""
        self.nodes.append(Instruction(op, type_, tuple(operands), None, (), tuple(attributes), self.line))

    def named(self, value: BlockValue, name: str) -> BlockValue:
        """The value of the last instruction under the name of the variable that it is assigned to."""
        last = self.nodes[-1] if self.nodes else None
        if not isinstance(last, Instruction) or last.result is not value or not value.name.startswith("%"):
            return value
        own = self.value(name, value.type)
        self.nodes[-1] = replace(last, result=own)
        return own

    # -- types and shapes

    def cast(self, operand: Operand, dtype: DType) -> Operand:
        """An operand in another type; numbers are converted at once."""
        if not isinstance(operand, BlockValue):
            if dtype.is_float:
                return float(operand)
            if dtype.is_bool:
                return bool(operand)
            if isinstance(operand, float) and not operand.is_integer():
                raise DTypeError(f"the number {operand} is no {dtype}")
            return int(operand)
        if dtype_of(operand) == dtype:
            return operand
        return self.emit("cast", block_type(dtype, shape_of(operand)), [operand])

    def reshape(self, operand: BlockValue, shape: tuple[int, ...]) -> BlockValue:
        """The elements in another shape; raises `DTypeError` for another number of elements."""
        if operand.type.shape == shape:
            return operand
        if prod(operand.type.shape) != prod(shape):
            raise DTypeError(f"a block of shape {list(operand.type.shape)} has not the elements of {list(shape)}")
        return self.emit("reshape", replace(operand.type, shape=shape), [operand])

    def broadcast(self, operand: Operand, shape: tuple[int, ...]) -> Operand:
        """An operand in a larger shape: padded with dimensions of extent 1, which are repeated."""
        if not isinstance(operand, BlockValue) or operand.type.shape == shape:
            return operand
        if not operand.type.shape:
            return self.emit("splat", replace(operand.type, shape=shape), [operand])
        own = (1,) * (len(shape) - len(operand.type.shape)) + operand.type.shape
        padded = self.reshape(operand, own)
        return padded if own == shape else self.emit("broadcast", replace(operand.type, shape=shape), [padded])

    def common_shape(self, *operands: Operand) -> tuple[int, ...]:
        """The shape in which operands are combined; raises `DTypeError` if there is none."""
        shapes = [shape_of(each) for each in operands]
        rank = max(map(len, shapes), default=0)
        padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
        found = []
        for extents in zip(*padded, strict=True):
            wide = {extent for extent in extents if extent != 1}
            if len(wide) > 1:
                words = " and ".join(str(list(shape)) for shape in dict.fromkeys(shapes) if shape)
                raise DTypeError(
                    f"blocks of shapes {words} do not fit together: extents are equal, or one of them is 1"
                )
            found.append(wide.pop() if wide else 1)
        return tuple(found)

    def together(self, *operands: Operand) -> tuple[tuple[int, ...], list[Operand]]:
        """Operands in one shape, and the shape."""
        shape = self.common_shape(*operands)
        return shape, [self.broadcast(each, shape) for each in operands]

    # -- operators

    def binary(self, op: str, left: Operand, right: Operand) -> Operand:
        """An operator of two operands, with NumPy's types; raises `DTypeError`."""
        common = ty.promote(dtype_of(left), dtype_of(right))
        if op in BITWISE and not (common.is_integer or common.is_bool):
            raise DTypeError(f"{op} needs integers or conditions, not {dtype_of(left)} and {dtype_of(right)}")
        if op == "/":
            common = ty.divided(common)
        if common.is_bool and op in ("-", "<<", ">>", "//", "%", "**"):
            raise DTypeError(f"{op} is of numbers, and both operands are conditions")
        shape, (a, b) = self.together(self.cast(left, common), self.cast(right, common))
        result = ty.bool_ if op in COMPARISONS else common
        return self.emit(OPERATORS[op], block_type(result, shape), [a, b])

    def unary(self, op: str, operand: BlockValue) -> BlockValue:
        """Negation or complement."""
        dtype = dtype_of(operand)
        if (op == "-" and dtype.is_bool) or (op == "~" and dtype.is_float):
            raise DTypeError(f"{op} of {dtype}: - is of numbers, ~ of conditions and integers")
        return self.emit("neg" if op == "-" else "not", operand.type, [operand])

    def select(self, condition: Operand, yes: Operand, no: Operand) -> Operand:
        """`yes` where a condition holds, else `no`."""
        if not dtype_of(condition).is_bool:
            raise DTypeError(f"the condition is {dtype_of(condition)}, not bool: compare it with something")
        common = ty.promote(dtype_of(yes), dtype_of(no))
        shape, (test, a, b) = self.together(condition, self.cast(yes, common), self.cast(no, common))
        return self.emit("select", block_type(common, shape), [test, a, b])

    def function(self, name: str, operand: Operand) -> Operand:
        """A mathematical function, element by element; integers become float64 first, as in NumPy."""
        dtype = dtype_of(operand)
        if name != "abs" and not dtype.is_float:
            dtype = ty.weak_float if dtype.weak else ty.float64
        return self.emit(name, block_type(dtype, shape_of(operand)), [self.cast(operand, dtype)])
