"""The steps of a traced model as computations of a function: layer I of the layer, without any schedule."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import tiramisu_py as tm
from tiramisu_py.graphs.tracing import ModelTrace
from tiramisu_py.graphs.values import EDGES, AssignedValue, ModelStep, ModelValue, NodeSum, RowProduct
from tiramisu_py.records import dataclass

#: The sizes of a graph: nodes, edges, and types of both.
N, E, R, T = tm.params("N E R T")
n, p, k = tm.iters("n p k")
#: Iterators over the axes of a value.
AXES = tm.iters("i j l m")


@dataclass(eq=False)
class EmittedLayer:
    """A function with a computation for each step of a trace."""

    f: tm.Function
    dtype: tm.DType
    #: How many nodes there are: the parameter, or their number.
    nodes: Any = N
    #: The runs of the edges that end at each node, in programs in which edges lie by these.
    into: Any = None
    steps: dict[ModelStep, Any] = field(default_factory=dict)
    indices: dict[str, Any] = field(default_factory=dict)

    def index(self, name: str) -> Any:
        """An index of edges or nodes, ``src``, ``dst``, ``etype`` or ``ntype``; declared where it is first used."""
        if name not in self.indices:
            extent, values = (self.nodes, T) if name == "ntype" else (E, R if name == "etype" else self.nodes)
            self.indices[name] = self.f.input(name, tm.int32, [extent], values=(0, values))
        return self.indices[name]

    def node_at(self, end: str, edge: Any) -> Any:
        """The node at an end of an edge: read from the index, or the node whose run the edge is in."""
        return n if end == "dst" and self.into is not None else self.index(end)[edge]

    def points(self, loop: str) -> dict[Any, Any]:
        """The iterators of a loop over edges or nodes, with their extents."""
        if loop != EDGES:
            return {n: self.nodes}
        return {p: E} if self.into is None else {n: self.nodes, p: self.into[n]}

    def instance(self, loop: str, point: Any) -> tuple[Any, ...]:
        """The indices of a value of an edge or a node."""
        return (point,) if loop != EDGES or self.into is None else (n, point)


def emitted(trace: ModelTrace, name: str, dtype: tm.DType, nodes: int | None = None) -> EmittedLayer:
    """The function of a trace: inputs in the order of nodes, edges, weights and indices.

    Of a number of nodes, edges lie in runs by the node where they end, as ranks want them that own nodes.
    """
    types = {each.types for each in trace.weights.values()}
    count = N if nodes is None else nodes
    sizes = [*([N] if nodes is None else []), E]
    f = tm.Function(name, params=[*sizes, *([R] if "etype" in types else []), *([T] if "ntype" in types else [])])
    into = None if nodes is None else f.segments("rows", nodes, of=E)
    for given, shape in trace.node.items():
        f.input(given, dtype, [count, *shape])
    for given, shape in trace.edge.items():
        f.input(given, dtype, [E, *shape])
    for weight in trace.weights.values():
        first = {"etype": [R], "ntype": [T]}.get(weight.types, [])
        f.input(weight.name, dtype, [*first, *weight.shape])
    made = EmittedLayer(f, dtype, count, into)
    needed = _needed(trace)
    for each in trace.steps:
        if each in needed:
            made.steps[each] = _declared(made, each)
    f.outputs(*(made.steps[each] for each in trace.outputs))
    return made


def _needed(trace: ModelTrace) -> set[ModelStep]:
    """The steps that the outputs are made of."""
    found: set[ModelStep] = set()
    waiting: list[ModelValue] = [*trace.outputs]
    while waiting:
        value = waiting.pop()
        if isinstance(value, ModelStep):
            if value in found:
                continue
            found.add(value)
        waiting += value.parts
    return found


def _declared(made: EmittedLayer, step: ModelStep) -> Any:
    """The computation of one step."""
    f, axes = made.f, AXES[: len(step.shape)]
    point, rows = p if step.loop == EDGES else n, dict(zip(axes, step.shape, strict=True))
    domain: dict[Any, Any] = {**made.points(step.loop), **rows}
    match step:
        case NodeSum():
            term = _typed(made, step.term.at(made, p, axes))
            op = tm.max if step.largest else tm.sum
            if made.into is not None and step.end == "dst":
                return f.reduction(step.label, domain, {p: made.into[n]}, op, term)
            places = [made.index(step.end)[p], *axes]
            return f.scatter(step.label, domain, over=made.points(EDGES), at=places, op=op, expr=term)
        case RowProduct(kind="dot"):
            left, right = (each.at(made, point, [*axes, k]) for each in (step.left, step.right))
            return f.reduction(step.label, domain, {k: step.left.shape[-1]}, tm.sum, left * right)
        case RowProduct():
            *heads, column = axes
            row = step.left.at(made, point, [*heads, k] if len(step.left.shape) > 1 else [k])
            matrix = step.right.at(made, point, [*heads, k, column])
            return f.reduction(step.label, domain, {k: step.right.shape[-2]}, tm.sum, row * matrix)
        case AssignedValue():
            return f.computation(step.label, domain, _typed(made, step.of.at(made, point, axes)))
    raise TypeError(f"no computation for {step!r}")


def _typed(made: EmittedLayer, e: Any) -> Any:
    """An expression of the layer's type: numbers have none of their own."""
    return tm.cast(made.dtype, e) if isinstance(e, int | float) else e
