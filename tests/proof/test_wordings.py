"""Programs that a careless wording of the theorem accepts although they are wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.programs.drafts import Draft
from tests.programs.stories import K, M, N, blur, c, i, j, k, kinds, r, r0, r1, refusal, written
from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Iter, select
from tiramisu_py.algorithm.operators import sum_
from tiramisu_py.algorithm.types import float32, int32
from tiramisu_py.program.storage import Buffer


def copying() -> Draft:
    """b[i] = a[i]."""
    f = Draft("f", "N", N >= 0)
    a = f.input("a", float32, [N])
    f.outputs(f.computation("b", {i: N}, a[i]))
    return f


def test_a_program_that_computes_nothing_does_not_give_its_output() -> None:
    f = copying()
    f.change("by hand", lambda p: p.with_(statements={}))
    violation = refusal(f)
    assert violation.kind == "order"
    assert "the caller finds b[0], but nothing computes b[0], at N = 1" in violation.message


def test_an_input_that_is_not_an_output_is_left_as_it_was() -> None:
    f = Draft("f", "N", N >= 1)
    a = f.input("a", float32, [N])
    p = f.computation("p", {i: N}, 2 * a[i])
    q = f.computation("q", {i: N}, p[i] + 1)
    f.outputs(q)
    p.store_in(a, [i])
    violation = refusal(f)
    assert violation.kind == "overwritten"
    assert "the caller's array a is changed: p[0] has been written to a[0], at N = 1" in violation.message
    assert violation.command == "p.store_in(a, [i])"


def test_an_input_may_become_the_output() -> None:
    f = Draft("f", "N", N >= 1)
    a = f.input("a", float32, [N])
    p = f.computation("p", {i: N}, 2 * a[i])
    f.outputs(p)
    p.store_in(a, [i])
    assert f.check().ok


def test_an_input_that_is_still_needed_may_not_become_the_output() -> None:
    f = Draft("f", "N", N >= 2)
    a = f.input("a", float32, [N])
    p = f.computation("p", {i: N}, a[i] + select(i >= 1, a[i - 1], 0))
    f.outputs(p)
    p.store_in(a, [i])
    violation = refusal(f)
    assert violation.kind == "overwritten"
    assert written(violation) == ({"N": 2}, ("p", (0,)), ("p", (1,)))
    p.reverse(i)
    assert f.check().ok


def test_executions_at_one_time_have_no_order() -> None:
    f = copying()
    s = f.program.statements["b"]
    same_time = replace(s, coords=sets.function(s.frame, None, [sets.constant(s.frame, 0)]))
    space = f.program.storages["b"].index.get_space().domain()
    storage = replace(f.program.storages["b"], index=sets.function(space, None, [sets.constant(space, 0)]))
    f.change("by hand", lambda p: p.with_statement(same_time).with_storage(storage))
    assert set(kinds(f)) == {"race", "overwritten"}


def test_an_execution_that_reads_what_another_stores_at_its_time_has_no_order() -> None:
    f = Draft("f", "N", N >= 1)
    a = f.input("a", float32, [N + 1])
    p = f.computation("p", {i: N}, a[i + 1])
    f.outputs(p)
    p.store_in(a, [i])
    assert f.check().ok
    s = f.program.statements["p"]
    in_pairs = [sets.floor_div(sets.outputs(s.coords)[0], 2)]
    pairs = replace(s, coords=sets.function(s.frame, None, in_pairs))
    f.change("by hand", lambda program: program.with_statement(pairs))
    violation = refusal(f)
    assert (violation.kind, violation.command) == ("race", "by hand")
    assert written(violation) == ({"N": 2}, ("p", (1,)), ("p", (0,)))


def test_partial_results_have_no_name() -> None:
    f = Draft("f", "N K", (N >= 1) & (K >= 2))
    a = f.input("a", float32, [N, K])
    s = f.reduction("s", {i: N}, {k: K}, sum_, a[i, k])
    m = f.computation("m", {i: N}, 2 * s[i])
    f.outputs(m)
    m.before(s.update, i)
    assert set(kinds(f)) == {"reduction"}


def test_the_extents_of_the_callers_arrays_are_theirs() -> None:
    f = Draft("f", "N M", N >= 0)
    a = f.input("a", float32, [M])
    b = f.computation("b", {i: N}, a[i])
    f.outputs(b)
    violation = refusal(f)
    assert violation.kind == "bounds"
    assert dict(violation.witness.params) == {"N": 1, "M": 0}
    assert "M >= N" in violation.repair


def test_an_unknown_index_reads_any_element() -> None:
    f = Draft("f", "N M", (N >= 1) & (M >= 1))
    x = f.input("x", float32, [M])
    col = f.input("col", int32, [N], values=(0, M))
    p = f.computation("p", {j: M}, 2 * x[j])
    y = f.computation("y", {i: N}, p[col[i]])
    f.outputs(y)
    report = f.check()
    assert report.ok
    assert "declared: 0 <= col < M" in report.trusted
    y.after(p, j)
    violation = refusal(f)
    assert violation.kind == "order"
    assert written(violation) == ({"N": 1, "M": 2}, ("p", (1,)), ("y", (0,)))


def test_redundant_recomputation_in_parallel_is_a_race_of_equal_values() -> None:
    story = blur()
    story.p.store_in(Buffer("whole", story.draft.program.buffers["bx"].extents, float32), [r, c])
    story.q.split(r, 4, r0, r1)
    story.p.compute_at(story.q, r0)
    story.q.parallelize(r0)
    assert set(kinds(story.draft)) == {"race"}


def test_two_arrays_in_one_buffer_may_not_overlap_while_both_live() -> None:
    f = Draft("f", "N", N >= 1)
    a = f.input("a", float32, [N])
    p = f.computation("p", {i: N}, a[i] + 1)
    q = f.computation("q", {i: N}, a[i] + 2)
    s = f.computation("s", {i: N}, p[i] + q[i])
    f.outputs(s)
    shared = Buffer("shared", (2 * N,), float32)
    p.store_in(shared, [i])
    q.store_in(shared, [i + N])
    assert f.check().ok
    q.store_in(shared, [i + N - 1])
    violation = refusal(f)
    assert violation.kind == "overwritten"
    assert written(violation) == ({"N": 1}, ("q", (0,)), ("s", (0,)))


@pytest.mark.parametrize("loops", [(i, j), (j, i)])
def test_a_buffer_that_lives_twice_in_sequence_is_shared(loops: tuple[Iter, Iter]) -> None:
    f = Draft("f", "N M", (N >= 1) & (M >= 1))
    a = f.input("a", float32, [N, M])
    p = f.computation("p", {i: N, j: M}, a[i, j] + 1)
    q = f.computation("q", {i: N, j: M}, 2 * p[i, j])
    s = f.computation("s", {i: N, j: M}, q[i, j] + 1)
    w = f.computation("w", {i: N, j: M}, 3 * s[i, j])
    f.outputs(w)
    shared = Buffer("shared", (N, M), float32)
    p.store_in(shared, [i, j])
    s.store_in(shared, [i, j])
    assert f.check().ok
    q.before(s, loops[0])
    assert f.check().ok
