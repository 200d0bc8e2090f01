"""Liberties with rounding, and indices that follow from floats."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm

N = tm.params("N")[0]
i, j = tm.iters("i j")


def halved(is_clipped: bool) -> tm.Function:
    """A table read at half a byte: at most 128 by the text, or by a clip of the integer."""
    f = tm.Function("halved", params=[N], assume="N >= 1")
    grey, table = f.input("grey", tm.uint8, [N]), f.input("table", tm.float32, [129])
    place = tm.cast(tm.int32, grey[i] * np.float32(0.5) + np.float32(0.5))
    f.outputs(f.computation("out", {i: N}, table[tm.clip(place, 0, 128) if is_clipped else place]))
    return f


@pytest.mark.parametrize("fast", ["reassociate", "reciprocal"])
def test_an_index_that_follows_from_rounding_refuses_other_rounding(fast: str) -> None:
    f = halved(is_clipped=False)
    assert f.check().ok
    message = rf"fast=\('{fast}',\) may round the index of table\[.*\] in out to another element .* tm\.clip\(tm\.cast"
    with pytest.raises(tm.ArgumentError, match=message):
        f.compile(fast=("contract", fast))


@pytest.mark.parametrize(("is_clipped", "fast"), [(False, ()), (False, ("contract",)), (True, ("reassociate",))])
def test_other_programs_are_compiled(is_clipped: bool, fast: tuple[str, ...]) -> None:
    f = halved(is_clipped)
    given = {"grey": np.arange(256, dtype=np.uint8), "table": np.arange(129, dtype=np.float32)}
    assert np.array_equal(f.compile(fast=fast)(**given), f.evaluate(**given))


def test_a_float_that_is_kept_in_between_is_no_better() -> None:
    f = tm.Function("kept", params=[N], assume="N >= 1")
    grey, table = f.input("grey", tm.uint8, [N]), f.input("table", tm.float32, [129])
    half = f.computation("half", {i: N}, grey[i] * np.float32(0.5))
    place = f.computation("place", {i: N}, tm.cast(tm.int32, half[i]))
    f.outputs(f.computation("out", {i: N}, table[place[i]]))
    assert f.check().ok
    with pytest.raises(tm.ArgumentError, match=r"table\[place\[i\]\] in out"):
        f.compile(fast=("reassociate",))


def test_a_claim_about_values_that_are_rounded_is_no_better() -> None:
    f = tm.Function("claimed", params=[N], assume="N >= 1")
    grey = f.input("grey", tm.uint8, [N])
    place = f.computation("place", {i: N}, tm.cast(tm.int32, grey[i] * np.float32(0.5)), values=(0, 128))
    f.outputs(place)
    assert f.check().ok
    with pytest.raises(tm.ArgumentError, match="may round values of place beyond those that it is declared to have"):
        f.compile(fast=("reassociate",))
