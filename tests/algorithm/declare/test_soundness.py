"""Algorithms that do not say what their values are: refused before any schedule is looked at."""

from __future__ import annotations

import islpy as isl
import pytest

from tests.programs.drafts import Draft
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.declare.soundness import ValueSets, violations
from tiramisu_py.algorithm.domains.conditions import in_words, missing_condition
from tiramisu_py.algorithm.expressions import Expr, Iter, Param, call, cast, select
from tiramisu_py.algorithm.operators import max_, min_
from tiramisu_py.errors import Violation

N, M = Param("N"), Param("M")
i, j = Iter("i"), Iter("j")


def found(draft: Draft) -> list[Violation]:
    return violations(ValueSets(draft.algorithm))


def reading(shape: object, index: Expr, domain: object = N, params: str = "N M", assume: object = None) -> Draft:
    """b[i] = a[index]."""
    f = Draft("f", params, assume)
    a = f.input("a", ty.float32, [shape])
    f.computation("b", {i: domain}, a[index])
    return f


def test_a_read_past_the_end_names_the_element_and_the_missing_condition() -> None:
    (violation,) = found(reading(10, i + 0, params="N"))
    assert violation.kind == "bounds"
    assert dict(violation.witness.params) == {"N": 11}
    assert violation.witness.element == ("a", (10,))
    assert violation.witness.reader == ("b", (10,))
    assert "b[10] reads a[10]" in violation.message and "N <= 10" in violation.message
    assert violation.command == ""


