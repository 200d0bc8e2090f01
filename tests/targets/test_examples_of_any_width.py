"""Examples have no number of a processor: compiled for vectors of 16, 32 and 64 bytes, their hot loops work on whole
vectors of this size, and what registers do not hold is known."""

from __future__ import annotations

import platform
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


def scheduled() -> Iterator[tuple[str, str]]:
    """The folders and the names of the examples whose schedule takes a processor."""
    for folder in ("cpu", "apps", "linear", "reductions", "polybench", "sparse"):
        for file in sorted((EXAMPLES / folder).glob("*.py")):
            if "def scheduled(" in file.read_text():
                yield folder, file.stem


CASES = [(folder, name, processor) for (folder, name), processor in product(scheduled(), PROCESSORS)]


def hottest(folder: str, name: str, processor: Processor) -> Loop:
    """Of an example for a processor, the innermost loop with the most vectors; those of masked rests are left out."""
    with modules_of(EXAMPLES / folder) as load:
        story = load(name)
        options = {"cpu": processor.cpu} if "cpu" in signature(story.scheduled).parameters else {}
        function = story.scheduled(**options)
    loops = innermost_loops(assembly(function.lowered(processor.vector_bytes), processor, fast=("contract",)))
    return max((each for each in loops if not each.is_masked), key=lambda each: len(each.whole(processor.vector_bytes)))
