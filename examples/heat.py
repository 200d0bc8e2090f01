"""Heat in a rod, blocked in time: skewed, tiled, vectorised, and stored in two rows instead of one for each time level.

The plain schedule sweeps over the whole rod once for each time level. Skewing makes every dependence point forward, so
that tiles over many levels are legal; the proof refuses the same tiles without the skew.
"""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm

T, N = tm.params("T N")
t, i, t0, i0, t1, i1 = tm.iters("t i t0 i0 t1 i1")


def rod() -> tuple[tm.Function, tm.Computation]:
    """Each point becomes the mean of itself and its neighbours; the ends keep their initial temperature."""
    f = tm.Function("rod", params=[T, N], assume="T >= 1 and N >= 3")
    start = f.input("start", tm.float32, [N])
    heat = f.computation(
        "heat",
        {t: T + 1, i: N},
        lambda heat: tm.select(
            (t == 0) | (i == 0) | (i == N - 1),
            start[i],
            (heat[t - 1, i - 1] + heat[t - 1, i] + heat[t - 1, i + 1]) / 3,
        ),
    )
    f.outputs(heat[T, i])
    return f, heat


def by_numpy(start: np.ndarray, levels: int) -> np.ndarray:
    """The same, sweep after sweep."""
    rod = start.copy()
    for _ in range(levels):
        rod[1:-1] = (rod[:-2] + rod[1:-1] + rod[2:]) / np.float32(3)
    return rod


f, heat = rod()
heat.tile(t, i, 16, 64, t0, i0, t1, i1)
report = f.check()
print(f"tiles without a skew: {report.violations[0]}\n")
assert not report.ok

f, heat = rod()
heat.skew(t, i, 1)
heat.tile(t, i, 16, 64, t0, i0, t1, i1)
heat.vectorize(i1, 16)
heat.store_in(tm.Buffer("two", [2, N], tm.float32), [t % 2, i])
print(f.check())
kernel = f.compile()
for levels, points in [(1, 3), (7, 41), (100, 1000)]:
    first = np.random.default_rng(0).random(points, dtype=np.float32)
    np.testing.assert_array_equal(kernel(start=first, T=levels), by_numpy(first, levels))
print("right: the tiled rod is the swept rod, bit for bit")
