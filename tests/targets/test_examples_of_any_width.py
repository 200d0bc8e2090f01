"""Examples have no number of a processor: compiled for vectors of 16, 32 and 64 bytes, they use vectors of this size,
the registers that there are, and in their hottest loop no more of the stack than is known."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from inspect import signature
from itertools import product

import pytest

from benchmarks.machine_code.assembly import Loop, innermost_loops
from benchmarks.machine_code.compiled_loops import Processor, assembly
from tests.folders import modules_of
from tests.programs import linear_stories
from tests.selection import some

EXAMPLES = linear_stories.FOLDER.parent
PROCESSORS = {"x86-64-v2": 16, "x86-64-v3": 32, "x86-64-v4": 64}
FOLDERS = ("cpu", "apps", "linear", "reductions", "polybench", "sparse")
VECTORS = {"x": 16, "y": 32, "z": 64}


def schedules() -> Iterator[tuple[str, str]]:
    """The folders and the names of the examples whose schedule takes a processor, or nothing."""
    for folder in FOLDERS:
        for file in sorted((EXAMPLES / folder).glob("*.py")):
            if re.search(r"def scheduled\((\)|.*\b(cpu|dtype): )", file.read_text()):
                yield folder, file.stem


CASES = [(folder, name, processor) for (folder, name), processor in product(schedules(), PROCESSORS)]


def code(folder: str, name: str, processor: Processor) -> str:
    """The assembly of an example as it is scheduled for a processor."""
    with modules_of(EXAMPLES / folder) as load:
        scheduled = load(name).scheduled
        function = scheduled(**({"cpu": processor.cpu} if "cpu" in signature(scheduled).parameters else {}))
        return assembly(function.lowered(processor.vector_bytes), processor, fast=("contract",))


def hottest(text: str, size: int) -> Loop | None:
    """The innermost loop with the most whole vectors; those of masked rests are left out."""
    loops = [each for each in innermost_loops(text) if each.whole(size) and not each.is_masked]
    return max(loops, key=lambda each: len(each.whole(size)), default=None)
