"""Bytes of temporaries that exist at a time, in the apps and in PolyBench's kernels: with and without shared memory.

scripts/bench memory [--save] [--only harris,lu,...]

Nothing is run: the bytes are those of the loops that are emitted, at the sizes at which the programs are measured.
"""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import tiramisu_py as tm
from benchmarks.apps.programs import all_apps
from benchmarks.common.tables import report, table
from benchmarks.polybench.programs import all_kernels
from tiramisu_py.algorithm.domains.extents_from_arguments import infer_params
from tiramisu_py.lower import lower
from tiramisu_py.passes import PIPELINE, optimise, temporary_bytes

ROOT = Path(__file__).resolve().parents[2]
LARGE = "LARGE"
TITLE = "Memory of temporaries"
TEXT = """\
The most bytes of temporaries at a time, in KiB, as `Kernel.temporary_bytes` says, of one thread: those of each program
as it is declared, and with its schedule by hand. Before: each array exists until the function returns, as it was up to
commit 5c3a6361. After: each from its first use to its last, and arrays that never live together have memory in turns.
Commit {commit}. Programs that are not listed have a few rows, the same before and after.
"""
#: A form that has less than this is not listed.
FEW = 64 << 10


def both(f: tm.Function, sizes: Mapping[str, int]) -> tuple[int, int]:
    """The bytes without and with shared memory."""
    assert f.check().ok
    loops = lower(f.completed)
    whole = tuple(each for each in PIPELINE.after_nests if each.name != "share_memory")
    before = optimise(loops, pipeline=replace(PIPELINE, after_nests=whole))
    without, shared = (sum(temporary_bytes(each, sizes).values()) for each in (before, optimise(loops)))
    return without, shared


def sizes_of(f: tm.Function, given: Mapping[str, Any]) -> Mapping[str, int]:
    """The parameters that follow from arguments."""
    arrays = {name: np.shape(value) for name, value in given.items() if np.ndim(value)}
    shapes = [(name, declared.shape, arrays[name]) for name, declared in f.algorithm.inputs.items() if name in arrays]
    numbers = {name: int(value) for name, value in given.items() if name in f.algorithm.params}
    return infer_params(f.algorithm.params, shapes, numbers)


def programs(only: list[str]) -> Iterator[tuple[str, str, tm.Function, Mapping[str, int]]]:
    """Each program: what it is, its form, the function, and the sizes."""
    for name, app in all_apps().items():
        if not only or name in only:
            given = app.story.sample(*app.size)
            for form, made in (("declared", app.story.algorithm), ("by hand", app.story.scheduled)):
                f = made()
                yield name, form, f, sizes_of(f, given)
    for name, bench in all_kernels().items():
        if not only or name in only:
            for form, words in (("plain", "declared"), ("hand", "by hand")):
                yield name, words, bench.function(form), bench.story.SIZES[LARGE]


def main() -> None:
    """Count and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--save", action="store_true", help="write docs/results/memory.md")
    options.add_argument("--only", default="", help="names of apps and kernels, with commas between them")
    given = options.parse_args()
    rows, same, count = list[list[str]](), 0, 0
    for name, form, f, sizes in programs([name for name in given.only.split(",") if name]):
        before, after = both(f, sizes)
        count += 1
        print(name, form, before, after, flush=True)
        if before >= FEW:
            rows.append([name, form, f"{before / 1024:,.0f}", f"{after / 1024:,.0f}", f"{after / before:.0%}"])
            same += before == after
    command = ["git", "rev-parse", "--short=8", "HEAD"]
    commit = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    header = ["program", "form", "before", "after", "of it"]
    counts = f"Of {count} forms, {len(rows)} are listed, and {same} of these have as much as before."
    text = f"{TEXT.format(commit=commit)}\n{table(header, rows)}\n\n{counts}"
    report("memory", TITLE, text, given.save)


if __name__ == "__main__":
    main()
