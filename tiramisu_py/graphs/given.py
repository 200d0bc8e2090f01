"""What a layer is given on a graph, by name: verified, and in the order in which its programs have edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import tiramisu_py as tm
from tiramisu_py.errors import ArgumentError
from tiramisu_py.graphs.graph import Graph
from tiramisu_py.graphs.tracing import ModelTrace
from tiramisu_py.records import dataclass

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class LayerArguments:
    """The arguments of a layer's programs, from those of its caller.

    `order` says where each edge of the programs is among the caller's. Nodes have values here for `nodes` of them, all
    or a rank's own, as `whose` says.
    """

    name: str
    trace: ModelTrace
    dtype: tm.DType
    graph: Graph
    order: Array
    nodes: int
    whose: str = "nodes"

    def of_model(self, given: Mapping[str, Any]) -> dict[str, Array]:
        """The arguments of the model; raises `ArgumentError`, naming what does not fit the graph."""
        trace = self.trace
        names = [*trace.node, *trace.edge, *trace.weights]
        for name in given:
            if name not in names:
                raise ArgumentError(f"{self.name} is not given {name}: it takes {', '.join(names)}")
        missing = next((name for name in names if name not in given), None)
        if missing is not None:
            raise ArgumentError(f"{missing} is missing: {self.name} takes {', '.join(names)}")
        found = {name: self._array(name, given[name], shape, "nodes") for name, shape in trace.node.items()}
        found |= {name: self._array(name, given[name], shape, "edges") for name, shape in trace.edge.items()}
        for name, own in trace.weights.items():
            found[name] = self._array(name, given[name], own.shape, own.types)
        return found

    def of_results(self, weights: Any, cotangents: Mapping[str, str]) -> dict[str, Array]:
        """The weights of the results, one array or a tuple, by the names that gradients have for them."""
        outputs = self.trace.outputs
        listed = weights if isinstance(weights, tuple) else (weights,)
        if len(listed) != len(outputs):
            raise ArgumentError(f"{self.name} has {len(outputs)} results: give weights for each, not {len(listed)}")
        return {
            cotangents[step.label]: self._array(f"the weights of {step.label}", each, step.shape, step.loop)
            for step, each in zip(outputs, listed, strict=True)
        }

    def in_given_order(self, of_edges: Array) -> Array:
        """Values of the programs' edges in the order of the caller."""
        found = np.empty_like(of_edges)
        found[self.order] = of_edges
        return found

    def _array(self, name: str, given: Any, shape: Sequence[int], of: str) -> Array:
        counts = {"nodes": self.nodes, "edges": self.graph.edges, "etype": self.graph.etypes}
        counts["ntype"] = self.graph.ntypes
        array, own = np.asarray(given), self.dtype.numpy
        wanted = (*([counts[of]] if of else []), *shape)
        if array.shape != wanted:
            kinds = {"etype": "types of edges", "ntype": "types of nodes", "nodes": self.whose}
            there = f"there are {counts[of]} {kinds.get(of, of)}" if of else "it is one for all"
            raise ArgumentError(f"{name} has the shape {array.shape}, and {there}: give an array of shape {wanted}")
        if array.dtype != own:
            raise ArgumentError(f"{name} is an array of {array.dtype}, and {self.name} computes in {own}")
        return np.asarray(array[self.order] if of == "edges" else array, order="C")
