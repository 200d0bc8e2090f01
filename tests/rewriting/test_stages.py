"""Calls of C functions over whole arrays: their adjoints are calls, too, which the user gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.rewriting.judging import listed

N, M, K, B = tm.params("N M K B")
i, j, k, b = tm.iters("i j k b")


def product(name: str, left: str, right: str, python: Callable[..., Any], **options: Any) -> tm.ExternStage:
    """``c[i, j] += left * right`` over p, in C and in NumPy."""
    return tm.extern_stage(
        name,
        {"m": tm.int64, "n": tm.int64, "k": tm.int64, "a": tm.reads(tm.float64, 2), "lda": tm.stride("a", 0),
         "b": tm.reads(tm.float64, 2), "ldb": tm.stride("b", 0), "c": tm.writes(tm.float64, 2),
         "ldc": tm.stride("c", 0)},
        python,
        source=f"""
static void {name}(int64_t m, int64_t n, int64_t k, const double *a, int64_t lda, const double *b, int64_t ldb,
                   double *c, int64_t ldc) {{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {{
            double sum = 0;
            for (int64_t p = 0; p < k; p++) sum += {left} * {right};
            c[i * ldc + j] = sum;
        }}
}}""",
        **options,
    )  # fmt: skip


NT = product("gemm_nt", "a[i * lda + p]", "b[j * ldb + p]", lambda m, n, k, a, b: a @ b.T)
TN = product("gemm_tn", "a[p * lda + i]", "b[p * ldb + j]", lambda m, n, k, a, b: a.T @ b)


HALF = tm.extern_stage(
    "half", {"a": tm.reads(tm.float64, 2), "c": tm.writes(tm.float32, 2)}, lambda a: (a / 2).astype(np.float32)
)


def gemm(adjoint: Callable[..., Any] | None = None) -> tm.ExternStage:
    def own(m: Any, n: Any, k: Any, a: Any, b: Any, c: Any, d_c: Any) -> dict[str, Any]:
        return {"a": NT(m, k, n, d_c, b), "b": TN(k, n, m, a, d_c)}

    return product(
        "gemm", "a[i * lda + p]", "b[p * ldb + j]", lambda m, n, k, a, b: a @ b, adjoint=adjoint or own
    )  # fmt: skip


def layer(call: tm.ExternStage | None = None, *, is_output: bool = False) -> tm.Function:
    f = tm.Function("layer", params=[M, N, K], assume="M >= 1 and N >= 1 and K >= 1")
    u, w = f.input("u", tm.float64, [M, K]), f.input("w", tm.float64, [K, N])
    half = f.computation("half", {i: M, k: (-1, K - 1)}, u[i, k + 1] * u[i, k + 1])
    c = f.stage("c", {i: M, j: N}, (call or gemm())(M, N, K, half[i, k - 1], w[k, j]), over={k: K})
    out = f.computation("out", {i: M, j: N}, c[i, j] * c[i, j] + w[0, j])
    f.outputs(*((c, out) if is_output else (out,)))
    return f


def given(is_output: bool) -> dict[str, Any]:
    numbers = np.random.default_rng(0)
    found = {"u": numbers.integers(-2, 3, (3, 4)).astype(float), "w": numbers.integers(-2, 3, (4, 5)).astype(float)}
    found |= {"d_out": numbers.integers(-2, 3, (3, 5)).astype(float)}
    return found | ({"d_c": numbers.integers(-2, 3, (3, 5)).astype(float)} if is_output else {})


@pytest.mark.parametrize("is_output", [False, True])
def test_the_adjoint_of_a_call_is_a_call(is_output: bool) -> None:
    g, by = tm.vjp(layer(is_output=is_output)), given(is_output)
    assert g.step.check().ok and g.step.check().bits == "bits preserved"
    *_, d_u, d_w = listed(g.step.compile()(**by))
    half, c = by["u"] * by["u"], by["u"] * by["u"] @ by["w"]
    d_c = 2 * c * by["d_out"] + by.get("d_c", 0)
    np.testing.assert_array_equal(d_u, 2 * by["u"] * (d_c @ by["w"].T))
    expected = half.T @ d_c
    expected[0] += by["d_out"].sum(axis=0)
    np.testing.assert_array_equal(d_w, expected)


def test_calls_of_the_backward_function_take_what_is_saved(tmp_path: Path) -> None:
    g, by = tm.vjp(layer()), given(False)
    assert set(g.saved) == {"half", "c"}
    made = dict(zip(["out", *g.saved], listed(g.forward.compile()(u=by["u"], w=by["w"])), strict=True))
    pool = {**by, **made}
    found = g.backward.compile()(**{name: pool[name] for name in g.backward.algorithm.inputs})
    for one, other in zip(found, listed(g.step.evaluate(**by))[1:], strict=True):
        np.testing.assert_array_equal(one, other)
    g.step.save(tmp_path / "step.json")
    loaded = tm.load(tmp_path / "step.json", externs=[gemm(), NT, TN])
    assert loaded.check().ok and loaded.show("pseudocode") == g.step.show("pseudocode")


def test_a_call_for_each_row_of_a_batch_sums_what_calls_share() -> None:
    f = tm.Function("batch", params=[B, M, N, K], assume="B >= 1 and M >= 1 and N >= 1 and K >= 1")
    u, w = f.input("u", tm.float64, [B, M, K]), f.input("w", tm.float64, [K, N])
    c = f.stage("c", {b: B, i: M, j: N}, gemm()(M, N, K, u[b, i, k], w[k, j]), over={k: K}, each=[b])
    f.outputs(f.computation("y", {b: B, i: M, j: N}, c[b, i, j] * 3))
    step = tm.vjp(f).step
    numbers = np.random.default_rng(1)
    shapes = {"u": (2, 3, 4), "w": (4, 5), "d_y": (2, 3, 5)}
    by = {name: numbers.integers(-3, 4, shape).astype(float) for name, shape in shapes.items()}
    assert step.check().ok
    _, d_u, d_w = step.compile()(**by)
    np.testing.assert_array_equal(d_u, 3 * by["d_y"] @ by["w"].T)
    np.testing.assert_array_equal(d_w, 3 * np.einsum("bik,bij->kj", by["u"], by["d_y"]))


def with_scale() -> tm.Function:
    scaled = tm.extern_stage(
        "scaled", {"n": tm.int64, "s": tm.float64, "a": tm.reads(tm.float64, 1), "c": tm.writes(tm.float64, 1)},
        lambda n, s, a: s * a, adjoint=lambda n, s, a, c, d_c: {"a": None},
    )  # fmt: skip
    f = tm.Function("f", params=[N])
    x, s = f.input("x", tm.float64, [N]), f.scalar("s", tm.float64)
    f.outputs(f.stage("y", {i: N}, scaled(N, s, x[i])))
    return f


def test_an_array_without_influence_has_the_gradient_0() -> None:
    *_, d_x = tm.vjp(with_scale(), wrt=["x"]).step.evaluate(x=np.ones(3), s=2.0, d_y=np.ones(3))
    assert not d_x.any() and d_x.shape == (3,)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "none for one array": (
        lambda: tm.vjp(layer(gemm(lambda m, n, k, a, b, c, d_c: {"a": NT(m, k, n, d_c, b)}))).step,
        r"adjoint= of the external function gemm gives none for b, of which c takes w\[k, j\]: give the call",
    ),
    "no dict": (
        lambda: tm.vjp(layer(gemm(lambda m, n, k, a, b, c, d_c: NT(m, k, n, d_c, b)))).step,
        "adjoint= of the external function gemm gives .* for c: give a dict of calls by the arrays a, b",
    ),
    "of another array": (
        lambda: tm.vjp(layer(gemm(lambda m, n, k, a, b, c, d_c: {"q": None}))).step,
        "give a dict of calls by the arrays a, b",
    ),
    "an expression": (
        lambda: tm.vjp(layer(gemm(lambda m, n, k, a, b, c, d_c: {"a": d_c, "b": None}))).step,
        r"gives d_c\[i, j\] for a: give a call of a function that tm.extern_stage has declared",
    ),
    "of another type": (
        lambda: tm.vjp(layer(gemm(lambda m, n, k, a, b, c, d_c: {"a": HALF(a), "b": None}))).step,
        r"gives half\(half\[i, k . 1\]\) for a, of float32: half\[i, k . 1\] is float64",
    ),
    "a number": (
        lambda: tm.vjp(with_scale(), wrt=["s"]).step,
        r"y passes s to scaled as a number, .*: multiply by s outside of the call, or pass tm.stop_gradient\(s\)",
    ),
    "forwards": (lambda: tm.jvp(layer()), "c is computed by gemm.* is known backwards alone"),
    "too few arguments": (
        lambda: gemm(lambda a: {}),
        "adjoint= of the external function gemm takes m, n, k, a, b, the result and its adjoint; too many",
    ),
    "no function": (lambda: gemm(3), "the result and its adjoint: give a function, not 3"),  # type: ignore[arg-type]
    "several results": (
        lambda: tm.extern_stage(
            "halves", {"a": tm.reads(tm.float64, 1), "p": tm.writes(tm.float64, 1), "q": tm.writes(tm.float64, 1)},
            lambda a: (a, a), adjoint=lambda a, result, by: {}),
        "adjoint= of the external function halves, which writes p, q: an adjoint is that of one array",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_an_adjoint_that_does_not_fit_is_refused(name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises(tm.TiramisuError, match=f"(?s){message}"):
        call()


def test_an_extern_with_a_derivative_is_saved_and_loaded_with_it(tmp_path: Path) -> None:
    cube = tm.extern(
        "cube", [tm.float64], tm.float64, lambda x: x**3,
        source="static double cube(double x) { return x * x * x; }", derivative=lambda x: 3 * x * x,
    )  # fmt: skip
    f = tm.Function("f", params=[N])
    x = f.input("x", tm.float64, [N])
    f.outputs(f.computation("y", {i: N}, cube(x[i])))
    f.save(tmp_path / "f.json")
    loaded = tm.load(tmp_path / "f.json", externs=[cube])
    *_, d_x = tm.vjp(loaded).step.evaluate(x=np.array([2.0]), d_y=np.array([1.0]))
    np.testing.assert_array_equal(d_x, [12.0])
