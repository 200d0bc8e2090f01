"""Examples have no number of a processor: compiled for vectors of 16, 32 and 64 bytes, they use vectors of this size,
the registers that there are, and in their loops no more of the stack than is known.

A plain run has a kernel of PolyBench and a story, in turns; ``--all`` has every example for every size.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from inspect import signature
from itertools import product

import pytest

from benchmarks.machine_code.assembly import innermost_loops
from benchmarks.machine_code.compiled_loops import Processor, assembly
from tests.folders import modules_of
from tests.programs import linear_stories
from tests.tiers.families import this_turn

EXAMPLES = linear_stories.FOLDER.parent
PROCESSORS = {"x86-64-v2": 16, "x86-64-v3": 32, "x86-64-v4": 64}
FOLDERS = ("cpu", "apps", "linear", "reductions", "polybench", "sparse")
#: Schedules with a processor of their own, or none: for ranks and GPUs.
ELSEWHERE = {"forms", "ranks", "several_gpus", "subgraphs"}
VECTORS = {"x": 16, "y": 32, "z": 64}
#: Rows of sparse matrices are short: their vectors have 8 lanes at most.
NARROWER = {("spmv", "x86-64-v4"): 32}
#: How many vectors a loop may have on the stack, with 16, 32 and 64 bytes, where it is not none; gcc 12's.
ON_STACK = {
    "adi": (8, 8, 8),
    "batched": (10, 0, 0),
    "blur": (0, 1, 0),
    "byte_tiles": (119, 119, 8),
    "cholesky": (2, 12, 28),
    "convolution": (2, 0, 0),
    "convolution_nchw": (7, 3, 4),
    "correlation": (1, 0, 0),
    "depthwise": (19, 11, 31),
    "deriche": (1, 0, 0),
    "doitgen": (0, 1, 0),
    "durbin": (0, 0, 9),
    "edge": (0, 0, 12),
    "gauss": (17, 102, 0),  # at the end of rows, masked; in the loop of whole vectors three, which nobody reads
    "gemm": (2, 2, 2),
    "grey": (16, 0, 0),
    "heat": (1, 0, 0),  # a copy of vectors stores each there, too, and does not read it
    "int8_product": (119, 119, 8),
    "lu": (2, 12, 158),
    "ludcmp": (2, 12, 158),
    "matmul": (2, 0, 0),
    "nussinov": (41, 4, 12),
    "online_softmax": (77, 40, 0),
    "several_values": (63, 24, 8),
    "softmax": (16, 16, 0),
    "symm": (2, 2, 2),
    "three_mm": (4, 0, 0),
    "two_mm": (4, 2, 2),
    "warp": (8, 16, 1),
}
#: Of the apps, whose other loops have not been counted, in the loop with the most whole vectors. What local_laplacian,
#: lens_blur and bilateral_grid have there are constants, and places of gathers that are loaded one by one.
IN_HOTTEST_LOOP = {
    "bilateral_grid": (8, 9, 0),
    "camera_pipe": (166, 183, 0),
    "conv_layer": (2, 0, 0),  # a product without FMA needs a register more
    "hist": (17, 55, 0),  # two vectors of each colour in an iteration, for whole lines
    "iir_blur": (9, 0, 0),  # four vectors for a cache line of turned rows
    "interpolate": (0, 4, 0),
    "lens_blur": (58, 28, 6),
    "local_laplacian": (60, 57, 0),
    "max_filter": (58, 36, 0),
    "nl_means": (172, 171, 0),
    "unsharp": (3, 0, 0),
}


def schedules() -> Iterator[tuple[str, str]]:
    """The folders and the names of the examples whose schedule is for cores."""
    for folder in FOLDERS:
        for file in sorted((EXAMPLES / folder).glob("*.py")):
            if "def scheduled(" in file.read_text() and file.stem not in ELSEWHERE:
                yield folder, file.stem


CASES = [(folder, name, processor) for (folder, name), processor in product(schedules(), PROCESSORS)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every case with ``--all``; else one of each of two groups, the next one in each turn."""
    if "processor" not in metafunc.fixturenames:
        return
    groups = (("polybench",), ("cpu", "linear"))
    of_groups = [[case for case in CASES if case[0] in group] for group in groups]
    chosen = [cases[this_turn() % len(cases)] for cases in of_groups]
    metafunc.parametrize(("folder", "name", "processor"), CASES if metafunc.config.getoption("--all") else chosen)


def code(folder: str, name: str, processor: Processor) -> str:
    """The assembly of an example as it is scheduled for a processor."""
    with modules_of(EXAMPLES / folder) as load:
        scheduled = load(name).scheduled
        function = scheduled(**({"cpu": processor.cpu} if "cpu" in signature(scheduled).parameters else {}))
        return assembly(function.show("lowered", processor.vector_bytes), processor, fast=("contract",))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the machine code is that of x86")
def test_an_example_uses_the_vectors_and_the_registers_that_there_are(folder: str, name: str, processor: str) -> None:
    known, size = Processor(processor), PROCESSORS[processor]
    text = code(folder, name, known)
    named = {(VECTORS[kind], int(number)) for kind, number in re.findall(r"%([xyz])mm(\d+)", text)}
    assert max(each for each, _ in named) == NARROWER.get((name, processor), size)
    assert max(number for _, number in named) < known.cpu.vector_registers
    loops = [each for each in innermost_loops(text) if each.vector_bytes]
    place = list(PROCESSORS).index(processor)
    if folder != "apps":
        known_here = ON_STACK.get(f"{folder}/{name}" if folder == "sparse" else name, (0, 0, 0))
        assert max((len(each.spilled()) for each in loops), default=0) <= known_here[place]
    else:
        hot = max((each for each in loops if not each.is_masked), key=lambda each: len(each.whole(size)))
        assert len(hot.spilled()) <= IN_HOTTEST_LOOP.get(name, (0, 0, 0))[place]
