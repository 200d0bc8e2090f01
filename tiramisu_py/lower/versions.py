"""Versions of a function in which some parameters are constant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Const, Expr, Param
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import ArrayArgument, LoopFunction, Version
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
    context = sets.with_sizes(program.context, sizes)
    function = lowered(program.with_(narrowed=context, specialized=()))
    name = "_".join([function.name, *(f"{param}{value}" for param, value in sizes)])
    return Version(sizes, _with_constants(replace(function, name=name), dict(sizes)))


def _with_constants(function: LoopFunction, values: Mapping[str, int]) -> LoopFunction:
    def literal(e: Expr) -> Expr | None:
        return Const(values[e.name], e.dtype) if isinstance(e, Param) and e.name in values else None

    def constant(sizes: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(simplified(rewrite(e, literal)) for e in sizes)

    arguments = tuple(
        replace(a, extents=constant(a.extents), strides=None if a.strides is None else constant(a.strides))
        if isinstance(a, ArrayArgument)
        else a
        for a in function.arguments
    )
    preconditions = tuple((rewrite(condition, literal), words) for condition, words in function.preconditions)
    body = simplify(rewrite_expressions(function.body, literal))
    return replace(function, arguments=arguments, preconditions=preconditions, body=body)
