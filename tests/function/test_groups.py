"""Computations that read each other: values beside NumPy and SciPy, orders, schedules, refusals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.linalg import solve_triangular

import tiramisu_py as tm
from tiramisu_py.function.handles.computations import Computation

N, T, H = tm.params("N T H")
i, j, k, t, n, m = tm.iters("i j k t n m")
RNG = np.random.default_rng(7)
SIZES = [1, 2, 7, 17]


def trsv() -> tm.Function:
    """``L x = b`` by forward substitution."""
    f = tm.Function("trsv", params=[N], assume="N >= 1")
    L, b = f.input("L", tm.float64, [N, N]), f.input("b", tm.float64, [N])
    with f.together() as g:
        s = g.reduction("s", {i: N}, {j: i}, tm.sum, lambda: L[i, j] * x[j])
        x = g.computation("x", {i: N}, lambda: (b[i] - s[i]) / L[i, i])
    f.outputs(x)
    return f


def lu() -> tm.Function:
    """``a = l u`` without pivots: l below its diagonal of ones, u on and above it."""
    f = tm.Function("lu", params=[N], assume="N >= 1")
    a = f.input("a", tm.float64, [N, N])
    with f.together() as g:
        sl = g.reduction("sl", {i: N, j: i}, {k: j}, tm.sum, lambda: l[i, k] * u[k, j])
        l = g.computation("l", {i: N, j: i}, lambda: (a[i, j] - sl[i, j]) / u[j, j], shape=[N, N])  # noqa: E741
        su = g.reduction("su", {i: N, j: (i, N)}, {k: i}, tm.sum, lambda: l[i, k] * u[k, j])
        u = g.computation("u", {i: N, j: (i, N)}, lambda: a[i, j] - su[i, j])
    f.outputs(l, u)
    return f


def lstm() -> tm.Function:
    """A cell with one gate: the hidden state and the cell's state read each other."""
    f = tm.Function("lstm", params=[T, H], assume="T >= 1 and H >= 1")
    w, v = f.input("w", tm.float32, [H, H]), f.input("v", tm.float32, [T, H])
    with f.together() as g:
        z = g.reduction("z", {t: (1, T), n: H}, {m: H}, tm.sum, lambda: w[n, m] * h[t - 1, m])
        c = g.computation("c", {t: T, n: H}, lambda: tm.select(t == 0, 0.0, 0.5 * c[t - 1, n] + z[t, n] + v[t, n]))
        h = g.computation("h", {t: T, n: H}, lambda: tm.select(t == 0, 1.0, 0.25 * c[t, n]))
    f.outputs(h)
    return f


def lstm_in_numpy(w: Any, v: Any) -> Any:
    h, c = np.ones_like(v), np.zeros_like(v[0])
    for step in range(1, len(v)):
        c = np.float32(0.5) * c + w @ h[step - 1] + v[step]
        h[step] = np.float32(0.25) * c
    return h


def system(size: int) -> tuple[Any, Any]:
    return np.tril(RNG.random((size, size))) + size * np.eye(size), RNG.random(size)


@pytest.mark.parametrize("size", SIZES)
def test_forward_substitution_is_that_of_scipy(size: int) -> None:
    f, (L, b) = trsv(), system(size)
    want = solve_triangular(L, b, lower=True)
    np.testing.assert_allclose(f.evaluate(L=L, b=b), want)
    np.testing.assert_allclose(f.compile(sanitize=("undefined",))(L, b), want)


@pytest.mark.parametrize("size", SIZES)
def test_the_factors_of_a_matrix_have_the_matrix_as_product(size: int) -> None:
    a = RNG.random((size, size)) + size * np.eye(size)
    f = lu()
    for lower, upper in (f.evaluate(a=a), f.compile()(a)):
        np.testing.assert_allclose((np.tril(lower, -1) + np.eye(size)) @ np.triu(upper), a)


def test_a_cell_of_a_network_keeps_the_type_of_its_inputs() -> None:
    f = lstm()
    assert {f[name].dtype for name in ("z", "c", "h")} == {tm.float32}
    w, v = RNG.random((5, 5), dtype=np.float32), RNG.random((6, 5), dtype=np.float32)
    np.testing.assert_allclose(f.evaluate(w=w, v=v), lstm_in_numpy(w, v), rtol=1e-5)
    np.testing.assert_array_equal(f.compile()(w, v), f.evaluate(w=w, v=v))


