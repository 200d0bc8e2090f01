"""Versions of a function in which some parameters and scalars are constant."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from tiramisu_py import sets
from tiramisu_py.algorithm.evaluate import numeric
from tiramisu_py.algorithm.expressions import COMPARISONS, Binary, Const, Expr, Param, Select
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.algorithm.types import bool_
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import ArrayArgument, LoopFunction, Scalar, Version
from tiramisu_py.ir.arithmetic.simplify import simplified, simplify
from tiramisu_py.ir.rewriting import rewrite_expressions
from tiramisu_py.program.program import Program, Sizes


def with_versions(program: Program, function: LoopFunction, lowered: Callable[[Program], LoopFunction]) -> LoopFunction:
    """The function with a version for each set of constant sizes of the program; those with most sizes come first."""
    if not program.specialized:
        return function
    if function.grid is not None or function.kernels or function.devices:
        raise CompilerDefect(
            f"{function.name} uses {'ranks' if function.grid is not None else 'GPUs'}: specialize is for functions "
            "that run on the host alone"
        )
    ordered = sorted(program.specialized, key=lambda sizes: -len(sizes))
    return replace(function, versions=tuple(_version(program, sizes, lowered) for sizes in ordered))


def _version(program: Program, sizes: Sizes, lowered: Callable[[Program], LoopFunction]) -> Version:
    own = [(param, int(value)) for param, value in sizes if param in program.algorithm.params]
    context = sets.with_sizes(program.context, own)
    function = lowered(program.with_(narrowed=context, specialized=()))
    name = "_".join([function.name, *(re.sub(r"\W", "_", f"{param}{value}") for param, value in sizes)])
    return Version(sizes, _with_constants(replace(function, name=name), dict(sizes)))


def _with_constants(function: LoopFunction, values: Mapping[str, bool | int | float]) -> LoopFunction:
    def literal(e: Expr) -> Expr | None:
        return Const(values[e.name], e.dtype) if isinstance(e, Param | Scalar) and e.name in values else None

    def constant(sizes: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(simplified(rewrite(e, literal)) for e in sizes)

    arguments = tuple(
        replace(a, extents=constant(a.extents), strides=None if a.strides is None else constant(a.strides))
        if isinstance(a, ArrayArgument)
        else a
        for a in function.arguments
    )
    preconditions = tuple((rewrite(condition, literal), words) for condition, words in function.preconditions)
    body = rewrite_expressions(rewrite_expressions(function.body, literal), _decided)
    return replace(function, arguments=arguments, preconditions=preconditions, body=simplify(body))


def _decided(e: Expr) -> Expr | None:
    """A comparison of literals as a truth value, and the branch that a literal chooses."""
    if isinstance(e, Select):
        test = rewrite(e.condition, _decided)
        return rewrite(e.yes if test.value else e.no, _decided) if isinstance(test, Const) else None
    if isinstance(e, Binary) and e.op in COMPARISONS and isinstance(e.left, Const) and isinstance(e.right, Const):
        left, right = (numeric.literal(side.value, side.dtype) for side in (e.left, e.right))
        return Const(bool(numeric.binary(e.op, left, right, bool_)), bool_)
    return None
