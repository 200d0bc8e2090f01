"""The expressions of a kernel: each node of the syntax tree becomes a constant, a value or a place."""

from __future__ import annotations

import ast
import builtins
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from types import BuiltinFunctionType, ModuleType
from typing import Any, NoReturn

from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.types import DType
from tiramisu_py.errors import TiramisuError
from tiramisu_py.language.ir.nodes import BlockValue, Operand
from tiramisu_py.language.ir.scalars import block_type, dtype_of, shape_of
from tiramisu_py.language.tracing.builder import Builder
from tiramisu_py.language.tracing.source import BlockSource
from tiramisu_py.language.tracing.symbols import (
    ArrayOperand,
    Method,
    Offsets,
    PlaceOf,
    Stride,
    TensorBoxes,
    Undefined,
    is_operand,
    is_static,
)

_BINARY: dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("+", operator.add), ast.Sub: ("-", operator.sub), ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv), ast.FloorDiv: ("//", operator.floordiv), ast.Mod: ("%", operator.mod),
    ast.Pow: ("**", operator.pow), ast.BitAnd: ("&", operator.and_), ast.BitOr: ("|", operator.or_),
    ast.BitXor: ("^", operator.xor), ast.LShift: ("<<", operator.lshift), ast.RShift: (">>", operator.rshift),
}  # fmt: skip
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert,
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Lt: ("<", operator.lt), ast.LtE: ("<=", operator.le), ast.Gt: (">", operator.gt), ast.GtE: (">=", operator.ge),
    ast.Eq: ("==", operator.eq), ast.NotEq: ("!=", operator.ne), ast.Is: ("is", operator.is_),
    ast.IsNot: ("is not", operator.is_not),
}  # fmt: skip
#: Functions of Python that a kernel may call with constants.
_BUILTINS = (float, int, bool, min, max, len, abs, range)


