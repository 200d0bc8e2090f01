"""Two figures of Zhao et al., Panamera (PACT 2022): joined loops with their producer, and two reductions in one kernel.

Figure 4 sums an elementwise stage over three of four dimensions; the producer is joined alike, and runs in the loop of
the sum. Figure 8 has a sum and a maximum of different lengths in one block of 128 threads, 8 and 17 terms a thread.
"""

from __future__ import annotations

import numpy as np
from story import as_scheduled, tell

import tiramisu_py as tm

h, w, x, y, h0, j, j0, t = tm.iters("h w x y h0 j j0 t")
z, k, m, n, rounds, others = tm.iters("z k m n rounds others")
HEIGHT, WIDTH, X, Y = 40, 20, 10, 5
THREADS = 128


def figure_4(gpu: bool, cpu: tm.Target | None = None) -> tm.Function:
    """E and R over 40 x 20 x 10 x 5, of which 40, 10 and 5 are summed: 20 values of 2000 terms."""
    f = tm.Function("figure_4", params=[])
    extents = {h: HEIGHT, w: WIDTH, x: X, y: Y}
    a = f.input("a", tm.float32, [*extents.values()])
    e = f.computation("E", extents, a[h, w, x, y] * 2 + 1)
    r = f.reduction("R", {w: WIDTH}, {h: HEIGHT, x: X, y: Y}, tm.sum, e[h, w, x, y])
    f.outputs(r)
    if gpu:
        e.inline()
        r.update.coalesce(h, x, y, into=j)
        r.update.split(j, THREADS, j0, t)
        r.tag_gpu(blocks=[w], threads=[t], combine=tm.TREE)
        f.derive_transfers()
    else:
        e.reorder(w, h, x, y)
        r.update.coalesce(h, x, y, into=j, producers=True)
        r.update.vectorize(j, (cpu or tm.target()).lanes(tm.float32), combine=tm.PRIVATE)
    return f


def figure_8() -> tm.Function:
    """A sum of 1024 terms and a maximum of 2176 in one kernel of one block; nothing is atomic."""
    f = tm.Function("figure_8", params=[])
    a, b = (f.input(name, tm.float32, [1024]) for name in "ab")
    c = f.input("c", tm.float32, [2176])
    total = f.reduction("total", {z: 1}, {m: 1024}, tm.sum, a[m] + b[m])
    top = f.reduction("top", {z: 1}, {n: 2176}, tm.max, c[n])
    f.outputs(total, top)
    total.update.split(m, THREADS, rounds, t)
    top.update.split(n, THREADS, others, t)
    f.order(total.init, top.init, total.update, top.update, at=z)
    top.update.tag_gpu(blocks=[z], threads=[t], combine=tm.TREE)
    total.update.tag_gpu(threads=[t], combine=tm.TREE)
    f.derive_transfers()
    return f


def main() -> None:
    """Compare with NumPy in float64, and with the order of the schedule bit for bit."""
    random = np.random.default_rng(0)
    values = random.standard_normal((HEIGHT, WIDTH, X, Y), np.float32)
    for gpu in (False, True):
        f = figure_4(gpu)
        kernel = tell(f)
        np.testing.assert_allclose(kernel(values), (values * 2.0 + 1).sum((0, 2, 3)), rtol=1e-4, atol=1e-3)
        as_scheduled(f, kernel, values)
    f = figure_8()
    kernel = tell(f)
    text = f.source()["figure_8.cu"]
    assert text.count("TM_KERNEL") == 1 and "tm_atomic" not in text
    first, second = random.standard_normal((2, 1024), np.float32)
    for third in (random.standard_normal(2176, np.float32), np.full(2176, -np.inf, np.float32)):
        total, top = kernel(first, second, third)
        np.testing.assert_allclose(total, first.sum(dtype=np.float64) + second.sum(dtype=np.float64), atol=1e-3)
        assert top == third.max()
        as_scheduled(f, kernel, first, second, third)
    print("right: figures 4 and 8 have the values of NumPy, and the bits of their schedules")


if __name__ == "__main__":
    main()
