"""A layer of a sparse transformer, forward and backward, trained for some steps.

Source: P. Tillet, "Blocked Algorithms for Neural Networks" (2020), 6.2. Scores are computed for the blocks of a pattern
alone: a product of dense matrices sampled by blocks, a softmax over the blocks of a row, and a product of a sparse
matrix with a dense one. Relative positions add a number to each score, and a mask leaves out what comes later. The
gradient is derived: transposed products of the same blocks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import tiramisu_py as tm

E, R, Z = tm.params("E R Z")  # the width of a token, rows of blocks, blocks
h, e, d, r, z, u, v, t = tm.iters("h e d r z u v t")
d0, d1, t0, t1, t2, u0, u1, v0, v1 = tm.iters("d0 d1 t0 t1 t2 u0 u1 v0 v1")
hh, tt, dd = tm.iters("hh tt dd")
WEIGHTS = ("Wq", "Wk", "Wv", "Wo")

Arrays = dict[str, npt.NDArray[np.generic]]


class Heads(NamedTuple):
    """The number of heads, the depth of each, and the tokens of a block."""

    heads: int = 2
    depth: int = 8
    block: int = 8

    def weights(self, width: Any) -> dict[str, tuple[Any, ...]]:
        """The shapes of the weights for tokens of a width."""
        return dict.fromkeys(WEIGHTS[:3], (self.heads, width, self.depth)) | {
            WEIGHTS[3]: (self.heads, self.depth, width)
        }


#: What the example trains, and a layer of the usual size: tokens of 768 numbers.
SMALL, USUAL = Heads(), Heads(12, 64, 16)


def layer(dtype: tm.DType = tm.float64, of: Heads = SMALL) -> tm.Function:
    """Attention with heads and projections, a residual and layer normalisation; then the squared error."""
    HEADS, DEPTH, BLOCK = of.heads, of.depth, of.block
    f = tm.Function("transformer", params=[E, R, Z], assume="R >= 1 and E >= 1")
    row = f.segments("start", R, of=Z)
    column = f.input("column", tm.int32, [Z], values=(0, R))
    x, goal = (f.input(name, dtype, [R * BLOCK, E]) for name in ("x", "goal"))
    W = {name: f.input(name, dtype, list(shape)) for name, shape in of.weights(E).items()}
    near = f.input("near", dtype, [HEADS, 2 * R * BLOCK])  # by the distance of two tokens
    q, key, val = (
        f.reduction(name, {h: HEADS, t: R * BLOCK, d: DEPTH}, {e: E}, tm.sum, x[t, e] * W[by][h, e, d])
        for name, by in (("q", "Wq"), ("key", "Wk"), ("val", "Wv"))
    )
    scores = {h: HEADS, r: R, z: row[r], u: BLOCK, v: BLOCK}
    rows, terms = {h: HEADS, r: R, u: BLOCK}, {z: row[r], v: BLOCK}
    at, to = r * BLOCK + u, tm.cast(tm.int64, column[z]) * BLOCK + v
    s = f.reduction("s", scores, {d: DEPTH}, tm.sum, q[h, at, d] * key[h, to, d])
    scaled = s[h, r, z, u, v] * DEPTH**-0.5 + near[h, R * BLOCK + at - to]
    a = f.computation("a", scores, tm.select(to <= at, scaled, -np.inf))
    most = f.reduction("most", rows, terms, tm.max, a[h, r, z, u, v])
    # the shares are the same whatever is subtracted, so that the largest score has no derivative
    p = f.computation("p", scores, tm.exp(a[h, r, z, u, v] - tm.stop_gradient(most[h, r, u])))
    total = f.reduction("total", rows, terms, tm.sum, p[h, r, z, u, v])
    share = f.computation("share", scores, p[h, r, z, u, v] / total[h, r, u])
    c = f.reduction("c", rows | {d: DEPTH}, terms, tm.sum, share[h, r, z, u, v] * val[h, to, d])
    seen = f.computation("seen", {h: HEADS, t: R * BLOCK, d: DEPTH}, c[h, t // BLOCK, t % BLOCK, d])
    tokens = {t: R * BLOCK, e: E}
    y = f.reduction("y", tokens, {h: HEADS, d: DEPTH}, tm.sum, seen[h, t, d] * W["Wo"][h, d, e])
    added = f.computation("added", tokens, x[t, e] + y[t, e])
    mean = f.reduction("mean", {t: R * BLOCK}, {e: E}, tm.sum, added[t, e] / tm.cast(dtype, E))
    centred = f.computation("centred", tokens, added[t, e] - mean[t])
    square = f.reduction("square", {t: R * BLOCK}, {e: E}, tm.sum, centred[t, e] ** 2 / tm.cast(dtype, E))
    out = f.computation("out", tokens, centred[t, e] / tm.sqrt(square[t] + 1e-5))
    loss = f.reduction("loss", {}, tokens, tm.sum, (out[t, e] - goal[t, e]) ** 2)
    f.outputs(loss)
    return f


def scheduled(step: tm.Function, of: Heads = USUAL) -> tm.Function:
    """The step, the function of `tm.grad`, with threads that share the heads.

    Products of matrices have the recipe's tiles, products of blocks have tiles in registers, and everything else has
    vectors.
    """
    for name in ("q", "key", "val", "y", "d_Wo", "d_seen", "d_Wq", "d_Wk", "d_Wv"):
        tm.recipes.matmul(step[name])
    for name, other in (("s", "key"), ("d_share", "val")):
        _scores(step[name], step[other], of)
    _sums(step, of)
    for name in ("d_key", "d_val"):
        _scattered(step[name])
    for name in ("a", "p", "share", "d_p", "d_a", "d_s"):
        step[name].parallelize(h)
        step[name].vectorize(v, of.block)
    for name in ("most", "total", "d_total"):
        step[name].update.after(step[name].init, u)
        step[name].update.parallelize(h)
        step[name].update.vectorize(v, of.block, combine=tm.PRIVATE)
    step["d_near"].parallelize(h)
    lanes = tm.target().lanes(step["x"].dtype)
    for name in ("added", "centred", "out", "d_out", "d_centred", "d_added"):
        step[name].parallelize(t)
        step[name].vectorize(e, lanes, remainder="mask")
    for name in ("mean", "square", "d_square", "d_mean"):
        step[name].update.after(step[name].init, t)
        step[name].update.parallelize(t)
        step[name].update.vectorize(e, 4 * lanes, combine=tm.PRIVATE)
    step["loss"].update.parallelize(t, combine=tm.PRIVATE)
    step["loss"].update.vectorize(e, 4 * lanes, combine=tm.PRIVATE)
    return step


def _rows(of: Heads, values: Any) -> int:
    """The rows of a block whose sums are in registers at a time."""
    vectors = -(-of.block // tm.target().lanes(values.dtype))
    room = (tm.target().vector_registers - vectors) // vectors
    return max(rows for rows in range(1, of.block + 1) if of.block % rows == 0 and rows <= room)


def _scores(s: Any, other: Any, of: Heads) -> None:
    """Products of a row's tokens and a column's, a block at a time: of a transposed copy for each head."""
    s.update.split(d, of.depth, d0, d1)
    sums = s.update.rfactor(d0)
    s.split(u, _rows(of, s), u0, u1)
    s.update.reorder(h, r, z, d0, u0, u1, v)
    s.update.after(s.init, z)
    s.parallelize(h)
    sums.compute_at(s.update, u0)
    sums.store_in(tm.REGISTER)
    sums.update.reorder(d, u, v)
    s.unroll(u1)
    sums.unroll(u)
    for each in (s, sums):
        each.vectorize(v, of.block)
    turned = sums.update.copy(other, [hh, tt, dd], at=h, layout=[dd, tt])
    turned.split(tt, of.block, t0, t1)
    turned.reorder(t0, dd, t1)
    turned.vectorize(t1, of.block)
    s.init.after(turned, h)


def _sums(step: tm.Function, of: Heads) -> None:
    """Sums over the blocks of a row: what the tokens of a row have seen, and the adjoints of its queries."""
    seen, c, adjoint = step["seen"], step["c"], step["d_q"]
    adjoint.update.split(v, of.block, v0, v1)
    sums = adjoint.update.rfactor(v0)
    for each in (seen, adjoint):
        each.split(t, of.block, t0, t1)
        each.split(t1, _rows(of, each), t1, t2)
        each.split(d, min(of.block, of.depth), d0, d1)
    seen.reorder(h, t0, t1, d0, t2, d1)
    adjoint.update.reorder(h, t0, t1, d0, v0, t2, d1)
    adjoint.init.compute_at(adjoint.update, t2)
    for each, inner, row, at in ((seen, c, u, d0), (adjoint, sums, t, v0)):
        each.parallelize(h)
        each.unroll(t2)
        each.vectorize(d1, min(of.block, of.depth))
        inner.compute_at(each if each is seen else each.update, at)
        inner.store_in(tm.REGISTER)
        inner.update.reorder(z, v, row, d)
        inner.unroll(row)
        inner.vectorize(d, min(of.block, of.depth))


def _scattered(adjoint: Any) -> None:
    """Sums that columns choose a place for: each adds the terms of a block's rows to one vector at a time."""
    lanes = tm.target().lanes(adjoint.dtype)
    adjoint.init.vectorize(d, lanes, remainder="mask")
    adjoint.update.split(d, lanes, d0, d1)
    adjoint.update.reorder(h, r, z, v, t, d0, u, d1)
    adjoint.parallelize(h)
    adjoint.update.unroll(u)
    adjoint.update.vectorize(d1, lanes, remainder="mask")


