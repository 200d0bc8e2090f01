"""The page of what ran on the machine for PTX: ``python -m tests.ptx.page [--programs N]`` writes docs/results/ptx.md.

Random programs are proven, compiled by nvcc and by NVRTC, and executed at a few sizes under several seeds of the
machine, beside `evaluate()` and the simulator; all tests of this folder run, those marked slow too.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

from tests.forking import ROOT
from tests.oracle.agreeing import ptx_agreement
from tests.oracle.generators.script import Script
from tests.oracle.seeds import revision
from tests.ptx.test_random_programs import MADE, is_for_gpus

PAGE = ROOT / "docs" / "results" / "ptx.md"
#: Programs that are compiled and run in one process.
TOGETHER = 4
HEAD = """# Kernels as PTX, executed

`tests/ptx/` is a driver and an interpreter of PTX, written from the ISA; it knows nothing of this compiler. What nvcc
and NVRTC make of kernels runs on it: threads, blocks and streams in orders that a seed draws, stores held back until a
fence. It refuses accesses beyond an allocation, shared memory that was not written, `ld.global.nc` of what the kernel
writes, barriers that not all threads reach, and every instruction that it does not know. It says nothing about the
speed of a GPU. `python -m tests.ptx.page` writes this page.
"""
#: Tests by what they execute, and the words that begin their names.
TESTS = (
    ("stories of the examples, each variant, six seeds", "test_stories.py", "test_a_story"),
    ("the same for sm_80, with copies past the registers", "test_stories.py", "test_copies"),
    ("examples with their own checks", "test_stories.py", "test_an_example"),
    ("the tests that wait for a GPU", "test_stories.py", "test_the_tests"),
    ("every operation of every type, beside NumPy", "test_operations.py", "test_"),
    ("programs that were wrong on a GPU and accepted", "test_found.py", "test_"),
    ("pointers chosen for the read-only cache: none", "test_pointer_choices.py", "test_"),
    ("instructions, by hand", "test_instructions.py", "test_"),
    ("memory: what is refused, and what is not", "test_memory.py", "test_"),
    ("sectors that warps touch, beside NumPy", "test_sectors.py", "test_"),
    ("threads, barriers and warps: likewise", "test_threads.py", "test_"),
    ("streams and waits: likewise", "test_streams.py", "test_"),
    ("mutations: a fence, barrier or wait less, an instruction changed", "test_mutations.py", "test_"),
)


def random_programs(kind: str, compiler: str, programs: int) -> list[str]:
    """A row: random programs of one kind, until so many have run."""
    began, counts = time.monotonic(), Counter[str]()
    waiting: dict[int, Script] = {}
    for seed in range(40 * programs):
        if counts["ran"] + len(waiting) >= programs:
            break
        script = MADE[kind](seed)
        counts["seeds"] += 1
        if is_for_gpus(kind, script):
            waiting[seed] = script
        elif not script.function.check().ok:
            counts["refused"] += 1
        if len(waiting) == TOGETHER:
            _count(counts, waiting, compiler)
    _count(counts, waiting, compiler)
    print(f"{kind}, {compiler}: {dict(counts)}", flush=True)
    found = (str(counts[each]) for each in ("seeds", "refused", "ran", "matched", "wrong"))
    return [kind, compiler, *found, f"{(time.monotonic() - began) / 60:.1f}"]


def _count(counts: Counter[str], waiting: dict[int, Script], compiler: str) -> None:
    wrong = ptx_agreement.wrong_on_machine([*waiting.values()], [*waiting], compiler) if waiting else []
    for seed, said in zip(waiting, wrong, strict=True):
        counts.update(["ran", "wrong" if said else "matched"])
        if said:
            print(f"{seed}: {said}\n{waiting[seed].text}", flush=True)
    waiting.clear()


def tests(plain: bool) -> Iterator[list[str]]:
    """A row for each sort of tests: how many, passed, failed, not run, minutes."""
    by_file: dict[str, list[ElementTree.Element]] = {}
    for what, file, begins in TESTS:
        if file not in by_file:
            by_file[file] = _cases(file, plain)
        cases = [case for case in by_file[file] if str(case.get("name")).startswith(begins)]
        failed = sum(case.find("failure") is not None or case.find("error") is not None for case in cases)
        skipped = sum(case.find("skipped") is not None for case in cases)
        minutes = sum(float(case.get("time", 0)) for case in cases) / 60
        yield [what, str(len(cases)), str(len(cases) - failed - skipped), str(failed), str(skipped), f"{minutes:.1f}"]


def _cases(file: str, plain: bool) -> list[ElementTree.Element]:
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "cases.xml")
        which = [] if plain else ["--all"]
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", *which, f"--junitxml={told}", f"tests/ptx/{file}"]
        subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.DEVNULL)
        return list(ElementTree.parse(told).iter("testcase"))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows as Markdown."""
    return "\n".join(f"| {' | '.join(each)} |" for each in (head, ["---"] * len(head), *rows))


def text(random: Sequence[Sequence[str]], others: Sequence[Sequence[str]], plain: bool, code: str, today: str) -> str:
    """The page."""
    which = "Those of a plain run: some cases of each family" if plain else "All of them, those marked slow too"
    of_random = (
        "programs",
        "PTX by",
        "seeds",
        "refused by the proof",
        "ran",
        "matched",
        "wrong, or refused by the machine",
        "minutes",
    )
    of_tests = ("tests", "in all", "passed", "failed", "not run", "minutes")
    return (
        f"{HEAD}\nOn {today}, code {code}, on a machine with other work.\n\n## Random programs\n\n"
        "Those of `scripts/fuzz`, whose kind `ptx` runs more of them. What is neither refused nor ran has no kernels, "
        "or is for other targets.\n\n"
        f"{table(of_random, random)}\n\n## Tests\n\n{which}.\n\n{table(of_tests, others)}\n"
    )


def main() -> None:
    """Writes the page, after each row again."""
    parser = argparse.ArgumentParser(prog="python -m tests.ptx.page", description=__doc__)
    parser.add_argument("--programs", type=int, default=24, help="so many random programs run of each kind")
    parser.add_argument("--plain", action="store_true", help="the tests of a plain run only, not all")
    options = parser.parse_args()
    code, today = ", ".join(revision()), datetime.now(UTC).date().isoformat()
    others: list[list[str]] = []
    random: list[list[str]] = []
    for row in tests(options.plain):
        others.append(row)
        PAGE.write_text(text(random, others, options.plain, code, today))
    for kind in MADE:
        for compiler in ptx_agreement.compilers():
            random.append(random_programs(kind, compiler, options.programs))
            PAGE.write_text(text(random, others, options.plain, code, today))


if __name__ == "__main__":
    main()
