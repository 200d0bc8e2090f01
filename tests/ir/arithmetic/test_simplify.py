"""Folding keeps values: random expressions before and after, evaluated by Python."""

from __future__ import annotations

import random

import pytest

from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import Binary, Cast, Const, Expr, Iter, Param, Select, Unary
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.algorithm.types import bool_, int32, int64
from tiramisu_py.ir import Allocate, Block, Comment, For, If, Let, Load, Ramp, Store, Variable
from tiramisu_py.ir.arithmetic.facts import Facts
from tiramisu_py.ir.arithmetic.linear import along_lanes, difference, operands
from tiramisu_py.ir.arithmetic.simplify import Substitution, simplified, simplify
from tiramisu_py.ir.rewriting import is_empty

NAMES = ("a", "b", "N", "M")


def number(value: int) -> Expr:
    return Const(value, int64)


def var(name: str) -> Expr:
    return Param(name, int64) if name.isupper() else Iter(name, int64)


def evaluate(e: Expr, values: dict[str, int]) -> int:
    """The value of an index expression or a condition, by Python's integers."""
    match e:
        case Const():
            return int(e.value)
        case Iter() | Param():
            return values[e.name]
        case Unary():
            inner = evaluate(e.operand, values)
            return -inner if e.op == "-" else int(not inner)
        case Select():
            return evaluate(e.yes if evaluate(e.condition, values) else e.no, values)
        case Cast():
            return evaluate(e.operand, values)
    assert isinstance(e, Binary)
    a, b = evaluate(e.left, values), evaluate(e.right, values)
    table = {
        "+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "//": lambda: a // b, "%": lambda: a % b,
        "min": lambda: min(a, b), "max": lambda: max(a, b), "<": lambda: a < b, "<=": lambda: a <= b,
        ">": lambda: a > b, ">=": lambda: a >= b, "==": lambda: a == b, "!=": lambda: a != b, "&": lambda: a & b,
        "|": lambda: a | b,
    }  # fmt: skip
    return int(table[e.op]())


def random_index(rng: random.Random, depth: int) -> Expr:
    """An index expression."""
    if depth == 0:
        return number(rng.randint(-9, 9)) if rng.random() < 0.5 else var(rng.choice(NAMES))
    op = rng.choice(("+", "-", "*", "//", "%", "min", "max", "neg", "select"))
    left = random_index(rng, depth - 1)
    if op == "neg":
        return Unary("-", left, int64)
    if op == "select":
        return Select(random_condition(rng, depth - 1), left, random_index(rng, depth - 1), int64)
    right = number(rng.randint(1, 8)) if op in ("//", "%") else random_index(rng, depth - 1)
    return Binary(op, left, right, int64)


def random_condition(rng: random.Random, depth: int) -> Expr:
    """A condition on indices."""
    if depth > 0 and rng.random() < 0.4:
        left = random_condition(rng, depth - 1)
        return Binary(rng.choice("&|"), left, random_condition(rng, depth - 1), bool_)
    op = rng.choice(("<", "<=", ">", ">=", "==", "!="))
    test: Expr = Binary(op, random_index(rng, depth), random_index(rng, depth), bool_)
    return Unary("~", test, bool_) if rng.random() < 0.2 else test


