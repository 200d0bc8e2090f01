"""The recipe for several reductions and what is computed from them: one kernel, or one loop, and values too."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.selection import first
from tiramisu_py.errors import ArgumentError
from tiramisu_py.recipes import Cpu

WIDE = Cpu(vector_bytes=64, registers=32, first=48 << 10, second=2 << 20)
N, M = tm.params("N M")
ITERATORS = h, w, x, y = tm.iters("h w x y")
SHAPES = [(1, 1), (3, 31), (5, 33), (7, 130), (37, 8)]
FORMS: dict[str, tuple[dict[Any, Any], dict[Any, Any]]] = {
    "rows": ({h: N}, {w: M}), "columns": ({w: M}, {h: N}), "whole": ({}, {h: N, w: M}),
}  # fmt: skip
Made = tuple[tm.Function, list[tm.Computation]]


def matrix(name: str, assume: str = "") -> tuple[tm.Function, Any]:
    """A function of one matrix that is not empty."""
    f = tm.Function(name, params=[N, M], assume="N >= 1 and M >= 1" + (f" and {assume}" if assume else ""))
    return f, f.input("a", tm.float32, [N, M])


def softmax(form: str) -> Made:
    """Powers over their sum along rows or columns."""
    f, a = matrix("softmax")
    values, over = FORMS[form]
    own = (*values,)
    top = f.reduction("top", values, over, tm.max, a[h, w])
    power = tm.exp(a[h, w] - top[own])
    total = f.reduction("total", values, over, tm.sum, power)
    z = f.computation("z", {h: N, w: M}, power / total[own])
    f.outputs(z)
    return f, [z]


def layer_norm(form: str) -> Made:
    """Mean and variance, both outputs, and what has mean 0 and variance 1."""
    f, a = matrix("layer_norm")
    values, over = FORMS[form]
    own = (*values,)
    mean = f.reduction("mean", values, over, tm.mean, a[h, w])
    apart = a[h, w] - mean[own]
    square = f.reduction("square", values, over, tm.mean, apart * apart)
    z = f.computation("z", {h: N, w: M}, apart / tm.sqrt(square[own] + np.float32(1e-5)))
    f.outputs(mean, square, z)
    return f, [z]


def statistics(form: str, assume: str = "") -> Made:
    """What `f.reduction` makes of several steps."""
    f, a = matrix("statistics", assume)
    values, over = FORMS[form]
    results = [f.reduction(op, values, over, getattr(tm, op), a[h, w]) for op in ("mean", "var", "norm", "logsumexp")]
    f.outputs(*results)
    return f, results


def pair(form: str, assume: str = "") -> Made:
    """A sum and a maximum of one array, which is an output computed from the input."""
    f, a = matrix("pair", assume)
    p = f.computation("p", {h: N, w: M}, a[h, w] * 2 + 1)
    made = [f.reduction(name, *FORMS[form], op, p[h, w]) for name, op in (("s", tm.sum), ("t", tm.max))]
    f.outputs(p, *made)
    return f, [*made]


def softmax_and_mean(form: str) -> Made:
    """Softmax, and the mean beside it."""
    f, stages = softmax(form)
    mean = f.reduction("mean", *FORMS[form], tm.mean, f["a"][h, w])
    f.outputs(*stages, mean, replace=True)
    return f, [*stages, mean]


def lengths() -> Made:
    """Two reductions of different lengths."""
    f = tm.Function("lengths", params=[])
    a, c = f.input("a", tm.float32, [1000]), f.input("c", tm.float32, [2176])
    s = f.reduction("s", {}, {x: 1000}, tm.sum, a[x])
    t = f.reduction("t", {}, {y: 2176}, tm.max, c[y])
    f.outputs(s, t)
    return f, [s, t]


def joined() -> Made:
    """What is apart from the mean of 80 terms, in two loops, of values in two loops."""
    f = tm.Function("joined", params=[N])
    a = f.input("a", tm.float32, [N, 3, 10, 8])
    mean = f.reduction("mean", {h: N, w: 3}, {x: 10, y: 8}, tm.mean, a[h, w, x, y])
    z = f.computation("z", {h: N, w: 3, x: 10, y: 8}, a[h, w, x, y] - mean[h, w])
    f.outputs(z)
    return f, [z]


MADE: dict[str, tuple[Callable[..., Made], list[Any]]] = {
    "softmax of rows": (softmax, ["rows"]), "softmax of columns": (softmax, ["columns"]),
    "softmax of rows and means": (softmax_and_mean, ["rows"]),
    "layer norm of rows": (layer_norm, ["rows"]), "layer norm of columns": (layer_norm, ["columns"]),
    "statistics of rows": (statistics, ["rows"]), "statistics of columns": (statistics, ["columns"]),
    "statistics of everything": (statistics, ["whole"]), "statistics of few rows": (statistics, ["rows", "N <= 8"]),
    "a pair of rows": (pair, ["rows"]), "a pair of columns": (pair, ["columns"]), "a pair": (pair, ["whole"]),
    "a pair of few rows": (pair, ["rows", "N <= 8"]), "a pair of few columns": (pair, ["columns", "M <= 64"]),
    "two lengths": (lengths, []), "joined loops": (joined, []),
}  # fmt: skip
#: The kernels of what several blocks compute, in two passes: those that read a result come after it.
KERNELS = {
    "statistics of everything": 4, "statistics of few rows": 4, "a pair": 2, "a pair of few rows": 2,
    "a pair of few columns": 2,
}  # fmt: skip


def given(name: str) -> list[tuple[np.ndarray[Any, Any], ...]]:
    """Arrays of odd shapes."""
    random = np.random.default_rng(len(name))
    if name == "two lengths":
        return [(random.standard_normal(1000, np.float32), random.standard_normal(2176, np.float32))]
    shapes: list[Any] = [(k, 3, 10, 8) for k in (0, 1, 41)] if name == "joined loops" else SHAPES
    shapes = [s for s in shapes if ("few rows" not in name or s[0] <= 8) and ("few columns" not in name or s[1] <= 64)]
    return [(random.standard_normal(shape, np.float32),) for shape in shapes]


def assert_values(f: tm.Function, kernel: Any, name: str) -> None:
    """The values of a kernel are those of the algorithm."""
    for arrays in given(name):
        for one, other in zip(*(each if isinstance(each, tuple) else (each,) for each in
                                (kernel(*arrays), f.evaluate(*arrays))), strict=True):  # fmt: skip
            np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


def assert_replays(text: str, f: tm.Function, make: Callable[..., Made], *arguments: Any) -> None:
    """The text gives the same program."""
    other, _ = make(*arguments)
    exec(text, {"tm": tm, "f": other})
    assert other.show("pseudocode") == f.show("pseudocode")


@pytest.mark.parametrize("name", first([*MADE], 8))
def test_they_are_one_kernel_with_the_values_of_the_algorithm(name: str) -> None:
    make, arguments = MADE[name]
    f, stages = make(*arguments)
    text = tm.recipes.reduction(*stages, on=tm.gpu())
    assert_replays(text, f, make, *arguments)
    f.derive_transfers()
    assert f.check().ok
    assert f.source()[f"{f.name}.cu"].count("TM_KERNEL") == KERNELS.get(name, 1)
    assert_values(f, f.compile(device="simulator", sanitize=True), name)


@pytest.mark.parametrize("name", first([*MADE], 8))
def test_on_cores_they_share_loops_and_have_the_values_of_the_algorithm(name: str) -> None:
    make, arguments = MADE[name]
    f, stages = make(*arguments)
    text = tm.recipes.reduction(*stages, cpu=WIDE)
    assert_replays(text, f, make, *arguments)
    assert f.check().ok
    assert_values(f, f.compile(), name)
    if "rows" in name or name == "a pair":
        assert f.show("pseudocode").count("parallel(static)") == 1


def test_softmax_of_rows_needs_neither_barriers_nor_shared_memory() -> None:
    f, stages = softmax("rows")
    tm.recipes.reduction(*stages, on=tm.gpu())
    f.derive_transfers()
    text = f.source()["softmax.cu"]
    assert not re.search("TM_BARRIER|TM_SHARED|tm_atomic", text) and "top@gpu0" not in f.show("pseudocode")


@pytest.mark.parametrize("name", ["a pair of columns", "statistics of everything"])
def test_the_last_block_goes_on_with_the_results_of_all(name: str) -> None:
    make, arguments = MADE[name]
    f, stages = make(*arguments)
    sizes = {"loads": 2} if name == "a pair of columns" else {}
    text = tm.recipes.reduction(*stages, on=tm.gpu(), across=tm.LAST_BLOCK, sizes=sizes)
    assert_replays(text, f, make, *arguments)
    f.derive_transfers()
    assert f.check().ok
    assert f.source()[f"{f.name}.cu"].count("TM_KERNEL") == (1 if name == "a pair of columns" else 2)
    assert_values(f, f.compile(device="simulator", sanitize=True), name)


def test_what_both_read_is_loaded_once_on_cores() -> None:
    for form in FORMS:
        _, stages = pair(form)
        assert "t.update.after(s.update, " in tm.recipes.reduction(*stages, cpu=WIDE).replace("_partial", "")


def test_terms_one_by_one_are_a_thread_each_and_what_follows_is_in_it() -> None:
    f, stages = softmax("rows")
    assert "TREE" not in tm.recipes.reduction(*stages, on=tm.gpu(), determinism="ordered")
    f.derive_transfers()
    assert f.check().determinism["total"] == "ordered"
    assert f.source()["softmax.cu"].count("TM_KERNEL") == 1
    assert_values(f, f.compile(device="simulator", sanitize=True), "softmax of rows")


def test_results_of_another_row_are_read_in_a_kernel_of_their_own() -> None:
    f = tm.Function("shifted", params=[N])
    a = f.input("a", tm.float32, [N, 64])
    s = f.reduction("s", {h: N}, {w: 64}, tm.sum, a[h, w])
    z = f.computation("z", {h: (1, N), w: 64}, a[h, w] - s[h - 1])
    f.outputs(z)
    tm.recipes.reduction(z, on=tm.gpu())
    f.derive_transfers()
    assert f.check().ok and f.source()["shifted.cu"].count("TM_KERNEL") == 2
    values = np.random.default_rng(0).standard_normal((19, 64), np.float32)
    np.testing.assert_allclose(f.compile(device="simulator")(values), f.evaluate(values), rtol=1e-4, atol=1e-5)


def test_loops_stay_as_declared_if_nothing_is_to_be_joined() -> None:
    for on in (None, tm.gpu()):
        f, stages = joined()
        assert "coalesce" not in tm.recipes.reduction(*stages, on=on, coalesce=False, cpu=WIDE)
        if on is not None:
            f.derive_transfers()
        assert f.check().ok


def test_a_search_records_schedules_before_and_after_coalescing_to_be_replayed(tmp_path: Path) -> None:
    def make(**choice: bool) -> tm.Function:
        f, stages = joined()
        tm.recipes.reduction(*stages, cpu=WIDE, **choice)
        return f

    found = tm.tune(make, {"coalesce": [False, True]}, sizes={"N": 3}, database=tmp_path / "points.sqlite", repeats=1)
    assert {point.outcome for point in found.points} <= {"measured", "stopped"}
    for point in found.points:
        assert ("coalesce" in "\n".join(map(str, point.commands))) == point.parameters["coalesce"]
        other = tm.Function.of(joined()[0].algorithm, point.commands)
        assert other.show("pseudocode") == make(**point.parameters).show("pseudocode")
    with closing(sqlite3.connect(tmp_path / "points.sqlite")) as database:
        kept = [commands for (commands,) in database.execute("SELECT commands FROM points")]
    assert sorted("coalesce" in commands for commands in kept) == [False, True]


def test_atomic_additions_are_for_those_who_give_up_bits() -> None:
    f, stages = statistics("whole")
    before = f.show("pseudocode")
    with pytest.raises(ArgumentError, match=r'choose tm.TWO_PASS or tm.LAST_BLOCK, or tm.ATOMIC with determinism="not'):
        tm.recipes.reduction(*stages, on=tm.gpu(), across=tm.ATOMIC)
    assert f.show("pseudocode") == before
    tm.recipes.reduction(*stages, on=tm.gpu(), across=tm.ATOMIC, determinism="not_guaranteed")
    f.derive_transfers()
    assert f.check().ok
    assert_values(f, f.compile(device="simulator", sanitize=True), "statistics of everything")
