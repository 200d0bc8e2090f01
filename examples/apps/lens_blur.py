"""A lens with little depth of field, from two photographs taken side by side: what is out of focus is blurred.

The depth of a pixel is the displacement for which both pictures agree best, after these differences have been smoothed
by a pyramid, in which pixels count by how clearly they prefer one. Each pixel is then the mean of random ones nearby
whose discs of confusion cover it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add, or_
from typing import Any

import numpy as np
from story import Arguments, Array, planes, tell

import tiramisu_py as tm

R, C = tm.params("R C")
z, k, r, c, s, r0, c0, r1, c1 = tm.iters("z k r c s r0 c0 r1 c1")
SLICES, FOCUS, SAMPLES, LEVELS, REACH = 32, 13, 32, 8, 9
MARGIN = 12  # of arrays in NumPy
CLOSE = 1e-5
APART = 1e-3  # of large pictures: where two depths are equally good up to rounding


def algorithm() -> tm.Function:
    """The depth of each pixel, the radius of its disc, and the mean of those that cover a pixel."""
    f = tm.Function("lens_blur", params=[R, C], assume="R >= 1 and C >= 1")
    around = {r: (-REACH, R + REACH), c: (-REACH, C + REACH)}
    pictures = (f.input(name, tm.uint8, [3, R, C]) for name in ("left", "right"))
    left, right = (tm.boundary.repeat_edge(each, [1, 2])[k, r, c] for each in pictures)
    left, right = f.computation("framed_left", {k: 3, **around}, left), f.computation("framed_right", [k, r, c], right)
    best = [tm.minimum(*(tm.absd(left[n, r, c], right[n, r, c + 2 * z + d]) for d in (0, 1))) for n in range(3)]
    cost = f.computation("cost", [z, r, c], reduce(add, (tm.cast(tm.float32, each) * each for each in best)))
    both = tm.operator("both", lambda a, b: tuple(map(add, a, b)), (np.float32(0),) * 2)
    sums = f.reduction("sums", [r, c], {z: SLICES}, both, (cost[z, r, c], cost[z, r, c] * cost[z, r, c]))
    trust = f.computation("trust", [r, c], sums[r, c][1] * np.float32(SLICES) - sums[r, c][0] * sums[r, c][0])
    weighed = f.computation("weighed", [z, r, c], cost[z, r, c] * trust[r, c])
    smooth, clear = smoothed(f, "cost", {z: SLICES}, weighed), smoothed(f, "trust", {}, trust)
    nearest = f.reduction("nearest", [r, c], {z: SLICES}, tm.argmin, smooth[z, r, c] / clear[r, c])
    channels = enumerate((*(left[n, r, c] for n in range(3)), nearest[r, c][1]))
    packed = f.computation("packed", around, reduce(or_, (tm.cast(tm.uint32, each) << 8 * n for n, each in channels)))
    disc, reach = tm.cast(tm.float32, abs(byte(packed[r + k, c], 3) - FOCUS)), {k: (-REACH, REACH + 1)}
    worst = f.reduction("worst_down", [r, c], reach, tm.max, disc)
    worst = f.reduction("worst", [r, c], reach, tm.max, worst[r, c + k])
    steps = [f.computation(name, [s, r, c], tm.cast(tm.int32, n * worst[r, c])) for name, n in random(r, c, s).items()]
    down, across = (tm.clip(step[s, r, c], -REACH, REACH) for step in steps)
    there, depth, apart = packed[r + down, c + across], byte(packed[r, c], 3), 4 * (down * down + across * across)
    covered, covering = (apart < (d - FOCUS) * (d - FOCUS) for d in (depth, byte(there, 3)))
    share = tm.select((covered | (byte(there, 3) < depth)) & covering, np.float32(1), np.float32(0))
    all_four = tm.operator("all_four", lambda a, b: tuple(map(add, a, b)), (np.float32(0),) * 4)
    terms = (*(share * tm.cast(tm.float32, byte(there, n)) for n in range(3)), share)
    light = f.reduction("light", [r, c], {s: SAMPLES}, all_four, terms)
    total = tm.mux(k, [light[r, c][n] for n in range(3)]) + left[k, r, c]
    f.outputs(f.computation("blurred", {k: 3, r: R, c: C}, total / (np.float32(255) * (light[r, c][3] + 1))))
    return f


def byte(packed: tm.Expr, number: int) -> tm.Expr:
    """One of four numbers below 256 that are packed: three colours and a depth."""
    return tm.cast(tm.int32, packed >> 8 * number & 255)


def random(*numbers: tm.Iter) -> dict[str, tm.Expr]:
    """Two numbers from -1/2 to 1/2, the same for the same pixel and sample: the halves of bits that are mixed."""
    bits = tm.cast(tm.uint32, len(numbers))
    for number in numbers:
        bits = (bits ^ tm.cast(tm.uint32, number)) * np.uint32(0x9E3779B1)
        bits = bits ^ (bits >> 15)
    halves = {"down": bits & 0xFFFF, "across": bits >> 16}
    return {name: tm.cast(tm.float32, half) * np.float32(2**-16) - np.float32(0.5) for name, half in halves.items()}


def smoothed(f: tm.Function, name: str, slices: dict[tm.Iter, int], fine: Any) -> Any:
    """Halve a picture again and again, and mix each level with the next coarser one."""
    lead, levels = list(slices), [fine]
    for n in range(1, LEVELS):
        across = f.computation(f"{name}_across{n}", [*lead, r, c], halved(levels[-1], lead, (0, 1)))
        domain = {**slices, r: (R + (2**n - 1)) // 2**n, c: (C + (2**n - 1)) // 2**n}
        level = f.computation(f"{name}{n}", domain, halved(across, lead, (1, 0)))
        levels.append(tm.boundary.repeat_edge(level, [len(lead), len(lead) + 1]))
    mixed = levels[-1]
    for n in reversed(range(LEVELS - 1)):
        wide = f.computation(f"{name}_wide{n}", [*lead, r, c], doubled(lambda i, g=mixed: g[(*lead, r, i)], c))
        both = doubled(lambda i, g=wide: g[(*lead, i, c)], r) + levels[n][(*lead, r, c)]
        mixed = f.computation(f"{name}_mixed{n}", [*lead, r, c], both * np.float32(0.5))
    return mixed


def halved(g: Any, lead: list[tm.Iter], step: tuple[int, int]) -> tm.Expr:
    """Means of four elements along one dimension, with weights 1, 3, 3 and 1, at every other of them."""
    a, b, d, e = (g[(*lead, r + step[0] * (r + n), c + step[1] * (c + n))] for n in range(-1, 3))
    return (a + np.float32(3) * (b + d) + e) * np.float32(0.125)


def doubled(at: Callable[[Any], tm.Expr], i: tm.Iter) -> tm.Expr:
    """Between the elements of a coarser level."""
    return np.float32(0.25) * at(i // 2 - 1 + 2 * (i % 2)) + np.float32(0.75) * at(i // 2)


def scheduled(cpu: tm.Target | None = None, *, band: int = 8, vectors: int = 1) -> tm.Function:
    """Costs are computed where they are read, slices of the pyramid one by one, and its finest level with the depth."""
    lanes = vectors * (cpu or tm.target()).lanes(tm.float32)
    f = algorithm()
    for name in ("cost", "weighed"):
        f[name].inline()
    stages = {name: f[name] for name in f.algorithm.computations if name not in ("cost", "weighed")}
    *pyramid, coarse, wide, smooth = (name for name in stages if name.startswith("cost"))
    trust, packed, nearest, light, blurred = (f[name] for name in ("trust", "packed", "nearest", "light", "blurred"))
    packed.split(r, band, r0, r1)
    trust.split(c, lanes, c0, c1)
    blurred.split(c, lanes, c0, c1).reorder(r, c0, k, c1)
    for stage, loops in ((nearest, (z, r, c)), (f["sums"], (z, c)), (light, (s, c))):
        stage.update.reorder(*loops)
    places = {"nearest": (packed, r0), "sums": (trust, c0), "light": (blurred, c0), "worst": (blurred, r)}
    places |= {"worst_down": (blurred, r)} | dict.fromkeys(("down", "across"), (light.update, s))
    places |= dict.fromkeys((smooth, wide), (nearest.update, z)) | dict.fromkeys(reversed(pyramid), (f[coarse], z))
    for name, place in places.items():
        stages[name].compute_at(*place)
    for name in ("sums", "light", "down", "across"):
        f[name].store_in(tm.REGISTER)
    for name in (each for each in stages if each not in places):
        f[name].parallelize({coarse: z, "packed": r0}.get(name, r))
    for name, stage in stages.items():
        stage.vectorize(c1 if name in ("trust", "blurred") else c, lanes, remainder="mask")
    return f


def sample(rows: int, columns: int) -> Arguments:
    """Two pictures: what is in a band of rows is as far to the right in the second one as the band says."""
    left = (planes(rows, columns) * 255).astype(np.uint8)
    moved = np.arange(columns) - 2 * (5 + np.arange(rows)[:, None] // 16 % 16)
    right = left[:, np.arange(rows)[:, None], np.clip(moved, 0, columns - 1)]
    return {"left": left, "right": right + np.random.default_rng(1).integers(0, 2, right.shape, np.uint8)}


def exact(given: Arguments) -> Array:
    """The same in float64, a slice at a time."""
    rows, columns = given["left"].shape[1:]
    left, right = (given[name].astype(np.float64) for name in ("left", "right"))
    r, c = np.arange(-MARGIN, rows + MARGIN), np.arange(-MARGIN, columns + MARGIN)

    def picture(of: Array, more: int) -> Array:
        return of[:, np.clip(r, 0, rows - 1)][:, :, np.clip(c + more, 0, columns - 1)]

    def cost(z: int) -> Array:
        apart = [np.abs(picture(left, 0) - picture(right, 2 * z + d)) for d in (0, 1)]
        total: Array = np.square(np.minimum(*apart)).sum(0)
        return total

    costs = (cost(z) for z in range(SLICES))
    mean, square = np.sum([(each, each * each) for each in costs], 0) / SLICES
    trust = square - mean * mean
    clear, best = pyramid(trust), np.full(trust.shape, np.inf)
    depth = np.zeros(trust.shape, np.int64)
    for z in range(SLICES):
        with np.errstate(invalid="ignore"):  # where all slices are alike, the first is chosen
            smooth = pyramid(cost(z) * trust) / clear
        depth[smooth < best] = z
        best = np.minimum(best, smooth)
    return rendered(depth, picture(left, 0))


def pyramid(fine: Array) -> Array:
    """What `smoothed` makes of an array that has a margin on each side."""
    sizes = [[-(-(length - 2 * MARGIN) // 2**n) for length in fine.shape] for n in range(LEVELS)]
    levels, around = [fine], [[np.arange(-MARGIN, length + MARGIN) for length in size] for size in sizes]
    for n in range(1, LEVELS):
        level = levels[-1]
        for axis in (1, 0):
            places = (2 * np.arange(sizes[n][axis]) + step for step in range(-1, 3))
            kept = (p + MARGIN if n == 1 else np.clip(p, 0, sizes[n - 1][axis] - 1) for p in places)
            first, second, third, fourth = (np.take(level, p, axis) for p in kept)
            level = (first + 3 * (second + third) + fourth) / 8
        levels.append(level)
    clipped = [[np.clip(i, 0, len(i) - 2 * MARGIN - 1) for i in each] for each in around]
    edges = [level[np.ix_(*each)] for level, each in zip(levels, clipped, strict=True)]
    mixed, edges[0] = edges[-1], fine
    for n in reversed(range(LEVELS - 1)):
        for axis in (1, 0):
            i = around[n][axis]
            near, far = i // 2, i // 2 - 1 + 2 * (i % 2)
            mixed = np.take(mixed, far + MARGIN, axis) / 4 + np.take(mixed, near + MARGIN, axis) * 3 / 4
        mixed = (mixed + edges[n]) / 2
    return mixed


def rendered(depth: Array, left: Array) -> Array:
    """The means of the samples whose discs cover a pixel."""
    rows, columns = (length - 2 * MARGIN for length in depth.shape)
    reach = MARGIN - REACH
    worst = np.abs(depth - FOCUS) / 2
    worst = np.max([worst[n : n + rows] for n in range(reach, reach + 2 * REACH + 1)], 0)
    worst = np.max([worst[:, n : n + columns] for n in range(reach, reach + 2 * REACH + 1)], 0)
    r, c = np.arange(rows)[:, None], np.arange(columns)
    here, light = depth[r + MARGIN, c + MARGIN], left[:, r + MARGIN, c + MARGIN]
    share = np.ones(here.shape)
    for s in range(SAMPLES):
        down, across = (np.clip(np.trunc(n * worst), -REACH, REACH).astype(int) for n in drawn(r, c, s))
        there = depth[r + MARGIN + down, c + MARGIN + across]
        covered, covering = (down**2 + across**2 < np.square(d - FOCUS) / 4 for d in (here, there))
        counts = (covered | (there < here)) & covering
        light = light + counts * left[:, r + MARGIN + down, c + MARGIN + across]
        share = share + counts
    means: Array = light / (255 * share)
    return means


def drawn(*numbers: Any) -> list[Array]:
    """The numbers of `random`."""
    bits = np.uint32(len(numbers))
    with np.errstate(over="ignore"):
        for number in numbers:
            bits = (bits ^ np.asarray(number, np.uint32)) * np.uint32(0x9E3779B1)
            bits = bits ^ (bits >> np.uint32(15))
    return [half * 2.0**-15 - 1 for half in (bits & 0xFFFF, bits >> np.uint32(16))]


def shown(kernel: tm.Kernel, picture: Array) -> Array:
    """The photograph, as if it were tilted: its bands are nearer and farther."""
    _, rows, columns = picture.shape
    given = sample(rows, columns)
    moved = np.arange(columns) - 2 * (5 + np.arange(rows)[:, None] // 16 % 16)
    left = (picture * 255).astype(np.uint8)
    given = {"left": left, "right": left[:, np.arange(rows)[:, None], np.clip(moved, 0, columns - 1)]}
    found: Any = kernel(**given)
    blurred: Array = found
    return blurred


if __name__ == "__main__":
    tell(scheduled, sample, exact, CLOSE, shown)
