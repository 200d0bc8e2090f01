"""Places: extents, scopes and types of buffers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs.stories import C, N, blur, i, kinds, r, r0, r1, refusal, stages, written
from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Operand, as_expr
from tiramisu_py.algorithm.types import float32, float64
from tiramisu_py.program.statement import Role
from tiramisu_py.program.storage import Buffer, Storage


@pytest.mark.parametrize(("extent", "params", "condition"), [(N, {"N": 1}, ""), (10, {"N": 10}, "N <= 9")])
def test_a_buffer_that_is_too_small_is_refused(extent: Operand, params: dict[str, int], condition: str) -> None:
    story = stages()
    story.p.store_in(Buffer("small", (as_expr(extent),), float32), [i])
    stored, read = story.draft.check().violations
    assert stored.kind == read.kind == "bounds"
    assert dict(stored.witness.params) == dict(read.witness.params) == params
    size = params["N"]
    assert stored.witness.writer == ("p", (size,)) and stored.witness.element == ("small", (size,))
    assert read.witness.reader == ("q", (size - 1,))
    assert condition in stored.repair
    assert stored.command.startswith("p.store_in(small")


def test_a_negative_index_is_refused() -> None:
    story = stages()
    story.p.store_in(Buffer("moved", (N + 1,), float32), [i - 1])
    stored = story.draft.check().violations[0]
    assert (stored.kind, stored.witness.element) == ("bounds", ("moved", (-1,)))


def test_a_local_buffer_is_just_large_enough() -> None:
    story = blur()
    story.q.split(r, 4, r0, r1)
    story.p.compute_at(story.q, r0)
    assert story.draft.check().ok
    local = story.draft.program.buffers["bx"]
    less = replace(local, extents=(as_expr(5), local.extents[1]))
    story.draft.change("by hand", lambda p: p.with_buffer(less))
    assert {violation.kind for violation in story.draft.check().violations} == {"bounds"}
    assert {violation.command for violation in story.draft.check().violations} == {"by hand"}


def test_a_value_of_another_type_is_not_kept() -> None:
    story = stages()
    wrong = replace(story.draft.program.buffers["p"], dtype=float64)
    story.draft.change("by hand", lambda p: p.with_buffer(wrong))
    violation = refusal(story.draft)
    assert (violation.kind, violation.command) == ("bounds", "by hand")
    assert "p is float32, but p, where it is kept, holds float64" in violation.message


def test_a_reader_outside_the_scope_cannot_reach_the_buffer() -> None:
    story = stages()
    loop = story.draft.program.statements["p"].loops[0]
    scoped = replace(story.draft.program.buffers["p"], scope=(loop,))
    storage = _scoped(story.draft.program.storages["p"])
    story.draft.change("by hand", lambda p: p.with_buffer(scoped).with_storage(storage))
    violation = refusal(story.draft)
    assert (violation.kind, violation.command) == ("reach", "by hand")
    assert "q reads p outside of the loops (i)" in violation.message


def _scoped(storage: Storage) -> Storage:
    space = sets.sized_frame(storage.index.get_space().params(), None, 2)
    return replace(storage, index=sets.function(space, None, [sets.variables(space)[1]]))


def test_an_output_with_a_copy_for_each_iteration_is_refused() -> None:
    story = stages()
    loop = story.draft.program.statements["q"].loops[0]
    scoped = replace(story.draft.program.buffers["q"], scope=(loop,))
    storage = _scoped(story.draft.program.storages["q"])
    story.draft.change("by hand", lambda p: p.with_buffer(scoped).with_storage(storage))
    assert refusal(story.draft).kind == "reach"
    assert "the caller cannot reach q" in refusal(story.draft).message


def test_a_row_of_each_iteration_is_gone_in_the_next() -> None:
    story = blur()
    story.q.after(story.p, r)
    story.q.shift(r, 2)
    story.p.store_at(story.q, r)
    outside, violation = story.draft.check().violations
    assert (outside.kind, violation.kind) == ("bounds", "order")
    assert "another copy" in violation.message
    assert written(violation) == ({"R": 1, "C": 1}, ("bx", (0, 0)), ("by", (0, 0)))


def test_arrays_of_the_callers_are_large_enough_for_what_is_asked() -> None:
    story = blur()
    small = replace(story.draft.program.buffers["by"], extents=(as_expr(3), as_expr(C)))
    story.draft.change("by hand", lambda p: p.with_buffer(small))
    stored, found = story.draft.check().violations
    assert written(stored) == ({"R": 4, "C": 1}, ("by", (3, 0)), ("by", (3, 0)))
    assert found.message.startswith("the caller finds by[3, 0] in by[3, 0]")
    assert kinds(story.draft) == ["bounds", "bounds"]


def test_a_value_that_does_not_exist_is_not_computed() -> None:
    story = stages()
    p = story.draft.program.statements["p"]
    (x,) = sets.variables(p.frame)
    more = replace(p, instances=p.instances.union(sets.as_set(x.eq_set(sets.constant(p.frame, -1)))))
    story.draft.change("by hand", lambda program: program.with_statement(more))
    violation = story.draft.check().violations[0]
    assert (violation.kind, violation.command) == ("bounds", "by hand")
    assert "p[-1] is computed, but p has no such value, at N = 1" in violation.message


def test_values_stored_for_those_of_another_computation_are_not_taken_for_them() -> None:
    story = stages()
    p = story.draft.program.statements["p"]
    story.draft.change("by hand", lambda program: program.with_statement(replace(p, source="a", role=Role.COPY)))
    assert "order" in {violation.kind for violation in story.draft.check().violations}


def test_an_extent_that_is_not_affine_is_not_known_to_be_enough() -> None:
    story = stages()
    story.p.store_in(Buffer("square", (N * N + 1,), float32), [i])
    violation = refusal(story.draft)
    assert (violation.kind, violation.command[:10]) == ("unknown", "p.store_in")
    assert "N * N is not affine" in violation.message


def _pair_of_readers(ahead: int) -> tuple[tm.Function, tm.Computation, tm.Computation, tm.Computation]:
    """Rows of p for two readers, of which the second one reads some rows ahead."""
    n, y, x = *tm.params("N"), *tm.iters("y x")
    f = tm.Function("f", params=[n])
    a = f.input("a", tm.int32, [n + 1, 4])
    p = f.computation("p", {y: n + 1, x: 4}, a[y, x] * 2)
    q = f.computation("q", {y: n, x: 4}, p[y, x] + 1)
    s = f.computation("s", {y: n, x: 4}, p[y + ahead, x] + 3)
    f.outputs(q, s)
    p.compute_at(q, y)
    return f, p, q, s


def test_another_reader_is_told_to_share_the_loop_and_may() -> None:
    f, _, q, s = _pair_of_readers(ahead=0)
    (violation,) = f.check().violations
    assert "s reads p outside of the loops (y)" in violation.message
    assert "compute s inside these loops: s.fuse(q, y)" in violation.repair
    s.fuse(q, *tm.iters("y"))
    assert f.check().ok
    a = np.arange(16, dtype=np.int32).reshape(4, 4)
    for got, wanted in zip(f.compile()(a=a), f.evaluate(a=a), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_a_reader_of_rows_that_are_not_there_is_told_no_loop() -> None:
    f, *_ = _pair_of_readers(ahead=1)
    (violation,) = f.check().violations
    assert "fuse" not in violation.repair
