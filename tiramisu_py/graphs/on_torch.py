"""Layers on tensors: arguments by name, in the caller's order of edges, for an operator with all arguments in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tiramisu_py.errors import ArgumentError
from tiramisu_py.graphs.graph import Graph
from tiramisu_py.graphs.tracing import ModelTrace
from tiramisu_py.graphs.values import EDGES


def on_tensors(
    operator: Callable[..., Any], trace: ModelTrace, graph: Graph, arrays: Mapping[str, Any]
) -> Callable[..., Any]:
    """A function of tensors by name that calls an operator with them and with the arrays of the graph.

    Edges are sorted by indexing tensors, so that gradients by what edges are given come back in the caller's order.
    """
    import torch  # noqa: PLC0415 - PyTorch is needed by those alone who call this

    order = torch.from_numpy(graph.order.copy())
    back = torch.from_numpy(np.argsort(graph.order))
    own = {name: torch.from_numpy(each.copy()) for name, each in arrays.items()}
    names = [*trace.node, *trace.edge, *trace.weights]
    sizes = {name: graph.sizes[name] for name in ("N", "E")}

    def called(**given: Any) -> Any:
        wrong = next((name for name in (*given, *names) if (name in given) != (name in names)), None)
        if wrong is not None:
            raise ArgumentError(f"{wrong} is {'not taken' if wrong in given else 'missing'}: give {', '.join(names)}")
        tensors = {name: each[order] if name in trace.edge else each for name, each in given.items()}
        made = operator(*(tensors[name] for name in names), *own.values(), **sizes)
        found = made if isinstance(made, tuple) else (made,)
        unsorted = [each[back] if step.loop == EDGES else each for step, each in zip(trace.outputs, found, strict=True)]
        return unsorted[0] if len(unsorted) == 1 else tuple(unsorted)

    return called
