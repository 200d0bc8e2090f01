"""The adversarial machine, on loop IR written by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import Binary, Cast, Const, Expr, Iter, Param, Select
from tiramisu_py.algorithm.operators import sum_
from tiramisu_py.interpret import InterpretError, run
from tiramisu_py.ir import (
    Allocate,
    ArrayArgument,
    Assign,
    Block,
    Declare,
    For,
    If,
    Lane,
    Let,
    Load,
    LoopFunction,
    Node,
    Private,
    Ramp,
    Scalar,
    ScalarArgument,
    Store,
)
from tiramisu_py.program.loops import Combine, Parallel, Unroll, Vector

N = Param("N", ty.int64)
SEEDS = range(12)


def at(name: str) -> Expr:
    return Iter(name, ty.int64)


def number(value: int) -> Expr:
    return Const(value, ty.int64)


def number_of(value: float) -> Expr:
    return Const(value, ty.float64)


def op(symbol: str, left: Expr, right: Expr) -> Expr:
    return Binary(symbol, left, right, ty.bool_ if symbol in ("<", "<=", "==", ">") else left.dtype)


def plus(left: Expr, value: int) -> Expr:
    return op("+", left, number(value))


def function(body: Node, **arrays: tuple[int, str]) -> LoopFunction:
    """A function of N whose arrays are float64 with N + `more` elements; the second entry says in, out or inout."""
    declared = tuple(
        ArrayArgument(name, ty.float64, (plus(N, more),), "in" in way, "out" in way)
        for name, (more, way) in arrays.items()
    )
    return LoopFunction("f", ("N",), declared, ((op("<=", number(0), N), "N >= 0 is needed"),), body)


def load(buffer: str, *indices: Expr) -> Load:
    return Load(buffer, indices, ty.float64)


def test_sequential_loops_run_in_order() -> None:
    carried = Store("y", (at("i"),), op("+", load("y", plus(at("i"), -1)), load("x", at("i"))), "y[i]")
    body = Block((Store("y", (number(0),), load("x", number(0)), "y[0]"), For("i", number(1), N, carried)))
    x = np.arange(1.0, 8.0)
    for seed in SEEDS:
        y = np.full(7, np.nan)
        run(function(body, x=(0, "in"), y=(0, "out")), {"x": x, "y": y}, {"N": 7}, seed)
        np.testing.assert_array_equal(y, np.cumsum(x))


@pytest.mark.parametrize("tag", [Parallel(), Vector(4)])
def test_a_carried_dependence_in_a_concurrent_loop_is_noticed(tag: Parallel | Vector) -> None:
    carried = Store("y", (at("i"),), op("+", load("y", plus(at("i"), -1)), load("x", at("i"))), "y[i]")
    body = Block(
        (Store("y", (number(0),), load("x", number(0)), "y[0]"), For("i", number(1), N, carried, tag=tag)),
    )

    def wrong(seed: int) -> bool:
        try:
            run(function(body, x=(0, "in"), y=(0, "out")), {"x": np.ones(9), "y": np.zeros(9)}, {"N": 9}, seed)
        except InterpretError as error:
            assert "y[i] reads y[" in str(error)
            return True
        return False

    assert any(wrong(seed) for seed in SEEDS)


@pytest.mark.parametrize("first", ["store", "load"])
def test_a_vector_runs_lane_by_lane_and_statement_by_statement(first: str) -> None:
    """A load before the store of a later lane is right in all runs, unless a statement before it stores."""
    both = [Store("y", (at("i"),), number_of(5.0), "y[i]"), Store("x", (at("i"),), load("y", plus(at("i"), 1)), "x[i]")]
    body = For("i", number(0), N, Block(tuple(both if first == "store" else both[::-1])), tag=Vector(4))
    seen = set()
    for seed in SEEDS:
        x = np.zeros(8)
        run(function(body, x=(0, "out"), y=(1, "inout")), {"x": x, "y": np.arange(9.0)}, {"N": 8}, seed)
        seen.add(tuple(x))
    right = tuple(np.arange(1.0, 9.0))
    assert (seen == {right}) if first == "load" else (len(seen) > 1)


def test_two_updates_of_one_element_lose_terms_unless_they_are_atomic_or_private() -> None:
    update = Store("y", (number(0),), op("+", load("y", number(0)), load("x", at("i"))), "y_update[i]", sum_)

    def total(reductions: tuple[Private, ...], seed: int) -> float:
        loop = For("i", number(0), N, update, tag=Parallel(), reductions=reductions)
        body = Block((Store("y", (number(0),), Const(0.0, ty.float64), "y_init"), loop))
        y = np.zeros(20)
        written = LoopFunction(
            "f",
            ("N",),
            (
                ArrayArgument("x", ty.float64, (N,), True, False),
                ArrayArgument("y", ty.float64, (N,), False, True, covered=False),
            ),
            (),
            body,
        )
        run(written, {"x": np.arange(20.0), "y": y}, {"N": 20}, seed)
        return float(y[0])

    assert any(total((), seed) != 190 for seed in SEEDS)
    for combine in Combine:
        assert all(total((Private("y", sum_, combine),), seed) == 190 for seed in SEEDS)


def test_a_temporary_inside_a_parallel_iteration_belongs_to_it_and_one_outside_does_not() -> None:
    fill = Store("t", (number(0),), load("x", at("i")), "t[0]")
    use = Store("y", (at("i"),), load("t", number(0)), "y[i]")
    inside = For("i", number(0), N, Allocate("t", (number(1),), ty.float64, Block((fill, use))), tag=Parallel())
    outside = Allocate("t", (number(1),), ty.float64, For("i", number(0), N, Block((fill, use)), tag=Parallel()))

    def result(body: Node, seed: int) -> bool:
        x, y = np.arange(11.0), np.zeros(11)
        run(function(body, x=(0, "in"), y=(0, "out")), {"x": x, "y": y}, {"N": 11}, seed)
        return bool((x == y).all())

    assert all(result(inside, seed) for seed in SEEDS)
    assert not all(result(outside, seed) for seed in SEEDS)


def test_an_index_outside_names_buffer_index_and_statement() -> None:
    for index in (plus(at("i"), 1), plus(at("i"), -1)):
        body = For("i", number(0), N, Store("y", (at("i"),), load("x", index), "y[i]"))
        with pytest.raises(InterpretError, match=r"y\[i\] accesses x\[(3|-1)\], outside"):
            run(function(body, x=(0, "in"), y=(0, "out")), {"x": np.zeros(3), "y": np.zeros(3)}, {"N": 3})


def test_an_element_that_nothing_wrote_may_not_be_read() -> None:
    body = Allocate("t", (N,), ty.float64, For("i", number(0), N, Store("y", (at("i"),), load("t", at("i")), "y[i]")))
    with pytest.raises(InterpretError, match=r"y\[i\] reads t\[0\], which nothing has written"):
        run(function(body, y=(0, "out")), {"y": np.zeros(3)}, {"N": 3})


def test_an_input_may_not_be_written_and_a_covered_output_must_be() -> None:
    body = For("i", number(1), N, Store("y", (at("i"),), Const(1.0, ty.float64), "y[i]"))
    with pytest.raises(InterpretError, match=r"y\[i\] writes y\[1\], an input"):
        run(function(body, y=(0, "in")), {"y": np.zeros(3)}, {"N": 3})
    with pytest.raises(InterpretError, match=r"f returns without having written y\[0\]"):
        run(function(body, y=(0, "out")), {"y": np.zeros(3)}, {"N": 3})


def test_preconditions_shapes_and_types_are_checked() -> None:
    body = Block(())
    with pytest.raises(InterpretError, match="N >= 0 is needed"):
        run(function(body), {}, {"N": -1})
    with pytest.raises(InterpretError, match=r"x is declared as float64\[3\], given as float64\[2\]"):
        run(function(body, x=(0, "in")), {"x": np.zeros(2)}, {"N": 3})
    with pytest.raises(InterpretError, match="float32"):
        run(function(body, x=(0, "in")), {"x": np.zeros(3, dtype=np.float32)}, {"N": 3})
    with pytest.raises(InterpretError, match="needs the argument x"):
        run(function(body, x=(0, "in")), {}, {"N": 3})


def test_ramps_load_and_store_one_element_a_lane() -> None:
    lanes = Ramp(at("i"), 4)
    twice = op("*", load("x", op("*", number(2), lanes)), Const(2.0, ty.float64))
    body = For("i", number(0), N, Store("y", (lanes,), twice, "y[i]"), step=4)
    x, y = np.arange(16.0), np.zeros(8)
    declared = (
        ArrayArgument("x", ty.float64, (op("*", number(2), N),), True, False),
        ArrayArgument("y", ty.float64, (N,), False, True),
    )
    run(LoopFunction("f", ("N",), declared, (), body), {"x": x, "y": y}, {"N": 8})
    np.testing.assert_array_equal(y, 2 * x[::2])


def test_a_select_is_lazy_unless_lanes_differ() -> None:
    for index, lazy in ((at("i"), True), (Ramp(number(0), 4), False)):
        guarded = Select(op("<", index, N), load("x", index), Const(-1.0, ty.float64), ty.float64)
        store = Store("y", (index,), guarded, "y")
        body = For("i", number(0), number(4), store) if lazy else store
        y = np.zeros(4)
        written = function(body, x=(0, "in"), y=(1, "out"))
        if lazy:
            run(written, {"x": np.arange(3.0), "y": y}, {"N": 3})
            np.testing.assert_array_equal(y, [0, 1, 2, -1])
        else:
            with pytest.raises(InterpretError, match=r"y accesses x\[\[0 1 2 3\]\], outside"):
                run(written, {"x": np.arange(3.0), "y": y}, {"N": 3})


def test_declared_variables_are_assigned_to_and_their_lanes_read() -> None:
    total = Iter("t", ty.float64)
    body = Block(
        (
            Declare("t", Const(0.0, ty.float64), lanes=4),
            For("i", number(0), N, Assign("t", op("+", total, load("x", Ramp(at("i"), 4))), "t"), step=4),
            For("k", number(0), number(4), Store("y", (at("k"),), Lane(total, at("k"), ty.float64), "y")),
        )
    )
    y = np.zeros(8)
    declared = (
        ArrayArgument("x", ty.float64, (N,), True, False),
        ArrayArgument("y", ty.float64, (N,), False, True, covered=False),
    )
    run(LoopFunction("f", ("N",), declared, (), body), {"x": np.arange(8.0), "y": y}, {"N": 8})
    np.testing.assert_array_equal(y, [4, 6, 8, 10, 0, 0, 0, 0])


def test_two_lanes_may_not_store_to_one_element() -> None:
    halves = op("//", Ramp(number(0), 4), number(2))
    body = Store("y", (halves,), load("x", Ramp(number(0), 4)), "y")
    with pytest.raises(InterpretError, match="one element of y in two lanes"):
        run(function(body, x=(0, "in"), y=(0, "out")), {"x": np.zeros(4), "y": np.zeros(4)}, {"N": 4})


def test_buffers_of_lanes_hold_a_vector_in_each_element() -> None:
    lanes = Ramp(number(0), 4)
    body = Allocate(
        "acc",
        (number(2),),
        ty.float64,
        Block(
            (
                For("k", number(0), number(2), Store("acc", (at("k"),), load("x", lanes), "acc"), tag=Unroll()),
                Store("y", (lanes,), op("+", load("acc", number(0)), load("acc", number(1))), "y"),
            )
        ),
        register=True,
        lanes=4,
    )
    y = np.zeros(4)
    run(function(body, x=(0, "in"), y=(0, "out")), {"x": np.arange(4.0), "y": y}, {"N": 4})
    np.testing.assert_array_equal(y, 2 * np.arange(4.0))


def test_arithmetic_is_that_of_the_types() -> None:
    cases: list[tuple[Expr, object]] = [
        (Binary("//", Const(-7, ty.int32), Const(2, ty.int32), ty.int32), np.int32(-4)),
        (Binary("%", Const(-7, ty.int32), Const(2, ty.int32), ty.int32), np.int32(1)),
        (Binary("+", Const(200, ty.uint8), Const(100, ty.uint8), ty.uint8), np.uint8(44)),
        (Cast(Const(3.9, ty.float64), ty.int8), np.int8(3)),
        (Binary("/", Const(1.0, ty.float32), Const(3.0, ty.float32), ty.float32), np.float32(1) / np.float32(3)),
        (Binary("min", Const(float("nan"), ty.float64), Const(1.0, ty.float64), ty.float64), np.float64("nan")),
    ]
    for expression, expected in cases:
        out = np.zeros(1, dtype=expression.dtype.numpy)
        declared = (ArrayArgument("out", expression.dtype, (number(1),), False, True),)
        body = Store("out", (number(0),), expression, "out")
        run(LoopFunction("f", (), declared, (), body), {"out": out}, {})
        np.testing.assert_array_equal(out[0], expected)


def test_lets_guards_and_scalar_arguments_are_seen() -> None:
    body = For(
        "i",
        number(0),
        N,
        Let(
            "j",
            op("*", at("i"), number(2)),
            If(
                op("<", at("j"), N),
                Store("y", (at("i"),), Scalar("a", ty.float64), "y"),
                Store("y", (at("i"),), Const(0.0, ty.float64), "y"),
            ),
        ),
    )
    declared = (ScalarArgument("a", ty.float64), ArrayArgument("y", ty.float64, (N,), False, True))
    y = np.full(5, np.nan)
    run(LoopFunction("f", ("N",), declared, (), body), {"a": 2.5, "y": y}, {"N": 5})
    np.testing.assert_array_equal(y, [2.5, 2.5, 2.5, 0, 0])


def test_a_blur_of_17_by_33_takes_less_than_a_second() -> None:
    def third(*terms: Expr) -> Expr:
        return op("/", op("+", op("+", terms[0], terms[1]), terms[2]), Const(3.0, ty.float64))

    rows, columns = number(17), number(33)
    r, c = at("r"), at("c")
    across = third(*(load("image", r, plus(c, k)) for k in range(3)))
    down = third(*(load("bx", plus(r, k), c) for k in range(3)))
    inner = Block(
        (
            For("r", number(0), number(19), For("c", number(0), columns, Store("bx", (r, c), across, "bx"))),
            For("r", number(0), rows, For("c", number(0), columns, Store("by", (r, c), down, "by"), tag=Parallel())),
        )
    )
    body = Allocate("bx", (number(19), columns), ty.float64, inner)
    declared = (
        ArrayArgument("image", ty.float64, (number(19), number(35)), True, False),
        ArrayArgument("by", ty.float64, (rows, columns), False, True),
    )
    image, by = np.random.default_rng(0).random((19, 35)), np.zeros((17, 33))
    run(LoopFunction("blur", (), declared, (), body), {"image": image, "by": by}, {})
    bx = (image[:, :-2] + image[:, 1:-1] + image[:, 2:]) / 3
    np.testing.assert_array_equal(by, (bx[:-2] + bx[1:-1] + bx[2:]) / 3)


@pytest.mark.parametrize("tag", [None, Parallel()], ids=["in order", "on threads"])
@pytest.mark.parametrize("kind", ["let", "allocate", "if", "block", "for"])
def test_statements_nest_to_any_depth(kind: str, tag: Parallel | None) -> None:
    body: Node = Store("y", (at("i"),), Const(7.0, ty.float64), "y")
    for depth in range(2000):
        match kind:
            case "let":
                body = Let(f"v{depth}", number(depth), body)
            case "allocate":
                body = Allocate(f"t{depth}", (number(1),), ty.float64, body)
            case "if":
                body = If(op("<", number(0), number(1)), body)
            case "block":
                body = Block((body,))
            case _:
                body = For(f"k{depth}", number(0), number(1), body)
    y = np.zeros(2)
    run(function(For("i", number(0), N, body, tag=tag), y=(0, "out")), {"y": y}, {"N": 2})
    np.testing.assert_array_equal(y, [7.0, 7.0])


@pytest.mark.parametrize("on_the_left", [True, False])
def test_an_expression_may_have_thousands_of_terms(on_the_left: bool) -> None:
    value: Expr = Const(0.0, ty.float64)
    for term in range(5000):
        pair = (value, Const(float(term), ty.float64))
        value = op("+", *(pair if on_the_left else reversed(pair)))
    y = np.zeros(3)
    run(function(For("i", number(0), N, Store("y", (at("i"),), value, "y")), y=(0, "out")), {"y": y}, {"N": 3})
    np.testing.assert_array_equal(y, np.full(3, 5000 * 4999 / 2))