@pytest.mark.parametrize(
    ("index", "fine"),
    [(i, True), (i + 1, False), (i - 1, False), (N - 1 - i, True), (i // 2, True), (2 * i, False), (i % 5, True)],
)
def test_reads_of_an_array_of_n_elements(index: Expr, fine: bool) -> None:
    assert (not found(reading(N, index, params="N"))) == fine


def test_the_context_decides() -> None:
    assert found(reading(M, i + 0, assume=None))
    assert not found(reading(M, i + 0, assume=M >= N))


def test_a_clipped_index_is_inside() -> None:
    assert not found(reading(N, min_(i + 3, N - 1), params="N"))
    assert not found(reading(N, max_(i - 3, 0), params="N"))


def test_a_select_restricts_the_reads_of_its_branches() -> None:
    f = Draft("f", "N", None)
    a = f.input("a", ty.float32, [N])
    f.computation("inside", {i: N}, select((i >= 1) & (i < N - 1), a[i - 1] + a[i + 1], a[i]))
    f.computation("outside", {i: N}, select((i == 0) | (i == N - 1), a[i], a[i - 1] + a[i + 1]))
    f.computation("negated", {i: N}, select(~(i >= 1), a[i], a[i - 1]))
    f.computation("nested", {i: N}, select(i >= 1, select(i >= 2, a[i - 2], a[i - 1]), a[i]))
    assert not found(f)


def test_a_select_on_values_reads_both_branches() -> None:
    f = Draft("f", "N", None)
    a = f.input("a", ty.float32, [N])
    f.computation("b", {i: N}, select(a[i] > 0, a[i + 1], a[i]))
    (violation,) = found(f)
    assert violation.witness.element == ("a", (1,))


def test_the_affine_part_of_a_conjunction_restricts() -> None:
    f = Draft("f", "N", None)
    a = f.input("a", ty.float32, [N])
    f.computation("b", {i: N}, select((a[i] > 0) & (i + 1 < N), a[i + 1], a[i]))
    assert not found(f)
    g = Draft("g", "N", None)
    a = g.input("a", ty.float32, [N])
    g.computation("b", {i: N}, select((a[i] > 0) | (i + 1 < N), a[i + 1], a[i]))
    assert [violation.kind for violation in found(g)] == ["bounds"]


def test_the_condition_itself_is_always_read() -> None:
    f = Draft("f", "N", None)
    a = f.input("a", ty.float32, [N])
    f.computation("b", {i: N}, select((i >= 1) & (a[i - 1] > 0), a[i], 0))
    assert [violation.witness.element for violation in found(f)] == [("a", (-1,))]


def test_a_value_that_does_not_exist_is_not_read() -> None:
    f = Draft("f", "N", N >= 2)
    a = f.input("a", ty.float32, [N])
    p = f.computation("p", {i: (1, N)}, a[i])
    f.computation("q", {i: N}, p[i])
    (violation,) = found(f)
    assert "q[0] reads p[0], which is outside the values of p" in violation.message


def test_triangular_reads_are_inside() -> None:
    f = Draft("f", "N", None)
    a = f.input("a", ty.float32, [N, N])
    p = f.computation("p", {i: N, j: (0, i + 1)}, a[i, j])
    f.computation("q", {i: N, j: (0, i + 1)}, p[i, i - j])
    assert not found(f)
    f.computation("r", {i: N, j: N}, p[i, j])
    assert len(found(f)) == 1


def test_a_value_that_exists_under_a_condition_is_read_under_it() -> None:
    f = Draft("f", "N", N >= 1)
    a = f.input("a", ty.float32, [N])
    p = f.computation("p", {i: N}, 2 * a[i], where=a[i] > 0)
    f.computation("q", {i: N}, p[i] + 1, where=a[i] > 0)
    assert not found(f)
    f.computation("r", {i: N}, p[i] + 1)
    (violation,) = found(f)
    assert violation.kind == "bounds" and "exists only where a[i] > 0" in violation.message


# -- values as indices


def gathered(dtype: ty.DType, index: object, extent: object, **facts: object) -> Draft:
    f = Draft("f", "N M", (N >= 1) & (M >= 1))
    x = f.input("x", ty.float32, [extent])
    col = f.input("col", dtype, [N], **facts)
    f.computation("y", {i: N}, x[index(col)])  # type: ignore[operator]
    return f


def test_an_index_of_which_nothing_is_known_asks_for_a_declaration() -> None:
    (violation,) = found(gathered(ty.int32, lambda col: col[i], M))
    assert violation.kind == "bounds"
    assert "nothing is known of the index col[i]" in violation.message
    assert "declare what col holds: values=(low, high)" in violation.repair


def test_declared_values_bound_an_index() -> None:
    assert not found(gathered(ty.int32, lambda col: col[i], M, values=(0, M)))
    assert found(gathered(ty.int32, lambda col: col[i], M, values=(0, M + 1)))
    assert found(gathered(ty.int32, lambda col: col[i] + 1, M, values=(0, M)))
    assert not found(gathered(ty.int64, lambda col: col[i] + 1, M + 1, values=(0, M)))


def test_a_small_type_bounds_an_index() -> None:
    assert not found(gathered(ty.uint8, lambda col: col[i], 256))
    assert found(gathered(ty.uint8, lambda col: col[i], 255))
    assert found(gathered(ty.int8, lambda col: col[i], 256))


def test_arithmetic_that_wraps_around_is_not_bounded_by_its_operands() -> None:
    """uint8: 0 - 1 is 255, so the index may be any value of the type."""
    assert not found(gathered(ty.uint8, lambda col: col[i] - 1, 256))
    assert found(gathered(ty.uint8, lambda col: col[i] - 1, 255))
    assert found(gathered(ty.uint8, lambda col: cast(ty.int64, col[i]) - 1, 256))


def test_remainders_and_clips_bound_any_index() -> None:
    assert not found(gathered(ty.int64, lambda col: col[i] % 8, 8))
    assert not found(gathered(ty.int64, lambda col: max_(min_(col[i], 7), 0), 8))
    assert found(gathered(ty.int64, lambda col: min_(col[i], 7), 8))


def test_a_floating_point_index_is_bounded_by_its_type_alone() -> None:
    f = Draft("f", "N", N >= 1)
    a = f.input("a", ty.float32, [N])
    table = f.input("table", ty.float32, [256])
    f.computation("b", {i: N}, table[cast(ty.uint8, call("floor", a[i]))])
    assert not found(f)


def test_one_unknown_value_is_one_unknown() -> None:
    """x[col - col] is x[0]."""
    assert not found(gathered(ty.int64, lambda col: col[i] - col[i], 1))


# -- recurrences


def recurrence(expr: object, domain: object = None, params: str = "N") -> Draft:
    f = Draft("f", params, N >= 2)
    a = f.input("a", ty.float32, [N])
    f.computation("s", domain or {i: N}, lambda s: expr(s, a))  # type: ignore[operator]
    return f


def test_recurrences_that_end_are_fine() -> None:
    assert not found(recurrence(lambda s, a: select(i == 0, a[i], s[i - 1])))
    assert not found(recurrence(lambda s, a: select(i == N - 1, a[i], s[i + 1])))
    edge = (i == 0) | (j == N - 1)
    assert not found(recurrence(lambda s, a: select(edge, a[i], s[i - 1, j] + s[i, j + 1]), {i: N, j: N}))
    middle = (i == 0) | (j == 0) | (j == N - 1)
    assert not found(recurrence(lambda s, a: select(middle, a[i], s[i - 1, j - 1] + s[i - 1, j + 1]), {i: N, j: N}))


def test_a_recurrence_that_needs_a_skewed_order_is_found() -> None:
    """s[i, j] from (i - 1, j + 2) and (i + 1, j - 3): 5i + 2j falls, but no dimension alone does."""
    edge = (i == 0) | (j <= 2) | (i == N - 1) | (j >= N - 2)
    assert not found(recurrence(lambda s, a: select(edge, a[i], s[i - 1, j + 2] + s[i + 1, j - 3]), {i: N, j: N}))


def test_a_value_that_is_defined_by_itself_is_refused() -> None:
    (violation,) = found(recurrence(lambda s, a: s[i] + a[i]))
    assert violation.kind == "algorithm"
    assert violation.witness.reader == violation.witness.writer == ("s", (0,))


def test_two_values_that_need_each_other_are_refused() -> None:
    (violation,) = found(recurrence(lambda s, a: s[N - 1 - i] + a[i]))
    assert violation.kind == "algorithm"
    f = recurrence(lambda s, a: select(i == 0, s[1], s[i - 1]) + a[i])
    assert [violation.kind for violation in found(f)] == ["algorithm"]
    assert dict(found(f)[0].witness.params) == {"N": 2}


def test_a_reduction_may_read_its_own_earlier_values() -> None:
    f = Draft("f", "N", N >= 1)
    a = f.input("a", ty.float32, [N])
    k = Iter("k")
    f.reduction("s", {i: N}, {k: (0, i)}, max_, lambda s: s[k] + a[i])
    assert not found(f)


# -- words


def test_conditions_read_as_a_user_would_write_them() -> None:
    context = isl.Set("[N, M] -> { : N >= 0 and M >= 0 }")
    assert in_words(isl.Set("[N, M] -> { : N <= 10 }")) == "N <= 10"
    assert in_words(isl.Set("[N, M] -> { : N >= 2M + 3 }")) == "N >= 2*M + 3"
    assert in_words(isl.Set("[N, M] -> { : N = M }")) in ("N = M", "M = N")
    bad = isl.Set("[N, M] -> { [i] : M <= i < N }")
    assert missing_condition(bad, context) == "M >= N"
    assert missing_condition(isl.Set("[N, M] -> { [0] }"), context) == ""


def test_a_condition_with_many_divisions_is_said_by_nobody() -> None:
    f = Draft("f", "N M", None)
    x, y = f.input("x", ty.int32, [N]), f.input("y", ty.int32, [N], values=(0, M))
    a = f.input("a", ty.float32, [100])
    f.computation("b", {i: N}, a[-(x[i] % y[i]) * (x[0] % 9 & 9)])
    assert {violation.kind for violation in found(f)} == {"bounds"}
    context, parts = isl.Set("[N, M] -> { : N >= 0 and M >= 0 }"), [f"[i] : N mod {k} = 1" for k in range(2, 10)]
    assert missing_condition(isl.Set(f"[N, M] -> {{ {parts[0]} }}"), context)
    assert missing_condition(isl.Set(f"[N, M] -> {{ {'; '.join(parts)} }}"), context) == ""
