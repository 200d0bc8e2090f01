"""Passes over all of a small domain: every pair of bounds, every shape, every constant, beside counting in Python."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import numpy as np
import pytest

from tests.programs.loop_ir.short_names import function, given, load, loop, number, result, size, store, updated, var
from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.expressions import Binary, Cast, Const, Expr, Iter, Param, Unary
from tiramisu_py.algorithm.operators import sum_
from tiramisu_py.algorithm.types import bool_, float32, int32, int64
from tiramisu_py.interpret import run
from tiramisu_py.ir import Allocate, ArrayArgument, Block, For, If, LoopFunction, Node, Store
from tiramisu_py.ir.arithmetic.facts import NO_FACTS
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.ir.rewriting import Names, walk
from tiramisu_py.passes import join_dimensions
from tiramisu_py.passes.base import About
from tiramisu_py.passes.kernels.readability import WriteRemainders
from tiramisu_py.passes.pipeline import optimise
from tiramisu_py.passes.vectors import narrow
from tiramisu_py.program.loops import Tag, Unroll, Vector

i, j, k = var("i"), var("j"), var("k")
L, H, M = size("L"), size("H"), size("M")


def value_of(e: Expr, names: Mapping[str, int]) -> int:
    """An integer expression in Python."""
    match e:
        case Const():
            return int(e.value)
        case Iter() | Param():
            return names[e.name]
        case Cast():
            return value_of(e.operand, names)
        case Unary(op="-"):
            return -value_of(e.operand, names)
        case Binary():
            a, b = value_of(e.left, names), value_of(e.right, names)
            known = {"+": a + b, "-": a - b, "*": a * b, "min": min(a, b), "max": max(a, b)}
            return known[e.op] if e.op in known else {"//": a // b, "%": a % b}[e.op]
    raise AssertionError(f"no integer: {e}")


def only_store(node: Node) -> Store:
    (found,) = (inner for inner in walk(node) if isinstance(inner, Store))
    return found


# -- narrowing


@pytest.mark.parametrize(("factor", "offset"), [*product((-2, -1, 1, 3), (-5, 4))])
def test_lanes_are_narrowed_only_where_all_their_values_fit(
    factor: int, offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In words of 4 bits: every range of a loop between -12 and 12. Small factors are narrowed wherever they fit."""
    monkeypatch.setattr(narrow, "LOWEST", -8)
    monkeypatch.setattr(narrow, "HIGHEST", 7)
    form = typed(factor * i + offset, int64)
    for low, high in product(range(-12, 12), range(-11, 13)):
        if low < high:
            body = store("y", i, Cast(form, float32))
            told = narrow.narrowed(loop("i", high, body, lower=low, tag=Vector(4)), NO_FACTS)
            value = only_store(told).value
            assert isinstance(value, Cast)
            fits = all(-8 <= factor * at + offset <= 7 for at in (low, high - 1))
            is_narrow = value.operand.dtype == int32
            assert is_narrow <= fits if factor == 3 else is_narrow is fits, (low, high)
            assert all(value_of(value, {"i": at}) == factor * at + offset for at in range(low, high))


# -- strips, masks, and what is left


def counted(body: Node, *arrays: ArrayArgument) -> LoopFunction:
    """A function that counts in y."""
    return function("counted", "L H M", [*arrays, result("y", 60, dtype=int32, is_input=True)], body)


def ran(told: LoopFunction, **given: Any) -> np.ndarray[Any, np.dtype[Any]]:
    """The iterations that ran, each as often as it did."""
    found = np.zeros(60, np.int32)
    sizes = {name: given.pop(name, 0) for name in "LHM"}
    run(told, {"y": found, **given}, sizes)
    return np.repeat(np.arange(60), found)


def counting(lower: int | Expr, upper: int | Expr, width: int, remainder: str) -> LoopFunction:
    """A vector loop that counts its iterations."""
    body = updated("y", i, sum_, Const(1, int32), int32)
    told = loop("i", upper, body, lower=lower, tag=Vector(width, remainder=remainder))
    return counted(told)


BOUNDS = {
    "from 0": (0, H),
    "from a size": (L, H),
    "from the larger, to the smaller": (Binary("max", L, M, int64), Binary("min", H, number(9), int64)),
    "a tile": (Binary("*", L, number(3), int64), Binary("min", typed(3 * L + 3, int64), H, int64)),
}


@pytest.mark.parametrize("remainder", ["scalar", "mask"])
@pytest.mark.parametrize("width", [2, 4])
@pytest.mark.parametrize("bounds", BOUNDS)
def test_every_iteration_runs_once_whatever_is_left(bounds: str, width: int, remainder: str) -> None:
    lower, upper = BOUNDS[bounds]
    plain = counting(lower, upper, width, remainder)
    told = optimise(plain, 8)
    (row,) = (each for each in walk(plain.body) if isinstance(each, For))
    for low, high in product(range(5), range(11)):
        sizes = {"L": low, "H": high, "M": 1}
        wanted = range(value_of(row.lower, sizes), value_of(row.upper, sizes))
        assert np.array_equal(ran(told, **sizes), [*wanted]), sizes


