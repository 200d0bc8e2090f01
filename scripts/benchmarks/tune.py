"""Searches of `tm.tune` beside the schedules of the stories: a matrix product, and a Gaussian of pictures.

scripts/bench tune [--save] [--only sgemm,gauss] [--minutes M] [--points N] [--small] [--database FILE]
scripts/bench tune --any-size ...: kernels for any size, see benchmarks/tuning.py
scripts/bench tune --numbers ...: the numbers of the stories' schedules, see benchmarks/numbers
"""

from __future__ import annotations

import argparse
import importlib
import runpy
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tiramisu_py as tm
from benchmarks.common.tables import report, table

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
ROUNDS, SAMPLE_SECONDS = 15, 0.02
HEADER = (
    "program", "points tried", "refused by the proof", "failed", "measured", "minutes", "best found", "story",
    "story / found",
)  # fmt: skip
RULES = """\
Each search tries points of a space that a user might write, mistakes included: `make` schedules the algorithm of a
story by the parameters of a point. A point that a command or the proof refuses is not compiled; the results of every
other are compared with the reference before it is measured. Afterwards the best schedule found and the one that the
story has by hand take turns: the times are the least of all turns, and above 1 the schedule found is faster."""

N, M, K, R, C = tm.params("N M K R C")
i, j, k, i0, j0, i1, j1, i2, k0, k1 = tm.iters("i j k i0 j0 i1 j1 i2 k0 k1")
ii, jj, kk, jo, jv = tm.iters("ii jj kk jo jv")
r, c, r0, c0, r1, c1 = tm.iters("r c r0 c0 r1 c1")


@dataclass(frozen=True)
class Search:
    """A program, the space of its schedules, and the schedule of its story."""

    name: str
    title: str
    story: Callable[[], Any]
    make: Callable[..., tm.Function]
    space: Mapping[str, Sequence[Any]]
    where: Callable[..., bool]
    sizes: tuple[tuple[int, ...], tuple[int, ...]]
    fast: tuple[str, ...] = ()

    def arguments(self, small: bool) -> dict[str, Any]:
        """The story's arguments, of the size that is measured or of a small one."""
        found: dict[str, Any] = self.story().sample(*self.sizes[small])
        return found


def story(folder: str, name: str) -> Any:
    """A story, as it is; several folders have modules of one name."""
    for known in ("story", name):
        sys.modules.pop(known, None)
    sys.path.insert(0, str(EXAMPLES / folder))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(EXAMPLES / folder))


# -- the matrix product


