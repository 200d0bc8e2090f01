"""Calls of C functions over whole arrays, beside NumPy: evaluated, interpreted, compiled, ordered, kept in place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs.stage_stories import (
    GEMM,
    B,
    K,
    M,
    N,
    gemm,
    gemm_add,
    i,
    j,
    k,
    n,
    p,
    product,
    products,
    solve,
    sums,
    triangle,
    whole,
)
from tests.sanitizers import check_clean
from tiramisu_py.interpret import run
from tiramisu_py.ir.verify import verify
from tiramisu_py.lower import lower
from tiramisu_py.passes.pipeline import optimise

#: Rows, columns and terms: none, one, a prime, one more than a vector or two.
SIZES = [(1, 1, 1), (3, 5, 4), (0, 2, 3), (3, 0, 2), (2, 3, 0), (17, 19, 23), (33, 1, 17)]


def interpreted(f: tm.Function, given: dict[str, Any], shape: tuple[int, ...], params: dict[str, int]) -> Any:
    """The output of a function as the adversarial machine computes it, in several orders; its loops break no rule."""
    function = optimise(lower(f.completed))
    assert not [*verify(function)]
    (output,) = f.algorithm.outputs
    found = []
    for seed in range(3):
        result = np.full(shape, 77, dtype=f.algorithm.computations[output].dtype.numpy)
        run(function, {**{name: array.copy() for name, array in given.items()}, output: result}, params, seed)
        found.append(result)
    assert all(np.array_equal(found[0], other) for other in found)
    return found[0]


@pytest.mark.parametrize(("rows", "columns", "terms"), SIZES)
def test_a_product_between_computations_is_that_of_numpy(rows: int, columns: int, terms: int) -> None:
    f, a, b = product(), whole(rows, terms), whole(terms, columns, seed=1)
    right, sizes = 2 * ((a + 1) @ b), {"M": rows, "N": columns, "K": terms}
    np.testing.assert_array_equal(f.evaluate(a, b), right)
    np.testing.assert_array_equal(f.compile()(a, b), right)
    np.testing.assert_array_equal(interpreted(f, {"a": a, "b": b}, right.shape, sizes), right)


@pytest.mark.parametrize("threads", [1, 2])
def test_there_is_a_call_for_each_value_of_the_iterators_of_each(threads: int) -> None:
    f, a, b = products(), whole(3, 4, 5), whole(3, 5, 2, seed=1)
    f["c"].parallelize(n)
    np.testing.assert_array_equal(f.evaluate(a, b), a @ b)
    np.testing.assert_array_equal(f.compile(threads=threads)(a, b), a @ b)
    sizes = {"B": 3, "M": 4, "N": 2, "K": 5}
    np.testing.assert_array_equal(interpreted(f, {"a": a, "b": b}, (3, 4, 2), sizes), a @ b)


def test_the_loop_over_calls_is_a_loop_like_any_other() -> None:
    f, a, b = products(), whole(7, 4, 5), whole(7, 5, 2, seed=1)
    n0, n1 = tm.iters("n0 n1")
    f["c"].split(n, 3, n0, n1)
    f["c"].reverse(n1)
    f["c"].unroll(n1)
    f["c"].parallelize(n0)
    assert f.check().ok
    np.testing.assert_array_equal(f.compile()(a, b), a @ b)


def test_what_a_call_reads_is_computed_or_copied_for_it() -> None:
    def made() -> tm.Function:
        f = tm.Function("f", params=[B, M, N, K])
        a, b = f.input("a", tm.float32, [B, M, K]), f.input("b", tm.float32, [B, K, N])
        a1 = f.computation("a1", {n: B, i: M, k: K}, a[n, i, k] + 1)
        f.outputs(f.stage("c", {n: B, i: M, j: N}, gemm(M, N, K, a1[n, i, k], b[n, k, j]), over={k: K}, each=[n]))
        return f

    a, b = whole(3, 4, 5), whole(3, 5, 2, seed=1)
    near, copied = made(), made()
    near["a1"].compute_at(near["c"], n)
    near["c"].parallelize(n)
    copied["c"].copy(copied["b"], [*tm.iters("y0 y1 y2")], at=n)
    for f in (near, copied):
        report = f.check()
        assert report.ok, str(report)
        np.testing.assert_array_equal(f.compile(threads=2)(a, b), (a + 1) @ b)
        sizes = {"B": 3, "M": 4, "N": 2, "K": 5}
        np.testing.assert_array_equal(interpreted(f, {"a": a, "b": b}, (3, 4, 2), sizes), (a + 1) @ b)
    assert "gemm(M, N, K, a1, tm_max_int64(K, 1), &b[n*K*N]" in near.source()["f.c"]


@pytest.mark.parametrize("name", ["a1", "c"])
def test_what_calls_read_and_write_is_not_inlined(name: str) -> None:
    f = product()
    with pytest.raises(tm.CommandError, match=rf"{name} cannot be inlined: .* gemm"):
        f[name].inline()


def test_an_array_is_updated_in_place_where_its_new_values_are_kept_there() -> None:
    f, a, b, y = sums(), whole(3, 4), whole(4, 5, seed=1), whole(3, 5, seed=2)
    (refused,) = f.check().violations
    assert refused.message == "gemm_add updates y3 in place, but c is kept in other elements than it"
    assert refused.repair == "keep it there: c.store_in(y3, [i, j])"
    f["c"].store_in(f["y3"], [i, j])
    right = 3 * y + a @ b - 1
    np.testing.assert_array_equal(f.evaluate(a, b, y), right)
    np.testing.assert_array_equal(f.compile()(a, b, y), right)
    sizes = {"M": 3, "N": 5, "K": 4}
    np.testing.assert_array_equal(interpreted(f, {"a": a, "b": b, "y": y}, (3, 5), sizes), right)


def test_an_argument_of_the_caller_is_updated_in_place() -> None:
    f = tm.Function("f", params=[M, N, K])
    a, b, y = f.input("a", tm.float32, [M, K]), f.input("b", tm.float32, [K, N]), f.input("y", tm.float32, [M, N])
    c = f.stage("c", {i: M, j: N}, gemm_add(M, N, K, a[i, k], b[k, j], y[i, j]), over={k: K})
    f.outputs(c)
    c.store_in(y, [i, j])
    given = whole(3, 4), whole(4, 5, seed=1), whole(3, 5, seed=2)
    right = given[2] + given[0] @ given[1]
    np.testing.assert_array_equal(f.compile()(*given), right)
    np.testing.assert_array_equal(given[2], right)


@pytest.mark.parametrize("rows", [0, 1, 6, 17])
def test_only_a_triangle_of_an_array_is_read(rows: int) -> None:
    f, rng = triangle(), np.random.default_rng(0)
    a, b = rng.random((rows, rows)) + rows * np.eye(rows), rng.random(rows)
    right = np.linalg.solve(np.tril(a + 1), b)
    for found in (f.evaluate(a, b), f.compile()(a, b), interpreted(f, {"a": a, "b": b}, (rows,), {"N": rows})):
        np.testing.assert_allclose(found, right, rtol=1e-12)


def test_strides_are_those_of_the_storage() -> None:
    f = product()
    f["a1"].store_in(tm.Buffer("wide", [M, K + 3], tm.float32), [i, k + 2])
    f["c"].store_in(tm.Buffer("rows", [2 * M, N + 1], tm.float32), [2 * i, j])
    a, b = whole(5, 4), whole(4, 3, seed=1)
    source = f.source()["f.c"]
    assert "gemm(M, N, K, &wide[2], tm_max_int64(K + 3, 1), b, tm_max_int64(N, 1), rows, " in source
    np.testing.assert_array_equal(f.compile()(a, b), 2 * ((a + 1) @ b))
    sizes = {"M": 5, "N": 3, "K": 4}
    np.testing.assert_array_equal(interpreted(f, {"a": a, "b": b}, (5, 3), sizes), 2 * ((a + 1) @ b))


def test_an_input_with_strides_is_passed_as_it_is() -> None:
    f, S = tm.Function("f", params=[M, N, K, *tm.params("S")]), tm.params("S")[0]
    a, b = f.input("a", tm.float32, [M, K], strides=[S, 1]), f.input("b", tm.float32, [K, N])
    f.outputs(f.stage("c", {i: M, j: N}, gemm(M, N, K, a[i, k], b[k, j]), over={k: K}))
    wide, right = whole(5, 9), whole(4, 3, seed=1)
    np.testing.assert_array_equal(f.compile()(wide[:, 2:6], right), wide[:, 2:6] @ right)


def test_a_part_of_an_array_begins_where_its_iterators_begin() -> None:
    f = tm.Function("f", params=[M, N, K], assume="M >= 1 and K >= 2")
    a, b = f.input("a", tm.float32, [2 * M, K]), f.input("b", tm.float32, [K, N])
    call = gemm(M, N, K - 2, a[i + M, k], b[k - 1, j])
    f.outputs(f.stage("c", {i: M, j: N}, call, over={k: (1, K - 1)}))
    left, right = whole(6, 5), whole(5, 4, seed=1)
    wanted = left[3:, 1:4] @ right[:3]
    np.testing.assert_array_equal(f.evaluate(left, right), wanted)
    np.testing.assert_array_equal(f.compile()(left, right), wanted)


def test_a_transfer_brings_what_a_call_reads_and_what_it_has_written() -> None:
    f, k0, k1 = product(), *tm.iters("k0 k1")
    f["a1"].split(k, 32, k0, k1).tag_gpu([i, k0], [k1])
    f["d"].split(j, 32, k0, k1).tag_gpu([i, k0], [k1])
    missing = f.check().violations
    assert any("a1[0, 0] in host memory, but it is only in the memory of GPU 0" in each.message for each in missing)
    f.derive_transfers()
    a, b = whole(3, 4), whole(4, 5, seed=1)
    np.testing.assert_array_equal(f.compile(device="simulator")(a, b), 2 * ((a + 1) @ b))


def test_each_rank_calls_on_its_own_part() -> None:
    f, ranks = tm.Function("f", params=[M, N, K]), 3
    a, b = f.input("a", tm.float32, [ranks, M, K]), f.input("b", tm.float32, [K, N])
    c = f.stage("c", {n: ranks, i: M, j: N}, gemm(M, N, K, a[n, i, k], b[k, j]), over={k: K}, each=[n])
    d = f.computation("d", {n: ranks, i: M, j: N}, tm.select(n >= 1, c[n - 1, i, j], 0) + c[n, i, j])
    f.outputs(d)
    for array in (a, d):
        array.distribute_array([n, i, j], rank=n)
    for each in (c, d):
        each.tag_distribute(n)
    assert "communication" in {violation.kind for violation in f.check().violations}
    f.derive_transfers()
    given = whole(ranks, 4, 5), whole(5, 2, seed=1)
    right = given[0] @ given[1]
    right[1:] += right[:-1].copy()
    np.testing.assert_array_equal(f.simulate(a=given[0], b=given[1]), right)


def test_a_stage_is_saved_and_loaded(tmp_path: Path) -> None:
    f, path = products(), tmp_path / "f.json"
    f["c"].parallelize(n)
    f.save(path)
    given = whole(3, 4, 5), whole(3, 5, 2, seed=1)
    again = tm.load(path, externs=[gemm])
    assert again.commands == f.commands
    np.testing.assert_array_equal(again.evaluate(*given), given[0] @ given[1])
    alone = tm.load(path)
    np.testing.assert_array_equal(alone.compile()(*given), given[0] @ given[1])
    with pytest.raises(tm.SavedError, match=r"gemm was loaded without its equivalent in Python"):
        alone.evaluate(*given)


def test_libraries_are_linked() -> None:
    alone = tm.extern_stage("gemm", dict(gemm.parameters), gemm.python, source=GEMM, libraries=["m", "tm_nowhere"])
    f = tm.Function("f", params=[M, N, K])
    a, b = f.input("a", tm.float32, [M, K]), f.input("b", tm.float32, [K, N])
    f.outputs(f.stage("c", {i: M, j: N}, alone(M, N, K, a[i, k], b[k, j]), over={k: K}))
    with pytest.raises(tm.ToolchainError, match="tm_nowhere"):
        f.compile()


def test_calls_stay_in_their_arrays_under_sanitizers() -> None:
    check_clean("tests.function.stages_under_sanitizers")


# -- refusals: schedules


Change = Callable[[tm.Function], object]


@pytest.mark.parametrize(
    ("make", "change", "said"),
    [
        (product, lambda f: f["c"].before(f["a1"], tm.root), "c[0, 0] reads a1[0, 0] before it is computed"),
        (product, lambda f: f["c"].after(f["d"], tm.root), "d[0, 0] reads c[0, 0] before it is computed"),
        (
            product, lambda f: f["c"].compute_at(f["d"], i),
            "a call of gemm computes c[1, 0], too, but an iteration of i asks only for a part",
        ),
        (
            product, lambda f: f["a1"].store_in(tm.Buffer("two", [2, K], tm.float32), [i % 2, k]),
            "gemm takes a1[i, k] for a, but its elements along i are not at one distance in two",
        ),
        (
            product, lambda f: f["a1"].store_in([k, i]),
            "gemm takes a1[i, k] for a, but its elements along k are not contiguous in a1",
        ),
        (
            product, lambda f: f["c"].store_in(tm.Buffer("back", [M, N], tm.float32), [M - 1 - i, j]),
            "gemm takes c[i, j] for c, but its elements along i are not one after another in back",
        ),
        (
            product, lambda f: f["c"].store_in(tm.Buffer("one", [M, 1], tm.float32), [i, 0]),
            "gemm takes c[i, j] for c, but its elements along j are not one after another in one",
        ),
        (products, lambda f: f["c"].vectorize(n, 8), "and c calls gemm in each of its iterations"),
        (products, lambda f: f["c"].tag_gpu([n]), "c calls gemm in a kernel, but that is a function of the host"),
    ],
)  # fmt: skip
def test_a_schedule_that_the_function_cannot_follow_is_refused(
    make: Callable[[], tm.Function], change: Change, said: str
) -> None:
    f = make()
    assert f.check().ok
    change(f)
    report = f.check()
    assert any(said in violation.message for violation in report.violations), str(report)
    assert all(violation.command for violation in report.violations)


def test_what_a_call_overwrites_is_read_by_no_other_argument() -> None:
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.float32, [N, N])
    b = f.computation("b", {i: N, j: N}, a[i, j] + 1)
    c = f.stage("c", {i: N, j: N}, gemm(N, N, N, b[i, k], a[k, j]), over={k: N})
    f.outputs(f.computation("d", {i: N, j: N}, c[i, j]))
    c.store_in(b, [i, j])
    (refused,) = f.check().violations
    assert refused.kind == "race"
    assert refused.message.startswith(
        "gemm stores c[0, 0] to b[0, 0], from which the same call reads b[0, 0], at N = 1"
    )
    assert refused.repair == "store c in a buffer of its own, not over b"


def test_a_call_on_a_single_element_overwrites_nothing_that_it_reads() -> None:
    f = tm.Function("f", params=[])
    a = f.input("a", tm.float32, [1, 1])
    b = f.computation("b", {i: 1, j: 1}, a[i, j] + 1)
    c = f.stage("c", {i: 1, j: 1}, gemm(1, 1, 1, b[i, k], a[k, j]), over={k: 1})
    f.outputs(f.computation("d", {i: 1, j: 1}, c[i, j]))
    c.store_in(b, [i, j])
    assert [violation.kind for violation in f.check().violations] == ["race"]


def test_calls_of_a_parallel_loop_may_not_write_the_same_elements() -> None:
    f = products()
    f["c"].parallelize(n)
    f["c"].store_in(tm.Buffer("one", [M, N], tm.float32), [i, j])
    assert {"race", "overwritten"} & {violation.kind for violation in f.check().violations}


def test_what_is_overwritten_in_place_is_read_before() -> None:
    f = tm.Function("f", params=[N])
    a, y = f.input("a", tm.float32, [N, N]), f.input("y", tm.float32, [N, N])
    y1 = f.computation("y1", {i: N, j: N}, y[i, j] + 1)
    c = f.stage("c", {i: N, j: N}, gemm_add(N, N, N, a[i, k], a[k, j], y1[i, j]), over={k: N})
    d = f.computation("d", {i: N, j: N}, y1[i, j] * 2)
    f.outputs(f.computation("e", {i: N, j: N}, c[i, j] + d[i, j]))
    c.store_in(y1, [i, j])
    assert [violation.kind for violation in f.check().violations] == ["overwritten"]
    d.before(c, tm.root)
    given = whole(3, 3), whole(3, 3, seed=1)
    right = given[1] + 1 + given[0] @ given[0] + 2 * (given[1] + 1)
    np.testing.assert_array_equal(f.compile()(*given), right)


def test_an_array_without_strides_is_contiguous() -> None:
    twice = tm.extern_stage(
        "twice", {"n": tm.int64, "a": tm.reads(tm.float32, 2), "b": tm.writes(tm.float32, 2)}, lambda n, a: 2 * a,
        source="static void twice(int64_t n, const float *a, float *b) { while (n-- > 0) b[n] = 2 * a[n]; }",
    )  # fmt: skip
    f = tm.Function("f", params=[M, N])
    a = f.input("a", tm.float32, [M, N])
    a1 = f.computation("a1", {i: M, j: N}, a[i, j] + 1)
    f.outputs(f.stage("b", {i: M, j: N}, twice(M * 3, a1[i, j])))
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.float32, [4, N])
    a1 = f.computation("a1", {i: 4, j: N}, a[i, j] + 1)
    f.outputs(f.stage("b", {i: 4, j: N}, twice(4 * N, a1[i, j])))
    given = whole(4, 5)
    np.testing.assert_array_equal(f.compile()(given), 2 * (given + 1))
    a1.store_in(tm.Buffer("wide", [4, N + 1], tm.float32), [i, j])
    (refused,) = f.check().violations
    assert (
        refused.message
        == "twice takes a1[i, j] for a, but its elements along i are not contiguous for all sizes in wide"
    )
    assert refused.repair.startswith('let twice take tm.stride("a", 0), or keep a1')


# -- refusals: declarations


def declared(call: Any, domain: Any = None, **more: Any) -> tm.Function:
    """A function with one stage."""
    f = tm.Function("f", params=[M, N, K])
    a, b, y = f.input("a", tm.float32, [M, K]), f.input("b", tm.float32, [K, N]), f.input("y", tm.float32, [M, N])
    v, s = f.input("v", tm.float64, [M, K]), f.scalar("s", tm.float32)
    made = call(a=a, b=b, y=y, v=v, s=s)
    f.outputs(f.stage("c", {i: M, j: N} if domain is None else domain, made, **{"over": {k: K}, **more}))
    return f


@pytest.mark.parametrize(
    ("call", "more", "said"),
    [
        (lambda a, b, **_: gemm(M, N, a[i, k], b[k, j]), {}, "and 4 arguments were given"),
        (lambda **_: gemm(M), {}, "and 1 argument was given"),
        (lambda a, b, **_: gemm(M, N, K, a, b[k, j]), {}, r"the argument a of gemm is .*: name the part of an array"),
        (lambda b, v, **_: gemm(M, N, K, v[i, k], b[k, j]), {}, "of float64: the function takes an array of float32"),
        (lambda a, b, **_: gemm(M, N, K, a[2 * i, k], b[k, j]), {}, r"an index is an iterator, or .*, not 2 \* i"),
        (lambda a, b, **_: gemm(M, N, K, a[i, i], b[k, j]), {}, "each iterator may be in one index only"),
        (lambda a, b, **_: gemm(M, N, K, a[i, 0], b[k, j]), {}, "1 dimensions in a call; gemm takes an array of 2"),
        (lambda a, b, **_: gemm(M, N, K, a[i, p], b[k, j]), {}, "c uses the iterator p"),
        (lambda a, b, **_: gemm(M, N, i, a[i, k], b[k, j]), {}, "c uses the iterator i"),
        (lambda a, b, **_: gemm(M, N, K, a[i, k], b[k, j]) + 1, {}, "is computed by .*: call a function that"),
        (lambda a, b, **_: gemm(M, N, K, a[i, k], b[k, j]), {"each": [j]}, "name the first iterators of its domain"),
        (lambda a, b, **_: gemm(M, N, K, a[i, k], b[k, j]), {"each": [i]}, "stores to an array of 2 dimensions"),
        (lambda a, b, **_: gemm(M, N, K, a[i, k], b[k, j]), {"where": j <= i}, "the values of c are no box"),
        (lambda a, b, **_: gemm(M, N, K, a[i, k], b[k, j]), {"over": [k]}, r"over= of c is .*; write a dict"),
        (lambda a, b, **_: gemm(M, N, K, a[i, k], b[k, j]), {"over": {k: K * K}}, "no upper bound for k"),
        (lambda a, b, y, **_: gemm_add(M, N, K, a[i, k], b[k, j], y[j, i]), {}, r"updates y\[j, i\], and"),
        (lambda b, y, **_: gemm_add(M, N, N, y[i, k], b[k, j], y[i, j]), {}, "updates y in place and reads y"),
        (lambda a, b, s, **_: gemm(s, N, K, a[i, k], b[k, j]), {}, "m of gemm is s, of float32; it takes int64"),
        (lambda a, b, **_: gemm(1.5, N, K, a[i, k], b[k, j]), {}, "argument m of gemm cannot be used"),
    ],
)  # fmt: skip
def test_a_declaration_without_a_meaning_is_refused(call: Any, more: dict[str, Any], said: str) -> None:
    with pytest.raises(tm.TiramisuError, match=said):
        declared(call, **more)


def test_a_call_is_no_expression() -> None:
    f = tm.Function("f", params=[M, N, K])
    a, b = f.input("a", tm.float32, [M, K]), f.input("b", tm.float32, [K, N])
    with pytest.raises(tm.DeclarationError, match=r"it computes whole arrays: declare f.stage\(name, domain, gemm"):
        f.computation("c", {i: M, j: N}, gemm(M, N, K, a[i, j], b[j, i]) + 1)
    with pytest.raises(tm.DeclarationError, match=r"c uses gemm in an expression, .* and read its values"):
        f.computation("c", {i: M, j: N}, gemm(M, N, K, a[i, k], b[k, j]) + 1)


def test_a_call_has_no_loops_to_command() -> None:
    one, many = product(), products()
    with pytest.raises(tm.CommandError, match="no loop i here: c is a call of gemm: calls have no loops of their own"):
        one["c"].vectorize(i, 8)
    with pytest.raises(tm.CommandError, match="c has the loops n, and each iteration is a call of gemm: calls have"):
        many["c"].vectorize(i, 8)


def test_a_set_outside_of_its_array_is_refused_with_a_witness() -> None:
    f = tm.Function("f", params=[M, N, K])
    a, b = f.input("a", tm.float32, [M, K]), f.input("b", tm.float32, [K, N])
    f.outputs(f.stage("c", {i: M, j: N}, gemm(M, N, K, a[i, k + 1], b[k, j]), over={k: K}))
    (refused,) = f.check().violations
    assert refused.kind == "bounds"
    assert refused.message.startswith("c[0, 0] reads a[0, 1], which is outside the array a of shape [M, K], at M = 1")


def test_what_nothing_computes_is_not_read() -> None:
    f = tm.Function("f", params=[N])
    a, b = f.input("a", tm.float64, [N, N]), f.input("b", tm.float64, [N])
    lower = f.computation("l", {i: N, j: (0, i + 1)}, a[i, j] + 1)
    f.outputs(f.stage("x", {i: N}, solve(N, lower[p, k], b[i]), over={p: N, k: N}))
    (refused,) = f.check().violations
    assert (refused.kind, refused.witness.params) == ("bounds", {"N": 2})
    assert refused.message.startswith("x[0] reads l[0, 1], which is outside the values of l")


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"n": tm.int64}, "stores to none of its arrays: at least one parameter is tm.writes, or one is tm.updates"),
        (
            {"a": tm.writes(tm.float32, 1), "b": tm.updates(tm.float32, 1)},
            "stores to a, b: .* in place is the only one",
        ),
        (
            {"a": tm.writes(tm.float32, 1), "b": tm.writes(tm.int32, 2)},
            "writes a of 1 dimensions, b of 2 dimensions: each",
        ),
        (
            {"a": tm.writes(tm.float32, 1), "s": tm.stride("b", 0)},
            "s of g is a stride of b, which is none of its arrays",
        ),
        ({"a": tm.writes(tm.float32, 1), "s": tm.stride("a", 1)}, "s of g is stride 1 of a, which has 1"),
        ({}, "give a dict of names and types"),
        ({"1": tm.writes(tm.float32, 1)}, "must be an identifier of C"),
        ({"a": tm.writes(tm.float32, 1), "x": "what"}, "the parameter x of the external function g"),
    ],
)
def test_parameters_that_no_function_has_are_refused(parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(tm.TiramisuError, match=said):
        tm.extern_stage("g", parameters, lambda *_: None)


def test_the_equivalent_in_python_returns_what_the_function_writes() -> None:
    wrong = tm.extern_stage("gemm", dict(gemm.parameters), lambda m, n, k, a, b: a, source=GEMM)
    f = tm.Function("f", params=[M, N, K])
    a, b = f.input("a", tm.float32, [M, K]), f.input("b", tm.float32, [K, N])
    f.outputs(f.stage("c", {i: M, j: N}, wrong(M, N, K, a[i, k], b[k, j]), over={k: K}))
    with pytest.raises(tm.DeclarationError, match=r"returned an array of shape \(2, 3\); .* one of shape \(2, 4\)"):
        f.evaluate(whole(2, 3), whole(3, 4))


NARROW = GEMM.replace("int64_t m, int64_t n, int64_t k", "int8_t m, int n, short k").replace("int64_t ld", "int ld")


def test_sizes_and_strides_fit_the_types_that_the_function_takes() -> None:
    kinds = {"m": tm.int8, "n": tm.int32, "k": tm.int16}
    strides = {f"ld{name}": tm.stride(name, 0, tm.int32) for name in "abc"}
    narrow = tm.extern_stage("gemm", {**dict(gemm.parameters), **kinds, **strides}, gemm.python, source=NARROW)
    f = tm.Function("f", params=[M, N, K])
    a, b = f.input("a", tm.float32, [M, K]), f.input("b", tm.float32, [K, N])
    f.outputs(f.stage("c", {i: M, j: N}, narrow(M, N, K - 1, a[i, k], b[k, j]), over={k: K - 1}))
    kernel, right = f.compile(), whole(3, 5, seed=1)
    np.testing.assert_array_equal(kernel(whole(127, 3), right), whole(127, 3)[:, :2] @ right[:2])
    with pytest.raises(tm.ArgumentError, match="needs M <= 127; it was called with M = 128"):
        kernel(whole(128, 3), right)
    source = f.source()["f.c"]
    assert "needs N <= 2147483647" in source  # a stride, and a size
    assert "needs K - 1 >= -32768" in source
    with pytest.raises(tm.DeclarationError, match=r"passes n \* M to gemm as int8, and whether it fits"):
        f.stage("e", {n: 2, i: M, j: N}, narrow(n * M, N, K, a[i, k], b[k, j]), over={k: K}, each=[n])


def test_enumerations_of_a_header_are_unsigned() -> None:
    enumerated = GEMM.replace("void gemm(int64_t m", "void gemm(const enum kind o, int64_t m")
    kinds = {"order": tm.uint32, **dict(gemm.parameters)}
    source = f"enum kind {{ ROWS = 101 }};{enumerated}"
    made = tm.extern_stage("gemm", kinds, lambda order, m, n, k, a, b: a @ b, source=source)
    f = tm.Function("f", params=[M, N, K])
    a, b = f.input("a", tm.float32, [M, K]), f.input("b", tm.float32, [K, N])
    f.outputs(f.stage("c", {i: M, j: N}, made(101, M, N, K, a[i, k], b[k, j]), over={k: K}))
    np.testing.assert_array_equal(f.compile()(whole(2, 3), whole(3, 4)), whole(2, 3) @ whole(3, 4))


def test_a_function_of_another_signature_is_refused_by_the_compiler() -> None:
    other = tm.extern_stage("gemm", dict(gemm.parameters), gemm.python, source=GEMM.replace("int64_t m", "int m"))
    f = tm.Function("f", params=[M, N, K])
    a, b = f.input("a", tm.float32, [M, K]), f.input("b", tm.float32, [K, N])
    f.outputs(f.stage("c", {i: M, j: N}, other(M, N, K, a[i, k], b[k, j]), over={k: K}))
    with pytest.raises(tm.ToolchainError, match=r"give tm\.extern_stage the types that it has"):
        f.compile()


SCAN = tm.extern_stage(
    "scan",
    {"n": tm.int64, "y": tm.updates(tm.int32, 1)},
    lambda n, y: np.cumsum(y, dtype=np.int32),
    source="static void scan(int64_t n, int32_t *y) { for (int64_t i = 1; i < n; i++) y[i] += y[i - 1]; }",
)


def scanned(low: Any, *, indices: Any = None) -> tm.Function:
    """The sums of the first values of an array whose values begin at `low`; `indices` is where they are kept."""
    f = tm.Function("f", params=[N], assume="N >= 0")
    a = f.input("a", tm.int32, [N])
    p = f.computation("p", {i: (low, N + low)}, 2 * a[i - low])
    if indices is not None:
        p.store_in(tm.Buffer("kept", [2 * N + 3], tm.int32), indices)
    s = f.stage("s", {i: (low, N + low)}, SCAN(N, p[i]))
    f.outputs(f.computation("o", {i: N}, s[i + low]))
    return f


@pytest.mark.parametrize(
    ("low", "kept", "element"), [(0, None, i), (-2, None, i + 2), (-2, [i + 5], i + 5), (-N, None, i + N)], ids=str
)
def test_an_update_is_kept_in_the_elements_that_the_message_names(low: Any, kept: Any, element: Any) -> None:
    f = scanned(low, indices=kept)
    (refused,) = f.check().violations
    assert refused.repair == f"keep it there: s.store_in(p, [{element}])"
    f["s"].store_in(f["p"], [element])
    for size in (0, 1, 7):
        a = np.arange(size, dtype=np.int32)
        np.testing.assert_array_equal(f.compile()(a), np.cumsum(2 * a))


def test_an_update_of_another_layout_is_kept_in_its_own() -> None:
    (refused,) = scanned(0, indices=[2 * i]).check().violations
    assert refused.repair == "keep it there: s.store_in(p, [...]), with the indices with which p is kept"
    f = scanned(0, indices=[2 * i])
    f["s"].store_in(f["p"], [2 * i])
    (refused,) = f.check().violations
    assert "are not contiguous in kept" in refused.message


def test_a_call_is_not_sent_to_the_gpu() -> None:
    f = scanned(0)
    f["p"].store_in(tm.GPU_MEMORY)
    f["s"].store_in(f["p"], [i])
    of_calls = [each for each in f.check().violations if each.message.startswith("s ")]
    assert of_calls and all("tag_gpu" not in str(each.repair) for each in of_calls)


@pytest.mark.parametrize(("swapped", "strides"), [(False, [0]), (True, [0, 1])])
def test_the_strides_to_take_are_those_that_are_not_contiguous(swapped: bool, strides: list[int]) -> None:
    copied = tm.extern_stage(
        "copied",
        {"m": tm.int64, "n": tm.int64, "x": tm.reads(tm.int32, 2), "y": tm.writes(tm.int32, 2)},
        lambda m, n, x: x,
        source="static void copied(int64_t m, int64_t n, const int32_t *x, int32_t *y) "
        "{ for (int64_t i = 0; i < m * n; i++) y[i] = x[i]; }",
    )
    f = tm.Function("f", params=[M, N])
    a = f.input("a", tm.int32, [M, N])
    wide = f.computation("wide", {i: M, j: N}, a[i, j])
    wide.store_in(tm.Buffer("kept", [N, M] if swapped else [M, N + 3], tm.int32), [j, i] if swapped else [i, j])
    f.outputs(f.stage("s", {i: M, j: N}, copied(M, N, wide[i, j])))
    (refused,) = f.check().violations
    asked = " and ".join(f'tm.stride("x", {dimension})' for dimension in strides)
    assert refused.repair is not None and refused.repair.startswith(f"let copied take {asked}, or keep wide")


def test_calls_are_events_of_a_trace() -> None:
    one, many = product(), products()
    kernel, a, b = one.compile(trace=True), whole(3, 4), whole(4, 5, seed=1)
    np.testing.assert_array_equal(kernel(a, b), 2 * ((a + 1) @ b))
    assert [(event.kind, event.name) for event in kernel.trace.events] == [("nest", "a1"), ("nest", "c"), ("nest", "d")]
    kernel = many.compile(trace=True)
    kernel(whole(3, 4, 5), whole(3, 5, 2, seed=1))
    assert [(event.kind, event.name) for event in kernel.trace.events] == [("nest", "c")]


def test_a_call_is_no_part_of_a_group() -> None:
    f = tm.Function("f", params=[N], assume="N >= 1")
    a = f.input("a", tm.float32, [N, N])
    says = r"c is a call over whole arrays: .* declare f\.stage\('c', \.\.\.\) before or after"
    with pytest.raises(tm.DeclarationError, match=says), f.together() as g:
        g.computation("h", {i: N}, lambda: a[i, 0] + 1)
        g.stage("c", {i: N, j: N}, gemm(N, N, N, a[i, k], a[k, j]), over={k: N})
    with pytest.raises(tm.DeclarationError, match="c uses gemm in an expression"), f.together() as g:
        g.computation("h", {i: N}, lambda: a[i, 0] + 1)
        g.computation("c", {i: N, j: N}, lambda: gemm(N, N, N, a[i, k], a[k, j]))
    with f.together() as g:
        h = g.computation("h", {i: N, j: N}, lambda: a[i, j] + 1)
    f.outputs(f.stage("c", {i: N, j: N}, gemm(N, N, N, h[i, k], a[k, j]), over={k: N}))
    given = whole(5, 5)
    np.testing.assert_array_equal(f.compile()(given), (given + 1) @ given)


DIVIDED = tm.extern_stage(
    "divided",
    {"m": tm.int64, "n": tm.int64, "x": tm.reads(tm.int32, 2), "by": tm.int32, "q": tm.writes(tm.int32, 2),
     "ldq": tm.stride("q", 0), "r": tm.writes(tm.uint8, 2), "ldr": tm.stride("r", 0)},
    lambda m, n, x, by: (x // by, (x % by).astype(np.uint8)),
    source="""
