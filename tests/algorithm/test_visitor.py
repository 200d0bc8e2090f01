"""The base of visitors, and that those of the library know all the classes that they have to."""

from __future__ import annotations

from typing import get_args

import pytest

from tiramisu_py import ir
from tiramisu_py.algorithm.expressions import Const, Iter
from tiramisu_py.algorithm.types import int64
from tiramisu_py.algorithm.visitor import Visitor
from tiramisu_py.interpret.devices.host_strand import Host
from tiramisu_py.interpret.devices.kernel_run import Thread
from tiramisu_py.interpret.machine import Interpreter
from tiramisu_py.interpret.ranks.rank import SimulatedRank
from tiramisu_py.ir import Node
from tiramisu_py.view.pseudocode import Pseudocode


class Told(Visitor[str]):
    """Nodes in words."""

    def visit_const(self, node: Const, end: str) -> str:
        return f"number{end}"

    def visit_comment(self, node: ir.Comment, end: str) -> str:
        return f"{node.text}{end}"


class ToldOtherwise(Told):
    """Literals by their values."""

    def visit_const(self, node: Const, end: str) -> str:
        return f"{node.value}{end}"


def test_the_method_of_a_nodes_class_is_called_with_what_the_visitor_gives() -> None:
    literal = Const(7, int64)
    assert Told().method_for(literal)(literal, "!") == "number!"
    assert ToldOtherwise().method_for(literal)(literal, "!") == "7!"
    comment = ir.Comment("so")
    assert ToldOtherwise().method_for(comment)(comment, ".") == "so."


def test_a_class_without_a_method_is_refused_by_name() -> None:
    with pytest.raises(NotImplementedError, match="Told does not know the node Iter"):
        Told().method_for(Iter("i"))


def known(visitor: type[Visitor[object]]) -> set[str]:
    """The classes of statements that a visitor has methods for."""
    return {of.__name__ for of in get_args(Node) if hasattr(visitor, f"visit_{of.__name__.lower()}")}


def test_pseudocode_knows_every_statement() -> None:
    assert known(Pseudocode) == {of.__name__ for of in get_args(Node)}


def test_the_machines_know_every_statement_between_them() -> None:
    assert known(Interpreter) <= known(Host) <= known(SimulatedRank)
    everything = {of.__name__ for of in get_args(Node)}
    assert known(SimulatedRank) | known(Thread) == everything - {"Traced"}, (
        "what is logged is added after what is interpreted"
    )


@pytest.mark.parametrize("visitor", [Told, ToldOtherwise, Pseudocode, Interpreter, SimulatedRank, Thread])
def test_a_method_of_a_visitor_is_for_a_class_that_exists(visitor: type[Visitor[object]]) -> None:
    classes = {of.__name__.lower() for of in get_args(Node)} | {"const"}
    methods = {name.removeprefix("visit_") for name in dir(visitor) if name.startswith("visit_")}
    assert methods <= classes