def product(rows: int, vectors: int, terms: int, tiles: int, threads: str) -> tm.Function:
    """Tiles of registers, as the story has them, of other sizes, and with threads for another loop."""
    f, A, B, C = story("linear", "matmul").algorithm()
    lanes = tm.target().lanes(tm.float32)
    columns = vectors * lanes
    C.init.parallelize(i)
    C.update.split(k, terms, k0, k1)
    tile = C.update.rfactor(k0)
    C.update.tile(i, j, rows, columns, i0, j0, i1, j1)
    C.update.split(i0, tiles, i2, i0)
    C.update.reorder(k0, i2, j0, i0, i1, j1)
    C.update.parallelize({"rows": i2, "columns": j0, "terms": k0}[threads])
    C.update.unroll(i1, remainder="specialize")
    C.update.vectorize(j1, columns, remainder="mask")
    tile.compute_at(C.update, i0)
    tile.store_in(tm.REGISTER)
    tile.update.reorder(k, i, j)
    tile.unroll(i, remainder="specialize")
    tile.vectorize(j, columns, remainder="pad")
    panels = tile.update.copy(B, [kk, jj], at=k0, layout=[jj // columns, kk, jj % columns])
    panels.split(jj, columns, jo, jv)
    panels.parallelize(kk)
    panels.vectorize(jv, columns, remainder="mask")
    tile.update.copy(A, [ii, kk], at=i2, layout=[ii * (terms + lanes) + kk])
    return f


def fits(rows: int, vectors: int, terms: int, tiles: int, threads: str) -> bool:
    """Whether accumulators and one row of the panel fit in the registers."""
    return rows * vectors + vectors < tm.target().vector_registers


# -- the Gaussian


def gaussian(way: str, rows: int, lanes: int, keep: int, past_caches: bool) -> tm.Function:
    """The first stage in a window of registers, beside the second, for each line, or for a band of lines in memory."""
    f, down, smooth = story("cpu", "gauss").algorithm()
    if way == "window":
        smooth.tile(r, c, rows, lanes, r0, c0, r1, c1)
        smooth.parallelize(r0)
        smooth.vectorize(c1, lanes, remainder="mask")
        down.compute_at(smooth, c0)
        down.slide(c0, c, lanes)
        down.store_in(tm.REGISTER)
    elif way == "beside":
        smooth.unroll_and_jam(r, rows)
        smooth.parallelize(r)
        smooth.vectorize(c, lanes, remainder="mask")
        down.compute_at(smooth, c)
        down.store_in(tm.REGISTER)
    else:
        smooth.split(r, rows, r0, r1)
        smooth.parallelize(r0)
        smooth.vectorize(c, lanes, remainder="mask")
        down.compute_at(smooth, r1 if way == "line" else r0)
        down.fold(r, keep)
    if way != "beside":
        down.vectorize(c, lanes, remainder="mask")
    if past_caches:
        smooth.store_nontemporal()
    return f


def once(way: str, rows: int, lanes: int, keep: int, past_caches: bool) -> bool:
    """Whether the parameters make a schedule of their own: only a band keeps more than one line."""
    return way == "band" or keep == 1


SEARCHES = (
    Search(
        "sgemm", "product of 1024 x 1024, float32", lambda: story("linear", "matmul"), product,
        {
            "rows": [2, 4, 5, 6, 8, 10, 12, 14], "vectors": [1, 2, 4], "terms": [64, 128, 192, 256, 384, 512, 768],
            "tiles": [4, 8, 12, 16, 24], "threads": ["rows", "columns", "terms"],
        },
        fits, ((1024, 1024, 1024), (97, 131, 100)), ("contract",),
    ),
    Search(
        "gauss", "Gaussian 5 x 5 of 2160 x 3840, float32", lambda: story("cpu", "gauss"), gaussian,
        {
            "way": ["window", "beside", "line", "band"], "rows": [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 32],
            "lanes": tm.powers_of_two(4, 64), "keep": [1, 2, 4, 8], "past_caches": [False, True],
        },
        once, ((2160, 3840), (50, 70)),
    ),
)  # fmt: skip


# -- what is measured


def by_turns(kernels: Sequence[tm.Kernel], arguments: Mapping[str, Any]) -> list[float]:
    """The least time of a call of each kernel in several turns, in seconds."""
    outputs = [kernel(**arguments) for kernel in kernels]
    (name,) = kernels[0].arguments.algorithm.outputs
    least = [float("inf")] * len(kernels)
    for _ in range(ROUNDS):
        for number, kernel in enumerate(kernels):
            calls, start = 0, time.perf_counter()
            while (spent := time.perf_counter() - start) < SAMPLE_SECONDS or not calls:
                kernel(**arguments, **{name: outputs[number]})
                calls += 1
            least[number] = min(least[number], spent / calls)
    return least


def searched(search: Search, options: argparse.Namespace) -> tuple[tm.Tuned, tuple[str, ...]]:
    """A search, and its row of the table."""
    arguments = search.arguments(options.small)
    found = tm.tune(
        search.make, search.space, arguments=arguments, where=search.where, points=options.points,
        seconds=60 * options.minutes, database=options.database, fast=search.fast, seed=options.seed,
    )  # fmt: skip
    best, hand = found.best, search.story().scheduled()
    kernels = [search.make(**best.parameters).compile(fast=search.fast), hand.compile(fast=search.fast)]
    own, other = by_turns(kernels, arguments)
    row = (
        search.title, f"{len(found.points)} of {found.size}", f"{found.pruned} ({found.pruned_share:.0%})",
        str(found.failed), str(found.measured), f"{found.elapsed / 60:.1f}", f"{own * 1e3:.2f} ms",
        f"{other * 1e3:.2f} ms", f"{other / own:.2f}",
    )  # fmt: skip
    return found, row


def told(search: Search, found: tm.Tuned) -> str:
    """The points of a search: the fastest, and why others were refused."""
    reused = sum(point.reused for point in found.points)
    earlier = f" {reused} of the points were known from an earlier run." if reused else ""
    return f"## {search.title}\n\n{found}.{earlier}\n\n```text\n{found.table(12)}\n```"


def main() -> None:
    """Search, compare, print."""
    for option, module in (("--any-size", "benchmarks.tuning"), ("--numbers", "benchmarks.numbers")):
        if option in sys.argv:
            runpy.run_module(module, run_name="__main__")
            return
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--save", action="store_true")
    options.add_argument("--only", default=",".join(search.name for search in SEARCHES))
    options.add_argument("--minutes", type=float, default=15.0)
    options.add_argument("--points", type=int, default=200)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--small", action="store_true")
    options.add_argument("--database")
    asked = options.parse_args()
    results = [(search, *searched(search, asked)) for search in SEARCHES if search.name in asked.only.split(",")]
    rows = table(HEADER, [row for _, _, row in results])
    parts = [RULES, rows, *(told(search, found) for search, found, _ in results)]
    report("tune", "Searches for schedules", "\n\n".join(parts), asked.save)


if __name__ == "__main__":
    main()
