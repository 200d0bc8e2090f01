"""Halide's app `camera_pipe` (apps/camera_pipe/camera_pipe_generator.cpp) with its schedule for cores.

Tables are in float32, as there; ours are in float64. Pictures have multiples of 64 columns and of 32 rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

#: Bytes by which a tone in float32 may differ, and what sharpening makes of it.
CLOSE = 3


def program(hl: Any, given: Mapping[str, Any], out: Any) -> Callable[[], object]:
    """A call that develops `given["raw"]` into `out`."""
    x, y, c, yo, yi, yii, xi = (hl.Var(name) for name in ("x", "y", "c", "yo", "yi", "yii", "xi"))
    raw, into = hl.ImageParam(hl.UInt(16), 2, "raw"), hl.Buffer(out)
    raw.set(hl.Buffer(given["raw"]))

    def func(name: str, *value: Any) -> Any:
        made = hl.Func(name)
        if value:
            made[(x, y, c)[: 3 if len(value) > 1 else 2]] = hl.mux(c, list(value)) if len(value) > 1 else value[0]
        return made

    shifted = func("shifted", raw[x + 16, y + 12])
    most = hl.max(hl.max(shifted[x - 2, y], shifted[x + 2, y]), hl.max(shifted[x, y - 2], shifted[x, y + 2]))
    denoised = func("denoised", hl.clamp(shifted[x, y], hl.u16(0), most))
    parts = func("deinterleaved", *(denoised[2 * x + right, 2 * y + down] for down in (0, 1) for right in (0, 1)))
    green_r, green_b, demosaiced = demosaic(hl, func, parts, (x, y, c))
    corrected = correct(hl, func, demosaiced, given, (x, y, c))
    curve = tones(hl, given)
    curved = hl.Func("curved")
    curved[x, y, c] = curve[hl.clamp(hl.i32(corrected[x, y, c]), 0, 1023)]
    processed = sharpen(hl, curved, given, (x, y, c))

    lanes = hl.get_jit_target_from_environment().natural_vector_size(hl.UInt(16))
    wide, strip, up = 2 * lanes, 32, hl.TailStrategy.RoundUp
    processed.compute_root().reorder(c, x, y).split(y, yi, yii, 2, up).split(yi, yo, yi, strip // 2)
    processed.vectorize(x, wide, up).unroll(c).parallel(yo)
    denoised.compute_at(processed, yi).store_at(processed, yo).prefetch(raw, y, y, 2).fold_storage(y, 4)
    denoised.tile(x, y, x, y, xi, yi, wide, 2).vectorize(xi).unroll(yi)
    parts.compute_at(processed, yi).store_at(processed, yo).fold_storage(y, 4)
    parts.reorder(c, x, y).vectorize(x, wide, up).unroll(c)
    curved.compute_at(processed, yi).store_at(processed, yo).reorder(c, x, y)
    curved.tile(x, y, x, y, xi, yi, wide, 2, up).vectorize(xi).unroll(yi).unroll(c)
    corrected.compute_at(curved, x).reorder(c, x, y).vectorize(x).unroll(c)
    for green in (green_r, green_b):
        green.compute_at(processed, yi).store_at(processed, yo).vectorize(x, wide, up).fold_storage(y, 4)
    green_b.compute_with(green_r, x, [(x, hl.LoopAlignStrategy.AlignStart), (y, hl.LoopAlignStrategy.AlignStart)])
    demosaiced.compute_at(curved, x).vectorize(x).unroll(y).reorder(c, x, y).unroll(c)
    rows, columns = out.shape[1:]
    processed.bound(c, 0, 3).bound(x, 0, columns // wide * wide).bound(y, 0, rows // strip * strip)
    processed.compile_jit()
    return lambda: processed.realize(into)


def demosaic(hl: Any, func: Callable[..., Any], parts: Any, at: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    """Green at red and at blue sites, and all colours of all sites."""
    x, y, _ = at
    g_gr, r_r, b_b, g_gb = (func(name, parts[x, y, k]) for k, name in enumerate(("g_gr", "r_r", "b_b", "g_gb")))

    def avg(a: Any, b: Any) -> Any:
        return hl.u16((hl.u32(a) + b + 1) / 2)

    def fill(own: Any, green: Any, colour: Any, one: tuple[Any, ...], other: tuple[Any, ...]) -> Any:
        return own[x, y] - avg(green[one], green[other]) + avg(colour[one], colour[other])

    def flatter(up: tuple[Any, Any], side: tuple[Any, Any]) -> Any:
        return hl.select(hl.absd(*side) < hl.absd(*up), avg(*side), avg(*up))

    g_r = func("g_r", flatter((g_gb[x, y - 1], g_gb[x, y]), (g_gr[x + 1, y], g_gr[x, y])))
    g_b = func("g_b", flatter((g_gr[x, y + 1], g_gr[x, y]), (g_gb[x - 1, y], g_gb[x, y])))

    def diagonal(own: Any, green: Any, colour: Any, dx: int, dy: int) -> Any:
        one, two, three, four = (x, y), (x + dx, y + dy), (x + dx, y), (x, y + dy)
        closer = hl.absd(colour[one], colour[two]) < hl.absd(colour[three], colour[four])
        return hl.select(closer, fill(own, green, colour, one, two), fill(own, green, colour, three, four))

    r_gr = func("r_gr", fill(g_gr, g_r, r_r, (x, y), (x - 1, y)))
    b_gr = func("b_gr", fill(g_gr, g_b, b_b, (x, y), (x, y - 1)))
    r_gb = func("r_gb", fill(g_gb, g_r, r_r, (x, y), (x, y + 1)))
    b_gb = func("b_gb", fill(g_gb, g_b, b_b, (x, y), (x + 1, y)))
    r_b, b_r = func("r_b", diagonal(g_b, g_r, r_r, -1, 1)), func("b_r", diagonal(g_r, g_b, b_b, 1, -1))

    def across(name: str, even: Any, odd: Any) -> Any:
        return func(name, hl.select(x % 2 == 0, even[x // 2, y], odd[x // 2, y]))

    def down(name: str, even: Any, odd: Any) -> Any:
        return func(name, hl.select(y % 2 == 0, even[x, y // 2], odd[x, y // 2]))

    red = down("r", across("r0", r_gr, r_r), across("r1", r_b, r_gb))
    green = down("g", across("g0", g_gr, g_r), across("g1", g_b, g_gb))
    blue = down("b", across("b0", b_gr, b_r), across("b1", b_b, b_gb))
    return g_r, g_b, func("demosaiced", *(hl.i16(colour[x, y]) for colour in (red, green, blue)))


def correct(hl: Any, func: Callable[..., Any], picture: Any, given: Mapping[str, Any], at: tuple[Any, ...]) -> Any:
    """Colours times the matrix for the light."""
    x, y, _ = at
    cold, hot = (hl.Buffer(given[f"matrix_{kelvin}"]) for kelvin in (3200, 7000))
    kelvin = hl.Param(hl.Float(32), "color_temp", given["kelvin"])
    share = (hl.f32(1) / kelvin - hl.f32(1 / 3200)) / hl.f32(1 / 7000 - 1 / 3200)
    matrix = func("matrix", hl.i16((cold[x, y] * share + hot[x, y] * (hl.f32(1) - share)) * hl.f32(256)))
    matrix.compute_root()
    colours = [hl.i32(picture[x, y, k]) for k in range(3)]

    def row(k: int) -> Any:
        total = matrix[3, k] + matrix[0, k] * colours[0] + matrix[1, k] * colours[1] + matrix[2, k] * colours[2]
        return hl.i16(total / 256)

    return func("corrected", *(row(k) for k in range(3)))


def tones(hl: Any, given: Mapping[str, Any]) -> Any:
    """The byte for each level."""
    level = hl.Var("level")
    black, white = (hl.Param(hl.Int(32), name, given[name]) for name in ("black", "white"))
    gamma, contrast = (hl.Param(hl.Float(32), name, given[name]) for name in ("gamma", "contrast"))
    b = hl.f32(2) - hl.pow(hl.f32(2), contrast / hl.f32(100))
    a = hl.f32(2) - hl.f32(2) * b
    light = hl.clamp(hl.f32(level - black) * (hl.f32(1) / (white - black)), hl.f32(0), hl.f32(1))
    g = hl.pow(light, hl.f32(1) / gamma)
    dark = hl.f32(1) - g
    z = hl.select(g > hl.f32(0.5), hl.f32(1) - (a * dark * dark + b * dark), a * g * g + b * g)
    byte = hl.u8(hl.clamp(z * hl.f32(255) + hl.f32(0.5), hl.f32(0), hl.f32(255)))
    curve = hl.Func("curve")
    curve[level] = hl.select(level <= black, hl.u8(0), hl.select(level > white, hl.u8(255), byte))
    curve.compute_root()
    return curve


def sharpen(hl: Any, picture: Any, given: Mapping[str, Any], at: tuple[Any, ...]) -> Any:
    """The picture and what it has more than its blurred form."""
    x, y, c = at
    strength, down, soft, result = (hl.Func(name) for name in ("strength", "unsharp_y", "unsharp", "processed"))
    strength[()] = hl.u8_sat(hl.Param(hl.Float(32), "sharpen_strength", given["sharpness"]) * hl.f32(32))
    strength.compute_root()

    def avg(a: Any, b: Any) -> Any:
        return hl.u8((hl.u16(a) + b + 1) / 2)

    down[x, y, c] = avg(avg(picture[x, y - 1, c], picture[x, y + 1, c]), picture[x, y, c])
    soft[x, y, c] = avg(avg(down[x - 1, y, c], down[x + 1, y, c]), down[x, y, c])
    mask = hl.i16(picture[x, y, c]) - hl.i16(soft[x, y, c])
    result[x, y, c] = hl.u8_sat(picture[x, y, c] + (mask * strength[()]) / 32)
    return result
