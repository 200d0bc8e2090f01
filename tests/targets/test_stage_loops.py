"""The hot loops of the apps by stage, as `scripts/bench machine_code.apps` finds them in machine code."""

from __future__ import annotations

import sys

import pytest

from benchmarks.apps.programs import all_apps
from benchmarks.machine_code.assembly import innermost_loops
from benchmarks.machine_code.compiled_loops import Processor
from benchmarks.machine_code.stage_loops import hottest, lines_of, loops_of, stage_of_lines

CODE = """\
// grey[r] = red[r]
void story(void) {
  // grey[r] = red[r]
  for (int r = 0; r < 9; r++)
    grey[r] = red[r];
  // total = 0
  total = 0;
}"""

ASSEMBLY = """\
\t.file 1 "story.c"
\t.file 2 "/usr/include" "other.h"
\t.type\tstory, @function
story:
\t.loc 1 2 4
\txorl %eax, %eax
.L2:
\t.loc 1 5 4
\tvmovups (%rdi,%rax), %ymm0
\t.loc 2 7 4
\tvmovups %ymm0, (%rsi,%rax)
\taddq $32, %rax
\tcmpq $320, %rax
\tjne .L2
\t.loc 1 7 4
\tret
"""


def test_lines_belong_to_the_stage_before_them_inside_a_function() -> None:
    assert stage_of_lines(CODE.splitlines()) == {3: "grey", 4: "grey", 5: "grey", 6: "total", 7: "total"}


def test_a_loop_has_the_lines_that_its_instructions_are_made_from() -> None:
    loops = innermost_loops(ASSEMBLY)
    assert [loop.label for loop in loops] == [".L2"]
    assert list(lines_of(ASSEMBLY, loops)) == [[("other.h", 7), ("story.c", 5)]]


@pytest.mark.parametrize("processor", ["x86-64-v3", "x86-64-v4"])
def test_the_loops_of_an_app_are_found_for_processors_that_need_not_be_here(
    processor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("story", "harris"):  # modules of these names may be those of another folder
        monkeypatch.delitem(sys.modules, name, raising=False)
    loops = loops_of(all_apps()["harris"], Processor(processor))
    size = {"x86-64-v3": 32, "x86-64-v4": 64}[processor]
    assert {"grey", "corners"} <= loops.keys()
    assert all(loop.vector_bytes == size for loop in loops.values())
    assert not any(loop.is_masked for loop in loops.values())


def test_the_hottest_stages_are_those_with_most_cycles_anywhere() -> None:
    assert hottest({"a": {"x": 3.0, "y": 4.0}, "b": {"x": 5.0}, "c": {"y": 1.0}}, 2) == ["b", "a"]
