"""The budget of a check: one bound for all conditions, shares for blame and what follows a refusal; errors of isl."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import islpy as isl
import pytest

import tiramisu_py as tm
from tests.programs.stories import blur, r, stages
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.derive import completion
from tiramisu_py.derive.completion import CompletionStep
from tiramisu_py.proof import Budget, blame, check, theorem
from tiramisu_py.proof.blame import NOT_FOUND, ONE_BY_ONE
from tiramisu_py.proof.budget import MOMENT, SHARE
from tiramisu_py.proof.violations.condition import Condition
from tiramisu_py.proof.violations.findings import Finding, Key

N, T = tm.params("N T")
i, t, t0, i0 = tm.iters("i t t0 i0")


class Limits:
    """What isl would be told of a budget."""

    def __init__(self) -> None:
        self.limits: list[int] = []
        self.resets = 0

    def get_max_operations(self) -> int:
        return 0

    def set_max_operations(self, most: int) -> None:
        self.limits.append(most)

    def reset_operations(self) -> None:
        self.resets += 1


def test_conditions_that_give_up_never_have_more_than_the_budget_together() -> None:
    limits: Any = Limits()
    with Budget(limits, 1_000_000) as budget:
        for _ in range(8):
            budget.given_up()
    *during, after = limits.limits
    assert during == sorted(during)
    assert during[0] == 750_000
    assert during[-1] <= 1_000_000
    assert after == 0
    assert limits.resets == 2  # isl counts on from condition to condition


def test_a_share_is_counted_anew() -> None:
    limits: Any = Limits()
    with Budget(limits, 100 * MOMENT) as budget:
        budget.begin_share()
        for _ in range(8):
            budget.given_up()
    assert max(limits.limits[1:-1]) <= 100 * MOMENT // SHARE


def _conditions(monkeypatch: pytest.MonkeyPatch, *chosen: Condition) -> None:
    monkeypatch.setattr(theorem, "CONDITIONS", chosen)


def _endless(flow: Flow, _: Key | None = None) -> Iterator[Finding]:
    """A condition that isl never decides."""
    text = "[N] -> { [i, j, k] : exists (e : 3e = i + 2j) and 0 <= i < N and i <= j < N and 0 <= k <= i + j }"
    some = isl.Set(text, context=flow.accesses.program.algorithm.isl_context)
    while not some.lexmin().is_empty():
        pass
    yield


def _known(name: str) -> Condition:
    return next(condition for condition in theorem.CONDITIONS if condition.name == name)


def test_a_refusal_does_not_wait_for_the_conditions_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    story = blur()
    story.q.after(story.p, r)
    _conditions(monkeypatch, _known("values"), Condition("races", _endless), _known("whole_vectors"))
    report = check(story.draft.program, operations=4 * MOMENT)
    assert [violation.kind for violation in report.violations] == ["order"]
    assert report.violations[0].command == story.draft.program.log[-1].text
    assert report.unexamined == ("races", "whole_vectors")
    assert "not examined: races, whole_vectors" in str(report)
    assert report.as_dict()["unexamined"] == ["races", "whole_vectors"]


def test_a_condition_that_takes_all_leaves_enough_for_the_refusal_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    story = blur()
    story.q.after(story.p, r)
    _conditions(monkeypatch, Condition("races", _endless), _known("values"))
    report = check(story.draft.program, operations=4 * MOMENT)
    assert [violation.kind for violation in report.violations] == ["unknown", "order"]


def test_blame_that_takes_all_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    story = blur()
    story.q.after(story.p, r)

    def slow(flow: Flow, sought: Key | None) -> Iterator[Finding]:
        yield from _known_values(flow, None) if sought is None else _endless(flow)

    _known_values = _known("values").findings
    _conditions(monkeypatch, Condition("values", slow))
    report = check(story.draft.program, operations=4 * MOMENT)
    assert [(v.kind, v.command) for v in report.violations] == [("order", NOT_FOUND)]


def test_an_error_of_isl_becomes_unknown_with_its_message_and_the_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(flow: Flow, _: Key | None) -> Iterator[Finding]:
        isl.Set("{ [i] : 1 = 0 }").sample_point().get_coordinate_val(isl.dim_type.set, 0)
        yield

    _conditions(monkeypatch, Condition("values", broken))
    report = check(stages().draft.program)
    assert [violation.kind for violation in report.violations] == ["unknown"]
    assert "the condition 'values'" in report.violations[0].message
    assert "void point" in report.violations[0].message


def test_an_error_of_isl_in_what_completes_a_program_does_not_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int64, [N])
    f.outputs(f.computation("p", {i: N}, a[i]))

    def broken(program: Any) -> Any:
        raise isl.Error("void point")

    monkeypatch.setattr(completion, "COMPLETION", (CompletionStep("broken", "nothing", broken),))
    report = f.check()
    assert [violation.kind for violation in report.violations] == ["unknown"]
    assert "void point" in report.violations[0].message


# -- blame in long logs


@pytest.mark.parametrize("after", [0, 3, ONE_BY_ONE, ONE_BY_ONE + 1, 5 * ONE_BY_ONE])
def test_the_command_to_blame_is_found_however_long_ago_it_was_given(after: int) -> None:
    f = tm.Function("f", params=[N], assume="N >= 1")
    a = f.input("a", tm.int64, [N])
    h = f.computation("h", {i: N}, lambda h: tm.select(i == 0, a[i], h[i - 1] + a[i]))
    f.outputs(h)
    for _ in range(2 * ONE_BY_ONE):
        h.shift(i, 1)
    h.reverse(i)
    for _ in range(after):
        h.shift(i, 1)
    assert f.check().violations[0].command == "h.reverse(i)"


def test_few_states_of_a_long_log_are_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    examined: list[MemoryAccesses] = []

    class Counted(Flow):
        def __init__(self, accesses: MemoryAccesses) -> None:
            examined.append(accesses)
            super().__init__(accesses)

    f = tm.Function("f", params=[N], assume="N >= 1")
    a = f.input("a", tm.int64, [N])
    h = f.computation("h", {i: N}, lambda h: tm.select(i == 0, a[i], h[i - 1] + a[i]))
    f.outputs(h)
    h.reverse(i)
    for _ in range(239):
        h.shift(i, 1)
    monkeypatch.setattr(blame, "Flow", Counted)
    assert f.check().violations[0].command == "h.reverse(i)"
    assert len(examined) <= 1 + ONE_BY_ONE + 1 + 8  # this state, the last ones, the first one, a bisection of 224


# -- what isl could not do before


def test_a_folded_parallel_time_tile_is_refused_with_counterexamples() -> None:
    """isl finds no lexicographic minimum of one of the races' sizes, although there are some."""
    f = tm.Function("f", params=[T, N], assume="T >= 1 and N >= 3")
    a = f.input("a", tm.uint8, [N])
    edge = (t < 2) | (i == 0) | (i == N - 1)
    h = f.computation("h", {t: T + 1, i: N}, lambda h: tm.select(edge, a[i], h[t - 2, i] - h[t - 1, i + 1]))
    f.outputs(h[T, i])
    h.store_in([t % 2, i])
    h.time_tile(t, 3, {i: 4}, origin=-1)
    f["h_only"].parallelize(t0, i0)
    report = f.check()
    assert {violation.kind for violation in report.violations} == {"race"}
    assert all(violation.witness.params for violation in report.violations)
