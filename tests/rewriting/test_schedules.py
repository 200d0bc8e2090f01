"""Schedules of steps: sums over time beside the adjoint, which keeps two levels; products in tiles; no atomics."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tiramisu_py as tm
from tests.rewriting import programs
from tests.rewriting.judging import listed

t, i, j = tm.iters("t i j")


def levels(f: tm.Function, of: str, **sizes: int) -> int:
    """The bytes of an array."""
    return next(each.bytes for each in f.cost(**sizes).arrays if each.name == of)


def test_a_sum_over_time_takes_its_terms_as_the_adjoint_makes_them() -> None:
    step = tm.vjp(programs.PROGRAMS["rod"]()).step
    step["d_c"].update.reorder(t, i)
    step["d_c"].update.after(step["d_u"], t)  # loops of one direction, and no bit changes
    step["d_u"].fold(t, 2)
    report = step.check()
    assert report.ok and report.bits == "bits preserved"


def test_a_sum_over_an_adjoint_that_runs_forwards_is_declared_so() -> None:
    N = tm.params("N")[0]
    f = tm.Function("backwards", params=[N], assume="N >= 1")
    x, w = f.input("x", tm.float64, [N]), f.scalar("w", tm.float64)
    s = f.computation("s", {i: N}, lambda s: tm.select(i == N - 1, x[i], s[i + 1] * w))
    f.outputs(s)
    step = tm.vjp(f, wrt=["w"]).step
    step["d_w"].update.after(step["d_s_2"], i)  # d_s are the weights
    step["d_s_2"].fold(i, 2)
    assert step.check().ok and step.check().bits == "bits preserved"
    other = programs.PROGRAMS["rod"]()
    step = tm.vjp(other, wrt=["c"]).step
    step["d_c"].update.reverse(t)
    assert "bits preserved" not in step.check().bits


@pytest.mark.parametrize("name", ["rod", "wave"])
def test_auto_schedule_keeps_two_levels_of_an_adjoint_and_changes_no_bit(name: str) -> None:
    f = programs.PROGRAMS[name]()
    step = tm.vjp(f).step
    step.auto_schedule(target="x86-64-v3", threads=2)
    commands = [str(each) for each in step.commands]
    (follows,) = [each for each in commands if ".update.after(d_u, t)" in each]
    assert follows.startswith({"rod": "d_c", "wave": "d_speed"}[name]) and "d_u.fold(t, 2)" in commands
    assert step.check().bits == "bits preserved"
    assert levels(step, "d_u", T=18, N=9) == 2 * 9 * 8
    assert levels(step, "u", T=18, N=9) == 19 * 9 * 8  # it is read at all levels, last ones first
    given = programs.arguments(f, {"T": 5, "N": 11}, 3, False)
    given |= {"d_last": np.random.default_rng(1).random(11)} if name == "rod" else {"d_heard": np.ones(6)}
    for found, expected in zip(listed(step.compile(threads=2)(**given)), listed(step.evaluate(**given)), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("every", [None, 4])
def test_tiles_of_time_backwards_take_the_sum_over_time_along_without_another_bit(every: int | None) -> None:
    f, t0 = programs.PROGRAMS["rod"](), tm.Iter("t0")
    step = tm.vjp(f).step
    step["d_c"].update.reorder(t, i)
    step["d_c"].update.after(step["d_u"], i)
    step["d_u"].fold(t, 2)
    if every is not None:
        step["u"].recompute(t, every=every)
    step["d_u"].skew(t, i, 1)
    step["d_u"].split(t, 3, t0, t)
    step["d_u"].reorder(t0, i, t)
    shown = step.show("loops")
    assert re.search(r"for t0:\n *for i:\n *for t:\n *d_u\n *d_c.update\n", shown)
    assert step.check().ok and step.check().bits == "bits preserved"
    given = programs.arguments(f, {"T": 7, "N": 11}, 3, False) | {"d_last": np.random.default_rng(1).random(11)}
    for found, expected in zip(listed(step.compile()(**given)), listed(step.evaluate(**given)), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_sum_that_is_larger_than_a_level_waits_for_all_levels() -> None:
    step = tm.vjp(programs.PROGRAMS["lstm"]()).step
    step.auto_schedule(target="x86-64-v3", threads=1)
    assert not any("update.after(d_z" in str(each) for each in step.commands)  # d_w has the square of its elements
    assert step.check().ok and "d_z[t, i] * x[t, j]" in step.show("pseudocode")


@pytest.mark.parametrize("name", ["perceptron", "csr", "ring", "three_dimensions", "layer_norm", "harris"])
def test_the_adjoints_of_stencils_products_and_rows_have_no_atomics(name: str) -> None:
    step = tm.vjp(programs.PROGRAMS[name](), wrt=["value"] if name == "csr" else None).step
    step.auto_schedule(target="x86-64-v3", threads=2)
    texts = step.source()
    own = "".join(texts.get(f"{step.name}{ending}", "") for ending in (".c", "_body.h"))
    assert "omp parallel" in own and not re.search("omp atomic(?! write)", own)  # one notes that memory was refused


@pytest.mark.parametrize("fact", ["permutation", "distinct", None])
def test_the_adjoint_of_a_gather_has_atomics_only_where_its_places_may_be_equal(fact: str | None) -> None:
    f = programs.PROGRAMS["permuted" if fact == "permutation" else "placed"]()
    if fact is None:
        n, m, i = *tm.params("N M"), tm.iters("i")[0]
        f = tm.Function("gathered", params=[n, m])
        at, x = f.input("at", tm.int32, [n], values=(0, m)), f.input("x", tm.float64, [m])
        f.outputs(f.computation("y", {i: n}, x[at[i]] * x[at[i]]))
    step = tm.vjp(f, wrt=["x"]).step
    for name, made in step.algorithm.computations.items():
        if made.is_reduction:
            step[name].update.parallelize(tm.Iter(made.over[0]))
            if fact is None:
                assert "race" in str(step.check())
                step.undo()
                step[name].update.parallelize(tm.Iter(made.over[0]), combine=tm.ATOMIC)
        else:
            step[name].parallelize(tm.Iter(made.iterators[0]))
    report = step.check()
    assert report.ok
    own = "".join(text for name, text in step.source().items() if name.startswith(step.name))
    assert len(re.findall("omp atomic(?! write)", own)) == (fact is None)
    assert ("bits preserved" in report.bits) == (fact is not None)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_gradient_by_the_entries_of_a_matrix_goes_through_each_row_once(threads: int) -> None:
    f = programs.PROGRAMS["csr"]()
    step = tm.vjp(f, wrt=["value"]).step
    explained = step.auto_schedule(target="x86-64-v3", threads=threads).explain()
    (e,) = step.algorithm.computations["d_value"].iterators
    assert f"values say the range of {e} for each i" in explained
    # no loop over blocks of entries around the rows, which the proof finds to be apart
    shared = ", parallel" if threads > 1 else ""
    assert re.search(rf"^for i{shared}:\n    for {e}, vector of 4:\n        d_value.update$", step.show("loops"), re.M)
    assert step.check().ok


def test_sums_over_columns_too_are_in_lanes_inside_of_each_entry() -> None:
    (N, M, K, E), (i, j, e) = tm.params("N M K E"), tm.iters("i j e")
    f = tm.Function("rows", params=[N, M, K, E])
    start = f.input("start", tm.int32, [N + 1], values=(0, E + 1), monotone=True)
    column = f.input("column", tm.int32, [E], values=(0, M))
    value, a = f.input("value", tm.float32, [E]), f.input("a", tm.float32, [M, K])
    f.outputs(f.reduction("out", {i: N, j: K}, {e: (start[i], start[i + 1])}, tm.sum, value[e] * a[column[e], j]))
    step = tm.vjp(f, wrt=["value"]).step
    step.auto_schedule(target="x86-64-v3", threads=2)
    texts = [str(each) for each in step.commands]
    assert "d_value.update.reorder(i, e, j)" in texts and "d_value.update.parallelize(i)" in texts
    given = {"start": np.array([0, 3, 3, 5], np.int32), "column": np.array([1, 0, 3, 2, 2], np.int32)}
    numbers = np.random.default_rng(0)
    by, a_values = (numbers.integers(-3, 4, shape).astype(np.float32) for shape in ((3, 9), (4, 9)))
    found = step.compile(threads=2)(**given, value=np.ones(5, np.float32), a=a_values, d_out=by)[-1]
    rows = np.repeat(np.arange(3), np.diff(given["start"]))
    np.testing.assert_array_equal(found, (by[rows] * a_values[given["column"]]).sum(axis=1))


@pytest.mark.slow
def test_all_three_products_of_a_layer_are_computed_in_tiles_of_registers() -> None:
    (n, m, k), o = tm.params("N M K"), tm.iters("o")[0]
    f = tm.Function("layer", params=[n, m, k])
    x, w = f.input("x", tm.float32, [n, m]), f.input("w", tm.float32, [m, k])
    h = f.reduction("h", {i: n, o: k}, {j: m}, tm.sum, x[i, j] * w[j, o])
    f.outputs(f.computation("r", {i: n, o: k}, tm.maximum(h[i, o], 0.0)))
    step = tm.vjp(f).step
    chosen = step.auto_schedule(target="x86-64-v3", threads=1).explain()
    assert chosen.count(": a matrix product in tiles of registers") == 3
    texts = [str(each) for each in step.commands]
    assert any("name='w_packed_'" in each for each in texts)  # w is packed by rows and by columns
    numbers = np.random.default_rng(0)
    given = {"x": numbers.integers(-2, 3, (7, 19)), "w": numbers.integers(-2, 3, (19, 33))}
    given = {name: each.astype(np.float32) for name, each in given.items()}
    by = numbers.integers(-2, 3, (7, 33)).astype(np.float32)
    r, d_x, d_w = step.compile()(**given, d_r=by)
    h_values = given["x"] @ given["w"]
    np.testing.assert_array_equal(r, np.maximum(h_values, 0))
    np.testing.assert_array_equal(d_x, (by * (h_values > 0)) @ given["w"].T)
    np.testing.assert_array_equal(d_w, given["x"].T @ (by * (h_values > 0)))


def test_the_gradient_of_an_element_that_a_value_chooses_is_a_choice() -> None:
    (n, k), (i, o) = tm.params("N K"), tm.iters("i o")
    f = tm.Function("chosen", params=[n, k], assume="K >= 1")
    a, label = f.input("a", tm.float64, [n, k]), f.input("label", tm.int32, [n], values=(0, k))
    whole = f.reduction("whole", {i: n}, {o: k}, tm.sum, a[i, o] * a[i, o])
    f.outputs(f.computation("loss", {i: n}, whole[i] - a[i, label[i]]))
    step = tm.vjp(f).step
    assert not step.algorithm.computations["d_a"].is_reduction and "d_a_from_loss" not in step.algorithm.computations
    step["d_a"].parallelize(tm.iters(step.algorithm.computations["d_a"].iterators[0])[0])
    assert step.check().bits == "bits preserved"
    values, labels, by = np.arange(12.0).reshape(3, 4), np.array([3, 0, 0], np.int32), np.array([1.0, 2.0, -1.0])
    expected = 2 * values * by[:, None]
    expected[np.arange(3), labels] -= by
    np.testing.assert_array_equal(step.compile(threads=2)(a=values, label=labels, d_loss=by)[-1], expected)
