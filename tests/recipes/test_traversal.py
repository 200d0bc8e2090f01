"""The recipe for traversals: softmax over runs, scatters and sums, by runs and by positions, on cores and GPUs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

N, E, M = tm.params("N E M")
n, p, m, d, q = tm.iters("n p m d q")
NUMBERS = np.random.default_rng(0)
LENGTHS = [3, 0, 40, 1, 0, 0, 7, 300, 2]
ROWS = np.concatenate([[0], np.cumsum(LENGTHS)]).astype(np.int32)
OF = np.repeat(np.arange(9), LENGTHS)
COUNT = len(OF)
GIVEN = {
    "rows": ROWS,
    "column": NUMBERS.integers(0, 9, COUNT).astype(np.int32),
    "a": NUMBERS.integers(-9, 9, COUNT).astype(np.float32),
    "s": NUMBERS.integers(-9, 9, 9).astype(np.float32),
    "x": NUMBERS.integers(-9, 9, (9, 5)).astype(np.float32),
}
Made = tuple[tm.Function, list[Any]]


def started() -> tuple[tm.Function, Any]:
    f = tm.Function("stages", params=[N, E], assume="N >= 1")
    rows = f.segments("rows", N, of=E)
    f.input("column", tm.int32, [E], values=(0, N))
    f.input("a", tm.float32, [E])
    f.input("s", tm.float32, [N])
    f.input("x", tm.float32, [N, 5])
    return f, rows


def softmax() -> Made:
    f, rows = started()
    a = f["a"]
    top = f.reduction("top", {n: N}, {p: rows[n]}, tm.max, a[p])
    e = f.computation("e", {n: N, p: rows[n]}, tm.exp(a[p] - top[n]))
    total = f.reduction("total", {n: N}, {p: rows[n]}, tm.sum, e[n, p])
    y = f.computation("y", {n: N, p: rows[n]}, e[n, p] / total[n])
    f.outputs(y)
    return f, [top, e, total, y]


def sums() -> Made:
    f, rows = started()
    y = f.reduction("y", {n: N, d: 5}, {p: rows[n]}, tm.sum, f["a"][p] * f["x"][f["column"][p], d])
    f.outputs(y)
    return f, [y]


def scattered() -> Made:
    f, rows = started()
    v = f.computation("v", {n: N, p: rows[n]}, f["a"][p] * f["s"][n])
    y = f.scatter("y", {m: N}, over={p: E}, at=[f["column"][p]], op=tm.sum, expr=v[rows.of(p), p])
    f.outputs(y)
    return f, [v, y]


def scaled() -> Made:
    f, rows = started()
    y = f.computation("y", {n: N, p: rows[n], d: 5}, f["a"][p] * f["x"][n, d])
    f.outputs(y)
    return f, [y]


def right() -> dict[str, np.ndarray]:
    a, s, x, column = (GIVEN[name] for name in ("a", "s", "x", "column"))
    top = np.array([a[k == OF].max(initial=-np.inf) for k in range(9)], np.float32)
    e = np.exp(a - top[OF])
    total, places = np.zeros((9, 5), np.float32), np.zeros(9, np.float32)
    np.add.at(total, OF, a[:, None] * x[column])
    np.add.at(places, column, a * s[OF])
    return {
        "softmax": e / np.bincount(OF, e, 9)[OF], "sums": total, "scattered": places, "scaled": a[:, None] * x[OF],
    }  # fmt: skip


CASES = [(softmax, "runs"), (sums, "runs"), (scattered, "positions"), (scaled, "positions"), (scaled, "runs")]


@pytest.mark.parametrize(("made", "by"), CASES, ids=[f"{made.__name__} by {by}" for made, by in CASES])
@pytest.mark.parametrize("on", [None, tm.gpu()], ids=["cores", "gpu"])
def test_stages_are_computed_in_one_loop(made: Any, by: str, on: Any) -> None:
    f, stages = made()
    text = tm.recipes.traversal(*stages, by=by, on=on)
    if on is not None:
        f.derive_transfers()
    report = f.check()
    assert report.ok and not f.show("remarks"), (report, f.show("remarks"))
    assert (report.bits == "bits preserved") == ("ATOMIC" not in text)
    kernel = f.compile(threads=2) if on is None else f.compile(device="simulator", sanitize=True)
    given = {name: value for name, value in GIVEN.items() if name in f.algorithm.inputs}
    np.testing.assert_allclose(kernel(**given), right()[made.__name__], rtol=1e-5)


@pytest.mark.parametrize("on", [None, tm.gpu()], ids=["cores", "gpu"])
def test_sums_that_are_read_in_place_stay_in_registers(on: Any) -> None:
    """A sum over runs, and a product, with what is made of both: terms of runs keep their bounds in tiles of rows."""
    f, rows = started()
    w = f.input("w", tm.float32, [5, 5])
    total = f.reduction("total", {n: N, d: 5}, {p: rows[n]}, tm.sum, f["a"][p] * f["x"][f["column"][p], d])
    product = f.reduction("product", {n: N, d: 5}, {q: 5}, tm.sum, f["x"][n, q] * w[q, d])
    y = f.computation("y", {n: N, d: 5}, tm.maximum(total[n, d] + product[n, d], 0))
    f.outputs(y)
    tm.recipes.traversal(total, product, y, by="positions", on=on)
    if on is not None:
        f.derive_transfers()
    assert f.check().bits == "bits preserved" and not f.show("remarks")
    assert f.cost("memory", N=1000, E=5000).peaks.keys() <= {"memory", "GPU 0"}
    assert f.cost("memory", N=1000, E=5000).peak < 4096, "neither is stored"
    assert "rows_of[" not in f.show("pseudocode"), "each row has its run, and no test of all positions"
    given = {**{name: value for name, value in GIVEN.items() if name in f.algorithm.inputs}, "w": GIVEN["x"][:5]}
    wanted = np.maximum(right()["sums"] + GIVEN["x"] @ given["w"], 0)
    kernel = f.compile(threads=2) if on is None else f.compile(device="simulator", sanitize=True)
    np.testing.assert_array_equal(kernel(**given), wanted)


def test_a_warp_has_the_terms_of_a_run() -> None:
    f, rows = started()
    y = f.reduction("y", {n: N}, {p: rows[n]}, tm.sum, f["a"][p])
    f.outputs(y)
    tm.recipes.traversal(y, on=tm.gpu(), sizes={"group": 32})
    f.derive_transfers()
    assert str(f.check().determinism["y"]) == "everywhere"
    given = {name: value for name, value in GIVEN.items() if name in f.algorithm.inputs}
    np.testing.assert_array_equal(f.compile(device="simulator")(**given), np.bincount(OF, GIVEN["a"], 9))


def test_what_has_no_runs_is_refused_with_what_to_do() -> None:
    f, (v, y) = scattered()
    with pytest.raises(tm.ArgumentError, match="traversal: y has no values of runs: declare"):
        tm.recipes.traversal(v, y)
    with pytest.raises(tm.ArgumentError, match="by='edges': give 'runs' or 'positions'"):
        tm.recipes.traversal(v, y, by="edges")
    with pytest.raises(tm.ArgumentError, match="traversal: there is no size 'group' here: there are vectors"):
        tm.recipes.traversal(v, y, by="positions", sizes={"group": 32})
    with pytest.raises(tm.ArgumentError, match="a group of 32 threads is for one sum over each run, the only stage"):
        tm.recipes.traversal(v, y, by="positions", on=tm.gpu(), sizes={"group": 32})
    with pytest.raises(tm.ArgumentError, match="256 threads are no multiple of a group of 33: give whole groups"):
        tm.recipes.traversal(v, y, by="positions", on=tm.gpu(), sizes={"group": 33})
    with pytest.raises(tm.ArgumentError, match=r"combine=None: terms of a scatter are added by tm\.ATOMIC, or on"):
        tm.recipes.traversal(v, y, by="positions", on=tm.gpu(), combine=None)
    with pytest.raises(tm.ArgumentError, match="vectors are those of a tile of sums, and y is no sum over runs or an"):
        tm.recipes.traversal(v, y, by="positions", sizes={"vectors": 8})
    assert not f.commands
    (rows,) = scaled()[1]
    with pytest.raises(tm.ArgumentError, match="vectors are those of a tile of sums, and y is no sum"):
        tm.recipes.traversal(rows, by="positions", sizes={"vectors": 8})
    total = sums()[1][0]
    with pytest.raises(tm.ArgumentError, match="y has no value of each position: it takes what is over"):
        tm.recipes.traversal(total, by="positions")


@pytest.mark.parametrize("combine", [None, tm.PRIVATE, tm.ATOMIC], ids=str)
def test_a_scatter_alone_goes_through_its_positions_once(combine: Any) -> None:
    f, _ = started()
    y = f.scatter("y", {m: N, d: 5}, over={p: E}, at=[f["column"][p], d], op=tm.sum, expr=f["a"][p] * f["s"][0])
    f.outputs(y)
    made = tm.recipes.traversal(y, by="positions", combine=combine)
    text = f.show("pseudocode")
    loop = text[text.index("for p in 0 .. E") :]
    assert "vector" in loop and "for m" not in loop, "no loop over places tests each position"
    report = f.check()
    assert report.ok and (report.bits == "bits preserved") == (combine is None), report
    assert ("on threads" in made.loops[-1]) == (combine is not None)
    right = np.zeros((9, 5), np.float32)
    np.add.at(right, GIVEN["column"], (GIVEN["a"] * GIVEN["s"][0])[:, None])
    given = {name: value for name, value in GIVEN.items() if name in f.algorithm.inputs}
    np.testing.assert_array_equal(f.compile(threads=2)(**given), right)
