"""The start of a reduction in the first block of terms, and readers in the last: right at any size, or refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.errors import CommandError

N, M, K = tm.params("N M K")
i, j, k, i0, i1, j0, j1, k0, k1 = tm.iters("i j k i0 i1 j0 j1 k0 k1")
SIZES = [(1, 1, 0), (1, 1, 1), (7, 5, 4), (8, 9, 5), (9, 17, 13), (5, 8, 0), (16, 8, 8)]
Made = tuple[tm.Function, tm.Reduction, tm.Computation]


def product(op: tm.Operator = tm.sum) -> Made:
    """max(A B + bias, 0), whose terms are added in blocks of 4."""
    f = tm.Function("product", params=[N, M, K], assume="N >= 1 and M >= 1")
    A, B = f.input("A", tm.int32, [N, K]), f.input("B", tm.int32, [K, M])
    bias = f.input("bias", tm.int32, [M])
    C = f.reduction("C", {i: N, j: M}, {k: K}, op, A[i, k] * B[k, j])
    out = f.computation("out", {i: N, j: M}, tm.maximum(C[i, j] + bias[j], 0))
    f.outputs(out)
    C.update.split(k, 4, k0, k1)
    C.tile(i, j, 8, 8, i0, j0, i1, j1)
    C.update.reorder(k0, i0, j0, i1, j1, k1)
    return f, C, out


def compare(f: tm.Function, threads: int = 1, sizes: list[tuple[int, int, int]] = SIZES) -> None:
    kernel = f.compile(threads=threads)
    for rows, columns, terms in sizes:
        rng = np.random.default_rng(rows + terms)
        shapes = {"A": (rows, terms), "B": (terms, columns), "bias": (columns,)}
        arrays = {name: rng.integers(-9, 9, shape, np.int32) for name, shape in shapes.items()}
        expected = np.maximum(arrays["A"] @ arrays["B"] + arrays["bias"], 0)
        np.testing.assert_array_equal(kernel(**arrays), expected)


@pytest.mark.parametrize("level", [k0, i0, j0, i1, j1])
def test_sums_start_and_end_in_the_blocks_of_their_terms(level: tm.Iter) -> None:
    f, C, out = product()
    C.init.compute_at(C.update, level)
    out.reverse_compute_at(C.update, level)
    assert f.check().ok
    compare(f)


def test_tiles_of_partial_results_in_registers_threads_and_vectors() -> None:
    f, C, out = product()
    f.undo()
    f.undo()
    partial = C.update.rfactor(k0)
    C.tile(i, j, 8, 8, i0, j0, i1, j1)
    C.update.reorder(k0, i0, j0, i1, j1)
    C.init.compute_at(C.update, i1)
    C.parallelize(i0)
    C.vectorize(j1, 8, remainder="mask")
    partial.compute_at(C.update, j0)
    partial.vectorize(j, 8, remainder="mask")
    out.tile(i, j, 8, 8, i0, j0, i1, j1)
    out.reverse_compute_at(C.update, j0)
    out.vectorize(j1, 8, remainder="mask")
    C.store_in(out, [i, j])
    compare(f, threads=2)


def test_loops_of_the_start_that_repeat_those_of_the_update_are_dropped() -> None:
    f, C, _ = product()
    C.init.compute_at(C.update, i1)
    start = next(s for s in f.program.statements.values() if s.name == "C_init")
    assert f.program.loop_names(start) == ("k0", "i0", "j0", "i1", "j1")


def test_sums_of_no_terms_are_a_part_of_their_own() -> None:
    f, C, out = product()
    C.init.compute_at(C.update, j0)
    out.reverse_compute_at(C.update, j0)
    assert {"C_init_rest", "out_rest"} <= set(f.program.statements)
    g = tm.Function("full", params=[N, K], assume="N >= 1 and K >= 1")
    a = g.input("a", tm.int32, [N, K])
    s = g.reduction("s", {i: N}, {k: K}, tm.sum, a[i, k])
    g.outputs(s)
    s.init.compute_at(s.update, i)
    assert set(g.program.statements) == {"s_init", "s_update"}


def triangle() -> Made:
    f = tm.Function("triangle", params=[N])
    a = f.input("a", tm.int32, [N])
    s = f.reduction("s", {i: N}, {k: (2, i)}, tm.sum, a[k] * (i - k))
    out = f.computation("out", {i: N}, s[i] + 1)
    f.outputs(out)
    s.update.reorder(k, i)
    return f, s, out


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 11])
def test_sums_that_start_and_end_in_different_iterations(n: int) -> None:
    f, s, out = triangle()
    s.init.compute_at(s.update, k)
    out.reverse_compute_at(s.update, k)
    a = np.random.default_rng(0).integers(-9, 9, n, np.int32)
    expected = [1 + sum(int(a[t]) * (r - t) for t in range(2, r)) for r in range(n)]
    np.testing.assert_array_equal(f.compile()(a), expected)


def test_a_reader_waits_for_the_last_of_several_sums() -> None:
    f = tm.Function("neighbours", params=[N, K], assume="N >= 1 and K >= 0")
    a = f.input("a", tm.int32, [N + 1, K])
    s = f.reduction("s", {i: N + 1}, {k: K}, tm.max, a[i, k])
    out = f.computation("out", {i: N}, s[i] - s[i + 1])
    f.outputs(out)
    s.update.split(i, 4, i0, i1)
    s.update.split(k, 3, k0, k1)
    s.update.reorder(k0, i0, i1, k1)
    s.init.compute_at(s.update, i0)
    out.reverse_compute_at(s.update, i0)
    kernel = f.compile()
    for rows, terms in [(1, 0), (1, 1), (3, 2), (4, 7), (9, 3)]:
        given = np.random.default_rng(rows).integers(-9, 9, (rows + 1, terms), np.int32)
        np.testing.assert_array_equal(kernel(given), f.evaluate(a=given))


def test_a_reader_of_plain_values_runs_when_they_are_made() -> None:
    f = tm.Function("plain", params=[N], assume="N >= 1")
    a = f.input("a", tm.int32, [N + 2])
    p = f.computation("p", {i: N + 2}, 2 * a[i])
    out = f.computation("out", {i: N}, p[i] + p[i + 1] + p[i + 2])
    f.outputs(out)
    p.split(i, 4, i0, i1)
    out.reverse_compute_at(p, i0)
    kernel = f.compile()
    for n in (1, 2, 3, 4, 5, 13):
        given = np.arange(n + 2, dtype=np.int32) ** 2
        np.testing.assert_array_equal(kernel(given), f.evaluate(a=given))


def test_terms_under_conditions() -> None:
    f = tm.Function("chosen", params=[N, K], assume="N >= 0 and K >= 0")
    a = f.input("a", tm.int32, [N, K])
    s = f.reduction("s", {i: N}, {k: K}, tm.min, a[i, k], where=a[i, k] > 0)
    out = f.computation("out", {i: N}, s[i] + 0)
    f.outputs(out)
    s.update.reorder(k, i)
    s.init.compute_at(s.update, i)
    out.reverse_compute_at(s.update, i)
    given = np.random.default_rng(0).integers(-9, 9, (6, 5), np.int32)
    np.testing.assert_array_equal(f.compile()(given), f.evaluate(a=given))


def test_producers_of_terms_move_into_the_loops_then() -> None:
    f = tm.Function("terms", params=[N, K])
    a = f.input("a", tm.float32, [N, K])
    p = f.computation("p", {i: N, k: K}, a[i, k] * 2)
    s = f.reduction("s", {i: N}, over={k: K}, op=tm.sum, expr=p[i, k])
    f.outputs(s)
    s.init.compute_at(s.update, i)
    p.compute_at(s.update, k)
    assert f.check().ok
    given = np.arange(15, dtype=np.float32).reshape(3, 5)
    np.testing.assert_array_equal(f.compile()(given), f.evaluate(a=given))


def test_a_file_has_both_commands(tmp_path: Path) -> None:
    f, C, out = product()
    C.init.compute_at(C.update, j0)
    out.reverse_compute_at(C.update, j0)
    f.save(tmp_path / "product.json")
    again = tm.load(tmp_path / "product.json")
    assert again.show("pseudocode") == f.show("pseudocode")
    f.undo()
    f.undo()
    assert set(f.program.statements) == {"C_init", "C_update", "out"}


# -- what is refused


def test_a_start_after_some_of_the_terms_is_refused() -> None:
    f, C, _ = product()
    parts = C.update.separate_at(k0, [1])
    parts[1].after(parts[0], tm.root)
    C.init.compute_at(parts[1], i0)
    report = f.check()
    assert not report.ok
    assert "the term k = 0 is added to C[0, 0] before its start" in str(report)


def test_terms_elsewhere_are_added_after_the_start() -> None:
    f, C, _ = product()
    parts = C.update.separate_at(k0, [1])
    C.init.compute_at(parts[1], i0)
    compare(f)


def test_a_reader_before_some_of_the_terms_is_refused() -> None:
    f, C, out = product()
    parts = C.update.separate_at(k0, [1])
    out.reverse_compute_at(parts[0], i0)
    compare(f)  # the other terms come first, where nothing says otherwise
    parts[1].after(parts[0], tm.root)
    report = f.check()
    assert not report.ok
    assert report.violations[0].kind in ("reduction", "dataflow")


def test_a_reader_among_concurrent_terms_is_refused() -> None:
    f = tm.Function("concurrent", params=[N, K], assume="N >= 1 and K >= 1")
    a = f.input("a", tm.int32, [N, K])
    s = f.reduction("s", {i: N}, {k: K}, tm.sum, a[i, k])
    out = f.computation("out", {i: N}, s[i] + 1)
    f.outputs(out)
    s.update.reorder(k, i)
    s.update.parallelize(k, combine=tm.ATOMIC)
    assert f.check().ok
    out.reverse_compute_at(s.update, i)
    assert not f.check().ok


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (lambda C, out, other: other.reverse_compute_at(C.update, k0), "other does not read C"),
        (lambda C, out, other: C.init.reverse_compute_at(C.update, k0), "C.init computes C itself"),
        (lambda C, out, other: out.reverse_compute_at(C.update, tm.root), "root is outside all loops"),
        (lambda C, out, other: out.reverse_compute_at(C.update, k), "no loop k here"),
        (lambda C, out, other: C.init.compute_at(C.update, k), "no loop k here"),
        (lambda C, out, other: out.reverse_compute_at(C.init, i0), "no value of C is made in the loops i0"),
    ],
)
def test_what_cannot_be_moved_is_said(given: Callable[..., Any], why: str) -> None:
    f, C, out = product()
    other = f.computation("other", {i: N}, i + 1)
    with pytest.raises(CommandError, match=why):
        given(C, out, other)


def test_a_reader_that_shares_loops_is_refused() -> None:
    f, C, out = product()
    other = f.computation("other", {i: N, j: M}, out[i, j] + 1)
    f.outputs(out, other, replace=True)
    other.after(out, i)
    with pytest.raises(CommandError, match="shares loop i with other"):
        out.reverse_compute_at(C.update, i0)
