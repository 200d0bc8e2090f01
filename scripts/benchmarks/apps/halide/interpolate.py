"""Interpolation of missing pixels in Halide, with the schedule for CPUs of its `apps/interpolate`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

HEIGHT = 10


def program(hl: Any, given: Mapping[str, Any], out: Any) -> Callable[[], object]:
    """The pyramid level by level, its first one computed twice; filled levels in rings of rows beside the result."""
    x, y, c, xo, xi, yo, yi = (hl.Var(name) for name in ("x", "y", "c", "xo", "xi", "yo", "yi"))
    rgba = hl.Buffer(given["rgba"])
    _, rows, columns = given["rgba"].shape
    near = hl.BoundaryConditions.repeat_edge(rgba)
    lanes = hl.get_jit_target_from_environment().natural_vector_size(hl.Float(32))
    small = [hl.Func(f"small{n}") for n in range(HEIGHT)]
    across = [hl.Func(f"across{n}") for n in range(HEIGHT)]
    filled = [hl.Func(f"filled{n}") for n in range(HEIGHT)]
    small[0][x, y, c] = hl.select(c < 3, near[x, y, c] * near[x, y, 3], near[x, y, 3])
    for n in range(1, HEIGHT):
        above = small[n - 1]
        if n == 4:
            above = hl.Func("bounded")
            above[x, y, c] = small[3][hl.clamp(x, 0, columns // 8), hl.clamp(y, 0, rows // 8), c]
        across[n][x, y, c] = (above[x * 2 - 1, y, c] + 2.0 * above[x * 2, y, c] + above[x * 2 + 1, y, c]) * 0.25
        below = across[n]
        small[n][x, y, c] = (below[x, y * 2 - 1, c] + 2.0 * below[x, y * 2, c] + below[x, y * 2 + 1, c]) * 0.25
    filled[HEIGHT - 1][x, y, c] = small[HEIGHT - 1][x, y, c]
    for n in reversed(range(HEIGHT - 1)):
        coarse, wide, larger = filled[n + 1], hl.Func(f"wide{n}"), hl.Func(f"larger{n}")
        wide[x, y, c] = (coarse[x // 2, y, c] + coarse[(x + 1) // 2, y, c]) / 2.0
        larger[x, y, c] = (wide[x, y // 2, c] + wide[x, (y + 1) // 2, c]) / 2.0
        filled[n][x, y, c] = small[n][x, y, c] + (1.0 - small[n][x, y, 3]) * larger[x, y, c]
    result = hl.Func("result")
    result[x, y, c] = filled[0][x, y, c] / filled[0][x, y, 3]

    for n in range(1, HEIGHT - 1):
        stage = small[n].compute_root().never_partition([x]).reorder(x, c, y)
        stage.split(y, yo, yi, 8).parallel(yo).vectorize(x, lanes)
    first = small[0].clone_in(across[1]).store_at(small[1], yo).compute_at(small[1], yi)
    first.reorder(c, x, y).unroll(c).vectorize(x, lanes).never_partition([y])
    result.bound(x, 0, columns).bound(y, 0, rows).bound(c, 0, 3).never_partition([y])
    result.split(x, xo, xi, lanes).split(y, yo, yi, 32).reorder(xi, c, xo, yi, yo)
    result.unroll(c).vectorize(xi).parallel(yo)
    for n in range(1, HEIGHT):
        filled[n].store_at(result, yo).compute_at(result, yi).never_partition_all().vectorize(x, lanes)
    result.compile_jit()
    into = hl.Buffer(out)
    return lambda: result.realize(into)
