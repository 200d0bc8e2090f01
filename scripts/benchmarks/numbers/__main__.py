"""The numbers of the schedules of stories and apps, beside those that the schedules derive.

scripts/bench tune --numbers [--processor=x86-64-v3] [--only harris,...] [--found FOLDER] [--size 800x1280] [--save]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.auto.programs import Program, all_programs
from benchmarks.common import one_processor
from benchmarks.common.rounds import START, THREADS
from benchmarks.common.tables import keep, report, table
from benchmarks.numbers.spaces import SPACES, told
from benchmarks.numbers.worker import BETTER, DROPPED, TURNS, Found, Result

TITLE = "The numbers of schedules, tuned"
HEAD = (
    "story",
    "size",
    "as derived, ms",
    "best point",
    "its ms",
    "times as fast",
    "tried",
    "dropped",
    "refused",
    "at commit",
)
RULES = f"""\
Each story and app takes the numbers and choices of its schedule as arguments, such as `scheduled(band=128)`; without
them they are derived, or are as the schedule states them. The search goes through them one after another, each from the
best point so far (by {BETTER - 1:.0%} at least), until none is better. A point runs by turns with the schedule as it is
derived, in one process, on the same arrays; times are minima of {TURNS} turns of the processor time of the thread, in
milliseconds, with the arrays of the alignment that are slower for each. One that takes {DROPPED} times as long in its
first turn is dropped. All values of each point were compared with those of the derived schedule. Other work may run
meanwhile, so that a few hundredths are noise; what is taken is measured again, alone, and at later commits the derived
schedule has it."""
#: Of stories whose calls take long, or wait for memory, a part of the picture.
SMALLER = {
    "lens_blur": (400, 640), "nl_means": (800, 1280), "max_filter": (400, 2560), "local_laplacian": (800, 2560),
    "blur": (1000, 2000), "gauss": (1000, 2000),
}  # fmt: skip


def size_of(program: Program) -> tuple[int, ...]:
    """The size at which a story is searched."""
    return SMALLER.get(program.name, program.size)


def searched(name: str, size: Sequence[int], file: Path, seconds: float) -> None:
    """Search one story in a process of its own."""
    command = [*START, "numbers.worker", "--story", name, "--size", *map(str, size), "--file", str(file)]
    command += ["--seconds", str(seconds)]
    subprocess.run(command, check=True, env={**os.environ, **dict.fromkeys(THREADS, "1")})


def row(name: str, found: Found) -> list[str]:
    """The row of a story: its best point, if one is better than the derived schedule."""
    best = found.best
    derived = min((each.derived for each in found.results if each.derived), default=0.0)
    better = best is not None and best.ratio > BETTER
    point = [told(best.point), f"{best.own:.3f}", f"{best.ratio:.2f}"] if best and better else ["as derived", "", ""]
    counts = [
        sum(map(test, found.results)) for test in (lambda _: True, lambda r: r.dropped, lambda r: bool(r.refused))
    ]
    size = " x ".join(map(str, found.size))
    at = found.commit.removeprefix(", commit ")
    return [name, size, f"{derived:.3f}", *point, *map(str, counts), at]


def points(name: str, found: Found) -> Iterator[list[str]]:
    """All points of a story, the fastest first."""

    def words(each: Result) -> str:
        if each.refused:
            return f"refused: {each.refused}"
        return f"{each.ratio:.2f}{' (dropped)' if each.dropped else ''}"

    for each in sorted(found.results, key=lambda each: -each.ratio):
        yield [name, told(each.point), words(each)]


def page(found: dict[str, Found]) -> str:
    """The whole page."""
    rows = [row(name, each) for name, each in found.items()]
    every = [line for name, each in found.items() for line in points(name, each)]
    left = [name for name in SPACES if name not in found]
    absent = [f"Not searched: {', '.join(left)}."] if left else []
    parts = [RULES, *absent, table(HEAD, rows), "## All points", table(("story", "point", "times as fast"), every)]
    return "\n\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> None:
    """Search the stories asked for, print the page, and save it if asked."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--numbers", action="store_true", help="this benchmark of `tune`")
    options.add_argument("--save", action="store_true", help="write docs/results/tune.md, or that of the processor")
    options.add_argument("--only", default=",".join(SPACES), help="some of the stories")
    options.add_argument("--size", default="", help="instead of each story's own, such as 800x1280")
    options.add_argument(
        "--found", type=Path, required=True, help="a folder for what is found: a later run goes on there"
    )
    options.add_argument("--seconds", type=float, default=float("inf"), help="of each story: no point begins later")
    options.add_argument("--known", action="store_true", help="make the page of what was found, and search nothing")
    one_processor.options(options)
    options.set_defaults(arrays="16,64")
    given = options.parse_args(arguments)
    one_processor.apply(given)
    chosen, programs = given.only.split(","), all_programs()
    if unknown := [name for name in chosen if name not in SPACES]:
        options.error(f"there is no {', '.join(unknown)}: {', '.join(SPACES)} have numbers")
    given.found.mkdir(parents=True, exist_ok=True)
    found = dict[str, Found]()
    for name in chosen:
        file = given.found / f"{name}-{given.processor or 'native'}.json"
        size = tuple(map(int, given.size.split("x"))) if given.size else size_of(programs[name])
        if not given.known:
            print(f"{name} ...", file=sys.stderr, flush=True)
            searched(name, size, file, given.seconds)
        if (known := Found.read(file)).results:
            found[name] = known
        if given.save:
            keep("tune", TITLE, page(found), "scripts/bench tune --numbers")
    report("tune", TITLE, page(found), given.save, "scripts/bench tune --numbers")


if __name__ == "__main__":
    main()
