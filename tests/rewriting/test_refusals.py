"""What has no derivative is refused, by the names of the user's objects and with what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.rewriting import programs

N, M, K = tm.params("N M K")
i, j, k = tm.iters("i j k")


def function() -> tm.Function:
    f = tm.Function("f", params=[N])
    x, n, s = f.input("x", tm.float64, [N]), f.input("n", tm.int32, [N]), f.scalar("s", tm.float64)
    y = f.computation("y", {i: N}, x[i] * n[i] * s)
    f.outputs(y)
    return f


def of_word(word: Callable[[tm.Expr], Any], dtype: Any = tm.float64) -> tm.Function:
    f = tm.Function("f", params=[N])
    x = f.input("x", dtype, [N])
    f.outputs(f.computation("y", {i: N}, word(x[i])))
    return f


def of_operator(op: Any, term: Callable[[tm.Expr], Any] = lambda x: x) -> tm.Function:
    f = tm.Function("f", params=[N, K])
    x = f.input("x", tm.float64, [N, K])
    f.outputs(f.reduction("y", {i: N}, {k: K}, op, term(x[i, k])))
    return f


def of_stage() -> tm.Function:
    turned = tm.extern_stage(
        "turned", {"rows": tm.int64, "a": tm.reads(tm.float64, 1), "b": tm.writes(tm.float64, 1)}, lambda n, a: -a
    )
    f = tm.Function("f", params=[N])
    x = f.input("x", tm.float64, [N])
    y = f.stage("y", {i: N}, turned(N, x[i]))
    f.outputs(f.computation("z", {i: N}, y[i] * 2))
    return f


def without_outputs() -> tm.Function:
    f = tm.Function("f", params=[N])
    f.input("x", tm.float64, [N])
    return f


def of_integers() -> tm.Function:
    f = tm.Function("f", params=[N])
    x = f.input("x", tm.int32, [N])
    f.outputs(f.computation("y", {i: N}, tm.cast(tm.float64, x[i])))
    return f


def with_two_outputs() -> tm.Function:
    f = tm.Function("f", params=[N])
    x = f.input("x", tm.float64, [N])
    f.outputs(f.reduction("a", {}, {i: N}, tm.sum, x[i]), f.reduction("b", {}, {i: N}, tm.max, x[i]))
    return f


ODD = tm.extern("odd", [tm.float64], tm.float64, np.cbrt, source="static double odd(double x) { return x; }")
SOFT = tm.operator("soft", lambda a, b: tm.log(tm.exp(a) + tm.exp(b)), float("-inf"))
BOTH = tm.operator("both", lambda a, b: (a[0] + b[0], a[1] + b[1]), (0.0, 0.0), names=["p", "q"])

REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "an integer": (lambda: tm.vjp(function(), wrt=["n"]), "n is int32, and only floating-point inputs.*: x, s"),
    "a computation": (lambda: tm.vjp(function(), wrt=["y"]), "y is a computation of f, and wrt= takes inputs: x, s"),
    "a handle of a computation": (lambda: (f := function()) and tm.vjp(f, wrt=[f["y"]]), "y is a computation of f"),
    "of another function": (lambda: tm.vjp(function(), wrt=[function()["x"]]), "x, which belongs to another function"),
    "a parameter": (lambda: tm.vjp(function(), wrt=[N]), "N is a parameter of f, a size, and has no derivative"),
    "a parameter by name": (lambda: tm.jvp(function(), wrt=["N"]), "N is a parameter of f"),
    "nothing of this name": (lambda: tm.vjp(function(), wrt=["z"]), "wrt= has z, and f has no such input: it has x, s"),
    "one twice": (lambda: tm.vjp(function(), wrt=["x", "x"]), "wrt= names x twice"),
    "none": (lambda: tm.vjp(function(), wrt=[]), "wrt=.. names no input of f: it has x, s"),
    "a text": (lambda: tm.vjp(function(), wrt="x"), "wrt='x': give a list of inputs of f, such as .x, s"),
    "a number": (lambda: tm.vjp(function(), wrt=[3]), "wrt= has 3, which is no input of f"),
    "no function": (lambda: tm.vjp("f"), "tm.vjp takes a function of tiramisu_py, not 'f'"),  # type: ignore[arg-type]
    "no outputs": (lambda: tm.vjp(without_outputs()), "f has no outputs: call f.outputs"),
    "no float": (lambda: tm.vjp(of_integers()), "f has no floating-point input: x is int32"),
    "an output of integers": (lambda: tm.jvp(of_word(lambda x: tm.cast(tm.int32, x))), "no output of f.*y is int32"),
    "an extern": (lambda: tm.vjp(of_word(ODD)), r"function odd in odd\(x\[i\]\) has no derivative.*tm.extern\('odd'"),
    "an extern, forwards": (lambda: tm.jvp(of_word(ODD)), "function odd in"),
    "an operator": (lambda: tm.vjp(of_operator(SOFT)), "y is a reduction by the operator soft.*tm.operator.'soft'"),
    "an operator of two": (lambda: tm.vjp(of_operator(BOTH, lambda x: (x, 2 * x))), "y is a reduction by .* both"),
    "a stage": (lambda: tm.vjp(of_stage()), "y is computed by turned.*whole arrays whose derivative is not known"),
    "bits": (lambda: tm.vjp(of_word(lambda x: tm.reinterpret(tm.bfloat16, x), tm.float16)), "reinterpret in .*stop_gr"),
    "grad of many values": (lambda: tm.grad(function()), r"tm.grad is of one value, and y\[i\] of f has many"),
    "grad of two outputs": (lambda: tm.grad(with_two_outputs()), "tm.grad is of one value, and f returns a, b"),
    "recompute of nothing": (lambda: tm.vjp(function(), recompute=["q"]).backward, "recompute= names q, .*it has y"),
    "recompute of a text": (lambda: tm.vjp(function(), recompute="y").backward, "recompute='y': give a list of names"),
    "a derivative of one": (
        lambda: tm.extern("two", [tm.float64] * 2, tm.float64, np.add, derivative=lambda x: x),
        "derivative= of the external function two takes its arguments",
    ),
    "a derivative for one of two": (
        lambda: tm.vjp(of_word(lambda x: tm.extern(
            "two", [tm.float64] * 2, tm.float64, np.add, derivative=lambda x, y: x)(x, x))),
        "derivative= of the external function two gives .*one expression for each of its 2 arguments",
    ),
    "a derivative that is a number": (
        lambda: tm.operator("op", lambda a, b: a + b, 0, derivative=1),  # type: ignore[arg-type]
        "derivative= of the operator op .*: give a function, not 1",
    ),
    "a check of a function": (lambda: tm.check_gradient(function()), "takes what tm.vjp returns"),  # type: ignore[arg-type]
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused(name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises(tm.TiramisuError, match=f"(?s){message}"):
        call()


def test_a_group_that_is_not_at_its_end() -> None:
    f = function()
    with f.together() as g:
        g.computation("z", {i: N}, lambda: f["x"][i])
        with pytest.raises(tm.DeclarationError, match=r"tm.vjp\(f\): the group of z is not at its end"):
            tm.vjp(f)


def test_what_is_passed_to_a_step_has_to_fit() -> None:
    kernel = tm.vjp(programs.PROGRAMS["scan"]()).step.compile()
    x = np.ones(4)
    with pytest.raises(tm.ArgumentError, match="d_y is missing: scanned_step takes x, d_y"):
        kernel(x=x)
    with pytest.raises(tm.ArgumentError, match="d_y"):
        kernel(x=x, d_y=np.ones(5))
    with pytest.raises(tm.ArgumentError, match="d_y has dtype float32, not float64"):
        kernel(x=x, d_y=np.ones(4, np.float32))
    back = tm.vjp(programs.PROGRAMS["scan"]()).backward
    with pytest.raises(tm.ArgumentError, match="the argument s is missing"):
        back.evaluate(x=x, d_y=x)


def test_a_recurrence_whose_length_is_a_value_is_refused_by_the_proof_of_its_step() -> None:
    (n, t_end), (i, t) = tm.params("N T"), tm.iters("i t")
    f = tm.Function("f", params=[n, t_end], assume="T >= 1")
    x, length = f.input("x", tm.float64, [n]), f.input("length", tm.int32, [n], values=(1, t_end + 1))
    f.outputs(f.computation("u", {i: n, t: (0, length[i])}, lambda u: tm.select(t == 0, x[i], u[i, t - 1] * x[i])))
    report = tm.vjp(f).step.check()
    assert not report.ok
    said = str(report)
    assert "u[0, 1] reads u[0, 0], which exists only where t - 1 < int64(length[i])" in said
    assert "give u the same condition with where=, or give u a value everywhere" in said


def test_a_name_that_is_taken_gets_a_number() -> None:
    f = tm.Function("f", params=[N])
    x, taken = f.input("x", tm.float64, [N]), f.input("d_x", tm.float64, [N])
    f.outputs(f.computation("y", {i: N}, x[i] * taken[i]))
    g = tm.vjp(f, wrt=["x"])
    assert [*g.step.algorithm.outputs] == ["y", "d_x_2"]


def test_an_output_that_depends_on_nothing_asked_for_is_no_error() -> None:
    f = function()
    f.outputs(f["y"], f.computation("w", {i: N}, f["n"][i] * 1.5), replace=True)
    given = {"x": np.ones(2), "n": np.ones(2, np.int32), "s": 3.0}
    *_, d_x = tm.vjp(f, wrt=["x"]).step.evaluate(**given, d_y=np.ones(2), d_w=np.ones(2))
    np.testing.assert_array_equal(d_x, [3, 3])
    *_, t_w = tm.jvp(f, wrt=["x"]).evaluate(**given, t_x=np.ones(2))
    assert not t_w.any()


def test_gradients_are_no_function_and_are_checked_with_the_arguments_of_one() -> None:
    (n,), (i,) = tm.params("N"), tm.iters("i")
    f = tm.Function("squares", params=[n])
    x = f.input("x", tm.float64, [n])
    f.outputs(f.computation("y", {i: n}, x[i] * x[i]))
    g, given = tm.vjp(f), np.arange(1.0, 4.0)
    with pytest.raises(tm.CallError, match=r"the gradients of squares are functions: write kernel = g\.step\.compile"):
        g(given)  # type: ignore[operator]
    assert tm.check_gradient(g, given).ok and tm.check_gradient(g, x=given).ok
    with pytest.raises(tm.ArgumentError, match="squares takes x: 2 arguments are too many"):
        tm.check_gradient(g, given, given)
