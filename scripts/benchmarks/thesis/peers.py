"""The five pictures of figure 5-4 in Halide, which computes the same values on one node, and ours as contenders."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.common.rounds import paired, serve
from benchmarks.thesis import programs

Run = Callable[[], object]
Arrays = dict[str, np.ndarray]


def available() -> bool:
    """Whether Halide is installed."""
    return importlib.util.find_spec("halide") is not None


def halide(name: str, given: Arrays, out: np.ndarray) -> Run:
    """The picture in Halide with its usual schedule: parallel bands of rows, vectors of 16, first stages in bands."""
    import halide as hl  # noqa: PLC0415 (an optional peer)

    x, y, xi, yi = (hl.Var(each) for each in ("x", "y", "xi", "yi"))
    result = hl.Func("result")
    if name == "cvtColor":
        rgb = hl.Buffer(given["rgb"])
        red, green, blue = (hl.i32(rgb[channel, x, y]) for channel in range(3))
        result[x, y] = hl.u8((4899 * red + 9617 * green + 1868 * blue + 8192) >> 14)
    elif name == "pipeline":
        bright = hl.Func("bright")
        bright[x, y] = hl.u8(hl.min(hl.i32(hl.Buffer(given["image"])[x, y]) + 50, 255))
        result[x, y] = hl.u8(255) - bright[x, y]
    elif name == "convolution":
        image, weights = hl.Buffer(given["image"]), hl.Buffer(given["weights"])
        terms = [weights[dx, dy] * image[x + dx, y + dy] for dy in range(3) for dx in range(3)]
        result[x, y] = sum(terms[1:], terms[0])
    elif name == "Gaussian":
        image, across = hl.Buffer(given["image"]), hl.Func("across")
        weights = [hl.f32(w) for w in (0.0625, 0.25, 0.375, 0.25, 0.0625)]
        terms = [w * image[x + d, y] for d, w in enumerate(weights)]
        across[x, y] = sum(terms[1:], terms[0])
        terms = [w * across[x, y + d] for d, w in enumerate(weights)]
        result[x, y] = sum(terms[1:], terms[0])
    else:
        image = hl.Buffer(given["image"])
        result[x, y] = _sobel(hl, image, x, y)
    if name == "Gaussian":
        result.tile(x, y, xi, yi, 256, 32).vectorize(xi, 16).parallel(y)
        across.compute_at(result, x).vectorize(x, 16)
    else:
        result.split(y, y, yi, 8).vectorize(x, 16).parallel(y)
    result.compile_jit()
    into = hl.Buffer(out)
    return lambda: result.realize(into)


def _sobel(hl: Any, image: Any, x: Any, y: Any) -> Any:
    def at(dy: int, dx: int) -> Any:
        return image[x + 1 + dx, y + 1 + dy]

    two = hl.f32(2)
    across = at(-1, 1) + two * at(0, 1) + at(1, 1) - at(-1, -1) - two * at(0, -1) - at(1, -1)
    down = at(1, -1) + two * at(1, 0) + at(1, 1) - at(-1, -1) - two * at(-1, 0) - at(-1, 1)
    return hl.abs(across) + hl.abs(down)


def ours(name: str, given: Arrays, rows: int) -> tuple[Run, np.ndarray]:
    """The program for ranks, on one rank, and the array of its result."""
    from mpi4py import MPI  # noqa: PLC0415 (where Halide runs it is not needed)

    f = programs.picture(name, 1, rows)
    kernel = f.compile()
    out = np.zeros_like(kernel(**given, comm=MPI.COMM_WORLD))
    into = {f.algorithm.outputs[0]: out}
    return lambda: kernel(**given, **into, comm=MPI.COMM_WORLD), out


def inside(name: str, result: np.ndarray) -> np.ndarray:
    """The points of our result that Halide computes, too."""
    if name == "convolution":
        return result[:-2, :-2]
    if name == "Gaussian":
        return result[2:-2]
    return result[1:-1, 1:-1] if name == "Sobel" else result


def agree(name: str, rows: int, columns: int) -> bool:
    """Whether both compute the same picture, except for the rounding of fused operations."""
    given = programs.sample(name, rows, columns)
    run, mine = ours(name, given, rows)
    run()
    theirs = np.zeros(inside(name, mine).shape, mine.dtype)
    halide(name, given, theirs)()
    return bool(np.allclose(inside(name, mine), theirs, rtol=1e-4, atol=1e-4))


def compared(rows: int, columns: int, threads: int, seconds: float) -> dict[str, dict[str, float]]:
    """Least times of paired rounds for each picture: ours and Halide's."""
    found = {}
    for name in programs.PICTURES:
        contenders = [f"{name}/ours", *([f"{name}/Halide"] if available() else [])]
        times = paired("thesis.peers", contenders, ["--size", str(rows), str(columns)], threads, seconds)
        found[name] = {each.partition("/")[2]: time for each, time in times.items()}
    return found


def contend(name: str, rows: int, columns: int) -> None:
    """The process of one contender."""
    picture, _, whose = name.partition("/")
    given = programs.sample(picture, rows, columns)
    if whose == "ours":
        serve(ours(picture, given, rows)[0])
        return
    if not agree(picture, 64, 600):
        sys.exit(f"Halide's {picture} differs from ours")
    missing = {"convolution": (2, 2), "Gaussian": (4, 4), "Sobel": (2, 2)}.get(picture, (0, 0))
    dtype = np.uint8 if picture in ("cvtColor", "pipeline") else np.float32
    serve(halide(picture, given, np.zeros((rows - missing[0], columns - missing[1]), dtype)))


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--contender", required=True)
    options.add_argument("--size", type=int, nargs=2, required=True)
    chosen = options.parse_args()
    contend(chosen.contender, *chosen.size)
