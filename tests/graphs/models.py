"""Six models of graph networks, two of them those of the examples, and each as dense NumPy, one line an operation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.folders import modules_of
from tiramisu_py import graphs

F, G, H = 3, 2, 2  # features in, features out of a head, heads


def gcn(g: Any, W: Any) -> str:
    for v in g.dst_nodes():
        v["out"] = 0.0
        for e in v.incoming_edges():
            v["out"] += e.norm * graphs.linear(e.src.feature, W)
    return "out"


def sage(g: Any, W: Any, W_self: Any) -> str:
    for v in g.dst_nodes():
        v["count"] = 0.0
        v["sum"] = 0.0
        for e in v.incoming_edges():
            v["count"] += 1.0
            v["sum"] += e.src.feature
    for v in g.dst_nodes():
        mean = v["sum"] / graphs.select(v["count"] > 0, v["count"], 1.0)
        v["out"] = graphs.relu(graphs.linear(mean, W) + graphs.linear(v.feature, W_self))
    return "out"


def gat(g: Any, W: Any, a_src: Any, a_dst: Any) -> str:
    for v in g.nodes():
        v["h"] = graphs.linear(v.feature, W)
        v["s"] = graphs.dot_prod(v["h"], a_src)
        v["t"] = graphs.dot_prod(v["h"], a_dst)
    for e in g.edges():
        e["att"] = graphs.leaky_relu(e.src["s"] + e.dst["t"], 0.2)
    graphs.edge_softmax(g, "att")
    for v in g.dst_nodes():
        v["out"] = 0.0
        for e in v.incoming_edges():
            v["out"] += e["att"] * e.src["h"]
    return "out"


def rgcn(g: Any, W: Any, W_self: Any) -> str:
    for v in g.dst_nodes():
        v["sum"] = 0.0
        for e in v.incoming_edges():
            v["sum"] += e.norm * graphs.linear(e.src.feature, W[e.etype])
        v["out"] = graphs.relu(v["sum"] + graphs.linear(v.feature, W_self))
    return "out"


with modules_of(Path(__file__).resolve().parents[2] / "examples" / "graphs") as _load:
    _examples = _load("models")
rgat, hgt = _examples.rgat, _examples.hgt


class Edges(NamedTuple):
    """A graph as plain arrays."""

    src: Any
    dst: Any
    etype: Any
    ntype: Any
    etypes: int = 3
    ntypes: int = 2


def _summed(graph: Edges, values: Any) -> Any:
    out = np.zeros((len(graph.ntype), *values.shape[1:]))
    np.add.at(out, graph.dst, values)
    return out


def _softmax(graph: Edges, raw: Any) -> Any:
    att = np.exp(raw)
    return att / _summed(graph, att)[graph.dst]


def _leaky(x: Any, slope: float) -> Any:
    return np.where(x > 0, x, slope * x)


def gcn_reference(graph: Edges, feature: Any, norm: Any, W: Any) -> Any:
    return _summed(graph, norm[:, None] * (feature @ W)[graph.src])


def sage_reference(graph: Edges, feature: Any, W: Any, W_self: Any) -> Any:
    count = np.bincount(graph.dst, minlength=len(graph.ntype))
    mean = _summed(graph, feature[graph.src]) / np.maximum(count, 1)[:, None]
    return np.maximum(mean @ W + feature @ W_self, 0)


def gat_reference(graph: Edges, feature: Any, W: Any, a_src: Any, a_dst: Any) -> Any:
    h = np.einsum("nk,hkd->nhd", feature, W)
    s, t = (np.einsum("nhd,hd->nh", h, a) for a in (a_src, a_dst))
    att = _softmax(graph, _leaky(s[graph.src] + t[graph.dst], 0.2))
    return _summed(graph, att[:, :, None] * h[graph.src])


def rgcn_reference(graph: Edges, feature: Any, norm: Any, W: Any, W_self: Any) -> Any:
    each = np.einsum("ek,ekd->ed", feature[graph.src], W[graph.etype])
    return np.maximum(_summed(graph, norm[:, None] * each) + feature @ W_self, 0)


def rgat_reference(graph: Edges, feature: Any, W: Any, w_s: Any, w_t: Any) -> Any:
    hs, ht = (np.einsum("ek,eh...kd->eh...d", feature[at], W[graph.etype]) for at in (graph.src, graph.dst))
    raw = (hs * w_s[graph.etype]).sum(-1) + (ht * w_t[graph.etype]).sum(-1)
    return _summed(graph, _softmax(graph, _leaky(raw, 0.01))[..., None] * hs)


def hgt_reference(graph: Edges, feature: Any, K: Any, Q: Any, V: Any, W_att: Any, W_msg: Any) -> Any:
    k, q, v = (np.einsum("nk,nhkd->nhd", feature, weights[graph.ntype]) for weights in (K, Q, V))
    msg = np.einsum("ehk,ehkd->ehd", v[graph.src], W_msg[graph.etype])
    raw = (np.einsum("ehk,ehkd->ehd", k[graph.src], W_att[graph.etype]) * q[graph.dst]).sum(-1)
    return _summed(graph, _softmax(graph, raw)[..., None] * msg)


class Model(NamedTuple):
    """A model, its dense form, and what it is given."""

    model: Callable[..., str]
    reference: Callable[..., Any]
    weights: dict[str, Any]
    edge: dict[str, Any] = {}


MODELS = {
    "gcn": Model(gcn, gcn_reference, {"W": (F, G)}, {"norm": ()}),
    "sage": Model(sage, sage_reference, {"W": (F, G), "W_self": (F, G)}),
    "gat": Model(gat, gat_reference, {"W": (H, F, G), "a_src": (H, G), "a_dst": (H, G)}),
    "rgcn": Model(rgcn, rgcn_reference, {"W": ("etype", F, G), "W_self": (F, G)}, {"norm": ()}),
    "rgat": Model(rgat, rgat_reference, {"W": ("etype", H, F, G), "w_s": ("etype", H, G), "w_t": ("etype", H, G)}),
    "hgt": Model(
        hgt,
        hgt_reference,
        {
            **dict.fromkeys(("K", "Q", "V"), ("ntype", H, F, G)),
            **dict.fromkeys(("W_att", "W_msg"), ("etype", H, G, G)),
        },
    ),
}


def odd_graphs() -> dict[str, Edges]:
    """No edges; one node with a loop; a hub with half of the edges, isolated nodes, an empty type, an edge twice."""
    draw = np.random.default_rng(5)
    src, dst = draw.integers(0, 7, 24), draw.integers(0, 7, 24)
    dst[::2] = 2
    etype = draw.choice([0, 2], 24)
    src[1], dst[1], etype[1] = src[0], dst[0], etype[0]
    none = np.zeros(0, np.int64)
    return {
        "no edges": Edges(none, none, none, np.array([0, 1, 1])),
        "one node": Edges(np.array([0, 0]), np.array([0, 0]), np.array([1, 1]), np.array([1])),
        "a hub": Edges(src, dst, etype, draw.integers(0, 2, 9)),
    }
