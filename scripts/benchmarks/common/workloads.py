"""The command of benchmarks that measure workloads by name, each with several numbers of threads."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

from benchmarks.common import one_processor


class Named(Protocol):
    """A workload."""

    @property
    def name(self) -> str: ...


Each = TypeVar("Each", bound=Named)


def command(about: str | None, page: str, example: str, seconds: float) -> argparse.ArgumentParser:
    """The options --save, --threads, --only, --seconds and --rounds, and those of one processor."""
    options = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--save", action="store_true", help=f"write docs/results/{page}.md")
    options.add_argument("--threads", default="1,2", help="numbers of threads, such as 1,2")
    options.add_argument("--only", default="", help=f"workloads whose names contain one of these, such as {example!r}")
    options.add_argument("--seconds", type=float, default=seconds, help="for the rounds of a workload and its threads")
    options.add_argument("--rounds", type=int, default=5, help="at least so many")
    one_processor.options(options)
    return options


def asked_for(
    options: argparse.ArgumentParser, arguments: Sequence[str] | None, known: Mapping[str, Each]
) -> tuple[argparse.Namespace, Iterator[tuple[int, Each]]]:
    """What a command line says, and its workloads with each number of threads, of which it tells while they run."""
    given = options.parse_args(arguments)
    one_processor.apply(given)
    words = given.only.split(";")
    chosen = [each for each in known.values() if any(word in each.name for word in words)]
    if not chosen:
        options.error(f"no workload has {given.only} in its name: {', '.join(known)}")

    def told() -> Iterator[tuple[int, Each]]:
        for threads in map(int, given.threads.split(",")):
            for each in chosen:
                print(f"{each.name}, threads: {threads} ...", file=sys.stderr, flush=True)
                yield threads, each

    return given, told()
