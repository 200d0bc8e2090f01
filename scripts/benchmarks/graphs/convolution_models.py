"""DGL's own convolutions as Python over edges and nodes: the sums that `GraphConv`, `SAGEConv`, `GATConv` and `HGTConv`
compute with one fixed set of options.
"""

from __future__ import annotations

from typing import Any

from tiramisu_py import graphs

WIDE, HEADS = 64, 4
OF_TYPES = ("K", "Q", "V", "A")


def graph_conv(g: Any, W: Any) -> str:
    """`GraphConv` without norms of its own: each edge has a weight."""
    for v in g.dst_nodes():
        v["out"] = 0.0
        for e in v.incoming_edges():
            v["out"] += e.norm * graphs.linear(e.src.feature, W)
    return "out"


def sage_conv(g: Any, W: Any, W_self: Any) -> str:
    """`SAGEConv` of means."""
    for v in g.dst_nodes():
        v["count"] = 0.0
        v["sum"] = 0.0
        for e in v.incoming_edges():
            v["count"] += 1.0
            v["sum"] += e.src.feature
    for v in g.dst_nodes():
        mean = v["sum"] / graphs.select(v["count"] > 0, v["count"], 1.0)
        v["out"] = graphs.linear(mean, W) + graphs.linear(v.feature, W_self)
    return "out"


def gat_conv(g: Any, W: Any, a_src: Any, a_dst: Any) -> str:
    """`GATConv` of four heads."""
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


def hgt_conv(g: Any, K: Any, Q: Any, V: Any, A: Any, W_att: Any, W_msg: Any, pri: Any, skip: Any) -> str:
    """`HGTConv` of one head: `hgt`, a factor for each type of edges, and a gate to the features for each of nodes."""
    for v in g.nodes():
        v["k"] = graphs.linear(v.feature, K[v.ntype])
        v["q"] = graphs.linear(v.feature, Q[v.ntype])
        v["v"] = graphs.linear(v.feature, V[v.ntype])
    for e in g.edges():
        e["msg"] = graphs.linear(e.src["v"], W_msg[e.etype])
        raw = graphs.dot_prod(graphs.linear(e.src["k"], W_att[e.etype]), e.dst["q"])
        e["att"] = raw * pri[e.etype] * (1 / WIDE**0.5)
    graphs.edge_softmax(g, "att")
    for v in g.dst_nodes():
        v["sum"] = 0.0
        for e in v.incoming_edges():
            v["sum"] += e["att"] * e["msg"]
    for v in g.nodes():
        v["gate"] = 1.0 / (1.0 + graphs.exp(-1.0 * skip[v.ntype]))
        v["out"] = v["gate"] * graphs.linear(v["sum"], A[v.ntype]) + (1.0 - v["gate"]) * v.feature
    return "out"


MODELS = {"GraphConv": graph_conv, "SAGEConv": sage_conv, "GATConv": gat_conv, "HGTConv": hgt_conv}
WEIGHTS: dict[str, dict[str, Any]] = {
    "GraphConv": {"W": (WIDE, WIDE)},
    "SAGEConv": {"W": (WIDE, WIDE), "W_self": (WIDE, WIDE)},
    "GATConv": {"W": (HEADS, WIDE, WIDE // HEADS), "a_src": (HEADS, WIDE // HEADS), "a_dst": (HEADS, WIDE // HEADS)},
    "HGTConv": {
        **dict.fromkeys(OF_TYPES, ("ntype", WIDE, WIDE)),
        **dict.fromkeys(("W_att", "W_msg"), ("etype", WIDE, WIDE)),
        "pri": ("etype",),
        "skip": ("ntype",),
    },
}