def test_each_member_has_commands_and_storage_of_its_own() -> None:
    f = lstm()
    z, c, h = f["z"], f["c"], f["h"]
    c.store_in([t % 2, n])
    z.store_in([n])
    z.update.interchange(n, m)
    z.update.vectorize(n, 4)
    c.vectorize(n, 4)
    h.parallelize(n)
    assert f.check().ok
    w, v = RNG.random((9, 9), dtype=np.float32), RNG.random((6, 9), dtype=np.float32)
    np.testing.assert_allclose(f.compile(threads=2)(w, v), lstm_in_numpy(w, v), rtol=1e-5)


@pytest.mark.parametrize("loop", [i, j])
def test_a_loop_over_what_depends_on_each_other_is_not_parallel(loop: tm.Iter) -> None:
    f = trsv()
    (f["x"] if loop is i else f["s"].update).parallelize(loop)
    (violation,) = f.check().violations
    assert violation.kind == ("race" if loop is j else violation.kind) and "parallelize" in violation.command


def test_a_fold_that_is_too_small_is_refused() -> None:
    f = lstm()
    f["c"].store_in([n])
    assert f.check().ok  # the state of one step before is read where it is replaced
    f = trsv()
    f["x"].store_in([i % 2])
    assert {v.kind for v in f.check().violations} == {"overwritten"}


def backwards(f: tm.Function, a: tm.Input, g: Any) -> Computation:
    p: Any = g.computation("p", {i: N}, lambda: tm.select(i == N - 1, a[i], q[i + 1]))
    q = g.computation("q", {i: N}, lambda: p[i] * 2)
    return p


def delayed(f: tm.Function, a: tm.Input, g: Any) -> Computation:
    p: Any = g.computation("p", {i: N}, lambda: tm.select(i < 2, a[i], q[i - 2]))
    q = g.computation("q", {i: (0, N - 1)}, lambda: p[i + 1] * 2)
    return p


def delayed_backwards(f: tm.Function, a: tm.Input, g: Any) -> Computation:
    p: Any = g.computation("p", {i: N}, lambda: tm.select(i >= N - 2, a[i], q[i + 2]))
    q = g.computation("q", {i: (1, N)}, lambda: p[i - 1] * 2)
    return p


def of_itself_too(f: tm.Function, a: tm.Input, g: Any) -> Computation:
    p: Any = g.computation("p", {i: N}, lambda p: tm.select(i < 1, a[i], p[i - 1] + q[i - 1]))
    q = g.computation("q", {i: N}, lambda: p[i] + a[i])
    return p


def not_in_a_cycle(f: tm.Function, a: tm.Input, g: Any) -> Computation:
    q: Any = g.computation("q", {i: N}, lambda: p[i] + a[i])
    p = g.computation("p", {i: N}, lambda: a[N - 1 - i] * 2)
    return q


Declared = Callable[[tm.Function, tm.Input, Any], Computation]
ORDERS: list[Declared] = [backwards, delayed, delayed_backwards, of_itself_too, not_in_a_cycle]


def group(declared: Declared) -> tm.Function:
    f = tm.Function("f", params=[N], assume="N >= 2")
    a = f.input("a", tm.int32, [N])
    with f.together() as g:
        result = declared(f, a, g)
    f.outputs(result)
    return f


def by_hand(declared: Declared, a: Any) -> Any:
    """Each value from the two definitions, recursively."""
    size = len(a)

    def p(x: int) -> int:
        if declared is backwards:
            return int(a[x]) if x == size - 1 else 2 * p(x + 1)
        if declared is delayed:
            return int(a[x]) if x < 2 else 2 * p(x - 1)
        if declared is delayed_backwards:
            return int(a[x]) if x >= size - 2 else 2 * p(x + 1)
        if declared is of_itself_too:
            return int(a[x]) if x < 1 else 2 * p(x - 1) + int(a[x - 1])
        return int(2 * a[size - 1 - x] + a[x])

    return [p(x) for x in range(size)]


@pytest.mark.parametrize("declared", ORDERS)
@pytest.mark.parametrize("size", [2, 3, 7])
def test_loops_are_reversed_and_shifted_where_values_need_it(declared: Declared, size: int) -> None:
    f = group(declared)
    a = RNG.integers(-9, 9, size, dtype=np.int32)
    assert f.check().ok
    np.testing.assert_array_equal(f.evaluate(a=a), by_hand(declared, a))
    np.testing.assert_array_equal(f.compile(sanitize=("undefined",))(a), by_hand(declared, a))


