"""Sums over the edges of nodes: by edges, in the order in which a model has them, or by nodes, through an inverse.

Both have the same terms in the same order, so that bits are the same. By nodes, threads share the nodes, and a sum is
stored once; but rows of edges are read out of their order, and a node's loop has to begin. By edges one thread has all
of them, in order, and each adds to a row in memory, which waits where the one before it has the same node.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

import tiramisu_py as tm
from tiramisu_py import queries, recipes
from tiramisu_py.errors import DeclarationError
from tiramisu_py.graphs.graph import Graph
from tiramisu_py.graphs.rewrites import index_of_places
from tiramisu_py.records import dataclass

#: Ways to go: the one that is less work, or one for all sums.
WAYS = ("count", "edges", "nodes")
#: Bytes of a line of memory.
LINE = 64
#: What is counted, in steps of a term that is added in a register; as measured, see docs/results/graphs.md.
START, READ, ADD, WAIT = 5.0, 2.5, 2.0, 2.2
#: The part of the steps by nodes that edges have at most, to be taken.
LESS = 0.9


@dataclass(frozen=True)
class SumOfNodes:
    """One sum on a graph: the index of its places, how many edges, places and edges of one place there are.

    `lines` are those of a row, as a part of one where rows are shorter; `threads` share the places.
    """

    name: str
    index: str
    edges: int
    places: int
    longest: int
    lines: float
    threads: int

    @property
    def by_nodes(self) -> int:
        """Steps of the longest thread by nodes: each begins, and each edge is read; one node is one thread's."""
        term = 1 + READ * self.lines
        whole = self.places * START + self.edges * term
        return round(max(whole / self.threads, self.longest * term))

    @property
    def by_edges(self) -> int:
        """Steps by edges, on one thread: rows are read in order, and added to rows of sums, which begin as zeros."""
        terms = self.edges * (1 + (READ + ADD) * self.lines)
        return round(max(terms, self.longest * WAIT) + self.places * ADD * self.lines)

    @property
    def goes_by_edges(self) -> bool:
        """Whether a tenth of the steps is saved by edges."""
        return self.by_edges <= LESS * self.by_nodes

    def __str__(self) -> str:
        way, other = ("edges", "nodes") if self.goes_by_edges else ("nodes", "edges")
        steps = {"edges": self.by_edges, "nodes": self.by_nodes}
        threads = f" of {self.threads} threads" if self.threads > 1 else ""
        return (
            f"{self.name} by {way}: {steps[way]} steps{threads if way == 'nodes' else ''}, by {other} {steps[other]} "
            f"({self.edges} edges, {self.places} places by {self.index}, at most {self.longest} edges of one)"
        )


def sums_on(f: tm.Function, graph: Graph, threads: int | None) -> list[SumOfNodes]:
    """The scatters of a function over an index of a graph, with what is counted of them; others are none of these."""
    cores = threads or recipes.Cpu.here().cores
    found: list[SumOfNodes] = []
    for name, declared in f.algorithm.computations.items():
        index = index_of_places(declared)
        if not index or index not in ("src", "dst") or declared.op is not tm.sum:
            continue
        places = queries.chosen_by_values(declared)
        row = [extent for each, extent in _rows(declared) if each not in places]
        if None in row:
            continue
        counts = np.bincount(graph.array(index), minlength=graph.nodes)
        longest, width = int(counts.max(initial=0)), prod(each or 1 for each in row)
        lines = width * declared.dtype.bytes / LINE
        found.append(SumOfNodes(name, index, graph.edges, graph.nodes, longest, lines, cores))
    return found


def _rows(declared: queries.Declared) -> Sequence[tuple[str, int | None]]:
    return list(zip(declared.iterators, queries.extents(declared), strict=True))


def names_by_edges(f: tm.Function, graph: Graph, way: str, threads: int | None) -> tuple[str, ...]:
    """The sums of a function that go by edges, of those that could go either way."""
    return tuple(
        each.name for each in sums_on(f, graph, threads) if way == "edges" or (way == "count" and each.goes_by_edges)
    )


def checked_way(way: object) -> str:
    """How sums go; raises `DeclarationError`."""
    if way not in WAYS:
        raise DeclarationError(
            f"sums={way!r}: give 'edges' or 'nodes', by which all sums go, or 'count', which leaves it to the graph"
        )
    return str(way)
