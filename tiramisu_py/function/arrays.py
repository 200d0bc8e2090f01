"""Arrays that block programs fill, and the values of these programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from tiramisu_py.algorithm.declarations import Computation as Declared
from tiramisu_py.algorithm.declarations import Origin, Stored
from tiramisu_py.algorithm.declare.declare import (
    as_dtype_of,
    check_free,
    computed_shape,
    declare_computation,
    declare_reduction,
)
from tiramisu_py.algorithm.evaluate.operator_laws import check_laws
from tiramisu_py.algorithm.expressions import Expr, Iter, Operand
from tiramisu_py.algorithm.operators import Operator
from tiramisu_py.algorithm.types import DType
from tiramisu_py.errors import DeclarationError
from tiramisu_py.function.applying.scheduled import Scheduled
from tiramisu_py.function.handles.computations import Computation
from tiramisu_py.program.initial import with_computation, with_group
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class ArrayShape:
    """The declaration of an array, before programs fill it."""

    dtype: DType
    shape: tuple[Expr, ...]
    partial: bool


class ProgramArray(Computation):
    """An array that programs fill: a computation once a kernel is called with it."""

    @property
    def shape(self) -> tuple[Expr, ...]:
        """The extents."""
        return self._declared.shape

    @property
    def dtype(self) -> DType:
        """The scalar type of the elements."""
        return self._declared.dtype

    @property
    def is_filled(self) -> bool:
        """Whether a kernel stores to it."""
        return self.name in self._function.program.algorithm.computations

    @property
    def _declared(self) -> ArrayShape:
        found: ArrayShape = self._function._arrays[self.name]
        return found

    def _type_and_rank(self) -> tuple[DType, int]:
        if not self.is_filled:
            raise DeclarationError(unfilled(self))
        return super()._type_and_rank()


def unfilled(array: ProgramArray) -> str:
    """The message for an array that is read before a kernel stores to it."""
    return f"no program stores to {array.name}: call a kernel with it first, kernel[grid](..., {array.name}, ...)"


@dataclass(frozen=True, eq=False)
class ProgramValue:
    """A value of a block program before it is declared: an expression for each point, or terms of a reduction."""

    name: str
    domain: Mapping[Iter, Any]
    expr: Expr
    dtype: DType
    origin: Origin
    over: Mapping[Iter, Any] = field(default_factory=dict)
    op: Operator | None = None
    where: Expr | None = None
    ordered: bool = False
    stored: Stored | None = None
    shape: tuple[Expr, ...] | None = None


class ArrayDeclarations(Scheduled):
    """Declarations of arrays that block programs fill, and of what they compute."""

    def array(self, name: str, dtype: DType, shape: Sequence[Operand], *, partial: bool = False) -> ProgramArray:
        """Declare an array that the programs of one kernel fill; it is a computation once they do.

        ::

            C = f.array("C", tm.float32, [M, N])
            matmul[tl.cdiv(M, 32), tl.cdiv(N, 32)](A, B, C, TM=32, TN=32, TK=16)
            f.outputs(C)

        `check` proves that each element is stored by one program, once, and that none is left out; `partial` allows
        elements that no program stores, which readers must not touch. Until a kernel is called with it nothing reads
        it. Raises `DeclarationError`.
        """
        algorithm = self._program.algorithm
        check_free(algorithm, name, "an array")
        if name in self._arrays:
            raise DeclarationError(f"{name!r} cannot be the name of an array: another array of {self.name} has it")
        found = as_dtype_of(name, dtype)
        extents = computed_shape(algorithm, name, list(shape), len(shape), self.owner)
        assert extents is not None
        self._arrays = {**self._arrays, name: ArrayShape(found, extents, partial)}
        return ProgramArray(self, name)

    def _with_program_values(self, groups: Sequence[Sequence[ProgramValue]]) -> None:
        """Declare the values of programs, those of a group together; all or none are declared."""
        before = self._program
        try:
            for group in groups:
                self._declare_group(group)
        except Exception:
            self._program = before
            raise

    def _declare_group(self, group: Sequence[ProgramValue]) -> None:
        ranks = {each.name: len(each.domain) for each in group}
        label = group[0].name if len(group) > 1 else ""
        declared = [replace(self._program_value(each, ranks), group=label) for each in group]
        for each in declared:
            check_laws(self._program.algorithm.computations, each)
        if len(declared) == 1 and declared[0].is_reduction:
            self._program = with_computation(self._program, declared[0])
        else:
            self._program = with_group(self._program, declared)

    def _program_value(self, given: ProgramValue, ranks: Mapping[str, int]) -> Declared:
        algorithm, location = self._program.algorithm, given.origin.location
        if given.op is None:
            found = declare_computation(
                algorithm, given.name, given.domain, given.expr, where=given.where, dtype=given.dtype,
                shape=given.shape, beside=ranks, owner=self.owner,
                location=location,
            )  # fmt: skip
        else:
            found = declare_reduction(
                algorithm, given.name, given.domain, given.over, given.op, given.expr, where=given.where,
                dtype=given.dtype, ordered=given.ordered, shape=given.shape, beside=ranks, owner=self.owner,
                location=location,
            )  # fmt: skip
        return replace(found, origin=given.origin, stored=given.stored)
