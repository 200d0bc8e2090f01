"""Roles of the fields of expressions: keys, operands and rebuilding, of every class there is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import pytest

import tiramisu_py as tm
from tiramisu_py import ir
from tiramisu_py.algorithm import expressions as language
from tiramisu_py.algorithm.expressions import (
    Access,
    Binary,
    Call,
    Cast,
    Component,
    Const,
    Expr,
    Iter,
    Param,
    Select,
    Stopped,
    TupleValue,
    Unary,
)
from tiramisu_py.algorithm.types import DType, bool_, float32, float64, int64, tuple_type
from tiramisu_py.algorithm.words.stages import StageCall
from tiramisu_py.lower.statements.templates import Wanted
from tiramisu_py.schedule.ranks.rank_numbers import RankNumber

PAIR = tuple_type((("value", int64), ("index", float32)))
GEMM = tm.extern_stage("gemm", {"x": tm.updates(float32, 2), "n": int64}, lambda x, n: x)
A, B, C, D = (Iter(name, int64) for name in "abcd")
NODES: list[Expr] = [
    Const(1, int64),
    A,
    Param("N", int64),
    Access("x", (A, B), float32),
    Access("x", (), float32),
    Unary("-", A, int64),
    Binary("+", A, B, int64),
    Select(A, B, C, int64),
    Cast(A, float32),
    Stopped(A, int64),
    Call("sqrt", (A,), float32),
    TupleValue((A, B), PAIR),
    Component(Iter("pair", PAIR), 1, float32),
    ir.Load("x", (A, B), float32),
    ir.Scalar("s", float32),
    ir.Variable("v", int64),
    ir.Ramp(A, 8),
    ir.Lane(A, B, float32),
    ir.Shifted(A, B, 3, float32),
    ir.Idiom("average", (A, B), int64),
    ir.Joined((A, B), float32),
    ir.GpuIndex("thread", 1),
    Wanted(2, 1),
    RankNumber("rank"),
    StageCall("gemm", (Access("x", (A, B), float32), C), float32, GEMM),
]
#: What is no part of a key: types that follow from the operands or from a name, and what only messages use.
UNSAID = {
    Access: {"dtype", "owner"}, Iter: {"dtype"}, Param: {"dtype"}, Call: {"extern"}, ir.Load: {"dtype"},
    ir.Scalar: {"dtype"}, ir.Variable: {"dtype"}, ir.Ramp: {"dtype"}, ir.Lane: {"dtype"}, ir.Shifted: {"dtype"},
    ir.Joined: {"dtype"}, ir.GpuIndex: {"dtype"}, Wanted: {"dtype"}, RankNumber: {"dtype", "axis", "count"},
    StageCall: {"stage"},
}  # fmt: skip


def classes(of: type[Expr]) -> Iterator[type[Expr]]:
    """All the classes of expressions of the library."""
    for each in of.__subclasses__():
        if each.__module__.startswith("tiramisu_py"):
            yield each
        yield from classes(each)


def changed(value: Any) -> Any:
    """Another value of the same type."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str():
            return f"{value}1"
        case DType():
            return float64 if value != float64 else bool_
        case tuple():
            return (*value, C)
        case Expr():
            return D
    return object()


def test_there_is_an_expression_of_each_class_here() -> None:
    assert set(classes(language.Expr)) == {type(node) for node in NODES}


@pytest.mark.parametrize("node", NODES, ids=lambda node: type(node).__name__)
def test_the_operands_are_the_expressions_among_the_fields(node: Any) -> None:
    found: list[Expr] = []
    for field in fields(node):
        value = getattr(node, field.name)
        found += [each for each in (value if isinstance(value, tuple) else (value,)) if isinstance(each, Expr)]
    assert list(map(id, node.children())) == list(map(id, found))


@pytest.mark.parametrize("node", NODES, ids=lambda node: type(node).__name__)
def test_a_node_over_other_operands_is_of_the_same_class_with_the_same_fields(node: Any) -> None:
    others = tuple(Iter(f"new{k}", int64) for k in range(len(node.children())))
    again = node.rebuilt(others)
    assert type(again) is type(node)
    assert list(map(id, again.children())) == list(map(id, others))
    back = again.rebuilt(node.children())
    assert back.same_as(node)
    for field in fields(node):
        assert str(getattr(back, field.name)) == str(getattr(node, field.name))


@pytest.mark.parametrize("node", NODES, ids=lambda node: type(node).__name__)
def test_a_key_differs_with_every_field_that_says_what_a_node_is(node: Any) -> None:
    for field in fields(node):
        other = replace(node, **{field.name: changed(getattr(node, field.name))})
        assert other.same_as(node) == (field.name in UNSAID.get(type(node), ())), field.name


def test_nodes_of_different_kinds_differ_also_where_their_fields_agree() -> None:
    keys = [node.key() for node in NODES if not isinstance(node, ir.Variable | RankNumber)]
    assert len(set(keys)) == len(keys)
    assert not Param("a", int64).same_as(Iter("a", int64))
    assert not Const(1, int64).same_as(Const(True, int64))


def test_operands_apart_from_each_other_are_refused() -> None:
    with pytest.raises(TypeError, match="next to each other"):

        @dataclass(frozen=True, eq=False, repr=False)
        class Apart(Expr, kind="apart", operands="left right"):
            left: Expr
            between: int
            right: Expr
