"""From the raw values of a camera's sensor to a picture: hot pixels, colours between sites, tones, and sharpening."""

from __future__ import annotations

from typing import Any

import numpy as np
from story import Arguments, Array, planes, tell

import tiramisu_py as tm

H, W = tm.params("H W")  # cells: two rows and two columns of sites
r, c, y, x, k, j, p, q, v, r0, r1, y0, c0, c1, x0 = tm.iters("r c y x k j p q v r0 r1 y0 c0 c1 x0")
ROWS, COLUMNS = 12, 16  # of the border, on each side
CLOSE = 0
STAGES = ("picture", "curved", "levels", "colours", "at_red", "at_blue", "calm")
RED, BLUE, GREEN_BY_RED, GREEN_BY_BLUE = (1, 0), (0, 1), (1, 1), (0, 0)  # places in a cell: the row and the column
NAMES = {RED: "red", BLUE: "blue", GREEN_BY_RED: "green_by_red", GREEN_BY_BLUE: "green_by_blue"}
#: Two places, by their rows and columns from one in the middle.
ABOVE, BESIDE, RISING, FALLING = (((-1, 0), (1, 0)), ((0, -1), (0, 1)), ((1, -1), (-1, 1)), ((-1, -1), (1, 1)))

MATRICES = {
    "matrix_3200": [
        [1.6697, -0.2693, -0.4004, -42.4346],
        [-0.3576, 1.0615, 1.5949, -37.1158],
        [-0.2175, -1.8751, 6.9640, -26.6970],
    ],
    "matrix_7000": [
        [2.2997, -0.4478, 0.1706, -39.0923],
        [-0.3826, 1.5906, -0.2080, -25.4311],
        [-0.0888, -0.7344, 2.2832, -20.0826],
    ],
}
SETTINGS = {name: np.array(rows, np.float32) for name, rows in MATRICES.items()}
SETTINGS |= {"kelvin": 3700.0, "gamma": 2.0, "contrast": 50.0, "sharpness": 1.0, "black": 25, "white": 1023}
Place = tuple[int, int]
Pair = tuple[Place, Place]


