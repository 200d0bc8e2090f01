"""Vectors that overlap at the end of a loop: refused exactly where running iterations again changes something."""

from __future__ import annotations

from typing import Any

import pytest

import tiramisu_py as tm
from tests.programs import pipelines as pl
from tests.programs.pipelines import c, i, j, k, r

OVERLAP: dict[str, Any] = {"remainder": "overlap"}


def test_an_update_in_place_is_refused_with_the_first_iteration_that_runs_twice():
    s = pl.update()
    s.b.store_in(s.a, [i]).vectorize(i, 4, **OVERLAP)
    (violation,) = s.f.check().violations
    assert violation.kind == "overwritten"
    assert "iterations of loop i run twice where its last vector overlaps" in violation.message
    assert "b[2] then reads a[2] from a[2], where b[2] is kept since the first time, at N = 7" in violation.message
    assert violation.command == "b.vectorize(i, 4, remainder='overlap')"
    assert 'vectorize(i, 4, remainder="mask")' in violation.repair


def test_terms_would_be_added_twice():
    s = pl.matmul()
    s.C.vectorize(j, 4, **OVERLAP)
    (violation,) = s.f.check().violations
    assert violation.kind == "reduction"
    assert "would add the terms of C[0, 1] twice, at N = 1, M = 5, K = 1" in violation.message


def test_a_reduction_that_begins_in_the_iteration_runs_again_as_a_whole():
    s = pl.matmul()
    s.C.update.after(s.C.init, j)
    s.C.vectorize(j, 4, **OVERLAP)
    report = s.f.check()
    assert report.ok, report
    assert "running iterations of j twice, where vectors overlap, changes nothing" in report.proven


def test_iterations_that_are_combined_run_one_by_one():
    s = pl.matmul()
    s.C.update.vectorize(k, 4, combine=tm.PRIVATE, **OVERLAP)
    assert s.f.check().ok


def test_what_is_computed_inside_the_iteration_is_computed_again():
    s = pl.blur()
    s.by.vectorize(c, 16, **OVERLAP)
    s.bx.compute_at(s.by, c)
    assert s.f.check().ok


def test_a_folded_buffer_that_keeps_rows_is_no_obstacle():
    s = pl.blur()
    s.f.order(s.bx, s.by, at=r)
    s.by.shift(r, 2)
    s.bx.store_in([r % 3, c])
    s.by.vectorize(c, 8, **OVERLAP)
    s.bx.vectorize(c, 8, **OVERLAP)
    assert s.f.check().ok


@pytest.mark.parametrize(("width", "legal"), [(8, False), (16, True), (32, True)])
def test_a_loop_no_longer_than_a_vector_never_overlaps(width, legal):
    f = tm.Function("f")
    a = f.input("a", tm.float32, [16])
    b = f.computation("b", {i: 16}, 2 * a[i])
    f.outputs(b)
    b.store_in(a, [i]).vectorize(i, width, **OVERLAP)
    assert f.check().ok == legal


def test_values_that_an_iteration_replaces_after_it_has_read_them_are_refused():
    """Two statements of one iteration: the second stores where the first has read."""
    (N,) = tm.params("N")
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int32, [N])
    p = f.computation("p", {i: N}, a[i] + 1)
    q = f.computation("q", {i: N}, p[i] * 3)
    f.outputs(p, q)
    q.after(p, i)
    q.store_in(a, [i])
    p.vectorize(i, 4, **OVERLAP)
    (violation,) = f.check().violations
    assert violation.kind == "overwritten"
    assert "p[1] then reads a[1] from a[1], where q[1] is kept since the first time" in violation.message
