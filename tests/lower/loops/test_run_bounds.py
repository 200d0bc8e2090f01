"""Loops over the runs of a CSR matrix, ``start[n] <= p < start[n + 1]``: how many iterations they have, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import pairwise
from operator import add as plus
from operator import and_, floordiv, le, lt, mul, sub
from typing import Any

import numpy as np

import tiramisu_py as tm
from tests.programs.by_hand import computed, every, text
from tiramisu_py.algorithm.expressions import Binary, Cast, Const, Expr, Iter, Param, Unary
from tiramisu_py.ir import Allocate, Block, For, If, Let, Load, LoopFunction, Node
from tiramisu_py.lower.lowering import lower

N, E = tm.params("N E")
n, m, p, k, d, p0, p1, p2, p3 = tm.iters("n m p k d p0 p1 p2 p3")
F = 4
START = np.array([0, 3, 3, 4, 17, 30, 30], np.int32)
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": plus, "-": sub, "*": mul, "//": floordiv, "<": lt, "<=": le, ">=": lambda a, b: a >= b,
    ">": lambda a, b: a > b, "==": lambda a, b: a == b, "&": and_, "min": min, "max": max,
}  # fmt: skip


def value(e: Expr, known: Mapping[str, Any]) -> Any:
    """An expression in Python's numbers, and in arrays by name."""
    match e:
        case Const():
            return e.value
        case Iter() | Param():
            return known[e.name]
        case Cast():
            return value(e.operand, known)
        case Unary(op="-"):
            return -value(e.operand, known)
        case Load():
            return int(known[e.buffer][tuple(value(index, known) for index in e.indices)])
        case Binary():
            return OPERATIONS[e.op](value(e.left, known), value(e.right, known))
    raise AssertionError(e)


def iterations(function: LoopFunction, known: Mapping[str, Any]) -> Counter[str]:
    """How many iterations the loops of each name have, in all."""
    found: Counter[str] = Counter()

    def run(node: Node | None, known: Mapping[str, Any]) -> None:
        match node:
            case Block():
                for child in node.body:
                    run(child, known)
            case If():
                run(node.then if value(node.condition, known) else node.otherwise, known)
            case Let():
                run(node.body, {**known, node.variable: value(node.value, known)})
            case Allocate():
                run(node.body, known)
            case For():
                for turn in range(value(node.lower, known), value(node.upper, known), node.step):
                    found[node.variable] += 1
                    run(node.body, {**known, node.variable: turn})

    run(function.body, known)
    return found


def given() -> dict[str, Any]:
    random = np.random.default_rng(1)
    return {
        "start": START,
        "src": random.integers(0, 6, 30).astype(np.int32),
        "h": random.random((6, F)).astype(np.float32),
        "W": random.random((6, F, F)).astype(np.float32),
    }


def messages(name: str = "messages") -> tuple[tm.Function, Any, Any]:
    """``msg[n, p, d]``, a product for each entry p of row n."""
    f = tm.Function(name, params=[N, E])
    start = f.input("start", tm.int32, [N + 1], values=(0, E + 1), monotone=True)
    src = f.input("src", tm.int32, [E], values=(0, N))
    h, W = f.input("h", tm.float32, [N, F]), f.input("W", tm.float32, [N, F, F])
    msg = f.reduction("msg", {n: N, p: (start[n], start[n + 1]), d: F}, {k: F}, tm.sum, h[src[p], k] * W[n, k, d])
    return f, start, msg


def counted(f: tm.Function) -> Counter[str]:
    """The iterations of a function's loops, whose values are right."""
    function, arrays = lower(f.completed), given()
    assert f.check().ok, f.check()
    (name,) = f.algorithm.outputs
    got = computed(function, {"N": 6, "E": 30}, arrays)[name]
    np.testing.assert_allclose(got, f.evaluate(**arrays), rtol=1e-5)
    return iterations(function, {"N": 6, "E": 30, **arrays})


