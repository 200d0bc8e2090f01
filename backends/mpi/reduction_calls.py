"""Reductions over ranks in C: the ranks along a line of the process grid combine partial results in place."""

from __future__ import annotations

from collections.abc import Sequence

import cgen

from tiramisu_py.algorithm.expressions import Expr, as_typed
from tiramisu_py.algorithm.types import DType
from tiramisu_py.backends.c.expressions.scalars import Scalars
from tiramisu_py.backends.c.expressions.scope import Scope
from tiramisu_py.backends.mpi.element_types import mpi_type
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import AllReduce, LoopFunction
from tiramisu_py.ir import rewriting as transform
from tiramisu_py.ir.expressions import Variable

RUNTIME = "tm_mpi_reductions.h"
_NUMBERS = {"sum": "MPI_SUM", "product": "MPI_PROD", "min": "MPI_MIN", "max": "MPI_MAX"}
_BITS = {"logical_and": "MPI_BAND", "logical_or": "MPI_BOR"}
_TRUTHS = {"logical_and": "MPI_LAND", "logical_or": "MPI_LOR"}


def runtime(function: LoopFunction) -> tuple[str, ...]:
    """The headers for the reductions of a function."""
    if not any(isinstance(node, AllReduce) for node in transform.walk(function.body)):
        return ()
    return (RUNTIME,)


def operation(dtype: DType, operator: str) -> str:
    """MPI's name for an operator."""
    known = _TRUTHS if dtype.is_bool else {**_NUMBERS, **({} if dtype.is_float else _BITS)}
    if operator not in known:
        raise CompilerDefect(f"MPI does not combine {dtype} by {operator}")
    return known[operator]


def all_reduce(node: AllReduce, extents: Sequence[Expr], scope: Scope) -> list[cgen.Generable]:
    """The combination of an array of partial results, on a process grid of `extents`."""
    if scope.threaded:
        raise CompilerDefect(f"{node.statement} is inside a parallel loop, but only one thread may combine")
    array, scalars = scope.arrays[node.array], Scalars(scope)
    kind, sizes = node.dtype.c_name, ", ".join(map(scalars.text, array.extents)) or "1"
    along = sum(1 << axis for axis in node.axes)
    count = f"TM_BYTES({kind}, {sizes})/{node.dtype.bytes}"
    given = [f'"{node.statement}"', kind, array.name, count, mpi_type(node.dtype)]
    where = [str(along), *map(scalars.text, extents)]
    if node.tree and (node.dtype.is_half or not node.operator.own_name):
        operands = (Variable(name, node.dtype) for name in ("tm_own", "tm_other"))
        combined = scalars.text(as_typed(node.operator.combine(*operands), node.dtype))
        return [cgen.Statement(f"TM_TREE_COMBINE({', '.join([*given, f'({combined})', *where])})")]
    given += [operation(node.dtype, node.operator.name), *where]
    return [cgen.Statement(f"{'TM_TREE_REDUCE' if node.tree else 'TM_ALL_REDUCE'}({', '.join(given)})")]
