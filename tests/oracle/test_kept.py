"""Programs that `scripts/fuzz` has found: all judges agree about every one of them by now."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.oracle.generators.script import Script, replayed
from tests.oracle.kinds import KINDS, Drawn
from tests.oracle.product.finds import Find, crashing, minimised, read

FOUND = sorted((Path(__file__).parent.parent / "found").glob("*.json"))


def test_there_are_some() -> None:
    assert FOUND


@pytest.mark.parametrize("path", FOUND, ids=[path.stem for path in FOUND])
def test_what_was_found_is_mended(path: Path) -> None:
    """Its lines are taken or refused, the judge agrees with the proof, and what is accepted runs right."""
    find = read(path)
    kind, drawn = KINDS[find.kind], Drawn(find.seed, find.script())
    drawn.script.check()
    assert not drawn.script.slowest.too_long
    came = kind.compared(drawn.script, find.seed)
    assert came.kind not in kind.wrong, came.text
    assert find.came != "strict" or came.kind == "accepted"
    if came.kind == "accepted" and kind.runs(drawn.script):
        assert not kind.wrong_loops(drawn)
        if kind.wrong_code is not None and kind.compiles(drawn.script):
            assert not any(kind.wrong_code([drawn]))


LINES = (
    "N, = tm.params('N')",
    "i, x0, x1 = tm.iters('i x0 x1')",
    "f = tm.Function('f', params=[N])",
    "a = f.input('a', tm.int32, [N])",
    "b = f.computation('b', {i: N}, a[i])",
    "c = f.computation('c', {i: N}, a[i] + 1)",
    "f.outputs(b, c)",
    "b.split(i, 2, x0, x1)",
    "c.reverse(i)",
    "b.unroll(x1)",
)


def test_a_find_is_made_small_and_is_the_same_when_read_again(tmp_path: Path) -> None:
    """Commands and declarations go that do not matter, outputs with them."""
    small = minimised(replayed(LINES, 7), lambda script: "reverse" in script.text and "outputs" in script.text)
    assert small.lines == [*LINES[:4], LINES[5], "f.outputs(c)", LINES[8]]
    find = Find("any", 7, "unsound", "a reason", tuple(small.lines), small.declarations)
    path = find.write(tmp_path)
    assert read(path) == find
    assert read(path).script().text == small.text


def test_a_command_that_raises_is_found_with_what_it_needs() -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        replayed(LINES, 7).attempt("b.unroll(x1, 1 // 0)")
    script: Script = raised.value.script  # type: ignore[attr-defined]
    assert script.lines[-1] == "b.unroll(x1, 1 // 0)"
    lines, declarations = crashing(script.lines, script.declarations, "ZeroDivisionError")
    assert declarations == len(lines) - 1 and len(lines) < len(LINES)
