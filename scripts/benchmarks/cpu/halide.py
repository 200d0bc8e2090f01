"""The workloads in Halide: its usual schedule, and the fastest of the schedules that experts would try."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.cpu.workloads import STEPS, Array

Run = Callable[[], object]
Plan = tuple[str, ...]
Programs = dict[str, Callable[[], Run]]
#: What becomes of a scheduled Halide function and the buffer of its result.
Finish = Callable[[Any, Any], Run]


def realized(result: Any, into: Any) -> Run:
    """A call of a scheduled Halide function."""
    result.compile_jit()
    return lambda: result.realize(into)


def programs(name: str, given: Mapping[str, Any], out: Mapping[str, Array], finish: Finish = realized) -> Programs:
    """Programs by the name of their schedule, each built when it is called; the usual schedule comes first."""
    import halide as hl  # noqa: PLC0415 (an optional peer)

    if name == "heat":
        return heat(hl, given, out)
    makers: dict[str, Callable[[Any, Mapping[str, Any], Mapping[str, Array], Finish], Programs]] = {
        "blur": blur, "gauss": gauss, "grey": grey, "edge": edge, "negative": negative, "warp": warp, "warp8": warp,
    }  # fmt: skip
    return makers[name](hl, given, out, finish)


# -- two stages


def schedules(widths: tuple[int, ...], usual: int, sliding: bool) -> Iterator[tuple[str, str, int, int]]:
    """The schedules to try for two stages: name, kind, lanes, rows; `sliding` if neighbours share values."""
    yield f"tiles of 256 x 32, {usual} lanes", "tiles", usual, 32
    for width, rows in itertools.product(widths, (8, 64)):
        yield f"rows sliding in bands of {rows}, {width} lanes", "rows", width, rows
    for width, rows in itertools.product(widths, (4, 8)):
        yield f"{rows} rows in registers, {width} lanes", "registers", width, rows
    for width, rows in itertools.product(widths if sliding else (), (4, 8)):
        yield f"{rows} rows in registers, sliding along them, {width} lanes", "window", width, rows


def schedule(hl: Any, first: Any, last: Any, kind: str, lanes: int, rows: int) -> None:
    """One of `schedules`."""
    x, y, xi, yi = (hl.Var(word) for word in ("x", "y", "xi", "yi"))
    if kind == "tiles":
        last.tile(x, y, xi, yi, 256, rows).vectorize(xi, lanes).parallel(y)
        first.compute_at(last, x).vectorize(x, lanes)
    elif kind == "rows":
        last.split(y, y, yi, rows).parallel(y).vectorize(x, lanes)
        first.store_at(last, y).compute_at(last, yi).vectorize(x, lanes)
    else:
        last.tile(x, y, xi, yi, lanes, rows).vectorize(xi, lanes).unroll(yi).parallel(y)
        first.compute_at(last, x).vectorize(x, lanes).unroll(y)
        if kind == "window":
            first.store_at(last, y).fold_storage(x, 2 * lanes)


def staged(
    hl: Any, stages: Mapping[str, Callable[[], tuple[Any, Any]]], into: Any, widths: tuple[int, ...], finish: Finish
) -> Programs:
    """All schedules for each order of the two stages; the first order is the usual one."""

    def maker(make: Callable[[], tuple[Any, Any]], kind: str, lanes: int, rows: int) -> Callable[[], Run]:
        def made() -> Run:
            first, last = make()
            schedule(hl, first, last, kind, lanes, rows)
            return finish(last, into)

        return made

    return {
        f"{order}{words}": maker(make, kind, lanes, rows)
        for order, make in stages.items()
        for words, kind, lanes, rows in schedules(widths, widths[0], len(stages) == 1 or order != "")
    }


def separable(
    hl: Any, image: Array, out: Array, weigh: Callable[[list[Any]], Any], taps: int, finish: Finish
) -> Programs:
    """The same weights along both dimensions, with either dimension first."""
    x, y, picture = hl.Var("x"), hl.Var("y"), hl.Buffer(image)

    def stages(horizontal_first: bool) -> tuple[Any, Any]:
        first, last = hl.Func("first"), hl.Func("last")
        along = [(d, 0) if horizontal_first else (0, d) for d in range(taps)]
        first[x, y] = weigh([picture[x + dx, y + dy] for dx, dy in along])
        last[x, y] = weigh([first[x + dy, y + dx] for dx, dy in along])
        return first, last

    return staged(
        hl, {"": lambda: stages(True), "down first, ": lambda: stages(False)}, hl.Buffer(out), (16, 32), finish
    )


def blur(hl: Any, given: Mapping[str, Any], out: Mapping[str, Array], finish: Finish) -> Programs:
    """Sums of three, times a third."""
    third = hl.f32(float(np.float32(1 / 3)))
    return separable(hl, given["image"], out["by"], lambda at: (at[0] + at[1] + at[2]) * third, 3, finish)


def gauss(hl: Any, given: Mapping[str, Any], out: Mapping[str, Array], finish: Finish) -> Programs:
    """Weights 1 4 6 4 1."""
    outer, inner, centre = (hl.f32(w) for w in (0.0625, 0.25, 0.375))

    def weigh(at: list[Any]) -> Any:
        return (at[0] + at[4]) * outer + (at[1] + at[3]) * inner + at[2] * centre

    return separable(hl, given["image"], out["smooth"], weigh, 5, finish)


def edge(hl: Any, given: Mapping[str, Any], out: Mapping[str, Array], finish: Finish) -> Programs:
    """The mean of a ring of bytes, then two differences."""
    x, y, picture = hl.Var("x"), hl.Var("y"), hl.Buffer(given["image"])

    def stages() -> tuple[Any, Any]:
        ring, edges = hl.Func("ring"), hl.Func("edges")
        around = [(0, 0), (1, 0), (2, 0), (0, 1), (2, 1), (0, 2), (1, 2), (2, 2)]
        terms = [hl.u16(picture[x + dx, y + dy]) for dx, dy in around]
        ring[x, y] = hl.u8(sum(terms[1:], terms[0]) >> 3)
        first, second = hl.absd(ring[x + 1, y], ring[x, y + 1]), hl.absd(ring[x + 1, y + 1], ring[x, y])
        edges[x, y] = hl.u8_sat(hl.u16(first) + hl.u16(second))
        return ring, edges

    return staged(hl, {"": stages}, hl.Buffer(out["edges"]), (32, 64), finish)


# -- one stage


def blocks(
    hl: Any, make: Callable[[Any], tuple[Any, Any]], widths: tuple[int, ...], count: int, finish: Finish
) -> Programs:
    """A loop over `count` bytes, in blocks distributed over the threads."""

    def maker(lanes: int) -> Callable[[], Run]:
        def made() -> Run:
            x, inner = hl.Var("x"), hl.Var("inner")
            result, into = make(x)
            result.split(x, x, inner, min(64000, count)).parallel(x).vectorize(inner, lanes)
            return finish(result, into)

        return made

    return {f"{lanes} lanes": maker(lanes) for lanes in widths}


def grey(hl: Any, given: Mapping[str, Any], out: Mapping[str, Array], finish: Finish) -> Programs:
    """Fixed-point weights of interleaved bytes."""
    rgb, into = hl.Buffer(given["rgb"].reshape(-1)), hl.Buffer(out["brightness"])

    def make(x: Any) -> tuple[Any, Any]:
        result = hl.Func("brightness")
        red, green, blue = (hl.i32(rgb[3 * x + channel]) for channel in range(3))
        result[x] = hl.u8((red * 4899 + green * 9617 + blue * 1868 + 8192) >> 14)
        return result, into

    return blocks(hl, make, (32, 16, 64), out["brightness"].size, finish)


def negative(hl: Any, given: Mapping[str, Any], out: Mapping[str, Array], finish: Finish) -> Programs:
    """Two results in the same loop."""
    image, into = hl.Buffer(given["image"]), [hl.Buffer(out["inverse"]), hl.Buffer(out["brighter"])]

    def make(x: Any) -> tuple[Any, Any]:
        both, v = hl.Func("both"), image[x]
        both[x] = hl.Tuple([hl.u8(255) - v, hl.u8_sat(hl.u16(v) + hl.u16(v >> 1))])
        return both, into

    return blocks(hl, make, (32, 64, 16), out["inverse"].size, finish)


def warp(hl: Any, given: Mapping[str, Any], out: Mapping[str, Array], finish: Finish) -> Programs:
    """Four neighbours of a computed place."""
    from benchmarks.cpu.workloads import WORKLOADS  # noqa: PLC0415 (not needed by others)

    story, image = WORKLOADS["warp"].module(), given["image"]
    rows, columns = image.shape
    picture, into = hl.Buffer(image), hl.Buffer(out["warped"])

    def at(map_: tuple[Any, ...], x: Any, y: Any) -> tuple[Any, Any]:
        place = hl.f32(x) * float(map_[0]) + (hl.f32(y) * float(map_[1]) + float(map_[2]))
        whole = hl.i32(hl.floor(place))
        return whole, place - hl.f32(whole)

    def maker(lanes: int) -> Callable[[], Run]:
        def made() -> Run:
            x, y, warped = hl.Var("x"), hl.Var("y"), hl.Func("warped")
            (column, right), (row, down) = at(story.ACROSS, x, y), at(story.DOWN, x, y)
            inside = (column >= 0) & (column < columns - 1) & (row >= 0) & (row < rows - 1)
            left, top = hl.clamp(column, 0, columns - 2), hl.clamp(row, 0, rows - 2)
            taps = [[hl.f32(picture[left + dx, top + dy]) for dx in (0, 1)] for dy in (0, 1)]
            upper, lower = (a + right * (b - a) for a, b in taps)
            mixed = upper + down * (lower - upper)
            if image.dtype == np.uint8:
                warped[x, y] = hl.u8(hl.select(inside, hl.i32(mixed + 0.5), 0))
            else:
                warped[x, y] = hl.select(inside, mixed, hl.f32(0))
            warped.vectorize(x, lanes).parallel(y, 8)
            return finish(warped, into)

        return made

    return {f"{lanes} lanes": maker(lanes) for lanes in (16, 8, 32)}


def heat(hl: Any, given: Mapping[str, Any], out: Mapping[str, Array]) -> Programs:
    """Fifty calls, from one array into the other; the edges are there from the start."""
    start, last = given["start"], out["heat_out"]
    other = np.array(start)
    grids = (other, last)

    def maker(lanes: int, rows: int) -> Callable[[], Run]:
        def made() -> Run:
            last[:] = start
            x, y, xi, yi, step = hl.Var("x"), hl.Var("y"), hl.Var("xi"), hl.Var("yi"), hl.Func("step")
            image = hl.ImageParam(hl.Float(32), 2)
            around = (image[x - 1, y] + image[x + 1, y]) + (image[x, y - 1] + image[x, y + 1])
            step[x, y] = image[x, y] * hl.f32(0.6) + around * hl.f32(0.1)
            if rows == 1:
                step.vectorize(x, lanes).parallel(y, 16)
            else:
                inwards = hl.TailStrategy.ShiftInwards
                step.tile(x, y, xi, yi, lanes, rows, tail=inwards).vectorize(xi, lanes).unroll(yi).parallel(y)
            sources = [hl.Buffer(array) for array in (start, *grids)]
            insides = [hl.Buffer(grid[1:-1, 1:-1]) for grid in grids]
            for inside in insides:
                inside.set_min([1, 1])
            step.compile_jit()

            def run() -> None:
                for t in range(STEPS):
                    image.set(sources[0] if t == 0 else sources[2 - t % 2])
                    step.realize(insides[t % 2])

            return run

        return made

    return {
        f"{'a row' if rows == 1 else f'{rows} rows'} at a time, {lanes} lanes": maker(lanes, rows)
        for rows in (1, 4, 8)
        for lanes in (16, 8)
        if (rows, lanes) != (8, 8)
    }
