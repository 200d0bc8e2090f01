"""Numbers that all launches of a kernel pass, written into the kernel itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tiramisu_py.algorithm.expressions import Expr, Iter, Param, constant
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.ir import Assign, Declare, For, KernelFunction, Launch, Let, LoopFunction, Node
from tiramisu_py.ir.rewriting import of_kind, rewrite_expressions, walk, with_children
from tiramisu_py.passes.base import About, FunctionPass
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class LaunchConstants(FunctionPass):
    """Write a number that all launches of a kernel pass into the kernel itself.

    ::

        start k(n = 8, x)     -->   start k(x)
        kernel k(n, x):             kernel k(x):
            x[i % n] = ..               x[i % 8] = ..
    """

    def apply(self, what: LoopFunction, about: About) -> LoopFunction:
        return with_literals(what)


def with_literals(function: LoopFunction) -> LoopFunction:
    """The function without kernel parameters for which every launch passes the same number."""
    launches = [*of_kind(function.body, Launch)]
    known = {kernel.name: _literals(kernel, launches) for kernel in function.gpus.kernels}
    if not any(known.values()):
        return function
    params = {kernel.name: kernel.params for kernel in function.gpus.kernels}

    def host(node: Node) -> Node:
        if isinstance(node, Launch):
            own = params[node.kernel]
            kept = [v for n, v in zip(own, node.values, strict=False) if n not in known[node.kernel]]
            node = replace(node, values=(*kept, *node.values[len(own) :]))
        return with_children(node, host)

    kernels = tuple(_with(kernel, known[kernel.name]) for kernel in function.gpus.kernels)
    return replace(function, body=host(function.body), gpus=replace(function.gpus, kernels=kernels))


def _literals(kernel: KernelFunction, launches: list[Launch]) -> dict[str, Expr]:
    """The parameters that are known, with their values, except those whose name the kernel also defines."""
    passed = [node.values for node in launches if node.kernel == kernel.name]
    inside = {node.variable for node in walk(kernel.body) if isinstance(node, For | Let | Declare | Assign)}
    found = {}
    for name, values in zip(kernel.params, zip(*passed, strict=True), strict=False):
        numbers = {constant(value) for value in values}
        if len(numbers) == 1 and None not in numbers and name not in inside:
            found[name] = values[0]
    return found


def _with(kernel: KernelFunction, known: Mapping[str, Expr]) -> KernelFunction:
    if not known:
        return kernel

    def literal(e: Expr) -> Expr | None:
        return known.get(e.name) if isinstance(e, Iter | Param) else None

    def known_extents(extents: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(rewrite(e, literal) for e in extents)

    arrays = tuple(
        replace(a, extents=known_extents(a.extents), passed=None if a.passed is None else known_extents(a.passed))
        for a in kernel.arrays
    )
    return replace(
        kernel,
        params=tuple(name for name in kernel.params if name not in known),
        arrays=arrays,
        body=rewrite_expressions(kernel.body, literal),
        nonnegative=tuple(name for name in kernel.nonnegative if name not in known),
    )
