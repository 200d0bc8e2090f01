"""Halide's app `bilateral_grid` (apps/bilateral_grid/bilateral_grid_generator.cpp) with its schedule for cores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

CELL = 8


def program(hl: Any, given: Mapping[str, Any], out: Any) -> Callable[[], object]:
    """A call that smooths `given["image"]` with `given["L"]` levels of brightness into `out`."""
    image, into = hl.Buffer(given["image"]), hl.Buffer(out)
    x, y, z, c = (hl.Var(name) for name in "xyzc")
    step = hl.Param(hl.Float(32), "r_sigma", 1 / given["L"])
    near = hl.BoundaryConditions.repeat_edge(image)
    names = ("histogram", "blurz", "blurx", "blury", "interpolated", "smooth")
    histogram, blurz, blurx, blury, between, smooth = (hl.Func(name) for name in names)

    def light(value: Any) -> Any:
        return hl.clamp(value, hl.f32(0), hl.f32(1))

    r = hl.RDom([(0, CELL), (0, CELL)])
    value = light(near[x * CELL + r.x - CELL // 2, y * CELL + r.y - CELL // 2])
    level = hl.i32(value * (hl.f32(1) / step) + hl.f32(0.5))
    histogram[x, y, z, c] = hl.f32(0)
    histogram[x, y, level, c] += hl.mux(c, [value, hl.f32(1)])

    def taps(a: Any, dx: int, dy: int, dz: int) -> Any:
        one, two, three, four, five = (a[x + d * dx, y + d * dy, z + d * dz, c] for d in range(-2, 3))
        return one + two * 4 + three * 6 + four * 4 + five

    blurz[x, y, z, c] = taps(histogram, 0, 0, 1)
    blurx[x, y, z, c] = taps(blurz, 1, 0, 0)
    blury[x, y, z, c] = taps(blurx, 0, 1, 0)
    at = light(image[x, y]) * (hl.f32(1) / step)
    low = hl.i32(at)
    xf, yf = (hl.f32(index % CELL) / CELL for index in (x, y))

    def plane(dz: int) -> Any:
        a, b, d, e = (blury[x // CELL + dx, y // CELL + dy, low + dz, c] for dy in (0, 1) for dx in (0, 1))
        return hl.lerp(hl.lerp(a, b, xf), hl.lerp(d, e, xf), yf)

    between[x, y, c] = hl.lerp(plane(0), plane(1), at - low)
    smooth[x, y] = between[x, y, 0] / between[x, y, 1]

    blurz.compute_at(blurx, y).reorder(c, z, x, y).vectorize(x, 8).unroll(c)
    histogram.compute_at(blurz, y)
    histogram.update().reorder(c, r.x, r.y, x, y).unroll(c)
    blurx.compute_root().reorder(c, x, z, y).parallel(y).vectorize(x, 8).unroll(c)
    blury.compute_at(smooth, y).store_in(hl.MemoryType.Stack).reorder(c, x, y, z).reorder_storage(c, z, x, y)
    blury.vectorize(x, 8).unroll(c)
    smooth.compute_root().parallel(y, 8).vectorize(x, 8)
    smooth.compile_jit()
    return lambda: smooth.realize(into)
