"""Vector expressions in C, in the vector extensions of GCC and Clang, which map directly to instructions.

A condition is a mask: a vector of signed integers as wide as the compared operands, -1 where it holds. In memory and in
variables a bool is a byte, 0 or 1, in vectors too.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tiramisu_py.algorithm.expressions import (
    COMPARISONS,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Iter,
    Select,
    Unary,
    constant,
)
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.algorithm.types import DType, float32, int32, int64, strong, uint8, uint16, uint32
from tiramisu_py.backends.c.expressions.math_functions import OWN, PREDICATES, host_function
from tiramisu_py.backends.c.expressions.parentheses import OR, TERNARY, Code, call, cast, infix, prefix
from tiramisu_py.backends.c.expressions.scalars import Scalars, compared, of_bits, operand
from tiramisu_py.backends.c.expressions.scope import Scope
from tiramisu_py.backends.c.vectors import (
    dots,
    doubled,
    even_and_odd,
    half_floats,
    masks,
    pair_products,
    places,
    quads,
    widths,
)
from tiramisu_py.backends.c.vectors.vector_types import VectorTypes
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import Idiom, Joined, Load, Ramp, Shifted
from tiramisu_py.ir.arithmetic import pairs
from tiramisu_py.ir.arithmetic.intervals import saturated
from tiramisu_py.ir.arithmetic.lanes import is_half
from tiramisu_py.ir.arithmetic.linear import along_lanes

#: The types of scalars that C broadcasts to a vector by itself.
_SPREAD = ("float32", "float64", "int32", "int64", "uint32", "uint64")
_NAMED = {"//": "floor_div", "%": "mod", "<<": "shift_left", ">>": "shift_right"}


def _number(e: Expr, dtype: DType) -> float | None:
    """The value of a constant of a type that has instructions for minima, unless it is NaN."""
    if not isinstance(e, Const) or not dtype.is_float or is_half(dtype):
        return None
    value = float(e.value)
    return None if np.isnan(value) else value


class Vectors:
    """Prints expressions of `lanes` lanes, in a scope."""

    def __init__(self, scope: Scope, types: VectorTypes, lanes: int) -> None:
        self.scope = scope
        self.types = types
        self.lanes = lanes
        self.scalars = Scalars(scope)

    # -- types

    def type(self, dtype: DType) -> str:
        """The name of the vector type."""
        return self.types.name(dtype, self.lanes)

    def mask_type(self, bits: int) -> str:
        """The name of the type of a mask."""
        return self.type(widths.SIGNED[bits])

    def _uniform(self, e: Expr) -> bool:
        return self.scope.lanes.of(e) == 1

    def of_pairs(self, names: Mapping[even_and_odd.Leaf, str], halves: even_and_odd.Halves, is_odd: bool) -> OfPairs:
        """Prints even or odd lanes of expressions whose widened operands come from named vectors, as narrow ones."""
        return OfPairs(self, names, halves, is_odd)

    # -- values

    @deep
    def __call__(self, e: Expr) -> Code:
        """The vector of an expression's values in all lanes; a scalar is broadcast."""
        if self._uniform(e):
            return self._spread(e)
        if e.dtype.is_bool and not isinstance(e, Iter | Load | Shifted):
            mask, _ = self.mask(e, 8)
            return cast(self.type(e.dtype), infix("&", mask, Code("1")))
        if is_half(e.dtype) and not isinstance(e, Iter | Load | Shifted):
            return half_floats.computed(self, e)
        match e:
            case Iter():
                return Code(self.scope.names.get(e.name, e.name))
            case Ramp():
                return self._ramp(e)
            case Load():
                return self._load(e)
            case Shifted():
                return self._between(e)
            case Unary():
                return prefix(e.op, self(operand(e.operand, e.dtype)))
            case Binary():
                return self._binary(e)
            case Select():
                return self._select(e)
            case Cast():
                return self._converted(e.operand, e.dtype)
            case Idiom(name=pairs.NARROWED, operands=(wide,)):
                return even_and_odd.narrowed(self, wide, e.dtype) or self._converted(wide, e.dtype)
            case Idiom():
                return self._operation(e.name, e.dtype, *e.operands)
            case Call():
                return self._call(e)
        raise CompilerDefect(f"the C emitter does not know the vector expression {type(e).__name__}: {e}")

    def _spread(self, e: Expr) -> Code:
        return call("TM_ALL", self.type(e.dtype), self.scalars(e))

    def side(self, e: Expr) -> Code:
        """An operand beside a vector; a scalar stays a scalar where C broadcasts it by itself."""
        if self._uniform(e) and strong(e.dtype).name in _SPREAD:
            return self.scalars(e)
        return self(e)

    def _between(self, e: Shifted) -> Code:
        size = 1 if e.dtype.is_bool else strong(e.dtype).bytes
        whole = size in (4, 8) and size * self.lanes == 64
        name, kind = (f"TM_SHIFTED_{size}", self.type(e.dtype)) if whole else ("TM_SHIFTED", str(self.lanes))
        return call(name, kind, self(e.low), self(e.high), str(e.by))

    def _ramp(self, e: Ramp) -> Code:
        lanes = Code(f"({self.type(int64)}){{TM_RAMP_{self.lanes}}}")
        return lanes if constant(e.base) == 0 else infix("+", self.scalars(e.base), lanes)

    def _narrow_ramp(self, e: Ramp, dtype: DType) -> Code:
        """The low bits of consecutive numbers: consecutive numbers that start at the low bits of the first."""
        lanes = Code(f"({self.type(dtype)}){{TM_RAMP_{self.lanes}}}")
        return infix("+", self._spread(Cast(e.base, dtype)), lanes)

    def _binary(self, e: Binary) -> Code:
        dtype = strong(e.dtype)
        left, right = operand(e.left, dtype), operand(e.right, dtype)
        match e.op:
            case "+" if (dot := dots.weighted(self, e) or quads.fourfold(self, e)) is not None:
                return dot
            case "min" | "max":
                return self._extreme(e.op, dtype, left, right)
            case "**":
                name = f"tm_pow_{dtype.name}" if dtype.is_integer else "powf" if dtype.bits == 32 else "pow"
                return self._mapped(name, dtype, left, right)
            case "//" | "%" | "<<" | ">>":
                return self._shifted(e.op, left, right, dtype)
        return infix(e.op, self.side(left), self.side(right))

    def _extreme(self, op: str, dtype: DType, left: Expr, right: Expr) -> Code:
        """A minimum or maximum; where one of two floats is a number, it needs no test for NaN.

        ``max(x, 1.0)`` is ``1.0 > x ? 1.0 : x``, which is x where that is NaN. Of equal operands the second counts:
        ``max(x, 0.0)`` adds 0.0, which makes 0.0 of -0.0 and changes nothing else.
        """
        name = {"min": "less", "max": "more"}[op]
        if _number(left, dtype) is not None:
            return self._operation(name, dtype, left, right)
        second = _number(right, dtype)
        if second is None or (second == 0 and np.signbit(second)):
            return self._operation(op, dtype, left, right)
        found = self._operation(name, dtype, right, left)
        return found if second != 0 else infix("+", found, self.side(right))

    def _shifted(self, op: str, left: Expr, right: Expr, dtype: DType) -> Code:
        """Shifts, and divisions that round down; one instruction if the right operand is a constant."""
        if (bits := of_bits(op, right)) is not None:
            return infix(bits[0], self(left), Code(str(bits[1])))
        count = constant(right)
        if count is not None and dtype.is_integer and op in ("<<", ">>") and 0 <= count < dtype.bits:
            return infix(op, self(left), Code(str(count)))
        if op in ("<<", ">>"):
            return self._operation(_NAMED[op], dtype, left, right)
        return self._mapped(f"tm_{_NAMED[op]}_{dtype.name}", dtype, left, right)

    def _mapped(self, function: str, dtype: DType, *operands: Expr) -> Code:
        name = "TM_MAP" if len(operands) == 1 else f"TM_MAP_{len(operands)}"
        return call(name, self.type(dtype), function, *map(self, operands))

    def _operation(self, name: str, dtype: DType, *operands: Expr) -> Code:
        function = self.types.idioms.operation(name, dtype, self.lanes, len(operands))
        return call(function, *map(self, operands))

    def _select(self, e: Select) -> Code:
        dtype, test = strong(e.dtype), e.condition
        yes, no = self(operand(e.yes, dtype)), self(operand(e.no, dtype))
        if self._uniform(test):
            return Code(f"{self.scalars(test).at(OR)} ? {yes.at(OR)} : {no.at(TERNARY)}", TERNARY)
        if isinstance(test, Binary) and test.op == "&" and self._uniform(e.no):
            inner = Select(test.right, e.yes, e.no, e.dtype)
            return self._select(Select(test.left, inner, e.no, e.dtype))
        if isinstance(test, Binary) and test.op in COMPARISONS and compared(test).bits == dtype.bits:
            left, right = (self(operand(side, compared(test))) for side in (test.left, test.right))
            return call("TM_CHOOSE", self.type(dtype), left, test.op, right, yes, no)
        mask, _ = self.mask(e.condition, dtype.bits)
        return call("TM_SELECT", self.type(dtype), mask, yes, no)

    def _converted(self, e: Expr, dtype: DType) -> Code:
        source, dtype = strong(e.dtype), strong(dtype)
        target = self.type(dtype)
        if source == dtype:
            return self(e)
        if (low := self._low_bits(e, dtype)) is not None:
            return low
        if is_half(source):
            return self._of_float(half_floats.as_float(self, e), dtype)
        if isinstance(e, Ramp) and dtype.is_integer:
            return self._narrow_ramp(e, dtype)
        if source.is_bool:
            mask, _ = self.mask(e, dtype.bits)
            bits = infix("&", mask, Code("1"))
            return cast(target, bits) if dtype.is_integer else call("__builtin_convertvector", bits, target)
        if source.is_float and dtype.name in ("uint32", "uint64"):
            return self._mapped(f"tm_to_{dtype.name}", dtype, e)
        if isinstance(e, Joined):
            parts = [Vectors(self.scope, self.types, self.lanes // len(e.parts))(part) for part in e.parts]
            return widths.joined(self.types, parts, source, dtype, self.lanes // len(e.parts))
        if isinstance(e, Load) and source.is_integer and dtype.bits > source.bits and self.scope.mask is None:
            apart = self._apart(e, source)
            if apart is not None:
                place, stride = apart
                wide = widths.SIGNED[dtype.bits] if dtype.is_float else dtype
                function = self.types.idioms.strided(source, wide, self.lanes, stride)
                return widths.converted(self.types, call(function, f"&{place}"), wide, dtype, self.lanes)
        clamped = saturated(e, dtype) if dtype.is_integer else None
        if clamped is not None:
            return call(self.types.idioms.saturated(source, dtype, self.lanes), self(clamped))
        return widths.converted(self.types, self(e), source, dtype, self.lanes)

    def _low_bits(self, e: Expr, dtype: DType) -> Code | None:
        """The low bits, with their sign, of lanes that are made narrower and as wide as before: no lane moves."""
        if not isinstance(e, Cast) or dtype not in (int32, uint32):
            return None
        inner, narrow = strong(e.operand.dtype), strong(e.dtype)
        if inner not in (float32, int32, uint32) or not narrow.is_integer or narrow.bits >= 32:
            return None
        whole = self._converted(e.operand, int32)
        if narrow in (uint8, uint16):
            low = infix("&", whole, Code(str(narrow.limits[1])))
        else:
            unused = Code(str(32 - narrow.bits))
            low = infix(">>", infix("<<", whole, unused), unused)
        return low if dtype == int32 else cast(self.type(dtype), low)

    def _of_float(self, code: Code, dtype: DType) -> Code:
        """A vector of float32 in another type."""
        if dtype.name in ("uint32", "uint64"):
            return call("TM_MAP", self.type(dtype), f"tm_to_{dtype.name}", code)
        return widths.converted(self.types, code, float32, dtype, self.lanes)

    def _apart(self, e: Load, dtype: DType) -> tuple[str, int] | None:
        """The first element and the stride of a strided load that is done by shuffles."""
        spaced = None if self.scope.arrays[e.buffer].lanes > 1 else self.spaced(e.buffer, e.indices)
        stride = None if spaced is None else constant(spaced[1])
        if spaced is None or stride is None or stride < 2 or self.types.load(dtype, self.lanes, stride) is None:
            return None
        return spaced[0], stride

    def _call(self, e: Call) -> Code:
        if e.extern is not None:
            pairs = zip(e.arguments, e.extern.arguments, strict=True)
            return self._mapped(e.extern.name, e.dtype, *(operand(argument, dtype) for argument, dtype in pairs))
        dtype = strong(e.dtype)
        if e.function == "reinterpret":
            return cast(self.type(dtype), self(e.arguments[0]))
        arguments = [operand(argument, dtype) for argument in e.arguments]
        if e.function == "popcount":
            return self._operation(e.function, dtype, *arguments)
        if e.function in OWN and dtype == float32:
            return call(self.types.idioms.function(e.function, self.lanes), self(arguments[0]))
        if e.function != "abs" or dtype.is_float:
            return self._mapped(host_function(e.function, dtype), dtype, *arguments)
        return self(arguments[0]) if dtype.kind == "u" else self._mapped(f"tm_abs_{dtype.name}", dtype, *arguments)

    # -- loads

    def _load(self, e: Load) -> Code:
        array = self.scope.arrays[e.buffer]
        if array.lanes > 1 and all(map(self._uniform, e.indices)):
            return Code(self.scalars.element(e.buffer, e.indices))
        spaced = self.spaced(e.buffer, e.indices)
        if self.scope.mask is not None:
            return masks.first_loaded(self, e, spaced)
        if spaced is None:
            return self._alternating(e) or call(*self.gathered(e))
        place, step = spaced
        stride = constant(step)
        function = None if stride is None else self.types.load(e.dtype, self.lanes, stride)
        if function is not None:
            return call(function, f"&{place}")
        return call("TM_STRIDED", self.type(e.dtype), f"&{place}", self.scalars(step))

    def gathered(self, e: Load) -> tuple[str, str, Code | str, Code]:
        """The macro that gathers elements, their type, their address, and the indices from it on in a vector."""
        array = self.scope.arrays[e.buffer]
        index, address = array.flat(e.indices), self._pointer(e.buffer)
        parts = places.apart(index, self._uniform) if array.lanes == 1 else None
        if parts is None:
            macro, at = self._gather(e.dtype, index)
            return macro, self.type(e.dtype), address, at
        shared, rest = parts
        macro, at = self._gather(e.dtype, rest)
        return macro, self.type(e.dtype), infix("+", Code(address), self.scalars(shared)), at

    def _gather(self, dtype: DType, index: Expr) -> tuple[str, Code]:
        """The macro for indices in a vector, and these; 32 bits or fewer are not widened to 64, and not at all for
        elements that are loaded one by one. Bytes take the address of indices that lie in memory.
        """
        instruction = self.types.gather(dtype, self.lanes)
        narrow = index.operand if isinstance(index, Cast) else index
        if (first := self._side_by_side(narrow)) is not None:
            macro = self.types.gather_by_memory(dtype, self.lanes)
            if macro is not None:
                return macro, Code(first)
        if instruction is None:
            return "TM_GATHER", self(narrow if _fits_32_bits(narrow.dtype) else index)
        if _fits_32_bits(narrow.dtype):
            return instruction, self(operand(narrow, int32))
        return instruction.replace("_GATHER_", "_GATHER_AT_"), self(operand(index, int64))

    def _side_by_side(self, e: Expr) -> str | None:
        """The address of integers that all lanes load one after another; None of other values."""
        if not isinstance(e, Load) or not e.dtype.is_integer or self.scope.mask is not None:
            return None
        spaced = self.spaced(e.buffer, e.indices) if self.scope.arrays[e.buffer].lanes == 1 else None
        return f"&{spaced[0]}" if spaced is not None and constant(spaced[1]) == 1 else None

    def _alternating(self, e: Load) -> Code | None:
        """The elements where even and odd lanes are neighbours: half a vector of each, in turns."""
        *outer, last = e.indices
        array = self.scope.arrays[e.buffer]
        contiguous = constant(array.distance((*(0 for _ in outer), 1))) == 1 and array.lanes == 1
        if not contiguous or self.lanes < 4 or not all(map(self._uniform, outer)):
            return None
        both = doubled.alternating(last, self._uniform)
        if both is None:
            return None
        function = self.types.alternating(e.dtype, self.lanes)
        return call(function, *(f"&{self.scalars.element(e.buffer, (*outer, place))}" for place in both))

    def _pointer(self, buffer: str) -> str:
        array = self.scope.arrays[buffer]
        return f"(const uint8_t *){array.name}" if array.dtype.is_bool else array.name

    def spaced(self, buffer: str, indices: tuple[Expr, ...]) -> tuple[str, Expr] | None:
        """The element in lane 0 and the distance from lane to lane, or None if lanes are not evenly spaced."""
        array = self.scope.arrays[buffer]
        lines = [along_lanes(index) for index in indices]
        known = [line for line in lines if line is not None]
        if len(known) < len(lines) or not all(self._uniform(base) for base, _ in known):
            return None
        place = self.scalars.element(buffer, tuple(base for base, _ in known))
        return place, array.distance(tuple(step for _, step in known))

    # -- conditions

    def mask(self, e: Expr, bits: int | None = None) -> tuple[Code, int]:
        """A condition as a mask, and the width of the mask's lanes (`bits`, if given)."""
        code, own = self._mask(e, bits)
        if bits is None or bits == own:
            return code, own
        return widths.converted(self.types, code, widths.SIGNED[own], widths.SIGNED[bits], self.lanes), bits

    def _mask(self, e: Expr, bits: int | None) -> tuple[Code, int]:
        if self._uniform(e):
            wanted = bits or 8
            spread = cast(widths.SIGNED[wanted].c_name, self.scalars(e))
            return call("TM_ALL", self.mask_type(wanted), prefix("-", spread)), wanted
        match e:
            case Unary():
                inner, own = self.mask(e.operand, None)
                return prefix("~", inner), own
            case Binary() if e.op in COMPARISONS:
                return self._first(e, bits) or self._compared(e)
            case Binary():
                return self._logic(e, bits)
            case Select() if not self._uniform(e.condition):
                return self._choice(e, bits)
            case Cast() if not e.operand.dtype.is_bool:
                source = strong(e.operand.dtype)
                return self._compare("!=", self(e.operand), Code(f"({self.type(source)}){{0}}"), source.bits)
            case Call() if e.function in PREDICATES:
                return self._predicate(e)
        return prefix("-", cast(self.mask_type(8), self._bytes(e))), 8

    def _bytes(self, e: Expr) -> Code:
        if isinstance(e, Select):
            return self._select(e)
        if isinstance(e, Call) and e.extern is None:
            return self(e.arguments[0])  # the absolute value of a condition
        if isinstance(e, Call):
            return self._call(e)
        return self(e)

    def _first(self, e: Binary, bits: int | None) -> tuple[Code, int] | None:
        """The first lanes, those below a count, as a mask of lanes that are narrower than numbers of lanes are."""
        if bits is None or bits >= 64 or self.lanes >= 1 << (bits - 1) or compared(e) != int64:
            return None
        if e.op != "<" or not isinstance(e.left, Ramp) or constant(e.left.base) != 0 or not self._uniform(e.right):
            return None
        return call("TM_BELOW", self.mask_type(bits), str(self.lanes), self.scalars(operand(e.right, int64))), bits

    def _compared(self, e: Binary) -> tuple[Code, int]:
        dtype = compared(e)
        left, right = operand(e.left, dtype), operand(e.right, dtype)
        return self._compare(e.op, self(left), self(right), dtype.bits)

    def _compare(self, op: str, left: Code, right: Code, bits: int) -> tuple[Code, int]:
        return call("TM_COMPARE", self.mask_type(bits), left, op, right), bits

    def _logic(self, e: Binary, bits: int | None) -> tuple[Code, int]:
        op = {"*": "&", "min": "&", "+": "|", "max": "|"}.get(e.op, e.op)
        sides = [side for side in (e.left, e.right) if not self._uniform(side)]
        width = bits or max(self.mask(side)[1] for side in sides)
        return infix(op, self.mask(e.left, width)[0], self.mask(e.right, width)[0]), width

    def _choice(self, e: Select, bits: int | None) -> tuple[Code, int]:
        width = bits or 8
        parts = (self.mask(part, width)[0] for part in (e.condition, e.yes, e.no))
        return call("TM_SELECT", self.mask_type(width), *parts), width

    def _predicate(self, e: Call) -> tuple[Code, int]:
        bits = strong(e.arguments[0].dtype).bits
        return call("TM_HOLDS", self.mask_type(bits), e.function, self(e.arguments[0])), bits


def _fits_32_bits(dtype: DType) -> bool:
    """Whether an int32 has all values of an integer type."""
    (least, largest), (first, last) = dtype.limits, int32.limits
    return dtype.is_integer and not dtype.weak and first <= least and largest <= last


class OfPairs(Vectors):
    """Prints the even or the odd lanes of an expression, half as many as its narrow operands have."""

    def __init__(
        self, whole: Vectors, names: Mapping[even_and_odd.Leaf, str], halves: even_and_odd.Halves, is_odd: bool
    ) -> None:
        super().__init__(whole.scope, whole.types, whole.lanes // 2)
        self.names = names
        self.halves = halves
        self.is_odd = is_odd

    def half(self, e: Expr, dtype: DType) -> tuple[str, bool] | None:
        """The named vector of a widened operand's lanes, and whether they are its odd ones; None of other values."""
        half = self.halves.get((even_and_odd.leaf_of(e, dtype), self.is_odd))
        return None if half is None else (self.names[half[0]], half[1])

    def _binary(self, e: Binary) -> Code:
        return pair_products.summed(self, e) or super()._binary(e)

    def _converted(self, e: Expr, dtype: DType) -> Code:
        half = self.half(e, dtype)
        if half is None:
            return super()._converted(e, dtype)
        name, is_odd = half
        return even_and_odd.lane_of_pair(self, name, e.dtype, dtype, is_odd)
