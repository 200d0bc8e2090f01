"""Scalar expressions in kernels: as in C, for a language with overloaded conversions and without the user's C."""

from __future__ import annotations

from tiramisu_py.algorithm.expressions import Call, Expr
from tiramisu_py.algorithm.types import DType
from tiramisu_py.backends.c.precedence import Code, cast
from tiramisu_py.backends.c.scalars import Scalars
from tiramisu_py.backends.cuda.scope import KernelScope
from tiramisu_py.errors import UnsupportedError
from tiramisu_py.lower.ir import GpuIndex
from tiramisu_py.program.loops import AXES

_BUILTINS = {"block": "blockIdx", "thread": "threadIdx", "grid": "gridDim"}


def builtin(unit: str, axis: int) -> str:
    """CUDA's name for a number of this block, of this thread, or of all blocks."""
    return f"{_BUILTINS[unit]}.{AXES[axis]}"


class KernelScalars(Scalars):
    """Prints expressions of one lane, in a scope of a kernel."""

    def __call__(self, e: Expr) -> Code:
        if isinstance(e, GpuIndex):
            assert isinstance(self.scope, KernelScope)
            return Code(self.scope.number(e.unit, e.axis))
        if isinstance(e, Call) and e.extern is not None:
            raise UnsupportedError(
                f"a kernel cannot call {e.extern.name}, a function of the host: compute it outside of the kernel"
            )
        return super().__call__(e)

    def half_of(self, value: Code, source: DType) -> Code:
        """A value as the conversion to a 16-bit float wants it: there is one for float, double and int each."""
        return cast("double", value) if source.is_integer and source.bits >= 32 else value
