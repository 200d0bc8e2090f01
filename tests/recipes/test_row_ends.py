"""Ends of rows in recipes for pictures: masks where they are cheap, else vectors that overlap if values allow it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.recipes.texts import commands
from tiramisu_py.recipes import pointwise, stencil

V3 = "x86-64-v3"
#: The bytes of its vectors, and widths of rows around them.
LANES = 32
WIDTHS = (1, LANES - 1, LANES, LANES + 1, 5 * LANES + 7)
R, C = tm.params("R C")
r, c = tm.iters("r c")
Array = np.ndarray[Any, Any]


def negative(dtype: tm.DType = tm.uint8, assume: str = "") -> tuple[tm.Function, tm.Computation]:
    """A picture turned over."""
    f = tm.Function("negative", params=[R, C], assume=assume)
    image = f.input("image", dtype, [R, C])
    out = f.computation("out", {r: R, c: C}, tm.cast(dtype, 255 - image[r, c]))
    f.outputs(out)
    return f, out


def edges(assume: str = "") -> tuple[tm.Function, tm.Computation, tm.Computation]:
    """Means of neighbours, and differences of these two rows apart."""
    f = tm.Function("edges", params=[R, C], assume=assume)
    image = f.input("image", tm.uint8, [R + 2, C + 1])
    both = tm.cast(tm.uint16, image[r, c]) + tm.cast(tm.uint16, image[r, c + 1])
    mean = f.computation("mean", {r: R + 2, c: C}, tm.cast(tm.uint8, both >> 1))
    edge = f.computation("edge", {r: R, c: C}, tm.maximum(mean[r, c], mean[r + 2, c]) - mean[r, c])
    f.outputs(edge)
    return f, mean, edge


def edges_in_numpy(image: Array) -> Array:
    wide = image.astype(np.uint16)
    mean = ((wide[:, :-1] + wide[:, 1:]) >> 1).astype(np.uint8)
    return np.maximum(mean[:-2], mean[2:]) - mean[:-2]


def ends(text: str) -> set[str]:
    """How the recipe's vector loops end."""
    return {line.split("remainder='")[1].split("'")[0] for line in commands(text) if "vectorize" in line}


def test_bytes_without_mask_registers_end_with_a_vector_that_overlaps() -> None:
    _, out = negative()
    assert ends(pointwise(out, cpu=V3)) == {"overlap"}
    _, *stages = edges()
    assert ends(stencil(*stages, cpu=V3)) == {"overlap"}


def test_rows_of_at_least_a_vector_have_no_scalar_code() -> None:
    wide = f"C >= {LANES}"
    f, out = negative(assume=wide)
    pointwise(out, cpu=V3)
    g, *stages = edges(assume=wide)
    stencil(*stages, cpu=V3)
    for each, strips in ((f, 1), (g, 2)):  # rows of bytes that are whole, in full bands and in the last one
        lines = str(each.show("lowered")).splitlines()
        columns = [line for line in lines if line.lstrip().startswith("for c in")]
        assert len(columns) == strips
        assert all(line.endswith(f"step {LANES}:") for line in columns)
        assert f"C - {LANES} + {LANES}]" in str(each.show("lowered"))


@pytest.mark.parametrize(
    ("dtype", "cpu", "expected"),
    [
        (tm.uint8, "x86-64-v4", "mask"),
        (tm.float32, "x86-64-v3", "mask"),
        (tm.float64, "x86-64-v3", "overlap"),
        (tm.uint16, "skylake", "overlap"),
        (tm.float32, "skylake", "mask"),
        (tm.float32, "znver2", "overlap"),
        (tm.float32, "x86-64-v2", "overlap"),
    ],
    ids=str,
)
def test_the_table_of_costs_chooses(dtype: tm.DType, cpu: str, expected: str) -> None:
    _, out = negative(dtype)
    assert ends(pointwise(out, cpu=cpu)) == {expected}


def test_the_narrowest_array_counts_even_if_it_is_only_read() -> None:
    f = tm.Function("widened", params=[R, C])
    image = f.input("image", tm.uint8, [R, C])
    out = f.computation("out", {r: R, c: C}, tm.cast(tm.float32, image[r, c]))
    f.outputs(out)
    assert ends(pointwise(out, cpu=V3)) == {"overlap"}


def test_register_tiles_keep_masks() -> None:
    f = tm.Function("sums", params=[R, C])
    image = f.input("image", tm.float32, [R, C + 1])
    out = f.computation("out", {r: R, c: C}, image[r, c] + image[r, c + 1])
    f.outputs(out)
    assert ends(stencil(out, cpu="znver2")) == {"mask"}


@pytest.mark.skipif(V3 not in tm.target().features, reason=f"this processor is no {V3}")
def test_values_at_widths_around_a_vector() -> None:
    f, out = negative()
    pointwise(out, cpu=V3)
    g, *stages = edges()
    stencil(*stages, cpu=V3)
    turned, found = f.compile(target=V3), g.compile(target=V3)
    for width in WIDTHS:
        image = np.random.default_rng(width).integers(0, 256, (11, width + 1)).astype(np.uint8)
        np.testing.assert_array_equal(turned(image), 255 - image)
        np.testing.assert_array_equal(found(image), edges_in_numpy(image))


def test_a_stage_stored_in_place_keeps_masks_and_is_proven() -> None:
    f, out = negative()
    out.store_in(f["image"], [r, c])
    assert ends(pointwise(out, cpu=V3)) == {"mask"}
    assert f.check().ok


def test_in_place_after_the_recipe_is_refused_with_the_repair() -> None:
    f, out = negative()
    pointwise(out, cpu=V3)
    out.store_in(f["image"], [r, c])
    report = f.check()
    assert not report.ok
    assert 'vectorize(c, 32, remainder="mask") runs every iteration once' in str(report)


def test_values_that_read_earlier_ones_keep_masks() -> None:
    f = tm.Function("fade", params=[R, C])
    image = f.input("image", tm.uint8, [R, C])
    fade = f.computation(
        "fade", {r: R, c: C}, lambda fade: tm.select(r > 0, tm.maximum(fade[r - 1, c], image[r, c]), image[r, c])
    )
    f.outputs(fade)
    assert ends(pointwise(fade, cpu=V3)) == {"mask"}


def test_a_loop_with_a_stage_of_another_schedule_keeps_masks() -> None:
    f = tm.Function("both", params=[R, C])
    image = f.input("image", tm.uint8, [R, C])
    out = f.computation("out", {r: R, c: C}, 255 - image[r, c])
    total = f.reduction("total", {r: R}, {c: C}, tm.sum, tm.cast(tm.int32, image[r, c]))
    f.outputs(out, total)
    total.update.after(out, c)
    assert ends(pointwise(out, cpu=V3)) == {"mask"}


def test_stages_between_may_run_twice() -> None:
    f = tm.Function("chain", params=[R, C])
    image = f.input("image", tm.uint8, [R, C])
    half = f.computation("half", {r: R, c: C}, image[r, c] >> 1)
    out = f.computation("out", {r: R, c: C}, half[r, c] + 1)
    f.outputs(out)
    assert ends(pointwise(half, out, cpu=V3)) == {"overlap"}
    assert "running iterations of c twice, where vectors overlap, changes nothing" in str(f.check())
