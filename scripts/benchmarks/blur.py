"""Run time of the 3 x 3 box blur beside Halide's usual schedule and beside a copy of the same bytes.

Every program computes the same values: sums of three, times a third, across and then down. The copy reads and writes
the bytes that a perfect blur would.
"""

from __future__ import annotations

import argparse
import os
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import tiramisu_py as tm
from benchmarks.common import one_processor
from benchmarks.common.rounds import each_alignment, paired, serve
from benchmarks.common.shared_arrays import own
from benchmarks.common.tables import report, table

SIZES = ((1600, 2560), (8000, 8000))
THIRD = np.float32(1 / 3)
Array = np.ndarray[Any, np.dtype[np.float32]]
Run = Callable[[], object]


def aligned(rows: int, columns: int) -> Array:
    """An array that is aligned as the benchmark asks, its pages touched."""
    return own(np.zeros((rows, columns), np.float32))


def picture(rows: int, columns: int) -> Array:
    """Random pixels with a border for the blur."""
    image = aligned(rows + 2, columns + 2)
    image[:] = np.random.default_rng(0).random(image.shape, dtype=np.float32)
    return image


def algorithm(exact: bool = False) -> tuple[tm.Function, tm.Computation, tm.Computation]:
    """The blur without a schedule; `exact` divides by 3 instead of multiplying by a third."""
    R, C = tm.params("R C")
    r, c = tm.iters("r c")
    f = tm.Function("blur", params=[R, C], assume="R >= 1 and C >= 1")
    image = f.input("image", tm.float32, [R + 2, C + 2])
    across, down = image[r, c] + image[r, c + 1] + image[r, c + 2], lambda bx: bx[r, c] + bx[r + 1, c] + bx[r + 2, c]
    bx = f.computation("bx", {r: R + 2, c: C}, across / 3 if exact else across * THIRD)
    by = f.computation("by", {r: R, c: C}, down(bx) / 3 if exact else down(bx) * THIRD)
    f.outputs(by)
    return f, bx, by


def tiled(exact: bool = False) -> tm.Function:
    """Tiles of 32 x 256, the first stage computed for each tile."""
    r, c, r0, c0, r1, c1 = tm.iters("r c r0 c0 r1 c1")
    f, bx, by = algorithm(exact)
    by.tile(r, c, 32, 256, r0, c0, r1, c1)
    by.parallelize(r0)
    by.vectorize(c1, 16)
    bx.compute_at(by, c0)
    bx.vectorize(c, 16)
    return f


def rows_of_eight() -> tm.Function:
    """Eight rows at a time over the whole width: the first stage of ten rows stays in registers."""
    r, c, r0, r1 = tm.iters("r c r0 r1")
    f, bx, by = algorithm()
    by.split(r, 8, r0, r1)
    by.reorder(r0, c, r1)
    by.parallelize(r0, schedule="dynamic", chunk=4)
    by.vectorize(c, 16)
    by.unroll(r1)
    bx.compute_at(by, c)
    bx.unroll(r)
    return f


def ours(schedule: Callable[[], tm.Function]) -> Callable[[Array, Array], Run]:
    """A contender of our own."""

    def prepare(image: Array, out: Array) -> Run:
        kernel = schedule().compile()
        return lambda: kernel(image, by=out)

    return prepare


def halide_tiles(y: Any, x: Any, bx: Any, by: Any) -> None:
    """Halide's usual schedule for this blur: tiles of 256 x 32, vectors of 16, parallel rows of tiles."""
    xi, yi = type(x)("xi"), type(y)("yi")
    by.tile(x, y, xi, yi, 256, 32).vectorize(xi, 16).parallel(y)
    bx.compute_at(by, x).vectorize(x, 16)


def halide_rows(y: Any, x: Any, bx: Any, by: Any) -> None:
    """The best of several hand-written schedules: eight rows of one vector, unrolled."""
    xi, yi = type(x)("xi"), type(y)("yi")
    by.tile(x, y, xi, yi, 16, 8).vectorize(xi, 16).unroll(yi).parallel(y)
    bx.compute_at(by, x).vectorize(x, 16).unroll(y)


