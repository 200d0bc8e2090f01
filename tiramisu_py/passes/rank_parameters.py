"""Parameters whose values differ by rank, defined in the function: ``image_from = rank0 == 0 ? 0 : H``.

Code guarded for one rank uses their values there: ``image[r - image_from]`` is ``image[r - H]`` below
``if (rank0 == 1)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tiramisu_py.algorithm.expressions import Binary, Const, Expr, Iter, Param
from tiramisu_py.algorithm.stacks import deep_nest
from tiramisu_py.algorithm.traversal import branches, rewrite, walk
from tiramisu_py.algorithm.types import int64
from tiramisu_py.ir import If, Let, LoopFunction, Node
from tiramisu_py.ir.arithmetic.build import conjuncts
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.ir.rewriting import rewrite_expressions, with_children, with_expressions
from tiramisu_py.passes.base import About, FunctionPass
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class DefineRankParameters(FunctionPass):
    """Define the parameters that differ between ranks, and fold them in code that only one rank runs.

    ::

        image[r - image_from]                      -->   image_from = rank0 == 0 ? 0 : H
        if (rank0 == 1): image[r - image_from]           image[r - image_from]
                                                         if (rank0 == 1): image[r - H]
    """

    def apply(self, what: LoopFunction, about: About) -> LoopFunction:
        return defined(what, about.definitions)


def defined(function: LoopFunction, definitions: Mapping[str, Expr]) -> LoopFunction:
    """The function with definitions for the parameters of a rank that its body uses."""
    if not definitions or function.grid is None:
        return function
    body = _Known(definitions, function.grid.coordinates).inside(function.body, {})
    body = rewrite_expressions(body, lambda e: _as_variable(e, definitions))
    for name, value in reversed(list(definitions.items())):
        body = Let(name, value, body)
    return replace(function, body=body)


def _as_variable(e: Expr, definitions: Mapping[str, Expr]) -> Expr | None:
    return Iter(e.name, int64) if isinstance(e, Param) and e.name in definitions else None


class _Known:
    """The rank parameters' values inside code guarded for one rank."""

    def __init__(self, definitions: Mapping[str, Expr], coordinates: tuple[str, ...]) -> None:
        self.definitions = definitions
        self.coordinates = coordinates

    @deep_nest
    def inside(self, node: Node, at: Mapping[str, int]) -> Node:
        """Code that only ranks with the coordinates `at` execute, with their parameters' values."""
        if at:
            values = {name: value for name, form in self.definitions.items() if (value := _on(form, at)) is not None}
            node = with_expressions(node, lambda e: _at(e, values))
        if not isinstance(node, If):
            return with_children(node, lambda child: self.inside(child, at))
        otherwise = None if node.otherwise is None else self.inside(node.otherwise, at)
        then = self.inside(node.then, {**at, **self._required(node.condition)})
        return replace(node, then=then, otherwise=otherwise)

    def _required(self, condition: Expr) -> dict[str, int]:
        """The coordinates that a condition requires."""
        return {
            part.left.name: int(part.right.value)
            for part in conjuncts(condition)
            if isinstance(part, Binary) and part.op == "==" and isinstance(part.left, Param)
            and part.left.name in self.coordinates and isinstance(part.right, Const)
        }  # fmt: skip


def _at(e: Expr, values: Mapping[str, Expr]) -> Expr:
    if not any(isinstance(part, Param) and part.name in values for part in walk(e)):
        return e
    return simplified(rewrite(e, lambda part: values.get(part.name) if isinstance(part, Param) else None))


def _on(form: Expr, at: Mapping[str, int]) -> Expr | None:
    """The value of a definition at some coordinates; None if it still has branches."""
    own = rewrite(form, lambda e: Const(at[e.name], int64) if isinstance(e, Param) and e.name in at else None)
    own = simplified(own)
    return None if branches(own) else own
