"""A layer as an operator of PyTorch that is given the edges as tensors: what it needs of the graph is made inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

import tiramisu_py as tm
from tiramisu_py import queries
from tiramisu_py.graphs.layers import Layer
from tiramisu_py.graphs.preparations import PREPARATIONS, PreparedGraph
from tiramisu_py.graphs.programs import LayerMachine, LayerProgram
from tiramisu_py.records import dataclass
from tiramisu_py.torch.functions import symbolic_forms

Array = npt.NDArray[Any]

#: Graphs that are kept, the latest ones.
KEPT = 8


class PreparedGraphs:
    """The graphs of the latest calls, by the numbers in their tensors: each is sorted, verified and prepared once."""

    def __init__(self) -> None:
        self._kept: list[tuple[tuple[Any, ...], tuple[Array, ...], PreparedGraph]] = []
        self._lock = Lock()

    def of(self, preparation: str, ends: Mapping[str, Array], sizes: Mapping[str, int]) -> PreparedGraph:
        """The graph of some edges, which are compared element by element, so that a changed graph is another one.

        A tensor's version would not do: memory that it shares with NumPy changes without one. Comparing reads 16 bytes
        of each end, as fast as memory is.
        """
        key, arrays = (preparation, *sizes.items(), *ends), tuple(ends.values())
        with self._lock:
            for place, (other, kept, found) in enumerate(self._kept):
                if key == other and all(map(np.array_equal, arrays, kept)):
                    self._kept.insert(0, self._kept.pop(place))
                    return found
        made = PREPARATIONS[preparation](ends, sizes)
        with self._lock:
            self._kept.insert(0, (key, tuple(each.copy() for each in arrays), made))
            del self._kept[KEPT:]
        return made


@dataclass(eq=False)
class LayerCalls:
    """The programs of a layer as an operator calls them: values by name, then the ends and types of edges.

    Values of edges are of the caller's order. `wrt` are the values whose gradients are wanted; without any, nothing is
    saved. Arrays of an edge, or of a distinct pair, that are saved have as many rows as there can be edges, since that
    is known before the edges are: further rows are left as they are.
    """

    name: str
    layer: Layer
    preparation: str
    wrt: tuple[str, ...]
    graphs: PreparedGraphs

    @cached_property
    def ends(self) -> tuple[str, ...]:
        """The arrays of a graph that the operator is given."""
        kinds = {each.types for each in self.layer.trace.weights.values()} - {""}
        return ("src", "dst", *sorted(kinds | ({"etype"} if PREPARATIONS[self.preparation].of_types else set())))

    @property
    def inputs(self) -> tuple[str, ...]:
        """The values of nodes and edges, the weights, and the arrays of the graph."""
        trace = self.layer.trace
        edge = [name for name in trace.edge if name not in PREPARATIONS[self.preparation].derived]
        return (*trace.node, *edge, *trace.weights, *self.ends)

    @property
    def params(self) -> tuple[str, ...]:
        """Nodes, edges, types of edges, types of nodes."""
        return ("N", "E", "R", "T")

    @cached_property
    def _gradients(self) -> Any:
        return tm.vjp(self.layer.function, wrt=list(self.wrt))

    @cached_property
    def _programs(self) -> dict[str, LayerProgram]:
        """The programs that have been called, forward and backward."""
        return {}

    def _program(self, which: str, graph: Any) -> LayerProgram:
        if which not in self._programs:
            f = getattr(self._gradients, which) if self.wrt else self.layer.function
            self._programs[which] = LayerProgram(f, graph, LayerMachine())
        return self._programs[which].on(graph)

    @cached_property
    def _algorithm(self) -> Any:
        return self._gradients.forward.algorithm if self.wrt else self.layer.function.algorithm

    @property
    def outputs(self) -> tuple[str, ...]:
        """The results of the layer."""
        return tuple(each.label for each in self.layer.trace.outputs)

    @property
    def made(self) -> tuple[str, ...]:
        """The results, and what is saved."""
        return (*self.outputs, *(self._gradients.saved if self.wrt else ()))

    @cached_property
    def needed(self) -> tuple[str, ...]:
        """The inputs and arrays made that the backward program takes, and all of the graph."""
        taken = self._gradients.backward.algorithm.inputs
        return tuple(name for name in (*self.inputs, *self.made) if name in taken or name in self.ends)

    @cached_property
    def weights(self) -> dict[str, str]:
        """The name of the weight of each result."""
        taken = self._gradients.backward.algorithm.inputs
        return {array: name for array, name in self._gradients.adjoints.cotangents.items() if name in taken}

    def _graph(self, named: Mapping[str, Array], params: Mapping[str, int]) -> PreparedGraph:
        return self.graphs.of(self.preparation, {name: named[name] for name in self.ends}, params)

    def _given(self, named: Mapping[str, Array], prepared: PreparedGraph, taken: Any) -> dict[str, Array]:
        """The arguments that a program takes, edges sorted."""
        edge = {name: named[name][prepared.graph.order] for name in self.layer.trace.edge if name in named}
        edge |= prepared.derived_as(self.layer.dtype.numpy)
        found = {**{name: each for name, each in named.items() if name not in self.ends}, **edge}
        return {name: np.ascontiguousarray(each) for name, each in found.items() if name in taken}

    def forwards(self, arrays: Sequence[Array], params: Mapping[str, int]) -> list[Array]:
        """The results, and what is saved."""
        named = dict(zip(self.inputs, arrays, strict=True))
        prepared = self._graph(named, params)
        program = self._program("forward", prepared.graph)
        given = self._given(named, prepared, program.f.algorithm.inputs)
        longer: dict[str, Array] = {}
        for name, (own, dtype), (shape, _) in zip(
            program.f.algorithm.output_arrays, self._shapes(program.sizes), self.forms(params), strict=True
        ):
            if own != shape:
                longer[name] = np.empty(shape, dtype)
                given[name] = longer[name][: own[0]]
        found = program(given)
        return [longer.get(name, each) for name, each in zip(program.f.algorithm.output_arrays, found, strict=True)]

    def backwards(self, needed: Sequence[Array], weights: Sequence[Array], params: Mapping[str, int]) -> list[Array]:
        """The gradients by `wrt`."""
        named = dict(zip((*self.needed, *self.weights.values()), (*needed, *weights), strict=True))
        prepared = self._graph(named, params)
        program = self._program("backward", prepared.graph)
        known = self._program("forward", prepared.graph).sizes
        for name, (shape, _) in zip(self.made, self._shapes(known), strict=True):
            if name in named:
                named[name] = named[name][: shape[0]] if shape else named[name]
        found = program(self._given(named, prepared, program.f.algorithm.inputs))
        listed, edge = zip(self.wrt, found, strict=True), self.layer.trace.edge
        return [prepared.graph.in_given_order(each) if name in edge else each for name, each in listed]

    def forms(self, params: Mapping[str, int]) -> list[Any]:
        """The forms of what the forward program returns; for as many edges and pairs as there may be."""
        known = dict(params)
        known["E"] = PREPARATIONS[self.preparation].most_edges(params)
        known |= {name: known["E"] for name in self._algorithm.params if name not in known}
        return self._shapes(known)

    @cached_property
    def _symbolic(self) -> list[Any]:
        return symbolic_forms(self._algorithm)

    def _shapes(self, sizes: Mapping[str, int]) -> list[Any]:
        """The shapes and types of what the forward program returns, for some sizes."""
        return [(queries.shape_value(shape, sizes), dtype) for shape, dtype in self._symbolic]

    def gradient_forms(self, params: Mapping[str, int]) -> list[Any]:
        """The forms of the gradients: those of the values."""
        trace, dtype = self.layer.trace, self.layer.dtype.numpy
        shapes = {name: (params["N"], *shape) for name, shape in trace.node.items()}
        shapes |= {name: (params["E"], *shape) for name, shape in trace.edge.items()}
        sizes = {"etype": (params["R"],), "ntype": (params["T"],)}
        shapes |= {name: (*sizes.get(each.types, ()), *each.shape) for name, each in trace.weights.items()}
        return [(shapes[name], dtype) for name in self.wrt]
