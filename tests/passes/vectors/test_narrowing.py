"""What vector loops compute in 32 bits: only what the sizes say to fit."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm

(N,) = tm.params("N")
(i,) = tm.iters("i")


def ramp(assume: str) -> tm.Function:
    f = tm.Function("ramp", params=[N], assume=assume)
    v = f.input("v", tm.int32, [N])
    o = f.computation("o", {i: N}, tm.select(v[i] < N - 1, tm.cast(tm.float32, i), np.float32(0)))
    f.outputs(o)
    o.vectorize(i, 16)
    return f


@pytest.mark.parametrize(("assume", "narrow"), [("N <= 2147483648", True), ("N <= 2147483649", False), (None, False)])
def test_lanes_are_of_32_bits_where_the_sizes_fit(assume, narrow):
    f = ramp(assume)
    assert ("int64x" not in f.source()["ramp.c"]) is narrow
    for n in (0, 1, 16, 37):
        values = np.random.default_rng(n).integers(-3, n + 3, n).astype(np.int32)
        np.testing.assert_array_equal(f.compile()(values), f.evaluate(values))
