"""What TIRAMISU compiles silently into wrong code (numbers of its issues): right here, or refused."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs import pipelines as pl
from tests.programs.drafts import texts
from tests.programs.pipelines import c, i, i0, i1, j, j0, j1, r, r0, r1


def _check(s, **sizes):
    arrays = {}
    for declared in s.f.algorithm.inputs.values():
        shape = [eval(str(extent), {}, sizes) for extent in declared.shape]
        arrays[declared.name] = np.arange(int(np.prod(shape))).reshape(shape).astype(declared.dtype.numpy)
    np.testing.assert_array_equal(s.f.compile()(**arrays, **sizes), s.f.evaluate(**arrays, **sizes))


@pytest.mark.parametrize("extent", [0, 1, 3, 7, 8, 9, 15, 17])
def test_197_a_vector_loop_shorter_than_its_width_is_exact(extent):
    s = pl.scale()
    s.o.vectorize(j, 8)
    _check(s, N=3, M=extent)


@pytest.mark.parametrize("factor", [2, 3, 4, 10])
def test_257_unrolling_repeats_the_loop_that_is_named(factor):
    s = pl.scale()
    s.o.unroll(i, factor)
    assert [loop.name for loop in s.f.program.loops.values() if loop.tag is not None] == ["i"]
    for extent in (0, 1, factor, factor + 1, 11):
        _check(s, N=extent, M=5)


def test_169_unroll_tile_and_vectorize_together_on_sizes_that_do_not_divide():
    s = pl.scale()
    s.o.tile(i, j, 4, 16, i0, j0, i1, j1).unroll(i1).vectorize(j1, 8)
    for n, m in [(1, 1), (4, 16), (5, 17), (7, 31), (13, 33)]:
        _check(s, N=n, M=m)


@pytest.mark.parametrize("sizes", [(1, 1), (1, 40), (40, 1)])
def test_344_loops_of_one_iteration_keep_their_statements_and_tags(sizes):
    s = pl.scale()
    s.o.parallelize(i).vectorize(j, 8)
    _check(s, N=sizes[0], M=sizes[1])


def test_344_a_loop_that_is_constant_may_vanish_with_its_tag():
    f = tm.Function("one")
    a = f.input("a", tm.int32, [1, 9])
    o = f.computation("o", {i: 1, j: 9}, a[i, j] + 1)
    f.outputs(o)
    o.parallelize(i).vectorize(j, 4)
    given = np.arange(9, dtype=np.int32).reshape(1, 9)
    np.testing.assert_array_equal(f.compile()(given), given + 1)


def test_422_a_tag_stays_with_its_loop_through_an_interchange():
    s = pl.scale()
    s.o.parallelize(i).interchange(i, j)
    text = s.f.show("pseudocode")
    assert text.index("for j in") < text.index("for i in")
    assert "parallel" in next(line for line in text.splitlines() if "for i in" in line)
    assert "parallel" not in next(line for line in text.splitlines() if "for j in" in line)
    _check(s, N=5, M=6)


def test_422_a_tag_does_not_reach_a_sibling_that_shares_outer_loops():
    s = pl.blur()
    s.by.after(s.bx, r).shift(r, 2)
    s.bx.vectorize(c, 4)
    by_loops = s.f.program.statements["by"].loops
    assert all(s.f.program.loops[loop].tag is None for loop in by_loops)
    _check(s, R=5, C=9)


def test_422_a_statement_that_enters_a_loop_with_another_tag_is_refused_with_both_commands():
    s = pl.pair()
    s.q.vectorize(i, 4)
    with pytest.raises(tm.CommandError, match=r"q\.after\(p, i\).*q\.vectorize\(i, 4\)"):
        s.q.after(s.p, i)


def test_421_every_order_holds_also_with_several_predecessors():
    (N,) = tm.params("N")
    f = tm.Function("several", params=[N])
    a = f.input("a", tm.int32, [N])
    parts = [f.computation(f"p{n}", {i: N}, a[i] * n) for n in range(4)]
    last = f.computation("last", {i: N}, parts[0][i] + parts[1][i] + parts[2][i] + parts[3][i])
    f.outputs(last)
    parts[0].after(parts[3])
    parts[1].after(parts[3])
    last.after(parts[1], i)
    last.after(parts[0])
    position = {name: time[0] for name, time in f.program.positions.items()}
    assert position["p3"] < position["p0"] < position["last"] == position["p1"]
    assert f.check().ok
    given = np.arange(5, dtype=np.int32)
    np.testing.assert_array_equal(f.compile()(given), 6 * given)


def test_421_orders_that_contradict_each_other_are_refused_with_their_commands():
    s = pl.pair()
    s.p.before(s.q)
    with pytest.raises(tm.CommandError, match=r"p\.before\(q\); p\.after\(q\)"):
        s.p.after(s.q)
    assert texts(s.f) == ("p.before(q)",)


def test_300_an_illegal_after_is_refused():
    s = pl.pair()
    s.q.after(s.p, i)
    assert s.f.check().violations[0].kind == "order"


def test_205_skewing_changes_the_loops():
    s = pl.scale()
    before = s.f.show("pseudocode")
    s.o.skew(i, j, 1)
    assert s.f.show("pseudocode") != before
    _check(s, N=6, M=5)


def test_47_indices_keep_the_order_in_which_they_are_written():
    N, M = tm.params("N M")
    f = tm.Function("swap", params=[N, M])
    a = f.input("a", tm.int32, [N, M])
    f.outputs(f.computation("o", {i: N, j: M}, a[i, j] * 1))
    given = np.arange(6, dtype=np.int32).reshape(2, 3)
    np.testing.assert_array_equal(f.compile()(given), given)


def test_a_fold_below_the_reuse_distance_is_refused():
    s = pl.blur()
    s.f.order(s.bx, s.by, at=r)
    s.by.shift(r, 2)
    s.bx.store_in([r % 2, c])
    assert s.f.check().violations[0].kind == "overwritten"


def test_a_value_does_not_fit_a_buffer_of_another_type():
    s = pl.pair()
    with pytest.raises(tm.CommandError, match=r"p is int32, but buffer bytes_ holds uint8"):
        s.p.store_in(tm.Buffer("bytes_", [100], tm.uint8), [i])


def test_111_vectorizing_keeps_the_other_tags():
    s = pl.scale()
    s.o.split(i, 4, i0, i1).parallelize(i0).vectorize(j, 8)
    tags = {loop.name: loop.tag.name for loop in s.f.program.loops.values() if loop.tag}
    assert tags == {"i0": "parallel", "j": "vector"}
    _check(s, N=9, M=19)


def test_recomputation_shared_by_tiles_is_right_at_their_borders():
    s = pl.blur()
    s.by.split(r, 4, r0, r1).parallelize(r0)
    s.bx.compute_at(s.by, r0)
    for rows in (1, 3, 4, 5, 8, 9):
        _check(s, R=rows, C=3)
