"""Masks with remainders: isl cuts the programs under them into pieces, of which the code has one guarded statement."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
import tiramisu_py.language as tl


@tm.jit
def two_of_three(X: Any, Y: Any, T: tl.constexpr) -> None:
    r = tl.program_id(0) * T + tl.arange(0, T)
    keep = (r < X.shape[0]) & (r % 3 != 1)
    tl.store(Y[r], tl.load(X[r], mask=keep, other=0) * 2.0, mask=keep)


@pytest.fixture(scope="module")
def doubled() -> tm.Function:
    (N,) = tm.params("N,")
    f = tm.Function("doubled", params=[N], assume="N mod 64 = 0")
    x, y = f.input("x", tm.float32, [N]), f.array("y", tm.float32, [N], partial=True)
    run = two_of_three[N // 64](x, y, T=64)
    f.outputs(y)
    tm.recipes.blocks(run, on=tm.gpu(), num_warps=2)
    f.derive_transfers()
    return f


def test_what_a_mask_with_a_remainder_guards_is_written_once(doubled: tm.Function) -> None:
    text = next(text for name, text in doubled.source().items() if name.endswith(".cu"))
    assert text.count("y[64*p0 + r] = ") == 1
    assert text.count("x[64*p0 + r]") == 1


def test_elements_under_a_mask_with_a_remainder_are_those_of_numpy(doubled: tm.Function) -> None:
    kernel = doubled.compile(device="simulator", sanitize=True)
    for size in (0, 64, 192):
        x, y = np.arange(size, dtype=np.float32), np.full(size, -1, np.float32)
        kernel(x, y=y)
        np.testing.assert_array_equal(y, np.where(np.arange(size) % 3 != 1, 2 * x, -1))
