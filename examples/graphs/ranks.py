"""A relational layer and its gradients on ranks: each owns a block of nodes, and the edges that come into them.

Features of other ranks' nodes arrive in one exchange, which is derived. Gradients by features and by weights are added
up by each rank over its own edges, and combined.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tiramisu_py as tm

E, R = tm.params("E R")
n, p, k, d, rank, own = tm.iters("n p k d rank own")
WIDE, OUT = 6, 4


def layer(nodes: int) -> tm.Function:
    """The sum of what comes into each node; edges lie in runs by the node where they end."""
    f = tm.Function("rgcn", params=[E, R])
    rows = f.segments("rows", nodes, of=E)
    src, kind = f.input("src", tm.int32, [E], values=(0, nodes)), f.input("kind", tm.int32, [E], values=(0, R))
    x, W = f.input("x", tm.float64, [nodes, WIDE]), f.input("W", tm.float64, [R, WIDE, OUT])
    msg = f.reduction("msg", {n: nodes, p: rows[n], d: OUT}, {k: WIDE}, tm.sum, x[src[p], k] * W[kind[p], k, d])
    f.outputs(f.reduction("out", {n: nodes, d: OUT}, {p: rows[n]}, tm.sum, msg[n, p, d]))
    return f


def on_ranks(f: tm.Function, nodes: int, ranks: int) -> tm.Function:
    """Deal out nodes in blocks: what each has, what is computed for each, and terms of sums over all."""
    block = -(-nodes // ranks)
    f.grid(ranks)
    for name in ("x", "out", "d_out"):
        if name in (*f.algorithm.inputs, *f.algorithm.computations):
            f[name].distribute_array([n, d], rank=n // block)
    for name, declared in f.algorithm.computations.items():
        of_nodes = declared.iterators[0] == n.name
        dealt = f[name] if of_nodes else f[name].update
        dealt.split(n, block, rank, own)
        dealt.tag_distribute(rank, **({} if of_nodes else {"combine": tm.PRIVATE}))
    f.derive_transfers(collectives=True)
    return f


def sample(nodes: int, edges: int, kinds: int) -> tuple[dict[str, Any], Any]:
    """A random graph with features and weights, and where each edge ends."""
    draw = np.random.default_rng(0)
    dst = np.sort(draw.integers(0, nodes, edges))
    given = {
        "rows": np.searchsorted(dst, np.arange(nodes + 1)).astype(np.int32),
        "src": draw.integers(0, nodes, edges).astype(np.int32),
        "kind": draw.integers(0, kinds, edges).astype(np.int32),
        "x": draw.standard_normal((nodes, WIDE)),
        "W": draw.standard_normal((kinds, WIDE, OUT)),
        "d_out": draw.standard_normal((nodes, OUT)),
    }
    return given, dst


def reference(given: dict[str, Any], dst: Any) -> tuple[Any, Any, Any]:
    """The result and its gradients by features and weights, in NumPy."""
    rows, weights, back = given["x"][given["src"]], given["W"][given["kind"]], given["d_out"][dst]
    out, of_x, of_weights = (np.zeros_like(given[name]) for name in ("d_out", "x", "W"))
    np.add.at(out, dst, np.einsum("ek,ekd->ed", rows, weights))
    np.add.at(of_x, given["src"], np.einsum("ed,ekd->ek", back, weights))
    np.add.at(of_weights, given["kind"], np.einsum("ed,ek->ekd", back, rows))
    return out, of_x, of_weights


def main() -> None:
    """The layer on one to three ranks, all in this process, beside NumPy."""
    nodes = 11
    given, dst = sample(nodes, 60, 4)
    for ranks in (1, 2, 3):
        step = on_ranks(tm.vjp(layer(nodes)).step, nodes, ranks)
        report = step.check()
        assert report.ok, report
        for one, other in zip(step.simulate(**given), reference(given, dst), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)
        sent = step.cost("communication", E=60, R=4)
        print(f"{ranks} ranks: {sent.elements} numbers are sent, in {sent.messages} messages")
    print("right: each number of ranks has NumPy's values and gradients")


if __name__ == "__main__":
    main()