def tables(pattern: tm.patterns.BlockLayout) -> Arrays:
    """The pattern as the layer's inputs."""
    found = pattern.tables()
    return {name: found[name] for name in ("start", "column")}


def dense(pattern: tm.patterns.BlockLayout, given: Arrays) -> float:
    """The same loss by dense matrices."""
    x, goal, depth = given["x"], given["goal"], given["Wq"].shape[-1]
    rows, block = len(x), len(x) // len(pattern.mask)
    q, key, val = (np.einsum("le,hed->hld", x, given[name]) for name in ("Wq", "Wk", "Wv"))
    at = np.arange(rows)[:, None] - np.arange(rows)
    s = np.einsum("hld,hmd->hlm", q, key) * depth**-0.5 + given["near"][:, rows + at]
    s = np.where(np.kron(pattern.mask, np.ones((block, block))).astype(bool) & (at >= 0), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    added = x + np.einsum("hlm,hmd,hde->le", p / p.sum(-1, keepdims=True), val, given["Wo"])
    centred = added - added.mean(-1, keepdims=True)
    return float(((centred / np.sqrt(centred.var(-1, keepdims=True) + 1e-5) - goal) ** 2).sum())


def example(pattern: tm.patterns.BlockLayout, width: int, seed: int = 0, of: Heads = SMALL) -> Arrays:
    """Tokens, weights, and as a goal the tokens of the places before."""
    numbers, rows, block = np.random.default_rng(seed), len(pattern.mask), of.block
    x = numbers.standard_normal((rows * block, width))
    weights = {
        name: numbers.standard_normal(shape) / (width**0.5 if name != "Wo" else 4)
        for name, shape in of.weights(width).items()
    }
    near = np.zeros((of.heads, 2 * rows * block))
    return {**tables(pattern), "x": x, "goal": np.roll(x, 1, axis=0), **weights, "near": near}


def work(f: tm.Function, pattern: tm.patterns.BlockLayout, width: int) -> int:
    """Multiplications of the two sparse products."""
    cost = f.cost(E=width, R=len(pattern.mask), Z=pattern.count)
    return sum(int(each.instances) for each in cost.statements if each.name in ("s.update", "c.update"))


def main(steps: int = 20) -> None:
    """Train the layer to copy the token before, and compare with dense matrices."""
    strided = tm.patterns.strided(blocks=8, stride=4, block=SMALL.block)
    pattern, width = strided & tm.patterns.causal(blocks=8, block=SMALL.block), 16
    f, learned = layer(), [*WEIGHTS, "near"]
    step = tm.grad(f, wrt=learned)
    step.auto_schedule()
    print(str(step.check()).splitlines()[0])
    call, given = step.compile(), example(pattern, width)
    _, *gradients = call(**given)
    for name, gradient in zip(learned, gradients, strict=True):  # along a direction, beside differences
        along = np.random.default_rng(1).standard_normal(given[name].shape)
        ahead, behind = (dense(pattern, {**given, name: given[name] + side * along}) for side in (1e-6, -1e-6))
        np.testing.assert_allclose((gradient * along).sum(), (ahead - behind) / 2e-6, rtol=1e-5)
    losses = []
    for _ in range(steps):
        loss, *gradients = call(**given)
        np.testing.assert_allclose(loss, dense(pattern, given), rtol=1e-9)
        losses.append(float(loss))
        for name, gradient in zip(learned, gradients, strict=True):
            given[name] = given[name] - 0.003 * gradient
    assert losses[-1] < 0.9 * losses[0], losses
    whole = tm.patterns.BlockLayout(np.ones((8, 8)), block=SMALL.block)
    share = work(f, pattern, width) / work(f, whole, width)
    assert share == pattern.density
    print(f"right: {share:.0%} of the dense products; the loss falls from {losses[0]:.1f} to {losses[-1]:.1f}")


if __name__ == "__main__":
    main()
