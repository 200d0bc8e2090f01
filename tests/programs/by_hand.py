"""Algorithms built by hand, and what a lowered function computes on NumPy arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import islpy as isl
import numpy as np

from tiramisu_py import sets
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.declarations import Algorithm, Computation, Input
from tiramisu_py.algorithm.domains.extents_from_arguments import shape_value
from tiramisu_py.algorithm.expressions import Access, Expr, Iter, Param, as_expr
from tiramisu_py.algorithm.operators import Operator
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.algorithm.types import DType
from tiramisu_py.interpret import run
from tiramisu_py.ir import Allocate, ArrayArgument, Block, Comment, For, If, Let, Load, LoopFunction, Node, Store
from tiramisu_py.program.initial import initial_program
from tiramisu_py.program.program import Program
from tiramisu_py.schedule.command_fields import NamedParts


def part(name: str) -> NamedParts:
    """The statement of this name, for commands."""
    return NamedParts(name, name, name, (name,))


class Author:
    """Writes an algorithm down, domains as isl text over the parameters."""

    def __init__(self, name: str, params: str, assume: str = "") -> None:
        self.names = tuple(params.split())
        context = isl.Context()
        prefix = f"[{', '.join(self.names)}] -> "
        condition = " and ".join([*(f"{p} >= 0" for p in self.names), *([assume] if assume else [])])
        assumed = isl.Set.read_from_str(context, f"{prefix}{{ : {condition} }}")
        self.prefix = prefix
        self.algorithm = Algorithm(name, context, self.names, assumed)

    def params(self) -> list[Param]:
        return [Param(name) for name in self.names]

    def input(self, name: str, dtype: DType, shape: Sequence[Any], scalar: bool = False, values: Any = None) -> _Handle:
        bounds = None if values is None else (as_expr(values[0]), as_expr(values[1]))
        declared = Input(name, dtype, tuple(as_expr(extent) for extent in shape), scalar=scalar, values=bounds)
        self.algorithm = self.algorithm.with_input(declared)
        return _Handle(name, dtype)

    def set(self, name: str, dims: Sequence[str], where: str) -> isl.Set:
        text = f"{self.prefix}{{ {name}[{', '.join(dims)}] : {where} }}"
        return isl.Set.read_from_str(self.algorithm.isl_context, text)

    def computation(
        self, name: str, dims: str, where: str, expr: Expr, dtype: DType = ty.float32, guards: tuple[Expr, ...] = (),
        shape: Sequence[Any] | None = None,
    ) -> _Handle:  # fmt: skip
        names = tuple(dims.split())
        domain = self.set(name, names, where)
        extents = None if shape is None else tuple(as_expr(extent) for extent in shape)
        declared = Computation(name, dtype, names, domain, domain, as_expr(expr), guards, shape=extents)
        self.algorithm = self.algorithm.with_computation(declared)
        return _Handle(name, dtype)

    def reduction(
        self, name: str, dims: str, where: str, over: str, points: str, op: Operator, expr: Expr,
        dtype: DType = ty.float32, guards: tuple[Expr, ...] = (),
    ) -> _Handle:  # fmt: skip
        names, inner = tuple(dims.split()), tuple(over.split())
        domain, terms = self.set(name, names, where), self.set(name, names + inner, points)
        declared = Computation(name, dtype, names, domain, terms, expr, guards, inner, op)
        self.algorithm = self.algorithm.with_computation(declared)
        return _Handle(name, dtype)

    def program(self, *outputs: str) -> Program:
        return initial_program(self.algorithm.with_outputs(outputs))


class _Handle:
    def __init__(self, name: str, dtype: DType) -> None:
        self.name, self.dtype = name, dtype

    def __getitem__(self, indices: Any) -> Access:
        listed = indices if isinstance(indices, tuple) else (indices,)
        return Access(self.name, tuple(as_expr(index) for index in listed), self.dtype)

    def value(self) -> Access:
        return Access(self.name, (), self.dtype)


def iters(names: str) -> list[Iter]:
    return [Iter(name) for name in names.split()]


def text(node: Node | None, indent: int = 0) -> str:
    """Loop IR as a person would write it down."""
    pad = "  " * indent
    match node:
        case Block():
            return "".join(text(child, indent) for child in node.body)
        case Comment():
            return f"{pad}# {node.text}\n"
        case For():
            tag = f"  [{node.tag.name}]" if node.tag else ""
            private = f"  private {', '.join(p.buffer for p in node.reductions)}" if node.reductions else ""
            step = "" if node.step == 1 else f" by {node.step}"
            head = f"{pad}for {node.variable} = {node.lower} .. {node.upper}{step}{tag}{private}\n"
            return head + text(node.body, indent + 1)
        case If():
            no = f"{pad}else\n{text(node.otherwise, indent + 1)}" if node.otherwise is not None else ""
            return f"{pad}if {node.condition}\n{text(node.then, indent + 1)}{no}"
        case Let():
            return f"{pad}{node.variable} = {_shown(node.value)}\n{text(node.body, indent)}"
        case Store():
            return f"{pad}{node.buffer}[{', '.join(map(str, node.indices))}] = {_shown(node.value)}\n"
        case Allocate():
            kind = "register" if node.register else "allocate"
            return f"{pad}{kind} {node.buffer}[{', '.join(map(str, node.extents))}]\n{text(node.body, indent)}"
    return ""


def _shown(value: Expr) -> str:
    """The expression with its loads as ``buffer[indices]``."""

    def access(e: Expr) -> Expr | None:
        if not isinstance(e, Load):
            return None
        return Access(e.buffer, tuple(rewrite(index, access) for index in e.indices), e.dtype)

    return str(rewrite(value, access))


def every(node: Node | None, kind: type) -> list[Any]:
    """The nodes of one class, in order."""
    found = [node] if isinstance(node, kind) else []
    match node:
        case Block():
            children: tuple[Node | None, ...] = node.body
        case If():
            children = (node.then, node.otherwise)
        case For() | Let() | Allocate():
            children = (node.body,)
        case _:
            children = ()
    for child in children:
        found += every(child, kind)
    return found


def computed(
    function: LoopFunction, params: Mapping[str, int], inputs: Mapping[str, Any], seed: int = 0
) -> dict[str, np.ndarray]:
    """What the function returns, run by the adversarial machine."""
    arrays = {name: np.copy(value) for name, value in inputs.items()}
    for argument in function.arguments:
        if isinstance(argument, ArrayArgument) and argument.name not in arrays:
            arrays[argument.name] = np.zeros(shape_value(argument.extents, params), argument.dtype.numpy)
    run(function, arrays, params, seed)
    return {name: arrays[name] for name in function.outputs}


__all__ = ["Author", "computed", "every", "iters", "sets", "text"]
