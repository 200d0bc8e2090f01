"""The history of a computation, and the loops of a program as commands see them."""

from __future__ import annotations

import sys
import textwrap

import pytest

import tiramisu_py as tm


def blur() -> tuple[tm.Function, tm.Computation, tm.Computation]:
    R, C = tm.params("R C")
    r, c, r0, c0, r1, c1 = tm.iters("r c r0 c0 r1 c1")
    f = tm.Function("blur", params=[R, C])
    image = f.input("image", tm.float32, [R + 2, C])
    down = f.computation("down", {r: R, c: C}, image[r, c] + image[r + 1, c] + image[r + 2, c])
    by = f.computation("by", {r: R, c: C - 2}, down[r, c] + down[r, c + 1] + down[r, c + 2])
    f.outputs(by)
    by.tile(r, c, 4, 8, r0, c0, r1, c1)
    by.parallelize(r0)
    down.compute_at(by, c0)
    by.vectorize(c1, 8, remainder="mask")
    down.store_in(tm.REGISTER)
    return f, down, by


def test_the_loops_have_their_tags_and_statements() -> None:
    f, _, _ = blur()
    assert f.show("loops") == textwrap.dedent(
        """\
        for r0, parallel:
            for c0:
                for r:
                    for c:
                        down
                for r1:
                    for c1, vector of 8 (rest: mask):
                        by
        """
    )


def test_the_history_has_the_commands_that_changed_a_computation_and_no_others() -> None:
    f, down, by = blur()
    history = f.show("history", down)
    assert [change.command for change in history.changes] == [
        "down.compute_at(by, c0)", "by.vectorize(c1, 8, remainder='mask')", "down.store_in(tm.REGISTER)",
    ]  # fmt: skip
    assert all(change.location is not None for change in history.changes)
    assert history.changes[2].storage == "down is kept in down[4, 10], registers, one for each iteration of r0, c0"
    assert history.declared.loops == "for r:\n    for c:\n        down"
    assert [change.command for change in f.show("history", "by").changes][:2] == [
        "by.tile(r, c, 4, 8, r0, c0, r1, c1)", "by.parallelize(r0)",
    ]  # fmt: skip
    text = str(history)
    assert text.startswith("down, as declared: down is kept in down[R, C], memory\n    for r:")
    assert "(test_explanation.py:" in text
    assert str(f.show("history", by)) == str(f.show("history", "by"))


def test_what_no_command_changed_says_so() -> None:
    f, _, _ = blur()
    f2 = tm.Function("plain", params=[])
    (i,) = tm.iters("i")
    f2.outputs(f2.computation("a", {i: 3}, i))
    assert str(f2.show("history", "a")).endswith("no command has changed it\n")
    with pytest.raises(tm.DeclarationError, match="no computation 'image' to explain: it has down, by"):
        f.show("history", "image")
    with pytest.raises(tm.DeclarationError, match="no computation 3 to explain: it has down, by"):
        f.show("history", 3)  # type: ignore[call-overload]


def test_inlined_values_have_no_loops() -> None:
    (N,) = tm.params("N")
    (i,) = tm.iters("i")
    f = tm.Function("f", params=[N])
    a = f.computation("a", {i: N}, i)
    f.outputs(f.computation("b", {i: N}, a[i] + 1))
    a.inline()
    (change,) = f.show("history", a).changes
    assert change.loops == "(computed where it is read)"


def test_notebooks_get_html_and_terminals_colours() -> None:
    f, _, _ = blur()
    for each in (f, f.check(), f.show("history", "by"), f.show("lowered")):
        shown = each._repr_html_()
        assert shown.startswith("<pre")
        assert "<script" not in shown
    assert "\x1b[32mblur: proven" in f.check().styled()
    kernel = f.compile()
    assert "<summary>blur.c</summary>" in kernel._repr_html_()


def test_each_command_has_what_was_before_and_after_it() -> None:
    f, down, _ = blur()
    by = str(f.show("history", "by"))
    assert textwrap.dedent("""\
            for r:      -->  for r0:
                for c:           for c0:
                    by               for r1:
                                         for c1:
                                             by
        by.parallelize(r0)""") in textwrap.dedent(by).replace("\n    for r:", "\n    for r:")
    history = f.show("history", down)
    for before, after in zip((history.declared, *history.changes), history.changes, strict=False):
        assert (after.loops_before, after.storage_before) == (before.loops, before.storage) or before.command
    stored = history.changes[2].lines()
    assert stored[1:3] == [
        "    down is kept in down[4, 10], memory, one for each iteration of r0, c0",
        "    --> down is kept in down[4, 10], registers, one for each iteration of r0, c0",
    ]
    assert stored[3:] == textwrap.indent(history.changes[2].loops, "    ").splitlines()  # the loops are as they were


def test_a_history_tells_of_blocks_threads_and_shared_memory() -> None:
    (N,) = tm.params("N")
    i, i0, i1 = tm.iters("i i0 i1")
    f = tm.Function("f", params=[N])
    x = f.input("x", tm.float32, [N + 2])
    u = f.computation("u", {i: N + 2}, 2 * x[i])
    y = f.computation("y", {i: N}, u[i] + u[i + 2])
    f.outputs(y)
    y.split(i, 64, i0, i1)
    y.tag_gpu([i0], [i1])
    u.compute_at(y, i0)
    u.store_in(tm.SHARED)
    split, tagged, *_ = f.show("history", y).changes
    assert split.loops == "for i0:\n    for i1:\n        y"
    assert tagged.loops == "for i0, on block x:\n    for i1, on thread x:\n        y"
    assert tagged.loops_before == split.loops
    stored = f.show("history", u).changes[-1]
    assert "shared memory" in stored.storage and "shared memory" not in stored.storage_before
    assert "one for each iteration of i0" in stored.storage_before


def test_a_history_tells_of_ranks_and_their_parts() -> None:
    f = tm.Function("f", params=[])
    i, q, i1 = tm.iters("i q i1")
    x = f.input("x", tm.float32, [12])
    y = f.computation("y", {i: 12}, x[i] + 1)
    f.outputs(y)
    for array in (x, y):
        array.distribute_array([i], rank=i // 4)
    y.split(i, 4, q, i1)
    y.tag_distribute(q)
    changes = f.show("history", y).changes
    assert changes[-1].command.startswith("y.tag_distribute(q")
    assert changes[-1].loops.startswith("for q, on ranks (axis 0):")
    assert changes[-1].loops_before.startswith("for q:")


def test_at_a_prompt_reports_are_coloured_where_the_terminal_takes_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    f, _, _ = blur()
    shown = [f.check(), f.show("history", "by"), f.cost(R=8, C=20)]
    for each in shown:
        assert repr(each) == str(each).rstrip("\n")  # no prompt: plain, as in logs
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for each in shown:
        assert "\x1b[" in repr(each)
        assert "\x1b[" not in str(each)
    assert repr(f.check()) == f.check().styled()
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with monkeypatch.context() as changed:
            changed.setenv(name, value)
            assert repr(f.check()) == str(f.check())
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    assert repr(f.check()) == str(f.check())
