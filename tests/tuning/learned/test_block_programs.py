"""The points of a space may be block programs: their constants are the parameters, and the proof refuses some."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import tiramisu_py as tm
import tiramisu_py.language as tl

M, N = tm.params("M N")


@tm.jit
def scaled(X, Y, ROWS: tl.constexpr, LANES: tl.constexpr, MASKED: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * LANES + tl.arange(0, LANES)
    inside = (r[:, None] < X.shape[0]) & (c < X.shape[1]) if MASKED else r[:, None] < X.shape[0]
    tl.store(Y[r[:, None], c], 2 * tl.load(X[r[:, None], c], mask=inside, other=0), mask=inside)


def make(rows: int, lanes: int, masked: bool) -> tm.Function:
    f = tm.Function("scaled", params=[M, N])
    x, y = f.input("x", tm.float32, [M, N]), f.array("y", tm.float32, [M, N])
    run = scaled[tl.cdiv(M, rows), tl.cdiv(N, lanes)](x, y, ROWS=rows, LANES=lanes, MASKED=masked)
    f.outputs(y)
    tm.recipes.blocks(run, on=tm.cores())
    return f


def seconds(point: dict[str, object], sizes: dict[str, int]) -> float:
    """A machine that likes blocks as high as the matrix."""
    return 1e-6 * sizes["M"] * sizes["N"] * (1 + abs(np.log2(sizes["M"] / float(str(point["rows"])))))


def test_the_constants_of_a_block_program_are_chosen_by_the_sizes(tmp_path: Path) -> None:
    space = {"rows": [4, 32], "lanes": [16], "masked": [True, False]}
    kernel = tm.input_aware(make, space, database=tmp_path / "samples.sqlite", timer=seconds)
    found = kernel.collect(M=(2, 64), N=(16, 64), samples=80, seed=0)
    assert found.samples == 80 and found.points == 2 and found.compiled == 0
    assert sum(found.rejected.values()) == 2  # without a mask
    kernel.fit(seed=0)
    assert kernel.best(M=3, N=32)[0].parameters == {"rows": 4, "lanes": 16, "masked": True}
    assert kernel.best(M=60, N=32)[0].parameters == {"rows": 32, "lanes": 16, "masked": True}
    x = np.arange(5 * 33, dtype=np.float32).reshape(5, 33)
    np.testing.assert_array_equal(kernel(x, measure=1), 2 * x)
