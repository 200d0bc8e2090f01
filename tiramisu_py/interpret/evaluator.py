"""Evaluation of loop IR expressions, one method for each node class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import numpy as np

from tiramisu_py.algorithm.expressions import Binary, Call, Cast, Const, Expr, Iter, Param, Select, Unary
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.algorithm.visitor import Visitor
from tiramisu_py.interpret import arithmetic
from tiramisu_py.interpret import lane_masks as masks
from tiramisu_py.interpret.arithmetic import Value
from tiramisu_py.interpret.machine_faults import InterpretError
from tiramisu_py.interpret.memory import Array, MemoryTurns
from tiramisu_py.ir import GpuIndex, Idiom, Joined, Lane, Load, Ramp, Scalar, Shifted
from tiramisu_py.ir.arithmetic.pairs import is_narrowed
from tiramisu_py.program.statement import device_words
from tiramisu_py.records import dataclass

#: After so many levels of operands the stack is looked at again: they need some hundred frames.
LEVELS = 32


@dataclass
class Frame:
    """The environment of one strand: variables (parameters and scalar arguments too), arrays, atomic buffers.

    `where` names the current statement, for messages. `device` is the GPU that executes it; None is the host. In
    vectors, only the first `active` lanes access memory (None: all). `blocks` are the blocks of memory by name.
    """

    variables: dict[str, Value]
    arrays: dict[str, Array]
    atomic: frozenset[str] = frozenset()
    where: str = "the function"
    device: int | None = None
    active: int | None = None
    blocks: dict[str, MemoryTurns] = field(default_factory=dict)

    def branch(self) -> Frame:
        """A frame for another strand: its bindings are private, the arrays are shared."""
        return Frame(
            dict(self.variables), dict(self.arrays), self.atomic, self.where, self.device, self.active, self.blocks
        )

    def array(self, name: str) -> Array:
        """The array bound to a buffer's name."""
        if name not in self.arrays:
            raise InterpretError(f"{self.where} uses the buffer {name}, which does not exist there")
        found = self.arrays[name]
        if found.device not in (None, self.device):
            raise InterpretError(
                f"{self.where} uses {name}, which is in memory of {device_words(found.device)}, on the host"
            )
        return found


@dataclass
class Cell:
    """A mutable variable."""

    value: Value


@dataclass
class Evaluator(Visitor[Value]):
    """The values of expressions; `depth` is the number of operands around the current one."""

    frame: Frame
    depth: int = 0

    def __call__(self, expression: Expr) -> Value:
        """The value: a NumPy scalar, or an array with one element for each lane."""
        if isinstance(expression, Iter | Param | Scalar):  # most nodes, and leaves: no deep recursion
            return self._variable(expression.name)
        self.depth += 1
        try:
            if self.depth % LEVELS == 1:
                return self._on_a_stack(expression)
            return self.method_for(expression)(expression)
        finally:
            self.depth -= 1

    @deep
    def _on_a_stack(self, expression: Expr) -> Value:
        return self.method_for(expression)(expression)

    def unknown(self, node: object) -> Exception:
        """The machine does not know an expression."""
        return InterpretError(f"the machine does not know the expression {type(node).__name__}: {node}")

    def integer(self, expression: Expr) -> int:
        """The value of a bound or an extent."""
        return int(self(expression))

    def visit_const(self, e: Const) -> Value:
        return e.value if e.dtype.weak else arithmetic.literal(e.value, e.dtype)

    def visit_gpuindex(self, e: GpuIndex) -> Value:
        return self._variable(str(e))

    def _variable(self, name: str) -> Value:
        if name not in self.frame.variables:
            raise InterpretError(f"{self.frame.where} uses the variable {name}, which is not bound there")
        found = self.frame.variables[name]
        return found.value if isinstance(found, Cell) else found

    def visit_load(self, e: Load) -> Value:
        indices = tuple(self(index) for index in e.indices)
        array, active = self.frame.array(e.buffer), self.frame.active
        if active is None:
            return array.read(indices, self.frame.where)
        return masks.read(array, indices, active, self.frame.where)

    def visit_lane(self, e: Lane) -> Value:
        vector = self(e.vector)
        return vector[self(e.lane)] if np.ndim(vector) else vector

    def visit_ramp(self, e: Ramp) -> Value:
        return self(e.base) + np.arange(e.lanes, dtype=e.dtype.numpy)

    def visit_shifted(self, e: Shifted) -> Value:
        low, high = np.asarray(self(e.low)), np.asarray(self(e.high))
        return np.concatenate([low[e.by :], high[: e.by]])

    def visit_joined(self, e: Joined) -> Value:
        return np.concatenate([np.asarray(self(part)) for part in e.parts])

    def visit_idiom(self, e: Idiom) -> Value:
        if is_narrowed(e):
            return arithmetic.convert(self(e.operands[0]), e.dtype)
        x, y = (self(operand) for operand in e.operands)
        return arithmetic.idiom(e.name, x, y, e.dtype)

    def visit_unary(self, e: Unary) -> Value:
        return arithmetic.unary(e.op, self(e.operand), e.dtype)

    def visit_binary(self, e: Binary) -> Value:
        return arithmetic.binary(e.op, self(e.left), self(e.right), e.dtype)

    def visit_select(self, e: Select) -> Value:
        """Lazy for a uniform condition; if lanes differ, all lanes compute both branches, as vector code does."""
        condition = self(e.condition)
        if np.ndim(condition) == 0:
            return arithmetic.convert(self(e.yes if condition else e.no), e.dtype)
        return arithmetic.convert(np.where(condition, self(e.yes), self(e.no)), e.dtype)

    def visit_cast(self, e: Cast) -> Value:
        return arithmetic.convert(self(e.operand), e.dtype)

    def visit_call(self, e: Call) -> Value:
        return arithmetic.call(e.function, [self(argument) for argument in e.arguments], e.dtype, e.extern)


def bound(variables: Mapping[str, Value]) -> Evaluator:
    """An evaluator of expressions over `variables` alone."""
    return Evaluator(Frame(dict(variables), {}))
