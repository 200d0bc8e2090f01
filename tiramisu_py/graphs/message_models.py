"""The messages of usual convolutions, as models: what is between the dense products of nodes, which stay PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tiramisu_py.graphs.words import dot_prod, edge_softmax, leaky_relu, linear, reshape


def weighted_sum() -> Callable[..., str]:
    """The sum of what comes in, each edge with its factor: GCN and GraphSAGE."""

    def neighbours(g: Any) -> str:
        for v in g.dst_nodes():
            v["out"] = 0.0
            for e in v.incoming_edges():
                v["out"] += e.norm * e.src.x
        return "out"

    return neighbours


def relational_sum() -> Callable[..., str]:
    """The sum of products with the weights of types: RGCN."""

    def rgcn(g: Any, W: Any) -> str:
        for v in g.dst_nodes():
            v["out"] = 0.0
            for e in v.incoming_edges():
                v["out"] += e.norm * linear(e.src.x, W[e.etype])
        return "out"

    return rgcn


def attention(slope: float) -> Callable[..., str]:
    """Attention of scores that both nodes have: GAT."""

    def gat(g: Any) -> str:
        for e in g.edges():
            e["att"] = leaky_relu(e.src.s + e.dst.t, slope)
        edge_softmax(g, "att", stable=True)
        for v in g.dst_nodes():
            v["out"] = 0.0
            for e in v.incoming_edges():
                v["out"] += e["att"] * e.src.h
        return "out"

    return gat


def relational_attention(slope: float, heads: int, width: int, additive: bool) -> Callable[..., str]:
    """Attention of rows that types make of both nodes: RGAT; `key` and `query` make scores of heads of whole rows."""

    def rgat(g: Any, W: Any, query: Any, key: Any) -> str:
        for e in g.edges():
            e["hs"] = linear(e.src.x, W[e.etype])
            e["scores"] = linear(e["hs"], key)
            e["queries"] = linear(linear(e.dst.x, W[e.etype]), query)
            if additive:
                e["att"] = leaky_relu(e["queries"] + e["scores"], slope)
            else:
                e["att"] = e["queries"] * e["scores"]
        edge_softmax(g, "att", stable=True)
        for v in g.dst_nodes():
            v["out"] = 0.0
            for e in v.incoming_edges():
                v["out"] += e["att"] * reshape(e["hs"], heads, width)
        return "out"

    return rgat


def transformer() -> Callable[..., str]:
    """Attention of keys and queries, with two matrices and a factor for each type of edges: HGT."""

    def hgt(g: Any, W_att: Any, W_msg: Any, factor: Any) -> str:
        for e in g.edges():
            e["msg"] = linear(e.src.value, W_msg[e.etype])
            e["att"] = dot_prod(linear(e.src.key, W_att[e.etype]), e.dst.query) * factor[e.etype]
        edge_softmax(g, "att", stable=True)
        for v in g.dst_nodes():
            v["out"] = 0.0
            for e in v.incoming_edges():
                v["out"] += e["att"] * e["msg"]
        return "out"

    return hgt


#: Models by name, as operators name them; each is a function of its options.
MESSAGES: dict[str, Callable[..., Callable[..., str]]] = {
    each.__name__: each for each in (weighted_sum, relational_sum, attention, relational_attention, transformer)
}