def test_a_group_is_saved_copied_and_undone(tmp_path: Path) -> None:
    f = lu()
    f["su"].update.interchange(j, k)
    path = tmp_path / "lu.json"
    f.save(path)
    a = RNG.random((7, 7)) + 7 * np.eye(7)
    want = f.evaluate(a=a)
    for other in (tm.load(path), f.copy()):
        assert other.check().ok and other.show("pseudocode") == f.show("pseudocode")
        np.testing.assert_allclose(other.compile()(a)[1], want[1])
    before = lu().show("pseudocode")
    f.undo()
    assert f.show("pseudocode") == before


def test_a_group_after_a_command_is_there_after_undo() -> None:
    f = tm.Function("f", params=[N], assume="N >= 1")
    a = f.input("a", tm.float64, [N])
    first = f.computation("first", {i: N}, a[i] * 2)
    first.parallelize(i)
    with f.together() as g:
        p = g.computation("p", {i: N}, lambda: tm.select(i == 0, first[i], q[i - 1]))
        q = g.computation("q", {i: N}, lambda: p[i] + 1.0)
    f.outputs(q)
    f.undo()
    given = RNG.random(5)
    assert f.check().ok
    np.testing.assert_array_equal(f.compile()(given), 2 * given[0] + np.arange(1.0, 6.0))


# -- refusals


def pair(p: Callable[..., Any], q: Callable[..., Any], **options: Any) -> tm.Function:
    f = tm.Function("f", params=[N], assume="N >= 2")
    a = f.input("a", tm.float32, [N])
    with f.together() as g:
        made: list[Any] = []
        made.append(g.computation("p", {i: N}, lambda: p(a, *made), **options))
        made.append(g.computation("q", {i: N}, lambda: q(a, *made), **options))
    f.outputs(made[1])
    return f


def test_values_that_wait_for_each_other_are_refused() -> None:
    f = pair(lambda a, p, q: q[i] + a[i], lambda a, p, q: p[i] * 2)
    (violation,) = f.check().violations
    assert violation.kind == "algorithm" and "p[0] depends on itself, at N = 2" in violation.message
    with pytest.raises(tm.DeclarationError, match=r"p\[0\] depends on itself: it reads q\[0\]"):
        f.evaluate(a=np.ones(3, np.float32))


def test_a_cycle_of_two_steps_is_found() -> None:
    f = pair(lambda a, p, q: tm.select(i < 2, a[i], q[N - i]), lambda a, p, q: tm.select(i < 1, a[i], p[i - 1] * 2))
    (violation,) = f.check().violations
    assert violation.kind == "algorithm" and "lead back to it" in violation.message


def test_a_type_that_nothing_gives_is_asked_for() -> None:
    with pytest.raises(tm.DTypeError, match="types of p, q do not follow from their expressions: give dtype="):
        pair(lambda a, p, q: q[i - 1], lambda a, p, q: p[i - 1])
    f = pair(lambda a, p, q: q[i], lambda a, p, q: p[i - 1], dtype=tm.float32)
    assert f["p"].dtype == tm.float32


def test_an_expression_that_needs_a_later_type_is_a_function() -> None:
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.float32, [N])
    with (
        pytest.raises(tm.DeclarationError, match=r"p has no type before its group ends: give its dtype=.*lambda"),
        f.together() as g,
    ):
        p = g.computation("p", {i: N}, lambda: a[i] + q[i])
        q = g.computation("q", {i: N}, p[i] * 2)
    with pytest.raises(tm.DeclarationError, match="p was not declared: its group ended with an error"):
        p[i]
    with f.together() as g:  # nothing of the first one is left
        r = g.computation("p", {i: (1, N)}, lambda: a[i] + s[i - 1], dtype=tm.float32)
        s = g.computation("q", {i: N}, tm.select(i < 1, a[i], r[i] * 2))
    assert s.dtype == tm.float32


