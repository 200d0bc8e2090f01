"""Remarks with the commands that help: vectors whose lanes are apart in memory, copies of a body around a point."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tiramisu_py as tm

N, M, K = tm.params("N M K")
i, j, k, i0, i1, j0, j1 = tm.iters("i j k i0 i1 j0 j1")


def rows(value: Callable[[tm.Input], object] = lambda a: a[i, j] * 2, **declared: object) -> tm.Function:
    f = tm.Function("rows", params=[N, M])
    a = f.input("a", tm.float32, [N, M], **declared)
    f.outputs(f.computation("b", {i: N, j: M}, value(a)))
    return f


def product() -> tm.Function:
    f = tm.Function("product", params=[N, M, K])
    a, b = f.input("a", tm.float32, [N, K]), f.input("b", tm.float32, [K, M])
    f.outputs(f.reduction("c", {i: N, j: M}, {k: K}, tm.sum, a[i, k] * b[k, j]))
    return f


def interchanged(f: tm.Function) -> None:
    f["b"].interchange(i, j)
    f["b"].vectorize(i, 8)


def tiled(f: tm.Function) -> None:
    f["b"].tile(i, j, 8, 8, i0, j0, i1, j1)
    f["b"].vectorize(i1, 8, remainder="mask")


def along_terms(f: tm.Function) -> None:
    f["c"].update.vectorize(k, 8, combine=tm.PRIVATE)


def along_rows(f: tm.Function) -> None:
    f["c"].update.reorder(j, k, i)
    f["c"].update.vectorize(i, 8)


@pytest.mark.parametrize(
    ("made", "schedule", "arrays", "commands"),
    [
        (rows, interchanged, ("a", "b"), "b.interchange(i, j) and b.vectorize(j, 8)"),
        (rows, tiled, ("a", "b"), 'b.vectorize(j1, 8, remainder="mask")'),
        (product, along_terms, ("b",), "c.update.interchange(k, j) and c.update.vectorize(j, 8)"),
        (product, along_rows, ("a", "c"), "c.update.reorder(k, i, j) and c.update.vectorize(j, 8)"),
    ],
)
def test_commands_of_the_remark_give_whole_vectors_when_taken_literally(
    made: Callable[[], tm.Function],
    schedule: Callable[[tm.Function], None],
    arrays: tuple[str, ...],
    commands: str,
) -> None:
    f = made()
    schedule(f)
    sizes = {"N": 19, "M": 21, **({"K": 18} if made is product else {})}
    (remark,) = f.cost(**sizes).remarks
    subject, loop = f.algorithm.outputs[0], f.commands[-1].text.partition("vectorize(")[2].partition(",")[0]
    assert remark.startswith(f"{subject}: strided along {loop}: {', '.join(arrays)}; {commands} instead of ")
    cost = next(each for each in f.cost(**sizes).statements if each.lanes is not None)
    assert cost.strided == arrays
    assert f"% of the lanes in arithmetic, one by one in {', '.join(arrays)} (strided)" in str(f.cost(**sizes))
    f.undo()
    names = {"b": f["b"], "tm": tm} if made is rows else {"c": f["c"], "tm": tm}
    for command in commands.split(" and "):
        eval(command, names | {"i": i, "j": j, "k": k, "i1": i1, "j1": j1})
    assert not any("strided along j" in each for each in f.cost(**sizes).remarks)
    left = {each for cost in f.cost(**sizes).statements for each in cost.strided}
    assert len(left) < len(arrays)
    given = {
        name: np.random.default_rng(1).random([sizes[str(extent)] for extent in each.shape], dtype=np.float32)
        for name, each in f.algorithm.inputs.items()
    }
    np.testing.assert_allclose(f.evaluate(as_scheduled=True, **given), f.evaluate(**given), rtol=1e-6)


def test_a_loop_that_carries_a_dependence_is_no_advice() -> None:
    f = tm.Function("summed", params=[N, M])
    a = f.input("a", tm.float32, [N, M])
    b = f.computation("b", {i: N, j: M}, lambda b: tm.select(j > 0, b[i, j - 1], 0.0) + a[i, j], dtype=tm.float32)
    f.outputs(b)
    interchanged(f)
    assert f.cost(N=9, M=9).remarks == ("b: strided along i: b, a",)


@pytest.mark.parametrize(
    ("value", "declared"),
    [
        (lambda a: a[j, i], {}),
        (lambda a: a[i, j], {"strides": [1, N]}),
    ],
    ids=["transposed", "columns first"],
)
def test_what_is_apart_along_each_loop_gets_a_remark_without_commands(
    value: Callable[[tm.Input], object], declared: dict[str, object]
) -> None:
    f = tm.Function("turned", params=[N])
    a = f.input("a", tm.float32, [N, N], **declared)
    b = f.computation("b", {i: N, j: N}, value(a))
    f.outputs(b)
    b.vectorize(j, 8)
    assert f.cost(N=16).remarks == ("b: strided along j: a",)


def apart_by_one(f: tm.Function) -> None:
    f["b"].skew(i, j, 1)
    f["b"].vectorize(j, 8)


@pytest.mark.parametrize(
    "schedule", [apart_by_one, lambda f: f["b"].vectorize(j, 8), lambda f: f["b"].interchange(i, j)]
)
def test_whole_vectors_and_loops_without_vectors_have_no_remark(schedule: Callable[[tm.Function], None]) -> None:
    f = rows()
    schedule(f)
    assert f.cost(N=16, M=16).remarks == ()
    assert all(each.strided == () for each in f.cost(N=16, M=16).statements)


def test_an_array_of_one_column_is_contiguous_along_its_rows() -> None:
    f = tm.Function("column", params=[N])
    a = f.input("a", tm.float32, [N, 1])
    b = f.computation("b", {i: N}, a[i, 0] + 1)
    f.outputs(b)
    b.vectorize(i, 8)
    assert f.cost(N=16).remarks == ()
    far = tm.Function("far", params=[N])
    c = far.input("c", tm.float32, [16 * N])
    d = far.computation("d", {i: N}, c[16 * i] + 1)
    far.outputs(d)
    d.vectorize(i, 8)
    assert far.cost(N=16).remarks == ("d: strided along i: c",)


def test_a_loop_of_fewer_iterations_than_lanes_has_no_vectors_and_no_remark() -> None:
    f = tm.Function("few", params=[N])
    a = f.input("a", tm.float32, [4, N])
    b = f.computation("b", {i: 4, j: N}, a[i, j] + 1)
    f.outputs(b)
    b.interchange(i, j)
    b.vectorize(i, 8)
    assert f.cost(N=16).remarks == ()


def pulsed(spread: int = 0) -> tm.Function:
    """A field with a pulse at a point in its middle (or on a line, with `spread`)."""
    f = tm.Function("pulsed", params=[N, M], assume="N >= 5 and M >= 5")
    a, s = f.input("a", tm.float32, [N, M]), f.input("s", tm.float32, [1])
    inside = (i >= 1) & (i < N - 1) & (j >= 1) & (j < M - 1)
    at = (i == N // 2) & ((j == M // 2) if not spread else (j >= spread))
    near = a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1]
    b = f.computation("b", {i: N, j: M}, tm.select(inside, near + tm.select(at, s[0], 0.0), a[i, j]))
    f.outputs(b)
    return f


def bodies(f: tm.Function) -> int:
    """How many times the code of the inside is there."""
    lines = [line.strip() for line in f.show("pseudocode").splitlines()]
    return sum(not line.startswith("#") and "a[i + 1, " in line for line in lines)


def test_copies_around_a_point_are_said_and_vectors_keep_one() -> None:
    f = pulsed()
    assert bodies(f) == 5
    said = "b: copied 4 times around the point where (i == N // 2) & (j == M // 2); b.vectorize(j, 8) keeps one"
    assert f.cost(N=9, M=9).remarks == f.compile().remarks == (said,)
    assert f"  in the code, {said}" in str(f.cost(N=9, M=9))
    f["b"].vectorize(j, 8)
    assert bodies(f) == 1
    assert not any("copied" in each for each in f.cost(N=9, M=9).remarks)
    for shape in ((5, 5), (6, 19), (9, 40)):
        given = {"a": np.random.default_rng(2).random(shape, dtype=np.float32), "s": np.ones(1, np.float32)}
        np.testing.assert_array_equal(f.compile()(**given), f.evaluate(**given))


def test_a_condition_on_a_row_alone_is_still_a_case() -> None:
    f = pulsed(spread=2)
    f["b"].vectorize(j, 8)
    assert bodies(f) > 1 and "select" not in f.show("pseudocode")
    assert f.cost(N=9, M=9).remarks == ()
