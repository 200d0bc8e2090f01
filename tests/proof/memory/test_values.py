"""Reads that see their values, and reads that do not: order and storage, with the smallest counterexample."""

from __future__ import annotations

from dataclasses import replace

import islpy as isl
import pytest

from tests.programs.drafts import Draft
from tests.programs.stories import (
    C,
    N,
    Stages,
    T,
    blur,
    c,
    c0,
    c1,
    heat,
    i,
    i0,
    i1,
    kinds,
    r,
    r0,
    r1,
    refusal,
    root,
    seidel,
    stages,
    t,
    t0,
    t1,
    written,
)  # fmt: skip
from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import select
from tiramisu_py.algorithm.types import float32
from tiramisu_py.program.storage import Buffer


def test_a_program_as_declared_is_proven() -> None:
    for story in (stages(), blur()):
        assert story.draft.check().ok
    assert heat()[0].check().ok
    assert seidel()[0].check().ok


def test_a_fusion_that_reads_too_early_names_the_value_and_the_shift() -> None:
    story = stages()
    story.q.after(story.p, i)
    violation = refusal(story.draft)
    assert violation.kind == "order"
    assert written(violation) == ({"N": 1}, ("p", (1,)), ("q", (0,)))
    assert (violation.command, violation.repair) == ("q.after(p, i)", "q.shift(i, 1)")


@pytest.mark.parametrize(("rows", "legal"), [(0, False), (1, False), (2, True), (3, True)])
def test_a_stencil_of_three_rows_needs_a_shift_of_two(rows: int, legal: bool) -> None:
    story = blur()
    story.q.after(story.p, r)
    if rows:
        story.q.shift(r, rows)
    assert story.draft.check().ok == legal
    if not legal:
        violation = refusal(story.draft)
        assert written(violation) == ({"R": 1, "C": 1}, ("bx", (rows + 1, 0)), ("by", (0, 0)))
        assert violation.repair == f"by.shift(r, {2 - rows})"


def test_the_repair_that_is_suggested_makes_the_program_legal() -> None:
    story = blur()
    story.q.after(story.p, c)
    assert refusal(story.draft).repair == "by.shift(r, 2)"
    story.q.shift(r, 2)
    assert story.draft.check().ok


def test_a_consumer_before_its_producer_is_refused() -> None:
    story = stages()
    story.p.after(story.q, root)
    violation = refusal(story.draft)
    assert violation.kind == "order"
    assert written(violation) == ({"N": 1}, ("p", (0,)), ("q", (0,)))
    assert violation.command == "p.after(q)"
    assert violation.repair == "q.after(p, tm.root)"


@pytest.mark.parametrize(("rows", "kind"), [(1, "overwritten"), (2, "overwritten"), (3, ""), (4, "")])
def test_folding_keeps_as_many_rows_as_are_in_flight(rows: int, kind: str) -> None:
    story = blur()
    story.q.after(story.p, r)
    story.q.shift(r, 2)
    story.p.store_in(Buffer("rows", (rows, C), float32), [r % rows, c])  # type: ignore[arg-type]
    assert kinds(story.draft) == ([kind] if kind else [])
    if kind:
        violation = refusal(story.draft)
        assert written(violation) == ({"R": 1, "C": 1}, ("bx", (2, 0)), ("by", (0, 0)))
        assert violation.command.startswith("bx.store_in")
        assert violation.repair.endswith("bx.store_in([r % 3, c])")


def test_folding_without_fusion_overwrites_what_is_still_read() -> None:
    story = stages()
    story.p.store_in(Buffer("two", (2,), float32), [i % 2])  # type: ignore[arg-type]
    violation = refusal(story.draft)
    assert violation.kind == "overwritten"
    assert written(violation) == ({"N": 2}, ("p", (2,)), ("q", (0,)))


def test_tiles_need_no_order_when_the_nests_are_apart() -> None:
    story = blur()
    story.p.tile(r, c, 4, 4, r0, c0, r1, c1)
    story.q.tile(r, c, 4, 4, r0, c0, r1, c1)
    assert story.draft.check().ok


