"""What attention over sparse blocks computes and moves, as `Function.cost` counts it, beside closed forms.

Source: P. Tillet, "Blocked Algorithms for Neural Networks" (2020), 6.2: figure 6.5, and layers of width 768.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.language.test_masks_left_out import module_of

sparse, transformer = module_of("block_sparse"), module_of("transformer")
TABLES = {"start", "head", "row", "column"}


def _strided(rows: int, block: int) -> tm.patterns.BlockLayout:
    return tm.patterns.strided(blocks=rows, stride=4, block=block) & tm.patterns.causal(blocks=rows, block=block)


def moved(f: tm.Function, **sizes: int) -> int:
    """The elements of global memory that a kernel reads and writes, each once, without tables."""
    return sum(each.elements for each in f.cost(**sizes).arrays if each.callers and each.name not in TABLES)


@pytest.mark.parametrize(("batch", "heads", "rows"), [(1, 1, 3), (2, 12, 16)])
def test_a_softmax_of_one_kernel_moves_scores_twice_and_one_of_steps_eight_times(
    batch: int, heads: int, rows: int
) -> None:
    block, count = 16, heads * len(np.flatnonzero(np.tri(rows)))
    length = rows * block
    scores, shared = batch * count * block**2, batch * heads * length**2 + length**2
    sizes = {"Z": batch, "H": heads, "R": rows, "W": heads * rows, "E": count}
    fused, _ = sparse.shares(block, 256)
    assert moved(fused, **sizes) == 2 * scores + shared
    *others, last = sparse.steps(block)
    apart = [moved(f, **sizes) for f in others]
    apart.append(moved(last, **{name: sizes[name] for name in "ZWE"}))
    assert sum(apart) == 8 * scores + shared


def test_a_softmax_of_steps_is_that_of_one_kernel() -> None:
    heads, rows, block, scale = 2, 3, 8, 0.25
    given = sparse.pattern(heads, rows, seed=1)
    numbers = np.random.default_rng(1)
    q, k, v = numbers.normal(size=(3, 2, heads, rows, block, 5)).astype(np.float32)
    p = numbers.normal(size=(2, heads, rows, block, rows, block)).astype(np.float32)
    m = np.tri(rows * block, dtype=np.float32).reshape(rows, block, rows, block)
    x, wanted, _ = sparse.by_numpy(given, q, k, v, p, m, scale)
    of_step: list[dict[str, Any]] = [{"scale": np.float32(scale)}, {"p": p}, {"m": m}, {}]
    for number, (f, own) in enumerate(zip(sparse.steps(block), of_step, strict=True)):
        assert f.check().ok
        if number < 3:
            own |= {"H": heads, "R": rows, "W": heads * rows}
        names = ("head", "row", "column") if number < 3 else ("start",)
        y = f.evaluate(x=x, **{name: given[name] for name in names}, **own)
        x = y
    np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_the_sparse_products_of_a_layer_of_width_768_cost_the_share_of_its_blocks() -> None:
    width, rows, of = 768, 4, transformer.USUAL
    f, pattern = transformer.layer(of=of), _strided(rows, of.block)
    assert of.heads * of.depth == width and f.check().ok
    counts = {each.name: each.instances for each in f.cost(E=width, R=rows, Z=pattern.count).statements}
    tokens, scores = rows * of.block, of.heads * pattern.count * of.block**2
    assert {counts[f"{name}.update"] for name in ("q", "key", "val", "y")} == {tokens * width**2}
    assert counts["s.update"] == counts["c.update"] == scores * of.depth
    assert {counts[name] for name in ("a", "most.update", "p", "total.update", "share")} == {scores}
    assert {counts[name] for name in ("added", "mean.update", "centred", "square.update", "out")} == {tokens * width}
    assert scores * of.depth == pattern.density * tokens**2 * width


@pytest.mark.slow
def test_a_step_of_width_768_is_proven_and_that_of_dense_matrices() -> None:
    of, pattern = transformer.USUAL, tm.patterns.BlockLayout(np.tri(2), block=16)
    learned = [*transformer.WEIGHTS, "near"]
    step = transformer.scheduled(tm.grad(transformer.layer(of=of), wrt=learned), of)
    assert step.check().ok
    kept = {each.name: each.elements for each in step.cost(E=768, R=2, Z=pattern.count).arrays}
    assert kept["d_share"] == of.heads * pattern.count * of.block**2
    given, numbers = transformer.example(pattern, 768, of=of), np.random.default_rng(2)
    loss, *gradients = step.compile()(**given)
    np.testing.assert_allclose(loss, transformer.dense(pattern, given), rtol=1e-9)
    along = {name: numbers.standard_normal(given[name].shape) / given[name].size ** 0.5 for name in learned}
    ahead, behind = (
        transformer.dense(pattern, {**given, **{name: given[name] + side * along[name] for name in learned}})
        for side in (1e-4, -1e-4)
    )
    slope = sum((gradient * along[name]).sum() for name, gradient in zip(learned, gradients, strict=True))
    np.testing.assert_allclose(slope, (ahead - behind) / 2e-4, rtol=1e-5)
