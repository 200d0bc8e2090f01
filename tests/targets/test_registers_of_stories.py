"""Stories derive their tiles and lanes: in machine code for 16, 32 and 64 bytes, sums stay in registers."""

from __future__ import annotations

import platform
import re
from itertools import product

import pytest

import tiramisu_py as tm
from benchmarks.machine_code.assembly import innermost_loops
from benchmarks.machine_code.compiled_loops import Processor, assembly
from tests.programs import cpu_stories, linear_stories
from tests.selection import some

PROCESSORS = {"x86-64-v2": 16, "x86-64-v3": 32, "x86-64-v4": 64}
#: The stories, and how many vectors may be on the stack: a product without FMA needs a register more.
STORIES = {"skinny": 0, "matmul": 0, "convolution": 2, "convolution_nchw": 2}
PRODUCTS = ("vfmadd", "mulp")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the machine code is that of x86")
@pytest.mark.parametrize(("name", "processor"), some(product(STORIES, PROCESSORS), lambda each: each[0] == "skinny"))
def test_the_sums_of_a_tile_fill_the_registers_and_stay_there(name: str, processor: str) -> None:
    known = Processor(processor)
    loops = cpu_stories.module(name, linear_stories.FOLDER).scheduled(cpu=known.cpu).show("lowered", known.vector_bytes)
    code = innermost_loops(assembly(loops, known, fast=("contract",)))
    products = {loop: sum(each.name.startswith(PRODUCTS) for each in loop.usual) for loop in code if not loop.is_masked}
    hot, most = max(products.items(), key=lambda each: each[1])
    assert hot.vector_bytes == PROCESSORS[processor]
    assert most >= known.cpu.vector_registers // 2  # as many sums at a time as hide the time of an addition
    assert len(hot.spilled()) <= STORIES[name]


#: Stories of other sums, and processors that have instructions for their products.
WHOLE = [
    *(("spmm", processor, "vfmadd.*|v?mulps", size) for processor, size in PROCESSORS.items()),
    ("int8_product", "alderlake", "vpdpbusd", 32),
    ("int8_product", "icelake-server", "vpdpbusd", 64),
]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the machine code is that of x86")
@pytest.mark.parametrize(
    ("name", "processor", "multiplies", "size"), some(WHOLE, lambda each: each[:2] != ("int8_product", "alderlake"))
)
def test_products_of_bytes_and_of_rows_stay_in_registers(name: str, processor: str, multiplies: str, size: int) -> None:
    known = Processor(processor)
    loops = cpu_stories.module(name, linear_stories.FOLDER).scheduled(cpu=known.cpu).show("lowered", known.vector_bytes)
    code = innermost_loops(assembly(loops, known, fast=("contract",)))
    products = {loop: sum(bool(re.fullmatch(multiplies, each.name)) for each in loop.usual) for loop in code}
    hot, most = max(products.items(), key=lambda each: each[1])
    assert hot.vector_bytes == size
    assert most >= 4
    assert [str(each) for each in hot.spilled()] == []


#: A number of lanes in the text of a schedule; a line of the cache has a name.
LANES = re.compile(r"vectorize\(\w+, *\d+ *[,)]")
#: A number of registers, or the name of an instruction set beside a number.
NUMBERS = re.compile(r"registers *(==|>=?|<=?) *\d+|choose\(\{[^}]*: *\d")
FOLDERS = ("apps", "blocks", "cpu", "linear", "polybench", "reductions", "sparse")


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_schedule_has_a_number_of_lanes(folder: str) -> None:
    texts = {file.name: file.read_text() for file in (linear_stories.FOLDER.parent / folder).glob("*.py")}
    assert any("vectorize(" in text for text in texts.values())
    assert {name: LANES.findall(text) for name, text in texts.items() if LANES.search(text)} == {}
    assert [name for name, text in texts.items() if NUMBERS.search(text)] == []


@pytest.mark.parametrize(
    ("size", "registers", "feature", "rows", "columns"),
    [(32, 16, "avxvnni", 6, 16), (64, 32, "avx512vnni", 6, 64), (16, 16, "", 6, 32), (32, 16, "", 6, 64)],
)
def test_tiles_of_bytes_are_wide_where_pairs_are_multiplied(
    size: int, registers: int, feature: str, rows: int, columns: int
) -> None:
    cpu = tm.Target("some", size, registers, 2**15, 2**20, 2**25, 1, (feature,))
    assert cpu_stories.module("int8_product", linear_stories.FOLDER).tile(cpu) == (rows, columns)


@pytest.mark.parametrize(
    ("registers", "vectors", "rows"), [(16, 2, 6), (32, 4, 6), (32, 2, 14), (16, 1, 14), (16, 8, 1)]
)
def test_rows_of_sums_leave_room_for_what_is_multiplied(registers: int, vectors: int, rows: int) -> None:
    cpu = tm.Target("some", 32, registers, 2**15, 2**20, 2**25, 1)
    assert cpu.rows_of_sums(vectors) == rows
    assert rows == 1 or rows * vectors + vectors + 1 <= registers


def test_rows_of_sums_are_of_some_vectors() -> None:
    with pytest.raises(tm.ArgumentError, match="takes the number of vectors of a row, 1 or more, not 0"):
        tm.target().rows_of_sums(0)
