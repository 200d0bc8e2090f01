"""The history of a computation, and the loops of a program as commands see them."""

from __future__ import annotations

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
    assert f.loop_nests() == textwrap.dedent(
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
    history = f.explain(down)
    assert [change.command for change in history.changes] == [
        "down.compute_at(by, c0)", "by.vectorize(c1, 8, remainder='mask')", "down.store_in(tm.REGISTER)",
    ]  # fmt: skip
    assert all(change.location is not None for change in history.changes)
    assert history.changes[2].storage == "down is kept in down[4, 10], registers, one for each iteration of r0, c0"
    assert history.declared.loops == "for r:\n    for c:\n        down"
    assert [change.command for change in f.explain("by").changes][:2] == [
        "by.tile(r, c, 4, 8, r0, c0, r1, c1)", "by.parallelize(r0)",
    ]  # fmt: skip
    text = str(history)
    assert text.startswith("down, as declared: down is kept in down[R, C], memory\n    for r:")
    assert "(test_explanation.py:" in text
    assert str(f.explain(by)) == str(f.explain("by"))


def test_what_no_command_changed_says_so() -> None:
    f, _, _ = blur()
    f2 = tm.Function("plain", params=[])
    (i,) = tm.iters("i")
    f2.outputs(f2.computation("a", {i: 3}, i))
    assert str(f2.explain("a")).endswith("no command has changed it\n")
    with pytest.raises(tm.DeclarationError, match="no computation 'image' to explain: it has down, by"):
        f.explain("image")
    with pytest.raises(tm.DeclarationError, match="no computation 3 to explain: it has down, by"):
        f.explain(3)  # type: ignore[arg-type]


def test_inlined_values_have_no_loops() -> None:
    (N,) = tm.params("N")
    (i,) = tm.iters("i")
    f = tm.Function("f", params=[N])
    a = f.computation("a", {i: N}, i)
    f.outputs(f.computation("b", {i: N}, a[i] + 1))
    a.inline()
    (change,) = f.explain(a).changes
    assert change.loops == "(computed where it is read)"


def test_notebooks_get_html_and_terminals_colours() -> None:
    f, _, _ = blur()
    for each in (f, f.check(), f.explain("by"), f.lowered()):
        shown = each._repr_html_()
        assert shown.startswith("<pre")
        assert "<script" not in shown
    assert "\x1b[32mblur: proven" in f.check().styled()
    kernel = f.compile()
    assert "<summary>blur.c</summary>" in kernel._repr_html_()
