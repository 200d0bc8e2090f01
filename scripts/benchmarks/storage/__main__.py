"""Values kept, in files, and computed again: the adjoint of a recurrence, and models of PyTorch.

scripts/bench storage [--save] [--only levels,BERT,...] [--ways "keep;file;..."] [--folder FOLDER] [--found FILE]

Each way of a model, or of the recurrence, is a process of its own; memory is counted from the second step on.
`folder` is on a disk. A page may be of several short runs of one commit: each takes from `found` what others have
measured, and adds to it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.common.tables import commit, report, table, versions
from benchmarks.storage import levels, shapes
from benchmarks.storage.processes import ENVIRONMENT, rate

START = Path(__file__).resolve().parents[1]
TITLE = "Values in files"
LEVELS = """\
## A recurrence

The adjoint of {steps} steps of a rod with {points:,} points, {state:.0f} MB of levels, on one thread. In the second row
the process may have a quarter of that (`RLIMIT_DATA`). Peak: what a call adds to the process's memory, once all code is
loaded; said: the count. The levels need {needs:.2f} GB/s while they are computed, and the disk writes {rate:.2f} GB/s
past the page cache.
"""
MODELS = """\
## Models of PyTorch

Gradients of blocks as those of BERT, GPT and T5 (of their width, 768), and of eight plain ones of 512 to 1024 to 512
(MLP), on one thread. Peak: what a step adds to the process's memory. Time: of the fastest of four steps (of two but in
the first rows); *of kept* is beside as many that keep all, by turns in the same process. Written: bytes of a step that
`/proc/self/io` counts for the disk; counted: what the cache says; predicted: the storages that a step saves, each once,
of at least {least} kB, but for the four that are read first, which stay. Not written: what was asked for, or no longer
wanted, before it was. Needs: the rate at which the forward pass, a third of the time, saves; the disk writes
{rate:.2f} GB/s past the page cache, and the slow disk {slow:.0f} MB/s. Bits: whether gradients are those of the first
row.{more}
"""
MORE = {"save_on_cpu": " `save_on_cpu` moves what is on a GPU: on the CPU it moves nothing."}
HEADER = (
    "model", "activations", "peak, MB", "less", "step, s", "of kept", "written", "counted", "not written", "predicted",
    "needs, GB/s", "bits",
)  # fmt: skip


@dataclass(frozen=True)
class Found:
    """Measurements of one commit, in a folder, which a file keeps from run to run."""

    folder: str
    file: Path | None
    known: dict[str, Any]

    @classmethod
    def of(cls, folder: str, file: str | None) -> Found:
        """Those that a file has."""
        known = json.loads(Path(file).read_text()) if file and Path(file).exists() else {"commit": commit()}
        if known["commit"] != commit():
            raise SystemExit(f"{file} is{known['commit']}, and this is{commit()}: remove it")
        return cls(folder, Path(file) if file else None, known)

    def take(self, what: str, *way: str) -> Any:
        """A measurement that is known, or is made now."""
        name = " ".join((what, *way))
        if name not in self.known:
            self.known[name] = rate(self.folder) if what == "rate" else alone(what, self.folder, *way)
            if self.file:
                self.file.write_text(json.dumps(self.known))
        return self.known[name]


def alone(what: str, folder: str, *way: str) -> dict[str, Any]:
    """A measurement in a process of its own."""
    command = [sys.executable, str(START), "storage", "--one", what, *way, "--folder", folder]
    done = subprocess.run(
        command, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, check=False, timeout=600
    )
    if done.returncode:
        raise SystemExit(f"{what}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(what, *way, found, flush=True)
    return found


def megabytes(count: float) -> str:
    """Bytes as megabytes."""
    return f"{count / 1e6:.1f}"


def of_levels(measured: Found) -> str:
    """The table of the recurrence."""
    found = {way: measured.take("levels", way) for way in levels.WAYS}
    kept, filed = found["keep"], found["file"]
    assert len({each["bits"] for each in found.values()}) == 1
    assert filed["stored"] + filed["loaded"] == filed["said"]
    needs = filed["state"] / (kept["seconds"] / 3)  # backwards takes twice the time of forwards
    rows = [
        [way, megabytes(each["peak"]), megabytes(each["expected"]), f"{each['peak'] / each['expected'] - 1:+.1%}",
         f"{each['seconds']:.2f}", f"{each['seconds'] / kept['seconds']:.2f}"]
        for way, each in found.items()
    ]  # fmt: skip
    header = ["levels", "peak, MB", "said, MB", "off", "time, s", "of kept"]
    sizes = {"steps": levels.SIZES["T"], "points": levels.SIZES["N"], "state": filed["state"] / 1e6}
    text = LEVELS.format(**sizes, needs=needs / 1e9, rate=measured.take("rate") / 1e9)
    moved = f"Stored {megabytes(filed['stored'])} MB, loaded {megabytes(filed['loaded'])} MB, as is counted."
    return f"{text}\n{table(header, rows)}\n\nAll have the same bits. {moved}\n"


def of_models(names: list[str], ways: list[str], measured: Found) -> str:
    """The table of models; the first way is that with which the others are compared."""
    rows = []
    for name in names:
        found = {way: measured.take(name, way) for way in ways}
        kept = found[ways[0]]
        for way, each in found.items():
            same = "" if "twice" in way else "same" if each["bits"] == kept["bits"] else "others"
            moved = [megabytes(each[key]) if key in each else "" for key in ("io", "stored", "cancelled", "predicted")]
            less, times = 1 - each["peak"] / kept["peak"], each["seconds"] / each["plain"]
            first = [name, way, megabytes(each["peak"]), f"{less:.0%}", f"{each['seconds']:.2f}", f"{times:.2f}"]
            needs = f"{each['predicted'] / (each['plain'] / 3) / 1e9:.2f}" if "predicted" in each else ""
            rows.append([*first, *moved, needs, same])
    more = "".join(text for way, text in MORE.items() if way in ways)
    rate_of = measured.take("rate") / 1e9
    text = MODELS.format(least=shapes.LEAST >> 10, slow=shapes.SLOW / 1e6, rate=rate_of, more=more)
    return f"{text}\n{table(HEADER, rows)}\n\nWith {versions(['torch'])}.\n"


def main() -> None:
    """Measure one way, or all in processes of their own."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--save", action="store_true", help="write docs/results/storage.md")
    options.add_argument("--only", default="", help="levels, and names of models, with commas between them")
    options.add_argument("--folder", default=".", help="where files are")
    options.add_argument("--ways", default=";".join(shapes.WAYS), help="of models, with semicolons between them")
    options.add_argument("--found", help="a file of measurements, which are not made again")
    options.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.one:
        what, way = given.one
        if what == "levels":
            one = levels.measured(way, given.folder)
        else:  # with PyTorch
            one = importlib.import_module("benchmarks.storage.models").measured(what, way, given.folder)
        print(json.dumps(one))
        return
    only = [word for word in given.only.split(",") if word] or ["levels", *shapes.SHAPES]
    parts = list[str]()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        measured = Found.of(folder, given.found)
        if "levels" in only:
            parts.append(of_levels(measured))
        named = [word for word in only if word in shapes.SHAPES]
        if named and find_spec("torch") is None:
            parts.append("PyTorch is not installed: models are left out.\n")
        elif named:
            parts.append(of_models(named, [word.strip() for word in given.ways.split(";")], measured))
    report("storage", TITLE, "\n".join(parts), given.save)


if __name__ == "__main__":
    main()
