"""GraphSAGE and attention on mini-batches, whose features a GPU gathers from the memory of the host.

Two lines differ from training with features that the CPU gathers and copies: the features are moved to unified memory,
and the rows of a batch are those that the kernel picks. The GPU is simulated, and the layers run on cores.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tiramisu_py as tm
from tiramisu_py import graphs

NODES, DEGREE, WIDTH, CLASSES, BATCH = 300, 12, 33, 3, 60
N, M = tm.params("N M")
i, j = tm.iters("i j")


def sage(g: Any, W: Any, W_self: Any) -> str:
    """The mean of the neighbours, and the node itself (GraphSAGE)."""
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


def gat(g: Any, W: Any, a_src: Any, a_dst: Any) -> str:
    """Neighbours weighed by attention (GAT, one head)."""
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


def picking() -> tm.Kernel:
    """Rows of an array of the host, picked by a GPU where they lie: threads begin at cache lines."""
    f = tm.Function("picking", params=[N, M])
    rows = f.input("rows", tm.float32, [M, WIDTH], memory=tm.HOST_MAPPED)
    index = f.input("index", tm.int64, [N], values=(0, M))
    picked = f.computation("picked", {i: N, j: WIDTH}, rows[index[i], j])
    f.outputs(picked)
    picked.align(j, rows, 128, by="line")
    picked.tag_gpu(blocks=[i], threads=[j])
    f.derive_transfers()
    return f.compile(device="simulator", sanitize=True)


draw = np.random.default_rng(0)
group = draw.integers(0, CLASSES, NODES)
dst = np.repeat(np.arange(NODES), DEGREE)
members = [np.flatnonzero(group == each) for each in range(CLASSES)]
near = np.concatenate([draw.choice(members[group[node]], DEGREE) for node in range(NODES)])
src = np.where(draw.random(dst.size) < 0.7, near, draw.integers(0, NODES, dst.size))  # mostly inside of a group
graph = graphs.Graph(src, dst, nodes=NODES)
on_host = draw.standard_normal((NODES, WIDTH)).astype(np.float32)
on_host[np.arange(NODES), group] += 1.0
features = tm.to_unified(on_host, device="simulator")  # the first line: before, features = on_host
pick = picking()
wanted = np.eye(CLASSES, dtype=np.float32)[group]

MODELS = {
    sage: {"W": (WIDTH, CLASSES), "W_self": (WIDTH, CLASSES)},
    gat: {"W": (WIDTH, CLASSES), "a_src": (CLASSES,), "a_dst": (CLASSES,)},
}
for model, shapes in MODELS.items():
    layer = graphs.layer(model, node={"feature": WIDTH}, weights=shapes)
    run = layer.on(graph)  # compiled here; batches use what has been compiled
    weights = {name: (0.1 * draw.standard_normal(shape)).astype(np.float32) for name, shape in shapes.items()}
    losses, requests = list[float](), 0.0
    for epoch in range(6):
        mixed = draw.permutation(NODES)
        for first in range(0, NODES, BATCH):
            nodes = mixed[first : first + BATCH]
            batch = graphs.sample(graph, nodes, (5,), seed=1000 * epoch + first)
            rows = pick(features, batch.nodes)  # the second line: before, on_host[batch.nodes], copied to the GPU
            assert np.array_equal(rows, on_host[batch.nodes])
            moved = pick.traffic["rows"]
            assert moved.copied == 0
            requests = moved.requests / batch.nodes.size
            part = run.on(batch.layers[0].graph)
            scores = part(feature=rows, **weights)
            chance = np.exp(scores[:BATCH] - scores[:BATCH].max(1, keepdims=True))
            chance /= chance.sum(1, keepdims=True)
            losses.append(float(-np.log(chance[np.arange(BATCH), group[nodes]]).mean()))
            weigh = np.zeros_like(scores)
            weigh[:BATCH] = (chance - wanted[nodes]) / BATCH
            found = part.gradients(weigh, feature=rows, **weights)
            for name in weights:
                weights[name] -= 0.3 * found[name]
    right = (run(feature=on_host, **weights).argmax(1) == group).mean()
    print(
        f"{model.__name__}: the loss falls from {losses[0]:.2f} to {losses[-1]:.2f}; {right:.0%} of all nodes are right"
    )
    print(f"  {requests:.2f} requests of 128 bytes for a row of {4 * WIDTH}, and no row is copied by the CPU")
    assert losses[-1] < 0.8 * losses[0] and right > 0.75, (model.__name__, losses[0], losses[-1], right)
print("right: both models are trained on batches whose rows a GPU has gathered")
