"""Local Laplacian filter in Halide, with the schedule for CPUs of its `apps/local_laplacian`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

HEIGHT, CURVES = 8, 8


def program(hl: Any, given: Mapping[str, Any], out: Any) -> Callable[[], object]:
    """Pyramids stage by stage, those of the result in rings of rows up to the fifth level; curves from a table."""
    x, y, c, k, outer = (hl.Var(name) for name in ("x", "y", "c", "k", "outer"))
    near = hl.BoundaryConditions.repeat_edge(hl.Buffer(given["rgb"]))
    alpha, beta = hl.f32(given["alpha"]), hl.f32(given["beta"])
    colour, grey, curve, scaled, result = (hl.Func(name) for name in ("colour", "grey", "curve", "scaled", "result"))
    colour[x, y, c] = hl.cast(hl.Float(32), near[x, y, c]) / 65535.0
    red, green, blue = (hl.f32(weight) for weight in (0.299, 0.587, 0.114))
    grey[x, y] = red * colour[x, y, 0] + green * colour[x, y, 1] + blue * colour[x, y, 2]
    place = hl.cast(hl.Float(32), x) / 256.0
    curve[x] = alpha * place * hl.exp(-place * place / 2.0)

    curves = [hl.Func(f"curves{n}") for n in range(HEIGHT)]
    greys = [grey, *(hl.Func(f"grey{n}") for n in range(1, HEIGHT))]
    results = [hl.Func(f"result{n}") for n in range(HEIGHT)]
    level = hl.cast(hl.Float(32), k) * hl.f32(1 / (CURVES - 1))
    step = hl.clamp(hl.cast(hl.Int(32), grey[x, y] * hl.f32((CURVES - 1) * 256)), 0, (CURVES - 1) * 256)
    curves[0][x, y, k] = beta * (grey[x, y] - level) + level + curve[step - 256 * k]
    for n in range(1, HEIGHT):
        curves[n][x, y, k] = smaller(hl, curves[n - 1], x, y, k)
        greys[n][x, y] = smaller(hl, greys[n - 1], x, y)
    for n in reversed(range(HEIGHT)):
        place = greys[n][x, y] * hl.f32(CURVES - 1)
        low = hl.clamp(hl.cast(hl.Int(32), place), 0, CURVES - 2)
        share = place - hl.cast(hl.Float(32), low)
        details = hl.Func(f"details{n}")
        details[x, y, k] = curves[n][x, y, k]
        if n < HEIGHT - 1:
            details = hl.Func(f"details{n}")
            details[x, y, k] = curves[n][x, y, k] - larger(hl, curves[n + 1], x, y, k)
        mixed = (1.0 - share) * details[x, y, low] + share * details[x, y, low + 1]
        results[n][x, y] = mixed if n == HEIGHT - 1 else larger(hl, results[n + 1], x, y) + mixed
    epsilon = hl.f32(0.01)
    scaled[x, y, c] = results[0][x, y] * (colour[x, y, c] + epsilon) / (grey[x, y] + epsilon)
    result[x, y, c] = hl.cast(hl.UInt(16), hl.clamp(scaled[x, y, c], 0.0, 1.0) * 65535.0)

    curve.compute_root()
    result.reorder(c, x, y).split(y, outer, y, 64).parallel(outer).vectorize(x, 8)
    grey.compute_root().parallel(y, 32).vectorize(x, 8)
    for n in range(1, 5):
        greys[n].compute_root().parallel(y, 32).vectorize(x, 8)
        curves[n].compute_root().reorder_storage(x, k, y).reorder(k, y).parallel(y, 8).vectorize(x, 8)
        results[n].store_at(result, outer).compute_at(result, y).fold_storage(y, 4).vectorize(x, 8)
    results[0].compute_at(result, y).vectorize(x, 8)
    for n in range(5, HEIGHT):
        greys[n].compute_root()
        curves[n].compute_root().parallel(k)
        results[n].compute_root()
    result.bound(c, 0, 3)
    result.compile_jit()
    into = hl.Buffer(out)
    return lambda: result.realize(into)


def smaller(hl: Any, a: Any, x: Any, y: Any, *others: Any) -> Any:
    """Half as many rows and columns, with the weights 1 3 3 1."""
    across = hl.Func()
    row = [a[(2 * x + d, y, *others)] for d in range(-1, 3)]
    across[(x, y, *others)] = (row[0] + 3.0 * (row[1] + row[2]) + row[3]) / 8.0
    column = [across[(x, 2 * y + d, *others)] for d in range(-1, 3)]
    return (column[0] + 3.0 * (column[1] + column[2]) + column[3]) / 8.0


def larger(hl: Any, a: Any, x: Any, y: Any, *others: Any) -> Any:
    """Twice as many rows and columns, interpolated."""
    across = hl.Func()
    across[(x, y, *others)] = hl.lerp(
        a[((x + 1) // 2, y, *others)], a[((x - 1) // 2, y, *others)], hl.cast(hl.Float(32), (x % 2) * 2 + 1) / 4.0
    )
    share = hl.cast(hl.Float(32), (y % 2) * 2 + 1) / 4.0
    return hl.lerp(across[(x, (y + 1) // 2, *others)], across[(x, (y - 1) // 2, *others)], share)
