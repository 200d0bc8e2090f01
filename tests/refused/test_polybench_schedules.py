"""Wrong schedules of PolyBench's kernels are refused, with the smallest counterexample: one thing is wrong in each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import tiramisu_py as tm
from tests.folders import modules_of

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "polybench"
t, i, j, k, t0, i0, j0, t1, i1, j1 = tm.iters("t i j k t0 i0 j0 t1 i1 j1")
Wrong = Callable[[tm.Function], object]


def kernel(name: str) -> tm.Function:
    """A kernel as it is declared."""
    with modules_of(FOLDER) as load:
        f: tm.Function = load(name).algorithm()
        return f


def mapped(f: tm.Function, names: str, text: str) -> None:
    """Give computations the same time map."""
    for name in names.split():
        f[name].set_schedule(text)


def fields_at_once(f: tm.Function) -> None:
    mapped(f, "ey ex hz", "{ [t, i, j] -> [t0 = floor(t / 16), y = i + t, t, j] }")
    f.order(f["ey"], f["ex"], f["hz"], at=t)


def nodes_in_their_order(f: tm.Function) -> None:
    f["d"].set_schedule("{ [k, i, j] -> [k0 = floor((k - 1) / 8), i0 = floor(i / 8), k, i, j] }")
    f["to"].set_schedule("{ [k, i] -> [k0 = floor((k - 1) / 8), i0 = floor(i / 8), k, i] }")
    f["on"].set_schedule("{ [k, j] -> [k0 = floor((k - 1) / 8), i0 = floor((k - 1) / 8), k, j] }")
    f.order(f["to"], f["on"], f["d"], at=k)


def rows_downwards(f: tm.Function) -> None:
    f["parts"].init.set_schedule("{ [i, j] -> [i, j] }")
    f["parts"].update.set_schedule("{ [i, j, k] -> [i, j, k] }")
    f["pairs"].set_schedule("{ [i, j] -> [i, j] }")
    f.order(f["parts"].init, f["parts"].update, f["pairs"], at=j)


CASES: list[tuple[str, str, Wrong, str, dict[str, int]]] = [
    ("one level of two", "jacobi_1d", lambda f: f["mean"].fold(t, 1), "overwritten", {"T": 1, "N": 4}),
    ("tiles without a skew", "jacobi_2d", lambda f: f["mean"].tile(t, i, 4, 8, t0, i0, t1, i1),
        "order", {"T": 1, "N": 9}),
    ("time inside", "heat_3d", lambda f: f["heat"].interchange(t, i), "overwritten", {"T": 1, "N": 3}),
    ("levels at the same time", "jacobi_2d", lambda f: f["mean"].parallelize(t), "race", {"T": 1, "N": 3}),
    ("a skew that is too small", "seidel_2d", lambda f: mapped(f, "mean", "{ [t, i, j] -> [w = i + j + t, t, i] }"),
        "order", {"T": 2, "N": 4}),
    ("rows of a wavefront in parallel", "seidel_2d", lambda f: f["mean"].skew(t, i, 1).parallelize(i),
        "race", {"T": 1, "N": 4}),
    ("three fields at once", "fdtd_2d", fields_at_once, "order", {"T": 1, "NX": 2, "NY": 2}),
    ("rows in parallel", "lu", lambda f: f["a"].parallelize(i), "race", {"N": 2}),
    ("columns in parallel", "cholesky", lambda f: f["L"].parallelize(j), "race", {"N": 2}),
    ("one order of two", "durbin", lambda f: f["y"].fold(k, 1), "overwritten", {"N": 3}),
    ("elements in parallel", "trisolv", lambda f: f["x"].parallelize(i), "race", {"N": 2}),
    ("nodes in their order", "floyd_warshall", nodes_in_their_order, "order", {"N": 9}),
    ("rows downwards", "nussinov", rows_downwards, "order", {"N": 2}),
    ("a recurrence in vectors", "deriche", lambda f: f["right"].vectorize(j, 8), "race", {"W": 1, "H": 2}),
    ("back substitution forwards", "adi", lambda f: f["u"].set_schedule("{ [t, i, j] -> [t, i, j] }"),
        "order", {"T": 1, "N": 3}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "wrong", "kind", "smallest"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_a_wrong_schedule_of_a_kernel_is_refused(name: str, wrong: Wrong, kind: str, smallest: dict[str, int]) -> None:
    f = kernel(name)
    assert f.check().ok
    wrong(f)
    report = f.check()
    assert not report.ok
    first = report.violations[0]
    assert (first.kind, first.witness.params) == (kind, smallest)
