"""Conditions at their worst, remainders, and loops in stages: compared with every value that variables can have."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiramisu_py.algorithm.expressions import Binary, Const, Expr, Iter, Param
from tiramisu_py.algorithm.types import bool_, float32, int64
from tiramisu_py.ir import Allocate, For, GpuIndex, If, Let, Load, Node, Store
from tiramisu_py.ir.arithmetic.kernel_ranges import Limits, condition_of, constant_span
from tiramisu_py.ir.arithmetic.linear import number
from tiramisu_py.ir.arithmetic.remainders import as_remainders
from tiramisu_py.ir.rewriting import Names, walk
from tiramisu_py.passes.kernels.full_blocks import staged
from tiramisu_py.program.loops import Unroll

SHAPE = (4, 3, 1)
i0, x, y, u = (Iter(name, int64) for name in ("i0", "x", "y", "u"))
M = Param("M", int64)
EMPTY = Store("s", (number(0),), Const(0.0, float32), "s")


def value(e: Expr, values: dict[str, int]) -> int:
    """An expression over whole numbers."""
    match e:
        case Const():
            return int(e.value)
        case Iter() | Param():
            return values[e.name]
        case Binary():
            a, b = value(e.left, values), value(e.right, values)
            return int(
                {
                    "+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "//": lambda: a // b,
                    "%": lambda: a % b, "<": lambda: a < b, "<=": lambda: a <= b, ">": lambda: a > b,
                    ">=": lambda: a >= b,
                }[e.op]()
            )  # fmt: skip
    return -value(e.children()[0], values)


def limits() -> Limits:
    """In a block of 4 x 3 threads, inside a loop of u from 2 x on."""
    found = Limits(SHAPE)
    for name, axis in (("x", 0), ("y", 1)):
        found = found.inside(Let(name, GpuIndex("thread", axis), EMPTY))
    return found.inside(For("u", 2 * x, 2 * x + number(5), EMPTY))


def inside() -> list[dict[str, int]]:
    """Every thread and every iteration."""
    threads = itertools.product(range(SHAPE[0]), range(SHAPE[1]))
    return [{"x": a, "y": b, "u": c} for a, b in threads for c in range(2 * a, 2 * a + 5)]


factors = st.integers(-9, 9)


@settings(deadline=None)
@given(factors, factors, factors, factors, st.integers(-20, 20), st.sampled_from(["<", "<=", ">", ">="]))
def test_a_condition_at_its_worst_holds_only_where_all_threads_meet_the_condition(a, b, c, d, e, op):
    left = number(a) * x + number(b) * y + number(c) * u + number(d) * i0
    condition = Binary(op, left, M + number(e), bool_)
    form = limits().form(condition)
    assert form is not None
    for whole in (False, True):
        assert_same(condition_of(form, whole), condition)
    worst = limits().worst(form)
    assert worst is not None
    for at, size in itertools.product(range(4), range(0, 60, 7)):
        given_ = {"i0": at, "M": size}
        if value(condition_of(worst), given_):
            assert all(value(condition, {**given_, **each}) for each in inside())


def assert_same(a: Expr, b: Expr) -> None:
    """Two conditions hold at the same places."""
    for each in inside()[::3]:
        for at, size in itertools.product(range(3), range(0, 30, 4)):
            values = {"i0": at, "M": size, **each}
            assert value(a, values) == value(b, values), f"{a} / {b} at {values}"


@pytest.mark.parametrize(
    "condition",
    [
        u < (M - y - 1) // 3 - 4 * i0 + 1,
        u >= (M - y - 1) // 3,
        12 * i0 + 4 * y + x < 4 * M,
        x // 2 + 4 * i0 < M,
    ],
)
def test_quotients_in_conditions_are_multiplied_out_or_divided(condition):
    form = limits().form(condition)
    assert form is not None
    assert_same(condition_of(form), condition)


def test_a_full_tile_says_so_in_words_of_the_sizes():
    form = limits().form(4 * i0 + x < M)
    worst = None if form is None else limits().worst(form)
    assert worst is not None
    assert str(condition_of(worst, whole=True)) == "4 * i0 + 4 <= M"


def test_a_loop_of_two_upper_bounds_has_the_constant_extent_and_asks_for_the_other():
    loop = For("u", 2 * i0, Binary("min", 2 * i0 + number(4), M, int64), EMPTY)
    span = constant_span(loop, limits())
    assert span is not None
    assert (span.extent, [str(test) for test in span.tests]) == (4, ["u < M"])


def test_a_loop_whose_extent_depends_on_the_thread_has_the_largest_and_asks():
    loop = For("u", i0, Binary("min", i0 - (y + 2) // 3 + number(2), M, int64), EMPTY)
    span = constant_span(loop, limits())
    assert span is not None
    assert (str(span.high), len(span.tests)) == ("i0 + 2", 2)


# -- remainders

quotients = st.sampled_from([(1, 2), (1, 5), (2, 4), (3, 2), (8, 2)])


@settings(deadline=None)
@given(quotients, st.integers(-3, 3), st.integers(-9, 9), st.booleans())
def test_remainders_are_those_of_what_they_replace(parts, factor, offset, shifted):
    m, n = parts
    dividend = x + number(3) if shifted else x
    inner = dividend if m == 1 else dividend // number(m)
    e = number(factor) * inner - number(factor * n) * (dividend // number(m * n)) + number(offset) * y
    changed = as_remainders(e)
    for a, b in itertools.product(range(-40, 40), (0, 3)):
        assert value(changed, {"x": a, "y": b}) == value(e, {"x": a, "y": b}), f"{e} as {changed}"
    assert factor == 0 or "%" in str(changed)


# -- loops in stages


def loop(stored: Expr, loaded: Expr) -> Node:
    """An unrolled loop that stores in an array from which it loads."""
    content = Load("two", (loaded, u + number(1)), float32)
    return For("u", number(0), number(8), Store("two", (stored, u), content, "heat"), tag=Unroll())


def test_what_is_stored_is_computed_before_where_no_iteration_loads_it():
    node = staged(loop(x % 2, (x + 1) % 2), Names(()))
    assert isinstance(node, Allocate)
    assert node.register
    assert [inner.buffer for inner in walk(node) if isinstance(inner, Store)] == [node.buffer, "two"]


@pytest.mark.parametrize("loaded", [x % 2, (x + 2) % 2, (x + 1) % 3, y % 2])
def test_what_an_iteration_may_load_is_stored_at_once(loaded):
    node = loop(x % 2, loaded)
    assert staged(node, Names(())) is node or not any(isinstance(inner, Allocate) for inner in walk(node))
    assert not isinstance(staged(node, Names(())), Allocate | If)
