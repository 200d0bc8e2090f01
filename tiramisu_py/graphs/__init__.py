"""Graph networks: layers as Python over edges and nodes, each a proven program for a graph, with gradients."""

from typing import TYPE_CHECKING

from tiramisu_py.fronts import front

if TYPE_CHECKING:
    from tiramisu_py.graphs.compiling import compile, replaced
    from tiramisu_py.graphs.graph import Graph
    from tiramisu_py.graphs.layers import GraphRun, Layer, layer
    from tiramisu_py.graphs.ranks import RankRun
    from tiramisu_py.graphs.sampling import Sample, SampledLayer, sample
    from tiramisu_py.graphs.words import (
        concat,
        dot_prod,
        edge_softmax,
        exp,
        leaky_relu,
        linear,
        maximum,
        outer_prod,
        relu,
        reshape,
        select,
        sqrt,
        stop_gradient,
        tanh,
    )

front(
    __name__,
    {
        "tiramisu_py.graphs.compiling": "compile, replaced",
        "tiramisu_py.graphs.graph": "Graph",
        "tiramisu_py.graphs.layers": "Layer, GraphRun, layer",
        "tiramisu_py.graphs.ranks": "RankRun",
        "tiramisu_py.graphs.sampling": "Sample, SampledLayer, sample",
        "tiramisu_py.graphs.words": (
            "concat, dot_prod, edge_softmax, exp, leaky_relu, linear, maximum, outer_prod, relu, reshape, select, "
            "sqrt, stop_gradient, tanh"
        ),
    },
)

__all__ = [
    "Graph",
    "Layer",
    "GraphRun",
    "RankRun",
    "Sample",
    "SampledLayer",
    "compile",
    "concat",
    "dot_prod",
    "edge_softmax",
    "exp",
    "layer",
    "leaky_relu",
    "linear",
    "maximum",
    "outer_prod",
    "relu",
    "replaced",
    "reshape",
    "sample",
    "select",
    "sqrt",
    "stop_gradient",
    "tanh",
]
