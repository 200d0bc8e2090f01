"""Cubic interpolation to a larger picture in Halide, with the schedule for CPUs of its `apps/resize`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

TAPS = 4


def program(hl: Any, given: Mapping[str, Any], out: Any) -> Callable[[], object]:
    """Tiles of 16 columns by 64 rows of pixels: first along rows, as the app does where a picture grows."""
    x, y, c, k, xo, yo, xi, yi = (hl.Var(name) for name in ("x", "y", "c", "k", "xo", "yo", "xi", "yi"))
    picture = hl.Buffer(given["picture"])
    _, height, width = given["picture"].shape
    inverse = hl.f32(height / out.shape[1])
    taps = hl.RDom([(0, TAPS)])
    lanes = hl.get_jit_target_from_environment().natural_vector_size(hl.Float(32))

    def kernel(name: str, v: Any, size: int) -> tuple[Any, Any, Any, Any]:
        """The first pixel for a new one at `v`, and its weights: as they are, their sum, and normalised."""
        place = (hl.f32(v) + hl.f32(0.5)) * inverse - hl.f32(0.5)
        begin = hl.clamp(hl.i32(hl.ceil(place - hl.f32(TAPS / 2))), 0, size - TAPS)
        raw, total, weights = (hl.Func(f"{kind}_{name}") for kind in ("raw", "sum", "kernel"))
        far = hl.abs(hl.f32(k + begin) - place)
        inner = hl.f32(1.5) * far * far * far - hl.f32(2.5) * far * far + hl.f32(1)
        outer = hl.f32(-0.5) * far * far * far + hl.f32(2.5) * far * far - hl.f32(4) * far + hl.f32(2)
        raw[v, k] = hl.select(far < 1, inner, hl.select(far < 2, outer, hl.f32(0)))
        total[v] = hl.sum(raw[v, taps.x])
        weights[v, k] = raw[v, k] / total[v]
        return begin, raw, total, weights

    begin_x, raw_x, total_x, of_x = kernel("x", x, width)
    begin_y, raw_y, total_y, of_y = kernel("y", y, height)
    across, down, result = hl.Func("across"), hl.Func("down"), hl.Func("result")
    across[x, y, c] = hl.sum(of_x[x, taps.x] * picture[taps.x + begin_x, y, c])
    down[x, y, c] = hl.sum(of_y[y, taps.x] * across[x, taps.x + begin_y, c])
    result[x, y, c] = hl.clamp(down[x, y, c], hl.f32(0), hl.f32(1))

    raw_x.compute_at(of_x, x).vectorize(x)
    total_x.compute_at(of_x, x).vectorize(x)
    of_x.compute_root().reorder(k, x).vectorize(x, lanes)
    raw_y.compute_at(of_y, y).vectorize(y, lanes)
    total_y.compute_at(of_y, y).vectorize(y)
    of_y.compute_at(result, yo).reorder(k, y).vectorize(y, lanes)
    result.tile(x, y, xo, yo, xi, yi, 16, 64).parallel(yo).vectorize(xi)
    across.compute_at(result, xo).store_in(hl.MemoryType.Stack).vectorize(x)
    down.compute_at(result, xi).unroll(c)
    result.compile_jit()
    into = hl.Buffer(out)
    return lambda: result.realize(into)
