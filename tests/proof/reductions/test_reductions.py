"""Every term once, complete results only: reductions by hand and by command."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tiramisu_py as tm
from tests.programs.drafts import Draft
from tests.programs.stories import K, N, i, i0, i1, j, j0, j1, k, k0, k1, kinds, product, refusal, root, written
from tiramisu_py import sets
from tiramisu_py.algorithm.operators import sum_
from tiramisu_py.algorithm.types import float32
from tiramisu_py.function.handles.computations import Computation, Reduction
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.program.storage import Buffer


def rows() -> tuple[Draft, Reduction, Computation]:
    """s[i] = sum over k of a[i, k]; m[i] = s[i] + 1."""
    f = Draft("f", "N K", (N >= 1) & (K >= 1))
    a = f.input("a", float32, [N, K])
    s = f.reduction("s", {i: N}, {k: K}, sum_, a[i, k])
    m = f.computation("m", {i: N}, s[i] + 1)
    f.outputs(m)
    return f, s, m


def test_terms_may_come_in_any_order() -> None:
    f, result = product()
    result.update.reorder(k, i, j)
    result.update.reverse(k)
    assert f.check().ok
    f, result = product()
    result.update.tile(i, j, 4, 4, i0, j0, i1, j1)
    result.update.split(k, 2, k0, k1)
    result.update.reorder(i0, j0, k0, i1, k1, j1)
    result.init.tile(i, j, 4, 4, i0, j0, i1, j1)
    result.update.after(result.init, j0)
    assert f.check().ok


def test_a_reduction_that_starts_inside_its_nest_is_proven() -> None:
    f, result = product()
    result.update.after(result.init, j)
    assert f.check().ok


def test_a_start_after_the_first_terms_is_refused() -> None:
    f, result = product()
    result.update.reorder(i, k, j)
    result.init.after(result.update, i)
    violation = f.check().violations[0]
    assert violation.kind == "reduction"
    assert violation.command == f.program.log[-1].text
    assert written(violation) == ({"N": 1, "M": 1, "K": 1}, ("C", (0, 0)), ("C", (0, 0)))
    assert "before its start" in violation.message


def without_first_term(program: Program) -> Program:
    update = program.statements["C_update"]
    return program.with_statement(_restricted(update, 1))


def _restricted(statement: Statement, least: int) -> Statement:
    last = sets.variables(statement.frame)[-1]
    kept = sets.as_set(last.ge_set(sets.constant(statement.frame, least)))
    return replace(statement, instances=statement.instances.intersect(kept))


def test_a_missing_term_is_found() -> None:
    f, _ = product()
    f.change("by hand", without_first_term)
    violation = refusal(f)
    assert (violation.kind, violation.command) == ("reduction", "by hand")
    assert violation.message.startswith("C[0, 0] lacks a term (the term k = 0), at N = 1, M = 1, K = 1")


def test_a_term_that_is_added_twice_is_found() -> None:
    def twice(program: Program) -> Program:
        update = program.statements["C_update"]
        again = replace(
            update,
            name="again",
            instances=sets.named(update.instances, "again"),
            point=sets.from_frame(update.point, sets.named(update.instances, "again").get_space()),
            coords=sets.from_frame(update.coords, sets.named(update.instances, "again").get_space()),
            loops=tuple(program.next_loop() + depth for depth in range(3)),
        )
        loops = [replace(program.loops[old], id=new) for old, new in zip(update.loops, again.loops, strict=True)]
        return program.with_loop(*loops).with_statement(again)

    f, _ = product()
    f.change("by hand", twice)
    assert "gets a term twice" in refusal(f).message


def test_a_result_without_a_start_is_found() -> None:
    def unstarted(program: Program) -> Program:
        kept = {name: s for name, s in program.statements.items() if name != "C_init"}
        return program.with_(statements=kept)

    f, _ = product()
    f.change("by hand", unstarted)
    found = f.check().violations
    assert {violation.kind for violation in found} == {"order", "reduction"}
    assert all(violation.command == "by hand" for violation in found)


def test_parts_of_an_update_together_have_every_term() -> None:
    f, result = product()
    result.update.separate_at(k, [1])
    assert f.check().ok


def test_a_reader_waits_for_all_terms() -> None:
    f, s, m = rows()
    assert f.check().ok
    m.after(s.update, i)
    assert f.check().ok
    f, s, m = rows()
    s.update.interchange(i, k)
    m.after(s.update, root)
    assert f.check().ok


def test_a_reader_inside_the_loop_over_terms_sees_a_partial_result() -> None:
    f = Draft("f", "N K", (N >= 1) & (K >= 1))
    a = f.input("a", float32, [N, K])
    s = f.reduction("s", {i: N}, {k: K}, sum_, a[i, k])
    d = f.computation("d", {i: N, k: K}, a[i, k] - s[i])
    f.outputs(d)
    d.after(s.update, k)
    violation = f.check().violations[0]
    assert violation.kind == "reduction"
    assert "before all of its terms are added" in violation.message
    assert written(violation) == ({"N": 1, "K": 2}, ("s", (0,)), ("d", (0, 0)))
    assert violation.command == f.program.log[-1].text
    f.program = f.program.origin.parent or f.program
    d.after(s.update, i)
    assert f.check().ok


@pytest.mark.parametrize(("size", "legal"), [(1, True), (2, True)])
def test_a_scalar_accumulator_serves_one_value_at_a_time(size: int, legal: bool) -> None:
    f, s, m = rows()
    s.store_in(Buffer("acc", (size,), float32), [i % size])  # type: ignore[arg-type]
    assert set(kinds(f)) == {"overwritten"}
    s.update.after(s.init, i)
    assert set(kinds(f)) == {"overwritten"}
    m.after(s.update, i)
    assert f.check().ok == legal


def test_an_accumulator_shared_by_interleaved_values_is_refused() -> None:
    f, s, m = rows()
    s.store_in(Buffer("acc", (1,), float32), [i % 1])  # type: ignore[arg-type]
    s.update.interchange(i, k)
    found = {violation.kind for violation in f.check().violations}
    assert "overwritten" in found
    assert m is not None


def test_a_reduction_computed_where_it_is_used_is_proven() -> None:
    f, s, m = rows()
    m.split(i, 4, i0, i1)
    s.compute_at(m, i0)
    assert f.check().ok
    m.parallelize(i0)
    assert f.check().ok


def test_a_reduction_may_be_computed_again_in_the_same_place() -> None:
    f, s, m = rows()
    f.outputs(m, s)
    m.split(i, 4, i0, i1)
    s.compute_at(m, i0)
    assert f.check().ok
    f = Draft("f", "N K", N >= 2)
    a = f.input("a", float32, [N, K])
    s = f.reduction("s", {i: N}, {k: K}, sum_, a[i, k])
    d = f.computation("d", {i: N - 1}, s[i] - s[i + 1])
    f.outputs(d, s)
    s.compute_at(d, i)
    assert f.check().ok
    d.parallelize(i)
    assert set(kinds(f)) == {"race"}


def test_an_empty_reduction_is_its_identity() -> None:
    f = Draft("f", "N K", N >= 1)
    a = f.input("a", float32, [N, K])
    s = f.reduction("s", {i: N}, {k: K}, sum_, a[i, k])
    f.outputs(s)
    assert f.check().ok


def test_triangular_terms_are_counted() -> None:
    f = Draft("f", "N", N >= 1)
    a = f.input("a", float32, [N])
    s = f.reduction("s", {i: N}, {k: (0, i + 1)}, sum_, a[k])
    f.outputs(s)
    s.update.interchange(i, k)
    assert f.check().ok


@pytest.mark.parametrize("tiled", [False, True])
@pytest.mark.parametrize("is_read", [False, True])
def test_a_start_after_the_terms_is_refused_whatever_the_order_was_before_tiles(tiled: bool, is_read: bool) -> None:
    """The order without tiles serves the reader, which sees the start last; yet no term is left there."""
    f = Draft("f", "N", N >= 0)
    a = f.input("a", float32, [N])
    s = f.reduction("s", {i: N, j: 3}, {k: 3}, sum_, a[i])
    m = f.computation("m", {i: N}, s[i, 0] + s[i, 1] if is_read else a[i])
    f.outputs(m)
    s.init.after(s.update, i)
    if is_read:
        m.after(s.init, i)
    s.fold(i, 1)
    if tiled:
        s.init.split(j, 2, j0, j1)
    violation = f.check().violations[0]
    assert violation.kind == "reduction" and "before its start" in violation.message


def test_a_start_that_is_overwritten_before_the_terms_is_refused_though_nothing_is_read() -> None:
    f = Draft("f", "N", N >= 0)
    a = f.input("a", float32, [N])
    s = f.reduction("s", {i: N, j: 1}, {k: 3}, sum_, a[i])
    f.outputs(f.computation("m", {i: N}, a[i]))
    s.fold(i, 2)
    s.init.split(j, 2, j0, j1)
    violation = f.check().violations[0]
    assert violation.kind == "overwritten" and "while terms of s[0, 0] are added there" in violation.message


def test_terms_on_two_devices_are_refused_and_proven_as_partial_results() -> None:
    rows, (r, term, device, rest) = tm.params("R")[0], tm.iters("r term device rest")

    def divided(apart: bool) -> tm.Function:
        f = tm.Function("sums", params=[rows])
        a = f.input("a", tm.float32, [rows, 1024])
        s = f.reduction("s", {r: rows}, {term: 1024}, tm.sum, a[r, term])
        f.outputs(s)
        s.update.split(term, 512, device, rest)
        if apart:
            part = s.update.rfactor(device, name="part")
            part.init.reorder(device, r)
            part.update.reorder(device, r, term)
            part.partition(device, [1], [tm.cores(), tm.gpu()])
        else:
            s.update.reorder(device, r, rest)
            s.update.partition(device, [1], [tm.cores(), tm.gpu()])
        f.derive_transfers()
        return f

    violation = divided(apart=False).check().violations[0]
    assert violation.message.startswith("s[0] lacks a term (the term term = 512), at R = 1")
    assert "s.update.rfactor(...) over the loop of the devices" in violation.repair
    assert divided(apart=True).check().ok
