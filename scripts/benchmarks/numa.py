"""The blur with its threads on one memory node, and its arrays on the same one, on another, or left to the system.

The last experiment of the thesis (table 5.5). The arrays are made by `Kernel.empty`: their pages are where the threads
are that first write to them. A machine with one memory node has one case, which is measured; the others say why not.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np

import tiramisu_py as tm
from benchmarks.blur import tiled
from benchmarks.common.tables import report, table

SMALL, LARGE = 500, 8000
#: The thesis's times for 100000 x 100000, 10 threads on one of two sockets, in seconds.
THESIS = {"matching": 5.217, "mismatched": 9.734, "left alone": 5.977}
ROUNDS, SECONDS = 5, 2.0

Result = tuple[str, float | str]


def usable_nodes() -> tuple[tm.MemoryNode, ...]:
    """The memory nodes with cpus that this process may run on."""
    kept = []
    for node in tm.memory_nodes():
        try:
            tiled().compile(pin=f"node:{node.number}", threads=1).empty("by", R=1, C=1)
        except tm.ArgumentError:
            continue
        kept.append(node)
    return tuple(kept)


def rows(small: bool = False) -> list[Result]:
    """For each case its name, and the least time of a few calls in seconds, or why it cannot be measured."""
    nodes, size = usable_nodes(), SMALL if small else LARGE
    if not nodes:
        return [(name, "this process may run on no cpu of a memory node") for name in THESIS]
    near, threads = nodes[0], len(nodes[0].cpus)
    pinned = tiled().compile(pin=f"node:{near.number}", threads=threads)
    free = tiled().compile(threads=threads)
    cases: dict[str, tuple[tm.Kernel, tm.Kernel]] = {"matching": (pinned, pinned), "left alone": (free, free)}
    if len(nodes) > 1:
        cases["mismatched"] = (pinned, tiled().compile(pin=f"node:{nodes[1].number}", threads=len(nodes[1].cpus)))
    times = timed(cases, size)
    one = "this machine has one memory node" if len(tm.memory_nodes()) == 1 else "this process may use one memory node"
    return [(name, times.get(name, f"{one}: no memory is farther than other")) for name in THESIS]


def timed(cases: dict[str, tuple[tm.Kernel, tm.Kernel]], size: int) -> dict[str, float]:
    """The least time of the first kernel of each pair, on arrays made by the second, in interleaved rounds."""
    best = dict.fromkeys(cases, float("inf"))
    arrays = {}
    for name, (_, maker) in cases.items():
        image, by = maker.empty("image", R=size, C=size), maker.empty("by", R=size, C=size)
        image[:] = np.random.default_rng(0).random(image.shape, dtype=np.float32)  # writes do not move pages
        arrays[name] = image, by
    rounds, start = 0, time.perf_counter()
    while rounds < ROUNDS or time.perf_counter() - start < SECONDS:
        rounds += 1
        for name, (kernel, _) in cases.items():
            image, by = arrays[name]
            begin = time.perf_counter()
            kernel(image, by=by)
            best[name] = min(best[name], time.perf_counter() - begin)
    results = [by for _, by in arrays.values()]
    assert all(np.array_equal(results[0], other) for other in results)
    return best


def lines(found: Sequence[Result]) -> list[list[str]]:
    """The rows of the table: our times and the thesis's, each relative to its first."""
    measured = dict(found)
    first = measured["matching"]
    shown = []
    for name, value in found:
        ours = f"{value * 1e3:.2f}" if isinstance(value, float) else value
        ratio = f"{value / first:.2f}" if isinstance(value, float) and isinstance(first, float) else ""
        shown.append([name, ours, ratio, f"{THESIS[name] / THESIS['matching']:.2f}"])
    return shown


def main() -> None:
    """Measure, and print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--save", action="store_true", help="write docs/results/numa.md")
    options.add_argument("--small", action="store_true", help="a small picture, to see that it runs")
    given = options.parse_args()
    header = ["memory", "ms", "over matching", "over matching, in the thesis"]
    nodes = "\n".join(f"- node {node.number}: {len(node.cpus)} cpus" for node in tm.memory_nodes())
    text = f"{table(header, lines(rows(given.small)))}\n\nThe memory nodes of this machine:\n\n{nodes}"
    report("numa", "Box blur 3 x 3, float32: threads and memory on memory nodes", text, given.save)


if __name__ == "__main__":
    main()
