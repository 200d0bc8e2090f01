"""Time to schedule, to prove and to emit PolyBench's kernels, apps, CPU stories and reductions, each in a process.

scripts/bench compile_times [--save] [--only polybench/lu,apps,...] [--forms plain,auto,hand] [--rounds N]

A process first proves and emits a small program of its own, so that no time has the first use of isl and of files.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import tiramisu_py as tm
from benchmarks.common.stories import EXAMPLES, imported
from benchmarks.common.tables import keep, report, table
from benchmarks.reductions.programs import programs as reductions

PLAIN, AUTO, HAND = FORMS = ("plain", "auto", "hand")
FOLDERS = ("polybench", "apps", "cpu", "linear")
#: The folder whose modules have several programs each.
REDUCTIONS = "reductions"
#: Modules of these folders that are no programs.
STORIES = ("story", "kernel_story")
PAGE = ("compile_times", "Time to schedule, prove and emit", "scripts/bench compile_times")
HEADER = ("program", "form", "commands", "schedule", "check", "emit", "check + emit", "kB")
LIMIT = 600  # seconds for a program in one form


@dataclass(frozen=True)
class Times:
    """The milliseconds of one program in one form, and the size of its own C in kB."""

    program: str
    form: str
    commands: int
    schedule: float
    check: float
    emit: float
    size: float

    @property
    def total(self) -> float:
        """What is between a schedule and the C compiler."""
        return self.check + self.emit

    @property
    def row(self) -> list[str]:
        """A row of the table."""
        numbers = (f"{each:.1f}" for each in (self.schedule, self.check, self.emit, self.total, self.size))
        return [self.program, self.form, str(self.commands), *numbers]


def programs(only: Sequence[str]) -> list[str]:
    """Folder and name of each program, ``polybench/lu``; `only` has such names, or folders."""
    files = [file for folder in FOLDERS for file in sorted((EXAMPLES / folder).glob("*.py"))]
    named = [f"{file.parent.name}/{file.stem}" for file in files if file.stem not in STORIES]
    named += [f"{REDUCTIONS}/{name}" for name in reductions()]
    return [name for name in named if not only or name in only or name.split("/")[0] in only]


def builder(program: str, form: str) -> Callable[[], tm.Function] | None:
    """What makes a program in one form; None if it has no such form."""
    folder, name = program.split("/")
    if folder == REDUCTIONS:
        return reductions()[name] if form == HAND else None
    module = imported(EXAMPLES / folder, name)

    def plain() -> tm.Function:
        made = module.algorithm()
        declared: tm.Function = made[0] if isinstance(made, tuple) else made
        return declared

    def automatic() -> tm.Function:
        f = plain()
        f.auto_schedule()
        return f

    if form == HAND:
        return getattr(module, "scheduled", None)
    return {PLAIN: plain, AUTO: automatic}[form] if hasattr(module, "algorithm") else None


def once(program: str, form: str) -> Times | None:
    """The times of one program in this process."""
    build = builder(program, form)
    if build is None:
        return None
    first()
    moments = [time.process_time()]
    f = build()
    moments.append(time.process_time())
    if not (found := f.check()).ok:
        raise SystemExit(f"{program}, {form}, is refused: {found}")
    moments.append(time.process_time())
    files = f.source()
    moments.append(time.process_time())
    schedule, check, emit = (1e3 * (after - before) for before, after in itertools.pairwise(moments))
    size = sum(len(text) for name, text in files.items() if not name.startswith("tm_")) / 1e3
    return Times(program, form, len(f.commands), schedule, check, emit, size)


def first() -> None:
    """Prove and emit a small program."""
    n, i = tm.params("N")[0], tm.iters("i")[0]
    f = tm.Function("first", params=[n])
    x = f.input("x", tm.float32, [n])
    y = f.computation("y", {i: n}, x[i] + x[i])
    f.outputs(y)
    y.vectorize(i, 8)
    f.check()
    f.source()


def least(program: str, form: str, rounds: int) -> Times | None:
    """The times of the fastest of several processes."""
    command = [sys.executable, str(Path(__file__).resolve().parent), "compile_times", "--one", program, form]
    found = []
    for _ in range(rounds):
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
        if done.returncode:
            raise SystemExit(f"{program}, {form}: {done.stderr}")
        if (times := json.loads(done.stdout)) is None:
            return None
        found.append(Times(**times))
    return min(found, key=lambda each: each.total)


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--save", action="store_true", help="write docs/results/compile_times.md")
    options.add_argument("--only", type=lambda text: text.split(","), default=(), help="programs, or their folders")
    options.add_argument("--forms", type=lambda text: text.split(","), default=FORMS)
    options.add_argument("--rounds", type=int, default=2, help="processes for each, of which the fastest is shown")
    options.add_argument("--one", nargs=2, metavar=("PROGRAM", "FORM"), help="one program in this process, as JSON")
    given = options.parse_args()
    if given.one:
        times = once(*given.one)
        print(json.dumps(times and times.__dict__))
        return
    found: list[Times] = []
    for program in programs(given.only):
        for form in given.forms:
            if (times := least(program, form, given.rounds)) is not None:
                found.append(times)
                print(*times.row, flush=True)
                if given.save:
                    keep(PAGE[0], PAGE[1], page(found), PAGE[2])
    report(*PAGE[:2], page(found), given.save)


def page(found: Sequence[Times]) -> str:
    """The table of the programs so far, and what lies in the middle for each folder and form."""
    text = table(HEADER, [each.row for each in found])
    lines = [f"{text}\n\nMilliseconds of processor time, one process each; the last column is the C of the program.\n"]
    for folder, form in dict.fromkeys((each.program.split("/")[0], each.form) for each in found):
        totals = [each.total for each in found if each.form == form and each.program.startswith(f"{folder}/")]
        lines.append(f"{folder}, {form}: median {statistics.median(totals):.0f}, most {max(totals):.0f}.")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
