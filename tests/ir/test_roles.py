"""Roles of fields: every class of statements names each of its fields once, and walks and rewriting follow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, get_args

import pytest

from tiramisu_py import ir
from tiramisu_py.algorithm.expressions import Const, Expr, Iter
from tiramisu_py.algorithm.operators import sum_
from tiramisu_py.algorithm.types import float32, int64
from tiramisu_py.algorithm.words.stages import extern_stage, reads, writes
from tiramisu_py.ir import Node, rewriting
from tiramisu_py.ir.roles import Roles
from tiramisu_py.program.statement import SendMode

CLASSES = [*get_args(Node), ir.Side, ir.Request, ir.ArraySection, ir.ArrayRoom]


#: The names of fields with statements inside.
INSIDE = ("body", "then", "otherwise", "elements", "sends", "receives")


def n(value: int) -> Expr:
    """A number that is in no other place."""
    return Const(value, int64)


STORE = ir.Store("s", (n(1), n(2)), n(3), "S")
SCALED = extern_stage(
    "scaled", {"n": int64, "a": reads(float32, 1), "b": writes(float32, 1)}, lambda n, a: 2 * a, header="<scaled.h>"
)
BOX = ir.ArraySection((n(42),), (n(43),), ((1,),))
#: One statement of each class, with different numbers in all the places for expressions.
STATEMENTS: list[Any] = [
    ir.Block((STORE, ir.Comment("c"))),
    ir.Comment("c"),
    ir.For("v", n(4), n(5), STORE),
    ir.If(n(6), STORE, ir.Prefetch("p", (n(7),), 0, "P")),
    ir.If(n(8), STORE),
    ir.Let("v", n(9), STORE),
    ir.Declare("v", n(10)),
    ir.Assign("v", n(11), "A"),
    STORE,
    ir.Mask(n(12), 8, STORE),
    ir.Prefetch("p", (n(13), n(14)), 0, "P"),
    ir.ArrayCall(SCALED, (n(41),), ("a", "b"), (BOX, ir.ArraySection((n(44),), (n(45),), ((1,),))), "G"),
    ir.Allocate("a", (n(15),), float32, STORE),
    ir.MemoryBlock("m", (ir.ArrayRoom((n(48), n(49)), float32), ir.ArrayRoom((n(50),), int64, 4)), ("a", "b"), STORE),
    ir.BeginArray("a", "m", (n(51), n(52)), float32),
    ir.EndArray("a", "m", frees=True),
    ir.Launch("k", (n(16), n(17), n(18)), (n(19),), ("x", "y"), 0, 0),
    ir.Copy("t", 0, (n(20),), "f", None, (n(21),), (n(22),), float32, 0, 0, False, "C"),
    ir.Events("e", (n(23),), 0, STORE),
    ir.Record("e", (n(24),), 0, 0),
    ir.Await("e", (n(25),), 0, None, "W"),
    ir.Barrier("B"),
    ir.Deferred(STORE),
    ir.TreeReduce(("b",), (n(26),), (n(27),), float32, sum_, "T"),
    ir.LastBlock("k", n(46), n(47), STORE, "L"),
    ir.Locked("k", n(68), STORE, "L", n(69), n(70)),
    ir.Piece((n(28),), (ir.Side(n(29), (1,)), ir.Side(n(30), (0,))), n(31)),
    ir.Piece((n(32),), ()),
    ir.Post(True, "m", float32, STORE, n(33), 0, SendMode.STANDARD, ir.Request("r", n(34)), False, "M"),
    ir.Requests("r", n(35), STORE),
    ir.Complete("r", n(36), n(37), "W"),
    ir.Collective("f", "t", float32, STORE, ir.Comment("c"), n(38), "G"),
    ir.AllReduce(("m",), float32, sum_, (0,), "R"),
    ir.Traced("send", "S", STORE, peer=n(39), bytes=n(40)),
    ir.Tiles(STORE),
    ir.LoadTile(1, "b", (n(53), n(54)), (n(55), n(56)), float32, 16, 16, "T"),
    ir.StoreTile(1, "b", (n(57), n(58)), (n(59), n(60)), float32, 16, 16, "T"),
    ir.MultiplyTiles(0, 1, 2, (float32, float32), "T"),
    ir.Mma("b", (n(61), n(62), n(63), n(64)), (n(65), n(66)), (n(67),), "m16n8k16", "M"),
    ir.LoadMatrices("b", n(71), n(72), 4, True, "M"),
]


def given(roles: Roles) -> list[str]:
    """All the fields that a table names."""
    defines = [] if roles.defines is None else [roles.defines]
    return [*roles.inside, *roles.operands, *defines, *roles.reads, *roles.names, *roles.data]


@pytest.mark.parametrize("of", CLASSES, ids=lambda of: of.__name__)
def test_each_field_has_one_role(of: Any) -> None:
    assert sorted(given(of.roles)) == sorted(field.name for field in fields(of))


@pytest.mark.parametrize("of", CLASSES, ids=lambda of: of.__name__)
def test_the_type_of_a_field_agrees_with_its_role(of: Any) -> None:
    for field in fields(of):
        words = set(str(field.type).replace("[", " ").replace(",", " ").replace("]", " ").split())
        assert (field.name in of.roles.inside) == ("Node" in words)
        assert (field.name in of.roles.operands) == bool(
            words & {"Expr", "Side", "Request", "Store", "ArraySection", "ArrayRoom"}
        )


def test_there_is_a_statement_of_each_class_here() -> None:
    assert isinstance(Node, UnionType)
    assert {type(statement) for statement in STATEMENTS} == set(get_args(Node))


def held(of: Any, inside: bool) -> Iterator[Any]:
    """What hangs on a statement by reflection alone: the statements inside, or the expressions beside them."""
    for field in fields(of):
        if inside == (field.name in INSIDE):
            yield from flat(getattr(of, field.name), inside)


def flat(value: Any, inside: bool) -> Iterator[Any]:
    if isinstance(value, tuple):
        for each in value:
            yield from flat(each, inside)
    elif isinstance(value, Expr) or (inside and isinstance(value, get_args(Node))):
        yield value
    elif is_dataclass(value) and not isinstance(value, type):
        yield from held(value, inside)


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda one: type(one).__name__)
def test_walks_find_what_hangs_on_a_statement(statement: Any) -> None:
    assert list(rewriting.children(statement)) == list(held(statement, True))
    found = rewriting.expressions(statement)
    assert len(found) == len(set(map(id, found)))
    assert set(map(id, found)) == {id(e) for e in held(statement, False)}


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda one: type(one).__name__)
def test_rewriting_changes_all_expressions_and_nothing_else(statement: Any) -> None:
    changed = rewriting.with_expressions(statement, lambda e: Iter(f"was{e}", int64))
    before, after = rewriting.expressions(statement), rewriting.expressions(changed)
    assert [e.name for e in after if isinstance(e, Iter)] == [f"was{e}" for e in before]
    back = dict(zip([e.name for e in after if isinstance(e, Iter)], before, strict=True))
    again = rewriting.with_expressions(changed, lambda e: back[str(e)])
    assert type(again) is type(statement)
    assert described(again) == described(statement)
    assert rewriting.children(changed) == rewriting.children(statement)


def described(value: Any) -> Any:
    """A statement as plain data, expressions by their texts."""
    if isinstance(value, Expr):
        return str(value)
    if isinstance(value, tuple):
        return [described(each) for each in value]
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, {field.name: described(getattr(value, field.name)) for field in fields(value)}
    return value


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda one: type(one).__name__)
def test_other_statements_inside_are_the_only_change(statement: Any) -> None:
    changed = rewriting.with_children(statement, lambda child: ir.Comment("inside"))
    assert [type(child) for child in rewriting.children(changed)] == [ir.Comment] * len(rewriting.children(statement))
    assert rewriting.expressions(changed) == rewriting.expressions(statement)
    assert described(rewriting.with_children(statement, lambda child: child)) == described(statement)


def test_names_are_those_of_variables_arrays_events_and_requests() -> None:
    expected = {"For": {"v", "s"}, "Launch": {"x", "y"}, "Copy": {"t", "f"}, "Events": {"e", "s"}, "Deferred": {"s"}}
    expected |= {"TreeReduce": {"b"}, "Post": {"m", "r", "s"}, "Requests": {"r", "s"}, "Complete": {"r"}}
    expected |= {"AllReduce": {"m"}, "Barrier": set(), "Comment": set(), "Let": {"v", "s"}, "Await": {"e"}}
    expected |= {"LoadTile": {"b"}, "StoreTile": {"b"}, "MultiplyTiles": set(), "Mma": {"b"}, "LoadMatrices": {"b"}}
    for statement in STATEMENTS:
        if type(statement).__name__ in expected:
            assert rewriting.names(statement) == expected[type(statement).__name__]


def test_read_are_arrays_that_are_copied_sent_combined_or_passed_to_kernels() -> None:
    found = {type(statement).__name__: rewriting.read_buffers(statement) for statement in STATEMENTS}
    reading = {name: sorted(arrays) for name, arrays in found.items() if arrays}
    assert reading == {
        "ArrayCall": ["a", "b"], "Launch": ["x", "y"], "Copy": ["f", "t"], "Post": ["m"], "Collective": ["f", "t"],
        "AllReduce": ["m"], "LoadTile": ["b"],
    }  # fmt: skip


def test_an_array_is_read_where_it_is_among_those_that_are_read() -> None:
    load = ir.Load("a", (Iter("i", int64),), int64)
    for statement in (*STATEMENTS, ir.Block((ir.Comment("none"), ir.Store("b", (load,), load, "s")))):
        arrays = rewriting.read_buffers(statement)
        assert all(rewriting.is_read(statement, array) for array in arrays)
        assert not any(rewriting.is_read(statement, name) for name in rewriting.names(statement) - arrays)


def test_a_loop_and_a_definition_define_a_variable_for_what_is_inside() -> None:
    assert {type(s).__name__ for s in STATEMENTS if rewriting.defined(s) is not None} == {"For", "Let"}
