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
h, e, d, r, z, u, v, o = tm.iters("h e d r z u v o")
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
    x, goal = (f.input(name, dtype, [R, BLOCK, E]) for name in ("x", "goal"))
    W = {name: f.input(name, dtype, list(shape)) for name, shape in of.weights(E).items()}
    near = f.input("near", dtype, [HEADS, 2 * R * BLOCK])  # by the distance of two tokens
    q, key, val = (
        f.reduction(name, {h: HEADS, r: R, u: BLOCK, d: DEPTH}, {e: E}, tm.sum, x[r, u, e] * W[by][h, e, d])
        for name, by in (("q", "Wq"), ("key", "Wk"), ("val", "Wv"))
    )
    scores = {h: HEADS, r: R, z: row[r], u: BLOCK, v: BLOCK}
    at, to = r * BLOCK + u, tm.cast(tm.int64, column[z]) * BLOCK + v
    s = f.reduction("s", scores, {d: DEPTH}, tm.sum, q[h, r, u, d] * key[h, column[z], v, d])
    scaled = s[h, r, z, u, v] * DEPTH**-0.5 + near[h, R * BLOCK + at - to]
    a = f.computation("a", scores, tm.select(to <= at, scaled, -np.inf))
    most = f.reduction("most", {h: HEADS, r: R, u: BLOCK}, {z: row[r], v: BLOCK}, tm.max, a[h, r, z, u, v])
    p = f.computation("p", scores, tm.exp(a[h, r, z, u, v] - most[h, r, u]))
    total = f.reduction("total", {h: HEADS, r: R, u: BLOCK}, {z: row[r], v: BLOCK}, tm.sum, p[h, r, z, u, v])
    share = p[h, r, z, u, v] / total[h, r, u]
    c = f.reduction(
        "c", {h: HEADS, r: R, u: BLOCK, d: DEPTH}, {z: row[r], v: BLOCK}, tm.sum, share * val[h, column[z], v, d]
    )
    y = f.reduction("y", {r: R, u: BLOCK, e: E}, {h: HEADS, d: DEPTH}, tm.sum, c[h, r, u, d] * W["Wo"][h, d, e])
    added = f.computation("added", {r: R, u: BLOCK, e: E}, x[r, u, e] + y[r, u, e])
    mean = f.reduction("mean", {r: R, u: BLOCK}, {e: E}, tm.sum, added[r, u, e] / tm.cast(dtype, E))
    centred = f.computation("centred", {r: R, u: BLOCK, e: E}, added[r, u, e] - mean[r, u])
    square = f.reduction("square", {r: R, u: BLOCK}, {e: E}, tm.sum, centred[r, u, e] ** 2 / tm.cast(dtype, E))
    out = f.computation("out", {r: R, u: BLOCK, e: E}, centred[r, u, e] / tm.sqrt(square[r, u] + 1e-5))
    loss = f.reduction("loss", {}, {r: R, u: BLOCK, e: E}, tm.sum, (out[r, u, e] - goal[r, u, e]) ** 2)
    f.outputs(loss)
    return f


def tables(pattern: tm.patterns.BlockLayout) -> Arrays:
    """The pattern as the layer's inputs."""
    found = pattern.tables()
    return {name: found[name] for name in ("start", "column")}


def dense(pattern: tm.patterns.BlockLayout, given: Arrays) -> float:
    """The same loss by dense matrices."""
    (rows, block, width), depth = given["x"].shape, given["Wq"].shape[-1]
    rows *= block
    x, goal = (given[name].reshape(rows, width) for name in ("x", "goal"))
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
    goal = np.roll(x, 1, axis=0).reshape(rows, block, width)
    near = np.zeros((of.heads, 2 * rows * block))
    return {**tables(pattern), "x": x.reshape(rows, block, width), "goal": goal, **weights, "near": near}


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
