"""GraphSAGE and attention in PyTorch on mini-batches: with features in unified memory, two lines, losses are equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'tiramisu_py[interop]'")

from tiramisu_py import graphs  # noqa: E402
from tiramisu_py.torch import unified  # noqa: E402

NODES, WIDTH, CLASSES = 80, 12, 3


def loaded() -> tuple[graphs.Graph, Any, Any]:
    """A graph, features and classes."""
    draw = np.random.default_rng(0)
    graph = graphs.Graph(draw.integers(0, NODES, 600), draw.integers(0, NODES, 600), nodes=NODES)
    classes = torch.from_numpy(draw.integers(0, CLASSES, NODES))
    features = torch.from_numpy(draw.standard_normal((NODES, WIDTH)).astype(np.float32))
    features[:, 0] += classes
    return graph, features, classes


def ends(layer: Any) -> tuple[Any, Any]:
    return tuple(torch.from_numpy(layer.graph.array(name).astype(np.int64)) for name in ("src", "dst"))  # type: ignore[return-value]


class Sage(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
    """The mean of the neighbours and the node itself."""

    def __init__(self) -> None:
        super().__init__()
        self.own, self.others = torch.nn.Linear(WIDTH, CLASSES), torch.nn.Linear(WIDTH, CLASSES)

    def forward(self, layer: Any, h: Any) -> Any:
        src, dst = ends(layer)
        total = torch.zeros(len(h), h.shape[1]).index_add(0, dst, h[src])
        count = torch.bincount(dst, minlength=len(h)).clamp(min=1)[:, None]
        return (self.own(h) + self.others(total / count))[: layer.targets]


class Attention(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
    """Neighbours weighed by attention, one head."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = torch.nn.Linear(WIDTH, CLASSES)
        self.ends = torch.nn.Parameter(torch.randn(2, CLASSES))

    def forward(self, layer: Any, h: Any) -> Any:
        src, dst = ends(layer)
        w = self.weights(h)
        raw = torch.nn.functional.leaky_relu((w @ self.ends[0])[src] + (w @ self.ends[1])[dst], 0.2).exp()
        total = torch.zeros(len(h)).index_add(0, dst, raw)
        part = (raw / total[dst])[:, None] * w[src]
        return torch.zeros(len(h), CLASSES).index_add(0, dst, part)[: layer.targets]


def trained(kind: type, in_place: bool) -> list[float]:
    """The losses of some batches."""
    torch.manual_seed(0)
    graph, features, classes = loaded()
    if in_place:
        features = unified(features, device="simulator")  # the first line
    model = kind()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    losses = []
    for step in range(8):
        asked = np.random.default_rng(step).choice(NODES, 20, replace=False)
        batch = graphs.sample(graph, asked, (4,), seed=step)
        neighbors = torch.from_numpy(batch.nodes)
        x = features[neighbors] if in_place else features[neighbors].to("cpu")  # the second line
        loss = torch.nn.functional.cross_entropy(model(batch.layers[0], x), classes[torch.from_numpy(asked)])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return losses


@pytest.mark.parametrize("kind", [Sage, Attention])
def test_training_is_the_same_with_features_in_unified_memory(kind: type) -> None:
    losses = trained(kind, in_place=True)
    assert losses == trained(kind, in_place=False)
    assert losses[-1] < losses[0]
