"""Scalar expressions in C.

C computes small integers as int: each result is converted back. The 16-bit floats are computed in float and rounded
after each operation.
"""

from __future__ import annotations

from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import (
    BITWISE,
    COMPARISONS,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Iter,
    Param,
    Select,
    Unary,
    as_typed,
    constant,
)
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.algorithm.traversal import kinds
from tiramisu_py.algorithm.types import DType, float32, strong
from tiramisu_py.backends.c.expressions.literals import half, literal
from tiramisu_py.backends.c.expressions.math_functions import PREDICATES, host_function
from tiramisu_py.backends.c.expressions.parentheses import OR, POSTFIX, TERNARY, Code, call, cast, infix, prefix
from tiramisu_py.backends.c.expressions.scalar_types import SCALAR_TYPES
from tiramisu_py.backends.c.expressions.scope import Element, NamedArray, Scope
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import GpuIndex, Lane, Load, Scalar
from tiramisu_py.ir.arithmetic.lanes import is_half
from tiramisu_py.ir.arithmetic.linear import is_index, number

#: Parts of indices whose text depends on the place: on the facts, the arrays and the threads in scope there.
_OF_PLACES = frozenset(("//", "%", Load, Lane, Call, GpuIndex))
_LOGIC = {"&": "&&", "*": "&&", "min": "&&", "|": "||", "+": "||", "max": "||", "^": "!="}
_NAMED = {
    "//": "floor_div", "%": "mod", "**": "pow", "min": "min", "max": "max", "<<": "shift_left", ">>": "shift_right",
}  # fmt: skip


def operand(e: Expr, dtype: DType) -> Expr:
    """An operand, converted to the type of its operation."""
    return e if strong(e.dtype) == strong(dtype) else as_typed(e, strong(dtype))


def compared(e: Binary) -> DType:
    """The common type in which the operands of a comparison are compared."""
    return strong(ty.promote(e.left.dtype, e.right.dtype))


def of_bits(op: str, divisor: Expr) -> tuple[str, int] | None:
    """The shift or the mask that rounds an integer down to a power of two, ``>> 3`` or ``& 7``; None for others.

    Both are right for negative numbers too, where C's own division rounds towards zero.
    """
    count = constant(divisor)
    if (
        op not in ("//", "%")
        or count is None
        or not strong(divisor.dtype).is_integer
        or count <= 0
        or count & (count - 1)
    ):
        return None
    return (">>", count.bit_length() - 1) if op == "//" else ("&", count - 1)