static void divided(int64_t m, int64_t n, const int32_t *x, int32_t by, int32_t *q, int64_t ldq, uint8_t *r,
                    int64_t ldr)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            q[i * ldq + j] = x[i * n + j] / by;
            r[i * ldr + j] = (uint8_t)(x[i * n + j] % by);
        }
}
""",
)  # fmt: skip


def quotients(each: bool) -> tm.Function:
    """Quotients and remainders by 7 of ``a + 1``, both in one call (or one for each n), and their sum."""
    f = tm.Function("f", params=[B, M, N], assume="B >= 1")
    a = f.input("a", tm.int32, [B, M, N])
    a1 = f.computation("a1", {n: B, i: M, j: N}, a[n, i, j] + 1)
    if each:
        c = f.stage("c", {n: B, i: M, j: N}, DIVIDED(M, N, a1[n, i, j], 7), each=[n])
    else:
        c = f.stage("c", {i: M, j: N}, DIVIDED(M, N, a1[B - 1, i, j], 7))
    at = (n, i, j) if each else (i, j)
    domain = {n: B, i: M, j: N} if each else {i: M, j: N}
    f.outputs(c, f.computation("d", domain, c[at]["q"] + tm.cast(tm.int32, c[at]["r"])))
    return f


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize(("calls", "rows", "columns"), [(1, 1, 1), (3, 5, 4), (2, 0, 3), (2, 3, 0), (3, 17, 19)])
def test_a_call_writes_several_arrays(each: bool, calls: int, rows: int, columns: int) -> None:
    f = quotients(each)
    if each:
        f["c"].parallelize(n)
    report = f.check()
    assert report.ok, str(report)
    a = np.random.default_rng(0).integers(0, 1000, (calls, rows, columns)).astype(np.int32)
    given = a + 1 if each else a[-1] + 1
    right = {"c_q": given // 7, "c_r": (given % 7).astype(np.uint8), "d": given // 7 + given % 7}
    for found in (f.evaluate(a), f.compile(threads=2)(a)):
        for one, (name, other) in zip(found, right.items(), strict=True):
            np.testing.assert_array_equal(one, other, err_msg=name)
    function = optimise(lower(f.completed))
    assert not [*verify(function)]
    arrays = {name: np.full(other.shape, 77, other.dtype) for name, other in right.items()}
    run(function, {"a": a.copy(), **arrays}, {"B": calls, "M": rows, "N": columns}, 1)
    for name, other in right.items():
        np.testing.assert_array_equal(arrays[name], other)


def test_arrays_of_a_call_are_kept_and_sent_together(tmp_path: Path) -> None:
    f = quotients(each=True)
    f["c"].store_in([j, n, i])
    (refused,) = f.check().violations[:1]
    assert "divided takes c[n, i, j] for q, but its elements along j are not contiguous in c" in refused.message
    f.undo()
    f.save(tmp_path / "f.json")
    a = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    for one, other in zip(tm.load(tmp_path / "f.json").compile()(a), f.evaluate(a), strict=True):
        np.testing.assert_array_equal(one, other)
    g = tm.Function("g", params=[M, N])
    x = g.input("x", tm.int32, [M, N])
    g.input("c_q", tm.int32, [N])
    with pytest.raises(tm.DeclarationError, match="c_q"):
        g.stage("c", {i: M, j: N}, DIVIDED(M, N, x[i, j], 7))


def test_the_equivalent_in_python_returns_as_many_arrays() -> None:
    f = tm.Function("f", params=[M, N])
    x = f.input("x", tm.int32, [M, N])
    wrong = tm.extern_stage("divided", dict(DIVIDED.parameters), lambda m, n, x, by: x // by, source=DIVIDED.source)
    f.outputs(f.stage("c", {i: M, j: N}, wrong(M, N, x[i, j], 7)))
    with pytest.raises(tm.DeclarationError, match="the function writes q, r: return a tuple of as many arrays"):
        f.evaluate(np.zeros((2, 3), np.int32))


def test_what_a_call_writes_may_be_a_view_and_what_it_takes_is_no_view_backwards() -> None:
    (s,) = tm.params("S")
    for sign in (1, -1):
        f = tm.Function("f", params=[M, N, K, s])
        a, b = f.input("a", tm.float32, [M, K], strides=[sign * s, 1]), f.input("b", tm.float32, [K, N])
        c = f.stage("c", {i: M, j: N}, gemm(M, N, K, a[i, k], b[k, j]), over={k: K})
        f.outputs(c)
        c.store_in(tm.Buffer("part", [M, N], tm.float32, strides=[s, 1]), [i, j])
        if sign < 0:
            (refused,) = f.check().violations
            assert refused.message == (
                "gemm takes a[i, k] for a, but its elements may lie in the other direction, with a negative stride, "
                "in a"
            )
            continue
        base, right, wide = np.zeros((5, 20), np.float32), whole(4, 3, seed=1), whole(5, 20)
        assert f.check().ok
        kernel = f.compile()
        kernel(wide[:, 3:7], right, c=base[:, 8:11])
        np.testing.assert_array_equal(base[:, 8:11], wide[:, 3:7] @ right)
        assert not base[:, :8].any() and not base[:, 11:].any()
