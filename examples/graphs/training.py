"""A relational layer, trained to tell two groups of nodes apart by what comes along edges of two types.

Edges inside of a group are of one type, those between groups of the other. Gradients are those of the layer's own
program; the loss is NumPy's.
"""

from __future__ import annotations

import numpy as np
from models import rgcn

import tiramisu_py as tm
from tiramisu_py import graphs

NODES, EDGES, FEATURES, CLASSES = 60, 600, 8, 2
draw = np.random.default_rng(0)
group = draw.integers(0, CLASSES, NODES)
src, dst = draw.integers(0, NODES, EDGES), draw.integers(0, NODES, EDGES)
etype = (group[src] == group[dst]).astype(np.int64)  # edges inside a group are of type 1
feature = draw.standard_normal((NODES, FEATURES))
feature[:, 0] += 1.5 * group
norm = 1 / np.maximum(np.bincount(dst, minlength=NODES), 1)[dst]

layer = graphs.layer(
    rgcn,
    node={"feature": FEATURES},
    edge={"norm": ()},
    weights={"W": ("etype", FEATURES, CLASSES), "W_self": (FEATURES, CLASSES)},
    dtype=tm.float64,
)
run = layer.on(graphs.Graph(src, dst, etype=etype, nodes=NODES, etypes=2))
weights = {"W": np.zeros((2, FEATURES, CLASSES)), "W_self": np.zeros((FEATURES, CLASSES))}
given = {"feature": feature, "norm": norm}
wanted = np.eye(CLASSES)[group]

losses = []
for _ in range(60):
    scores = run(**given, **weights)
    chance = np.exp(scores - scores.max(1, keepdims=True))
    chance /= chance.sum(1, keepdims=True)
    losses.append(-np.log(chance[np.arange(NODES), group]).mean())
    gradients = run.gradients((chance - wanted) / NODES, **given, **weights)
    for name in weights:
        weights[name] -= 4.0 * gradients[name]

right = (run(**given, **weights).argmax(1) == group).mean()
assert losses[-1] < 0.1 and right == 1.0, (losses[-1], right)
print(f"the loss falls from {losses[0]:.2f} to less than 0.1")
print("right: all nodes are in the group that they were drawn from")
