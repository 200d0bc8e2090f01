"""Declared values of computations: proven from their expressions, or refused with a value that is outside."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.algorithm.evaluate.drawn_arguments import arguments

N, P = tm.params("N P")
i, k, p = tm.iters("i k p")


def recurrence(claim, most=15) -> tm.Function:
    """A table at numbers that go up to `most`, and stay there."""
    f = tm.Function("stairs", params=[N], assume="N >= 1")
    up, table = f.input("up", tm.bool, [N]), f.input("table", tm.int64, [16])
    level = f.computation(
        "level", {i: N}, lambda h: tm.select(i == 0, 0, tm.minimum(tm.select(up[i], h[i - 1] + 1, h[i - 1]), most)),
        dtype=tm.int32, values=claim,
    )  # fmt: skip
    f.outputs(f.computation("o", {i: N}, table[level[i]]))
    return f


def test_a_claim_about_a_recurrence_is_proven_by_induction():
    f = recurrence((0, 16))
    assert f.check().ok, f.check()
    assert not recurrence(None).check().ok
    table = np.arange(16) * 2
    for n in (1, 2, 15, 16, 17, 31):
        up = np.ones(n, dtype=np.bool_)
        wanted = 2 * np.minimum(np.arange(n), 15)
        np.testing.assert_array_equal(f.evaluate(up=up, table=table), wanted)
        np.testing.assert_array_equal(f.compile()(up=up, table=table), wanted)


@pytest.mark.parametrize(("claim", "most", "value"), [((0, 15), 15, 15), ((0, 16), 16, 16), ((1, 16), 15, 0)])
def test_a_claim_that_does_not_hold_is_refused_with_a_value_outside(claim, most, value):
    found = [v for v in recurrence(claim, most).check().violations if "may be" in v.message]
    assert [violation.kind for violation in found] == ["bounds"]
    low, high = claim
    assert f"may be {value}, at N = " in found[0].message
    assert f"declared to be at least {low} and less than {high}" in found[0].message
    assert f"tm.clip(.., {low}, {high - 1})" in found[0].repair


def test_a_claim_about_what_is_not_known_says_what_to_declare():
    def copied(claim, values=None) -> tm.Function:
        f = tm.Function("copied", params=[N], assume="N >= 1")
        x = f.input("x", tm.int32, [N], values=values)
        f.outputs(f.computation("c", {i: N}, x[i], values=claim))
        return f

    violation = copied((0, 16)).check().violations[0]
    assert "nothing is known of x[i]" in violation.message
    assert "declare what x holds" in violation.repair
    assert copied((0, 16), (0, 16)).check().ok
    assert not copied((0, 16), (0, 17)).check().ok
    assert copied((0, N), (0, N)).check().ok
    assert not copied((0, N), (0, N + 1)).check().ok
    with pytest.raises(tm.DeclarationError, match="empty range"):
        copied((3, 3))


def test_claims_are_for_integers():
    f = tm.Function("floats", params=[N])
    x = f.input("x", tm.float32, [N])
    with pytest.raises(tm.DeclarationError, match="c is float32: values= is for integers"):
        f.computation("c", {i: N}, x[i], values=(0, 1))
    with pytest.raises(tm.DeclarationError, match="s is float32: values= is for integers"):
        f.reduction("s", {}, {i: N}, tm.sum, x[i], values=(0, 1))


@pytest.mark.parametrize(
    ("op", "term", "claim", "right"),
    [
        (tm.sum, lambda x: x, (0, 4 * 9 + 1), True),
        (tm.sum, lambda x: x, (0, 4 * 9), False),
        (tm.sum, lambda x: 0 - x, (-36, 1), True),
        (tm.min, lambda x: x, (0, 10), True),
        (tm.max, lambda x: x, (0, 9), False),
        (tm.max, lambda x: x - 9, (-9, 1), True),
        (tm.product, lambda x: x, (0, 9**4 + 1), False),
    ],
)
def test_claims_about_reductions(op, term, claim, right):
    f = tm.Function("reduced", params=[N])
    x = f.input("x", tm.int32, [N, 4], values=(0, 10))
    f.outputs(f.reduction("c", {i: N}, {k: 4}, op, term(x[i, k]), values=claim))
    assert f.check().ok is right


def test_the_least_of_no_terms_is_the_end_of_its_type():
    def least(terms) -> bool:
        f = tm.Function("least", params=[N], assume="N >= 1")
        x = f.input("x", tm.int32, [N, 4], values=(0, 10))
        f.outputs(f.reduction("c", {i: N}, {k: terms}, tm.min, x[i, k], values=(0, 10)))
        return f.check().ok

    assert least(4)
    assert not least((0, tm.minimum(i, 4)))


def rows(f: tm.Function, given, values) -> tm.Function:
    """Sums between computed places."""
    x = f.input("x", tm.float64, [P])
    start = f.computation("start", {i: N + 1}, tm.clip(given[i], 0, P), values=values)
    f.outputs(f.reduction("y", {i: N}, over={p: (start[i], start[i + 1])}, op=tm.sum, expr=x[p]))
    return f


def test_claims_bound_domains_and_sizes_beyond_a_type_are_to_be_assumed_away():
    f = tm.Function("rows", params=[N, P], assume=f"P < {2**31}")
    f = rows(f, f.input("given", tm.int32, [N + 1]), (0, P + 1))
    assert f.check().ok, f.check()
    given, x = np.array([-3, 2, 1, 9], dtype=np.int32), np.arange(5.0)
    wanted = [x[a:b].sum() for a, b in ((0, 2), (2, 1), (1, 5))]
    np.testing.assert_array_equal(f.evaluate(given=given, x=x), wanted)
    np.testing.assert_array_equal(f.compile()(given=given, x=x), wanted)
    g = tm.Function("wide_rows", params=[N, P])
    (violation,) = rows(g, g.input("given", tm.int32, [N + 1]), (0, P + 1)).check().violations
    assert violation.repair == "assume P <= 2147483647"


def test_claims_of_groups_hold_for_each_other():
    def group(high) -> bool:
        f = tm.Function("pair", params=[N], assume="N >= 1")
        with f.together() as g:
            a = g.computation("a", {i: N}, lambda: tm.select(i == 0, 0, b[i - 1] % 8), dtype=tm.int32, values=(0, 8))
            b = g.computation("b", {i: N}, lambda: a[i] + 1, dtype=tm.int32, values=(1, high))
        f.outputs(a, b)
        return f.check().ok

    assert group(9)
    assert not group(8)


def test_claims_are_saved(tmp_path):
    f = recurrence((0, 16))
    f.save(tmp_path / "stairs.json")
    again = tm.load(tmp_path / "stairs.json")
    assert again.check().ok
    assert again.algorithm.computations["level"].values is not None


@pytest.mark.parametrize("size", [N, 4])
def test_indices_of_flat_matrices_say_how_to_write_them(size):
    f = tm.Function("flat", params=[N, P], assume="N >= 1 and P >= 1")
    if size is N:
        with pytest.raises(tm.DeclarationError, match=r"give the array the dimensions \[N, P\]"):
            f.input("t", tm.float32, [N * P + 1])
        t = f.input("t", tm.float32, [N])
        f.outputs(f.computation("o", {i: N, k: P}, t[i * P + k]))
        assert "strides=[P, 1]" in f.check().violations[0].repair
    else:
        t = f.input("t", tm.float32, [size * P])
        f.outputs(f.computation("o", {i: size, k: P}, t[i * P + k]))
        assert f.check().ok
        x = np.arange(20, dtype=np.float32)
        np.testing.assert_array_equal(f.compile()(x, N=1, P=5).reshape(-1), x)


@pytest.mark.parametrize(
    ("dtype", "values", "given"),
    [
        (tm.uint8, (-1, 10), [9, 0, 3]),
        (tm.int8, (-200, 10), [9, -128, 3]),
        (tm.int8, (-100, 110), [100, -100, *range(-90, 50)]),
        (tm.uint64, (2**63 - 2, 2**63 + 9), [2**63 - 2, 2**63 + 3]),
        (tm.int32, None, [2**31 - 1, -(2**31), 0]),
    ],
)
def test_distinct_elements_of_any_type_and_range(dtype, values, given):
    f = tm.Function("f", params=[N])
    x = f.input("x", dtype, [N], values=values, distinct=True)
    f.outputs(f.computation("y", {i: N}, x[i]))
    array = np.array(given, dtype.numpy)
    np.testing.assert_array_equal(f.evaluate(array), array)
    array[-1] = array[0]
    with pytest.raises(tm.ArgumentError, match="which occurs before, but its elements are declared to be distinct"):
        f.evaluate(array)


def test_no_more_distinct_numbers_are_drawn_than_a_type_has():
    f = tm.Function("f", params=[N])
    f.input("x", tm.int8, [N], distinct=True)
    drawn = arguments(f.algorithm, {}, {"N": 100}, 0)["x"]
    assert len(set(drawn.tolist())) == 100 and drawn.min() >= 0
    with pytest.raises(tm.ArgumentError, match=r"x has 200 elements at these sizes, .* at least 0 and less than 128"):
        arguments(f.algorithm, {}, {"N": 200}, 0)
