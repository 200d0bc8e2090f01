"""Softmax and layer normalisation of rows, one kernel each: a warp has a row, and goes on with its reductions.

Every thread of the warp gets the result of a tree in a register, by shuffles: there is no barrier, no shared memory and
no array between. On cores a thread has a row, which is in the cache.
"""

from __future__ import annotations

import numpy as np
from story import as_scheduled, tell

import tiramisu_py as tm

R, C = tm.params("R C")
r, c, rows, r1, c0, t = tm.iters("r c rows r1 c0 t")
WARP, ROWS = 32, 4
SMALL = np.float32(1e-5)  # added to the variance
Story = tuple[tm.Function, list[tm.Reduction], tm.Computation]


def softmax() -> Story:
    """The largest value of a row, the sum of powers, and the quotients."""
    f = tm.Function("softmax", params=[R, C], assume="C >= 1")
    x = f.input("x", tm.float32, [R, C])
    top = f.reduction("top", {r: R}, {c: C}, tm.max, x[r, c])
    power = tm.exp(x[r, c] - top[r])
    total = f.reduction("total", {r: R}, {c: C}, tm.sum, power)
    y = f.computation("y", {r: R, c: C}, power / total[r])
    f.outputs(y)
    return f, [top, total], y


def layer_norm() -> Story:
    """The mean of a row, the squared distances from it, and the row with mean 0 and variance 1."""
    f = tm.Function("layer_norm", params=[R, C], assume="C >= 1")
    x = f.input("x", tm.float32, [R, C])
    count = tm.cast(tm.float32, C)
    total = f.reduction("total", {r: R}, {c: C}, tm.sum, x[r, c])
    apart = x[r, c] - total[r] / count
    squares = f.reduction("squares", {r: R}, {c: C}, tm.sum, apart * apart)
    y = f.computation("y", {r: R, c: C}, apart / tm.sqrt(squares[r] / count + SMALL))
    f.outputs(y)
    return f, [total, squares], y


def on_a_gpu(story: Story) -> tm.Function:
    """Four rows a block, a warp each; all stages in one kernel."""
    f, stages, y = story
    updates = [stage.update for stage in stages]
    for stage in (*stages, y):
        stage.split(r, ROWS, rows, r1)
    for terms in (*updates, y):
        terms.split(c, WARP, c0, t)
    f.order(*[part for stage in stages for part in (stage.init, stage.update)], y, at=r1)
    y.tag_gpu(blocks=[rows], threads=[r1, t])
    for stage in stages:
        stage.update.tag_gpu(threads=[r1, t], combine=tm.TREE)
        stage.store_in(tm.REGISTER).store_at(y, r1)
    f.derive_transfers()
    return f


def on_cores(story: Story) -> tm.Function:
    """By the recipe: threads share the rows, and vectors run along them."""
    f, _, y = story
    tm.recipes.rows(y)
    return f


def by_numpy(name: str, x: np.ndarray) -> np.ndarray:
    """The same in float64."""
    x = x.astype(np.float64)
    if name == "softmax":
        power = np.exp(x - x.max(1, keepdims=True))
        return np.asarray(power / power.sum(1, keepdims=True))
    return np.asarray((x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + SMALL))


def main() -> None:
    """Compare both with NumPy, on cores and on a GPU."""
    for story in (softmax, layer_norm):
        for f in (on_cores(story()), on_a_gpu(story())):
            kernel = tell(f)
            for shape in ((0, 5), (1, 1), (3, 31), (4, 32), (5, 33), (7, 1025)):
                x = 3 * np.random.default_rng(shape[1]).standard_normal(shape, np.float32)
                np.testing.assert_allclose(kernel(x), by_numpy(f.name, x), rtol=1e-4, atol=1e-5)
        text = f.source()[f"{f.name}.cu"]
        assert text.count("TM_KERNEL") == 1 and "TM_BARRIER" not in text and "TM_SHARED" not in text
    as_scheduled(f, kernel, 1 + np.arange(66, dtype=np.float32).reshape(2, 33) ** 2)
    print("right: softmax and layer normalisation are those of NumPy, in one kernel each")


if __name__ == "__main__":
    main()
