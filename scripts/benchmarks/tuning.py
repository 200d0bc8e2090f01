"""Input-aware tuning: what is drawn, learned and chosen, on a pretended machine and on this one.

scripts/bench tune --any-size [--save] [--minutes M] [--held 40] [--points 150] [--shapes 300] [--samples 8000]
    [--database FILE]
scripts/bench tune --any-size --only-measured --steps compile|collect|fit|hold|tell ...: each a call of its own
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

import tiramisu_py as tm
from benchmarks import any_size, loop_bytes, size_families, sparse_products
from benchmarks.common.tables import report, table
from tiramisu_py.tuning import filters
from tiramisu_py.tuning.learned.fitting import kept_apart
from tiramisu_py.tuning.learned.predicting import HIDDEN, observations
from tiramisu_py.tuning.learned.samples.candidates import Candidates, JudgedPoint
from tiramisu_py.tuning.learned.samples.ranges import written
from tiramisu_py.tuning.learned.samples.sampling import Sampler
from tiramisu_py.tuning.search.space import Point, Space

RULES = """\
Figures of the pretended machine follow from a law of eight cores, which no model is told, and depend on no machine: an
error is the root of the mean square of log(predicted / time) on a fifth of the shapes, which no model has seen; a share
is the best time of all points over the best time of the first predicted ones, of 40 shapes of another seed. Times are
processor seconds. The thesis: Tillet, "Blocked Algorithms for Neural Networks" (Harvard, 2020), chapter 4."""

LEFT = """\
On GPUs: tables 4.1 and 4.3 to 4.9 (samples of GPUs; blocks chosen beside cuBLAS and cuDNN), 6.1 (products of
super-blocks beside those of blocks: 2 at L >= 2048), figures 4.7 to 4.12, 5.7 to 5.12 and 6.9. Figure 5.12 is of
tensor cores, and has nothing beside it on cores."""

M, N, K = tm.params("M N K")
i, j, k, i0, j0, i1, j1, k0, k1 = tm.iters("i j k i0 j0 i1 j1 k0 k1")
SPACE = {"rows": [2, 4, 6], "lanes": [8, 16], "terms": [64, 256, 1024], "share": ["rows", "terms", "race"]}
RANGES = {"M": (8, 512), "N": (8, 512), "K": (64, 65536)}
SAMPLES = (250, 500, 1000, 2000, 4000)
FIRST = (1, 5, 10)


def product(rows: int, lanes: int, terms: int, share: str) -> tm.Function:
    """Tiles of rows x lanes, blocks of terms, and what threads share."""
    f = tm.Function("product", params=[M, N, K])
    A, B = f.input("A", tm.float32, [M, K]), f.input("B", tm.float32, [K, N])
    C = f.reduction("C", {i: M, j: N}, {k: K}, tm.sum, A[i, k] * B[k, j])
    f.outputs(C)
    C.update.split(k, terms, k0, k1)
    part = C.update.rfactor(k0)
    C.update.tile(i, j, rows, lanes, i0, j0, i1, j1)
    C.update.reorder(k0, i0, j0, i1, j1)
    C.update.vectorize(j1, lanes)
    C.update.parallelize(i0 if share == "rows" else k0, combine=tm.PRIVATE if share == "terms" else None)
    part.compute_at(C.update, j0)
    part.vectorize(j, lanes)
    return f


def eight_cores(point: Mapping[str, Any], sizes: Mapping[str, int]) -> float:
    """Seconds on a machine of eight cores that likes tiles of 4 x 16."""
    m, n, depth = sizes["M"], sizes["N"], sizes["K"]
    tile = {2: 0.5, 4: 1.0, 6: 0.9}[point["rows"]] * {8: 0.6, 16: 1.0}[point["lanes"]]
    pieces = math.ceil(m / point["rows"]) if point["share"] == "rows" else math.ceil(depth / point["terms"])
    busy = pieces / (8 * math.ceil(pieces / 8))
    padded = point["rows"] * math.ceil(m / point["rows"]) * point["lanes"] * math.ceil(n / point["lanes"])
    merged = m * n * (1 if point["share"] == "rows" else 3) * math.ceil(depth / point["terms"])
    return 5e-6 + 2 * padded * depth / (4e11 * tile * busy) + 4 * (m * depth + depth * n + merged) / 1e11


# -- a pretended machine


def learned(samples: tuple[int, ...]) -> str:
    """The learning curve: errors and choices by the number of samples."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        made = tm.input_aware(
            product, SPACE, where=lambda rows, lanes, **_: rows * lanes >= 32, timer=eight_cores,
            database=Path(folder) / "samples.sqlite",
        )  # fmt: skip
        for count in samples:
            made.collect(**RANGES, samples=count)
            start = time.process_time()
            found = made.fit()
            seconds = time.process_time() - start
            shares = [f"{mean:.3f} ({least:.2f})" for mean, least in chosen(made)]
            rows.append(
                (str(count), found.model, *(f"{found.errors[kind]:.3f}" for kind in ("network", "boosting", "blend")),
                 f"{found.error_without_logarithms:.3f}", f"{found.errors['linear']:.3f}",
                 f"{found.errors['roofline']:.3f}", f"{seconds:.1f}", *of_scikit_learn(made), *shares)
            )  # fmt: skip
    return table(
        ("samples", "kept", "network", "boosting", "their mean", "network without logarithms", "linear", "roofline",
         "fit of all, s", "MLPRegressor", "its fit, s",
         *(f"share of the first {count}: mean (least)" for count in FIRST)), rows,
    )  # fmt: skip