def blocks(size: int) -> int:
    """The blocks of positions from where each row begins to where it ends; an empty one may end inside of one."""
    return int(sum(-(-high // size) - low // size for low, high in pairwise(START)))


def test_the_loops_of_a_run_alone_have_its_positions() -> None:
    f, _, msg = messages()
    f.outputs(msg)
    assert counted(f)["p"] == 2 * 30  # the start, and the terms


def test_both_loops_of_a_split_have_the_bounds() -> None:
    f, _, msg = messages()
    f.outputs(msg)
    msg.update.split(p, 8, p0, p1)
    found = counted(f)
    assert (found["p"], found["p0"], found["p1"]) == (30, blocks(8), 30)
    msg.update.split(p1, 4, p2, p3)
    found = counted(f)
    assert (found["p0"], found["p2"], found["p3"]) == (blocks(8), blocks(4), 30)


def test_a_jammed_run_has_the_bounds_around_the_loops_inside() -> None:
    f, _, msg = messages()
    f.outputs(msg)
    msg.update.reorder(n, p, k, d).unroll_and_jam(p, 4)
    found = counted(f)
    assert (found["p"], found["p_jam"]) == (30 + blocks(4), 30 * F * F)
    source = f.source()["messages.c"]
    assert "p_full" in source  # whole blocks of a run are repeated, and have no tests
    np.testing.assert_allclose(f.compile()(**given()), f.evaluate(**given()), rtol=1e-5)


def test_statements_that_share_the_loop_share_its_bounds() -> None:
    f, start, msg = messages()
    out = f.computation("out", {n: N, p: (start[n], start[n + 1]), d: F}, msg[n, p, d])
    f.outputs(out)
    msg.compute_at(out, p)
    found = counted(f)
    assert (found["p"], found["k"]) == (30, 30 * F * F)


def test_the_terms_of_a_scatter_are_those_of_the_runs() -> None:
    f, start, msg = messages()
    into = f.input("into", tm.int32, [E], values=(0, N))
    y = f.scatter(
        "y", {m: N, d: F}, over={n: N, p: (start[n], start[n + 1])}, at=[into[p], d], op=tm.sum, expr=msg[n, p, d]
    )
    f.outputs(y)
    assert f.check().ok
    arrays = {**given(), "into": given()["src"][::-1].copy()}
    function = lower(f.completed)
    got = computed(function, {"N": 6, "E": 30}, arrays)["y"]
    np.testing.assert_allclose(got, f.evaluate(**arrays), rtol=1e-5)
    assert iterations(function, {"N": 6, "E": 30, **arrays})["p"] == 3 * 30


def test_an_automatic_schedule_keeps_the_bounds() -> None:
    f, start, msg = messages()
    f.outputs(f.reduction("a", {n: N, p: (start[n], start[n + 1])}, {d: F}, tm.sum, msg[n, p, d]))
    f.auto_schedule(threads=1)
    found = counted(f)
    per_position = 2 + F + F * F  # loops over p, with those over d and k around them
    assert sum(found[name] for name in found if name.startswith("p")) <= per_position * 30


def test_an_order_that_cannot_keep_the_bounds_is_in_the_remarks_with_a_repair_that_works() -> None:
    f, _, msg = messages()
    f.outputs(msg)
    assert f.show("remarks") == ()
    msg.update.reorder(p, n, d, k)
    text = f.show("pseudocode")
    assert "for p in 0 .. E:" in text and "for n in n_first .. n_end:" in text  # each position is searched
    (remark,) = f.show("remarks")
    assert remark.startswith("msg.update: since msg.update.reorder(p, n, d, k), the loop p runs through all positions")
    assert remark.endswith("put n outside: msg.update.reorder(n, p, d, k)")
    msg.update.reorder(n, p, d, k)
    assert f.show("remarks") == () and counted(f)["p"] == 2 * 30


def test_a_skewed_run_has_its_bounds_and_no_remark() -> None:
    f, _, msg = messages()
    f.outputs(msg)
    msg.update.skew(n, p, 1)
    assert counted(f)["p"] == 2 * 30 and f.show("remarks") == ()


def test_runs_of_other_rows_in_one_loop_are_in_the_remarks() -> None:
    f = tm.Function("two", params=[N, E])
    first, second = (f.input(name, tm.int32, [N + 1], values=(0, E + 1), monotone=True) for name in ("s", "t"))
    a = f.input("a", tm.int32, [E])
    one = f.computation("one", {n: N, p: (first[n], first[n + 1])}, a[p] + 1)
    two = f.computation("two_", {n: N, p: (second[n], second[n + 1])}, a[p] + 2)
    f.outputs(one, two)
    two.after(one, p)
    assert f.check().ok
    assert any("one shares it, with other bounds" in remark for remark in f.show("remarks"))


def test_a_value_that_may_be_any_number_of_64_bits_takes_part_in_no_arithmetic() -> None:
    i, w, w0, w1 = tm.iters("i w w0 w1")
    W, = tm.params("W")  # fmt: skip
    f = tm.Function("prefixes", params=[N, W])
    x, end = f.input("x", tm.int64, [N, W]), f.input("end", tm.int64, [N])
    y = f.reduction("y", {i: N}, {w: W}, tm.sum, x[i, w], where=w < end[i])
    f.outputs(y)
    y.update.split(w, 4, w0, w1)
    ends = np.array([0, 3, np.iinfo(np.int64).max, np.iinfo(np.int64).min], np.int64)
    array = np.arange(28, dtype=np.int64).reshape(4, 7)
    wanted = [0, array[1, :3].sum(), array[2].sum(), 0]
    np.testing.assert_array_equal(f.compile()(array, ends), wanted)
    np.testing.assert_array_equal(
        computed(lower(f.completed), {"N": 4, "W": 7}, {"x": array, "end": ends})["y"], wanted
    )


def test_bounds_that_the_loop_itself_computes_stay_tests() -> None:
    i, w = tm.iters("i w")
    W, = tm.params("W")  # fmt: skip
    f = tm.Function("own_ends", params=[N, W])
    given_end = f.input("given_end", tm.int32, [N], values=(0, W + 1))
    x = f.input("x", tm.int64, [N, W])
    end = f.computation("end", {i: N}, given_end[i], values=(0, W + 1))
    y = f.reduction("y", {i: N}, {w: W}, tm.sum, x[i, w], where=w < end[i])
    f.outputs(y)
    end.compute_at(y.update, w).store_in(tm.Buffer("ends", [N], tm.int32), [i])
    assert f.check().ok, f.check()
    array, ends = np.arange(21, dtype=np.int64).reshape(3, 7), np.array([0, 4, 7], np.int32)
    got = computed(lower(f.completed), {"N": 3, "W": 7}, {"x": array, "given_end": ends})["y"]
    np.testing.assert_array_equal(got, [0, array[1, :4].sum(), array[2].sum()])
    (loop,) = (loop for loop in every(lower(f.completed).body, For) if loop.variable == "w")
    assert str(loop.upper) == "W"


def test_values_are_loaded_only_where_their_indices_are_in_the_array() -> None:
    """Without columns nothing is executed, and there may be fewer ends than rows."""
    i, w = tm.iters("i w")
    M, W = tm.params("M W")
    f = tm.Function("few_ends", params=[N, M, W], assume="N <= M or W = 0")
    end = f.input("end", tm.int32, [M], values=(0, W + 1))
    x = f.input("x", tm.int64, [N, W])
    a = f.computation("a", {i: N, w: W}, x[i, w] + 1, where=w < end[i])
    b = f.computation("b", {i: N, w: W}, a[i, w] * 2, where=w < end[i])
    f.outputs(b)
    a.compute_at(b, w)
    assert f.check().ok, f.check()
    function = lower(f.completed)
    assert "w_high" in text(function.body)
    array = np.arange(28, dtype=np.int64).reshape(4, 7)
    for ends, columns in ((np.array([7, 0, 4, 7], np.int32), 7), (np.zeros(0, np.int32), 0)):
        arrays = {"x": array[:, :columns], "end": ends}
        got = computed(function, {"N": 4, "M": len(ends), "W": columns}, arrays)["b"]
        np.testing.assert_array_equal(got, f.evaluate(**arrays))
