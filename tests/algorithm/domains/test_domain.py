"""Domains, in all forms that a user may write them, against plain Python."""

from __future__ import annotations

from typing import Any

import islpy as isl
import numpy as np
import pytest

from tests.programs.miniature import Small, iters, params
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.domains.domain import parse_context
from tiramisu_py.algorithm.expressions import Access
from tiramisu_py.algorithm.functions import maximum, minimum
from tiramisu_py.algorithm.operators import sum_
from tiramisu_py.errors import DeclarationError

i, j, k = iters("i j k")
N, M = params("N M")
SIZES = [(0, 0), (1, 3), (5, 2), (7, 7)]


def points(domain: Any, n: int, m: int, **more: Any) -> set[tuple[int, ...]]:
    f = Small("N M")
    f.computation("c", domain, 1.0, **more)
    return f.elements("c", N=n, M=m)


FORMS: list[tuple[Any, Any]] = [
    ({i: N}, lambda n, m: {(a,) for a in range(n)}),
    ({i: (2, N)}, lambda n, m: {(a,) for a in range(2, n)}),
    ({i: (-2, 3)}, lambda n, m: {(a,) for a in range(-2, 3)}),
    ({i: N, j: M + 1}, lambda n, m: {(a, b) for a in range(n) for b in range(m + 1)}),
    ({i: N, j: (i, N)}, lambda n, m: {(a, b) for a in range(n) for b in range(a, n)}),
    ({i: N, j: i}, lambda n, m: {(a, b) for a in range(n) for b in range(a)}),
    (
        {i: N, j: (maximum(i - 1, 0), minimum(i + 2, M))},
        lambda n, m: {(a, b) for a in range(n) for b in range(max(a - 1, 0), min(a + 2, m))},
    ),
    ({i: (N + 1) // 2, j: N % 3}, lambda n, m: {(a, b) for a in range((n + 1) // 2) for b in range(n % 3)}),
    ({i: (0, N), j: (i // 2, i + 1)}, lambda n, m: {(a, b) for a in range(n) for b in range(a // 2, a + 1)}),
    ({i: np.int64(4)}, lambda n, m: {(a,) for a in range(4)}),
    ({i: 0}, lambda n, m: set()),
    ({i: (5, 2)}, lambda n, m: set()),
    ([{i: 3}, {i: (N, N + 2)}], lambda n, m: {(a,) for a in (0, 1, 2, n, n + 1)}),
    ("[N, M] -> { [i, j] : 0 <= i < N and 0 <= j < M }", lambda n, m: {(a, b) for a in range(n) for b in range(m)}),
    ("[M] -> { [i] : 0 <= i < M }", lambda n, m: {(a,) for a in range(m)}),
    ("[M, N] -> { [i] : 0 <= i < M; [i] : i = N + 5 }", lambda n, m: {(a,) for a in (*range(m), n + 5)}),
    ("[N] -> { c[i] : 0 <= i < N and i mod 3 = 1 }", lambda n, m: {(a,) for a in range(1, n, 3)}),
    ("{ [i, j] : 0 <= i < 5 and j = 2i }", lambda n, m: {(a, 2 * a) for a in range(5)}),
]


@pytest.mark.parametrize(("n", "m"), SIZES)
@pytest.mark.parametrize("form", range(len(FORMS)))
def test_a_domain_has_the_points_that_it_says(form: int, n: int, m: int) -> None:
    domain, expected = FORMS[form]
    assert points(domain, n, m) == expected(n, m)


@pytest.mark.parametrize(("n", "m"), SIZES)
def test_where_keeps_the_points_at_which_it_holds(n: int, m: int) -> None:
    found = points({i: N, j: M}, n, m, where=((i + j) % 2 == 0) & (i != j) & ~((i == 3) | (j > 4)))
    assert found == {
        (a, b) for a in range(n) for b in range(m) if (a + b) % 2 == 0 and a != b and not (a == 3 or b > 4)
    }


def test_the_iterators_are_named_and_the_tuple_is_the_computations() -> None:
    f = Small("N M", "N >= 2")
    c = f.computation("c", {i: N, j: M}, 1.0).declared
    assert c.iterators == ("i", "j")
    assert c.domain.get_tuple_name() == "c"
    assert [c.domain.get_dim_name(isl.dim_type.set, axis) for axis in (0, 1)] == ["i", "j"]
    assert c.domain.get_var_names(isl.dim_type.param) == ["N", "M"]
    assert c.domain.params().is_subset(f.algorithm.context)


def test_a_domain_without_iterators_has_one_point() -> None:
    f = Small("N")
    assert f.computation("c", {}, 1.0).declared.domain.is_equal(
        isl.Set.read_from_str(f.algorithm.isl_context, "[N] -> { c[] : N >= 0 }")
    )


@pytest.mark.parametrize(
    "over",
    [
        {k: (i, M)},
        "[M, N] -> { [i, k] : i <= k < M }",
        [{k: (i, minimum(M, i + 2))}, {k: (i + 2, M)}],
    ],
    ids=["dict", "text with the outer iterators", "pieces"],
)
def test_what_is_reduced_over_may_depend_on_the_outer_iterators(over: Any) -> None:
    f = Small("N M")
    f.reduction("r", {i: N}, over, sum_, 1.0)
    assert f.elements("r", N=3, M=5) == {(a, b) for a in range(3) for b in range(a, 5)}


def test_text_over_its_own_iterators_is_joined_to_all_values() -> None:
    f = Small("N M")
    c = f.reduction("r", {i: N}, "[M] -> { [k] : 0 <= k < M }", sum_, 1.0).declared
    assert (c.iterators, c.over) == (("i",), ("k",))
    assert f.elements("r", N=2, M=3) == {(a, b) for a in range(2) for b in range(3)}


def test_bounds_that_are_values_become_guards_and_a_range() -> None:
    f = Small("N M")
    start = f.input("start", "int32", [N + 1], values=(0, M + 1))
    c = f.reduction("r", {i: N}, {k: (start[i], start[i + 1])}, sum_, 1.0).declared
    assert [str(guard) for guard in c.guards] == ["int64(start[i]) <= k", "k < int64(start[i + 1])"]
    assert f.elements("r", N=2, M=3) == {(a, b) for a in range(2) for b in range(3)}


def test_the_range_of_a_bound_follows_the_arithmetic_on_its_values() -> None:
    f = Small("N")
    size = f.input("size", "int64", [N], values=(1, 4))
    f.computation("c", {i: N, j: (-size[i], 2 * size[i] + 1)}, 1.0)
    assert f.elements("c", N=1) == {(0, b) for b in range(-3, 7)}


def test_where_splits_into_affine_and_other_conditions() -> None:
    f = Small("N")
    mask = f.input("mask", "float32", [N])
    c = f.computation("c", {i: N}, 1.0, where=(i >= 2) & (mask[i] > 0.5)).declared
    assert [str(guard) for guard in c.guards] == ["mask[i] > 0.5"]
    assert f.elements("c", N=4) == {(2,), (3,)}


def test_where_of_a_reduction_restricts_values_or_terms_by_the_iterators_it_names() -> None:
    f = Small("N")
    c = f.reduction("r", {i: N}, {k: N}, sum_, 1.0, where=(i >= 1) & (k != i)).declared
    assert f.elements("r", N=3) == {(1, 0), (1, 2), (2, 0), (2, 1)}
    assert c.domain.is_equal(isl.Set.read_from_str(f.algorithm.isl_context, "[N] -> { r[i] : 1 <= i < N }"))


# -- what is refused

BAD: list[tuple[Any, str]] = [
    ({i: N, iters("i")[0]: M}, "the domain of c has the iterator i twice"),
    ({j: i, i: N}, "bound i of j in the domain of c uses i, which is not an outer iterator; declare i before it"),
    ({i: i + 1}, "uses i, which is not an outer iterator"),
    ({i: 2.5}, r"bound 2.5 of i in the domain of c is weak float; bounds are integers"),
    ({i: N / 2}, "bound N / 2 of i in the domain of c is weak float"),
    ({i: True}, "is bool; bounds are integers"),
    ({i: "N"}, "bound N of i in the domain of c cannot be used"),
    ({i: (0, N, 2)}, r"i in the domain of c has 3 bounds"),
    ({i: N * M}, r"the domain of c has no upper bound for i, because i < N \* M is not affine"),
    ({i: k}, "the domain of c uses the iterator k, which is not among its iterators"),
    ({i: params("Q")[0]}, r"uses the parameter Q, which f does not have; add it to params=\[N, M\]"),
    ({iters("N")[0]: 4}, "the domain of c has the iterator N, and a parameter has this name"),
    ({iters("while")[0]: 4}, "'while' cannot be the name of an iterator of c"),
    ({"i": 4}, "'i' in the domain of c is not an iterator; make one with tm.iters"),
    ({Access("a", (i,), ty.int32): 1}, r"a\[i\] .* is a value: .*f\.scatter.* where=a\[i\] == v"),
    (7, "the domain of c is 7; write a dict"),
    ([], r"the domain of c is \[\]; write a dict"),
    ([{i: 3}, {j: 3}], "the pieces of the domain of c have different iterators: i and j"),
    ("[N] -> { [i] : 0 <= i < Q }", r"'\[N\] -> { \[i\] : 0 <= i < Q }' of c is not an isl set of one tuple"),
    ("nonsense", "the domain 'nonsense' of c is not an isl set"),
    ("{ [i] -> [j] }", "of c is not an isl set of one tuple"),
    ("[Q] -> { [i] : 0 <= i < Q }", "has the parameter Q; the parameters of f are N, M"),
    ("{ [i] : i >= 0 }", "the domain of c has no upper bound for i"),
    ("{ [i] : i < 0 }", "the domain of c has no lower bound for i"),
    ("[N] -> { [i, j] : 0 <= i < N and j >= i }", "the domain of c has no upper bound for j"),
    ("{ d[i] : 0 <= i < 4 }", "is in a tuple called d; leave the name out"),
    ("{ [i, i] : 0 <= i < 4 }", "dimension 1 of the domain .* of c has no name of its own"),
    ("[N] -> { : N > 2 }", "of c has no tuple"),
    ("[N] -> { [N] : 0 <= N < 3 }", "has the iterator N|has no name of its own"),
]


@pytest.mark.parametrize(("domain", "message"), BAD, ids=[message[:40] for _, message in BAD])
def test_a_domain_that_makes_no_sense_is_refused_by_name(domain: Any, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        Small("N M").computation("c", domain, 1.0)


def test_a_bound_whose_values_have_no_declared_range_is_refused() -> None:
    f = Small("N")
    start = f.input("start", "int32", [N + 1])
    with pytest.raises(DeclarationError, match=r"because start is not declared to lie in a range; give values="):
        f.computation("c", {i: N, j: (0, start[i])}, 1.0)


def test_an_affine_condition_may_bound_what_values_do_not() -> None:
    f = Small("N M")
    start = f.input("start", "int32", [N + 1])
    f.computation("c", {i: N, j: (0, start[i])}, 1.0, where=j < M)
    assert f.elements("c", N=1, M=2) == {(0, 0), (0, 1)}


def test_where_must_be_a_condition() -> None:
    with pytest.raises(DeclarationError, match="where= of c is weak int, not a condition: i"):
        Small("N").computation("c", {i: N}, 1.0, where=i)


def test_pieces_with_bounds_that_are_values_are_refused() -> None:
    f = Small("N M")
    start = f.input("start", "int32", [N + 1], values=(0, M))
    with pytest.raises(DeclarationError, match="the domain of c has several pieces: their bounds must be affine"):
        f.computation("c", [{i: N, j: (0, start[i])}, {i: N, j: (M, M + 2)}], 1.0)


def test_a_reduction_over_nothing_is_refused() -> None:
    with pytest.raises(DeclarationError, match="the reduction r has no iterator to reduce over"):
        Small("N").reduction("r", {i: N}, {}, sum_, 1.0)


def test_text_that_mixes_outer_and_own_iterators_out_of_order_is_refused() -> None:
    with pytest.raises(DeclarationError, match="give i first, or only those that are reduced over"):
        Small("N").reduction("r", {i: N}, "[N] -> { [k, i] : 0 <= k < N and 0 <= i < N }", sum_, 1.0)


# -- the context


@pytest.mark.parametrize("assume", ["N >= 2 and M < N", (N >= 2) & (M < N)], ids=["text", "expression"])
def test_the_context_is_what_is_assumed_and_that_sizes_are_not_negative(assume: Any) -> None:
    context = isl.Context()
    found = parse_context(context, ("N", "M"), assume)
    assert found.is_equal(isl.Set.read_from_str(context, "[N, M] -> { : N >= 2 and 0 <= M < N }").params())


@pytest.mark.parametrize(
    ("names", "assume", "message"),
    [
        ("N", "N >= ", "the assumption 'N >= ' is not a condition that isl reads"),
        ("N", "Q >= 1", "over the parameters N"),
        ("N", "N < 0", "no parameter values satisfy the assumption 'N < 0'"),
        ("N", N + 1, r"the assumption N \+ 1 is weak int, not a condition"),
        ("N", N * N > 4, r"is not affine in the parameters: N \* N"),
        ("N N", None, "there are two parameters called N"),
        ("int", None, "'int' cannot be the name of a parameter"),
    ],
)
def test_an_assumption_that_makes_no_sense_is_refused(names: str, assume: Any, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        parse_context(isl.Context(), names.split(), assume)
