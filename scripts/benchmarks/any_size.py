"""Products of any size on this machine: samples of the recipe's sizes and of a library's call, a model, its choices.

Points are kept small in number, so that shapes that no model has seen can be measured at all of them.
"""

from __future__ import annotations

import argparse
import ctypes.util
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import product as combinations
from typing import Any, cast

import numpy as np

import tiramisu_py as tm
from benchmarks.common.tables import table
from tiramisu_py.recipes import Cpu
from tiramisu_py.recipes.matmul import Sizes
from tiramisu_py.tuning.learned.samples.candidates import Candidates
from tiramisu_py.tuning.learned.samples.collecting import CollectLimits, Collector
from tiramisu_py.tuning.learned.samples.sampling import DrawnSample, Rejections, Sampler
from tiramisu_py.tuning.search.status_line import Progress

M, N, K = tm.params("M N K")
i, j, k = tm.iters("i j k")
RANGES = {"M": (8, 8192), "N": (8, 8192), "K": (16, 131072)}
#: The operations of a shape that is drawn, and the bytes of its arguments' longest one.
OPERATIONS, ELEMENTS = 5e8, 2**23
FIRST = (1, 5, 10)
#: The points that are measured at a shape that no model has seen: at most so many.
HELD = 60
ROW_MAJOR, AS_STORED = 101, 111
FAMILIES: dict[str, list[tuple[int, int, int]]] = {
    "square, 128 to 3072": [(n, n, n) for n in (128, 256, 512, 768, 1024, 2048, 3072)],
    "16 columns, 256 to 7168 rows and terms": [(n, 16, n) for n in (256, 512, 1024, 1536, 3072, 7168)],
    "64 x 64 x K, K 4096 to 131072": [(64, 64, n) for n in (4096, 16384, 65536, 131072)],
}
_SOURCE = """#include <cblas.h>
void openblas_set_num_threads(int threads);
static void blas_product(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb,
                         float *c, int64_t ldc, int32_t threads) {
  openblas_set_num_threads(threads);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1, a, lda, b, ldb, 0, c, ldc);
}
"""

Point = Mapping[str, Any]


@cache
def blas() -> Any:
    """The product of OpenBLAS, with the number of its threads."""
    whole = tm.int64
    return tm.extern_stage(
        "blas_product",
        {"m": whole, "n": whole, "k": whole, "a": tm.reads(tm.float32, 2), "lda": tm.stride("a", 0),
         "b": tm.reads(tm.float32, 2), "ldb": tm.stride("b", 0), "c": tm.writes(tm.float32, 2),
         "ldc": tm.stride("c", 0), "threads": tm.int32},
        lambda m, n, k, a, b, threads: a @ b, source=_SOURCE, libraries=["openblas"],
    )  # fmt: skip


def make(way: str, threads: int, **sizes: int) -> tm.Function:
    """The product by the recipe's tiles, or by the library."""
    f = tm.Function("product", params=[M, N, K])
    A, B = f.input("A", tm.float32, [M, K]), f.input("B", tm.float32, [K, N])
    if way == "library":
        C = f.stage("C", {i: M, j: N}, blas()(M, N, K, A[i, k], B[k, j], threads), over={k: K})
        f.outputs(C)
        return f
    product = f.reduction("C", {i: M, j: N}, {k: K}, tm.sum, A[i, k] * B[k, j])
    f.outputs(product)
    tm.recipes.matmul(product, sizes={**sizes, "threads": threads})
    return f


@cache
def own() -> Sizes:
    """The sizes that the recipe has on this machine."""
    f = tm.Function("own")
    return Sizes.of(f.input("x", tm.float32, [1]), Cpu.here())  # type: ignore[arg-type]


