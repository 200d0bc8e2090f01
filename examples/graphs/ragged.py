"""A ragged batch: items of different lengths side by side, each with a softmax over its own positions, without padding.

`segments` says where each item begins. All loops are over positions: nothing runs over items times the longest one.
"""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm

B, P = tm.params("B P")
b, p, d = tm.iters("b p d")
WIDTH = 8


def pooled() -> tm.Function:
    """The rows of each item, weighed by the softmax of their scores, and added up."""
    f = tm.Function("pooled", params=[B, P])
    items = f.segments("items", B, of=P)
    score, rows = f.input("score", tm.float64, [P]), f.input("rows", tm.float64, [P, WIDTH])
    most = f.reduction("most", {b: B}, {p: items[b]}, tm.max, score[p])
    weight = f.computation("weight", {b: B, p: items[b]}, tm.exp(score[p] - most[b]))
    total = f.reduction("total", {b: B}, {p: items[b]}, tm.sum, weight[b, p])
    out = f.reduction("out", {b: B, d: WIDTH}, {p: items[b]}, tm.sum, weight[b, p] / total[b] * rows[p, d])
    f.outputs(out)
    for each in (most, weight, total, out):
        each.parallelize(b)
    return f


def main() -> None:
    """Some items of 0 to 20 positions, beside NumPy on each."""
    draw = np.random.default_rng(0)
    lengths = draw.integers(0, 20, 50)
    begin = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    score, rows = draw.standard_normal(begin[-1]), draw.standard_normal((begin[-1], WIDTH))
    f = pooled()
    assert f.check().ok, f.check()
    found = f.compile()(begin, score, rows)
    wanted = np.zeros((50, WIDTH))
    for item in range(50):
        own = slice(begin[item], begin[item + 1])
        weight = np.exp(score[own])
        wanted[item] = weight @ rows[own] / weight.sum() if lengths[item] else 0
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    work = f.cost(B=1000, P=30_000).statements
    print(f"1000 items of 30000 positions together: {max(each.instances for each in work)} steps for rows of {WIDTH}")
    print("right: each item is pooled as NumPy does it alone")


if __name__ == "__main__":
    main()
