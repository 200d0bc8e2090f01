"""Unroll-and-jam: rows side by side in the innermost loop, what they share loaded once, wrong orders refused."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs import pipelines as pl
from tests.programs.drafts import texts
from tests.programs.pipelines import c, c0, c1, i, i0, i1, j, k, r, r0, r1, t
from tiramisu_py.ir import For
from tiramisu_py.ir.rewriting import walk
from tiramisu_py.lower import lower


def test_it_is_a_split_a_reorder_and_an_unroll():
    jammed, by_hand = pl.volume(), pl.volume()
    jammed.o.unroll_and_jam(i, 4, i0, i1)
    by_hand.o.split(i, 4, i0, i1).reorder(i0, j, k, i1).unroll(i1)
    assert jammed.f.show("pseudocode") == by_hand.f.show("pseudocode")
    assert texts(jammed.f) == ("o.unroll_and_jam(i, 4, outer=i0, inner=i1)",)


def test_the_loop_keeps_its_name_and_the_copies_have_one_that_is_free():
    s = pl.scale()
    s.o.unroll_and_jam(i, 4).unroll_and_jam(i, 2)
    assert s.f.program.loop_names(s.f.program.statements["o"]) == ("i", "j", "i_jam", "i_jam2")
    assert texts(s.f) == ("o.unroll_and_jam(i, 4)", "o.unroll_and_jam(i, 2)")
    s.f.undo()
    assert s.f.program.loop_names(s.f.program.statements["o"]) == ("i", "j", "i_jam")


def test_rows_in_one_vector_loop_compute_and_load_each_row_between_them_once():
    s = pl.blur()
    s.by.split(c, 8, c0, c1).vectorize(c1, 8).unroll_and_jam(r, 4)
    s.bx.compute_at(s.by, c0)
    s.bx.unroll(r).vectorize(c, 8)
    assert s.f.check().ok
    text = s.f.source()["blur.c"]
    full = text[text.index("const float32x8 bx_") :]
    full = full[: full.index("}")]
    assert full.count("const float32x8 bx_") == 6
    assert full.count("TM_STORE") == 4
    assert "for (" not in full
    image = np.random.default_rng(0).random((21, 35), dtype=np.float32)
    kernel = s.f.compile()
    for rows in (2, 3, 6, 7, 21):
        np.testing.assert_array_equal(kernel(image[:rows]), s.f.evaluate(image[:rows]))


def test_the_start_and_the_update_of_a_reduction_are_jammed_each_in_its_own_loops():
    s = pl.matmul()
    s.C.unroll_and_jam(i, 4)
    assert s.f.program.loop_names(s.f.program.statements["C_init"]) == ("i", "j", "i_jam")
    assert s.f.program.loop_names(s.f.program.statements["C_update"]) == ("i", "j", "k", "i_jam")
    assert s.f.check().ok
    rng = np.random.default_rng(1)
    a, b = rng.random((9, 5), dtype=np.float32), rng.random((5, 3), dtype=np.float32)
    np.testing.assert_array_equal(s.f.compile()(a, b), s.f.evaluate(a, b))


def test_statements_in_the_same_loops_are_jammed_together():
    s = pl.chain()
    s.q.after(s.p, i)
    s.q.unroll_and_jam(i, 4)
    loops = [node for node in walk(lower(s.f.program).body) if isinstance(node, For)]
    assert s.f.program.loop_names(s.f.program.statements["p"]) == ("i", "i_jam")
    assert s.f.check().ok
    assert loops
    a = np.arange(11, dtype=np.int32)
    np.testing.assert_array_equal(s.f.compile()(a), s.f.evaluate(a))


def test_an_order_that_it_breaks_is_blamed_on_it():
    s = pl.heat()
    s.h.unroll_and_jam(t, 4)
    (violation,) = s.f.check().violations
    assert violation.kind == "order"
    assert violation.command == "h.unroll_and_jam(t, 4)"
    with pytest.raises(tm.LegalityError, match=r"h\.unroll_and_jam\(t, 4\)"):
        s.f.compile()


def test_a_legal_jam_of_a_recurrence_is_accepted():
    s = pl.heat()
    s.h.skew(t, i, 1).interchange(t, i)
    s.h.unroll_and_jam(i, 2)
    assert s.f.check().ok
    start = np.random.default_rng(2).random(9)
    np.testing.assert_array_equal(s.f.compile()(start, T=6), s.f.evaluate(start, T=6))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (lambda s: s.by.unroll_and_jam(k, 4), "no loop k here: by has the loops r, c"),
        (lambda s: s.by.unroll_and_jam(r, 0), "the block size of r is 0"),
        (lambda s: s.by.unroll_and_jam(r, 4, r0, c), "by has a loop c already"),
        (lambda s: s.by.unroll_and_jam(r, 4, r1, r1), "different names"),
        (lambda s: s.by.parallelize(r).unroll_and_jam(r, 4), r"r is tagged by by\.parallelize\(r\): split it before"),
        (
            lambda s: (s.bx.compute_at(s.by, r), s.by.unroll_and_jam(r, 4)),
            r"by and bx share the loop r, but not all loops inside of it.*unroll_and_jam r first, and then place bx",
        ),
    ],
)
def test_what_cannot_be_jammed_is_refused_with_the_reason(command, words):
    s = pl.blur()
    with pytest.raises(tm.CommandError, match=words):
        command(s)
    assert not any("jam" in text for text in texts(s.f))
