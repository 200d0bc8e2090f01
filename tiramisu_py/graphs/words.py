"""The operators of models: on values of edges and of nodes (table 3.2 of the thesis, and select)."""

from __future__ import annotations

from math import inf, prod
from typing import TYPE_CHECKING, Any

import tiramisu_py as tm
from tiramisu_py.errors import DeclarationError
from tiramisu_py.graphs.values import (
    JoinedRows,
    ModelValue,
    Reshaped,
    RowProduct,
    as_value,
    elementwise,
    larger,
    loop_of,
)

if TYPE_CHECKING:
    from tiramisu_py.graphs.tracing import TracedGraph


def linear(x: Any, weights: Any) -> ModelValue:
    """A row times a matrix of weights: ``(F,)`` and ``(F, G)`` give ``(G,)``; with heads ``(heads, F, G)`` a row each.

    The weights of a type are ``W[e.etype]``. With heads, `x` has a row for each, ``(heads, F)``, or one for all.
    """
    x, weights = as_value(x), as_value(weights)
    if len(weights.shape) not in (2, 3):
        raise DeclarationError(
            f"linear: the weights {weights.name} are a matrix, or one for each head, not {weights.shape}"
        )
    *heads, rows, columns = weights.shape
    if x.shape not in ((rows,), (*heads, rows)):
        raise DeclarationError(
            f"linear: {x.name} has the shape {x.shape}, and {weights.name} is {weights.shape}: it takes rows of {rows}"
        )
    return RowProduct("linear", "linear", x, weights, (*heads, columns), loop_of((x, weights)))


def dot_prod(a: Any, b: Any) -> ModelValue:
    """The sum of the products of two rows of one shape, over the last axis: ``(heads, F)`` gives ``(heads,)``."""
    a, b = as_value(a), as_value(b)
    if a.shape != b.shape or not a.shape:
        raise DeclarationError(
            f"dot_prod: {a.name} has the shape {a.shape}, and {b.name} {b.shape}: give two rows alike"
        )
    return RowProduct("dot", "dot", a, b, a.shape[:-1], loop_of((a, b)))


def outer_prod(a: Any, b: Any) -> ModelValue:
    """Each element of one row times each of another: ``(F,)`` and ``(G,)`` give ``(F, G)``."""
    a, b = as_value(a), as_value(b)
    if len(a.shape) != 1 or len(b.shape) != 1:
        raise DeclarationError(f"outer_prod: {a.name} is {a.shape} and {b.name} {b.shape}: give two rows")
    wide = SpreadRow(b, a.shape[0])
    return elementwise("*", lambda x, y: x * y, a, wide)


class SpreadRow(ModelValue):
    """A row, the same for each index of an axis before it."""

    def __init__(self, of: ModelValue, extent: int) -> None:
        self.of, self.shape, self.loop = of, (extent, *of.shape), of.loop

    @property
    def name(self) -> str:
        return self.of.name

    @property
    def parts(self) -> tuple[ModelValue, ...]:
        return (self.of,)

    def at(self, made: Any, point: Any, axes: Any) -> Any:
        return self.of.at(made, point, axes[1:])


def exp(x: Any) -> ModelValue:
    """``e ** x`` of each element."""
    return elementwise("exp", tm.exp, x)


def tanh(x: Any) -> ModelValue:
    """The hyperbolic tangent of each element."""
    return elementwise("tanh", tm.tanh, x)


def sqrt(x: Any) -> ModelValue:
    """The square root of each element."""
    return elementwise("sqrt", tm.sqrt, x)


def relu(x: Any) -> ModelValue:
    """Each element that is more than 0, else 0."""
    return leaky_relu(x, 0.0)


def leaky_relu(x: Any, slope: float = 0.01) -> ModelValue:
    """Each element that is more than 0, else `slope` times it."""
    return elementwise("leaky_relu", lambda a: tm.select(a > 0, a, a * slope), x)


def select(condition: Any, one: Any, other: Any) -> ModelValue:
    """`one` where a condition on values holds, else `other`: ``graphs.select(e["att"] > 0, e["att"], 0.0)``."""
    return elementwise("select", tm.select, condition, one, other)


def maximum(a: Any, b: Any) -> ModelValue:
    """The larger of two values, element by element.

    In a loop over the edges of a node, ``v["most"] = graphs.maximum(v["most"], e["att"])`` keeps the largest of all
    edges, from ``v["most"] = -np.inf`` on.
    """
    if hasattr(a, "largest_with"):
        grown: ModelValue = a.largest_with(as_value(b))
        return grown
    return larger(a, b)


def stop_gradient(x: Any) -> ModelValue:
    """A value as a constant for gradients: nothing of it has a gradient through this."""
    return elementwise("stop_gradient", tm.stop_gradient, x)


def concat(a: Any, b: Any) -> ModelValue:
    """Two values one after the other along the last axis: ``(F,)`` and ``(G,)`` give ``(F + G,)``."""
    a, b = as_value(a), as_value(b)
    if not a.shape or not b.shape or a.shape[:-1] != b.shape[:-1]:
        raise DeclarationError(
            f"concat: {a.name} has the shape {a.shape}, and {b.name} {b.shape}: only the last may differ"
        )
    loop_of((a, b))
    return JoinedRows(a, b)


def reshape(x: Any, *shape: int) -> ModelValue:
    """The elements of a value in the same order, in another shape: ``reshape(x, heads, 16)``."""
    x = as_value(x)
    if not all(isinstance(each, int) and each > 0 for each in shape) or prod(shape) != prod(x.shape):
        raise DeclarationError(f"reshape: {x.name} has {prod(x.shape)} elements in the shape {x.shape}, not {shape}")
    return Reshaped(x, tuple(shape))


def edge_softmax(g: TracedGraph, name: str, *, stable: bool = False) -> None:
    """Divide ``exp(e[name])`` of each edge by the sum over the edges that end where it does; in place of ``e[name]``.

    The sum is ``v[name + "_sum"]``. As in the thesis, nothing is taken off before, so that large values overflow;
    ``stable=True`` takes off the largest value of these edges, ``v[name + "_most"]``, as PyTorch does.
    """
    if stable:
        for v in g.dst_nodes():
            v[f"{name}_most"] = -inf
            for e in v.incoming_edges():
                v[f"{name}_most"] = maximum(v[f"{name}_most"], e[name])
        for e in g.edges():
            e[name] = e[name] - stop_gradient(e.dst[f"{name}_most"])
    for e in g.edges():
        e[name] = exp(e[name])
    for v in g.dst_nodes():
        v[f"{name}_sum"] = 0.0
        for e in v.incoming_edges():
            v[f"{name}_sum"] += e[name]
    for e in g.edges():
        e[name] /= e.dst[f"{name}_sum"]
