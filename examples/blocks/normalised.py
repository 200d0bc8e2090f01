"""Attention scores of sparse blocks, normalised in one kernel or in four: what moves between memory and processor.

Scores are scaled, relative positions are added, a mask is multiplied, and the softmax of each row is taken in float32.
With a kernel for each of these, every score is loaded and stored four times; with one kernel, once.

Source: P. Tillet, "Blocked Algorithms for Neural Networks" (2020), 6.2.2, figure 6.5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

import tiramisu_py as tm

H, R, Z = tm.params("H R Z")  # heads, rows of blocks, blocks
h, r, z, u, v = tm.iters("h r z u v")
BLOCK = 8

Step = Callable[[tm.Expr, tm.Expr, tm.Expr], tm.Expr]
STEPS: dict[str, Step] = {
    "scaled": lambda score, position, mask: score * np.float32(0.125),
    "added": lambda score, position, mask: score + position,
    "masked": lambda score, position, mask: score * mask,
}


def kernel(name: str, steps: Sequence[str], *, softmax: bool) -> tm.Function:
    """Some of the steps on the scores of each block, and then the softmax of each row, or not."""
    f = tm.Function(name, params=[H, R, Z], assume="H >= 1 and R >= 1")
    row = f.segments("start", R, of=Z)
    column = f.input("column", tm.int32, [Z], values=(0, R))
    scores = f.input("scores", tm.float32, [H, Z, BLOCK, BLOCK])
    position = f.input("position", tm.float32, [H, R, BLOCK, R, BLOCK]) if "added" in steps else None
    mask = f.input("mask", tm.float32, [R, BLOCK, R, BLOCK]) if "masked" in steps else None
    each = {h: H, r: R, z: row[r], u: BLOCK, v: BLOCK}
    value: tm.Expr = scores[h, z, u, v]
    for step in steps:
        value = STEPS[step](
            value,
            position[h, r, u, column[z], v] if position is not None else value,
            mask[r, u, column[z], v] if mask is not None else value,
        )
    a = f.computation("a", each, value)
    if not softmax:
        f.outputs(a)
        return f
    most = f.reduction("most", {h: H, r: R, u: BLOCK}, {z: row[r], v: BLOCK}, tm.max, a[h, r, z, u, v])
    p = f.computation("p", each, tm.exp(a[h, r, z, u, v] - most[h, r, u]))
    total = f.reduction("total", {h: H, r: R, u: BLOCK}, {z: row[r], v: BLOCK}, tm.sum, p[h, r, z, u, v])
    f.outputs(f.computation("share", each, p[h, r, z, u, v] / total[h, r, u]))
    return f


def scheduled(f: tm.Function) -> tm.Function:
    """Rows of blocks on threads; with the softmax, a row's blocks stay in the cache from step to step."""
    last = f["share"] if "share" in f.algorithm.outputs else f["a"]
    last.parallelize(h, r)
    if last.name == "share":
        for stage in ("total", "p", "most", "a"):
            f[stage].compute_at(last, r)
    return f


def transfers(f: tm.Function, pattern: tm.patterns.BlockLayout, heads: int) -> int:
    """The elements of the caller's arrays that a kernel reads and writes, tables left out."""
    counted = f.cost(H=heads, R=len(pattern.mask), Z=pattern.count).arrays
    outside = {*f.algorithm.inputs, *f.algorithm.outputs} - {"start", "column"}
    return sum(each.elements for each in counted if each.name in outside)


def dense(scores: np.ndarray, position: np.ndarray, mask: np.ndarray, pattern: tm.patterns.BlockLayout) -> np.ndarray:
    """The blocks of the softmax in NumPy, of whole matrices."""
    length, tables = len(pattern.mask) * BLOCK, pattern.tables()
    rows = np.repeat(np.arange(len(pattern.mask)), np.diff(tables["start"]))
    whole = np.full((len(scores), len(pattern.mask), BLOCK, len(pattern.mask), BLOCK), -np.inf)
    for number, (row, column) in enumerate(zip(rows, tables["column"], strict=True)):
        added = scores[:, number] * 0.125 + position[:, row, :, column]
        whole[:, row, :, column] = added * mask[row, :, column]
    flat = whole.reshape(len(scores), length, length)
    power = np.exp(flat - flat.max(-1, keepdims=True))
    share = (power / power.sum(-1, keepdims=True)).reshape(whole.shape)
    return np.stack([share[:, row, :, column] for row, column in zip(rows, tables["column"], strict=True)], axis=1)


def main(heads: int = 2, rows: int = 8) -> None:
    """Compare both ways with dense matrices, and what they move with figure 6.5."""
    pattern = tm.patterns.strided(blocks=rows, stride=4, block=BLOCK) & tm.patterns.causal(blocks=rows, block=BLOCK)
    tables = {name: pattern.tables()[name] for name in ("start", "column")}
    numbers = np.random.default_rng(0)
    scores = numbers.standard_normal((heads, pattern.count, BLOCK, BLOCK), np.float32)
    position = numbers.standard_normal((heads, rows, BLOCK, rows, BLOCK), np.float32)
    mask = numbers.integers(0, 2, (rows, BLOCK, rows, BLOCK)).astype(np.float32)
    arrays = {"position": position, "mask": mask, **tables}
    expected = dense(scores, position, mask, pattern)

    fused = scheduled(kernel("fused", [*STEPS], softmax=True))
    print(str(fused.check()).splitlines()[0])
    np.testing.assert_allclose(fused.compile()(scores=scores, **arrays), expected, rtol=1e-4)
    single = [kernel(name, [name], softmax=False) for name in STEPS] + [kernel("softmax", [], softmax=True)]
    value = scores
    for f in map(scheduled, single):
        given = {name: array for name, array in arrays.items() if name in f.algorithm.inputs}
        value = f.compile()(scores=value, **given)
    np.testing.assert_allclose(value, expected, rtol=1e-4)

    length = rows * BLOCK
    sparse, others = round(pattern.density * heads * length**2), heads * length**2 + length**2
    assert transfers(fused, pattern, heads) == 2 * sparse + others
    assert sum(transfers(f, pattern, heads) for f in single) == 8 * sparse + others
    print(f"right: {2 * sparse + others} elements are moved by one kernel, {8 * sparse + others} by four")


if __name__ == "__main__":
    main()