class Scalars:
    """Prints expressions of one lane, in a scope."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def __call__(self, e: Expr) -> Code:
        """The C expression."""
        if isinstance(e, Const):
            return literal(e.value, e.dtype)
        if isinstance(e, Iter | Param | Scalar):
            return Code(self.scope.names.get(e.name, e.name))
        return self._of_operands(e)

    @deep
    def _of_operands(self, e: Expr) -> Code:
        match e:
            case Load():
                return Code(self.element(e.buffer, e.indices))
            case Lane() if self.scope.lanes.of(e.vector) == 1:  # a later pass found it uniform over lanes
                return self(e.vector)
            case Lane():
                return Code(f"{self(e.vector).at(POSTFIX)}[{self(e.lane).text}]")
            case Unary():
                return self._unary(e)
            case Binary():
                return self._binary(e)
            case Select():
                return self._select(e)
            case Cast():
                return self.converted(e.operand, e.dtype)
            case Call():
                return self._call(e)
        raise CompilerDefect(f"the C emitter does not know the expression {type(e).__name__}: {e}")

    def text(self, e: Expr) -> str:
        """The C expression, as text."""
        return self(e).text

    def element(self, buffer: str, indices: tuple[Expr, ...]) -> str:
        """An element of a buffer, or a lane of one."""
        array = self.scope.arrays[buffer]
        key = (id(array), *map(id, indices))
        kept = self.scope.elements.get(key)
        if kept is not None:
            return kept.text
        text = self._element(array, indices)
        if all(kinds(e).isdisjoint(_OF_PLACES) for e in (*indices, *array.extents)):
            self.scope.elements[key] = Element(array, indices, text)
        return text

    def _element(self, array: NamedArray, indices: tuple[Expr, ...]) -> str:
        rank = len(array.extents)
        lanes = "".join(f"[{self.text(index)}]" for index in indices[rank:])
        if array.nested:
            own = indices[:rank] or ((number(0),) if array.is_shared else ())
            return array.name + "".join(f"[{self.text(index)}]" for index in own) + lanes
        return f"{array.name}[{self.text(array.flat(indices[:rank]))}]{lanes}"

    def as_float(self, e: Expr) -> Code:
        """A 16-bit float as a float."""
        if isinstance(e, Const):
            return half(e.value, e.dtype)
        return call(f"tm_from_{e.dtype.name}", self(e))

    def _unary(self, e: Unary) -> Code:
        inner = operand(e.operand, e.dtype)
        if is_half(e.dtype):
            return self._rounded(prefix("-", self.as_float(inner)), e.dtype)
        if e.dtype.is_bool:
            return prefix("!", self(inner))
        return self._narrowed(prefix(e.op, self(inner)), e.dtype)

    def _narrowed(self, code: Code, dtype: DType) -> Code:
        """A small integer that C computed as int, converted back to its own type."""
        return cast(dtype.c_name, code) if dtype.is_integer and dtype.bits < 32 else code

    def _rounded(self, code: Code, dtype: DType) -> Code:
        return call(f"tm_to_{dtype.name}", code)

    def _binary(self, e: Binary) -> Code:
        if e.op in COMPARISONS:
            return self._comparison(e)
        dtype = strong(e.dtype)
        left, right = operand(e.left, dtype), operand(e.right, dtype)
        if dtype.is_bool:
            return infix(_LOGIC[e.op], self(left), self(right))
        if is_half(dtype):
            if e.op in SCALAR_TYPES[dtype].functions:
                return self._rounded(call(f"tm_{e.op}_{dtype.name}", self.as_float(left), self.as_float(right)), dtype)
            return self._rounded(self._arithmetic(e.op, self.as_float(left), self.as_float(right), float32), dtype)
        if self._divides_plainly(e.op, left, right):
            op = "/" if e.op == "//" else "%"
            return self._narrowed(infix(op, self(left), self(right), tight=is_index(dtype)), dtype)
        if (bits := of_bits(e.op, right)) is not None:
            op, count = bits
            return self._narrowed(infix(op, self(left), Code(str(count))), dtype)
        return self._arithmetic(e.op, self(left), self(right), dtype)

    def _divides_plainly(self, op: str, left: Expr, right: Expr) -> bool:
        """Whether C's own division rounds down here: the dividend is not negative, the divisor a positive constant."""
        divisor = constant(right)
        if op not in ("//", "%") or divisor is None or divisor <= 0 or not left.dtype.is_integer:
            return False
        return left.dtype.kind == "u" or (is_index(left.dtype) and self.scope.facts.nonnegative(left))

    def _arithmetic(self, op: str, left: Code, right: Code, dtype: DType) -> Code:
        if op == "**" and dtype.is_float:
            return call("pow" if dtype.bits == 64 else "powf", left, right)
        if op in _NAMED:
            return call(f"tm_{_NAMED[op]}_{dtype.name}", left, right)
        if op in BITWISE:
            return self._narrowed(infix(op, left, right), dtype)
        return self._narrowed(infix(op, left, right, tight=op == "*" and is_index(dtype)), dtype)

    def _comparison(self, e: Binary) -> Code:
        dtype = compared(e)
        left, right = operand(e.left, dtype), operand(e.right, dtype)
        if is_half(dtype):
            return infix(e.op, self.as_float(left), self.as_float(right))
        return infix(e.op, self(left), self(right))

    def _select(self, e: Select) -> Code:
        yes, no = self(operand(e.yes, e.dtype)), self(operand(e.no, e.dtype))
        return Code(f"{self(e.condition).at(OR)} ? {yes.at(OR)} : {no.at(TERNARY)}", TERNARY)

    @deep
    def converted(self, e: Expr, dtype: DType) -> Code:
        """A conversion with NumPy's semantics."""
        source, dtype = strong(e.dtype), strong(dtype)
        if source == dtype:
            return self(e)
        if dtype.is_bool:
            return infix("!=", self.as_float(e) if is_half(source) else self(e), Code("0"))
        value = self.as_float(e) if is_half(source) else self(e)
        if is_half(dtype):
            wide = self.converted(e, float32) if SCALAR_TYPES[dtype].by_float else self.half_of(value, source)
            return self._rounded(wide, dtype)
        narrowed = source.bits == 64 and dtype == float32
        if source.is_float and (narrowed or not dtype.is_float):
            return call(f"tm_to_{dtype.name}", value)
        return cast(dtype.c_name, value) if not (is_half(source) and dtype == float32) else value

    def half_of(self, value: Code, source: DType) -> Code:
        """A value in the type that the conversion to a 16-bit float takes."""
        return value

    def function(self, name: str, dtype: DType) -> str:
        """The C name of a mathematical function."""
        return host_function(name, dtype)

    def _call(self, e: Call) -> Code:
        if e.extern is not None:
            pairs = zip(e.arguments, e.extern.arguments, strict=True)
            return call(e.extern.name, *(self(operand(argument, dtype)) for argument, dtype in pairs))
        if e.function == "abs" and not e.dtype.is_float:
            inner = self(e.arguments[0])
            return call(f"tm_abs_{strong(e.dtype).name}", inner) if e.dtype.kind == "i" else inner
        if e.function == "popcount":
            return call(f"tm_popcount_{strong(e.dtype).name}", self(operand(e.arguments[0], e.dtype)))
        if e.function == "reinterpret":
            return self._same_bits(e.arguments[0], e.dtype)
        dtype = strong(e.arguments[0].dtype if e.function in PREDICATES else e.dtype)
        arguments = [operand(argument, dtype) for argument in e.arguments]
        values = [self.as_float(argument) if is_half(dtype) else self(argument) for argument in arguments]
        result = call(self.function(e.function, dtype), *values)
        if e.function in PREDICATES:
            return infix("!=", result, Code("0"))
        return self._rounded(result, dtype) if is_half(dtype) else result

    def _same_bits(self, e: Expr, dtype: DType) -> Code:
        """The bits of a value as a value of another type, by way of an integer without a sign."""
        source = strong(e.dtype)
        bits = call(f"tm_bits_of_{source.name}", self(e)) if source.is_float else self(e)
        unsigned = bits if source.is_float or source.kind == "u" else cast(f"uint{source.bits}_t", bits)
        return call(f"tm_{dtype.name}_of_bits", unsigned) if dtype.is_float else cast(dtype.c_name, unsigned)
