"""`verify` finds each kind of broken loop IR, and says what is wrong; sound IR it passes over."""

from __future__ import annotations

import pytest

from tiramisu_py.algorithm.expressions import Binary, Cast, Const, Expr, Iter, Param, Select, Unary
from tiramisu_py.algorithm.operators import sum_
from tiramisu_py.algorithm.types import DType, bool_, float32, float64, int32, int64
from tiramisu_py.ir import (
    Allocate,
    ArrayArgument,
    Assign,
    Barrier,
    Block,
    Complete,
    Copy,
    Declare,
    Events,
    For,
    GpuIndex,
    If,
    KernelArray,
    KernelFunction,
    Launch,
    Let,
    Load,
    LoopFunction,
    Node,
    OnGpus,
    Piece,
    Post,
    Private,
    Ramp,
    Record,
    Requests,
    Scalar,
    ScalarArgument,
    Shifted,
    Side,
    Store,
    Variable,
)
from tiramisu_py.ir.properties import collapses_together, no_tagged_step, no_unrolled_loop, no_vector_loop
from tiramisu_py.ir.verify import verify
from tiramisu_py.program.loops import Combine, Parallel, Unroll, Vector
from tiramisu_py.program.statement import SendMode

N = Param("N", int64)
AT = Iter("i", int64)
ZERO, ONE = Const(0, int64), Const(1, int64)
KERNEL = KernelFunction(
    "k", ("n",), (), (KernelArray("y", float32, (Param("n", int64),), is_constant=False),), (1, 1, 1), Block(())
)


def function(body: Node, *kernels: KernelFunction) -> LoopFunction:
    """A function of x, y (floats) and a scalar a."""
    arrays = [ArrayArgument(name, float32, (N,), is_input=name == "x", is_output=name == "y") for name in "xy"]
    return LoopFunction(
        "f", ("N",), (*arrays, ScalarArgument("a", float32)), (), body, gpus=OnGpus(kernels=kernels or (KERNEL,))
    )


def load(index: Expr, dtype: DType = float32) -> Load:
    return Load("x", (index,), dtype)


def store(index: Expr, value: Expr, *more: Expr) -> Store:
    return Store("y", (index, *more), value, "y")


def loop(body: Node, variable: str = "i", lower: Expr = ZERO, upper: Expr = N) -> For:
    return For(variable, lower, upper, body)


def inside(index: Expr = AT, value: Expr | None = None) -> Node:
    return loop(store(index, load(index) if value is None else value))


def of(op: str, left: Expr, right: Expr, dtype: DType) -> Binary:
    return Binary(op, left, right, dtype)


VECTOR = Declare("v", load(Ramp(ZERO, 4)), lanes=4)
V, W = Variable("v", float32), Variable("w", float32)


def post(array: str, piece: Piece) -> Post:
    return Post(True, array, float32, piece, ZERO, 0, SendMode.STANDARD, None, False, "p")


def copy(first: tuple[Expr, ...], target: str = "y") -> Copy:
    return Copy(target, None, (ZERO,), "x", None, first, (N,), float32, 0, 0, False, "c")


SOUND: tuple[Node, ...] = (
    inside(),
    inside(value=of("*", load(AT), Scalar("a", float32), float32)),
    Block((VECTOR, store(Ramp(ZERO, 4), V))),
    Block((Declare("w", load(ZERO)), Assign("w", load(ONE), "w"), store(ZERO, W))),
    Allocate("t", (N,), float32, loop(Store("t", (AT,), load(AT), "t"))),
    Launch("k", (ONE, ONE, ONE), (N,), ("y",), 0, 0),
    Events("e", (N,), 0, loop(Record("e", (AT,), 0, 0))),
    copy((ZERO,)),
    post("x", Piece((ZERO,), (Side(N, (1,)),))),
)

AFTER_ITS_SCOPE = Block((Allocate("t", (N,), float32, Block(())), Store("t", (ZERO,), load(ZERO), "t")))
CHANGED_CONSTANT = Block((Declare("w", load(ZERO), constant=True), Assign("w", load(ONE), "w")))

