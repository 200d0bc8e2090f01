"""Runs of positions found by a binary search: the same values as by an array, in as many steps as a search takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.lower.loops.test_run_bounds import value
from tiramisu_py.algorithm.expressions import Binary, Const, Iter
from tiramisu_py.algorithm.types import bool_, int64
from tiramisu_py.ir import Allocate, Assign, Block, Declare, For, If, Let, Load, Node, Store
from tiramisu_py.ir.arithmetic.linear import number
from tiramisu_py.lower.loops.monotone_search import monotone_test
from tiramisu_py.lower.lowering import lower

N, E = tm.params("N E")
n, p, k, d, j, p0, p1, n0, n1 = tm.iters("n p k d j p0 p1 n0 n1")
F = 4
START = np.array([0, 3, 3, 20, 21, 40, 40, 55, 64, 64, 101], np.int32)
OF = np.repeat(np.arange(10), np.diff(START))
A = np.arange(101.0) % 7
S = np.arange(1.0, 11.0)


def scaled(covering: bool = True) -> tuple[tm.Function, Any]:
    """a[p] times a factor of the run of p."""
    f = tm.Function("scaled", params=[N, E])
    if covering:
        run = f.segments("rows", N, of=E, found="search")[n]
    else:
        rows = f.input("rows", tm.int32, [N + 1], values=(0, E + 1), monotone=True)
        run = (rows[n], rows[n + 1])
    a, s = f.input("a", tm.float64, [E]), f.input("s", tm.float64, [N])
    y = f.computation("y", {n: N, p: run}, a[p] * s[n])
    f.outputs(y)
    return f, y


def visits(f: tm.Function, start: np.ndarray[Any, Any], most: int) -> dict[int, int]:
    """The places of y that are stored, once each, with the run; in at most so many iterations of all loops."""
    turns, stored = 0, dict[int, int]()
    numbers = [*map(int, start)]
    sizes = {"N": len(start) - 1, "E": max(numbers[-1], 101 if len(start) == len(START) else 0), "rows": numbers}

    def run(node: Node | None, known: dict[str, Any]) -> None:
        nonlocal turns
        match node:
            case Block():
                known = dict(known)
                for child in node.body:
                    run(child, known)
            case Declare() | Assign():
                known[node.variable] = worth(node.value, known)
            case If():
                run(node.then if worth(node.condition, known) else node.otherwise, known)
            case Let():
                run(node.body, inner := {**known, node.variable: worth(node.value, known)})
                known.update({name: inner[name] for name in known})
            case Allocate():
                run(node.body, known)
            case For():
                for turn in range(worth(node.lower, known), worth(node.upper, known), node.step):
                    turns += 1
                    assert turns < most
                    run(node.body, inner := {**known, node.variable: turn})
                    known.update({name: inner[name] for name in known})
            case Store():
                place = worth(node.indices[0], known)
                assert place not in stored
                stored[place] = worth(node.value.right.indices[0], known)

    run(lower(f.completed).body, sizes)
    return stored


def worth(e: Any, known: Mapping[str, Any]) -> Any:
    if isinstance(e, tm.Expr) and type(e).__name__ == "Select":
        return worth(e.yes if worth(e.condition, known) else e.no, known)
    if isinstance(e, Binary) and e.op in (">>", "+", "-", "<", "<=", "&", "min"):
        left, right = worth(e.left, known), worth(e.right, known)
        return left >> right if e.op == ">>" else value(Binary(e.op, *map(number, map(int, (left, right))), int64), {})
    if isinstance(e, Load):
        place = worth(e.indices[0], known)
        assert 0 <= place < len(known[e.buffer])
        return int(known[e.buffer][place])
    return value(e, known) if not hasattr(e, "operand") else worth(e.operand, known)


ORDERS: dict[str, Callable[[Any], Any]] = {
    "one loop": lambda y: y.coalesce(n, p, into=j),
    "interchange": lambda y: y.interchange(n, p),
    "tiles of positions": lambda y: y.split(p, 8, p0, p1).reorder(p0, n, p1),
    "tiles of runs inside": lambda y: y.split(n, 4, n0, n1).reorder(p, n0, n1),
    "vectors": lambda y: y.interchange(n, p).vectorize(p, 4),
    "reversed": lambda y: y.interchange(n, p).reverse(n),
    "skewed": lambda y: y.interchange(n, p).skew(p, n, 1),
}


@pytest.mark.parametrize("order", ORDERS)
def test_a_search_finds_the_run_of_each_position(order: str) -> None:
    f, y = scaled()
    ORDERS[order](y)
    assert f.check().ok and "rows_of" not in f.algorithm.computations
    assert not any("runs through all" in remark for remark in f.show("remarks"))
    np.testing.assert_array_equal(f.evaluate(START, A, S, as_scheduled=True), A * S[OF])


@pytest.mark.parametrize("order", [name for name in ORDERS if name not in ("reversed", "skewed")])
def test_a_search_takes_few_steps(order: str) -> None:
    f, y = scaled()
    ORDERS[order](y)
    start = np.concatenate([np.zeros(2000, int), np.arange(13), np.full(2988, 12)])  # 5,000 runs of 12 positions
    assert visits(f, start, 12 * 60) == {place: np.searchsorted(start, place, "right") - 1 for place in range(12)}


def test_runs_that_leave_out_positions_are_searched_too() -> None:
    f, y = scaled(covering=False)
    y.interchange(n, p)
    start = START.copy()
    start[0], start[-1] = 2, 95
    assert f.check().ok
    assert visits(f, start, 101 * 40) == {place: OF[place] for place in range(2, 95)}


LOOPS: dict[str, Callable[[Any], object]] = {
    "runs outside": lambda y: y.reorder(n, p),
    "blocks of runs": lambda y: y.split(n, 4, n0, n1),
    "blocks of a run": lambda y: y.split(p, 4, p0, p1),
    "skewed runs": lambda y: y.skew(n, p, 1),
    "positions outside": lambda y: y.reorder(p, n),
    "tiles": lambda y: y.tile(n, p, 4, 4, n0, p0, n1, p1),
    "runs of a block of positions": lambda y: [y.split(p, 4, p0, p1), y.reorder(p0, n, p1)],
    "runs of a block for each position": lambda y: [y.split(n, 4, n0, n1), y.reorder(n0, p, n1)],
}


@pytest.mark.parametrize("order", LOOPS)
def test_a_search_is_only_where_positions_are_known_and_the_report_has_the_fact_that_it_needs(order: str) -> None:
    f = tm.Function("sums", params=[N, E])
    rows = f.input("rows", tm.int32, [N + 1], values=(0, E + 1), monotone=True)
    a = f.input("a", tm.float64, [E])
    y = f.reduction("y", {n: N}, {p: (rows[n], rows[n + 1])}, tm.sum, a[p])
    f.outputs(y)
    LOOPS[order](y.update)
    searched = "_first_step in" in f.show("pseudocode")
    assert searched == ([*LOOPS].index(order) > 3)
    assert ("declared: rows is monotone" in f.check().trusted) == searched


def test_the_run_of_a_position_is_found_where_it_is_read() -> None:
    f = tm.Function("factors", params=[N, E])
    rows, w = f.segments("rows", N, of=E, found="search"), f.input("w", tm.float64, [N])
    z = f.computation("z", {p: E}, w[rows.of(p)])
    f.outputs(z)
    f["rows_of"].compute_at(z, p)
    assert f.check().ok and "allocate rows_of[1] in memory" in f.show("pseudocode")
    np.testing.assert_array_equal(f.compile()(START, S, E=101), S[OF])


def test_threads_of_a_gpu_search() -> None:
    f, y = scaled()
    y.coalesce(n, p, into=j).split(j, 32, p0, p1).tag_gpu([p0], [p1])
    f.derive_transfers()
    assert f.check().ok, f.check()
    np.testing.assert_array_equal(f.compile(device="simulator", sanitize=True)(START, A, S), A * S[OF])


def test_a_file_keeps_how_runs_are_found(tmp_path: Path) -> None:
    f, y = scaled()
    y.coalesce(n, p, into=j)
    f.save(tmp_path / "scaled.json")
    loaded = tm.load(tmp_path / "scaled.json")
    assert (
        "j_" not in f.show("pseudocode")
        and loaded.show("pseudocode") == f.show("pseudocode")
        and "n_first" in f.show("pseudocode")
    )


def test_another_way_to_find_runs_is_refused() -> None:
    f = tm.Function("scaled", params=[N, E])
    with pytest.raises(tm.DeclarationError, match=r"the segments rows have found='tree': give 'array' or 'search'"):
        f.segments("rows", N, of=E, found="tree")


def test_only_conditions_that_change_once_are_searched() -> None:
    v, x = Iter("v", int64), Iter("x", int64)

    def start(index: Any) -> Load:
        return Load("start", (index,), int64)

    def test(small: Any, large: Any) -> Any:
        return monotone_test(small, large, 0, "v", (), lambda name: name == "start")

    plus, minus = (lambda a, b, op=op: Binary(op, a, b, int64) for op in "+-")
    assert not test(start(v), x).rising and test(x, start(plus(v, x))).rising
    assert not test(x, start(minus(x, v))).rising and test(minus(x, v), start(v)).rising
    assert test(v, start(v)) is None and test(start(v), start(plus(v, x))) is None  # both sides grow
    assert test(x, Load("other", (v,), int64)) is None and test(v, x) is None  # not known to grow; nothing is loaded
    assert test(x, start(Binary("*", v, v, int64))) is None and test(x, start(start(v))).rising
    found, later = test(plus(x, Const(1, int64)), start(plus(v, Const(1, int64)))), test(start(v), x)
    assert found.ends_after(later) and not later.ends_after(found)
    assert not test(x, start(v)).ends_after(later)
    assert str(found.opposite) == str(Binary("<", found.large, found.small, bool_))


def test_bounds_of_a_loop_inside_that_name_another_one_are_searched_for_neither() -> None:
    """The last position of a block says nothing before the loop over blocks: runs are gone through as they are."""
    i, x, x0, x1 = tm.iters("i x x0 x1")
    f = tm.Function("blocks_of_runs", params=[N, E])
    rows, a = f.segments("rows", N, of=E, found="search"), f.input("a", tm.int32, [E])
    sums = f.reduction("sums", {i: N}, {x: rows[i]}, tm.sum, a[x] - x)
    f.outputs(sums)
    sums.update.split(x, 4, x0, x1)
    sums.update.rfactor(x0)
    sums.update.separate_at(i, [N - 1])
    assert "_first" not in f.show("pseudocode")
    given = {"rows": np.array([0, 3, 3, 11], np.int32), "a": np.arange(11, dtype=np.int32)[::-1].copy()}
    np.testing.assert_array_equal(f.compile()(**given), f.evaluate(**given))