def of_scikit_learn(made: tm.InputAware) -> tuple[str, str]:
    """The error of scikit-learn's network of the same layers, of the same samples, and its processor seconds."""
    try:
        network, pipeline, scaling = map(
            importlib.import_module, ("sklearn.neural_network", "sklearn.pipeline", "sklearn.preprocessing")
        )
    except ImportError:
        return "-", "-"
    study = made._study
    with study.opened() as store:
        given = observations(study, store, most=None, prior=False, seed=0)
    columns = study.columns(given.shapes[0])
    rows = columns.rows(given.points, given.shapes)
    rates = np.log([columns.amount(sizes) for sizes in given.shapes] / given.seconds)
    held = kept_apart([written(sizes) for sizes in given.shapes], len(rows), 0)
    regressor = network.MLPRegressor(hidden_layer_sizes=HIDDEN, early_stopping=True, random_state=0)
    model = pipeline.make_pipeline(scaling.StandardScaler(), regressor)
    mean, spread = rates[~held].mean(), rates[~held].std()
    start = time.process_time()
    model.fit(rows[~held], (rates[~held] - mean) / spread)
    seconds = time.process_time() - start
    differences = model.predict(rows[held]) * spread + mean - rates[held]
    return f"{np.sqrt(np.mean(differences**2)):.3f}", f"{seconds:.1f}"


def chosen(made: tm.InputAware) -> list[tuple[float, float]]:
    """The mean and the least share of the first points, of 40 shapes."""
    low, high = (np.log([RANGES[name][end] for name in "MNK"]) for end in (0, 1))
    shapes = np.exp(np.random.default_rng(1).uniform(low, high, (40, 3)))
    kept = []
    for drawn in shapes:
        sizes = dict(zip("MNK", map(int, drawn), strict=True))
        times = [eight_cores(each.parameters, sizes) for each in made.best(**sizes, top=30)]
        kept.append([min(times) / min(times[:count]) for count in FIRST])
    return [(float(np.mean(each)), min(each)) for each in zip(*kept, strict=True)]


# -- sampling


class Unmade:
    """Stands for candidates of kernels that are not made: what the filters let pass is accepted."""

    def __init__(self, space: Space) -> None:
        self.space, self.proven = space, [True]

    def at(self, point: Point) -> JudgedPoint:
        """A candidate that nobody compiles."""
        return JudgedPoint(point, cast(tm.Function, self))


def accepted() -> str:
    """The shares of draws that the thesis's filters accept: of its space of products, and of one with other values."""
    rows = []
    for title, values in (
        ("powers of two", [1, 2, 4, 8, 16]),
        ("1 to 16", list(range(1, 17))),
    ):
        blocks = [16 * value for value in values if value <= 8]
        space = Space({
            "ML": tuple(blocks), "NL": tuple(blocks), "MS": tuple(values), "NS": tuple(values),
            "U": (4, 8, 16, 32), "KG": tuple(values),
        })  # fmt: skip
        given = [
            filters.only_powers_of_two("ML", "NL", "MS", "NS", "KG"), filters.elements("ML", "NL"),
            filters.instruction_cache("MS", "NS", "U"),
            filters.limit("threads", lambda ML, NL, MS, NS, **_: -(ML * NL) / (MS * NS), most=-32),
            filters.programs({"M": "ML", "N": "NL"}, splits="KG", cores=80),
        ]  # fmt: skip
        ranges = {"M": (16, 4096), "N": (16, 4096), "K": (16, 131072)}
        some = Sampler(cast(Candidates, Unmade(space)), given, ranges, (), points=None, shapes=None, seed=0)
        while sum(some.draws) < 40_000:
            some.draw()
        uniform, bayes = (a / b for a, b in zip(some.accepted, some.draws, strict=True))
        rows.append((title, f"{uniform:.1%}", f"{bayes:.1%}", f"{bayes / uniform:.2f}"))
    return table(("values of block sizes", "uniform draws", "naive Bayes", "ratio"), rows)


