"""The experiments of the thesis, chapter 5, on this machine: tables 5.1 to 5.5, figures 5-1 to 5-5.

scripts/experiments thesis [--save] [--small] [--device gpu|simulator] [--only 5.1,5.4,...]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence

import tiramisu_py as tm
from benchmarks.common.tables import drawn, report, save_pictures, table
from benchmarks.gpu import cuda_peers
from benchmarks.thesis import cores, figures, gpus, memory
from benchmarks.thesis.cores import Section
from benchmarks.thesis.machine import Plan, free_memory, plan, versions

SECTIONS: dict[str, Callable[[Plan], Section]] = {
    "5.1": cores.on_cores,
    "5.2": gpus.on_gpus,
    "5.3": gpus.cooperative,
    "5.4": cores.ghost_zones,
    "5.5": memory.memory_nodes,
    "5-4": figures.against_halide,
    "5-5": figures.scaling,
}
RULES = """\
Every program is compared with `evaluate()` at a small size, bit for bit, before it is measured. Times are minima: the
programs of a table take turns, and so do the numbers of ranks; of all ranks the slowest counts. Threads of a rank are
cores by ranks. Ranks keep the memory of their temporaries between calls (`MALLOC_MMAP_MAX_=0`,
`MALLOC_TRIM_THRESHOLD_`), as a program with an allocator of its own would. The thesis: J. M. Ray, "A Unified Compiler
Backend for Distributed, Cooperative Heterogeneous Execution" (MIT, 2018), chapter 5, on nodes with two 12-core Xeons,
K40 and K80 GPUs, with a picture of 16000 x 2000000 points."""


def page(planned: Plan, found: Sequence[Section], seconds: float) -> str:
    """The page of results."""
    beside = [row for section in found for row in section.beside]
    gpu = "simulated" if planned.simulated else f"{planned.gpus} x {cuda_peers.Driver().description()}"
    machine = (
        f"{versions()}; GPU: {gpu}; {free_memory() / 2**30:.0f} GiB of memory free; {planned.cores} cores used; "
        f"{'small sizes, ' if planned.small else ''}{seconds / 60:.1f} minutes."
    )
    parts = [machine, RULES]
    if beside:
        parts += ["## The thesis's figures beside ours", table(["what", "thesis", "here"], beside)]
    for section in found:
        kind = "Table" if "." in section.number else "Figure"
        pictures = "\n".join(f"![{section.title}](pictures/{drawn(name)}.svg)" for name in section.pictures)
        parts += [f"## {kind} {section.number}. {section.title}", section.text, pictures]
    return "\n\n".join(filter(None, parts))


def wrong(found: Sequence[Section]) -> list[str]:
    """The sections with a program that does not compute what it should."""
    return [f"{section.number} {section.title}" for section in found if {"WRONG", "DIFFER"} & set(section.verdicts)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the experiments asked for, print the page, and save it if asked."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--save", action="store_true", help="write docs/results/thesis.md and its pictures")
    options.add_argument("--small", action="store_true", help="small sizes, a few minutes in all")
    options.add_argument("--device", choices=["gpu", "simulator"], help="default: a GPU where there is one")
    options.add_argument("--only", help="tables and figures, such as 5.1,5.4,5-5")
    given = options.parse_args(arguments)
    chosen = given.only.split(",") if given.only else list(SECTIONS)
    if unknown := [name for name in chosen if name not in SECTIONS]:
        options.error(f"there is no {', '.join(unknown)}: {', '.join(SECTIONS)} are the tables and figures")
    device = given.device or ("gpu" if tm.gpu_count() else "simulator")
    if device == "gpu" and not tm.gpu_count():
        raise SystemExit("there is no GPU here: --device simulator runs the programs without one")
    planned = plan(device, given.small)
    begin, found = time.perf_counter(), []
    for number in chosen:
        print(f"{number} ...", file=sys.stderr, flush=True)
        found.append(SECTIONS[number](planned))
    text = page(planned, found, time.perf_counter() - begin)
    report("thesis", "The thesis's experiments", text, given.save, "scripts/experiments thesis")
    if given.save:
        save_pictures({name: picture for section in found for name, picture in section.pictures.items()})
    if failed := wrong(found):
        raise SystemExit(f"wrong results: {', '.join(failed)}")


if __name__ == "__main__":
    main()
