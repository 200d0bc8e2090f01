"""Overlapped tiles in time and space: against `evaluate` and against loops over time in NumPy, bit for bit."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.effort import calls
from tests.programs.drafts import texts
from tiramisu_py.backends.c import REQUIRED
from tiramisu_py.errors import CommandError
from tiramisu_py.interpret import run
from tiramisu_py.program.ranks.spread import spread
from tiramisu_py.proof.theorem import check

T, N, H, W, D = tm.params("T N H W D")
t, i, x, y, z, t0, i0, y0, x0, z0, p, q = tm.iters("t i x y z t0 i0 y0 x0 z0 p q")


def rod(reach: int = 1) -> tuple[tm.Function, tm.Computation]:
    """One dimension; `reach` points to the left, one to the right, so that halos differ."""
    f = tm.Function("rod", params=[T, N], assume="T >= 0 and N >= 1")
    start = f.input("start", tm.float64, [N])
    heat = f.computation(
        "heat",
        {t: T + 1, i: N},
        lambda heat: tm.select(
            (t == 0) | (i < reach) | (i == N - 1),
            start[i],
            (heat[t - 1, i - reach] + heat[t - 1, i] + heat[t - 1, i + 1]) / 3,
        ),
    )
    f.outputs(heat[T, i])
    return f, heat


def plate() -> tuple[tm.Function, tm.Computation]:
    """Two dimensions, five points."""
    f = tm.Function("plate", params=[T, H, W], assume="T >= 0 and H >= 1 and W >= 1")
    start = f.input("start", tm.float32, [H, W])
    heat = f.computation(
        "heat",
        {t: T + 1, y: H, x: W},
        lambda h: tm.select(
            (t == 0) | (y == 0) | (y == H - 1) | (x == 0) | (x == W - 1),
            start[y, x],
            0.5 * h[t - 1, y, x]
            + 0.125 * ((h[t - 1, y, x - 1] + h[t - 1, y, x + 1]) + (h[t - 1, y - 1, x] + h[t - 1, y + 1, x])),
        ),
    )
    f.outputs(heat[T, y, x])
    return f, heat


def wave() -> tuple[tm.Function, tm.Computation]:
    """Two levels back."""
    f = tm.Function("wave", params=[T, H, W], assume="T >= 0 and H >= 1 and W >= 1")
    start = f.input("start", tm.float32, [H, W])
    u = f.computation(
        "u",
        {t: T + 1, y: H, x: W},
        lambda u: tm.select(
            (t <= 1) | (y == 0) | (y == H - 1) | (x == 0) | (x == W - 1),
            start[y, x],
            1.5 * u[t - 1, y, x]
            - u[t - 2, y, x]
            + 0.125 * ((u[t - 1, y, x - 1] + u[t - 1, y, x + 1]) + (u[t - 1, y - 1, x] + u[t - 1, y + 1, x])),
        ),
    )
    f.outputs(u[T, y, x])
    return f, u


def block() -> tuple[tm.Function, tm.Computation]:
    """Three dimensions, seven points."""
    f = tm.Function("block", params=[T, D, H, W], assume="T >= 0 and D >= 1 and H >= 1 and W >= 1")
    start = f.input("start", tm.float32, [D, H, W])
    edge = (z == 0) | (z == D - 1) | (y == 0) | (y == H - 1) | (x == 0) | (x == W - 1)
    heat = f.computation(
        "heat",
        {t: T + 1, z: D, y: H, x: W},
        lambda h: tm.select(
            (t == 0) | edge,
            start[z, y, x],
            0.25 * h[t - 1, z, y, x]
            + 0.125 * (h[t - 1, z, y, x - 1] + h[t - 1, z, y, x + 1])
            + 0.125 * (h[t - 1, z, y - 1, x] + h[t - 1, z, y + 1, x])
            + 0.125 * (h[t - 1, z - 1, y, x] + h[t - 1, z + 1, y, x]),
        ),
    )
    f.outputs(heat[T, z, y, x])
    return f, heat


def coupled() -> tuple[tm.Function, list[tm.Computation]]:
    """Three computations a step: heat; its slope, read in its own level only; a dye that both drive."""
    f = tm.Function("coupled", params=[T, N], assume="T >= 0 and N >= 1")
    start = f.input("start", tm.float64, [N])
    edge = (t == 0) | (i == 0) | (i == N - 1)
    heat = f.computation(
        "heat",
        {t: T + 1, i: N},
        lambda heat: tm.select(edge, start[i], (heat[t - 1, i - 1] + heat[t - 1, i] + heat[t - 1, i + 1]) / 3),
    )
    slope = f.computation("slope", {t: T + 1, i: N}, tm.select(i == 0, 0.0, heat[t, i] - heat[t, i - 1]))
    dye = f.computation(
        "dye",
        {t: T + 1, i: N},
        lambda dye: tm.select(edge, start[i], dye[t - 1, i] / 2 + slope[t, i + 1] / 4 + heat[t - 1, i] / 8),
    )
    f.outputs(dye[T, i])
    return f, [heat, slope, dye]


def numpy_plate(start: np.ndarray, levels: int) -> np.ndarray:
    """The plate, sweep after sweep."""
    h = start.copy()
    for _ in range(levels):
        inner = np.float32(0.5) * h[1:-1, 1:-1] + np.float32(0.125) * (
            (h[1:-1, :-2] + h[1:-1, 2:]) + (h[:-2, 1:-1] + h[2:, 1:-1])
        )
        h = h.copy()
        h[1:-1, 1:-1] = inner
    return h


def same(f: tm.Function, sizes: list[dict[str, int]], **compiled: Any) -> None:
    """The kernel and `evaluate` agree, bit for bit, at all sizes."""
    report = f.check()
    assert report.ok, report
    assert "bits preserved" in str(report)
    kernel = f.compile(**compiled)
    given = f.algorithm.inputs["start"]
    for chosen in sizes:
        shape = [chosen[name] for name in ("D", "H", "W", "N") if name in chosen]
        start = np.random.default_rng(1).random(shape).astype(given.dtype.numpy)
        wanted = f.evaluate(start=start, **chosen)
        np.testing.assert_array_equal(kernel(start, **chosen), wanted, err_msg=str(chosen))


def as_numpy(f: tm.Function, sizes: Iterable[tuple[int, int, int]], **compiled: Any) -> None:
    """The kernel of a plate and sweeps in NumPy agree, bit for bit, at all numbers of levels, rows and columns."""
    assert f.check().ok
    kernel = f.compile(**compiled)
    for levels, rows, columns in sizes:
        start = np.random.default_rng(2).random((rows, columns), dtype=np.float32)
        np.testing.assert_array_equal(kernel(start, T=levels), numpy_plate(start, levels))


def sizes_of(**values: tuple[int, ...]) -> list[dict[str, int]]:
    return [dict(zip(values, each, strict=True)) for each in itertools.product(*values.values())]


# -- against evaluate and NumPy


@pytest.mark.parametrize(("steps", "reach"), [(1, 1), (2, 0), (3, 2), (5, 1)])
def test_a_rod_with_uneven_halos(steps, reach):
    f, heat = rod(reach)
    heat.time_tile(t, steps, {i: 4})
    same(f, sizes_of(T=(0, 1, 2, 4, 5, 6, 11), N=(1, 2, 3, 4, 5, 9, 17)))


def test_a_plate_as_numpy_sweeps_it():
    f, heat = plate()
    heat.time_tile(t, 13, {y: 16, x: 32})
    heat.parallelize(y0)
    heat.vectorize(x, 16)
    as_numpy(f, itertools.product((0, 1, 12, 13, 14, 27), (3, 5, 16, 41), (3, 31, 70)))


@pytest.mark.parametrize("tiles", [{y: 4}, {x: 5}, {x: 4, y: 3}])
def test_tiles_along_one_dimension_and_in_another_order(tiles):
    f, heat = plate()
    heat.time_tile(t, 3, tiles)
    same(f, sizes_of(T=(0, 2, 3, 7), H=(1, 2, 6, 9), W=(1, 3, 11)))


def test_a_read_two_levels_back_is_copied_between_passes():
    f, u = wave()
    parts = u.time_tile(t, 4, {y: 4, x: 8})
    assert [part.name for part in parts][-2:] == ["u_load", "u_store"]
    u.parallelize(y0, x0)
    same(f, sizes_of(T=(0, 1, 2, 3, 4, 5, 6, 9, 12), H=(1, 3, 4, 10), W=(2, 8, 19)))


def test_three_dimensions():
    f, heat = block()
    heat.time_tile(t, 2, {z: 3, y: 4})
    heat.vectorize(x, 4)
    same(f, sizes_of(T=(0, 1, 2, 3, 5), D=(1, 3, 7), H=(4, 9), W=(2, 13)))


def test_a_pass_may_begin_at_any_level():
    f, heat = rod()
    heat.time_tile(t, 3, {i: 4}, origin=1)
    same(f, sizes_of(T=(0, 1, 3, 4, 8), N=(1, 4, 10)))


def test_loops_outside_have_the_names_that_are_given():
    f, heat = plate()
    heat.time_tile(t, 3, {y: 4, x: 8}, [p, q, x0])
    heat.parallelize(q)
    assert "for p in" in f.show("pseudocode")
    assert "parallel q" in f.show("pseudocode") or "for q in" in f.show("pseudocode")
    same(f, sizes_of(T=(0, 4), H=(5,), W=(9,)))


def test_the_users_layout_is_kept():
    f, heat = rod()
    heat.store_in(tm.Buffer("three", [3, N], tm.float64), [(t // 4) % 3, i])
    heat.time_tile(t, 4, {i: 8})
    assert f.program.storages["heat"].buffer == "three"
    same(f, sizes_of(T=(0, 3, 4, 9, 17), N=(1, 8, 20)))


def test_a_layout_with_one_level_is_refused_by_the_proof():
    f, heat = rod()
    heat.store_in(tm.Buffer("one", [N], tm.float64), [i])
    heat.time_tile(t, 4, {i: 8})
    report = f.check()
    assert not report.ok
    assert "overwritten" in str(report)


def test_parts_are_scheduled_apart():
    f, heat = plate()
    first, inner, last, only = heat.time_tile(t, 4, {y: 8, x: 16})
    assert (first.name, inner.name, last.name, only.name) == ("heat_first", "heat_inner", "heat_last", "heat_only")
    heat.parallelize(y0)
    inner.vectorize(x, 8)
    last.vectorize(x, 4)
    same(f, sizes_of(T=(0, 4, 9), H=(1, 19), W=(2, 37)))


def test_the_levels_of_a_tile_are_folded_to_what_reads_reach():
    f, heat = plate()
    heat.time_tile(t, 13, {y: 64, x: 1024})
    assert [str(extent) for extent in f.program.buffers["heat_tile"].extents] == ["2", "88", "1056"]
    assert [str(extent) for extent in f.program.buffers["heat"].extents] == ["2", "H", "W"]


def test_a_schedule_in_the_script_can_be_undone_and_copied():
    f, heat = plate()
    before = f.show("pseudocode")
    other = f.copy()
    heat.time_tile(t, 3, {y: 4})
    assert texts(f) == ("heat.time_tile(t, 3, {y: 4})",)
    assert other.show("pseudocode") == before != f.show("pseudocode")
    f.undo()
    assert f.show("pseudocode") == before


# -- threads


def test_tiles_of_a_pass_run_on_two_threads():
    f, heat = plate()
    heat.time_tile(t, 4, {y: 8, x: 160})
    heat.parallelize(y0, x0)
    heat.vectorize(x, 16, remainder="mask")
    assert "x_aligned" in f.source()["plate.c"]
    as_numpy(f, [(4, 19, 340), (9, 40, 165), (5, 3, 3)], threads=2)


def test_passes_cannot_be_dealt_out_to_threads():
    f, heat = plate()
    heat.time_tile(t, 4, {y: 8, x: 16})
    heat.parallelize(t0)
    report = f.check()
    assert not report.ok
    assert "race" in str(report)
    assert "heat" in str(report)


def test_levels_of_a_tile_cannot_be_dealt_out_to_threads():
    f, heat = plate()
    _, inner, _, _ = heat.time_tile(t, 4, {y: 8, x: 16})
    inner.parallelize(t)
    assert not f.check().ok


# -- several computations a step


def test_several_computations_of_a_step():
    f, (heat, slope, dye) = coupled()
    dye.time_tile(t, 4, {i: 8}, together=[heat, slope])
    assert "slope" in f.show("pseudocode")
    dye.parallelize(i0)
    same(f, sizes_of(T=(0, 1, 3, 4, 7, 9), N=(1, 2, 3, 8, 9, 21)))


def test_what_a_computation_reads_of_its_own_level_widens_the_tile():
    f, (heat, slope, dye) = coupled()
    dye.time_tile(t, 1, {i: 8}, together=[heat, slope])
    same(f, sizes_of(T=(0, 1, 5), N=(1, 8, 21)))


def test_a_computation_of_the_step_that_is_not_named():
    f, (_, slope, dye) = coupled()
    dye.time_tile(t, 4, {i: 8}, together=[slope])
    same(f, sizes_of(T=(0, 4, 9), N=(1, 8, 21)))


# -- wavefronts, and cases


@pytest.mark.parametrize(("rows", "reach"), [(1, 1), (4, 2)])
def test_a_wavefront_along_a_rod(rows, reach):
    f, heat = rod(reach)
    heat.time_tile(t, 4, {i: 12}, wavefront={i: rows})
    assert len(f.program.buffers["heat_tile"].extents) == 2
    same(f, sizes_of(T=(0, 2, 3, 4, 9), N=(1, 3, 12, 29)))


def test_a_wavefront_keeps_rings_of_rows():
    f, heat = plate()
    heat.time_tile(t, 5, {y: 16}, wavefront={y: 4})
    assert [str(extent) for extent in f.program.buffers["heat_tile"].extents] == ["4", "8", "W"]
    heat.parallelize(y0)
    same(f, sizes_of(T=(0, 4, 6), H=(1, 16, 35), W=(2, 9)))


def test_a_wavefront_of_computations_that_are_copied():
    _, (heat, slope, dye) = coupled()
    _refused(
        "heat is copied, since the last levels of a pass are read in the tile too",
        lambda: dye.time_tile(t, 4, {i: 8}, together=[heat, slope], wavefront={i: 2}),
    )


def test_the_border_apart_from_the_inside():
    f, heat = plate()
    edge, inside = heat.separate_cases(t)
    assert (edge.name, inside.name) == ("heat_0", "heat_1")
    heat.time_tile(t, 3, {y: 4, x: 8})
    inside.vectorize(x, 4)
    same(f, sizes_of(T=(0, 3, 7), H=(1, 9), W=(2, 11)))


def test_the_part_of_the_first_branch_comes_first():
    """A single point beside a loop too."""
    f = tm.Function("sums", params=[N])
    a = f.input("a", tm.float64, [N])
    s = f.computation("s", {i: N}, lambda s: tm.select(i == 0, a[i], s[i - 1] + a[i]))
    f.outputs(s)
    first, others = s.separate_cases()
    assert (first.name, others.name) == ("s_0", "s_1")
    others.after(first, tm.root)
    given = np.arange(9.0)
    np.testing.assert_array_equal(f.compile()(given), np.cumsum(given))


def test_a_computation_without_cases():
    f = tm.Function("plain", params=[N])
    a = f.input("a", tm.float64, [N])
    b = f.computation("b", {i: N}, 2.0 * a[i])
    f.outputs(b)
    _refused("b contains no select with an affine condition", b.separate_cases)


# -- costs


def test_a_plate_is_scheduled_and_proven_with_little_work():
    f, heat = plate()

    def schedule() -> None:
        heat.time_tile(t, 13, {y: 64, x: 1024})
        f.undo()

    assert calls(schedule) < 20_000  # 3,800
    heat.time_tile(t, 13, {y: 64, x: 1024})
    heat.parallelize(y0)
    heat.vectorize(x, 16)
    program = spread(f.completed)
    found = []
    assert calls(lambda: found.append(check(program, operations=1_000_000))) < 40_000  # 300,000 of isl, 9,900 calls
    assert found[0].ok


# -- the loops


def test_interpreted_loops_agree():
    f, u = wave()
    u.time_tile(t, 3, {y: 4, x: 4})
    u.parallelize(y0)
    u.vectorize(x, 4)
    lowered = f.show("lowered")
    for levels, rows, columns in ((0, 2, 3), (4, 6, 9), (7, 5, 5)):
        start = np.random.default_rng(3).random((rows, columns), dtype=np.float32)
        sizes = {"T": levels, "H": rows, "W": columns}
        got = np.zeros_like(start)
        run(lowered, {"start": start, lowered.outputs[0]: got}, sizes, seed=3)
        np.testing.assert_array_equal(got, f.evaluate(start=start, **sizes))


def test_the_generated_c_has_no_warning(tmp_path):
    f, heat = plate()
    heat.time_tile(t, 13, {y: 64, x: 1024})
    heat.parallelize(y0)
    heat.vectorize(x, 16)
    for name, text in f.source().items():
        (tmp_path / name).write_text(text)
    flags = [*REQUIRED, "-O2", "-fopenmp", "-Wall", "-Wextra", "-Werror", "-c", f"{f.name}.c"]
    answer = subprocess.run(["gcc", *flags], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr


# -- refused


def _refused(words: str, tile: Callable[[], object]) -> None:
    with pytest.raises(CommandError, match=words):
        tile()


def test_a_loop_that_is_not_over_time():
    _f, heat = plate()
    _refused("x is not the first iterator of heat", lambda: heat.time_tile(x, 4, {y: 8}))
    _refused("t is the loop over time", lambda: heat.time_tile(t, 4, {t: 8}))
    _refused("no loop z here", lambda: heat.time_tile(t, 4, {z: 8}))


def test_a_read_at_no_constant_distance():
    f = tm.Function("ring", params=[T, N], assume="T >= 0 and N >= 2")
    start = f.input("start", tm.float64, [N])
    h = f.computation(
        "h",
        {t: T + 1, i: N},
        lambda h: tm.select(t == 0, start[i], tm.select(i == 0, h[t - 1, N - 1], h[t - 1, i - 1])),
    )
    f.outputs(h[T, i])
    _refused("at no constant distance along i", lambda: h.time_tile(t, 4, {i: 8}))


def test_a_read_of_one_level_from_all_others():
    f = tm.Function("first", params=[T, N])
    start = f.input("start", tm.float64, [N])
    h = f.computation("h", {t: T + 1, i: N}, lambda h: tm.select(t == 0, start[i], h[0, i] + h[t - 1, i]))
    f.outputs(h[T, i])
    _refused("at no constant distance along t", lambda: h.time_tile(t, 4, {i: 8}))


def test_a_sum_along_a_tiled_loop():
    f = tm.Function("sums", params=[T, N])
    start = f.input("start", tm.float64, [N])
    h = f.computation(
        "h", {t: T + 1, i: N}, lambda h: tm.select((t == 0) | (i == 0), start[i], h[t - 1, i] + h[t, i - 1])
    )
    f.outputs(h[T, i])
    _refused("in a cycle along i", lambda: h.time_tile(t, 4, {i: 8}))


def test_values_of_all_levels():
    f = tm.Function("film", params=[T, N])
    start = f.input("start", tm.float64, [N])
    h = f.computation("h", {t: T + 1, i: N}, lambda h: tm.select(t == 0, start[i], h[t - 1, i] + 1.0))
    f.outputs(h)
    _refused(
        r"h is an output with the values of all levels.* \w+.outputs\(h\[.*\], replace=True\)",
        lambda: h.time_tile(t, 4, {i: 8}),
    )
    g = f.computation("g", {t: T + 1, i: N}, 2.0 * h[t, i])
    f.outputs(g, replace=True)
    _refused("g reads h at other levels than the last one", lambda: h.time_tile(t, 4, {i: 8}))


def test_a_pass_shorter_than_reads_reach():
    _f, u = wave()
    _refused("u is read 2 levels back, and a pass has 1", lambda: u.time_tile(t, 1, {y: 8}))


def test_other_commands_come_later():
    _, heat = plate()
    heat.split(x, 8, x0, q)
    _refused("time_tile comes before other commands", lambda: heat.time_tile(t, 4, {y: 8}))
    _f, heat = plate()
    heat.parallelize(y)
    _refused("loop y is tagged by", lambda: heat.time_tile(t, 4, {y: 8}))


def test_arguments():
    f, heat = plate()
    _refused("give a dict of the sizes", lambda: heat.time_tile(t, 4, {}))
    _refused("give a dict of the sizes", lambda: heat.time_tile(t, 4, 64))
    _refused("give an integer of at least 1", lambda: heat.time_tile(t, 0, {y: 8}))
    _refused("give an integer of at least 1", lambda: heat.time_tile(t, 4, {y: 0}))
    _refused("name 2 loops", lambda: heat.time_tile(t, 4, {y: 8}, [p]))
    _refused("need names of their own", lambda: heat.time_tile(t, 4, {y: 8}, [p, y]))
    _refused("give a list of computations", lambda: heat.time_tile(t, 4, {y: 8}, together=heat))
    _refused("origin is", lambda: heat.time_tile(t, 4, {y: 8}, origin=1.5))
    _refused("give a dict of one loop", lambda: heat.time_tile(t, 4, {y: 8}, wavefront=8))
    _refused("tiles are along y", lambda: heat.time_tile(t, 4, {y: 8}, wavefront={x: 8}))
    f, u = wave()
    _refused("a wavefront keeps few rows", lambda: u.time_tile(t, 4, {y: 8}, wavefront={y: 4}))
    f, heat = plate()
    assert f.commands == ()
