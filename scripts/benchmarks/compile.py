"""Cost of compiling without the C compiler: declare, schedule, check, and generate (isl's loops, loop IR, C text).

The blur of the README, and pipelines of tiled, parallel, vectorised stencils, each stage reading the one before.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable

import tiramisu_py as tm
from benchmarks.common.tables import report, table

STAGES = (10, 20, 40, 80)
GOALS = {"blur": 60.0, "40 stages": 1000.0}  # milliseconds


def declared_blur() -> tuple[tm.Function, Callable[[], None]]:
    """The blur of the README, and its schedule."""
    R, C = tm.params("R C")
    r, c, r0, c0, r1, c1 = tm.iters("r c r0 c0 r1 c1")
    f = tm.Function("blur", params=[R, C], assume="R >= 1 and C >= 1")
    image = f.input("image", tm.float32, [R + 2, C + 2])
    bx = f.computation("bx", {r: R + 2, c: C}, (image[r, c] + image[r, c + 1] + image[r, c + 2]) / 3)
    by = f.computation("by", {r: R, c: C}, (bx[r, c] + bx[r + 1, c] + bx[r + 2, c]) / 3)
    f.outputs(by)

    def schedule() -> None:
        by.tile(r, c, 32, 256, r0, c0, r1, c1)
        by.parallelize(r0)
        by.vectorize(c1, 16)
        bx.compute_at(by, c0)
        bx.vectorize(c, 16)

    return f, schedule


def declared_pipeline(stages: int) -> tuple[tm.Function, Callable[[], None]]:
    """`stages` stencils one after another, and a schedule that tiles each of them."""
    R, C = tm.params("R C")
    r, c, r0, c0, r1, c1 = tm.iters("r c r0 c0 r1 c1")
    f = tm.Function("pipeline", params=[R, C], assume="R >= 1 and C >= 1")
    value = f.input("image", tm.float32, [R + 2 * stages, C + 2 * stages])
    computations = []
    for stage in range(stages):
        border = 2 * (stages - 1 - stage)
        term = (value[r, c] + value[r, c + 1] + value[r + 1, c] + value[r + 2, c + 2]) / 4
        value = f.computation(f"s{stage}", {r: R + border, c: C + border}, term)
        computations.append(value)
    f.outputs(value)

    def schedule() -> None:
        for computation in computations:
            computation.tile(r, c, 32, 256, r0, c0, r1, c1)
            computation.parallelize(r0)
            computation.vectorize(c1, 16)

    return f, schedule


def once(declare: Callable[[], tuple[tm.Function, Callable[[], None]]]) -> list[float]:
    """The times of declaring, scheduling, checking and generating, in milliseconds."""
    moments = [time.process_time()]
    f, schedule = declare()
    moments.append(time.process_time())
    schedule()
    moments.append(time.process_time())
    if not f.check().ok:
        raise SystemExit(f"{f.name} is refused")
    moments.append(time.process_time())
    f.source()
    moments.append(time.process_time())
    return [(after - before) * 1e3 for before, after in itertools.pairwise(moments)]


def fastest(declare: Callable[[], tuple[tm.Function, Callable[[], None]]], rounds: int) -> list[float]:
    """The times of the round with the least total."""
    return min((once(declare) for _ in range(rounds)), key=sum)


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--save", action="store_true", help="write docs/results/compile.md")
    options.add_argument("--rounds", type=int, default=5, help="of which the fastest is shown")
    options.add_argument("--stages", type=int, nargs="+", default=STAGES, help="lengths of the pipelines")
    given = options.parse_args()

    programs = {"blur": declared_blur}
    programs |= {f"{n} stages": (lambda n=n: declared_pipeline(n)) for n in given.stages}
    rows = []
    for name, declare in programs.items():
        times = fastest(declare, given.rounds)
        goal = f"{GOALS[name]:.0f}" if name in GOALS else ""
        rows.append([name, *(f"{t:.1f}" for t in times), f"{sum(times):.1f}", goal])
    header = ["program", "declare", "schedule", "check", "generate", "sum", "goal"]
    text = f"{table(header, rows)}\n\nMilliseconds of processor time; of {given.rounds} rounds the fastest."
    report("compile", "Cost of scheduling, proving and generating", text, given.save)


if __name__ == "__main__":
    main()
