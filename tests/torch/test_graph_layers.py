"""Layers of graph networks as functions of PyTorch: values and gradients of a torch loop over types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.graphs.models import MODELS, F, odd_graphs
from tests.graphs.test_runs_of_types import typed
from tiramisu_py import graphs

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'tiramisu_py[interop]'")


def by_types(edges: Any, feature: Any, W: Any, w_s: Any, w_t: Any) -> Any:
    """Attention of several heads, as one writes it in PyTorch."""
    src, dst, etype = (torch.from_numpy(each) for each in (edges.src, edges.dst, edges.etype))
    hs, ht = (torch.einsum("ek,ehkd->ehd", feature[at], W[etype]) for at in (src, dst))
    raw = (hs * w_s[etype]).sum(-1) + (ht * w_t[etype]).sum(-1)
    att = torch.nn.functional.leaky_relu(raw, 0.01).exp()
    total = torch.zeros(len(feature), att.shape[1], dtype=att.dtype).index_add(0, dst, att)
    zero = torch.zeros(len(feature), *hs.shape[1:], dtype=att.dtype)
    return zero.index_add(0, dst, (att / total[dst])[..., None] * hs)


def test_a_layer_has_the_gradients_of_pytorch() -> None:
    edges, own = odd_graphs()["a hub"], MODELS["rgat"]
    layer = graphs.layer(own.model, node={"feature": F}, weights=own.weights, dtype=tm.float64)
    graph = graphs.Graph(edges.src, edges.dst, etype=edges.etype, nodes=9, etypes=3)
    called = layer.on(graph).for_torch()
    draw = torch.Generator().manual_seed(0)
    shapes = {"feature": (9, F)} | {name: (3, *shape[1:]) for name, shape in own.weights.items()}
    given = {
        name: torch.randn(shape, generator=draw, dtype=torch.float64).requires_grad_() for name, shape in shapes.items()
    }
    weights = torch.randn((9, 2, 2), generator=draw, dtype=torch.float64)
    wanted = by_types(edges, **given)
    expected = torch.autograd.grad((wanted * weights).sum(), [*given.values()])
    found = called(**given)
    torch.testing.assert_close(found, wanted)
    for one, other in zip(torch.autograd.grad((found * weights).sum(), [*given.values()]), expected, strict=True):
        torch.testing.assert_close(one, other)
    with pytest.raises(tm.ArgumentError, match="W is missing: give feature, W, w_s, w_t"):
        called(feature=given["feature"], w_s=given["w_s"], w_t=given["w_t"])


def test_edges_keep_their_order() -> None:
    def halved(g: Any) -> str:
        for e in g.edges():
            e["out"] = e.length * e.length
        return "out"

    graph = graphs.Graph([2, 0, 1], [0, 1, 2], etype=[1, 0, 1])
    called = graphs.layer(halved, edge={"length": ()}, dtype=tm.float64).on(graph).for_torch()
    length = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    found = called(length=length)
    np.testing.assert_array_equal(found.detach().numpy(), [1.0, 4.0, 9.0])
    found.sum().backward()
    np.testing.assert_array_equal(length.grad.numpy(), [2.0, 4.0, 6.0])


@pytest.mark.parametrize("runs", [False, "count", True], ids=str)
def test_products_by_the_runs_of_types_take_no_arrays_of_them_from_tensors(runs: Any) -> None:
    ends = np.random.default_rng(0).integers(0, 30, (2, 160))
    graph = graphs.Graph(*ends, etype=np.arange(160) % 3, nodes=30)
    made = graphs.layer(
        typed,
        node={"x": 3},
        weights={"W": ("etype", 3, 5)},
        dtype=tm.float64,
        sum_first=False,
        compact=False,
        runs=runs,
    )
    run, numbers = made.on(graph), np.random.default_rng(1)
    given = {"x": numbers.standard_normal((30, 3)), "W": numbers.standard_normal((3, 3, 5))}
    found = run.for_torch()(**{name: torch.from_numpy(each) for name, each in given.items()})
    np.testing.assert_allclose(found.detach().numpy(), run(**given), rtol=1e-12)
