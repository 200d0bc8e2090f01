"""Convolutions of PyTorch Geometric beside themselves after `graphs.compile`: results, and steps with gradients."""

from __future__ import annotations

import copy
import importlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.common.tables import milliseconds, table
from benchmarks.graphs.shapes import Shape, whole_graph

WIDE = 64
COMPILED, PYG = "graphs.compile", "PyG"
RULES_OF_CONVOLUTIONS = """\
Convolutions of PyTorch Geometric 2.8, 64 wide, float32, as they are and after `graphs.compile`, called as modules of
PyTorch: the result without gradients, and a step with those by features and all weights. Dense products of nodes are
PyTorch's in both. Where PyG copies the weights of types for each edge, the largest graphs are left out."""
#: Edges for which PyG's attention of types holds copies of the weights in a few GB: 16 KB an edge, several times.
MOST_COPIED = 60_000
CONVOLUTIONS: dict[str, Callable[[Any, Shape], Any]] = {
    "GCNConv": lambda pyg, shape: pyg.GCNConv(WIDE, WIDE),
    "SAGEConv": lambda pyg, shape: pyg.SAGEConv(WIDE, WIDE),
    "GATConv": lambda pyg, shape: pyg.GATConv(WIDE, WIDE // 4, heads=4),
    "RGCNConv": lambda pyg, shape: pyg.RGCNConv(WIDE, WIDE, shape.types),
    "FastRGCNConv": lambda pyg, shape: pyg.FastRGCNConv(WIDE, WIDE, shape.types),
    "RGATConv": lambda pyg, shape: pyg.RGATConv(WIDE, WIDE, shape.types),
}


@dataclass(frozen=True)
class ConvolutionTimes:
    """The least seconds of a convolution, its result and its step, by who computes it."""

    name: str
    shape: Shape
    result: Mapping[str, float]
    step: Mapping[str, float]


def has_pyg() -> bool:
    """Whether PyTorch Geometric is there to compare with."""
    return importlib.util.find_spec("torch_geometric") is not None


def names_of(shape: Shape) -> list[str]:
    """The convolutions that PyG computes on a graph in a few GB."""
    copied = ("FastRGCNConv", "RGATConv") if shape.edges > MOST_COPIED else ()
    return [name for name in CONVOLUTIONS if name not in copied]


def measured_convolution(
    name: str, shape: Shape, threads: int, least: Callable[[Mapping[str, Callable[[], Any]]], dict[str, float]]
) -> ConvolutionTimes:
    """The times of a convolution and of itself compiled, whose results and gradients agree."""
    torch, pyg = importlib.import_module("torch"), importlib.import_module("torch_geometric.nn")
    front = importlib.import_module("tiramisu_py.graphs")
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    graph = whole_graph(shape)
    index = torch.from_numpy(np.stack([graph.array("src"), graph.array("dst")]).astype(np.int64))
    kinds = torch.from_numpy(graph.array("etype").astype(np.int64))
    more = (kinds,) if name.startswith(("RG", "Fast")) else ()
    conv = CONVOLUTIONS[name](pyg, shape)
    both = {COMPILED: front.compile(copy.deepcopy(conv)), PYG: conv}
    x = torch.randn(shape.nodes, WIDE)
    factors = torch.randn(shape.nodes, WIDE)

    def result(of: Any) -> Any:
        with torch.no_grad():
            return of(x, index, *more)

    def step(of: Any) -> list[Any]:
        given = x.detach().requires_grad_()
        return list(torch.autograd.grad((of(given, index, *more) * factors).sum(), [given, *of.parameters()],
                                        allow_unused=True))  # fmt: skip

    torch.testing.assert_close(result(both[COMPILED]), result(conv), rtol=2e-3, atol=2e-3)
    for one, other in zip(step(both[COMPILED]), step(conv), strict=True):
        if other is not None:
            torch.testing.assert_close(one, other, rtol=2e-2, atol=2e-2 * float(other.abs().max()))
    return ConvolutionTimes(
        name,
        shape,
        least({who: lambda of=of: result(of) for who, of in both.items()}),  # type: ignore[misc]
        least({who: lambda of=of: step(of) for who, of in both.items()}),  # type: ignore[misc]
    )


def rows_of_convolutions(found: Sequence[ConvolutionTimes]) -> Iterator[list[str]]:
    """A row for each convolution and graph."""
    for each in found:
        sides = (each.result, each.step)
        times = [milliseconds(side[who]) for side in sides for who in (COMPILED, PYG)]
        yield [each.name, each.shape.name, *times, *(f"{side[PYG] / side[COMPILED]:.2f}" for side in sides)]


def table_of_convolutions(found: Sequence[ConvolutionTimes]) -> str:
    """The table of convolutions."""
    heads = ["convolution", "graph", COMPILED, PYG, f"{COMPILED}, step", f"{PYG}, step", "ratio", "of steps"]
    return table(heads, list(rows_of_convolutions(found)))
