"""store_at of a layout that store_in gave: it is kept, once for each iteration."""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm

N = tm.params("N")[0]
g, s, k = tm.iters("g s k")


def test_store_at_keeps_the_layout_that_the_user_gave() -> None:
    f = tm.Function("steps", params=[N], assume="N >= 1")
    a = f.input("a", tm.float32, [N, 8])
    h = f.computation(
        "h", {g: N, s: 5, k: 8}, lambda h: tm.select(s == 0, a[g, k], h[g, s - 1, k] + h[g, s - 1, 7 - k])
    )
    o = f.computation("o", {g: N, k: 8}, h[g, 4, k])
    f.outputs(o)
    h.store_in(tm.Buffer("two", [2, 8], tm.float32), [s % 2, k])
    o.after(h, g)
    h.store_at(o, g)
    assert "allocate two[2, 8]" in f.show("pseudocode")
    x = np.random.default_rng(0).random((3, 8), dtype=np.float32)
    np.testing.assert_array_equal(f.compile()(x), f.evaluate(a=x))
