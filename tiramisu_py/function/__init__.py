"""The public objects: `Function` and the handles of its declarations."""

from typing import TYPE_CHECKING

from tiramisu_py.fronts import front

if TYPE_CHECKING:
    from tiramisu_py.function.compile_versions import compile_versions
    from tiramisu_py.function.function import Function, iters, load, params
    from tiramisu_py.function.handles.computations import Computation, Input, Part, Reduction, Selection
    from tiramisu_py.function.handles.exchange_handles import Exchange, Half
    from tiramisu_py.function.handles.operations import Barrier, Operation, Transfer, Wait
    from tiramisu_py.function.handles.segments import InverseRuns, Segments
    from tiramisu_py.function.together import Group

front(
    __name__,
    {
        "tiramisu_py.function.compile_versions": "compile_versions",
        "tiramisu_py.function.function": "Function, iters, load, params",
        "tiramisu_py.function.handles.computations": "Computation, Input, Part, Reduction, Selection",
        "tiramisu_py.function.handles.segments": "InverseRuns, Segments",
        "tiramisu_py.function.handles.exchange_handles": "Exchange, Half",
        "tiramisu_py.function.handles.operations": "Barrier, Operation, Transfer, Wait",
        "tiramisu_py.function.together": "Group",
    },
)

__all__ = [
    "Barrier",
    "Computation",
    "Exchange",
    "Function",
    "Group",
    "Half",
    "Input",
    "InverseRuns",
    "Operation",
    "Part",
    "Reduction",
    "Segments",
    "Selection",
    "Transfer",
    "Wait",
    "compile_versions",
    "iters",
    "load",
    "params",
]
