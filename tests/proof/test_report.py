"""The report: what it says, what it blames, and what it takes on trust."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.programs.drafts import Draft
from tests.programs.stories import K, M, N, blur, i, j, k, k0, k1, product, r, refusal, stages
from tiramisu_py.algorithm.expressions import ExternFunction
from tiramisu_py.algorithm.operators import Operator, max_, sum_
from tiramisu_py.algorithm.types import float32, int32, int64
from tiramisu_py.errors import LegalityError
from tiramisu_py.program.loops import Combine
from tiramisu_py.proof import Report, check
from tiramisu_py.proof.theorem import CONDITIONS, OPERATIONS


def test_a_proof_reads_well_in_a_terminal() -> None:
    story = stages()
    story.p.parallelize(i)
    lines = str(story.draft.check()).splitlines()
    assert lines[0].startswith("f: proven (")
    assert "  every read sees the value it names" in lines
    assert "  the caller finds every value of q, and its other arrays unchanged" in lines
    assert "  no two iterations of the concurrent loops i conflict" in lines
    assert "  bits preserved" in lines
    assert "  on trust: assumed: N >= 1" in lines


def test_a_refusal_reads_well_in_a_terminal() -> None:
    story = stages()
    story.q.after(story.p, i)
    lines = str(story.draft.check()).splitlines()
    assert lines[0].startswith("f: refused, 1 reason (")
    assert lines[1:] == [
        "  order: q[0] reads p[1] before it is computed, at N = 1",
        "    command: q.after(p, i)",
        "    repair:  q.shift(i, 1)",
    ]


def test_a_report_is_plain_data_too() -> None:
    story = stages()
    story.q.after(story.p, i)
    data = json.loads(json.dumps(story.draft.check().as_dict()))
    assert data["ok"] is False
    assert data["violations"][0]["witness"] == {
        "params": {"N": 1}, "writer": ["p", [1]], "reader": ["q", [0]], "element": ["p", [1]],
    }  # fmt: skip
    assert data["violations"][0]["command"] == "q.after(p, i)"


def test_a_report_says_how_long_it_took() -> None:
    report = stages().draft.check()
    assert report.seconds > 0
    assert f"({1000 * report.seconds:.0f} ms)" in str(report)


def test_an_error_carries_the_witness() -> None:
    story = stages()
    story.q.after(story.p, i)
    error = LegalityError(story.draft.check().violations)
    assert error.kind == "order" and error.witness.reader == ("q", (0,))
    assert "q.after(p, i)" in str(error) and "q.shift(i, 1)" in str(error)


# -- blame


def test_the_command_after_the_last_legal_state_is_blamed() -> None:
    story = blur()
    story.q.after(story.p, r)
    story.q.shift(r, 2)
    story.p.parallelize(r)
    story.q.shift(r, 1)
    assert {violation.command for violation in story.draft.check().violations} == {"bx.parallelize(r)"}
    story = blur()
    story.p.unroll(r)
    story.q.after(story.p, r)
    story.q.unroll(r)
    assert refusal(story.draft).command == "by.after(bx, r)"


def test_a_program_that_was_legal_in_between_blames_the_last_fall() -> None:
    story = stages()
    story.q.after(story.p, i)
    story.q.shift(i, 1)
    story.q.shift(i, -1)
    assert refusal(story.draft).command == "q.shift(i, -1)"


def test_each_violation_has_its_own_command() -> None:
    f = Draft("f", "N", N >= 1)
    a = f.input("a", float32, [N + 1])
    p = f.computation("p", {i: N + 1}, a[i])
    q = f.computation("q", {i: N}, p[i + 1])
    s = f.computation("s", {i: N}, p[i + 1])
    f.outputs(q, s)
    q.after(p, i)
    s.after(p, i)
    commands = {violation.witness.reader: violation.command for violation in f.check().violations}
    assert commands == {("q", (0,)): "q.after(p, i)", ("s", (0,)): "s.after(p, i)"}


def test_the_algorithm_itself_is_blamed_on_no_command() -> None:
    f = Draft("f", "N", None)
    a = f.input("a", float32, [10])
    b = f.computation("b", {i: N}, a[i])
    f.outputs(b)
    b.reverse(i)
    assert refusal(f).command == ""


# -- trust


def test_declared_facts_that_are_used_are_listed() -> None:
    f = Draft("f", "N M", (N >= 1) & (M >= 1))
    x = f.input("x", float32, [M])
    col = f.input("col", int64, [N], values=(0, M))
    unused = f.input("unused", int64, [N], values=(0, 5))
    f.outputs(f.computation("y", {i: N}, x[col[i]] + unused[i]))
    assert f.check().trusted == ("assumed: N >= 1 and M >= 1", "declared: 0 <= col < M")


def test_declared_facts_that_bound_a_domain_are_listed() -> None:
    f = Draft("f", "N M", None)
    a = f.input("a", float32, [M])
    start = f.input("start", int32, [N + 1], values=(0, M + 1))
    f.outputs(f.reduction("s", {i: N}, {k: (start[i], start[i + 1])}, sum_, a[k]))
    report = f.check()
    assert report.ok
    assert report.trusted == ("declared: 0 <= start < M + 1",)


def test_narrow_index_arithmetic_is_listed() -> None:
    f = Draft("f", "N M", None)
    x = f.input("x", float32, [M + 1])
    col = f.input("col", int32, [N], values=(0, M))
    f.outputs(f.computation("y", {i: N}, x[col[i] + 1]))
    assert any("32-bit index arithmetic" in fact for fact in f.check().trusted)


def test_functions_and_operators_of_the_users_are_listed() -> None:
    f = Draft("f", "N K", None)
    a = f.input("a", float32, [N, K])
    twice = ExternFunction("twice", (float32,), float32, lambda x: 2 * x)
    furthest = Operator("furthest", lambda x, y: max_(x, y), lambda dtype: 0)
    f.outputs(f.reduction("s", {i: N}, {k: K}, furthest, twice(a[i, k])))
    trusted = f.check().trusted
    assert any("twice" in fact for fact in trusted) and any("furthest" in fact for fact in trusted)


def test_nothing_is_trusted_without_need() -> None:
    f = Draft("f", "N", None)
    a = f.input("a", float32, [N])
    f.outputs(f.computation("b", {i: N}, a[i]))
    assert f.check().trusted == ()


# -- bits


def test_bits_are_preserved_by_tiling_and_parallel_values() -> None:
    f, result = product()
    result.update.split(k, 8, k0, k1)
    result.update.reorder(k0, i, k1, j)
    result.update.parallelize(j)
    assert f.check().bits == "bits preserved"


@pytest.mark.parametrize("command", ["reverse", "interchange", "combine", "vectorize"])
def test_the_command_that_gives_up_bits_is_named(command: str) -> None:
    f, result = product()
    result.update.split(k, 8, k0, k1)
    if command == "reverse":
        result.update.reverse(k1)
    elif command == "interchange":
        result.update.interchange(k0, k1)
    elif command == "combine":
        result.update.parallelize(k0, combine=Combine.PRIVATE)
    else:
        result.update.vectorize(k1, 8, combine=Combine.PRIVATE)
    blamed = f.program.log[-1].text
    result.init.unroll(j)
    report = f.check()
    assert report.ok
    assert report.bits.startswith(f"bits given up by {blamed}")


def test_sums_of_integers_are_the_same_in_any_order() -> None:
    f = Draft("f", "N K", None)
    a = f.input("a", int32, [N, K])
    s = f.reduction("s", {i: N}, {k: K}, sum_, a[i, k])
    f.outputs(s)
    s.update.reverse(k)
    assert f.check().bits == "bits preserved"


def test_an_ordered_reduction_keeps_its_order() -> None:
    f = Draft("f", "N K", None)
    a = f.input("a", float32, [N, K])
    s = f.reduction("s", {i: N}, {k: K}, sum_, a[i, k], ordered=True)
    f.outputs(s)
    s.update.interchange(i, k)
    assert f.check().ok
    s.update.reverse(k)
    violation = refusal(f)
    assert (violation.kind, violation.command) == ("reduction", f.program.log[-1].text)
    assert dict(violation.witness.params) == {"N": 1, "K": 2}


# -- isl gives up


def test_a_condition_that_isl_cannot_decide_is_refused() -> None:
    story = blur()
    story.q.after(story.p, r)
    report = check(story.draft.program, operations=2000)
    assert {violation.kind for violation in report.violations} == {"unknown"}
    assert "budget of operations is used up" in str(report)
    assert story.draft.check().violations[0].kind == "order"


def test_an_asserted_condition_is_trusted_where_isl_gives_up() -> None:
    story = stages()
    story.draft.change(
        "by hand", lambda p: p.with_(calls=replace(p.calls, asserted=tuple(condition.name for condition in CONDITIONS)))
    )
    assert not any("asserted" in fact for fact in story.draft.check().trusted)
    story.draft.change("by hand", lambda p: p.with_(calls=replace(p.calls, asserted=("algorithm", *p.calls.asserted))))
    report = check(story.draft.program, operations=50)
    assert report.ok
    assert "asserted: values" in report.trusted
    assert not any("sees the value" in fact for fact in report.proven)


def test_a_check_leaves_no_budget_behind() -> None:
    story = stages()
    context = story.draft.algorithm.isl_context
    before = context.get_max_operations()
    story.draft.check()
    assert context.get_max_operations() == before != OPERATIONS


def test_a_program_is_checked_the_same_twice() -> None:
    story = blur()
    story.q.after(story.p, r)
    first, second = check(story.draft.program), check(story.draft.program)
    assert isinstance(first, Report) and first == second
