"""A function in miniature: declares against an algorithm and hands out accesses, as the public `Function` does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import islpy as isl
import numpy as np

from tiramisu_py.algorithm.declarations import Algorithm, Computation, Input
from tiramisu_py.algorithm.declare.declare import declare_computation, declare_input, declare_reduction, declare_scalar
from tiramisu_py.algorithm.domains.domain import parse_context
from tiramisu_py.algorithm.domains.references import access
from tiramisu_py.algorithm.evaluate.evaluate import evaluate
from tiramisu_py.algorithm.expressions import Access, Iter, Param


@dataclass(frozen=True)
class Handle:
    """A declared name: indexing it gives an access."""

    declared: Input | Computation
    owner: object

    def __getitem__(self, indices: Any) -> Access:
        d = self.declared
        rank = len(d.shape) if isinstance(d, Input) else len(d.iterators)
        return access(d.name, d.dtype, rank, indices, self.owner)

    def __tiramisu_expr__(self) -> Access:
        return self[()]


class Small:
    """A function in miniature, over parameters named in one string."""

    def __init__(self, params: str = "", assume: Any = None, name: str = "f") -> None:
        names, context = tuple(params.split()), isl.Context()
        self.algorithm = Algorithm(name, context, names, parse_context(context, names, assume))

    def input(self, name: str, dtype: Any, shape: Any, **facts: Any) -> Handle:
        declared = declare_input(self.algorithm, name, dtype, shape, owner=self, **facts)
        self.algorithm = self.algorithm.with_input(declared)
        return Handle(declared, self)

    def scalar(self, name: str, dtype: Any, **facts: Any) -> Handle:
        declared = declare_scalar(self.algorithm, name, dtype, owner=self, **facts)
        self.algorithm = self.algorithm.with_input(declared)
        return Handle(declared, self)

    def computation(self, name: str, domain: Any, expr: Any, **more: Any) -> Handle:
        declared = declare_computation(self.algorithm, name, domain, expr, owner=self, **more)
        self.algorithm = self.algorithm.with_computation(declared).with_outputs((name,))
        return Handle(declared, self)

    def reduction(self, name: str, domain: Any, over: Any, op: Any, expr: Any, **more: Any) -> Handle:
        declared = declare_reduction(self.algorithm, name, domain, over, op, expr, owner=self, **more)
        self.algorithm = self.algorithm.with_computation(declared).with_outputs((name,))
        return Handle(declared, self)

    def evaluate(self, params: dict[str, int] | None = None, **arguments: Any) -> np.ndarray:
        """The last declared computation."""
        (result,) = evaluate(self.algorithm, arguments, params).values()
        return result

    def elements(self, name: str, **params: int) -> set[tuple[int, ...]]:
        """The points of a computation at some sizes, by isl."""
        points = self.algorithm.computations[name].points
        for position, param in enumerate(self.algorithm.params):
            points = points.fix_val(isl.dim_type.param, position, isl.Val(params.get(param, 0), points.get_ctx()))
        found: set[tuple[int, ...]] = set()
        axes = range(points.dim(isl.dim_type.set))
        points.project_out(isl.dim_type.param, 0, len(self.algorithm.params)).foreach_point(
            lambda point: found.add(tuple(point.get_coordinate_val(isl.dim_type.set, k).to_python() for k in axes))
        )
        return found


def iters(names: str) -> list[Iter]:
    return [Iter(name) for name in names.split()]


def params(names: str) -> list[Param]:
    return [Param(name) for name in names.split()]
