"""Run time of the stories of examples/cpu and examples/apps: unscheduled, with automatic schedules, and by hand.

scripts/bench auto [--save] [--threads 1,2] [--only blur,...] [--size 800x1280] [--seconds S] [--rounds N]
                   [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.auto.programs import AUTO, FORMS, HAND, UNSCHEDULED, Program, all_programs
from benchmarks.common import one_processor
from benchmarks.common.rounds import Contender, least, turns
from benchmarks.common.shared_arrays import folder
from benchmarks.common.tables import keep, milliseconds, report, table, versions

WORKER = "auto.worker"
TITLE = "Automatic schedules of stories and apps"
SLOW, ROUNDS = 1.0, 2  # of stories whose calls take longer than so many seconds, so few rounds are measured
RULES = """\
Unscheduled is the algorithm as declared, auto is `f.auto_schedule()`, and by hand is the schedule of the example; all
are compiled with contraction into fused multiply-adds (`fast=("contract",)`). One process for each form, with its own
copy of the same data; the forms take turns. Times are minima of all turns, in milliseconds. Each form is compared at
small sizes with the reference of the example: NumPy for `examples/apps`, the interpreter `evaluate()` for
`examples/cpu`; and with the unscheduled form at the size measured. Ratios are how many times as fast auto is as the
others. To schedule are the seconds of `auto_schedule()` in a fresh process."""


@dataclass(frozen=True)
class Measured:
    """The least seconds of each form of a story with a number of threads, at a size, and the seconds to schedule."""

    name: str
    threads: int
    size: tuple[int, ...]
    times: Mapping[str, float]
    scheduling: float
    commands: int

    def over(self, peer: str) -> float:
        """How many times as fast the automatic schedule is as another form."""
        return self.times[peer] / self.times[AUTO]


def measured(program: Program, size: Sequence[int], place: Path, threads: int, seconds: float, rounds: int) -> Measured:
    """One story with one number of threads. Forms are made one after another: the first one's results are kept."""
    arguments = ["--story", program.name, "--folder", str(place), "--size", *map(str, size)]
    with ExitStack() as stack:
        processes, about = [], dict[str, dict[str, float]]()
        for form in FORMS:
            processes.append(Contender(WORKER, form, arguments, threads))
            stack.callback(processes[-1].close)
            about[form] = json.loads(processes[-1].about)
        once = max(each["once"] for each in about.values())
        times = least(turns(processes, seconds, ROUNDS if once > SLOW else rounds))
    shown: Sequence[int] = about[AUTO]["size"]  # type: ignore[assignment]
    return Measured(program.name, threads, tuple(shown), times, about[AUTO]["scheduling"], int(about[AUTO]["commands"]))


def rows(found: Sequence[Measured]) -> Iterator[list[str]]:
    """A row for each story, and the geometric means."""
    for each in found:
        size = " x ".join(map(str, each.size[::-1] if len(each.size) == 2 else each.size))
        times = [milliseconds(each.times[form]) for form in FORMS]
        ratios = [f"{each.over(HAND):.2f}", f"{each.over(UNSCHEDULED):.2f}"]
        yield [each.name, size, *times, *ratios, f"{each.scheduling:.2f}", str(each.commands)]
    means = [f"{statistics.geometric_mean(each.over(form) for each in found):.2f}" for form in (HAND, UNSCHEDULED)]
    yield ["geometric mean", "", "", "", "", *means, "", ""]


def page(found: Sequence[Measured]) -> str:
    """The whole page."""
    absent = [name for name in all_programs() if name not in {each.name for each in found}]
    left_out = [f"Not measured here: {', '.join(absent)}."] if absent else []
    parts = [f"{versions(('tiramisu_py', 'numpy'))}.", RULES, *left_out]
    head = ["story", "size", *FORMS, "auto / by hand", "auto / unscheduled", "to schedule", "commands"]
    for threads in dict.fromkeys(each.threads for each in found):
        parts += [f"## Threads: {threads}", table(head, list(rows([e for e in found if e.threads == threads])))]
    return "\n\n".join(parts)


def kept(place: Path | None, name: str, threads: int) -> Measured | None:
    """What an interrupted run has measured, if its figures were kept."""
    file = place / f"{name}_{threads}.json" if place is not None else None
    if file is None or not file.exists():
        return None
    values = json.loads(file.read_text())
    return Measured(**{**values, "size": tuple(values["size"])})


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the stories asked for, print the page, and save it if asked."""
    programs = all_programs()
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--save", action="store_true", help="write docs/results/auto.md")
    options.add_argument("--threads", default="1,2", help="numbers of threads, such as 1,2")
    options.add_argument("--only", help=f"some of {','.join(programs)}")
    options.add_argument("--size", default="", help="instead of each story's own, such as 800x1280")
    options.add_argument("--seconds", type=float, default=4, help="for the rounds of a story and its threads")
    options.add_argument("--rounds", type=int, default=5, help="at least so many, but two of slow stories")
    options.add_argument("--keep", type=Path, help="a folder for the figures: those that are there are not measured")
    one_processor.options(options)
    given = options.parse_args(arguments)
    one_processor.apply(given)
    chosen = given.only.split(",") if given.only else list(programs)
    if unknown := [name for name in chosen if name not in programs]:
        options.error(f"there is no {', '.join(unknown)}: {', '.join(programs)} are the stories")
    size = [int(part) for part in given.size.split("x")] if given.size else []
    found = list[Measured]()
    for program in (programs[name] for name in chosen):
        for count in map(int, given.threads.split(",")):
            known = kept(given.keep, program.name, count)
            if known is None:
                print(f"{program.name}, threads: {count} ...", file=sys.stderr, flush=True)
                with folder() as place:
                    known = measured(program, size, Path(place), count, given.seconds, given.rounds)
            found.append(known)
            if given.keep:
                given.keep.mkdir(parents=True, exist_ok=True)
                (given.keep / f"{program.name}_{count}.json").write_text(json.dumps(asdict(known)))
        if given.save:
            keep("auto", TITLE, page(found), "scripts/bench auto")
    report("auto", TITLE, page(found), given.save)


if __name__ == "__main__":
    main()
