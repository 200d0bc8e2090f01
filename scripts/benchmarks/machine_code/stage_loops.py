"""The vector loops of a program in its assembly, each by the stage whose C it was made from."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.apps.programs import APPS, App, imported
from benchmarks.machine_code.assembly import Loop, innermost_loops
from benchmarks.machine_code.compiled_loops import Processor, Work, assembly
from tiramisu_py.backends import emit
from tiramisu_py.ir import LoopFunction

_FILE = re.compile(r'\s+\.file\s+(\d+)\s+(?:"[^"]*"\s+)?"([^"]*)"')
_LINE = re.compile(r"\s+\.loc\s+(\d+)\s+(\d+)")
_INSTRUCTION = re.compile(r"\s+(?:\{\w+\}\s+)?[a-z]")
#: The comment before a stage's code: its value, by the name of the stage.
_STAGE = re.compile(r"\s*// (\w+)(?:\[.*\])? = ")
#: What a rest of fewer elements than a vector has is loaded, stored and gathered by.
_REST = re.compile(r"_first_|GATHER_FIRST")


@dataclass(frozen=True)
class StageLoop:
    """A vector loop, the stage that its last line of C belongs to, and whether it has no rest of fewer lanes."""

    stage: str
    is_whole: bool
    loop: Loop


def stage_loops(function: LoopFunction, processor: Processor, fast: Collection[str] = ()) -> list[StageLoop]:
    """The vector loops of a function as it is compiled for a processor, those of no stage left out."""
    code = {name: str(text).splitlines() for name, text in emit(function).items() if name.startswith(function.name)}
    text = assembly(function, processor, fast=fast, others=["-g1"])
    loops = [loop for loop in innermost_loops(text) if loop.vector_bytes]
    stages = {(name, number): stage for name in code for number, stage in stage_of_lines(code[name]).items()}
    found = []
    for loop, lines in zip(loops, lines_of(text, loops), strict=True):
        inside = [(name, number) for name, number in lines if (name, number) in stages]
        if inside:
            has_rest = loop.is_masked or any(_REST.search(code[name][number - 1]) for name, number in inside)
            found.append(StageLoop(stages[inside[-1]], not has_rest, loop))
    return found


def loops_of(app: App, processor: Processor) -> dict[str, Loop]:
    """The largest vector loop of each stage; one for rests, which is masked, only where there is no other."""
    function = app.story.scheduled(processor.cpu).show("lowered", processor.vector_bytes)
    found: dict[str, StageLoop] = {}
    for each in stage_loops(function, processor, imported(APPS, "story").FAST):
        best = found.get(each.stage, each)
        found[each.stage] = max(best, each, key=lambda one: (one.is_whole, len(one.loop.usual)))
    return {stage: each.loop for stage, each in found.items()}


def loop_of(loops: Iterable[StageLoop], work: Work) -> Loop | None:
    """The loop whose iterations store so many bytes; None if no loop does.

    Of several it is one of the stages that the iterations store, then one without stores past the caches, then the
    longest. A value that stays in registers has lines, but stores nothing, so that a loop may be of none of the stages.
    """
    alike = [each for each in loops if each.loop.stored_bytes == work.stored and not each.loop.is_masked]
    best = max(
        alike,
        key=lambda each: (each.stage in work.stages, not each.loop.streams, len(each.loop.usual)),
        default=None,
    )
    return best and best.loop


def stage_of_lines(code: Sequence[str]) -> dict[int, str]:
    """The stage that each line of C belongs to, from the first stage's comment inside a function on."""
    found, stage = dict[int, str](), ""
    for number, line in enumerate(code, 1):
        is_inside = line.startswith(" ")
        if said := _STAGE.match(line):
            stage = said[1] if is_inside else ""
        if stage and is_inside:
            found[number] = stage
    return found


def lines_of(text: str, loops: Sequence[Loop]) -> Iterator[list[tuple[str, int]]]:
    """The lines of C that each loop was made from, by file, as the assembly says."""
    rows = text.splitlines()
    files = {number: name.split("/")[-1] for number, name in _FILE.findall(text)}
    places = {row[:-1]: k for k, row in enumerate(rows) if row.endswith(":")}
    for loop in loops:
        numbered = set(_lines_from(rows[places[loop.label] :], len(loop.instructions)))
        yield sorted((files[file], line) for file, line in numbered)


def _lines_from(rows: Sequence[str], instructions: int) -> Iterator[tuple[str, int]]:
    """The lines of C named among so many instructions, by the number of their file."""
    for row in rows:
        if said := _LINE.match(row):
            yield said[1], int(said[2])
        elif _INSTRUCTION.match(row):
            instructions -= 1
        if instructions == 0:
            return


def hottest(loops: Mapping[str, Mapping[str, float]], count: int) -> list[str]:
    """The stages whose loops take most cycles on the processor where they take most; `loops` has cycles by these."""
    return sorted(loops, key=lambda stage: -max(loops[stage].values()))[:count]
