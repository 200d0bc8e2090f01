"""The meaning of values of block IR: the element of a block at an index, as an expression."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import Access, Const, Expr, Iter, Unary, as_expr, as_typed, call, select
from tiramisu_py.algorithm.types import weak_int
from tiramisu_py.errors import DeclarationError
from tiramisu_py.language.ir.nodes import BlockValue, Instruction, Operand
from tiramisu_py.language.ir.scalars import dtype_of, shape_of
from tiramisu_py.language.tracing.builder import OPERATORS
from tiramisu_py.language.values.axes import Axes
from tiramisu_py.language.values.forms import ZERO, combined, reshaped, typed
from tiramisu_py.language.values.philox import uniform
from tiramisu_py.language.values.uses import Uses
from tiramisu_py.records import dataclass

#: An element of a block, from its index.
Meaning = Callable[[Sequence[Expr]], Expr]

_SIGNS = {op: sign for sign, op in OPERATORS.items()}


@dataclass(frozen=True, eq=False)
class Bound:
    """The binding of an argument of a kernel: an array, its extents and its type; or the expression of a scalar."""

    name: str
    extents: tuple[Expr, ...] = ()
    dtype: ty.DType = ty.unknown
    scalar: Expr | None = None
    writable: bool = False


class Meanings:
    """The meanings of the values of a kernel that are made where they are read."""

    uses: Uses
    axes: Axes
    owner: object
    grid: list[Expr]
    bound: Mapping[str, Bound]
    _meanings: dict[BlockValue, Meaning]

    def is_one(self, axis: int) -> bool:
        """Whether the grid has one program along an axis."""
        extent = self.grid[axis]
        return isinstance(extent, Const) and extent.value == 1

    def meaning(self, operand: Operand) -> Meaning:
        """The element of an operand at an index."""
        if not isinstance(operand, BlockValue):
            number = as_expr(operand)
            return lambda _: number
        if operand not in self._meanings:
            bound = self.bound[operand.name]
            assert bound.scalar is not None
            scalar = bound.scalar
            return lambda _: scalar
        return self._meanings[operand]

    def _inline(self, node: Instruction) -> Meaning:
        """The meaning of an instruction whose elements are made where they are read."""
        reader = getattr(self, f"_of_{node.op}", None)
        if reader is not None:
            found: Meaning = reader(node)
            return found
        operands = [self.meaning(each) for each in node.operands]
        if node.op in _SIGNS:
            return self._of_operator(node, operands)
        result = node.result
        assert result is not None
        if len(operands) == 1:
            return lambda i: call(node.op, typed(operands[0](i), dtype_of(result)))
        raise DeclarationError(f"the instruction {node.op} has no meaning")

    def _of_operator(self, node: Instruction, operands: Sequence[Meaning]) -> Meaning:
        kinds = [dtype_of(each) for each in node.operands if isinstance(each, BlockValue)]

        def made(index: Sequence[Expr]) -> Expr:
            sides = [each(index) for each in operands]
            if kinds and not kinds[0].is_integer:
                sides = [as_typed(side, kinds[0]) if side.dtype.weak and not kinds[0].weak else side for side in sides]
            return combined(_SIGNS[node.op], *sides)

        return made

    def _of_neg(self, node: Instruction) -> Meaning:
        operand = self.meaning(node.operands[0])
        return lambda i: -operand(i)

    def _of_not(self, node: Instruction) -> Meaning:
        operand = self.meaning(node.operands[0])
        return lambda i: Unary("~", operand(i), operand(i).dtype)

    def _of_select(self, node: Instruction) -> Meaning:
        test, yes, no = (self.meaning(each) for each in node.operands)
        assert node.result is not None
        dtype = dtype_of(node.result)

        def made(index: Sequence[Expr]) -> Expr:
            sides = yes(index), no(index)
            if dtype.is_float and not dtype.weak:
                return select(
                    test(index),
                    *(typed(each, dtype) if not each.dtype.weak else as_typed(each, dtype) for each in sides),
                )
            return select(test(index), *sides)

        return made

    def _of_cast(self, node: Instruction) -> Meaning:
        operand = self.meaning(node.operands[0])
        assert node.result is not None
        dtype = dtype_of(node.result)

        def made(index: Sequence[Expr]) -> Expr:
            given = operand(index)
            if dtype.weak or (dtype is ty.int64 and given.dtype is weak_int):
                return given  # a form of program numbers and sizes stays one
            return as_typed(given, dtype)

        return made

    def _of_get_program_id(self, node: Instruction) -> Meaning:
        (axis,) = node.static
        number = ZERO if self.is_one(axis) else Iter(self.axes.program(axis))
        return lambda _: number

    def _of_swizzle2d(self, node: Instruction) -> Meaning:
        axis = self.uses.program_axis(node.operands[node.static[1]])
        assert axis is not None  # `swizzles_of` has looked
        number = ZERO if self.is_one(axis) else Iter(self.axes.program(axis))
        return lambda _: number

    def _of_get_num_programs(self, node: Instruction) -> Meaning:
        return lambda _: self.grid[node.static[0]]

    def _of_make_range(self, node: Instruction) -> Meaning:
        return lambda i: combined("+", i[0], Const(node.static[0], weak_int))

    def _of_extent(self, node: Instruction) -> Meaning:
        (array,) = node.operands
        assert isinstance(array, BlockValue)
        return lambda _: self.bound[array.name].extents[node.static[0]]

    def _of_getelementptr(self, node: Instruction) -> Meaning:
        return lambda _: ZERO  # places are read by those who load and store

    def _of_splat(self, node: Instruction) -> Meaning:
        operand = self.meaning(node.operands[0])
        assert node.result is not None
        dtype = dtype_of(node.result)
        return lambda _: as_typed(operand(()), dtype) if operand(()).dtype.weak and dtype.is_float else operand(())

    def _of_broadcast(self, node: Instruction) -> Meaning:
        operand, shape = self.meaning(node.operands[0]), shape_of(node.operands[0])
        return lambda i: operand([ZERO if extent == 1 else own for own, extent in zip(i, shape, strict=True)])

    def _of_reshape(self, node: Instruction) -> Meaning:
        operand, shape = self.meaning(node.operands[0]), shape_of(node.operands[0])
        return lambda i: operand(reshaped(i, node.type.shape, shape))

    def _of_trans(self, node: Instruction) -> Meaning:
        operand = self.meaning(node.operands[0])
        back = sorted(range(len(node.static)), key=lambda axis: node.static[axis])
        return lambda i: operand([i[axis] for axis in back])

    def _of_join(self, node: Instruction) -> Meaning:
        first, second = (self.meaning(each) for each in node.operands)
        return lambda i: select(i[-1] == 0, first(i[:-1]), second(i[:-1]))

    def _of_part(self, node: Instruction) -> Meaning:
        operand, number = self.meaning(node.operands[0]), Const(node.static[0], weak_int)
        return lambda i: operand([*i, number])

    def _of_rand(self, node: Instruction) -> Meaning:
        seed, offset = (self.meaning(each) for each in node.operands)
        return lambda i: uniform(seed(i), offset(i))

    def _of_load(self, node: Instruction) -> Meaning:
        place = self.uses.instruction(node.operands[0])
        assert place is not None and isinstance(place.operands[0], BlockValue)
        array = self.bound[place.operands[0].name]
        indices = [self.meaning(each) for each in place.operands[1:]]
        return lambda i: Access(array.name, tuple(each(i) for each in indices), array.dtype, self.owner)

    def _of_masked_load(self, node: Instruction) -> Meaning:
        element, mask, other = self._of_load(node), self.meaning(node.operands[1]), self.meaning(node.operands[2])
        assert node.result is not None
        dtype = dtype_of(node.result)
        return lambda i: select(mask(i), element(i), as_typed(other(i), dtype))
