"""Halide's app `hist` (apps/hist/hist_generator.cpp) with its schedule for cores; the weights are those of our app."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def program(hl: Any, given: Mapping[str, Any], out: Any) -> Callable[[], object]:
    """A call that equalises `given["rgb"]` into `out`."""
    image, into = hl.Buffer(given["rgb"]), hl.Buffer(out)
    x, y, c = (hl.Var(name) for name in "xyc")
    luma, rows, hist, cdf, level, even, output = (
        hl.Func(name) for name in ("luma", "hist_rows", "hist", "cdf", "cdf_bin", "equalize", "output")
    )
    columns, lines = image.dim(0).extent(), image.dim(1).extent()
    red, green, blue = (hl.f32(image[x, y, colour]) for colour in range(3))
    luma[x, y] = hl.f32(77 / 256) * red + hl.f32(150 / 256) * green + hl.f32(29 / 256) * blue
    rows[x, y] = 0
    rx = hl.RDom([(0, columns)])
    rows[hl.i32(hl.clamp(luma[rx.x, y], hl.f32(0), hl.f32(255))), y] += 1
    hist[x] = 0
    ry = hl.RDom([(0, lines)])
    hist[x] += rows[x, ry.x]
    cdf[x] = hist[0]
    bins = hl.RDom([(1, 255)])
    cdf[bins.x] = cdf[bins.x - 1] + hist[bins.x]
    level[x, y] = hl.u8(hl.clamp(luma[x, y], hl.f32(0), hl.f32(255)))
    even[x, y] = hl.clamp(cdf[level[x, y]] * (hl.f32(255) / (columns * lines)), hl.f32(0), hl.f32(255))
    more_red, more_blue = red - luma[x, y], blue - luma[x, y]

    def byte(value: Any) -> Any:
        return hl.u8(hl.clamp(value, hl.f32(0), hl.f32(255)))

    output[x, y, c] = hl.mux(
        c,
        [
            byte(even[x, y] + more_red * hl.f32(0.998)),
            byte(even[x, y] - more_blue * hl.f32(0.193) - more_red * hl.f32(0.507)),
            byte(even[x, y] + more_blue * hl.f32(0.995)),
        ],
    )
    schedule(hl, luma, rows, hist, cdf, output, (x, y, c), (rx, ry))
    output.compile_jit()
    return lambda: output.realize(into)


def schedule(
    hl: Any, luma: Any, rows: Any, hist: Any, cdf: Any, output: Any, loops: tuple[Any, ...], over: tuple[Any, ...]
) -> None:
    """The schedule of the app: brightness is computed twice, and never kept but for a row."""
    (x, y, c), (rx, ry) = loops, over
    lanes = hl.get_jit_target_from_environment().natural_vector_size(hl.Float(32))
    cdf.bound(x, 0, 256)
    wrapped = rows.in_()
    luma.clone_in(rows).compute_at(wrapped, y).vectorize(x, lanes)
    wrapped.compute_root().vectorize(x, lanes).parallel(y, 4)
    rows.compute_at(wrapped, y).vectorize(x, lanes)
    rows.update().reorder(y, rx.x).unroll(y)
    hist.compute_root().vectorize(x, lanes)
    hist.update().reorder(x, ry.x).vectorize(x, lanes).unroll(x, 4).parallel(x).reorder(ry.x, x)
    cdf.compute_root()
    output.reorder(c, x, y).bound(c, 0, 3).unroll(c).parallel(y, 8).vectorize(x, lanes * 2)
