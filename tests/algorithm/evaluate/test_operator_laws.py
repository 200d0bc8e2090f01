"""Operators of users obey the laws that their reductions need, or are refused with operands; ranges of neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

N, K = tm.params("N K")
i, k, k0, k1, a, b = tm.iters("i k k0 k1 a b")

TYPES = [tm.float32, tm.float64, tm.float16, tm.bfloat16, tm.int32, tm.int8, tm.uint8, tm.uint64]


def reduced(op: Any, dtype: tm.DType = tm.int32, term: Any = lambda x: x, **options: Any) -> tuple[tm.Function, Any]:
    f = tm.Function("reduced", params=[N, K])
    x = f.input("x", dtype, [N, K])
    s = f.reduction("s", {i: N}, {k: K}, op, term(x[i, k]), **options)
    f.outputs(s)
    return f, s


def affine(a: Any, b: Any) -> Any:
    return a[0] * b[0], a[1] * b[0] + b[1]


def larger(a: Any, b: Any) -> Any:
    return tm.select(a < b, b, a)


@pytest.mark.parametrize("dtype", TYPES)
def test_operators_with_these_laws_are_taken_in_each_type(dtype: tm.DType) -> None:
    low = float("-inf") if dtype.is_float else dtype.limits[0]
    reduced(tm.operator("larger", larger, low), dtype)
    reduced(tm.operator("grown", lambda a, b: a + b + a * b, 0), dtype)
    reduced(tm.operator("affine", affine, (1, 0), commutative=False), dtype, lambda x: (x, x))


def test_laws_are_needed_for_partial_results_only() -> None:
    reduced(tm.operator("hypotenuse", lambda a, b: tm.sqrt(a * a + b * b), 0), tm.float32)
    reduced(tm.operator("last", lambda a, b: b, -1), ordered=True)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_subtraction_is_refused_with_three_operands(dtype: tm.DType) -> None:
    with pytest.raises(tm.DeclarationError, match=r"is not associative.*at a = .*, b = .*, c = .* it gives .* and .*;"):
        reduced(tm.operator("minus", lambda a, b: a - b, 0), dtype)


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (tm.operator("mean", lambda a, b: (a + b) / 2, 0), "has another neutral element"),
        (tm.operator("more", lambda a, b: a + b, 1), r"another neutral element.*a = 2.0 it gives 3.0 and 2.0"),
        (tm.operator("times", lambda a, b: a * b, 0), "gives its identity 0.0, whatever the term: give an identity"),
        (tm.operator("apart", lambda a, b: tm.absolute(a - b), 0), "is not associative"),
    ],
)
def test_others_are_refused(op: Any, message: str) -> None:
    with pytest.raises(tm.DeclarationError, match=message):
        reduced(op, tm.float64)


def test_an_operator_that_does_not_commute_says_so() -> None:
    with pytest.raises(tm.DeclarationError, match=r"is not commutative.*give tm.operator\(..., commutative=False\)"):
        reduced(tm.operator("affine", affine, (1.0, 0.0)), tm.float64, lambda x: (x, x))


FIRST = tm.operator("first", lambda a, b: tm.select(a == 0, b, a), 0, commutative=False)


@pytest.mark.parametrize("extent", [0, 1, 31, 33, 1025])
def test_threads_combine_ranges_of_neighbours(extent: int) -> None:
    f, s = reduced(FIRST)
    s.update.parallelize(k, combine=tm.PRIVATE)
    assert f.check().ok
    x = np.random.default_rng(extent).integers(0, 3, (7, extent), np.int32)
    x[:, : extent // 3] = 0
    expected = [next((value for value in row if value), 0) for row in x]
    np.testing.assert_array_equal(f.compile()(x), expected)
    np.testing.assert_array_equal(f.evaluate(x), expected)


@pytest.mark.parametrize(
    "command",
    [
        lambda s: s.parallelize(k, schedule="dynamic", combine=tm.PRIVATE),
        lambda s: s.parallelize(k, chunk=3, combine=tm.PRIVATE),
        lambda s: s.parallelize(k, combine=tm.ATOMIC),
        lambda s: s.vectorize(k, 8, combine=tm.PRIVATE),
        lambda s: s.reverse(k),
        lambda s: s.reverse(k).parallelize(k, combine=tm.PRIVATE),
        lambda s: s.split(k, 4, k0, k1).interchange(k0, k1),
    ],
)
def test_terms_that_are_no_neighbours_are_refused(command: Any) -> None:
    f, s = reduced(FIRST)
    command(s.update)
    report = f.check()
    assert "reduction" in [violation.kind for violation in report.violations]
    assert "first of s is not commutative, but two terms of s[0]" in str(report)


def test_trees_of_a_block_are_refused() -> None:
    f, s = reduced(FIRST)
    s.update.split(k, 32, k0, k1).tag_gpu(blocks=[i], threads=[k1], combine=tm.TREE)
    s.init.tag_gpu(blocks=[i], threads=[])
    f.derive_transfers()
    assert "first of s is not commutative, but two terms of s[0]" in str(f.check())


@pytest.mark.parametrize("extent", [0, 1, 7, 8, 9, 101])
def test_blocks_of_neighbours_on_threads_have_results_of_their_own(extent: int) -> None:
    f, s = reduced(tm.operator("affine", affine, (1, 0), commutative=False), tm.int32, lambda x: (x, x + 1))
    s.update.split(k, 8, k0, k1).parallelize(k0, combine=tm.TREE)
    assert f.check().ok
    x = np.random.default_rng(extent).integers(-9, 9, (3, extent), np.int32)
    for found, wanted in zip(f.compile(threads=3)(x), f.evaluate(x), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    "command",
    [
        lambda s: s.split(k, 4, k0, k1).rfactor(k1),
        lambda s: s.split(k, 4, k0, k1).reverse(k0).rfactor(k0),
        lambda s: s.split(k, 4, k0, k1).split(k0, 4, a, b).rfactor(b),
    ],
)
def test_rfactor_of_terms_that_are_no_neighbours_is_refused(command: Any) -> None:
    with pytest.raises(tm.CommandError, match="first of s is not commutative, and partial results"):
        command(reduced(FIRST)[1].update)


def test_the_law_is_saved(tmp_path: Any) -> None:
    f, _ = reduced(FIRST)
    f.save(tmp_path / "first.json")
    op = tm.load(tmp_path / "first.json").algorithm.computations["s"].op
    assert op is not None and not op.commutative


# -- each entrance asks

X = tm.operator("halved", lambda p, q: p * 0.5 + q, 0.0, commutative=False)
MINUS = tm.operator("minus", lambda a, b: a - b, 0)


def of_scan(f: tm.Function, x: Any, op: Any, **options: Any) -> None:
    f.outputs(f.scan("s", {i: N, k: K}, x[i, k], op, **options))


def of_group(f: tm.Function, x: Any, op: Any, **options: Any) -> None:
    with f.together() as g:
        s = g.reduction("s", {i: N}, {k: (0, i)}, op, lambda: x[i, k] * y[k], **options)
        y = g.computation("y", {i: N}, lambda: x[i, i] + s[i])
    f.outputs(y)


def of_places(f: tm.Function, x: Any, op: Any, **options: Any) -> None:
    place = tm.cast(tm.int32, x[i, k])
    f.outputs(f.scatter("s", {a: N}, over={i: N, k: K}, at=[place], op=op, expr=x[i, k], **options))


ENTRANCES: dict[str, Any] = {
    "reduction": lambda f, x, op, **o: f.outputs(f.reduction("s", {i: N}, {k: K}, op, x[i, k], **o)),
    "accumulate": lambda f, x, op, **o: f.outputs(
        f.reduction("s", {i: N}, {k: K}, op, x[i, k], accumulate=tm.float64, **o)
    ),
    "group": of_group,
    "scatter": of_places,
    "scan": lambda f, x, op: of_scan(f, x, op, chunks={a: 4}),
    "chunks of chunks": lambda f, x, op: of_scan(f, x, op, exclusive=True, chunks={a: 4, b: 8}),
}


@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize("op", [X, MINUS], ids=str)
def test_each_entrance_of_an_operator_asks_for_the_laws(entrance: str, op: Any) -> None:
    f = tm.Function("f", params=[N, K])
    x = f.input("x", tm.float32, [N, K])
    with pytest.raises(tm.DeclarationError, match=r"the operator (halved|minus), which (reduces|scans) s"):
        ENTRANCES[entrance](f, x, op)
    assert not f.algorithm.computations


@pytest.mark.parametrize("entrance", ["reduction", "group", "scatter"])
def test_the_advice_is_taken_by_each_entrance(entrance: str) -> None:
    f = tm.Function("f", params=[N, K], assume="0 <= N < K")
    ENTRANCES[entrance](f, f.input("x", tm.float32, [N, K]), X, ordered=True)
    assert f.check().ok


def test_a_scan_that_is_no_longer_in_chunks_takes_any_operator() -> None:
    f = tm.Function("f", params=[N, K])
    x = f.input("x", tm.float64, [N, K])
    with pytest.raises(tm.DeclarationError, match="without chunks= of s"):
        of_scan(f, x, X, chunks={a: 4})
    of_scan(f, x, X)
    values, wanted = np.random.default_rng(0).random((3, 9)), np.zeros((3, 9))
    for at in range(9):
        wanted[:, at] = (wanted[:, at - 1] * 0.5 if at else 0) + values[:, at]
    np.testing.assert_array_equal(f.evaluate(values), wanted)
    np.testing.assert_array_equal(f.compile()(values), wanted)


def test_files_are_asked_too(tmp_path: Any) -> None:
    f, _ = reduced(X, tm.float64, ordered=True)
    f.save(tmp_path / "f.json")
    text = (tmp_path / "f.json").read_text()
    assert '"ordered": true' in text
    (tmp_path / "f.json").write_text(text.replace('"ordered": true', '"ordered": false'))
    with pytest.raises(tm.SavedError, match=r"f\.json: the operator halved, which reduces s, has another neutral"):
        tm.load(tmp_path / "f.json")


def test_partial_results_take_terms_for_what_they_are() -> None:
    """0 + |b| is |b|, but 3 + b is not 3 + |b|: laws hold for partial results, and a term is none."""
    odd = tm.operator("odd", lambda a, b: tm.select(a == 0, tm.absolute(b), a + b), 0)
    with pytest.raises(tm.DeclarationError, match=r"changes a term b.*op\(a, b\) != op\(a, op\(identity, b\)\)"):
        reduced(odd, tm.float64)
    reduced(odd, tm.float64, ordered=True)


def test_a_scan_begins_with_a_term_as_it_is() -> None:
    lengths = tm.operator("lengths", lambda a, b: a + tm.absolute(b), 0)
    f = tm.Function("f", params=[N, K])
    x = f.input("x", tm.float64, [N, K])
    with pytest.raises(tm.DeclarationError, match=r"scans s in chunks, changes a term a that comes first"):
        of_scan(f, x, lengths, chunks={a: 4})
    reduced(lengths, tm.float64)


def test_results_of_an_operator_may_be_terms_of_the_same() -> None:
    """Laws that hold for numbers of at most 5 are not tried with all numbers where terms are such results."""
    capped = tm.operator("capped", lambda a, b: tm.select((a > 5) | (b > 5), a - 2 * b, tm.maximum(a, b)), 0)
    f, s = reduced(capped, tm.int64, lambda x: tm.minimum(tm.maximum(x, 0), 5))
    again = f.reduction("again", {}, {i: N}, capped, s[i])
    assert again.name == "again"
    with pytest.raises(tm.DeclarationError, match="reduces other, has another neutral element"):
        f.reduction("other", {}, {i: N}, capped, s[i] + 1)


def test_terms_without_a_value_at_some_operands_are_tried_at_others() -> None:
    def quotient(n: int) -> int:
        if n == 0:
            raise ArithmeticError("division by zero")
        return 12 // n

    c = tm.extern("quotient", [tm.int32], tm.int32, quotient, source="int quotient(int n) { return 12 / n; }")
    with pytest.raises(tm.DeclarationError, match="is not associative"):
        reduced(MINUS, tm.int32, lambda x: c(x))


# -- an order that is asked for is kept by all that combines

ORDERED: dict[str, Any] = {
    "threads": lambda s: s.update.parallelize(k, combine=tm.PRIVATE),
    "atomic": lambda s: s.update.parallelize(k, combine=tm.ATOMIC),
    "tree": lambda s: s.update.split(k, 8, k0, k1).parallelize(k0, combine=tm.TREE),
    "lanes": lambda s: s.update.vectorize(k, 8, combine=tm.PRIVATE),
    "reverse": lambda s: s.update.reverse(k),
    "rfactor": lambda s: s.update.split(k, 8, k0, k1).rfactor(k0),
    "block": lambda s: s.update.split(k, 8, k0, k1).tag_gpu(blocks=[i], threads=[k1], combine=tm.TREE),
    "two passes": lambda s: s.update.split(k, 8, k0, k1).tag_gpu(
        blocks=[i, k0], threads=[k1], combine=tm.TREE, across=tm.TWO_PASS
    ),
    "ranks": lambda s: s.update.split(k, 8, k0, k1).tag_distribute(k0, combine=tm.TREE),
}


@pytest.mark.parametrize("way", ORDERED)
def test_no_command_combines_terms_of_an_operator_without_laws(way: str) -> None:
    f, s = reduced(X, tm.float64, ordered=True)
    try:
        ORDERED[way](s)
    except tm.CommandError as error:
        assert "ordered" in str(error)
        return
    assert "s is ordered, but two terms of s[0] are combined in another order" in str(f.check())


@pytest.mark.parametrize(("op", "ordered", "why"), [(X, True, "declared ordered=True"), (FIRST, False, "not comm")])
def test_the_repair_of_a_race_offers_no_copies_that_are_refused(op: Any, ordered: bool, why: str) -> None:
    f, s = reduced(op, tm.int32 if op is FIRST else tm.float64, ordered=ordered)
    s.update.vectorize(k, 8)
    report = str(f.check())
    assert "race" in report and f"leave loop k sequential: {'s' if ordered else 'the operator first of s'} is" in report
    assert why in report and "combine=" not in report