class Expressions(ABC):
    """Reads expressions of one source, with the names of one scope."""

    source: BlockSource
    builder: Builder
    scope: dict[str, Any]

    def refuse(self, node: ast.AST, why: str) -> NoReturn:
        """Raises `SourceError` about a node."""
        raise self.source.refusal(node, why)

    def read(self, node: ast.expr) -> Any:
        """The meaning of an expression; raises `SourceError` with the line for what has no meaning in a kernel."""
        reader = getattr(self, f"_read_{type(node).__name__}", None)
        if reader is None:
            self.refuse(node, f"{type(node).__name__} has no meaning in a kernel")
        before, self.builder.line = self.builder.line, self.source.line(node)
        try:
            return reader(node)
        except TiramisuError as error:
            raise self.source.located(node, error) from None
        except (TypeError, ValueError, ZeroDivisionError, AttributeError, IndexError, OverflowError) as error:
            self.refuse(node, str(error))
        finally:
            self.builder.line = before

    # -- leaves

    def _read_Constant(self, node: ast.Constant) -> Any:
        return node.value

    def _read_Tuple(self, node: ast.Tuple) -> Any:
        return tuple(self.read(each) for each in node.elts)

    def _read_List(self, node: ast.List) -> Any:
        return [self.read(each) for each in node.elts]

    def _read_Name(self, node: ast.Name) -> Any:
        if node.id in self.scope:
            found = self.scope[node.id]
            if isinstance(found, Undefined):
                self.refuse(node, f"{node.id} has no value here: {found.why}")
            return found
        function = self.source.function
        if node.id in function.__code__.co_freevars:
            self.refuse(
                node,
                f"{node.id} belongs to the function around the kernel: pass it as an argument, {node.id}: tl.constexpr",
            )
        known = function.__globals__
        if node.id not in known and not hasattr(builtins, node.id):
            self.refuse(node, f"there is nothing called {node.id}")
        found = known[node.id] if node.id in known else getattr(builtins, node.id)
        is_code = isinstance(found, ModuleType | type | Enum | DType | BuiltinFunctionType) or callable(found)
        if not is_code:
            self.refuse(
                node,
                f"{node.id} is a variable of the module, {found!r}: pass it as an argument, {node.id}: tl.constexpr",
            )
        return found

    def _read_Attribute(self, node: ast.Attribute) -> Any:
        of = self.read(node.value)
        if isinstance(of, BlockValue):
            return self._of_value(node, of)
        if isinstance(of, ArrayOperand):
            return self._of_array(node, of)
        if isinstance(of, TensorBoxes) and node.attr in ("load", "store"):
            return Method(of, node.attr)
        if isinstance(of, ModuleType) and not hasattr(of, node.attr):
            self.refuse(node, f"there is no word {ast.unparse(node)}")
        if not is_static(of) or not hasattr(of, node.attr):
            self.refuse(node, f"{ast.unparse(node.value)} has no attribute {node.attr}")
        return getattr(of, node.attr)

    def _of_value(self, node: ast.Attribute, of: BlockValue) -> Any:
        match node.attr:
            case "shape":
                return of.type.shape
            case "dtype":
                return dtype_of(of)
            case "T":
                return self.transposed(of, tuple(reversed(range(len(of.type.shape)))))
            case "to":
                return Method(of, "to")
        raise self.source.refusal(node, f"a block has shape, dtype, T and to(dtype), and no {node.attr}")

    def _of_array(self, node: ast.Attribute, of: ArrayOperand) -> Any:
        match node.attr:
            case "shape":
                return tuple(self.extent(of, axis) for axis in range(of.rank))
            case "dtype":
                return dtype_of(of.value)
            case "stride":
                return Method(of, "stride")
        raise self.source.refusal(node, f"the array {of.name} has shape, dtype and stride(axis), and no {node.attr}")

    def extent(self, of: ArrayOperand, axis: int) -> BlockValue:
        """The extent of an array along an axis."""
        return self.builder.emit("extent", block_type(ty.weak_int), [of.value], [axis])

    def transposed(self, of: BlockValue, order: tuple[int, ...]) -> BlockValue:
        """A block with its dimensions in another order."""
        if sorted(order) != list(range(len(of.type.shape))):
            raise TypeError(f"{list(order)} is no order of the {len(of.type.shape)} dimensions")
        shape = tuple(of.type.shape[axis] for axis in order)
        return self.builder.emit("trans", replace(of.type, shape=shape), [of], order)

    # -- operators

    def _read_UnaryOp(self, node: ast.UnaryOp) -> Any:
        operand = self.read(node.operand)
        if isinstance(node.op, ast.Not):
            if is_static(operand):
                return not operand
            return self.builder.unary("~", self.condition(node.operand, operand))
        if is_static(operand):
            return _UNARY[type(node.op)](operand)
        if not isinstance(operand, BlockValue):
            self.refuse(node, f"{ast.unparse(node.operand)} is a place, not a value: load it")
        if isinstance(node.op, ast.UAdd):
            return operand
        return self.builder.unary("-" if isinstance(node.op, ast.USub) else "~", operand)

    def _read_BinOp(self, node: ast.BinOp) -> Any:
        left, right = self.read(node.left), self.read(node.right)
        if isinstance(node.op, ast.MatMult):
            return self.product(node, left, right, None, "ieee")
        return self.combined(node, node.op, left, right)

    @abstractmethod
    def product(self, node: ast.AST, a: Any, b: Any, acc: Any, precision: str) -> Any:
        """The product of two blocks; defined with the words."""

    def combined(self, node: ast.AST, op: ast.operator, left: Any, right: Any) -> Any:
        """An operator of constants, values, or an array and distances in it."""
        if type(op) not in _BINARY:
            self.refuse(node, f"{type(op).__name__} has no meaning in a kernel")
        sign, function = _BINARY[type(op)]
        if is_static(left) and is_static(right):
            return function(left, right)
        if is_operand(left) and is_operand(right):
            return self.builder.binary(sign, left, right)
        return self._in_array(node, sign, left, right)

    def _in_array(self, node: ast.AST, op: str, left: Any, right: Any) -> Any:
        """Arithmetic of places: ``A + rows * A.stride(0) + columns``."""
        if op == "*":
            stride, amount = (left, right) if isinstance(left, Stride) else (right, left)
            if isinstance(stride, Stride) and is_operand(amount):
                return self._along(stride.array, stride.axis, amount)
        if op in ("+", "-"):
            sides = [self._as_offsets(each, left, right) for each in (left, right)]
            arrays = {id(each.array) for each in sides if each is not None}
            if None not in sides and len(arrays) == 1:
                first, second = sides
                indices = [self._plus(op, a, b) for a, b in zip(first.indices, second.indices, strict=True)]  # type: ignore[union-attr]
                is_place = any(isinstance(each, ArrayOperand | PlaceOf) for each in (left, right))
                return (PlaceOf if is_place else Offsets)(first.array, tuple(indices))  # type: ignore[union-attr]
        raise self.source.refusal(
            node, "a place is an array plus distances in it: A[i, j], or A + i * A.stride(0) + j * A.stride(1)"
        )

    def _as_offsets(self, given: Any, *beside: Any) -> Offsets | PlaceOf | None:
        if isinstance(given, Offsets | PlaceOf):
            return given
        if isinstance(given, ArrayOperand):
            return Offsets(given, (0,) * given.rank)
        arrays = [each if isinstance(each, ArrayOperand) else each.array for each in beside
                  if isinstance(each, ArrayOperand | Offsets | PlaceOf | Stride)]  # fmt: skip
        if isinstance(given, Stride):
            return self._along(given.array, given.axis, 1)
        return self._along(arrays[0], arrays[0].rank - 1, given) if is_operand(given) and arrays else None

    def _along(self, array: ArrayOperand, axis: int, amount: Operand) -> Offsets:
        return Offsets(array, tuple(amount if k == axis else 0 for k in range(array.rank)))

    def _plus(self, op: str, a: Operand, b: Operand) -> Operand:
        if not isinstance(b, BlockValue) and b == 0:
            return a
        if not isinstance(a, BlockValue) and a == 0 and op == "+":
            return b
        if not isinstance(a, BlockValue) and not isinstance(b, BlockValue):
            return a + b if op == "+" else a - b  # type: ignore[operator]
        return self.builder.binary(op, a, b)

    def _read_Compare(self, node: ast.Compare) -> Any:
        left, found = self.read(node.left), None
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            if type(op) not in _COMPARE:
                self.refuse(node, f"{type(op).__name__} has no meaning in a kernel")
            right = self.read(right_node)
            sign, function = _COMPARE[type(op)]
            if (is_static(left) and is_static(right)) or sign.startswith("is"):
                test: Any = function(left, right)
            elif is_operand(left) and is_operand(right):
                test = self.builder.binary(sign, left, right)
            else:
                self.refuse(node, "places are not compared: load the values")
            found = test if found is None else self._both(found, test, "&")
            left = right
        return found

    def _both(self, a: Any, b: Any, op: str) -> Any:
        if is_static(a) and is_static(b):
            return (a and b) if op == "&" else (a or b)
        return self.builder.binary(op, a, b)

    def _read_BoolOp(self, node: ast.BoolOp) -> Any:
        is_and, found = isinstance(node.op, ast.And), None
        for each in node.values:
            value = self.read(each)
            if is_static(value):
                if bool(value) != is_and:
                    return value if found is None else not is_and
                found = value if found is None else found
                continue
            test = self.condition(each, value)
            found = test if found is None or is_static(found) else self._both(found, test, "&" if is_and else "|")
        return found

    def condition(self, node: ast.AST, value: Any) -> BlockValue:
        """A condition of the whole program; raises `SourceError` for a block or a number."""
        if not isinstance(value, BlockValue) or not dtype_of(value).is_bool:
            self.refuse(node, f"{ast.unparse(node)} is no condition: compare it with something")
        if value.type.shape:
            self.refuse(
                node, f"{ast.unparse(node)} is a block of {list(value.type.shape)} conditions: choose with tl.where, "
                "or restrict loads and stores with mask="
            )  # fmt: skip
        return value

    def _read_IfExp(self, node: ast.IfExp) -> Any:
        test = self.read(node.test)
        if is_static(test):
            return self.read(node.body if test else node.orelse)
        chosen = self.condition(node.test, test)
        yes, no = self.read(node.body), self.read(node.orelse)
        if not is_operand(yes) or not is_operand(no):
            self.refuse(node, "both sides are values")
        return self.builder.select(chosen, yes, no)

    # -- indices

    def _read_Slice(self, node: ast.Slice) -> Any:
        parts = [None if each is None else self.read(each) for each in (node.lower, node.upper, node.step)]
        return slice(*parts)

    def _read_Subscript(self, node: ast.Subscript) -> Any:
        of, index = self.read(node.value), self.read(node.slice)
        if isinstance(of, ArrayOperand):
            return self._element(node, of, index)
        if isinstance(of, BlockValue):
            return self._expanded(node, of, index if isinstance(index, tuple) else (index,))
        if is_static(index) and isinstance(of, tuple | list):
            return of[index]
        raise self.source.refusal(node, f"{ast.unparse(node.value)} has no elements")

    def _element(self, node: ast.Subscript, of: ArrayOperand, index: Any) -> PlaceOf:
        indices = index if isinstance(index, tuple) else (index,)
        if len(indices) != of.rank:
            self.refuse(node, f"the array {of.name} has {of.rank} indices, {len(indices)} were given")
        for each in indices:
            if not is_operand(each) or isinstance(each, bool) or not dtype_of(each).is_integer:
                self.refuse(node, f"an index of {of.name} is an integer or a block of integers, not {_word(each)}")
        return PlaceOf(of, tuple(indices))

    def _expanded(self, node: ast.Subscript, of: BlockValue, index: tuple[Any, ...]) -> BlockValue:
        """``x[:, None]``: further dimensions of extent 1; anything else would cut a block."""
        shape, left = [], list(of.type.shape)
        for each in index:
            if each is None:
                shape.append(1)
            elif isinstance(each, slice) and each == slice(None) and left:
                shape.append(left.pop(0))
            else:
                self.refuse(
                    node, f"{ast.unparse(node)} takes a part of a block, which belongs to other threads: choose with "
                    "tl.where and a reduction, or cut it with reshape and split; [:, None] adds a dimension"
                )  # fmt: skip
        return self.builder.reshape(of, (*shape, *left))

    # -- calls

    def _read_Call(self, node: ast.Call) -> Any:
        function = self.read(node.func)
        arguments = [self.read(each) for each in node.args]
        if any(each.arg is None for each in node.keywords):
            self.refuse(node, "** has no meaning in a kernel: name each argument")
        named = {each.arg: self.read(each.value) for each in node.keywords if each.arg is not None}
        return self.called(node, function, arguments, named)

    @abstractmethod
    def called(self, node: ast.Call, function: Any, arguments: list[Any], named: dict[str, Any]) -> Any:
        """The result of a call; defined with the words."""

    def builtin(self, node: ast.Call, function: Any, arguments: list[Any], named: dict[str, Any]) -> Any:
        """A call of one of Python's own functions, which is for constants."""
        if function not in _BUILTINS or not all(map(is_static, arguments)) or named:
            self.refuse(node, f"{ast.unparse(node.func)} is no word of kernels, or is for constants alone")
        return function(*arguments)


def _word(given: Any) -> str:
    if isinstance(given, BlockValue):
        return f"{dtype_of(given)}" + (f" of shape {list(shape_of(given))}" if given.type.shape else "")
    return repr(given)