def halide(schedule: Callable[[Any, Any, Any, Any], None]) -> Callable[[Array, Array], Run]:
    """A contender of Halide's."""

    def prepare(image: Array, out: Array) -> Run:
        import halide as hl  # noqa: PLC0415 (an optional peer)

        x, y, given, bx, by = hl.Var("x"), hl.Var("y"), hl.Buffer(image), hl.Func("bx"), hl.Func("by")
        third = hl.f32(float(THIRD))
        bx[x, y] = (given[x, y] + given[x + 1, y] + given[x + 2, y]) * third
        by[x, y] = (bx[x, y] + bx[x, y + 1] + bx[x, y + 2]) * third
        schedule(y, x, bx, by)
        by.compile_jit()
        into = hl.Buffer(out)
        return lambda: by.realize(into)

    return prepare


def copy(image: Array, out: Array) -> Run:
    """NumPy's copy of the same number of bytes, one thread for each band of rows."""
    count = int(os.environ["OMP_NUM_THREADS"])
    bounds = [out.shape[0] * i // count for i in range(count + 1)]
    source = np.ascontiguousarray(image[: out.shape[0], : out.shape[1]])

    def band(i: int) -> None:
        np.copyto(out[bounds[i] : bounds[i + 1]], source[bounds[i] : bounds[i + 1]])

    def run() -> None:
        others = [threading.Thread(target=band, args=(i,)) for i in range(1, count)]
        for thread in others:
            thread.start()
        band(0)
        for thread in others:
            thread.join()

    return run


CONTENDERS: dict[str, Callable[[Array, Array], Run]] = {
    "tiramisu_py, 8 rows in registers": ours(rows_of_eight),
    "tiramisu_py, tiles 32 x 256": ours(tiled),
    "tiramisu_py, tiles, / 3 instead of * third": ours(partial(tiled, exact=True)),
    "Halide, tiles 32 x 256 (usual)": halide(halide_tiles),
    "Halide, 8 rows in registers": halide(halide_rows),
    "copy of the same bytes": copy,
}


def contend(name: str, rows: int, columns: int) -> None:
    """The process of one contender: check the values, then run on demand."""

    def made() -> list[Run]:
        image, out = picture(rows, columns), aligned(rows, columns)
        run = CONTENDERS[name](image, out)
        run()
        if CONTENDERS[name] is not copy:
            across = (image[:, :-2] + image[:, 1:-1] + image[:, 2:]) * THIRD
            np.testing.assert_allclose(out, (across[:-2] + across[1:-1] + across[2:]) * THIRD, rtol=1e-5)
        return [run]

    serve(each_alignment(made))


def measured(rows: int, columns: int, threads: int, seconds: float) -> list[list[str]]:
    """One block of the table."""
    best = paired("blur", list(CONTENDERS), ["--size", str(rows), str(columns)], threads, seconds)
    peer = best["Halide, tiles 32 x 256 (usual)"]
    bytes_moved = 2 * 4 * rows * columns
    return [
        [
            f"{columns} x {rows}",
            str(threads),
            name,
            f"{time * 1e3:.2f}",
            f"{bytes_moved / time / 1e9:.1f}",
            f"{peer / time:.2f}",
        ]
        for name, time in best.items()
    ]


def main() -> None:
    """Measure all sizes, or be one contender."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--save", action="store_true", help="write docs/results/blur.md")
    options.add_argument("--seconds", type=float, default=8, help="for each size and number of threads")
    options.add_argument("--contender", choices=CONTENDERS, help=argparse.SUPPRESS)
    options.add_argument("--size", type=int, nargs=2, help=argparse.SUPPRESS)
    one_processor.options(options)
    given = options.parse_args()
    if given.contender:
        contend(given.contender, *given.size)
        return
    one_processor.apply(given)
    blocks = [(rows, columns, threads) for rows, columns in SIZES for threads in (1, 2)]
    rows = [row for block in blocks for row in measured(*block, given.seconds)]
    header = ["picture", "threads", "program", "ms", "GB/s", "times as fast as usual Halide"]
    report("blur", "Box blur 3 x 3, float32", f"{table(header, rows)}\n\nMinima of paired rounds.", given.save)


if __name__ == "__main__":
    main()
