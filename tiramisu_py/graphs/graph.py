"""Graphs: edges sorted by their types, verified once, with what programs need of them made once and kept."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Self

import numpy as np
import numpy.typing as npt

import tiramisu_py as tm
from tiramisu_py.errors import ArgumentError, UnsupportedError
from tiramisu_py.records import dataclass

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class EdgesByNode:
    """Edges in runs by the node where they end: where each was in the caller's order, and the arrays of programs."""

    order: Array
    arrays: dict[str, Array]


class Graph:
    """A directed graph whose edges, and nodes, may have types.

    ::

        graph = graphs.Graph(src, dst, etype=etype, nodes=30, etypes=6)

    `src` and `dst` are the nodes where each edge begins and ends, `etype` its type and `ntype` the type of each node:
    integers from 0. Edges may be in any order, and may occur several times. They are sorted by type, then by where they
    end; `order` says where each sorted edge was. The graph keeps copies that nobody can change, and makes what programs
    need of it, `inverse` and `distinct`, once. Raises `ArgumentError`, naming the array and the element that is wrong.
    """

    def __init__(
        self,
        src: npt.ArrayLike,
        dst: npt.ArrayLike,
        *,
        etype: npt.ArrayLike | None = None,
        ntype: npt.ArrayLike | None = None,
        nodes: int | None = None,
        etypes: int | None = None,
        ntypes: int | None = None,
    ) -> None:
        ends = {"src": _integers("src", src), "dst": _integers("dst", dst)}
        if ends["src"].size != ends["dst"].size:
            raise ArgumentError(
                f"src has {ends['src'].size} edges, and dst {ends['dst'].size}: give both for each edge"
            )
        kinds = np.zeros(ends["src"].size, np.int32) if etype is None else _integers("etype", etype)
        if kinds.size != ends["src"].size:
            raise ArgumentError(f"etype has {kinds.size} edges, and src {ends['src'].size}: give the type of each edge")
        of_nodes = None if ntype is None else _integers("ntype", ntype)
        if nodes is None:
            nodes = of_nodes.size if of_nodes is not None else _least(ends["src"], ends["dst"])
        self.nodes, self.edges = _count("nodes", nodes), int(kinds.size)
        self.has_types = etype is not None or etypes is not None
        self.etypes = max(_count("etypes", _least(kinds) if etypes is None else etypes), 1)
        self.has_ntypes = of_nodes is not None
        if of_nodes is None:
            of_nodes = np.zeros(self.nodes, np.int32)
        if of_nodes.size != self.nodes:
            raise ArgumentError(
                f"ntype has {of_nodes.size} nodes, and the graph {self.nodes}: give the type of each node"
            )
        self.ntypes = max(_count("ntypes", _least(of_nodes) if ntypes is None else ntypes), 1)
        for name, array in ends.items():
            _check(name, array, self.nodes, "nodes")
        _check("etype", kinds, self.etypes, "etypes")
        _check("ntype", of_nodes, self.ntypes, "ntypes")
        self.order = tm.frozen(np.lexsort((ends["dst"], kinds)))
        self._arrays: dict[str, Array] = {
            "src": tm.frozen(ends["src"][self.order]),
            "dst": tm.frozen(ends["dst"][self.order]),
            "etype": tm.frozen(kinds[self.order]),
            "ntype": tm.frozen(of_nodes),
        }
        self._made: dict[Any, Any] = {}

    @classmethod
    def from_scipy(cls, matrices: Any) -> Self:
        """The graph of a sparse matrix of SciPy, or of one for each type of edges: element i, j is an edge j to i.

        Values of the elements are left out: give them for each edge, in the order of ``matrix.tocoo()``.
        """
        listed = [*matrices] if isinstance(matrices, list | tuple) else [matrices]
        if not listed or not all(hasattr(each, "tocoo") for each in listed):
            raise ArgumentError(f"from_scipy takes a sparse matrix, or a list of them, not {matrices!r:.60}")
        found = [each.tocoo() for each in listed]
        shapes = {each.shape for each in found}
        if len(shapes) > 1 or found[0].shape[0] != found[0].shape[1]:
            raise ArgumentError(f"from_scipy takes square matrices of one shape, not {sorted(shapes)}")
        kinds = np.repeat(np.arange(len(found)), [each.nnz for each in found])
        src, dst = (np.concatenate([getattr(each, side) for each in found]) for side in ("col", "row"))
        return cls(src, dst, etype=kinds, nodes=found[0].shape[0], etypes=len(found))

    @classmethod
    def from_pyg(cls, data: Any) -> Self:
        """The graph of `torch_geometric.data.Data`: ``edge_index``, and ``edge_type`` and ``node_type`` if it has."""
        if not hasattr(data, "edge_index"):
            if find_spec("torch_geometric") is None:
                raise UnsupportedError("PyTorch Geometric is not installed", "pip install torch_geometric")
            raise ArgumentError(f"from_pyg takes torch_geometric.data.Data, with edge_index, not {type(data).__name__}")
        src, dst = (np.asarray(each) for each in data.edge_index)
        given = {ours: getattr(data, its, None) for ours, its in (("etype", "edge_type"), ("ntype", "node_type"))}
        kinds = {name: np.asarray(each) for name, each in given.items() if each is not None}
        nodes = getattr(data, "num_nodes", None)
        return cls(
            src, dst, nodes=None if nodes is None else int(nodes), etype=kinds.get("etype"), ntype=kinds.get("ntype")
        )

    @classmethod
    def from_dgl(cls, graph: Any) -> Self:
        """The graph of a homogeneous `dgl.DGLGraph`, with ``edata["_TYPE"]`` and ``ndata["_TYPE"]`` if it has."""
        if not hasattr(graph, "edges") or not hasattr(graph, "edata"):
            if find_spec("dgl") is None:
                raise UnsupportedError("DGL is not installed", "pip install dgl")
            raise ArgumentError(f"from_dgl takes a dgl.DGLGraph, not {type(graph).__name__}: see dgl.to_homogeneous")
        src, dst = (np.asarray(each) for each in graph.edges())
        given = (("etype", graph.edata), ("ntype", graph.ndata))
        kinds = {name: np.asarray(held["_TYPE"]) for name, held in given if "_TYPE" in held}
        return cls(src, dst, nodes=int(graph.num_nodes()), etype=kinds.get("etype"), ntype=kinds.get("ntype"))

    @property
    def sizes(self) -> Mapping[str, int]:
        """The sizes of the graph, as programs name them."""
        return {"N": self.nodes, "E": self.edges, "R": self.etypes, "T": self.ntypes}

    def array(self, name: str) -> Array:
        """One of ``src``, ``dst``, ``etype`` and ``ntype``, of the sorted edges, or of the nodes."""
        return self._arrays[name]

    def in_given_order(self, sorted_by_edge: Array) -> Array:
        """Values of the sorted edges in the order in which the edges were given."""
        found = np.empty_like(sorted_by_edge)
        found[self.order] = sorted_by_edge
        return found

    def distinct(self, *keys: str) -> Any:
        """The distinct combinations of keys, such as ``src`` and ``etype``: `tm.distinct`, made once."""
        if ("distinct", keys) not in self._made:
            self._made["distinct", keys] = tm.distinct(*map(self.array, keys))
        return self._made["distinct", keys]

    @property
    def by_destinations(self) -> EdgesByNode:
        """The edges in runs by the node where they end, in each by their types; made once."""
        if "by_destinations" not in self._made:
            src, dst, etype = (self.array(name) for name in ("src", "dst", "etype"))
            places = np.lexsort((etype, dst))
            rows = np.searchsorted(dst[places], np.arange(self.nodes + 1)).astype(np.int32)
            arrays = {"rows": rows, "src": src[places], "etype": etype[places], "ntype": self.array("ntype")}
            frozen = {name: tm.frozen(array) for name, array in arrays.items()}
            self._made["by_destinations"] = EdgesByNode(tm.frozen(self.order[places]), frozen)
        found: EdgesByNode = self._made["by_destinations"]
        return found

    def sorted_types(self, keys: tuple[str, ...] = ()) -> Array:
        """The type of each sorted edge, or of each distinct combination of keys of which types are the last."""
        return self.array("etype") if not keys else np.asarray(self.distinct(*keys).columns[-1])

    def runs(self, keys: tuple[str, ...] = ()) -> Array:
        """Where the edges of each type begin, or the distinct combinations of keys, made once."""
        if ("runs", keys) not in self._made:
            starts = np.searchsorted(self.sorted_types(keys), np.arange(self.etypes + 1))
            self._made["runs", keys] = tm.frozen(starts.astype(np.int32))
        found: Array = self._made["runs", keys]
        return found

    def inverse(self, name: str, keys: tuple[str, ...] = ()) -> Any:
        """The inverse of an index, or of one that `distinct` makes of some keys: `tm.inverse`, made once."""
        if ("inverse", name, keys) not in self._made:
            if not keys:
                found, count = self.array(name), self.etypes if name == "etype" else self.nodes
                count = self.ntypes if name == "ntype" else count
            else:
                pairs = self.distinct(*keys)
                found, count = (pairs.of, len(pairs)) if name == "of" else (pairs.columns[keys.index(name)], self.nodes)
                count = self.etypes if name == "etype" else count
            self._made["inverse", name, keys] = tm.inverse(found, count)
        return self._made["inverse", name, keys]

    def __repr__(self) -> str:
        types = f", {self.etypes} types of edges" if self.has_types else ""
        return f"<graph of {self.nodes} nodes and {self.edges} edges{types}>"


def _integers(name: str, given: npt.ArrayLike) -> Array:
    found = np.asarray(given)
    if found.ndim != 1 or (found.dtype.kind not in "iu" and found.size):
        raise ArgumentError(f"{name} is {found.dtype} of shape {found.shape}: give integers in one dimension")
    if found.size and int(found.max()) > np.iinfo(np.int32).max:
        raise ArgumentError(f"{name} has {int(found.max())}, and numbers of nodes and types are 32-bit integers")
    if found.size and int(found.min()) < 0:
        at = int(np.flatnonzero(found < 0)[0])
        raise ArgumentError(f"{name}[{at}] = {found[at]} is less than 0: nodes and types are numbered from 0")
    return found.astype(np.int32)


def _least(*arrays: Array) -> int:
    return max((int(each.max()) + 1 for each in arrays if each.size), default=0)


def _count(name: str, given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 0:
        raise ArgumentError(f"{name}= is a number of {name}, not {given!r}")
    return int(given)


def _check(name: str, array: Array, count: int, of: str) -> None:
    wrong = np.flatnonzero(array >= count)
    if wrong.size:
        at = int(wrong[0])
        raise ArgumentError(f"{name}[{at}] = {array[at]}, and there are {count} {of}: it is less than that")
