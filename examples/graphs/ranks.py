"""Relational layers, one with attention, and their gradients on ranks: each owns a block of nodes, and what comes in.

A rank has the edges that come into its nodes, so that a softmax over these needs nobody else. Features of other ranks'
nodes arrive in one exchange, which is derived. Gradients by features and by weights are added up by each rank over its
own edges, and combined.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tiramisu_py as tm
from tiramisu_py import queries

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


def attention(nodes: int) -> tm.Function:
    """What comes into each node, weighed by a softmax of scores: of messages, and of the node where they end."""
    f = tm.Function("rgat", params=[E, R])
    rows = f.segments("rows", nodes, of=E)
    src, kind = f.input("src", tm.int32, [E], values=(0, nodes)), f.input("kind", tm.int32, [E], values=(0, R))
    x, W = f.input("x", tm.float64, [nodes, WIDE]), f.input("W", tm.float64, [R, WIDE, OUT])
    a, b = f.input("a", tm.float64, [R, OUT]), f.input("b", tm.float64, [R, WIDE])
    edge, into = {n: nodes, p: rows[n]}, {p: rows[n]}
    msg = f.reduction("msg", {**edge, d: OUT}, {k: WIDE}, tm.sum, x[src[p], k] * W[kind[p], k, d])
    sent = f.reduction("sent", edge, {d: OUT}, tm.sum, msg[n, p, d] * a[kind[p], d])
    met = f.reduction("met", edge, {k: WIDE}, tm.sum, x[n, k] * b[kind[p], k])
    both = sent[n, p] + met[n, p]
    score = f.computation("score", edge, tm.select(both > 0, both, 0.2 * both))
    top = f.reduction("top", {n: nodes}, into, tm.max, score[n, p])
    e = f.computation("e", edge, tm.exp(score[n, p] - tm.stop_gradient(top[n])))
    total = f.reduction("total", {n: nodes}, into, tm.sum, e[n, p])
    f.outputs(f.reduction("out", {n: nodes, d: OUT}, into, tm.sum, e[n, p] / total[n] * msg[n, p, d]))
    return f


def on_ranks(f: tm.Function, nodes: int, ranks: int) -> tm.Function:
    """Deal out nodes in blocks: what each has, what is computed for each, and terms of sums over all."""
    block = -(-nodes // ranks)
    f.grid(ranks)
    for name in ("x", "out", "d_out"):
        if name in (*f.algorithm.inputs, *f.algorithm.computations):
            f[name].distribute_array([n, d], rank=n // block)
    for name, declared in f.algorithm.computations.items():
        of_nodes = declared.iterators[0] == n.name and not queries.chosen_by_values(declared)
        dealt = f[name] if of_nodes else f[name].update
        dealt.split(n if of_nodes else tm.Iter(declared.over[0]), block, rank, own)
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
        "a": draw.standard_normal((kinds, OUT)),
        "b": draw.standard_normal((kinds, WIDE)),
    }
    return given, dst


def given_to(f: tm.Function, given: dict[str, Any]) -> dict[str, Any]:
    """Those of some arrays that a function takes."""
    return {name: array for name, array in given.items() if name in f.algorithm.inputs}


def reference(given: dict[str, Any], dst: Any) -> tuple[Any, Any, Any]:
    """The result and its gradients by features and weights, in NumPy."""
    rows, weights, back = given["x"][given["src"]], given["W"][given["kind"]], given["d_out"][dst]
    out, of_x, of_weights = (np.zeros_like(given[name]) for name in ("d_out", "x", "W"))
    np.add.at(out, dst, np.einsum("ek,ekd->ed", rows, weights))
    np.add.at(of_x, given["src"], np.einsum("ed,ekd->ek", back, weights))
    np.add.at(of_weights, given["kind"], np.einsum("ed,ek->ekd", back, rows))
    return out, of_x, of_weights


def attention_reference(given: dict[str, Any], dst: Any) -> Any:
    """The result of the layer with attention, in NumPy."""
    kind, x = given["kind"], given["x"]
    msg = np.einsum("ek,ekd->ed", x[given["src"]], given["W"][kind])
    both = (msg * given["a"][kind]).sum(1) + (x[dst] * given["b"][kind]).sum(1)
    score = np.where(both > 0, both, 0.2 * both)
    top, total = np.full(len(x), -np.inf), np.zeros(len(x))
    np.maximum.at(top, dst, score)
    e = np.exp(score - top[dst])
    np.add.at(total, dst, e)
    out = np.zeros_like(given["d_out"])
    np.add.at(out, dst, (e / total[dst])[:, None] * msg)
    return out


def main() -> None:
    """The layers on one to three ranks, all in this process, beside NumPy and the same on one."""
    nodes = 11
    given, dst = sample(nodes, 60, 4)
    for ranks in (1, 2, 3):
        step = on_ranks(tm.vjp(layer(nodes)).step, nodes, ranks)
        report = step.check()
        assert report.ok, report
        for one, other in zip(step.simulate(**given_to(step, given)), reference(given, dst), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)
        sent = step.cost("communication", E=60, R=4)
        print(f"{ranks} ranks: {sent.elements} numbers are sent, in {sent.messages} messages")
    whole = tm.vjp(attention(nodes)).step
    wanted = whole.evaluate(**given_to(whole, given))
    np.testing.assert_allclose(wanted[0], attention_reference(given, dst), rtol=1e-12, atol=1e-13)
    step = on_ranks(tm.vjp(attention(nodes)).step, nodes, 3)
    assert step.check().ok
    for one, other in zip(step.simulate(**given_to(step, given)), wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12)
    print("right: each number of ranks has NumPy's values and gradients, attention too")


if __name__ == "__main__":
    main()
