"""A lens blur in Halide, with the schedule for CPUs of its `apps/lens_blur`.

Random samples are those of our app, and sizes of the pyramid are rounded up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

SLICES, FOCUS, SAMPLES, LEVELS, REACH = 32, 13, 32, 8, 9


def program(hl: Any, given: Mapping[str, Any], out: Any) -> Callable[[], object]:
    """The whole volume of costs, its pyramid by slices, and then pictures as a whole."""
    x, y, c = (hl.Var(name) for name in "xyc")
    left, right = (hl.BoundaryConditions.repeat_edge(hl.Buffer(given[name])) for name in ("left", "right"))
    push, cost, clear = costs(hl, left, right, out.shape[1:])
    pull = mixed(hl, push)
    depth, radius, square = (hl.Func(name) for name in ("depth", "radius", "square"))
    over, reach = hl.RDom([(0, SLICES)]), hl.RDom([(-REACH, 2 * REACH + 1)])
    depth[x, y] = hl.argmin(pull[0][x, y, over.x, 0] / pull[0][x, y, over.x, 1])[0]
    radius[x, y] = hl.abs(depth[x, y] - FOCUS) * hl.f32(0.5)
    square[x, y] = radius[x, y] * radius[x, y]
    down, worst, rgba, result, final = (hl.Func(name) for name in ("down", "worst", "rgba", "result", "final"))
    down[x, y] = hl.maximum(radius[x, y + reach.x])
    worst[x, y] = hl.maximum(down[x + reach.x, y])
    rgba[x, y, c] = hl.select(c < 3, hl.cast(hl.Float(32), left[x, y, hl.min(c, 2)]), hl.f32(255))
    places, weight = sampled(hl, worst, square, depth)
    samples = hl.RDom([(0, SAMPLES)])
    near = [places[x, y, samples.x][n] for n in (0, 1)]
    result[x, y, c] = rgba[x, y, c]
    result[x, y, c] += weight[x, y, samples.x] * rgba[x + near[0], y + near[1], c]
    final[x, y, c] = result[x, y, c] / result[x, y, 3]

    schedule_depth(hl, push, pull, cost, clear, depth)
    rgba.compute_root().reorder(c, x, y).unroll(c).vectorize(x, 8).parallel(y, 8)
    down.compute_at(final, y).vectorize(x, 8)
    final.compute_root().reorder(c, x, y).bound(c, 0, 3).unroll(c).vectorize(x, 8).parallel(y)
    worst.compute_at(final, y).vectorize(x, 8)
    result.compute_at(final, x).vectorize(x)
    result.update().reorder(c, x, samples.x).vectorize(x).unroll(c)
    weight.compute_at(result, x).unroll(x)
    places.compute_at(result, x).vectorize(x)
    final.compile_jit()
    into = hl.Buffer(out)
    return lambda: final.realize(into)


def costs(hl: Any, left: Any, right: Any, shape: tuple[int, int]) -> tuple[list[Any], Any, Any]:
    """The levels of the pyramid of costs, halved again and again; the costs and how clear they are."""
    x, y, z, c = (hl.Var(name) for name in "xyzc")
    apart, cost, clear = (hl.Func(name) for name in ("apart", "cost", "clear"))
    pairs = (hl.absd(left[x, y, c], right[x + 2 * z + d, y, c]) for d in (0, 1))
    apart[x, y, z, c] = hl.min(*pairs)
    squares = [hl.pow(hl.cast(hl.Float(32), apart[x, y, z, n]), 2) for n in range(3)]
    cost[x, y, z] = squares[0] + squares[1] + squares[2]
    over = hl.RDom([(0, SLICES)])
    mean = hl.sum(cost[x, y, over.x] / SLICES)
    clear[x, y] = hl.sum(hl.pow(cost[x, y, over.x], 2)) / SLICES - mean * mean
    push = [hl.Func("push0")]
    push[0][x, y, z, c] = hl.select(c == 0, cost[x, y, z] * clear[x, y], clear[x, y])
    height, width = shape
    for _ in range(1, LEVELS):
        height, width = (height + 1) // 2, (width + 1) // 2
        push.append(hl.BoundaryConditions.repeat_edge(halved(hl, push[-1]), [(0, width), (0, height)]))
    return push, cost, clear


def halved(hl: Any, of: Any) -> Any:
    """Every other element, with weights 1, 3, 3 and 1."""
    x, y, z, c = (hl.Var(name) for name in "xyzc")
    across, level = hl.Func("across"), hl.Func("level")
    three, eight = hl.f32(3), hl.f32(8)
    near = [of[2 * x + n, y, z, c] for n in range(-1, 3)]
    across[x, y, z, c] = (near[0] + three * (near[1] + near[2]) + near[3]) / eight
    near = [across[x, 2 * y + n, z, c] for n in range(-1, 3)]
    level[x, y, z, c] = (near[0] + three * (near[1] + near[2]) + near[3]) / eight
    return level


def mixed(hl: Any, push: list[Any]) -> list[Any]:
    """Each level mixed with the coarser ones, from the finest."""
    x, y, z, c = (hl.Var(name) for name in "xyzc")
    pull = [hl.Func(f"pull{n}") for n in range(LEVELS)]
    pull[-1][x, y, z, c] = push[-1][x, y, z, c]
    for n in reversed(range(LEVELS - 1)):
        wide, tall, of = hl.Func("wide"), hl.Func("tall"), pull[n + 1]
        wide[x, y, z, c] = hl.f32(0.25) * of[x / 2 - 1 + 2 * (x % 2), y, z, c] + hl.f32(0.75) * of[x / 2, y, z, c]
        tall[x, y, z, c] = hl.f32(0.25) * wide[x, y / 2 - 1 + 2 * (y % 2), z, c] + hl.f32(0.75) * wide[x, y / 2, z, c]
        pull[n][x, y, z, c] = hl.lerp(tall[x, y, z, c], push[n][x, y, z, c], hl.f32(0.5))
    return pull


def sampled(hl: Any, worst: Any, square: Any, depth: Any) -> tuple[Any, Any]:
    """Where the samples of a pixel are, and whether they count."""
    x, y, z = (hl.Var(name) for name in "xyz")
    places, weight = hl.Func("places"), hl.Func("weight")
    bits = hl.u32(3)
    for number in (y, x, z):
        bits = (bits ^ hl.cast(hl.UInt(32), number)) * hl.u32(0x9E3779B1)
        bits = bits ^ (bits >> hl.u32(15))
    halves = (bits & hl.u32(0xFFFF), bits >> hl.u32(16))
    numbers = [hl.cast(hl.Float(32), half) * hl.f32(2.0**-15) - hl.f32(1) for half in halves]
    down, across = (hl.clamp(hl.cast(hl.Int(32), n * worst[x, y]), -REACH, REACH) for n in numbers)
    places[x, y, z] = (across, down)
    across, down = (places[x, y, z][n] for n in (0, 1))
    area = across * across + down * down
    there = x + across, y + down
    covered, covering = area < square[x, y], area < square[there[0], there[1]]
    counts = (covered | (depth[there[0], there[1]] < depth[x, y])) & covering
    weight[x, y, z] = hl.select(counts, hl.f32(1), hl.f32(0))
    return places, weight


def schedule_depth(hl: Any, push: list[Any], pull: list[Any], cost: Any, clear: Any, depth: Any) -> None:
    """The app's schedule up to the depth."""
    x, y, z, c, xi, yi, t = (hl.Var(name) for name in ("x", "y", "z", "c", "xi", "yi", "t"))
    push[0].compute_root().reorder(c, z, x, y).bound(c, 0, 2).unroll(c).vectorize(x, 16).parallel(y, 4)
    for stage in (cost, clear):
        stage.compute_at(push[0], x).vectorize(x)
    for n in range(1, LEVELS):
        push[n].compute_at(pull[1], t).vectorize(push[n].args()[0], 8)
        if n > 1:
            pull[n].compute_at(pull[1], t).tile(x, y, xi, yi, 8, 2).vectorize(xi).unroll(yi)
    pull[1].compute_root().fuse(z, c, t).parallel(t).tile(x, y, xi, yi, 8, 2).vectorize(xi).unroll(yi)
    depth.compute_root().tile(x, y, xi, yi, 8, 2).vectorize(xi).unroll(yi).parallel(y, 8)
