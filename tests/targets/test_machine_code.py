"""Hot loops work on whole vectors, and keep them in registers, on processors that need not be here."""

from __future__ import annotations

import pytest

import tiramisu_py as tm
from benchmarks.machine_code.compiled_loops import hot_loop, work
from tests.selection import covering
from tests.targets.hot_loops import (
    CLANG,
    ICELAKE,
    NEOVERSE,
    SAPPHIRE,
    SKYLAKE,
    STORIES,
    ZEN,
    Processor,
    assembly,
    hot_loops,
    lowered,
    unexplained,
)

#: Every story on one processor, and on others those that differ there.
COMBINATIONS = [
    *((story, ICELAKE) for story in STORIES),
    *((story, SAPPHIRE) for story in ("edge", "warp-uint8")),
    *((story, SKYLAKE) for story in ("edge", "grey", "warp")),
    *((story, ZEN) for story in ("blur", "gauss", "edge", "grey", "negative", "warp", "warp-uint8")),
    *((story, NEOVERSE) for story in ("blur", "gauss", "grey", "negative")),
    *((story, CLANG) for story in ("blur", "gauss", "grey", "negative")),
]


#: The bytes of a cache line.
LINE = 64


@pytest.mark.parametrize(("story", "processor"), COMBINATIONS, ids=str)
def test_hot_loops_of_the_stories_work_on_whole_vectors_in_registers(story: str, processor: Processor) -> None:
    if processor.missing:
        pytest.skip(processor.missing)
    loops = hot_loops(lowered(story, processor), processor)
    small = (
        story == "negative" and processor.vector_bytes < LINE
    )  # where no vector holds a line: four of 16 bytes in turn
    assert any(loop.whole(16 if small else processor.vector_bytes) for loop in loops)
    found = {f"{loop.function} {loop.label}": unexplained(loop, story, processor) for loop in loops}
    assert {name: list(map(str, those)) for name, those in found.items() if those} == {}


@pytest.mark.parametrize("story", ["blur", "gauss", "edge"])
def test_rows_of_stencils_are_as_many_as_the_registers_of_arm_hold(story: str) -> None:
    if NEOVERSE.missing:
        pytest.skip(NEOVERSE.missing)
    function = lowered(story, NEOVERSE)
    done = work(function)
    loop = hot_loop(assembly(function, NEOVERSE), done.stored)
    assert done.points == {"blur": 12 * 16, "gauss": 12 * 4, "edge": 5 * 16}[story]
    # of edge, the model has 0.98 cycles a point for five rows, of which some are on the stack, and 1.02 for four
    assert len(loop.spilled()) <= (8 if story == "edge" else 0)


# -- integers


N = tm.params("N")[0]
i = tm.iters("i")[0]
TYPES = [tm.uint8, tm.int8, tm.uint16, tm.int16, tm.uint32, tm.int32, tm.uint64, tm.int64]
INTEGERS = {
    "least": tm.minimum,
    "most": tm.maximum,
    "chosen": lambda x, y: tm.select(x < y, x + y, y),
    "unlike": lambda x, y: tm.select(x != y, x + y, x),
    "both": lambda x, y: tm.select((x < y) & (x > 1), x, y),
}


def integers(dtype: tm.DType, size: int) -> tm.Function:
    """All of these operations on vectors of so many bytes."""
    f = tm.Function("integers", params=[N])
    x, y = f.input("x", dtype, [N]), f.input("y", dtype, [N])
    results = [f.computation(name, {i: N}, value(x[i], y[i])) for name, value in INTEGERS.items()]
    f.outputs(*results)
    for result in results:
        result.vectorize(i, size // dtype.bytes)
    return f


#: With the instructions that the least and the most become; of integers of 64 bits not on every processor.
WIDTHS = [
    *((ICELAKE, size, "vp{op}{sign}{letter}", 64) for size in (64, 32, 16)),
    *((ZEN, size, "vp{op}{sign}{letter}", 32) for size in (32, 16)),
    (NEOVERSE, 16, "{sign}{op}", 32),
    (CLANG, 64, "vp{op}{sign}{letter}", 64),
]
LETTERS = {8: "b", 16: "w", 32: "d", 64: "q"}


@pytest.mark.parametrize(("processor", "size", "text", "widest", "dtype"), covering(WIDTHS, TYPES, each=2), ids=str)
def test_operations_of_integers_are_instructions_of_whole_vectors(
    processor: Processor, size: int, text: str, widest: int, dtype: tm.DType
) -> None:
    if processor.missing:
        pytest.skip(processor.missing)
    loops = hot_loops(integers(dtype, size).show("lowered", processor.vector_bytes), processor, rests=True)
    vectors = [loop for loop in loops if loop.whole(size)]
    assert len(vectors) >= len(INTEGERS)
    assert [str(each) for loop in vectors for each in (*loop.halves(size), *loop.spilled())] == []
    used = {each.name for loop in vectors for each in loop.instructions}
    sign = "u" if dtype.kind == "u" else "s"
    if dtype.bits <= widest:
        assert {text.format(op=op, sign=sign, letter=LETTERS[dtype.bits]) for op in ("min", "max")} <= used


# -- and the flag for it


def test_a_compiler_that_is_not_told_the_width_splits_the_hot_loop_of_a_warp() -> None:
    if ICELAKE.missing:
        pytest.skip(ICELAKE.missing)
    told = [unexplained(loop, "warp", ICELAKE) for loop in hot_loops(lowered("warp", ICELAKE), ICELAKE)]
    untold = [unexplained(loop, "warp", ICELAKE) for loop in hot_loops(lowered("warp", ICELAKE), ICELAKE, told=False)]
    assert sum(map(len, told)) == 0 < sum(map(len, untold))


@pytest.mark.parametrize(("processor", "gathers"), [(Processor("skylake"), 2), (ZEN, 0)], ids=["skylake", "znver3"])
def test_neighbouring_bytes_come_from_gathers_where_these_pay_and_indices_stay_in_their_lanes(
    processor: Processor, gathers: int
) -> None:
    loop = max(hot_loops(lowered("warp-uint8", processor), processor), key=lambda each: len(each.usual))
    text = [str(each) for each in loop.usual]
    assert sum(each.startswith("vpgatherdd") for each in text) == gathers
    assert sum(each.startswith("vpinsrw") for each in text) == (0 if gathers else 16), "pairs of 8 pixels, two rows"
    assert sum(each.startswith("vpextrd") for each in text) <= 3, "where the window of eight places begins, not each"
    assert [each for each in text if each.startswith("vpackuswb")] == []