def algorithm() -> tm.Function:
    """Cells begin one row above the picture and one column left of it, since sharpening reads as far."""
    f = tm.Function("camera_pipe", params=[H, W], assume="H >= 1 and W >= 1")
    raw = f.input("raw", tm.uint16, [2 * H + 2 * ROWS, 2 * W + 2 * COLUMNS])
    across = [raw[r + ROWS, c + COLUMNS + d] for d in (-2, 2)]
    down = [raw[r + ROWS + d, c + COLUMNS] for d in (-2, 2)]
    most = tm.maximum(tm.maximum(*across), tm.maximum(*down))
    calm = f.computation("calm", [r, c], tm.minimum(raw[r + ROWS, c + COLUMNS], most))
    sites = {(p, q): f.computation(name, [y, x], calm[2 * y - 1 + p, 2 * x - 1 + q]) for (p, q), name in NAMES.items()}
    level = corrected(f, demosaiced(f, sites))[k, (r + 1) % 2, (c + 1) % 2, (r + 1) // 2, (c + 1) // 2]
    curved = f.computation("curved", [k, r, c], tones(f)[level])
    f.outputs(sharpened(f, curved))
    return f


def average(a: tm.Expr, b: tm.Expr) -> tm.Expr:
    """The mean of two numbers, rounded up."""
    wide = tm.uint16 if a.dtype is tm.uint8 else tm.uint32
    return tm.cast(a.dtype, (tm.cast(wide, a) + b + 1) >> 1)


def demosaiced(f: tm.Function, sites: dict[Place, tm.Computation]) -> tm.Computation:
    """All three colours of each site, from neighbours in the direction in which they differ least."""

    def value(place: Place, step: Place) -> tm.Expr:
        """The value of the site at a step from a place of the cell."""
        row, column = place[0] + step[0], place[1] + step[1]
        return sites[row % 2, column % 2][y + row // 2, x + column // 2]

    def green(place: Place, step: Place) -> tm.Expr:
        row, column = place[0] + step[0], place[1] + step[1]
        known = {RED: at_red, BLUE: at_blue}.get((row % 2, column % 2))
        return value(place, step) if known is None else known[y + row // 2, x + column // 2]

    def apart(place: Place, pair: Pair) -> tm.Expr:
        return tm.absd(value(place, pair[0]), value(place, pair[1]))

    def flatter(place: Place) -> tm.Expr:
        """The mean of the greens beside a place or above and below it, whichever differ less."""
        mean = [average(value(place, pair[0]), value(place, pair[1])) for pair in (BESIDE, ABOVE)]
        return tm.select(apart(place, BESIDE) < apart(place, ABOVE), *mean)

    def between(place: Place, pair: Pair) -> tm.Expr:
        """The mean of two sites of a colour, and how much green is more here than there."""
        greens = average(green(place, pair[0]), green(place, pair[1]))
        return green(place, (0, 0)) - greens + average(value(place, pair[0]), value(place, pair[1]))

    def diagonal(place: Place) -> tm.Expr:
        rising = apart(place, RISING) < apart(place, FALLING)
        return tm.select(rising, between(place, RISING), between(place, FALLING))

    at_red, at_blue = (f.computation(n, [y, x], flatter(a)) for n, a in (("at_red", RED), ("at_blue", BLUE)))
    places = (GREEN_BY_BLUE, BLUE, RED, GREEN_BY_RED)
    red = between(GREEN_BY_BLUE, ABOVE), diagonal(BLUE), value(RED, (0, 0)), between(GREEN_BY_RED, BESIDE)
    blue = between(GREEN_BY_BLUE, BESIDE), value(BLUE, (0, 0)), diagonal(RED), between(GREEN_BY_RED, ABOVE)
    all_three = (red, [green(place, (0, 0)) for place in places], blue)
    chosen = tm.mux(k, [tm.mux(2 * p + q, colour) for colour in all_three])
    return f.computation("colours", [k, p, q, y, x], tm.cast(tm.int16, chosen))


def corrected(f: tm.Function, colours: tm.Computation) -> tm.Computation:
    """The level for each colour of a site, by the matrix for the colour of the light."""
    here, weights = [tm.cast(tm.int32, colours[j, p, q, y, x]) for j in range(3)], correction(f)
    terms = [tm.cast(tm.int32, weights[k, j]) * here[j] for j in range(3)]
    warm = terms[0] + terms[1] + terms[2] + weights[k, 3]
    return f.computation("levels", [k, p, q, y, x], tm.clip(tm.cast(tm.int16, warm >> 8), 0, 1023))


def correction(f: tm.Function) -> tm.Computation:
    """The matrix for the colour of the light, between those for 3200 and 7000 kelvin, in 256ths."""
    cold, hot = (f.input(f"matrix_{kelvin}", tm.float32, [3, 4]) for kelvin in (3200, 7000))
    share = (1 / f.scalar("kelvin", tm.float64) - 1 / 3200) / (1 / 7000 - 1 / 3200)
    mixed = cold[k, j] * share + hot[k, j] * (1 - share)
    return f.computation("matrix", {k: 3, j: 4}, tm.cast(tm.int16, mixed * 256))


def tones(f: tm.Function) -> tm.Computation:
    """The byte for each level of the sensor: with gamma, and with more contrast in the middle."""
    black, white = f.scalar("black", tm.int32), f.scalar("white", tm.int32)
    gamma, contrast = f.scalar("gamma", tm.float64), f.scalar("contrast", tm.float64)
    b = 2 - tm.exp2(contrast / 100)
    a = 2 - 2 * b
    light = tm.clip(tm.cast(tm.float64, v - black) / tm.cast(tm.float64, white - black), 0.0, 1.0) ** (1 / gamma)
    dark = 1 - light
    curve = tm.select(light > 0.5, 1 - (a * dark * dark + b * dark), a * light * light + b * light)
    tone = tm.cast(tm.uint8, tm.clip(curve * 255 + 0.5, 0.0, 255.0))
    ends = tm.cast(tm.uint8, 0), tm.cast(tm.uint8, 255)
    return f.computation("tones", {v: 1024}, tm.select(v <= black, ends[0], tm.select(v > white, ends[1], tone)))


def sharpened(f: tm.Function, curved: tm.Computation) -> tm.Computation:
    """What a picture has more than its blurred form is added, times a strength in 32nds."""

    def blurred(before: tm.Expr, here: tm.Expr, after: tm.Expr) -> tm.Expr:
        return average(average(before, after), here)

    soft = blurred(*(blurred(*(curved[k, r + d, c + e] for d in (-1, 0, 1))) for e in (-1, 0, 1)))
    own = tm.cast(tm.int16, curved[k, r, c])
    strength = tm.saturating_cast(tm.uint8, f.scalar("sharpness", tm.float64) * 32)
    more = ((own - tm.cast(tm.int16, soft)) * tm.cast(tm.int16, strength)) >> 5
    return f.computation("picture", {k: 3, r: 2 * H, c: 2 * W}, tm.saturating_cast(tm.uint8, own + more))


def scheduled(
    cpu: tm.Target | None = None, *, band: int = 64, strip: int = 256, vectors: int = 2, streams: bool = False
) -> tm.Function:
    """Bands of rows; rows of cells are computed once, and kept in rings for the next.

    Levels of a `strip` of columns are in the first-level cache when they are looked up. The picture is stored some
    `vectors` of 16-bit numbers at a time, which are half as many of bytes.
    """
    lanes = (cpu or tm.target()).lanes(tm.uint16)
    f = algorithm()
    picture, curved, levels, colours, at_red, at_blue, calm = map(f.__getitem__, STAGES)
    calm.inline()
    picture.split(r, band, r0, r1)
    picture.split(r1, 2, y0, r1)
    picture.reorder(r0, y0, k, r1, c)
    picture.parallelize(r0)
    picture.vectorize(c, vectors * lanes, remainder="mask")
    if streams:
        picture.store_nontemporal()
    curved.compute_at(picture, y0)
    curved.slide(y0, r, 2, origin=-1)
    curved.split(r, 2, y, p, origin=-1)
    curved.split(c, strip, c0, c1, origin=-1)
    curved.split(c1, 2, x, q)
    curved.reorder(y, c0, k, p, x, q)
    curved.unroll(q)
    curved.vectorize(x, lanes, remainder="mask")
    levels.compute_at(curved, c0)
    levels.split(x, lanes, x0, x)
    levels.reorder(y, x0, k, p, q, x)
    for loop in (k, p, q):
        levels.unroll(loop)
    levels.vectorize(x, lanes, remainder="mask")
    colours.compute_at(levels, x0)
    for loop in (k, p, q):
        colours.unroll(loop)
    colours.vectorize(x, lanes, remainder="mask")
    for stage in (at_blue, at_red, *map(f.__getitem__, NAMES.values())):
        stage.compute_at(picture, y0)
        stage.slide(y0, y)
        stage.vectorize(x, lanes, remainder="mask")
    return f


def sample(rows: int, columns: int) -> Arguments:
    """What a sensor with 10 bits sees of a picture, with hot pixels; sizes are rounded up to whole cells."""
    height, width = (rows + 1) // 2, (columns + 1) // 2
    return {"raw": mosaic(planes(2 * height + 2 * ROWS, 2 * width + 2 * COLUMNS)), **SETTINGS}


def mosaic(picture: Array) -> Array:
    """One colour of each pixel, as numbers of 10 bits; every 997th pixel is hot."""
    raw = picture[1].copy()
    raw[::2, 1::2], raw[1::2, ::2] = picture[0, ::2, 1::2], picture[2, 1::2, ::2]
    raw.ravel()[::997] = 1
    return (25 + raw * 900).astype(np.uint16)


def exact(given: Arguments) -> Array:
    """The same on whole arrays of int64, in which a moved array is a neighbour; what wraps around is far outside."""
    raw = given["raw"].astype(np.int64)
    r, c = np.indices(raw.shape)
    red_row, green = r % 2 == 0, r % 2 == c % 2

    def near(a: Array, down: int, right: int) -> Array:
        return np.roll(a, (-down, -right), (0, 1))

    def pair(a: Array, down: int, right: int) -> tuple[Array, Array]:
        """The mean and the difference of two opposite neighbours."""
        one, other = near(a, down, right), near(a, -down, -right)
        return (one + other + 1) // 2, abs(one - other)

    calm = np.minimum(raw, np.max([near(raw, *step) for step in ((-2, 0), (2, 0), (0, -2), (0, 2))], axis=0))
    (down, down_apart), (across, across_apart) = pair(calm, 1, 0), pair(calm, 0, 1)
    greens = np.where(green, calm, np.where(across_apart < down_apart, across, down))

    def between(step: tuple[int, int]) -> Array:
        return greens - pair(greens, *step)[0] + pair(calm, *step)[0]

    rising, falling = (-1, 1), (1, 1)
    diagonal = np.where(pair(calm, *rising)[1] < pair(calm, *falling)[1], between(rising), between(falling))
    beside, above = between((0, 1)), between((1, 0))
    red = np.where(green, np.where(red_row, beside, above), np.where(red_row, calm, diagonal))
    blue = np.where(green, np.where(red_row, above, beside), np.where(red_row, diagonal, calm))
    share = (1 / given["kelvin"] - 1 / 3200) / (1 / 7000 - 1 / 3200)
    cold, hot = (given[f"matrix_{kelvin}"].astype(np.float64) for kelvin in (3200, 7000))
    matrix = ((cold * share + hot * (1 - share)) * 256).astype(np.int64)
    warm = np.einsum("kj,jrc->krc", matrix[:, :3], [red, greens, blue]) + matrix[:, 3, None, None]
    curved = tone_curve(given)[np.clip(warm >> 8, 0, 1023)]
    soft = curved
    for axis in (1, 2):
        soft = ((np.roll(soft, 1, axis) + np.roll(soft, -1, axis) + 1) // 2 + soft + 1) // 2
    sharp = curved + ((curved - soft) * int(given["sharpness"] * 32) >> 5)
    picture: Array = np.clip(sharp, 0, 255)[:, ROWS:-ROWS, COLUMNS:-COLUMNS]
    return picture


def tone_curve(given: Arguments) -> Array:
    """The bytes for all levels."""
    black, white = given["black"], given["white"]
    level = np.arange(1024)
    light = np.clip((level - black) / (white - black), 0, 1) ** (1 / given["gamma"])
    b = 2 - 2 ** (given["contrast"] / 100)
    a = 2 - 2 * b
    curve = np.where(light > 0.5, 1 - (a * (1 - light) ** 2 + b * (1 - light)), a * light**2 + b * light)
    tones = np.clip(curve * 255 + 0.5, 0, 255).astype(np.int64)
    return np.where(level <= black, 0, np.where(level > white, 255, tones))


def shown(kernel: tm.Kernel, picture: Array) -> Array:
    """A photograph as the sensor would see it, developed."""
    rows, columns = (size // 2 * 2 for size in picture.shape[1:])
    wide = np.pad(picture[:, :rows, :columns], ((0, 0), (ROWS, ROWS), (COLUMNS, COLUMNS)), "reflect")
    found: Any = kernel(raw=mosaic(wide), **SETTINGS)
    colours: Array = found / np.float32(255)
    return colours


if __name__ == "__main__":
    tell(scheduled, sample, exact, CLOSE, shown)
