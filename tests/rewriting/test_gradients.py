"""Gradients as functions: in one or in two, scheduled, saved, differentiated again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.rewriting import programs
from tests.rewriting.judging import listed, weighed, weights

N, M, K, T, E = tm.params("N M K T E")
i, j, k, t, e, p = tm.iters("i j k t e p")
RUN = ("rod", "matmul", "softmax", "lstm", "edges", "csr", "places", "pair", "negative_indices", "harris",
       "product_of_sizes", "forward_substitution", "norms", "histogram", "scan_in_chunks", "narrow_types")  # fmt: skip


def quadratic() -> tm.Function:
    f = tm.Function("quadratic", params=[N])
    a, x = f.input("a", tm.float64, [N, N]), f.input("x", tm.float64, [N])
    y = f.reduction("y", {i: N}, {j: N}, tm.sum, a[i, j] * x[j])
    f.outputs(f.reduction("loss", {}, {i: N}, tm.sum, y[i] * x[i] * x[i]))
    return f


@pytest.mark.parametrize("name", RUN)
def test_the_step_and_the_two_functions_give_the_bits_of_evaluate(name: str) -> None:
    f, exact = programs.PROGRAMS[name](), name in programs.EXACT
    g = tm.vjp(f)
    given = programs.arguments(f, programs.SIZES[name][-1], 5, exact)
    by = weighed(f, given, weights(f, given, np.random.default_rng(1), exact))
    expected = listed(g.step.evaluate(**by))
    found = listed(g.step.compile()(**by))
    made = listed(g.forward.compile()(**given))
    names = [*f.algorithm.output_arrays, *g.saved]
    pool = {**by, **dict(zip(names, made, strict=True))}
    needed = [*g.backward.algorithm.inputs, *g.backward.algorithm.params]
    back = listed(g.backward.compile()(**{each: pool[each] for each in needed}))
    same = np.testing.assert_array_equal if exact else _close
    for one, other in zip(found, expected, strict=True):
        same(one, other)
    for one, other in zip(back, found[-len(g.wrt) :], strict=True):
        same(one, other)


def _close(one: Any, other: Any) -> None:
    np.testing.assert_allclose(one, other, rtol=1e-12 if one.dtype == np.float64 else 1e-5)


def test_only_what_the_backward_reads_is_saved_and_only_what_is_asked_for_is_built() -> None:
    f = programs.PROGRAMS["perceptron"]()
    assert set(tm.vjp(f).saved) == {"r", "o"}  # neither h, of which tanh is r, nor s, which is an output
    g = tm.vjp(f, wrt=["w2"])
    assert set(g.saved) == {"r", "o"} and not {"d_x", "d_w1", "d_h", "d_r"} & set(g.step.algorithm.computations)
    assert "w2" not in g.backward.algorithm.inputs
    heat = tm.vjp(programs.PROGRAMS["heat"]())
    assert heat.saved == () and list(heat.backward.algorithm.inputs) == ["d_last"]


def test_what_is_recomputed_is_not_saved() -> None:
    f = programs.PROGRAMS["softmax"]()
    g, plain = tm.vjp(f, recompute=["power"]), tm.vjp(f)
    assert set(plain.saved) - set(g.saved) == {"power"} and "power" in g.backward.algorithm.computations
    given = programs.arguments(f, {"N": 3, "K": 4}, 5, False)
    by = {**given, "d_y": np.random.default_rng(0).random((3, 4))}
    results = []
    for each in (g, plain):
        made = dict(zip(["y", *each.saved], listed(each.forward.evaluate(**given)), strict=True))
        pool = {**by, **made}
        results.append(each.backward.evaluate(**{name: pool[name] for name in each.backward.algorithm.inputs}))
    np.testing.assert_array_equal(*results)
    with pytest.raises(tm.DeclarationError, match="recompute= names powers, which is no computation of softmax"):
        _ = tm.vjp(f, recompute=["powers"]).backward


def test_the_commands_of_a_function_apply_to_its_step() -> None:
    f = programs.PROGRAMS["matmul"]()
    f["c"].update.tile(i, j, 4, 8, *tm.iters("i0 j0 i1 j1"))
    f["c"].update.parallelize(tm.iters("i0")[0])
    g = tm.vjp(f)
    assert g.step.commands == ()
    for each in f.commands:
        g.step.apply(each)
    assert [str(each) for each in g.step.commands] == [str(each) for each in f.commands]
    assert g.step.check().ok


def test_a_gradient_can_be_differentiated_in_either_mode() -> None:
    f = quadratic()
    numbers = np.random.default_rng(2)
    given = {"a": numbers.integers(-3, 4, (4, 4)).astype(float), "x": numbers.integers(-3, 4, 4).astype(float)}
    v = numbers.integers(-3, 4, 4).astype(float)
    first = tm.grad(f, wrt=["x"])
    loss, d_x = first.evaluate(**given)
    ahead = listed(tm.jvp(first, wrt=["x"]).compile()(**given, t_x=v))[-1]
    again = listed(tm.vjp(first, wrt=["x"]).step.compile()(**given, d_loss=0.0, d_d_x=v))[-1]
    over = listed(tm.vjp(tm.jvp(f, wrt=["x"]), wrt=["x"]).step.evaluate(**given, t_x=v, d_loss=0.0, d_t_loss=1.0))[-1]
    a, x = given["a"], given["x"]
    # loss = sum of (a x)_i x_i^2
    hessian = 2 * np.diag(a @ x) + 2 * x[:, None] * a + 2 * (x[:, None] * a).T
    assert loss == (a @ x) @ (x * x)
    np.testing.assert_array_equal(d_x, a.T @ (x * x) + 2 * (a @ x) * x)
    for found in (ahead, again, over):
        np.testing.assert_array_equal(found, hessian @ v)


def test_a_step_is_saved_and_loaded(tmp_path: Path) -> None:
    for name in ("rod", "edges", "lstm", "guarded_values"):
        g = tm.vjp(programs.PROGRAMS[name]())
        g.step.save(tmp_path / "step.json")
        loaded = tm.load(tmp_path / "step.json")
        assert loaded.check().ok and loaded.show("pseudocode") == g.step.show("pseudocode")


def test_no_two_adjoints_are_added_to_one_element() -> None:
    step = tm.vjp(programs.PROGRAMS["csr"]()).step
    rows = step["d_value"].update
    rows.parallelize(i)  # rows have no element in common, since `start` is monotone
    assert step.check().ok and step.check().bits == "bits preserved"
    assert "atomic" not in step.source()["csr_step.c"].split("csr_step(")[-1]
    permuted = tm.vjp(programs.PROGRAMS["permuted"]()).step
    permuted["d_x_from_y"].update.parallelize(tm.iters("i_2")[0])
    assert permuted.check().ok


@pytest.mark.slow
def test_the_text_of_a_step_is_the_same_in_every_process() -> None:
    script = (
        "import tiramisu_py as tm\n"
        "from tests.rewriting import programs\n"
        "for name in ('lstm', 'softmax'):\n"
        "    print(tm.vjp(programs.PROGRAMS[name]()).step.show('pseudocode'))\n"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(texts) == 1


def test_the_inside_of_a_gradient_has_no_condition_and_few_loops() -> None:
    step = tm.vjp(programs.PROGRAMS["heat"]()).step
    text = step.source()["heat_step.c"]
    whole = programs.PROGRAMS["heat"]().source()["heat.c"]
    assert len(text) < 4 * len(whole)
    assert text.count("for (") <= 4 * whole.count("for (")


def test_differences_find_the_wrong_element() -> None:
    f = programs.PROGRAMS["rod"]()
    given = programs.arguments(f, {"T": 2, "N": 5}, 1, False)
    g = tm.vjp(f)
    report = tm.check_gradient(g, **given)
    assert report.ok and max(report.errors.values()) < 1e-8 and "as differences say" in str(report)
    wrong = tm.extern(
        "wrong_square", [tm.float64], tm.float64, lambda x: x * x,
        source="static double wrong_square(double x) { return x * x; }",
        derivative=lambda x: tm.select(x > 2, x, 2 * x),
    )  # fmt: skip
    h = tm.Function("h", params=[N])
    x = h.input("x", tm.float64, [N])
    h.outputs(h.computation("y", {i: N}, wrong(x[i])))
    report = tm.check_gradient(tm.vjp(h), x=np.array([1.0, 3.0, 0.5]))
    assert not report.ok and "the gradient of x[1] is" in str(report)
    with pytest.raises(tm.ArgumentError, match="the argument x of h is missing"):
        tm.check_gradient(tm.vjp(h))


def test_a_scalar_and_several_outputs() -> None:
    f = tm.Function("scaled", params=[N])
    x, s = f.input("x", tm.float64, [N]), f.scalar("s", tm.float64)
    y = f.computation("y", {i: N}, s * x[i])
    f.outputs(y, f.reduction("z", {}, {i: N}, tm.sum, y[i] * s))
    at, w = np.array([1.0, 2.0]), np.array([3.0, 5.0])
    *_, d_s, d_x = tm.vjp(f, wrt=[s, x]).step.compile()(x=at, s=2.0, d_y=w, d_z=7.0)
    assert d_s == w @ at + 7 * 2 * 2 * at.sum()
    np.testing.assert_array_equal(d_x, w * 2 + 7 * 4)


def test_places_that_are_saved_keep_their_range() -> None:
    f = tm.Function("graded", params=[N])
    a, w = f.input("a", tm.float64, [N]), f.input("w", tm.float64, [8])
    level = f.computation("level", {i: N}, tm.clip(tm.cast(tm.int32, a[i] * 8), 0, 7))
    g = f.reduction("g", {j: 8}, {i: N}, tm.sum, a[i] * w[j], where=level[i] == j)
    f.outputs(f.computation("y", {i: N}, g[level[i]] * a[i]))
    made = tm.vjp(f)
    assert set(made.saved) == {"level", "g"} and made.backward.check().ok
    given = {"a": np.linspace(0.06, 0.96, 7), "w": np.arange(8.0)}
    assert tm.check_gradient(made, **given).ok
    by = {**given, "d_y": np.ones(7)}
    pool = {**by, **dict(zip(["y", *made.saved], made.forward.compile()(**given), strict=True))}
    found = made.backward.compile()(**{name: pool[name] for name in made.backward.algorithm.inputs})
    for one, other in zip(found, made.step.evaluate(**by)[1:], strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_is_saved_and_what_is_allocated_is_what_cost_says() -> None:
    g, sizes = tm.vjp(programs.PROGRAMS["softmax"]()), {"N": 4, "K": 5}
    made = dict(zip(["y", *g.saved], listed(g.forward.evaluate(x=np.ones((4, 5)))), strict=True))
    predicted = {each.name: each.bytes for each in g.forward.cost(**sizes).arrays}
    assert {name: predicted[name] for name in g.saved} == {name: made[name].nbytes for name in g.saved}
    assert g.backward.cost(**sizes).temporaries == g.backward.compile().temporary_bytes(**sizes) != {}


def test_an_adjoint_that_is_a_copy_is_not_computed() -> None:
    (n, m), (i, j) = tm.params("N M"), tm.iters("i j")
    f = tm.Function("f", params=[n, m], assume="N >= 2")
    x = f.input("x", tm.float64, [n, m])
    whole = f.computation("whole", {i: n, j: m}, x[i, j] * x[i, j])  # read by all of a sum
    first = f.computation("first", {i: n, j: m}, x[i, j] * x[i, j])  # of which one row is read
    rows = f.reduction("rows", {i: n}, {j: m}, tm.sum, whole[i, j])
    y, z = f.computation("y", {i: n}, rows[i] * 2.0), f.computation("z", {j: m}, first[1, j])
    f.outputs(y, z)
    g = tm.vjp(f)
    made = g.step.algorithm.computations
    assert "d_whole" not in made and "d_first" in made and g.step.check().ok
    given = {"x": np.arange(6.0).reshape(3, 2) - 2}
    assert tm.check_gradient(g, **given).ok