def some_points(count: int) -> list[Point]:
    """The library, the recipe's own point, each with one thread and with all, and others drawn at random."""
    plan, cores = own(), Cpu.here().cores
    lanes, room = plan.lanes, Cpu.here().registers
    names = ("way", "rows", "columns", "terms", "tiles", "parts", "threads")
    ways = [(1, 1), (1, cores), (cores, cores)] if cores > 1 else [(1, 1)]
    kept = [("tiles", plan.rows, plan.columns, plan.terms, plan.tiles, *each) for each in ways]
    if ctypes.util.find_library("openblas"):
        first = (2, lanes, plan.terms // 2, 4)
        kept += [("library", *first, 1, threads) for threads in sorted({1, cores})]
    drawn = [
        ("tiles", rows, columns, terms, tiles, *each)
        for rows, columns, terms, tiles, each in combinations(
            (2, 4, 6, 8, 10, 12, 14),
            (lanes, 2 * lanes, 4 * lanes),
            (plan.terms // 4, plan.terms // 2, plan.terms),
            (4, plan.tiles),
            ways,
        )
        if 12 * lanes <= rows * columns <= (room - 1 - columns // lanes) * lanes
    ]
    others = [each for each in drawn if each not in kept]
    listed = [*kept, *random.Random(0).sample(others, min(count - len(kept), len(others)))]
    return [dict(zip(names, each, strict=True)) for each in listed]


def kernel(points: Sequence[Point], database: str | None) -> tm.InputAware:
    """The product of any size that has these points."""
    allowed = {tuple(each.values()) for each in points}
    space = {name: sorted({each[name] for each in points}) for name in points[0]}
    return tm.input_aware(
        make, space, where=lambda **values: tuple(values.values()) in allowed, database=database, features=shared,
        fast=("contract",),
    )  # fmt: skip


def shared(M: int, N: int, K: int, rows: int, columns: int, terms: int, tiles: int, parts: int, threads: int,
           **_: Any) -> dict[str, float]:  # fmt: skip
    """What is known of a point at some sizes: the threads that have work, how unequal it is, and how full tiles are."""
    down, across, blocks_of_terms = -(-M // rows), -(-N // columns), -(-K // terms)
    blocks = blocks_of_terms if parts > 1 else -(-down // tiles)
    most = parts if parts > 1 else threads
    busy = min(most, blocks)
    return {
        "blocks": blocks, "busy": busy, "operations of a thread": 2 * M * N * K / busy,
        "unequal": -(-blocks // most) * most / blocks, "full": M * N / (down * rows * across * columns),
    }  # fmt: skip


def shapes(count: int, seed: int) -> Iterator[dict[str, int]]:
    """Sizes drawn by their logarithms, of at most so many operations and elements."""
    drawn, found = np.random.default_rng(seed), 0
    low, high = (np.log([each[end] for each in RANGES.values()]) for end in (0, 1))
    while found < count:
        m, n, depth = (int(each) for each in np.exp(drawn.uniform(low, high)))
        if 2 * m * n * depth <= OPERATIONS and max(m, n) * depth <= ELEMENTS:
            found += 1
            yield {"M": m, "N": n, "K": depth}


def times(made: tm.InputAware, sizes: Mapping[str, int]) -> list[tuple[Point, float]]:
    """All points at some sizes in the order in which they are predicted, with their measured seconds."""
    found = [(each.parameters, each.measured) for each in made.best(**sizes, top=10_000)]
    return [(point, seconds) for point, seconds in found if seconds is not None]


def is_fixed(point: Point) -> bool:
    """Whether a point is the recipe's own, on any number of threads."""
    sizes = ("rows", "columns", "terms", "tiles")
    return (
        point["way"] == "tiles" and all(point[name] == getattr(own(), name) for name in sizes) and point["parts"] == 1
    )


def ratios(some: Sequence[tuple[Point, float]]) -> dict[str, float]:
    """What is compared at one shape: seconds of the best of the first predicted points, of the recipe, the library."""

    def least(*which: Any) -> float:
        return min((seconds for point, seconds in some if all(each(point) for each in which)), default=math.nan)

    best = min(seconds for _, seconds in some)
    ours = [seconds for point, seconds in some if point["way"] == "tiles"]
    is_library, is_ours = (lambda point, way=way: point["way"] == way for way in ("library", "tiles"))

    def alone(point: Point) -> bool:
        return bool(point["threads"] == 1)

    return {
        **{f"first {count}": best / min(seconds for _, seconds in some[:count]) for count in FIRST},
        "recipe over choice": least(is_ours, is_fixed, lambda point: not alone(point)) / min(ours[: FIRST[-1]]),
        "library over ours, one thread": least(is_library, alone) / least(is_ours, alone),
        "library over ours": least(is_library) / least(is_ours),
        "unsplit over split": least(is_ours, lambda point: point["parts"] == 1)
        / least(is_ours, lambda point: point["parts"] > 1),
    }


HEADER = (
    "shapes", *(f"share of the first {count}: mean (least)" for count in FIRST), "recipe's time over the choice's",
    "OpenBLAS's over ours, one thread", "OpenBLAS's over ours, best number of threads", "rows shared over sums shared",
)  # fmt: skip


def row(title: str, found: Sequence[Mapping[str, float]]) -> tuple[str, ...]:
    """The mean and the least share, and geometric means of ratios with the least and the largest."""
    shares = [[each[f"first {count}"] for each in found] for count in FIRST]
    told = [f"{np.mean(each):.3f} ({min(each):.2f})" for each in shares]
    for name in [name for name in found[0] if not name.startswith("first")]:
        values = np.array([each[name] for each in found])
        mean = np.exp(np.mean(np.log(values)))
        told.append("-" if np.isnan(mean) else f"{mean:.2f} ({values.min():.2f} to {values.max():.2f})")
    return (f"{title} ({len(found)})", *told)


#: The blocks of the thesis: rows, columns, and partial sums (tables 4.3 of a V100 and 4.4 of a GTX 1070 Ti).
THESIS: dict[tuple[int, ...], str] = {
    (512, 16, 512): "32 x 16, 1", (1536, 16, 1536): "64 x 16, 4",
    (64, 64, 4096): "64 x 32, 8", (64, 64, 16384): "64 x 32, 16", (64, 64, 131072): "64 x 64, 32",
}  # fmt: skip


def blocks(shape: tuple[int, ...], some: Sequence[tuple[Point, float]]) -> tuple[str, ...]:
    """The blocks that are chosen among the first ten, their rate, and that of the library."""
    operations = 2e-9 * math.prod(shape)
    point, seconds = min(((p, t) for p, t in some[: FIRST[-1]] if p["way"] == "tiles"), key=lambda each: each[1])
    library = [f"{operations / t:.0f}" for p, t in sorted(some, key=lambda each: each[1]) if p["way"] == "library"]
    return (
        " x ".join(map(str, shape)), f"{point['rows']} x {point['columns']}", str(point["terms"]), str(point["parts"]),
        str(point["threads"]), f"{operations / seconds:.0f}", *(library or ["-"])[:1], THESIS.get(shape, ""),
    )  # fmt: skip


CHOSEN = (
    "shape", "tile in registers", "terms of a block", "partial sums", "threads", "GFLOP/s", "OpenBLAS, GFLOP/s",
    "the thesis on GPUs: blocks, partial sums",
)  # fmt: skip


STEPS = ("compile", "collect", "fit", "hold", "tell")


def measured(options: argparse.Namespace) -> str:
    """Samples, a model and its errors; then shapes that it has not seen, each measured at all points.

    The steps can be calls of their own, with one database: only "collect" and "hold" need a machine that is quiet.
    """
    points = some_points(options.points)
    made = kernel(points, options.database)
    drawn = list(shapes(options.held, 1))
    listed = {title: [dict(zip("MNK", each, strict=True)) for each in family] for title, family in FAMILIES.items()}
    parts = []
    for step in options.steps.split(","):
        if step == "compile":
            parts.append(f"```text\n{collected(made, options, compile_only=True)}\n```")
        elif step == "collect":
            collected(made, options, minutes=options.minutes)
        elif step == "fit":
            known = made.fit(epochs=1).samples
            counts = [count for count in (250, 500, 1000, 2000, 4000) if count < known]
            curve = [(str(count), f"{made.fit(most=count).error:.3f}") for count in counts]
            parts += [table(("samples", "error"), curve), f"```text\n{made.fit()}\n```"]
        elif step == "hold":
            for sizes in [*(each for family in listed.values() for each in family), *drawn]:
                at_points(made, sizes, held_points(made, sizes))
        else:
            parts += compared(made, {"drawn": drawn, **listed})
    return "\n\n".join(parts)


def collected(made: tm.InputAware, options: argparse.Namespace, **given: Any) -> Any:
    """Samples of drawn points and shapes; the same call goes on where the last one ended."""
    return made.collect(**RANGES, samples=options.samples, shapes=options.shapes, operations=OPERATIONS, **given)


def held_points(made: tm.InputAware, sizes: Mapping[str, int]) -> list[Point]:
    """The points that are measured at a shape: the first predicted ones of all and of one thread, the recipe's and the
    library's, and others drawn at random; few where a call takes long.
    """
    every = [each.parameters for each in made.best(**sizes, top=10_000)]
    alone = [each for each in every if each["threads"] == 1]
    kept = [*every[: FIRST[-1]], *alone[: FIRST[-1]], *(each for each in every if is_fixed(each)), *others(every)]
    most = HELD if math.prod(sizes.values()) < 1e9 else HELD // 3
    rest = random.Random(str(sizes)).sample(every, len(every))
    distinct = {tuple(each.values()): each for each in [*kept, *rest]}
    return list(distinct.values())[:most]


def others(points: Sequence[Point]) -> list[Point]:
    """The points that are no schedule."""
    return [each for each in points if each["way"] != "tiles"]


def at_points(made: tm.InputAware, sizes: Mapping[str, int], points: Sequence[Point]) -> None:
    """Measure some points at some sizes; those that are known are not measured again."""
    study = made._study
    with study.opened() as store, study.kernel_clock.limited(20.0):
        Collector(
            made.name, cast(Sampler, Listed(study.candidates, sizes, points)), study.clock, store, study.turn,
            CollectLimits(None, None, Cpu.here().cores), Progress(False),
        ).run()  # fmt: skip


class Listed:
    """Stands for a sampler: listed points at some sizes, each once."""

    draws = accepted = (0, 0)

    def __init__(self, candidates: Candidates, sizes: Mapping[str, int], points: Sequence[Point]) -> None:
        self.rejections = Rejections()
        self._drawn = iter([DrawnSample(candidates.at(dict(each)), dict(sizes)) for each in points])

    def draw(self) -> DrawnSample | None:
        """The next point."""
        return next(self._drawn, None)


def compared(made: tm.InputAware, groups: Mapping[str, Sequence[dict[str, int]]]) -> list[str]:
    """The tables of what the model chooses at shapes that it has not seen, beside all points measured there."""
    rows, chosen = [], []
    for title, group in groups.items():
        found = {tuple(sizes.values()): times(made, sizes) for sizes in group}
        whole = {shape: some for shape, some in found.items() if len(some) >= HELD // 3}
        if whole:
            rows.append(row(title, [ratios(some) for some in whole.values()]))
        if title in FAMILIES:
            chosen += [blocks(shape, some) for shape, some in whole.items()]
    return [table(HEADER, rows), table(CHOSEN, chosen)]
