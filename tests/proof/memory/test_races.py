"""Concurrent loops: conflicts between their iterations are races, with the loop named."""

from __future__ import annotations

import pytest

from tests.programs.drafts import Draft
from tests.programs.stories import (
    K,
    M,
    N,
    blur,
    c,
    c0,
    c1,
    heat,
    i,
    i0,
    i1,
    j,
    k,
    k0,
    k1,
    kinds,
    product,
    r,
    r0,
    r1,
    refusal,
    seidel,
    stages,
    t,
    t0,
    t1,
    written,
)  # fmt: skip
from tiramisu_py.algorithm.operators import sum_
from tiramisu_py.algorithm.types import float32
from tiramisu_py.program.loops import Combine
from tiramisu_py.program.storage import Buffer
from tiramisu_py.schedule.loops.order import root


def test_a_loop_that_carries_no_dependence_is_parallel() -> None:
    story = blur()
    story.q.tile(r, c, 32, 256, r0, c0, r1, c1)
    story.q.parallelize(r0)
    story.q.vectorize(c1, 16)
    story.p.compute_at(story.q, c0)
    story.p.vectorize(c, 16)
    assert story.draft.check().ok


def test_a_loop_that_carries_a_dependence_is_not() -> None:
    f, u = heat()
    u.parallelize(t)
    violation = refusal(f)
    assert violation.kind == "race"
    assert written(violation) == ({"T": 1, "N": 3}, ("u", (0, 0)), ("u", (1, 1)))
    assert "parallel loop t" in violation.message
    assert violation.command == "u.parallelize(t)"


def test_space_is_parallel_where_time_is_not() -> None:
    f, u = heat()
    u.parallelize(i)
    assert f.check().ok


def test_seidel_has_no_parallel_loop_until_it_is_skewed() -> None:
    f, u = seidel()
    u.parallelize(i)
    assert refusal(f).kind == "race"
    f, u = seidel()
    u.skew(t, i, 2)
    u.interchange(t, i)
    u.parallelize(t)
    assert f.check().ok


def test_wavefronts_of_skewed_tiles_are_parallel_and_columns_are_not() -> None:
    for loop, legal in ((i0, False), (t0, True)):
        f, u = heat()
        u.skew(t, i, 1)
        u.tile(t, i, 2, 4, t0, i0, t1, i1)
        if legal:
            u.skew(t0, i0, 1)
            u.interchange(t0, i0)
        u.parallelize(loop)
        assert f.check().ok == legal


def test_a_vector_loop_is_held_to_the_same() -> None:
    f, u = heat()
    u.interchange(t, i)
    u.vectorize(t, 4)
    assert {violation.kind for violation in f.check().violations} == {"order", "race"}


def test_a_fused_stencil_races_when_the_shared_loop_is_parallel() -> None:
    story = stages()
    story.q.after(story.p, i)
    story.q.shift(i, 1)
    assert story.draft.check().ok
    story.q.parallelize(i)
    violation = refusal(story.draft)
    assert violation.kind == "race"
    assert written(violation) == ({"N": 1}, ("p", (0,)), ("q", (0,)))
    assert violation.command == "q.parallelize(i)"


def test_a_folded_buffer_is_shared_by_parallel_iterations() -> None:
    story = stages()
    story.p.store_in(Buffer("one", (1,), float32), [i % 1])  # type: ignore[arg-type]
    story.p.parallelize(i)
    assert "race" in kinds(story.draft)


def test_recomputation_in_parallel_into_one_buffer_is_refused() -> None:
    story = blur()
    story.p.store_in(Buffer("whole", story.draft.program.buffers["bx"].extents, float32), [r, c])
    story.q.split(r, 4, r0, r1)
    story.p.compute_at(story.q, r0)
    assert story.draft.check().ok
    story.q.parallelize(r0)
    reading, storing = story.draft.check().violations
    assert reading.kind == storing.kind == "race"
    assert "two executions for bx[4, 0] both store to whole[4, 0]" in storing.message
    assert reading.witness.params == storing.witness.params == {"R": 5, "C": 1}


def test_one_copy_for_each_iteration_makes_recomputation_parallel() -> None:
    story = blur()
    story.q.split(r, 4, r0, r1)
    story.p.compute_at(story.q, r0)
    story.q.parallelize(r0)
    assert story.draft.check().ok