@pytest.mark.parametrize("seed", range(20))
def test_folding_an_expression_keeps_its_value(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(60):
        e = random_index(rng, rng.randint(1, 4)) if rng.random() < 0.7 else random_condition(rng, 3)
        folded = simplified(e)
        for _ in range(12):
            values = {name: rng.randint(0, 20) if name.isupper() else rng.randint(-20, 20) for name in NAMES}
            assert evaluate(folded, values) == evaluate(e, values), (str(e), str(folded), values)


@pytest.mark.parametrize("seed", range(20))
def test_putting_in_values_and_folding_at_once_keeps_the_value(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(60):
        whole = random_index(rng, rng.randint(1, 4)) if rng.random() < 0.7 else random_condition(rng, 3)
        e = simplified(whole) if rng.random() < 0.7 else whole
        given = {
            name: random_index(rng, rng.randint(0, 2)) for name in NAMES if not name.isupper() and rng.random() < 0.6
        }
        put_in = Substitution(given).expression(e)
        assert simplified(put_in) is put_in
        for _ in range(12):
            values = {name: rng.randint(0, 20) if name.isupper() else rng.randint(-20, 20) for name in NAMES}
            inner = values | {name: evaluate(value, values) for name, value in given.items()}
            assert evaluate(put_in, values) == evaluate(whole, inner), (str(whole), str(put_in), values)


def test_an_inner_loop_hides_the_variable_that_is_replaced() -> None:
    inner = loop(var("a"), number(9), store(Binary("+", var("a"), var("b"), int64)))
    put_in = Substitution({"a": number(3), "b": number(1)}).statement(Block((store(var("a")), inner)))
    assert isinstance(put_in, Block)
    first, around = put_in.body
    assert isinstance(first, Store) and str(first.indices[0]) == "3"
    assert isinstance(around, For) and str(around.lower) == "3"
    assert isinstance(around.body, Store) and str(around.body.indices[0]) == "a + 1"


@pytest.mark.parametrize("seed", range(10))
def test_what_is_said_to_be_nonnegative_or_a_constant_difference_is(seed: int) -> None:
    rng = random.Random(seed)
    said = 0
    for _ in range(200):
        e, f = random_index(rng, 2), random_index(rng, 2)
        gap = difference(e, f)
        certain = Facts().nonnegative_variables(["a"]).nonnegative(e)
        said += certain + (gap is not None)
        for _ in range(6):
            values = {"a": rng.randint(0, 9), "b": rng.randint(-9, 9), "N": rng.randint(0, 9), "M": rng.randint(0, 9)}
            assert not certain or evaluate(e, values) >= 0, str(e)
            assert gap is None or evaluate(e, values) - evaluate(f, values) == gap, (str(e), str(f))
    assert said > 0


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (var("a") + 0, "a"),
        ((var("a") + 1) + (var("b") - 1), "a + b"),
        (Binary("//", 8 * var("a") + 3, number(8), int64), "a"),
        (Binary("%", 8 * var("a") + 11, number(8), int64), "3"),
        (Binary("min", number(31), var("N") - 1, int64) + 1, "min(31, N - 1) + 1"),
        (Binary("min", var("N"), var("N") - 1, int64), "N - 1"),
        (Binary("max", Binary("max", number(0), number(3), int64), var("a"), int64), "max(3, a)"),
        (Binary("<", var("a"), var("a") + 1, bool_), "True"),
        (Cast(Cast(var("a"), int64), int64), "a"),
    ],
)
def test_plain_cases_fold_to_what_a_person_would_write(e: Expr, text: str) -> None:
    assert str(simplified(e)) == text


def test_values_are_not_folded() -> None:
    x = Load("x", (number(0),), ty.float32)
    e = Binary("+", Binary("*", x, Const(1.0, ty.float32), ty.float32), Const(0.0, ty.float32), ty.float32)
    assert simplified(e).same_as(e)


def test_a_ramp_takes_up_what_is_added_to_it() -> None:
    found = simplified(Ramp(var("a"), 8) + var("N") - 2)
    assert isinstance(found, Ramp)
    assert str(found.base) == "a + N - 2"
    held = Cast(Variable("v", int32), int64)  # perhaps a vector
    assert not isinstance(simplified(held + Ramp(var("a"), 8)), Ramp)
    spaced = along_lanes(simplified(3 * Ramp(var("a"), 8) + 1))
    assert spaced is not None
    assert (str(spaced[0]), spaced[1]) == ("3 * a + 1", 3)
    assert along_lanes(Binary("//", Ramp(var("a"), 8), number(3), int64)) is None


def test_operands_of_a_minimum_take_up_what_is_added_to_it() -> None:
    e = Binary("min", number(8), var("N"), int64) + 1
    assert [str(simplified(part)) for part in operands("min", e)] == ["9", "N + 1"]


def store(index: Expr) -> Store:
    return Store("y", (index,), Const(1.0, ty.float32), "y")


def loop(lower: Expr, upper: Expr, body: object) -> For:
    return For("a", lower, upper, body)  # type: ignore[arg-type]


def test_statements_that_never_run_disappear() -> None:
    assert is_empty(simplify(loop(number(3), number(3), store(var("a")))))
    assert is_empty(simplify(loop(number(5), number(3), store(var("a")))))
    assert is_empty(simplify(loop(number(0), var("N"), Block((Comment("nothing"),)))))
    assert is_empty(simplify(If(Binary(">", number(0), number(1), bool_), store(number(0)))))


def test_a_loop_of_one_iteration_is_its_body() -> None:
    found = simplify(loop(var("N"), var("N") + 1, store(var("a"))))
    assert isinstance(found, Store)
    assert str(found.indices[0]) == "N"


def test_a_temporary_that_nothing_loads_disappears_with_its_stores() -> None:
    inner = Store("t", (number(0),), Const(1.0, ty.float32), "t")
    assert is_empty(simplify(Allocate("t", (number(4),), ty.float32, Block((inner,)))))


def test_a_name_for_a_constant_is_replaced_by_it() -> None:
    found = simplify(Let("a", number(3), store(var("a") + 1)))
    assert isinstance(found, Store)
    assert str(found.indices[0]) == "4"
    kept = simplify(Let("a", Binary("*", var("N"), var("M"), int64), store(var("a"))))
    assert isinstance(kept, Let)
    assert all(str(part) != "3" for part in walk(kept.value))
