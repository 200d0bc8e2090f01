"""The public objects: `Function` and the handles of what it declares."""

from tiramisu_py.function.function import Function, iters, params
from tiramisu_py.function.handles import Computation, Input, Reduction
from tiramisu_py.function.selection import Part, Selection

__all__ = ["Computation", "Function", "Input", "Part", "Reduction", "Selection", "iters", "params"]
