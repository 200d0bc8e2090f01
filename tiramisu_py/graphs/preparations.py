"""Edges as convolutions prepare them: with loops at nodes, and factors that are the graph's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

import numpy as np
import numpy.typing as npt

import tiramisu_py as tm
from tiramisu_py.graphs.graph import Graph
from tiramisu_py.records import dataclass

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class PreparedGraph:
    """A graph, and factors of its sorted edges."""

    graph: Graph
    derived: Mapping[str, Array]
    _of_type: dict[Any, Mapping[str, Array]] = field(default_factory=dict)

    def derived_as(self, dtype: Any) -> Mapping[str, Array]:
        """The factors as arrays of a type, made once."""
        if dtype not in self._of_type:
            self._of_type[dtype] = {name: tm.frozen(each.astype(dtype)) for name, each in self.derived.items()}
        return self._of_type[dtype]


@dataclass(frozen=True)
class Preparation:
    """Whether each node has one edge to itself, instead of those given, and what an edge is multiplied by."""

    loops: bool = False
    norm: Callable[[Graph], Array] | None = None
    #: Whether `norm` depends on the types of edges.
    of_types: bool = False

    @property
    def derived(self) -> tuple[str, ...]:
        """The values of edges that are made of the graph."""
        return ("norm",) if self.norm is not None else ()

    def most_edges(self, sizes: Mapping[str, int]) -> int:
        """How many edges there are at most."""
        return sizes["E"] + sizes["N"] if self.loops else sizes["E"]

    def __call__(self, ends: Mapping[str, Array], sizes: Mapping[str, int]) -> PreparedGraph:
        """The prepared graph; raises `ArgumentError` for edges that are none."""
        src, dst = ends["src"], ends["dst"]
        given: dict[str, Any] = {"etype": ends["etype"], "etypes": sizes["R"]} if "etype" in ends else {}
        given |= {"ntype": ends["ntype"], "ntypes": sizes["T"]} if "ntype" in ends else {}
        if self.loops:
            others, own = src != dst, np.arange(sizes["N"])
            Graph(src, dst, nodes=sizes["N"])  # refuses edges that are none, loops too
            src, dst = np.concatenate([src[others], own]), np.concatenate([dst[others], own])
        made = Graph(src, dst, nodes=sizes["N"], **given)
        return PreparedGraph(made, {} if self.norm is None else {"norm": self.norm(made)})


def _ones(graph: Graph) -> Array:
    return np.ones(graph.edges)


def _mean(graph: Graph) -> Array:
    """One over the number of edges that end where each does."""
    dst = graph.array("dst")
    return 1 / np.bincount(dst, minlength=graph.nodes)[dst]


def _mean_of_types(graph: Graph) -> Array:
    """One over the number of edges of its type that end where each does."""
    both = graph.array("etype").astype(np.int64) * graph.nodes + graph.array("dst")
    _, of, counts = np.unique(both, return_inverse=True, return_counts=True)
    return 1 / counts[of]


def _symmetric(graph: Graph) -> Array:
    """One over the roots of the numbers of edges that end at both of its nodes; 0 where there are none."""
    degrees = np.bincount(graph.array("dst"), minlength=graph.nodes)
    roots = np.divide(1, np.sqrt(degrees), out=np.zeros(graph.nodes), where=degrees > 0)
    return roots[graph.array("src")] * roots[graph.array("dst")]


#: Preparations by name, as operators name them.
PREPARATIONS = {
    "as given": Preparation(),
    "sum": Preparation(norm=_ones),
    "mean": Preparation(norm=_mean),
    "mean of types": Preparation(norm=_mean_of_types, of_types=True),
    "symmetric": Preparation(norm=_symmetric),
    "loops": Preparation(loops=True),
    "symmetric with loops": Preparation(loops=True, norm=_symmetric),
}
