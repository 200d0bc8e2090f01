"""Layers of relational graph networks, forward and with gradients, beside the loops that a careful user writes.

The peer sorts edges and nodes by type once, multiplies the rows of a type by its matrix, type by type, and adds by
`index_add`; gradients are those of autograd.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.graphs import convolution_models
from benchmarks.graphs.dgl_process import Beside
from benchmarks.graphs.turns import ThreadSeconds, Turns
from tiramisu_py import graphs

WIDE = 64
TORCH, GROUPED, DGL = "PyTorch", "grouped", "DGL"
#: Edges of a graph on which DGL's gradients of matrices of types are measured: those of its `RelGraphConv` take a
#: minute or two on twenty times as many.
MOST_STEPPED = 60_000
WEIGHTS: dict[str, dict[str, Any]] = {
    "rgcn": {"W": ("etype", WIDE, WIDE), "W_self": (WIDE, WIDE)},
    "rgat": {"W": ("etype", WIDE, WIDE), "w_s": ("etype", WIDE), "w_t": ("etype", WIDE)},
    "hgt": {
        **dict.fromkeys(("K", "Q", "V"), ("ntype", WIDE, WIDE)),
        **dict.fromkeys(("W_att", "W_msg"), ("etype", WIDE, WIDE)),
    },
}

#: Those whose edges have a weight.
WITH_NORMS = ("rgcn", "GraphConv")
#: The layers of the examples, and DGL's own convolutions.
ALL_WEIGHTS = WEIGHTS | convolution_models.WEIGHTS


def has_torch() -> bool:
    """Whether PyTorch is there to compare with."""
    return importlib.util.find_spec("torch") is not None


def has_grouped(torch: Any) -> bool:
    """Whether this PyTorch multiplies rows by the matrices of their groups in one call."""
    return hasattr(torch.nn.functional, "grouped_mm")


@dataclass(frozen=True)
class LayerTimes:
    """The least seconds of a layer, forward and with gradients, by who computes it; and the compaction ratio."""

    model: str
    graph: str
    ratio: float
    forward: Mapping[str, float]
    step: Mapping[str, float]


def measured_layer(
    model: str,
    name: str,
    graph: graphs.Graph,
    threads: int,
    turns: Turns,
    dgl: str = "",
    most_stepped: int = MOST_STEPPED,
) -> LayerTimes:
    """The least seconds of each contender for a layer on a graph, whose results agree; `dgl` is a Python with DGL."""
    given = arguments(model, graph)
    run = layer(model).on(graph, threads=threads, fast=("contract",))
    out = run(**given)
    weights = np.random.default_rng(1).standard_normal(out.shape, np.float32)
    forward: dict[str, Callable[[], Any]] = {"tiramisu_py": lambda: run(**given)}
    step: dict[str, Callable[[], Any]] = {}
    if not dgl or graph.edges <= most_stepped or not _is_typed(model):
        step["tiramisu_py"] = lambda: run.gradients(weights, **given)
    if has_torch() and model in WEIGHTS:
        torch: Any = importlib.import_module("torch")
        torch.set_num_threads(threads)
        peer = TorchLoops(torch, model, graph, given)
        forward[TORCH] = peer.forward
        if has_grouped(torch):
            forward[GROUPED] = TorchGrouped(torch, model, graph, given).forward
        for who, other in forward.items():
            np.testing.assert_allclose(other(), out, rtol=2e-3, atol=2e-3, err_msg=who)
        if step:
            _agree(run.gradients(weights, **given), peer.step(torch.from_numpy(weights)))
            step[TORCH] = lambda: peer.step(torch.from_numpy(weights))
    beside = Beside(dgl, model, _for_dgl(graph, given, weights), threads) if dgl else None
    if beside is not None:
        found = beside.values(gradients=bool(step))
        np.testing.assert_allclose(found.pop("out").reshape(out.shape), out, rtol=2e-3, atol=2e-3, err_msg=DGL)
        forward[DGL] = lambda: ThreadSeconds(beside.forward())
        if step:
            _agree(run.gradients(weights, **given), found)
            step[DGL] = lambda: ThreadSeconds(beside.step())
    ratio = len(graph.distinct("src", "etype")) / graph.edges
    times = [turns.least(each) for each in (forward, step)]
    if beside is not None:
        beside.end()
    return LayerTimes(model, name, ratio, *times)


def _is_typed(model: str) -> bool:
    """Whether a model has matrices of types: gradients of these are what takes DGL long."""
    return any(shape[0] == "etype" for shape in ALL_WEIGHTS[model].values())


def _agree(own: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
    for name, gradient in theirs.items():
        np.testing.assert_allclose(own[name], gradient, rtol=2e-2, atol=2e-2 * abs(gradient).max(), err_msg=name)


def _for_dgl(graph: graphs.Graph, given: Mapping[str, Any], weights: Any) -> dict[str, Any]:
    """What a process that computes the layer is given; edges are in the order of their types."""
    found = {name: graph.array(name).astype(np.int64) for name in ("src", "dst", "etype", "ntype")}
    counts = {
        "of_edges": np.bincount(found["etype"], minlength=graph.etypes),
        "of_nodes": np.bincount(found["ntype"], minlength=graph.ntypes),
    }
    sorted_edges = {"norm": given["norm"][graph.order]} if "norm" in given else {}
    return {**given, **sorted_edges, **found, **counts, "weights": weights}


def layer(name: str, width: int = WIDE, **options: Any) -> graphs.Layer:
    """A layer by the name of its model, `width` numbers in each row; `options` are those of `graphs.layer`."""
    edge: dict[str, Any] = {"norm": ()} if name in WITH_NORMS else {}
    return graphs.layer(model_of(name), node={"feature": width}, edge=edge, weights=weights_of(name, width), **options)


def weights_of(name: str, width: int = WIDE) -> dict[str, Any]:
    """The shapes of the weights of a model."""
    return {
        weight: tuple(width if each == WIDE else each for each in shape) for weight, shape in ALL_WEIGHTS[name].items()
    }


def model_of(name: str) -> Callable[..., str]:
    """A model of examples/graphs, or one that is a convolution of DGL."""
    if name in convolution_models.MODELS:
        return convolution_models.MODELS[name]
    path = Path(__file__).resolve().parents[3] / "examples" / "graphs" / "models.py"
    spec = importlib.util.spec_from_file_location("graph_models", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[..., str] = getattr(module, name)
    return found


def arguments(model: str, graph: graphs.Graph, width: int = WIDE) -> dict[str, Any]:
    """Features and weights of a layer, in float32; edges are in the order of the graph."""
    draw = np.random.default_rng(0)
    counts = {"etype": graph.etypes, "ntype": graph.ntypes}
    given: dict[str, Any] = {"feature": draw.standard_normal((graph.nodes, width), np.float32)}
    if model in WITH_NORMS:
        given["norm"] = draw.random(graph.edges, np.float32)
    for name, shape in weights_of(model, width).items():
        of = [counts.get(each, each) for each in shape]
        given[name] = draw.standard_normal(of, np.float32) / np.float32(2 * width**0.5)
    return given


class TorchLoops:
    """The layers in PyTorch, as loops over sorted types."""

    def __init__(self, torch: Any, model: str, graph: graphs.Graph, given: Mapping[str, Any]) -> None:
        self.torch, self.layer, self.nodes = torch, getattr(self, f"_{model}"), graph.nodes
        self.src, self.dst = (torch.from_numpy(graph.array(name).astype(np.int64)) for name in ("src", "dst"))
        self.edges = _counts(graph.array("etype"), graph.etypes)
        self.of_nodes = _counts(graph.array("ntype"), graph.ntypes)
        self.kinds = torch.from_numpy(graph.array("etype").astype(np.int64))
        sorted_edges = {"norm": given["norm"][graph.order]} if "norm" in given else {}
        self.given = {name: torch.from_numpy(value) for name, value in {**given, **sorted_edges}.items()}

    def forward(self) -> Any:
        """The result, without gradients."""
        with self.torch.no_grad():
            return self.layer(**self.given).numpy()

    def step(self, weights: Any) -> dict[str, Any]:
        """The gradients of the result, weighed, by all that the layer is given."""
        given = {name: each.detach().requires_grad_() for name, each in self.given.items()}
        self.layer(**given).backward(weights)
        return {name: each.grad.numpy() for name, each in given.items() if name != "norm"}

    def _typed(self, x: Any, index: Any, weights: Any) -> Any:
        """The rows of edges times the matrices of their types."""
        return self._by_type(x.index_select(0, index), weights, self.edges)

    def _by_type(self, rows: Any, weights: Any, counts: list[int]) -> Any:
        parts = zip(rows.split(counts), weights.unbind(), strict=True)
        return self.torch.cat([part @ matrix for part, matrix in parts])

    def _of_nodes(self, x: Any, weights: Any) -> Any:
        return self._by_type(x, weights, self.of_nodes)

    def _per_edge(self, weights: Any) -> Any:
        """The rows of a weight for each edge."""
        return weights.index_select(0, self.kinds)

    def _summed(self, values: Any) -> Any:
        return values.new_zeros((self.nodes, *values.shape[1:])).index_add(0, self.dst, values)

    def _attended(self, raw: Any, messages: Any) -> Any:
        att = self.torch.exp(raw)
        att = att / self._summed(att).index_select(0, self.dst)
        return self._summed(att[:, None] * messages)

    def _rgcn(self, feature: Any, norm: Any, W: Any, W_self: Any) -> Any:
        return self._summed(norm[:, None] * self._typed(feature, self.src, W)) + feature @ W_self

    def _rgat(self, feature: Any, W: Any, w_s: Any, w_t: Any) -> Any:
        hs = self._typed(feature, self.src, W)
        at_dst = self._per_edge(self.torch.einsum("rkd,rd->rk", W, w_t))
        raw = (hs * self._per_edge(w_s)).sum(-1) + (feature.index_select(0, self.dst) * at_dst).sum(-1)
        return self._attended(self.torch.nn.functional.leaky_relu(raw, 0.01), hs)

    def _hgt(self, feature: Any, K: Any, Q: Any, V: Any, W_att: Any, W_msg: Any) -> Any:
        k, q, v = (self._of_nodes(feature, each) for each in (K, Q, V))
        raw = (self._typed(k, self.src, W_att) * q.index_select(0, self.dst)).sum(-1)
        return self._attended(raw, self._typed(v, self.src, W_msg))


class TorchGrouped(TorchLoops):
    """The same layers with one grouped product in place of a loop over types."""

    def _by_type(self, rows: Any, weights: Any, counts: list[int]) -> Any:
        ends = self.torch.tensor(counts, dtype=self.torch.int32).cumsum(0, dtype=self.torch.int32)
        return self.torch.nn.functional.grouped_mm(rows, weights, offs=ends)


def _counts(kinds: Any, count: int) -> list[int]:
    """How many there are of each type; types are sorted."""
    return [int(each) for each in np.bincount(kinds, minlength=count)]
