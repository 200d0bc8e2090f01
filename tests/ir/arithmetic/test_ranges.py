"""What loops decide: random expressions inside random loops, checked in every iteration."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.ir.arithmetic.test_simplify import evaluate, number, random_condition, random_index, var
from tiramisu_py.algorithm.expressions import Binary, Const, Expr
from tiramisu_py.algorithm.types import bool_, float32, int64
from tiramisu_py.ir import For, If, Let, Node, Store
from tiramisu_py.ir.arithmetic.facts import Facts, decide

N, M, a, b = var("N"), var("M"), var("a"), var("b")


def store(index: Expr) -> Store:
    return Store("y", (index,), Const(1.0, float32), "y")


def inside(*loops: tuple[str, Expr, Expr], index: Expr) -> Expr:
    """What becomes of an index inside loops."""
    node: Node = store(index)
    for name, lower, upper in reversed(loops):
        node = For(name, lower, upper, node)
    node = decide(node, Facts())
    while isinstance(node, For):
        node = node.body
    assert isinstance(node, Store)
    return node.indices[0]


def least(x: Expr, y: Expr) -> Expr:
    return Binary("min", x, y, int64)


def most(x: Expr, y: Expr) -> Expr:
    return Binary("max", x, y, int64)


def over(x: Expr, d: int) -> Expr:
    return Binary("//", x, number(d), int64)


def test_the_extent_of_a_tile_is_positive() -> None:
    extent = least(number(256), N - 256 * a)
    tiles = ("a", number(0), over(N + 255, 256))
    assert inside(tiles, index=most(extent, number(0))).same_as(extent)


def test_bounds_that_follow_from_outer_loops_disappear() -> None:
    outer, inner = ("a", number(0), N), ("b", a, N)
    assert inside(outer, inner, index=most(b, number(0))).same_as(b)
    assert inside(outer, inner, index=least(a, b)).same_as(a)
    assert inside(outer, index=most(a - 1, number(0))).same_as(most(a - 1, number(0)))


@pytest.mark.parametrize(("choose", "low", "high"), [(most, "N", "b"), (least, "b", "N")])
def test_what_is_the_least_or_the_greatest_of_some_values(choose, low, high) -> None:
    names = {"N": N, "b": b}
    found = decide(Let("b", choose(N, M), store(least(N, b))), Facts())
    assert isinstance(found, Let)
    assert isinstance(found.body, Store)
    assert found.body.indices[0].same_as(names[low])
    found = decide(Let("b", choose(N, M), store(most(N, b))), Facts())
    assert isinstance(found, Let)
    assert isinstance(found.body, Store)
    assert found.body.indices[0].same_as(names[high])


def test_conditions_that_always_hold_disappear() -> None:
    test = If(Binary("<", a, N, bool_), store(a))
    found = decide(For("a", number(0), N, test), Facts())
    assert isinstance(found, For)
    assert isinstance(found.body, If)
    assert isinstance(found.body.condition, Const)


def test_another_variable_of_the_same_name_is_not_meant() -> None:
    hidden = For("a", number(0), N, Let("a", number(0) - M, store(most(a, number(0)))))
    found = decide(hidden, Facts())
    assert isinstance(found, For)
    assert isinstance(found.body, Let)
    assert isinstance(found.body.body, Store)
    assert found.body.body.indices[0].same_as(most(a, number(0)))


def test_preconditions_and_guards_say_what_holds() -> None:
    extent = most(N - 2, number(0))
    known = Facts().where(Binary("&", Binary(">=", N, number(3), bool_), Binary("<", a, M, bool_), bool_))
    assert known.folded(extent).same_as(N - 2)
    assert known.folded(least(a, M)).same_as(a)
    guarded = decide(If(Binary(">", N, number(5), bool_), store(extent), store(extent)), Facts())
    assert isinstance(guarded, If)
    assert isinstance(guarded.then, Store)
    assert isinstance(guarded.otherwise, Store)
    assert guarded.then.indices[0].same_as(N - 2)
    assert guarded.otherwise.indices[0].same_as(extent)


def iterations(loops: list[tuple[str, Expr, Expr]], values: dict[str, int]) -> Iterator[dict[str, int]]:
    """The values of the variables in every iteration."""
    if not loops:
        yield dict(values)
        return
    (name, lower, upper), *rest = loops
    for value in range(evaluate(lower, values), evaluate(upper, values)):
        yield from iterations(rest, {**values, name: value})


@pytest.mark.parametrize("seed", range(6))
def test_folding_inside_loops_keeps_every_value(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(40):
        loops = [("a", _bound(rng, ()), _bound(rng, ())), ("b", _bound(rng, ("a",)), _bound(rng, ("a",)))]
        pick = random_index(rng, 3) if rng.random() < 0.6 else random_condition(rng, 2)
        folded = inside(*loops, index=pick)
        for n, m in ((0, 3), (5, 0), (4, 9), (17, 2)):
            for values in iterations(loops, {"N": n, "M": m}):
                assert evaluate(folded, values) == evaluate(pick, values), (str(pick), str(folded), values)


def _bound(rng: random.Random, names: tuple[str, ...]) -> Expr:
    """A bound as isl makes them: a minimum, a maximum or a quotient of sums."""
    terms = [var(name) for name in (*names, "N", "M")]
    e: Expr = rng.randint(1, 3) * rng.choice(terms) + rng.randint(-3, 6)
    if rng.random() < 0.3:
        e = over(e, rng.randint(2, 5)) + rng.randint(-1, 2)
    if rng.random() < 0.4:
        e = Binary(rng.choice(("min", "max")), e, rng.choice(terms) + rng.randint(-2, 4), int64)
    return e