def test_constant_bounds_leave_nothing_out_and_run_nothing_twice() -> None:
    for low, high, remainder in product(range(3), range(4, 14), ("scalar", "mask")):
        assert np.array_equal(ran(optimise(counting(low, high, 4, remainder), 16)), [*range(low, high)]), (low, high)


@pytest.mark.parametrize("step", [1, 2, 3, 4])
@pytest.mark.parametrize("tag", [Vector(4, remainder="mask"), Unroll(2)], ids=["vector", "unroll"])
def test_loops_with_a_step_run_the_iterations_of_range(step: int, tag: Tag) -> None:
    body = updated("y", i, sum_, Const(1, int32), int32)
    told = optimise(counted(For("i", typed(L, int64), typed(H, int64), body, step, tag)), 16)
    for low, high in product(range(4), range(14)):
        assert np.array_equal(ran(told, L=low, H=high), [*range(low, high, step)]), (low, high)


@pytest.mark.parametrize("op", ["<", "<=", ">", ">=", "==", "!="])
def test_iterations_that_tests_tell_apart_run_as_before(op: str) -> None:
    """Loops are peeled where a test changes."""
    compare = {"<": lt, "<=": le, ">": gt, ">=": ge, "==": eq, "!=": ne}[op]
    for bound in range(-1, 5):
        body = If(Binary(op, i, number(bound), bool_), updated("y", i, sum_, Const(1, int32), int32))
        told = optimise(counted(loop("i", H, body)))
        for high in range(8):
            assert np.array_equal(ran(told, H=high), [at for at in range(high) if compare(at, bound)]), (bound, high)


@pytest.mark.parametrize("shift", range(4))
def test_aligned_loops_run_every_iteration_once(shift: int) -> None:
    """Along a row of a temporary, from any element on."""
    row = store("t", i + shift, load("x", i + shift, dtype=int32) + 1, int32)
    written = loop("i", H, row, lower=L, tag=Vector(4, remainder="mask"))
    read = loop("j", H, updated("y", j, sum_, load("t", j + shift, dtype=int32), int32), lower=L)
    plain = counted(Allocate("t", (number(64),), int32, Block((written, read))), given("x", 64, dtype=int32))
    told = optimise(plain, 16)
    for low, high in product(range(5), range(0, 50, 7)):
        assert np.array_equal(ran(told, x=np.zeros(64, np.int32), L=low, H=high), [*range(low, high)]), (low, high)


# -- dimensions that become one


@pytest.mark.parametrize("shape", list(product((1, 2, 3), repeat=3)))
def test_the_digits_of_a_number_become_the_number(shape: tuple[int, int, int]) -> None:
    outer, middle, inner = shape
    count = outer * middle * inner
    extents = tuple(map(number, shape))
    for offset in range(3):
        at = typed(j + offset, int64)
        digits = [(at // (middle * inner)), (at // inner) % middle, at % inner]
        place = tuple(simplified(typed(e, int64)) for e in digits)
        whole = join_dimensions._joined(place, extents, range(3))
        two = join_dimensions._joined(place, extents, range(1, 3))
        for value in range(count):
            names = {"j": value}
            own = [value_of(e, names) for e in place]
            assert value_of(whole, names) == (own[0] * middle + own[1]) * inner + own[2]
            assert value_of(two, names) == own[1] * inner + own[2]


# -- quotients, remainders and clamps


@pytest.mark.parametrize("divisor", range(1, 6))
def test_divisions_and_clamps_fold_to_the_same_number(divisor: int) -> None:
    forms = [
        (factor * i + offset) // divisor * multiple + rest * ((factor * i + offset) % divisor)
        for factor, offset, multiple, rest in product(
            (-2, 1, divisor, 2 * divisor), (-3, 0, 4), (-divisor, divisor), (0, 1)
        )
    ]
    forms += [
        Binary(op, Binary(other, typed(i + 2), number(a), int64), number(b), int64)
        for op, other, a, b in product(("min", "max"), ("min", "max", "//", "%"), (1, 3), (-2, 0, 3))
    ]
    for e in forms:
        whole = typed(e, int64)
        folded = simplified(whole)
        about = About(Names(set()))
        written = only_store(WriteRemainders().apply(store("y", 0, Cast(whole, float32)), about)).value
        for at in range(-7, 8):
            wanted = value_of(whole, {"i": at})
            assert value_of(folded, {"i": at}) == wanted, (str(whole), str(folded), at)
            assert value_of(written, {"i": at}) == wanted, (str(whole), str(written), at)
