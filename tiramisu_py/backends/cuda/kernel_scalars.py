"""Scalar expressions in kernels: as in C, but with C++'s overloaded conversions, and without the user's C functions."""

from __future__ import annotations

from tiramisu_py.algorithm.expressions import Binary, Call, Const, Expr
from tiramisu_py.algorithm.types import DType, float32, strong
from tiramisu_py.backends.c.expressions.math_functions import c_function
from tiramisu_py.backends.c.expressions.parentheses import Code, call, cast
from tiramisu_py.backends.c.expressions.scalars import Scalars, operand
from tiramisu_py.backends.cuda.kernel_scope import KernelScope
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import GpuIndex, Load
from tiramisu_py.program.loops import AXES

_BUILTINS = {"block": "blockIdx", "thread": "threadIdx", "grid": "gridDim"}


def builtin(unit: str, axis: int) -> str:
    """CUDA's name for the index of this block or thread, or for the number of blocks, along an axis."""
    return f"{_BUILTINS[unit]}.{AXES[axis]}"


#: The divisors for which the kernels' header has a division without branches.
SMALL_NUMBERS = frozenset(range(3, 256, 2))


def _is_small_number(divisor: Expr) -> bool:
    return isinstance(divisor, Const) and strong(divisor.dtype) == float32 and divisor.value in SMALL_NUMBERS


class KernelScalars(Scalars):
    """Prints expressions of one lane, in a kernel's scope."""

    def __call__(self, e: Expr) -> Code:
        if isinstance(e, GpuIndex):
            assert isinstance(self.scope, KernelScope)
            return Code(self.scope.number(e.unit, e.axis))
        if isinstance(e, Load) and self.scope.arrays[e.buffer].apart:
            return call("tm_load_apart", f"&{self.element(e.buffer, e.indices)}")
        if isinstance(e, Call) and e.extern is not None:
            raise CompilerDefect(
                f"a kernel cannot call {e.extern.name}, a function of the host: compute it outside of the kernel"
            )
        if isinstance(e, Binary) and e.op == "/" and _is_small_number(e.right):
            return call("tm_divide", self(operand(e.left, float32)), self(operand(e.right, float32)))
        return super().__call__(e)

    def function(self, name: str, dtype: DType) -> str:
        """CUDA's own function."""
        return c_function(name, dtype)

    def half_of(self, value: Code, source: DType) -> Code:
        """A value in a type that a conversion to a 16-bit float takes: float, double or int."""
        return cast("double", value) if source.is_integer and source.bits >= 32 else value