BROKEN: tuple[tuple[str, Node], ...] = (
    ("i is not defined there", store(AT, load(ZERO))),
    ("M is not defined there", loop(store(AT, load(AT)), upper=Param("M", int64))),
    ("w is not defined there", Block((store(ZERO, W), Declare("w", load(ZERO))))),
    ("w is not defined there", Block((If(of("<", ZERO, N, bool_), Declare("w", load(ZERO))), store(ZERO, W)))),
    ("i is int64, but is used as int32", inside(value=Cast(Iter("i", int32), float32))),
    ("i is defined inside another i", loop(inside())),
    ("w is declared in the scope of another w", Block((Declare("w", load(ZERO)), Declare("w", load(ONE))))),
    ("N is defined inside another N", Let("N", ONE, store(ZERO, load(N)))),
    ("* makes float32 of float32 and float64", inside(value=of("*", load(AT), Const(2.0, float64), float32))),
    ("< makes int64 of int64 and int64", loop(store(of("<", AT, N, int64), load(AT)))),
    ("- makes float64 of float32", inside(value=Cast(Unary("-", load(AT), float64), float32))),
    ("a select of", inside(value=Select(of("<", AT, N, bool_), load(AT), Const(1, int32), float32))),
    ("y is float32, but its value is float64", inside(value=Const(1.0, float64))),
    ("x is float32, but is loaded as float64", inside(value=Cast(load(AT, float64), float32))),
    ("x has 1 indices, but is used with 2", inside(value=Load("x", (AT, AT), float32))),
    ("y has 1 indices, but is used with 2", loop(store(AT, load(AT), AT))),
    ("the buffer t does not exist there", inside(value=Load("t", (AT,), float32))),
    ("the buffer t does not exist there", AFTER_ITS_SCOPE),
    ("an index of x is int32", inside(value=load(Const(0, int32)))),
    ("where int64 is needed", loop(store(AT, load(AT)), upper=Const(4, int32))),
    ("where bool is needed", If(ONE, store(ZERO, load(ZERO)))),
    ("has 4 lanes, where a scalar is needed", loop(store(AT, load(AT)), upper=Ramp(ZERO, 4))),
    ("has 4 lanes, where a scalar is needed", If(of("<", Ramp(ZERO, 4), N, bool_), store(ZERO, load(ZERO)))),
    ("operands have 4 and 8 lanes", store(Ramp(ZERO, 4), of("+", load(Ramp(ZERO, 4)), load(Ramp(ZERO, 8)), float32))),
    ("y has 1 lanes, but its value has 4", Block((VECTOR, store(ZERO, V)))),
    ("are shifted by 4", Block((VECTOR, store(Ramp(ZERO, 4), Shifted(V, V, 4, float32))))),
    ("a ramp starts at a vector", store(Ramp(Ramp(ZERO, 4), 4), load(Ramp(ZERO, 4)))),
    ("w of 4 lanes has 4 lanes, but its value has 8", Declare("w", load(Ramp(ZERO, 8)), lanes=4)),
    ("assigns to w, which is not declared there", Assign("w", load(ZERO), "w")),
    ("assigns to w, which is constant there", CHANGED_CONSTANT),
    ("loop i has step 0", For("i", ZERO, N, store(AT, load(AT)), step=0)),
    ("has private copies of t", For("i", ZERO, N, Block(()), reductions=(Private("t", sum_, Combine.PRIVATE),))),
    ("has two private copies", For("i", ZERO, N, Block(()), reductions=(Private("y", sum_, Combine.PRIVATE),) * 2)),
    ("Barrier is on the host", Barrier("b")),
    ("threadIdx.x is on the host", store(GpuIndex("thread", 0), load(ZERO))),
    ("starts q, which is not a kernel", Launch("q", (ONE, ONE, ONE), (), (), 0, 0)),
    ("passes 0 values to k", Launch("k", (ONE, ONE, ONE), (), ("y",), 0, 0)),
    ("passes 0 arrays to k", Launch("k", (ONE, ONE, ONE), (N,), (), 0, 0)),
    ("passes t, which does not exist there", Launch("k", (ONE, ONE, ONE), (N,), ("t",), 0, 0)),
    ("e is used as an event or request, which does not exist there", Record("e", (), 0, 0)),
    ("e has 1 indices, but is used with 0", Events("e", (N,), 0, Record("e", (), 0, 0))),
    ("q is used as an event or request", Requests("r", ONE, Complete("q", ZERO, ONE, "c"))),
    ("a box of t is moved, which does not exist there", copy((ZERO,), "t")),
    ("a copy of 1 extents begins at 2 indices of x", copy((ZERO, ZERO))),
    ("a box of x is float32 with 2 indices", post("x", Piece((ZERO, ZERO), ()))),
    ("the steps of a box of x", post("x", Piece((ZERO,), (Side(N, (1, 1)),)))),
)  # fmt: skip


@pytest.mark.parametrize("body", SOUND, ids=str)
def test_sound_loops_have_no_fault(body: Node) -> None:
    assert list(verify(function(body))) == []


@pytest.mark.parametrize(("words", "body"), BROKEN, ids=[words for words, _ in BROKEN])
def test_a_fault_is_said(words: str, body: Node) -> None:
    assert words in " | ".join(verify(function(body)))


def test_a_statement_of_the_host_is_not_in_a_kernel() -> None:
    body = Launch("k", (ONE, ONE, ONE), (N,), ("y",), 0, 0)
    broken = KernelFunction("k", (), (), (), (1, 1, 1), body)
    assert "Launch is in a kernel" in " | ".join(verify(function(Block(()), broken)))


def test_threads_come_to_a_barrier_together() -> None:
    divergent = If(of("<", GpuIndex("thread", 0), ONE, bool_), Barrier("b"))
    broken = KernelFunction("k", (), (), (), (4, 1, 1), divergent)
    assert "a barrier under a condition" in " | ".join(verify(function(Block(()), broken)))


def tagged(tag: Parallel | Unroll | Vector, step: int = 1) -> For:
    return For("i", ZERO, N, store(AT, load(AT)), step, tag)


@pytest.mark.parametrize(
    ("holds", "good", "bad"),
    [
        (no_vector_loop, tagged(Parallel()), tagged(Vector(8))),
        (no_unrolled_loop, tagged(Vector(8)), tagged(Unroll())),
        (no_tagged_step, tagged(Parallel(), 2), tagged(Vector(8), 2)),
        (collapses_together, tagged(Parallel()), tagged(Parallel(collapse=2))),
        (collapses_together, tagged(Parallel()), tagged(Parallel(collapse=0))),
        (
            collapses_together,
            For("i", ZERO, N, For("j", ZERO, N, Block(()), tag=Parallel(collapse=0)), tag=Parallel(collapse=2)),
            For("i", ZERO, N, For("j", AT, N, Block(()), tag=Parallel(collapse=0)), tag=Parallel(collapse=2)),
        ),
    ],
)  # fmt: skip
def test_a_property_holds_or_not(holds: object, good: Node, bad: Node) -> None:
    assert callable(holds)
    assert list(holds(good)) == []
    assert list(holds(bad))
