"""Three layers of graph networks, as Python over edges and nodes."""

from __future__ import annotations

from typing import Any

from tiramisu_py import graphs


def rgcn(g: Any, W: Any, W_self: Any) -> str:
    """Relational convolution: the sum of the messages, each weighed by what the caller gives for the edge."""
    for v in g.dst_nodes():
        v["sum"] = 0.0
        for e in v.incoming_edges():
            v["sum"] += e.norm * graphs.linear(e.src.feature, W[e.etype])
        v["out"] = v["sum"] + graphs.linear(v.feature, W_self)
    return "out"


def rgat(g: Any, W: Any, w_s: Any, w_t: Any) -> str:
    """Relational attention, of several heads where the weights have them."""
    for e in g.edges():
        e["hs"] = graphs.linear(e.src.feature, W[e.etype])
        ht = graphs.linear(e.dst.feature, W[e.etype])
        e["att"] = graphs.leaky_relu(graphs.dot_prod(e["hs"], w_s[e.etype]) + graphs.dot_prod(ht, w_t[e.etype]))
    graphs.edge_softmax(g, "att")
    for v in g.dst_nodes():
        v["out"] = 0.0
        for e in v.incoming_edges():
            v["out"] += e["att"] * e["hs"]
    return "out"


def hgt(g: Any, K: Any, Q: Any, V: Any, W_att: Any, W_msg: Any) -> str:
    """A heterogeneous transformer: keys, queries and values by types of nodes, two matrices for each type of edges."""
    for v in g.nodes():
        v["k"] = graphs.linear(v.feature, K[v.ntype])
        v["q"] = graphs.linear(v.feature, Q[v.ntype])
        v["v"] = graphs.linear(v.feature, V[v.ntype])
    for e in g.edges():
        e["msg"] = graphs.linear(e.src["v"], W_msg[e.etype])
        e["att"] = graphs.dot_prod(graphs.linear(e.src["k"], W_att[e.etype]), e.dst["q"])
    graphs.edge_softmax(g, "att")
    for v in g.dst_nodes():
        v["out"] = 0.0
        for e in v.incoming_edges():
            v["out"] += e["att"] * e["msg"]
    return "out"
