"""Recipes: what they command, that it is proven, and that the result is right at any size and on any processor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs.drafts import texts
from tests.recipes.texts import commands
from tiramisu_py.errors import ArgumentError, CommandError, ToolchainError
from tiramisu_py.recipes import Cpu, pointwise, stencil, time_stencil

WIDE = Cpu(vector_bytes=64, registers=32, first=48 << 10, second=1 << 20)
MIDDLE = Cpu(vector_bytes=32, registers=16, first=32 << 10, second=512 << 10)
STRIPS = Cpu(vector_bytes=32, registers=16, first=2 << 10, second=512 << 10)
NARROW = Cpu(vector_bytes=16, registers=16, first=32 << 10, second=256 << 10)
SIZES = [(1, 1), (7, 15), (8, 16), (9, 17), (33, 70), (9, 300)]
THIRD = np.float32(1 / 3)
R, C = tm.params("R C")
r, c = tm.iters("r c")


def down_then_across() -> tuple[tm.Function, tm.Computation, tm.Computation]:
    """A box blur, the columns first: across reads its producer at neighbouring columns."""
    f = tm.Function("blur", params=[R, C])
    image = f.input("image", tm.float32, [R + 2, C + 2])
    down = f.computation("down", {r: R, c: C + 2}, (image[r, c] + image[r + 1, c] + image[r + 2, c]) * THIRD)
    across = f.computation("across", {r: R, c: C}, (down[r, c] + down[r, c + 1] + down[r, c + 2]) * THIRD)
    f.outputs(across)
    return f, down, across


def across_then_down() -> tuple[tm.Function, tm.Computation, tm.Computation]:
    """The same the other way: rows of the producer are computed again for each block of rows."""
    f = tm.Function("blur", params=[R, C])
    image = f.input("image", tm.float32, [R + 2, C + 2])
    bx = f.computation("bx", {r: R + 2, c: C}, (image[r, c] + image[r, c + 1] + image[r, c + 2]) * THIRD)
    by = f.computation("by", {r: R, c: C}, (bx[r, c] + bx[r + 1, c] + bx[r + 2, c]) * THIRD)
    f.outputs(by)
    return f, bx, by


def bytes_of_edges() -> tuple[tm.Function, tm.Computation, tm.Computation]:
    """Two stages of bytes."""
    f = tm.Function("edges", params=[R, C])
    image = f.input("image", tm.uint8, [R + 2, C + 2])
    wide = [tm.cast(tm.uint16, image[r, c + k]) for k in range(2)]
    mean = f.computation("mean", {r: R + 2, c: C + 1}, tm.cast(tm.uint8, (wide[0] + wide[1]) >> 1))
    edge = f.computation("edge", {r: R, c: C}, tm.maximum(mean[r, c], mean[r + 2, c + 1]) - mean[r, c])
    f.outputs(edge)
    return f, mean, edge


def image_for(f: tm.Function, rows: int, columns: int) -> np.ndarray[Any, Any]:
    """A random picture with the border that the stencils read."""
    numbers = np.random.default_rng(rows * 1000 + columns).integers(0, 256, (rows + 2, columns + 2))
    return numbers.astype(f.algorithm.inputs["image"].dtype.numpy)


def rings_of_bytes() -> tuple[tm.Function, tm.Computation, tm.Computation, tm.Computation]:
    """Sums of three, which rings read at one column; rings, which edges read at two."""
    f = tm.Function("rings", params=[R, C])
    image = f.input("image", tm.uint8, [R + 2, C + 2])
    wide = [tm.cast(tm.uint16, image[r, c + k]) for k in range(2)]
    pair = f.computation("pair", {r: R + 2, c: C + 1}, wide[0] + wide[1])
    ring = f.computation("ring", {r: R + 1, c: C + 1}, tm.cast(tm.uint8, (pair[r, c] + pair[r + 1, c]) >> 2))
    edge = f.computation("edge", {r: R, c: C}, tm.maximum(ring[r, c], ring[r + 1, c + 1]) - ring[r, c])
    f.outputs(edge)
    return f, pair, ring, edge


STAGES = [down_then_across, across_then_down, bytes_of_edges, rings_of_bytes]


@pytest.mark.parametrize("stages", STAGES)
@pytest.mark.parametrize("cpu", [WIDE, NARROW, STRIPS], ids=["wide", "narrow", "strips"])
def test_a_stencil_is_right_at_any_size(stages: Any, cpu: Cpu) -> None:
    f, *computed = stages()
    stencil(*computed, cpu=cpu)
    kernel = f.compile()
    for rows, columns in SIZES:
        image = image_for(f, rows, columns)
        np.testing.assert_array_equal(kernel(image), f.evaluate(image=image))


def test_what_a_stencil_commands() -> None:
    _, down, across = down_then_across()
    assert stencil(down, across, cpu=WIDE).splitlines() == [
        'r, c, r0, c0, r1, c1 = tm.iters("r c r0 c0 r1 c1")',
        'across = f["across"]',
        "across.tile(r, c, 8, 16, r0, c0, r1, c1)",
        "across.parallelize(r0)",
        "across.vectorize(c1, 16, remainder='mask')",
        'down = f["down"]',
        "down.compute_at(across, c0)",
        "down.slide(c0, c, 16)",
        "down.vectorize(c, 16, remainder='mask')",
        "down.store_in(tm.REGISTER)",
        "across.store_nontemporal()",
    ]


def test_what_slides_is_what_is_read_at_several_columns() -> None:
    _, bx, by = across_then_down()
    lines = stencil(bx, by, cpu=WIDE).splitlines()
    assert [line for line in lines if "slide" in line] == ["image_cache.slide(c0, c_image, 16)"]
    assert "bx.copy(image, [r_image, c_image], at=c0)" in lines


def test_bytes_that_are_read_at_one_column_are_inlined_and_others_are_whole_vectors_of_strips() -> None:
    _, *stages = rings_of_bytes()
    assert stencil(*stages, cpu=MIDDLE).splitlines()[2:] == [
        "pair.inline()",
        'edge = f["edge"]',
        "edge.tile(r, c, 8, 511, r0, c0, r1, c1)",
        "edge.reorder(c1, r1)",
        "edge.parallelize(r0)",
        "edge.unroll(r1)",
        "edge.vectorize(c1, 32, remainder='overlap')",
        'ring = f["ring"]',
        "ring.compute_at(edge, c0)",
        "ring.reorder(c, r)",
        "ring.unroll(r)",
        "ring.vectorize(c, 32, remainder='overlap')",
        'image = f["image"]',
        "ring.prefetch(image, r, 9)",
    ]


def test_bytes_slide_in_registers_that_hold_their_windows() -> None:
    _, *stages = rings_of_bytes()
    text = stencil(*stages, cpu=WIDE)
    assert "edge.tile(r, c, 8, 64, r0, c0, r1, c1)" in text
    assert "ring.slide(c0, c, 64)" in text and "ring.store_in(tm.REGISTER)" in text


def test_a_strip_of_bytes_is_half_of_the_first_level_cache() -> None:
    widths = []
    for kib in (1, 8, 32, 128):
        _, *stages = rings_of_bytes()
        text = stencil(*stages, cpu=Cpu(vector_bytes=32, registers=16, first=kib << 10, second=512 << 10))
        (line,) = [line for line in text.splitlines() if ".tile(" in line]
        widths.append(int(line.split(", ")[3]) + 1)
    assert widths == [128, 128, 512, 2048]


def test_a_stage_that_is_a_result_or_is_read_at_two_columns_is_not_inlined() -> None:
    f, pair, *others = rings_of_bytes()
    f.outputs(pair, others[-1], replace=True)
    text = stencil(pair, *others, cpu=MIDDLE)
    assert "inline" not in text and "pair.compute_at(edge, c0)" in text
    g = tm.Function("g", params=[R, C])
    image = g.input("image", tm.uint8, [R + 2, C + 2])
    half = g.computation("half", {r: R + 2, c: C + 2}, image[r, c] >> 1)
    ring = g.computation("ring", {r: R + 1, c: C}, half[r, c] + half[r + 1, c + 1])
    edge = g.computation("edge", {r: R, c: C}, tm.maximum(ring[r, c], ring[r + 1, c]) - half[r, c])
    g.outputs(edge)
    text = stencil(half, ring, edge, cpu=MIDDLE)
    assert "ring.inline()" in text and "half.compute_at" in text
    picture = np.random.default_rng(5).integers(0, 256, (21, 77), dtype=np.uint8)
    np.testing.assert_array_equal(g.compile()(picture), g.evaluate(image=picture))


@pytest.mark.parametrize("stages", STAGES)
def test_the_text_makes_the_same_schedule(stages: Any) -> None:
    f, *computed = stages()
    text = stencil(*computed, cpu=WIDE)
    again, *_ = stages()
    exec(text, {"tm": tm, "f": again})
    assert again.commands == f.commands
    assert again.source() == f.source()


def test_sizes_follow_from_the_processor() -> None:
    _, down, across = down_then_across()
    text = stencil(down, across, cpu=NARROW)
    assert "across.tile(r, c, 4, 4, r0, c0, r1, c1)" in text
    _, down, across = down_then_across()
    assert "across.tile(r, c, 6, 16, r0, c0, r1, c1)" in stencil(down, across, rows=6, cpu=WIDE)


def test_rows_leave_registers_for_the_operands_of_a_sum() -> None:
    for stages, size, registers, rows in (
        (down_then_across, 32, 32, 8),
        (down_then_across, 32, 16, 4),
        (across_then_down, 64, 32, 6),
        (across_then_down, 64, 16, 2),
    ):
        _, *computed = stages()
        text = stencil(*computed, cpu=Cpu(vector_bytes=size, registers=registers, first=32 << 10, second=512 << 10))
        assert f".tile(r, c, {rows}, {size // 4}, " in text


def test_a_window_of_rows_goes_down_where_sliding_is_dear() -> None:
    _, *stages = across_then_down()
    assert commands(stencil(*stages, cpu=MIDDLE)) == [
        "by.tile(r, c, 12, 16, r0, c0, r1, c1)",
        "by.parallelize(r0)",
        "by.unroll(r1)",
        "by.vectorize(c1, 16, remainder='mask')",
        "bx.compute_at(by, r1)",
        "bx.slide(r1, r, 1)",
        "bx.vectorize(c, 16, remainder='mask')",
        "bx.store_in(tm.REGISTER)",
        "by.store_nontemporal()",
    ]
    _, *stages = across_then_down()
    assert ".tile(r, c, 12, 8, " in stencil(
        *stages, cpu=Cpu(vector_bytes=32, registers=8, first=32 << 10, second=1 << 19)
    )


@pytest.mark.parametrize("name", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_a_recipe_is_for_the_processor_that_compile_is_told(name: str) -> None:
    cpu = tm.target(name)
    f, *computed = down_then_across()
    stencil(*computed, cpu=cpu)
    assert f.commands == _with(Cpu.here(target=name)).commands == _with(name).commands
    here = {"x86-64-v2", *tm.target().features}
    if name not in here:
        pytest.skip(f"this processor is no {name}")
    kernel, image = f.compile(target=name), image_for(f, 23, 37)
    np.testing.assert_array_equal(kernel(image), f.evaluate(image=image))


def _with(cpu: Cpu | str) -> tm.Function:
    f, *computed = down_then_across()
    stencil(*computed, cpu=cpu)
    return f


def test_a_stencil_on_this_machine() -> None:
    f, down, across = down_then_across()
    stencil(down, across)
    assert f.check().ok


def negative_and_bright(rank: int) -> tuple[tm.Function, tm.Computation, tm.Computation]:
    """Two outputs of bytes, over one or two loops."""
    f = tm.Function("both", params=[R, C] if rank == 2 else [R])
    sizes, at = ([R, C], (r, c)) if rank == 2 else ([R], (r,))
    image = f.input("image", tm.uint8, sizes)
    domain = dict(zip(at, sizes, strict=True))
    negative = f.computation("negative", domain, 255 - image[at])
    sum_ = tm.cast(tm.uint16, image[at]) + tm.cast(tm.uint16, image[at] >> 1)
    bright = f.computation("bright", domain, tm.cast(tm.uint8, tm.minimum(sum_, 255)))
    f.outputs(negative, bright)
    return f, negative, bright


@pytest.mark.parametrize("shape", [(1,), (63,), (64,), (70001,), (1, 1), (3, 64), (5, 131)], ids=str)
def test_pointwise_is_right_at_any_size(shape: tuple[int, ...]) -> None:
    f, *both = negative_and_bright(len(shape))
    pointwise(*both, cpu=WIDE)
    image = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    for found, expected in zip(f.compile()(image), f.evaluate(image=image), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_what_pointwise_commands() -> None:
    _, *both = negative_and_bright(2)
    assert commands(pointwise(*both, cpu=WIDE)) == [
        "bright.after(negative, c)",
        "negative.parallelize(r)",
        "negative.vectorize(c, 64, remainder='mask')",
        "negative.store_nontemporal()",
        "bright.store_nontemporal()",
    ]


def test_stages_between_are_computed_for_each_vector() -> None:
    f = tm.Function("chain", params=[R, C])
    a = f.input("a", tm.float32, [R, C])
    half = f.computation("half", {r: R, c: C}, a[r, c] / 2)
    both = f.computation("both", {r: R, c: C}, half[r, c] * half[r, c])
    f.outputs(both)
    text = pointwise(half, both, cpu=WIDE)
    assert "half.compute_at(both, c)" in text
    x = np.random.default_rng(0).random((5, 37), dtype=np.float32)
    np.testing.assert_array_equal(f.compile()(x), f.evaluate(a=x))


T, N, M = tm.params("T N M")
t, i, j = tm.iters("t i j")


def plate() -> tuple[tm.Function, tm.Computation]:
    """Heat in a plate whose edge keeps its temperature."""
    f = tm.Function("plate", params=[T, N, M], assume="T >= 1 and N >= 3 and M >= 3")
    start = f.input("start", tm.float32, [N, M])
    edge = (t == 0) | (i == 0) | (i == N - 1) | (j == 0) | (j == M - 1)
    heat = f.computation(
        "heat",
        {t: T + 1, i: N, j: M},
        lambda h: tm.select(
            edge, start[i, j], h[t - 1, i, j - 1] + h[t - 1, i, j + 1] + h[t - 1, i - 1, j] + h[t - 1, i + 1, j]
        ),
    )
    f.outputs(heat[T, i, j])
    return f, heat


def test_what_a_time_stencil_commands() -> None:
    _, heat = plate()
    assert commands(time_stencil(heat, cpu=WIDE)) == [
        "heat.separate_cases()",
        "heat.time_tile(t, 27, {i: 1080, j: 1024}, [t0, i0, j0], wavefront={i: 4})",
        "heat.parallelize(i0, j0)",
        "heat_1_inner.skew(t, i, 1)",
        "heat_1_inner.skew(t0, i, -27)",
        "heat_1_inner.split(i, 4, block, row, origin=-26)",
        "heat_1_inner.reorder(block, j, row)",
        "heat_1_inner.unroll(row)",
        "heat.vectorize(j, 16, remainder='mask')",
        "heat_out.parallelize(i)",
        "heat_out.vectorize(j, 16)",
    ]


def test_a_time_stencil_is_right_and_its_text_makes_the_same_schedule() -> None:
    f, heat = plate()
    small = Cpu(vector_bytes=32, registers=16, first=32 << 10, second=8 << 10)
    text = time_stencil(heat, steps=3, cpu=small)
    kernel = f.compile()
    for steps, rows, columns in ((1, 3, 3), (3, 9, 9), (7, 20, 300), (8, 131, 71)):
        start = np.random.default_rng(0).random((rows, columns), dtype=np.float32)
        np.testing.assert_array_equal(kernel(start, T=steps), f.evaluate(start=start, T=steps))
    again, heat = plate()
    exec(text, {"tm": tm, "f": again})
    assert again.commands == f.commands


def test_a_time_stencil_has_a_number_of_steps() -> None:
    f, heat = plate()
    for steps in (0, True, "4"):
        with pytest.raises(ArgumentError, match=r"steps is .*: give an integer of at least 1"):
            time_stencil(heat, steps=steps, cpu=WIDE)  # type: ignore[arg-type]
        with pytest.raises(ArgumentError, match=r"levels is .*: give an integer of at least 1"):
            time_stencil(heat, levels=steps, cpu=WIDE)  # type: ignore[arg-type]
    assert f.commands == ()


def test_a_time_stencil_needs_space() -> None:
    f = tm.Function("line", params=[T])
    x = f.computation("x", {t: T}, tm.cast(tm.float32, t))
    f.outputs(x)
    with pytest.raises(ArgumentError, match="x has one loop, and needs at least two: time, then space"):
        time_stencil(x)


def test_what_is_no_computation_is_refused() -> None:
    f, down, across = down_then_across()
    other = down_then_across()[2]
    with pytest.raises(ArgumentError, match="stencil takes computations, and 3 is not one"):
        stencil(3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="stencil needs at least one computation"):
        stencil()
    with pytest.raises(ArgumentError, match="across is not a computation of blur"):
        stencil(down, other)
    assert f.commands == ()
    assert across.name == "across"


def test_where_a_command_is_refused_none_is_applied() -> None:
    f, down, across = down_then_across()
    across.parallelize(c)
    with pytest.raises(CommandError):
        stencil(down, across, cpu=WIDE)
    assert texts(f) == ("across.parallelize(c)",)


def test_loops_of_other_shapes_are_refused() -> None:
    _, negative, _ = negative_and_bright(1)
    with pytest.raises(ArgumentError, match=r"negative has the loops r, and needs two: rows and columns$"):
        stencil(negative, cpu=WIDE)


def test_a_recipe_comes_before_other_commands() -> None:
    _, down, across = down_then_across()
    stencil(down, across, cpu=WIDE)
    with pytest.raises(ArgumentError, match=r"down has the loops r0, c0.*: give the recipe before other commands"):
        stencil(down, across, cpu=WIDE)


def test_wrong_arguments_are_answered_by_what_to_write() -> None:
    f, down, across = down_then_across()
    with pytest.raises(ArgumentError, match=r"give them one by one, stencil\(down, across\)"):
        stencil([down, across])  # type: ignore[arg-type]
    with pytest.raises(
        ArgumentError, match="image is not one: leave inputs out, the recipe takes them from what the computations read"
    ):
        stencil(f["image"], down, across)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="give it those of blur, in the order"):
        pointwise(f)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"cpu=64: give the name of a processor, tm\.target\(\) or a .*Cpu\.here"):
        pointwise(across, cpu=64)  # type: ignore[arg-type]
    with pytest.raises(ToolchainError, match="target='pentagon'"):
        pointwise(across, cpu="pentagon")
    with pytest.raises(ArgumentError, match=r"across is not read by a later stage \(down\): give the stages"):
        stencil(across, down, cpu=WIDE)
    for rows in (0, -3, True, "8"):
        with pytest.raises(ArgumentError, match=r"rows is .*: give an integer of at least 1"):
            stencil(down, across, rows=rows, cpu=WIDE)  # type: ignore[arg-type]
    assert f.commands == ()
    assert f.commands == ()


@pytest.mark.parametrize("given", [{"vector_bytes": 48}, {"registers": 0}, {"first": "32K"}])
def test_sizes_that_no_processor_has_are_refused(given: dict[str, Any]) -> None:
    sizes = {"vector_bytes": 64, "registers": 32, "first": 1 << 15, "second": 1 << 20, **given}
    with pytest.raises(ArgumentError, match=r"tm\.recipes\.Cpu"):
        Cpu(**sizes)