def test_tiles_that_are_fused_read_from_the_tile_that_comes_next() -> None:
    story = blur()
    story.p.tile(r, c, 4, 4, r0, c0, r1, c1)
    story.q.tile(r, c, 4, 4, r0, c0, r1, c1)
    story.q.after(story.p, c0)
    violation = refusal(story.draft)
    assert written(violation) == ({"R": 3, "C": 1}, ("bx", (4, 0)), ("by", (2, 0)))


def computed_at(level: str) -> Stages:
    story = blur()
    story.q.tile(r, c, 4, 4, r0, c0, r1, c1)
    story.p.compute_at(story.q, {"c0": c0, "r0": r0, "r1": r1}[level])
    return story


@pytest.mark.parametrize("level", ["r0", "c0", "r1"])
def test_a_producer_computed_where_it_is_used_is_proven(level: str) -> None:
    assert computed_at(level).draft.check().ok


def test_a_tile_that_lacks_a_row_is_refused() -> None:
    story = computed_at("c0")
    whole = story.draft.program.statements["bx"]
    less = replace(whole, instances=whole.instances.intersect(_row_at_most(whole.frame, 3)))
    story.draft.change("by hand", lambda p: p.with_statement(less))
    violation = refusal(story.draft)
    assert violation.kind == "order"
    assert written(violation) == ({"R": 3, "C": 1}, None, ("by", (2, 0)))
    assert "nothing computes bx[4, 0]" in violation.message
    assert violation.command == "by hand"


def _row_at_most(space: isl.Space, most: int) -> isl.Set:
    tile, _, row, _ = sets.variables(space)
    return sets.as_set(row.sub(sets.scaled(tile, 4)).le_set(sets.constant(space, most)))


def test_a_value_kept_in_another_element_is_not_found() -> None:
    story = stages()
    elsewhere = replace(story.draft.program.storages["p"], name="elsewhere", buffer="elsewhere")
    buffer = replace(story.draft.program.buffers["p"], name="elsewhere")
    reader = story.draft.program.statements["q"].loading("p", "elsewhere")
    story.draft.change("by hand", lambda p: p.with_buffer(buffer).with_storage(elsewhere).with_statement(reader))
    violation = refusal(story.draft)
    assert violation.kind == "order"
    assert "kept in p" in violation.message
    assert written(violation) == ({"N": 1}, ("p", (0,)), ("q", (0,)))


@pytest.mark.parametrize(("levels", "legal"), [(1, False), (2, True), (3, True)])
def test_heat_needs_two_time_levels(levels: int, legal: bool) -> None:
    f, u = heat()
    last = f.computation("last", {i: N}, u[T, i])
    f.outputs(last)
    u.store_in(Buffer("levels", (levels, N), float32), [t % levels, i])  # type: ignore[arg-type]
    assert f.check().ok == legal
    if not legal:
        assert kinds(f) == ["overwritten"]


def test_seidel_works_in_one_time_level() -> None:
    f, u = seidel()
    u.store_in(Buffer("level", (1, N), float32), [t % 1, i])  # type: ignore[arg-type]
    assert f.check().ok


def test_heat_in_tiles_needs_skewing() -> None:
    f, u = heat()
    u.tile(t, i, 2, 4, t0, i0, t1, i1)
    violation = refusal(f)
    assert violation.kind == "order"
    assert violation.command == "u.tile(t, i, 2, 4, t0, i0, t1, i1)"
    f, u = heat()
    u.skew(t, i, 1)
    u.tile(t, i, 2, 4, t0, i0, t1, i1)
    assert f.check().ok


def test_an_interchange_that_turns_a_dependence_round_is_refused() -> None:
    f, u = seidel()
    u.interchange(t, i)
    violation = refusal(f)
    assert (violation.kind, violation.command) == ("order", "u.interchange(t, i)")
    assert written(violation) == ({"T": 1, "N": 3}, ("u", (0, 2)), ("u", (1, 1)))


def test_a_recurrence_does_not_run_backwards() -> None:
    f = Draft("f", "N", N >= 1)
    a = f.input("a", float32, [N])
    s = f.computation("s", {i: N}, lambda s: select(i == 0, a[i], s[i - 1] + a[i]))
    f.outputs(s)
    assert f.check().ok
    s.reverse(i)
    assert written(refusal(f)) == ({"N": 2}, ("s", (0,)), ("s", (1,)))