def test_names_domains_and_groups_are_checked() -> None:
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.float32, [N])
    with (
        pytest.raises(tm.DeclarationError, match="'a' cannot be the name of a comp"),
        f.together() as g,
    ):
        g.computation("a", {i: N}, 0)
    with (
        pytest.raises(tm.DeclarationError, match="'p' cannot be the name of two comp"),
        f.together() as g,
    ):
        g.computation("p", {i: N}, a[i])
        g.computation("p", {i: N}, a[i])
    with pytest.raises(tm.DeclarationError, match=r"p is in a group, .* {i: N}, not \[i\]"), f.together() as g:
        g.computation("p", [i], a[i])
    refused = pytest.raises(tm.DeclarationError, match="f has a group that is not at its end")
    with refused, f.together() as g:
        g.computation("p", {i: N}, a[i])
        with f.together():
            pass
    with pytest.raises(tm.DeclarationError, match=r"op= of s is 'sum'; use tm\.sum"), f.together() as g:
        g.reduction("s", {i: N}, {j: i}, "sum", a[j])  # type: ignore[arg-type]
    for op in (tm.argmin, tm.sum):
        with pytest.raises(tm.DeclarationError, match="s has several values, and"), f.together() as g:
            g.reduction("s", {i: N}, {j: i}, op, (a[j], j))  # type: ignore[arg-type]
    with pytest.raises(tm.DeclarationError, match="r comes after the end of its group"):
        g.computation("r", {i: N}, a[i])
    assert not f.algorithm.computations


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (
            lambda f, g, a, p: p.parallelize(i),
            "a command of p: the group of p is not at its end: .* after the with",
        ),
        (lambda f, g, a, p: f.outputs(p), r"f\.outputs\(p\): the group of p is not at its end"),
        (lambda f, g, a, p: f.computation("y", {i: N}, p[i] + 1), r"y reads p\[i\]: the group of p is not at its end"),
        (lambda f, g, a, p: g.computation("q", {i: N}, lambda: a[i], where=p[i] > 0), r"where= of q reads p\[i\]"),
        (
            lambda f, g, a, p: g.computation("q", {i: N}, lambda i: a[i]),
            r"a\[q\].*\(i is q itself; .* lambda: \.\.\.\)",
        ),
        (
            lambda f, g, a, p: g.computation("q", {i: N}, lambda q, r: a[i]),
            "is a function of q, r: give one of nothing",
        ),
    ],
)
def test_what_newcomers_write_inside_of_a_group(mistake: Callable[..., Any], message: str) -> None:
    f = tm.Function("f", params=[N], assume="N >= 1")
    a = f.input("a", tm.float32, [N])
    with pytest.raises((tm.CommandError, tm.DeclarationError), match=message), f.together() as g:
        mistake(f, g, a, g.computation("p", {i: N}, lambda: a[i], dtype=tm.float32))
    f.outputs(f.computation("after", {i: N}, a[i]))
    assert f.check()


def test_a_group_begins_with_its_with_statement() -> None:
    f = tm.Function("f", params=[N], assume="N >= 1")
    a, g = f.input("a", tm.float32, [N]), f.together()
    with pytest.raises(tm.DeclarationError, match=r"group of p has not begun: write with f\.together\(\) as g:"):
        g.computation("p", {i: N}, lambda: a[i])


def gram_schmidt() -> tm.Function:
    """``a = q r`` by Gram and Schmidt: columns are the first dimension of one computation, the second of another."""
    f = tm.Function("gram_schmidt", params=[N, T], assume="N >= 1 and T >= N")
    a = f.input("a", tm.float64, [T, N])
    with f.together() as g:
        v = g.computation(
            "v", {k: N, i: T, j: (k, N)},
            lambda: tm.select(k == 0, a[i, j], v[k - 1, i, j] - q[i, k - 1] * r[k - 1, j]),
        )  # fmt: skip
        length = g.reduction("length", {k: N}, {i: T}, tm.sum, lambda: v[k, i, k] * v[k, i, k])
        q = g.computation("q", {i: T, k: N}, lambda: v[k, i, k] / tm.sqrt(length[k]))
        r = g.reduction("r", {k: N, j: (k, N)}, {i: T}, tm.sum, lambda: q[i, k] * v[k, i, j], shape=[N, N])
    f.outputs(q, r)
    return f


def test_a_loop_is_shared_over_different_dimensions() -> None:
    f = gram_schmidt()
    report = f.check()
    assert report.ok, report
    assert f.program.origin.turned == ("q runs k outermost",)
    kernel = f.compile()
    for rows, columns in ((1, 1), (5, 3), (9, 9)):
        a = RNG.standard_normal((rows, columns))
        q, r = kernel(a)
        for found, oracle in zip((q, r), f.evaluate(a), strict=True):
            assert np.array_equal(found, oracle)
        upper = np.triu(r)
        assert np.allclose(q @ upper, a)
        assert np.allclose(q.T @ q, np.eye(columns))