def test_a_reduction_is_parallel_over_its_values() -> None:
    f, result = product()
    result.update.parallelize(i)
    result.init.parallelize(j)
    assert f.check().ok


@pytest.mark.parametrize("combine", [Combine.PRIVATE, Combine.ATOMIC])
def test_a_reduction_is_parallel_over_its_terms_only_with_combine(combine: Combine) -> None:
    f, result = product()
    result.update.split(k, 8, k0, k1)
    result.update.reorder(k0, i, k1, j)
    result.update.parallelize(k0)
    violation = refusal(f)
    assert violation.kind == "race"
    assert "k0" in violation.message and "combine=tm.PRIVATE" in violation.repair
    assert written(violation) == ({"N": 1, "M": 1, "K": 9}, ("C", (0, 0)), ("C", (0, 0)))
    result.update.parallelize(k0, combine=combine)
    assert f.check().ok


def test_a_vector_of_terms_needs_combine_too() -> None:
    f, result = product()
    result.update.vectorize(k, 8)
    assert "C.update.vectorize(k, 8, combine=tm.PRIVATE)" in refusal(f).repair
    result.update.vectorize(k, 8, combine=Combine.PRIVATE)
    assert f.check().ok


def test_combine_does_not_excuse_a_reader_in_the_loop() -> None:
    f = Draft("f", "N K", (N >= 1) & (K >= 1))
    a = f.input("a", float32, [N, K])
    s = f.reduction("s", {i: N}, {k: K}, sum_, a[i, k])
    d = f.computation("d", {i: N, k: K}, a[i, k] - s[i])
    f.outputs(d)
    s.update.interchange(i, k)
    d.interchange(i, k)
    d.after(s.update, k)
    s.update.parallelize(k, combine=Combine.PRIVATE)
    assert set(kinds(f)) == {"reduction", "race"}


@pytest.mark.parametrize(("combine", "legal"), [(Combine.PRIVATE, False), (Combine.ATOMIC, True)])
def test_private_copies_are_combined_only_after_their_loop(combine: Combine, legal: bool) -> None:
    """s[0] has one term and is complete in the first iteration, but s is kept apart there as a whole."""
    f = Draft("f", "N", N >= 1)
    a = f.input("a", float32, [N])
    s = f.reduction("s", {i: N}, {k: (0, i + 1)}, sum_, a[k])
    d = f.computation("d", {k: 1}, s[k] + 1)
    f.outputs(d, s)
    s.update.interchange(i, k)
    d.after(s.update, k)
    assert f.check().ok
    s.update.parallelize(k, combine=combine)
    assert f.check().ok == legal
    if not legal:
        violation = refusal(f)
        assert violation.kind == "reduction"
        assert written(violation) == ({"N": 1}, ("s", (0,)), ("d", (0,)))
        assert "inside loop k, which combines its partial results only at its end" in violation.message


def test_statements_of_one_nest_do_not_share_its_loops() -> None:
    """A tag on one nest does not slip to another that has a loop of the same name."""
    f, u = heat()
    last = f.computation("last", {t: N, i: N}, u[0, i])
    f.outputs(last)
    last.parallelize(t)
    assert f.check().ok


def test_a_copy_of_a_row_shared_by_parallel_rows_is_a_race() -> None:
    f = Draft("f", "N M", (N >= 1) & (M >= 1))
    a = f.input("a", float32, [N, M])
    p = f.computation("p", {i: N, j: M}, 2 * a[i, j])
    q = f.computation("q", {i: N, j: M}, p[i, j] + 1)
    f.outputs(q)
    p.store_in(Buffer("row", (M,), float32), [j])
    q.after(p, i)
    assert f.check().ok
    q.parallelize(i)
    assert kinds(f) == ["race", "race"]
    assert all(violation.witness.params == {"N": 2, "M": 1} for violation in f.check().violations)


def test_concurrent_iterations_are_proven_only_within_one_iteration_of_the_loops_around() -> None:
    """for t: parallel i is fine where parallel t: for i is not."""
    f, u = heat()
    u.parallelize(t, i)
    assert refusal(f).kind == "race"


def test_an_order_at_root_is_kept_between_parallel_nests() -> None:
    story = blur()
    story.p.parallelize(r)
    story.q.parallelize(c)
    story.q.after(story.p, root)
    assert story.draft.check().ok