# -- what it costs


def costs() -> str:
    """Processor time of a proof, of a prediction, and of a call beyond its kernel."""
    rows = []
    start, count = time.process_time(), 0
    for terms in (64, 128, 256, 512):
        for share in ("rows", "terms"):
            count += product(4, 16, terms, share).check().ok
    rows.append(("declare, schedule and prove a point, all sizes", f"{(time.process_time() - start) / count:.3f} s"))
    with tempfile.TemporaryDirectory() as folder:
        wide = {"rows": [2, 4], "lanes": [16], "terms": list(range(64, 64 + 2500)), "share": ["rows", "terms"]}
        made = tm.input_aware(product, wide, timer=easy, database=Path(folder) / "samples.sqlite", threads=1)
        made.collect(**RANGES, samples=100)
        made.fit(epochs=40)
        made.best(M=100, N=100, K=1000, top=1)
        rows.append(
            (
                "predict 10,000 points, and sort them",
                f"{least(lambda: made.best(M=101, N=99, K=999, top=1), 5) * 1e3:.0f} ms",
            )
        )
        a, b = np.ones((8, 64), np.float32), np.ones((64, 16), np.float32)
        made(a, b, measure=0)
        (kernel,) = made.kernels.values()
        many = 2000
        own = least(lambda: [kernel(a, b) for _ in range(many)], 5) / many
        ours = least(lambda: [made(a, b, measure=0) for _ in range(many)], 5) / many
        rows.append(("a repeated call, beyond its kernel", f"{(ours - own) * 1e6:.1f} us"))
    return table(("what", "processor time"), rows)


def easy(point: Mapping[str, Any], sizes: Mapping[str, int]) -> float:
    """Some seconds."""
    return 1e-6 + 2e-9 * sizes["M"] * sizes["N"] * sizes["K"] / point["rows"]


def least(call: Callable[[], object], rounds: int) -> float:
    """The least processor time of some calls."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def main() -> None:
    """Draw, learn, choose, print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--any-size", action="store_true")
    options.add_argument("--save", action="store_true")
    options.add_argument("--minutes", type=float, default=0.0)
    options.add_argument("--held", type=int, default=40)
    options.add_argument("--steps", default=",".join(any_size.STEPS))
    options.add_argument("--only-measured", action="store_true")
    options.add_argument("--points", type=int, default=150)
    options.add_argument("--samples", type=int, default=8000)
    options.add_argument("--shapes", type=int, default=300)
    options.add_argument("--small", action="store_true")
    options.add_argument("--database")
    options.add_argument("--measured", type=Path, help="what --only-measured has printed, in place of measuring")
    options.add_argument("--families", type=Path, nargs="*", help="files of python -m benchmarks.size_families")
    options.add_argument("--sparse", type=Path, help="the file of python -m benchmarks.sparse_products")
    options.add_argument("--loops", type=Path, help="the file of python -m benchmarks.loop_bytes")
    asked = options.parse_args()
    if asked.only_measured:
        print(any_size.measured(asked))
        return
    here = "Still to be measured: `--minutes 60`, on a machine that is quiet."
    if asked.measured or asked.minutes:
        here = asked.measured.read_text() if asked.measured else any_size.measured(asked)
    loops = "Still to be counted: `python -m benchmarks.loop_bytes`."
    if asked.loops:
        loops = loop_bytes.told(json.loads(asked.loops.read_text()))
    families = "Still to be measured: `python -m benchmarks.size_families`."
    if asked.families:
        families = size_families.told(asked.families)
    sparse = "Still to be measured: `python -m benchmarks.sparse_products`."
    if asked.sparse:
        sparse = sparse_products.told(json.loads(asked.sparse.read_text()))
    thesis = "The thesis: 0.08 (mean square) with logarithms, 0.75 without, of 200,000 samples of a GPU."
    parts = [
        RULES, "## Learning a law", learned(SAMPLES[:1] if asked.small else SAMPLES), thesis,
        "## Sampling", accepted(), "## Cost", costs(), "## Products on this machine", here,
        "## Families of shapes on one thread", families, "## Block-sparse products", sparse,
        "## Loops of a GPU's products", loops, "## Still to be measured", LEFT,
    ]  # fmt: skip
    report("tuning", "Kernels for any size", "\n\n".join(parts), asked.save, "scripts/bench tune --any-size")


if __name__ == "__main__":
    main()
