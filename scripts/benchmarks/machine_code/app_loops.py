"""The vector loops of an app in its assembly, each by the stage whose C it was made from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.apps.programs import APPS, App, imported
from benchmarks.machine_code.assembly import Loop, innermost_loops
from benchmarks.machine_code.compiled_loops import Processor, assembly
from tiramisu_py.backends import emit

_FILE = re.compile(r'\s+\.file\s+(\d+)\s+(?:"[^"]*"\s+)?"([^"]*)"')
_LINE = re.compile(r"\s+\.loc\s+(\d+)\s+(\d+)")
_INSTRUCTION = re.compile(r"\s+(?:\{\w+\}\s+)?[a-z]")
#: The comment before a stage's code: its value, by the name of the stage.
_STAGE = re.compile(r"\s*// (\w+)(?:\[.*\])? = ")
#: What a rest of fewer elements than a vector has is loaded, stored and gathered by.
_REST = re.compile(r"_first_|GATHER_FIRST")


def loops_of(app: App, processor: Processor) -> dict[str, Loop]:
    """The largest vector loop of each stage; one for rests, which is masked, only where there is no other."""
    function = app.story.scheduled(processor.cpu).show("lowered", processor.vector_bytes)
    code = {name: str(text).splitlines() for name, text in emit(function).items() if name.startswith(function.name)}
    text = assembly(function, processor, fast=imported(APPS, "story").FAST, others=["-g1"])
    loops = [loop for loop in innermost_loops(text) if loop.vector_bytes]
    stages = {(name, number): stage for name in code for number, stage in stage_of_lines(code[name]).items()}
    found: dict[str, tuple[bool, int, Loop]] = {}
    for loop, lines in zip(loops, lines_of(text, loops), strict=True):
        inside = [(name, number) for name, number in lines if (name, number) in stages]
        if inside:
            stage = stages[inside[-1]]
            is_whole = not loop.is_masked and not any(_REST.search(code[name][number - 1]) for name, number in inside)
            found[stage] = max(
                found.get(stage, (False, 0, loop)), (is_whole, len(loop.usual), loop), key=lambda o: o[:2]
            )
    return {stage: loop for stage, (_, _, loop) in found.items()}


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
