"""The public objects: `Function` and the handles of its declarations."""

from tiramisu_py.function.compile_versions import compile_versions
from tiramisu_py.function.function import Function, iters, load, params
from tiramisu_py.function.handles.computations import Computation, Input, Reduction
from tiramisu_py.function.handles.exchange_handles import Exchange, Half
from tiramisu_py.function.handles.operations import Barrier, Operation, Transfer, Wait
from tiramisu_py.function.handles.selection import Part, Selection
from tiramisu_py.function.together import Group

__all__ = [
    "Barrier",
    "Computation",
    "Exchange",
    "Function",
    "Group",
    "Half",
    "Input",
    "Operation",
    "Part",
    "Reduction",
    "Selection",
    "Transfer",
    "Wait",
    "compile_versions",
    "iters",
    "load",
    "params",
]
