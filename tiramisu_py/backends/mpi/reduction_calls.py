"""Reductions over ranks in C: the ranks along a line of the process grid combine partial results in place."""

from __future__ import annotations

from collections.abc import Sequence

import cgen

from tiramisu_py.algorithm.expressions import Expr, as_typed
from tiramisu_py.algorithm.types import DType, component_types
from tiramisu_py.backends.c.expressions.scalars import Scalars
from tiramisu_py.backends.c.expressions.scope import Scope
from tiramisu_py.backends.mpi.element_types import mpi_type
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import AllReduce, LoopFunction
from tiramisu_py.ir import rewriting as transform
from tiramisu_py.ir.arithmetic.components import combined
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
    if len(node.arrays) > 1:
        return [cgen.Block(_of_components(node, extents, scope))]
    array, scalars = scope.arrays[node.arrays[0]], Scalars(scope)
    kind, sizes = node.dtype.c_name, ", ".join(map(scalars.text, array.extents)) or "1"
    along = sum(1 << axis for axis in node.axes)
    count = f"TM_BYTES({kind}, {sizes})/{node.dtype.bytes}"
    given = [f'"{node.statement}"', kind, array.name, count, mpi_type(node.dtype)]
    where = [str(along), *map(scalars.text, extents)]
    if node.tree and (node.dtype.is_half or not node.operator.own_name):
        operands = (Variable(name, node.dtype) for name in ("tm_own", "tm_other"))
        value = scalars.text(as_typed(node.operator.combine(*operands), node.dtype))
        return [cgen.Statement(f"TM_TREE_COMBINE({', '.join([*given, f'({value})', *where])})")]
    given += [operation(node.dtype, node.operator.name), *where]
    return [cgen.Statement(f"{'TM_TREE_REDUCE' if node.tree else 'TM_ALL_REDUCE'}({', '.join(given)})")]


def _of_components(node: AllReduce, extents: Sequence[Expr], scope: Scope) -> list[cgen.Generable]:
    """The combination of values of several components, each in an array of its own, in a tree."""
    if not node.tree:
        raise CompilerDefect(f"MPI does not combine several values at once: {node.statement}")
    scalars, types = Scalars(scope), component_types(node.dtype)
    arrays = [scope.arrays[name] for name in node.arrays]
    sizes = ", ".join(map(scalars.text, arrays[0].extents)) or "1"
    count = f"TM_BYTES({types[0].c_name}, {sizes})/{types[0].bytes}"
    parts = ", ".join(
        f"{{{mpi_type(own)}, sizeof({own.c_name}), (char *){array.name}, NULL}}"
        for array, own in zip(arrays, types, strict=True)
    )
    statement, along = f'"{node.statement}"', sum(1 << axis for axis in node.axes)
    each = cgen.For(
        cgen.Line("int tm_k = 0"), cgen.Line("tm_k < tm_tree.some"), cgen.Line("tm_k++"),
        cgen.Block(_combined(node, types, scalars)),
    )  # fmt: skip
    return [
        cgen.Statement(f"const int64_t tm_grid[] = {{{', '.join(map(scalars.text, extents))}}}"),
        cgen.Statement(f"tm_mpi_part tm_parts[] = {{{parts}}}"),
        cgen.Statement(f"tm_mpi_tree tm_tree = TM_TREE_OF({statement}, tm_parts, {count}, {along}, tm_grid)"),
        cgen.While(cgen.Line(f"tm_mpi_tree_takes(&mpi, {statement}, &tm_tree)"), each),
    ]


def _combined(node: AllReduce, types: Sequence[DType], scalars: Scalars) -> list[cgen.Generable]:
    """One element of each part, combined with that of another rank; all are computed before one is stored."""
    mine, others = ([Variable(f"tm_{who}_{k}", own) for k, own in enumerate(types)] for who in ("own", "other"))
    lines: list[cgen.Generable] = []
    for k, own in enumerate(types):
        loaded = [f"tm_{who}_{k} = ((const {own.c_name} *)tm_parts[{k}].{who})[tm_k]" for who in ("own", "other")]
        lines.append(cgen.Statement(f"const {own.c_name} {', '.join(loaded)}"))
    values = combined(node.operator, mine, others, node.dtype)
    new = [f"tm_new_{k}" for k in range(len(types))]
    for own, name, value in zip(types, new, values, strict=True):
        lines.append(cgen.Statement(f"const {own.c_name} {name} = {scalars.text(value)}"))
    stored = [cgen.Assign(f"(({own.c_name} *)tm_parts[{k}].own)[tm_k]", new[k]) for k, own in enumerate(types)]
    return [*lines, *stored]
