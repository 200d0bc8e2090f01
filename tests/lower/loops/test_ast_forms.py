"""What isl writes as conditions and expressions is read again as the sets and functions that they were made of."""

from __future__ import annotations

import islpy as isl
import pytest

from tiramisu_py.lower.loops.ast_forms import AstForms

SETS = (
    "[N] -> { [i, j] : 0 <= i < N and j <= i }",
    "[N] -> { [i, j] : i = 2 or j >= N }",
    "[N] -> { [i, j] : i < 3 or (j > 2 and i = N) or j = 0 }",
    "[N] -> { [i, j] : i mod 4 = 1 and 3j <= N }",
    "[N] -> { [i, j] : 2*floor(i/2) = i or 3*floor((j + N)/3) = j + N }",
    "[N] -> { [i, j] : 0 <= i < 10 and 0 <= j < 10 and not (i = 4 and j = 5) }",
    "[N] -> { [i, j] : }",
    "[N] -> { [i, j] : 1 = 0 }",
)
FUNCTIONS = (
    "[N] -> { [i, j] -> [(2i - 3j + N)] }",
    "[N] -> { [i, j] -> [(floor(i/4))] }",
    "[N] -> { [i, j] -> [(i - 4*floor(i/4))] }",
    "[N] -> { [i, j] -> [(i)] : i < j; [i, j] -> [(j)] : i >= j }",
    "[N] -> { [i, j] -> [(i)] : i > j; [i, j] -> [(j)] : i <= j }",
    "[N] -> { [i, j] -> [(1)] : i < 0; [i, j] -> [(N + j)] : i >= 0 and j > 3; [i, j] -> [(-i)] : i >= 0 and j <= 3 }",
    "[N] -> { [i, j] -> [(floor((3i + j)/5) - N)] }",
)


def build_and_forms(space: isl.Space) -> tuple[isl.AstBuild, AstForms]:
    """isl's writer of expressions over the iterators i and j, and the reader of them."""
    build = isl.AstBuild.from_context(isl.Set.universe(space).params())
    frame = isl.Set("[N] -> { [i, j] }").get_space()
    return build, AstForms(frame, {"i": 0, "j": 1})


@pytest.mark.parametrize("text", SETS)
def test_a_condition_is_read_as_the_set_that_it_says(text: str) -> None:
    wanted = isl.Set(text)
    build, forms = build_and_forms(isl.Set("[N, i, j] -> { : }").get_space())
    as_params = isl.Set(text.replace("[N] -> { [i, j]", "[N, i, j] -> {")).params()
    assert forms.condition(build.expr_from_set(as_params)).is_equal(wanted)


@pytest.mark.parametrize("text", FUNCTIONS)
def test_an_expression_is_read_as_the_function_that_it_computes(text: str) -> None:
    wanted = isl.PwAff(text)
    build, forms = build_and_forms(isl.Set("[N, i, j] -> { : }").get_space())
    as_params = isl.PwAff(text.replace("[N] -> { [i, j] ->", "[N, i, j] -> {").replace("; [i, j] ->", ";"))
    found = forms.form(build.expr_from_pw_aff(as_params))
    found = found.to_pw_aff() if isinstance(found, isl.Aff) else found
    assert found.is_equal(wanted)
