"""Walks over dealt-out iterations: all small boxes in full, beside counting in Python, in the order of the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from tests.programs.loop_ir.short_names import function, result, store
from tiramisu_py.algorithm.expressions import Binary, Cast, Expr, Iter, Param
from tiramisu_py.algorithm.types import bool_, int32, int64
from tiramisu_py.interpret import run
from tiramisu_py.ir import Block, For, If, Load, LoopFunction, Node
from tiramisu_py.ir.arithmetic.build import number
from tiramisu_py.ir.rewriting import Names, contents, walk
from tiramisu_py.passes.base import About
from tiramisu_py.passes.loops.walk_bundles import WalkBundles

LOWS, SIZES = (0, 2, -1), ("H", "X", "Y")
NAMES = ("h", "x", "y")


def of(op: str, left: Expr, right: Expr) -> Binary:
    return Binary(op, left, right, int64)


def dealt(test: Binary, loops: int, joined: str = "j") -> LoopFunction:
    """Loops over a box, which store what they visit, one after another, in the iterations that a test leaves."""
    at = Load("y", (number(0),), int32)
    code: Expr = number(0)
    for name in NAMES[:loops]:
        code = of("+", of("*", code, number(10)), of("+", Iter(name, int64), number(2)))
    place = Cast(at, int64)
    body: Node = Block((
        store("y", of("+", place, number(1)), Cast(code, int32)),
        store("y", number(0), Binary("+", at, Cast(number(1), int32), int32)),
    ))  # fmt: skip
    node: Node = If(Binary("==", test, Param("P", int64), bool_), body)
    for name, low, size in reversed([*zip(NAMES[:loops], LOWS, SIZES, strict=False)]):
        node = For(name, number(low), of("+", Param(size, int64), number(low)), node, joined=joined)
    return function("dealt", "H X Y P", [result("y", 200, dtype=int32, is_input=True)], node)


def numbered(loops: int) -> Expr:
    total: Expr = number(0)
    for name, low, size in [*zip(NAMES, LOWS, SIZES, strict=True)][:loops]:
        total = of("+", of("*", total, Param(size, int64)), of("-", Iter(name, int64), number(low)))
    return total


def visited(told: LoopFunction, sizes: Sequence[int], part: int) -> list[int]:
    found = np.zeros(200, np.int32)
    params = dict(zip(SIZES, sizes, strict=True)) | {"P": part}
    run(told, {"y": found}, params)
    return [int(each) for each in found[1 : 1 + found[0]]]


def wanted(sizes: Sequence[int], loops: int) -> list[int]:
    """What is visited, by number."""
    ranges = [range(low, low + size) for low, size in zip(LOWS, sizes, strict=True)][:loops]
    found = list[int]()
    for point in product(*ranges):
        code = 0
        for coordinate in point:
            code = 10 * code + coordinate + 2
        found.append(code)
    return found


def walked(told: LoopFunction) -> LoopFunction:
    """The function after the pass, in which no loop over the box is left with a test of numbers."""
    return WalkBundles().apply(told, About(Names({*NAMES, *SIZES, "P", "y"})))


@pytest.mark.parametrize("loops", [2, 3])
@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_each_part_is_walked_in_the_order_of_its_numbers(parts: int, loops: int) -> None:
    plain = dealt(of("%", numbered(loops), number(parts)), loops)
    told = walked(plain)
    assert not any(isinstance(node, For) and node.joined for node in walk(told.body))
    for sizes in product(range(4), repeat=3):
        every = wanted(sizes, loops)
        for part in range(-1, parts + 1):
            own = [code for at, code in enumerate(every) if at % parts == part]
            assert visited(told, sizes, part) == own == visited(plain, sizes, part), (sizes, part)


@pytest.mark.parametrize("loops", [2, 3])
@pytest.mark.parametrize("length", [1, 2, 5])
def test_each_range_is_walked_from_its_first_iteration_to_its_last(length: int, loops: int) -> None:
    told = walked(dealt(of("//", numbered(loops), number(length)), loops))
    assert not any(isinstance(node, For) and node.joined for node in walk(told.body))
    for sizes in product(range(4), repeat=3):
        every = wanted(sizes, loops)
        for part in range(-1, len(every) // length + 2):
            own = [code for at, code in enumerate(every) if at // length == part]
            assert visited(told, sizes, part) == own, (sizes, part)


def test_one_iteration_is_found_by_its_number() -> None:
    told = walked(dealt(numbered(3), 3))
    assert For not in contents(told.body)
    for sizes in product(range(4), repeat=3):
        every = wanted(sizes, 3)
        for part in range(-1, len(every) + 2):
            assert visited(told, sizes, part) == every[part : part + 1] * (part >= 0), (sizes, part)


@pytest.mark.parametrize(
    "test",
    [
        of("%", of("+", numbered(3), number(1)), number(4)),
        of("%", of("+", numbered(3), Iter("h", int64)), number(4)),
        of("%", numbered(2), number(4)),
        of("%", numbered(3), Param("X", int64)),
        of("//", numbered(3), of("+", Iter("h", int64), number(5))),
    ],
    ids=["another begin", "no number", "the number of outer loops", "parts of any number", "a length that differs"],
)
def test_other_tests_stay_as_they_are(test: Binary) -> None:
    plain = dealt(test, 3)
    assert walked(plain).body is plain.body


def test_loops_of_no_bundle_stay_as_they_are() -> None:
    plain = dealt(of("%", numbered(3), number(4)), 3, joined="")
    assert walked(plain).body is plain.body
