"""The machine code of the stories for processors that need not be here: what their hot loops do with whole vectors.

``PYTHONPATH=scripts python -m tests.targets.hot_loops`` prints a table, with the flag for wide vectors and without it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.machine_code.assembly import Instruction, Loop, innermost_loops
from benchmarks.machine_code.compiled_loops import ARM_GCC, Processor, assembly
from tests.programs.shapes import SHAPES
from tiramisu_py.ir import LoopFunction

ICELAKE, SAPPHIRE, SKYLAKE = Processor("icelake-server"), Processor("sapphirerapids"), Processor("skylake-avx512")
ZEN, NEOVERSE = Processor("znver3"), Processor("neoverse-n1", ARM_GCC)
CLANG = Processor("icelake-server", "clang")
PROCESSORS = (ICELAKE, SAPPHIRE, SKYLAKE, ZEN, NEOVERSE, CLANG)
STORIES = ("blur", "gauss", "edge", "grey", "negative", "heat", "warp", "warp-uint8")


@dataclass(frozen=True)
class Allowed:
    """Instructions on narrower vectors, or spilled vectors, that hot loops of stories may have, and why.

    `text` is an expression that the whole instruction matches; `on` are the processors.
    """

    stories: tuple[str, ...]
    on: tuple[Processor, ...]
    text: str
    reason: str
    spilled: bool = False


_AVX512 = (ICELAKE, SAPPHIRE, SKYLAKE, CLANG)
_WARPS = ("warp", "warp-uint8")
ALLOWED = [
    Allowed(
        STORIES, (*_AVX512, ZEN), r"vmovnt(dq|p[sd]) %xmm\d+, .*|vextract[if](128|32x4|64x2) .*",
        "stores past the caches, where arrays begin at a multiple of 16 bytes alone: each vector goes in its parts",
    ),
    Allowed(
        _WARPS, (*_AVX512, ZEN), r"(v(insert|extract)\w+|vmovhp[ds]|vp?unpck\w+|valign[dq]|vmov(ap|dq|up)\w*) .*",
        "places that are far apart are loaded two neighbours at a time: a path that is seldom taken, in the same loop",
    ),
    Allowed(_WARPS, (CLANG,), r"vps(ll|ra)vq .*|vpbroadcast\w+ .*", "two numbers of a place at once, on that path"),
    Allowed(
        ("warp-uint8",), (*_AVX512, ZEN), r"v(cvt|p?mov|padd|pmax|pmin|pack)\w* .*",
        "16 bytes are all that 16 numbers in float32 become",
    ),
    Allowed(
        ("grey",), (NEOVERSE,), r"ldu?r d\d+, .*|mov v\d+\.8b, v\d+\.8b",
        "a color of four pixels is among 10 bytes: two loads of 8, and nothing behind the last",
    ),
    Allowed(
        ("grey",), (*_AVX512, ZEN), r"vmovdqu\w* -?\d*\(%\w+(,%\w+)?\), %[xy]mm\d+|v(insert|extract)\w+ .*",
        "16 pixels are 48 bytes: 32 and 16 of them are loaded, and nothing behind the last",
    ),
    Allowed(
        ("grey",), (SKYLAKE,), r"(vpshufb|vpblendvb|vpor|vporq|vmovdqa\w*) .*",
        "without VBMI bytes are permuted within 16 of them only",
    ),
    Allowed(
        ("grey",), (ICELAKE, SAPPHIRE, SKYLAKE, CLANG), r"vpermt2b .*|vmovdq\w+ .*|vpshufb .*|vpor .*|vpblendvb .*",
        "the last pixels of a row are taken apart 16 at a time, by a loop of the compiler's own",
    ),
    Allowed(
        ("edge",), (SKYLAKE,), r"vinserti64x4 .*",
        "without VBMI two vectors of 16 bits become bytes by a conversion of each, and are put together",
    ),
    Allowed(
        ("warp",), _AVX512, r".*\(%rsp\).*", "it has more constants than there are registers", spilled=True
    ),
    Allowed(
        ("edge",), (SKYLAKE,), r".*\(%rsp\).*", "its conversions need a register more than there are", spilled=True
    ),
    Allowed(
        ("edge",), (ICELAKE, SAPPHIRE), r".*\(%rsp\).*",
        "eight rows spill, and yet are fastest: fewer bytes are widened twice, which is what the loop waits for",
        spilled=True,
    ),
    Allowed(
        _WARPS, (ZEN,), r".*\(%rsp\).*", "16 registers hold none of its constants beside its values", spilled=True
    ),
    Allowed(
        ("blur", "gauss"), (ZEN,), r"vmovaps %ymm\d+, \d+\(%rsp\)",
        "one to three vectors of the last rows of a band, which nobody reads any more",
        spilled=True,
    ),
    Allowed(
        ("heat",), _AVX512, r"vmovaps %zmm\d+, \d+\(%rsp\)",
        "the first grid is copied through a variable, into which gcc stores what nobody reads",
        spilled=True,
    ),
]  # fmt: skip


def unexplained(loop: Loop, story: str, processor: Processor) -> list[Instruction]:
    """What works on narrower vectors in a loop, or spills, without an exception that allows it."""
    rules = [rule for rule in ALLOWED if story in rule.stories and processor in rule.on]

    def allowed(each: Instruction, spilled: bool) -> bool:
        return any(re.fullmatch(rule.text, str(each)) for rule in rules if rule.spilled == spilled)

    narrower = [each for each in loop.halves(processor.vector_bytes) if not allowed(each, False)]
    return narrower + [each for each in loop.spilled() if not allowed(each, True)]


@functools.cache
def lowered(story: str, processor: Processor) -> LoopFunction:
    """The loops of a story as it is scheduled for a processor."""
    shape = next(shape for shape in SHAPES if shape.name == story)
    return shape.made_for(processor.cpu).show("lowered", processor.vector_bytes)


def hot_loops(function: LoopFunction, processor: Processor, told: bool = True, rests: bool = False) -> list[Loop]:
    """The innermost loops with vectors, as `compile` has them made; `told` of the width of vectors, or not.

    Without `rests`, those of masked rests, which go around once or not at all, are left out. Without instructions for
    masks a rest goes lane by lane, and stores no whole vector.
    """
    loops = innermost_loops(assembly(function, processor, told))
    return [loop for loop in loops if loop.vector_bytes and (rests or (loop.stored_bytes and not loop.is_masked))]


def table() -> Iterator[str]:
    """For each story and processor the loop with the most vectors: whole, narrower and spilled, without and with."""
    yield "| story | processor | whole | narrower | spilled | told: whole | narrower | spilled |"
    yield "|---|---|--:|--:|--:|--:|--:|--:|"
    for story in STORIES:
        for processor in (each for each in PROCESSORS if not each.missing):
            size = processor.vector_bytes
            cells = []
            for told in (False, True):
                loops = hot_loops(lowered(story, processor), processor, told)
                loop = max(loops, key=lambda each: len(each.whole(size)) + len(each.halves(size)))
                cells += [len(loop.whole(size)), len(loop.halves(size)), len(loop.spilled())]
            yield f"| {story} | {processor} | {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    for row in table():
        print(row, flush=True)
