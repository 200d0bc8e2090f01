"""Two variables of one name are in one block once the guards around them are decided: one gets another name."""

from __future__ import annotations

import pytest

from tiramisu_py.algorithm.expressions import Binary, Const, Param
from tiramisu_py.algorithm.types import bool_, float64, int64
from tiramisu_py.ir import Assign, Block, Declare, For, If, Let, Load, Node, Store, Variable
from tiramisu_py.ir.arithmetic.facts import Facts
from tiramisu_py.ir.arithmetic.linear import number
from tiramisu_py.ir.rewriting import Names, walk
from tiramisu_py.passes.base import About
from tiramisu_py.passes.constant_folding import Decide, with_distinct_variables

N = Param("N", int64)
X = Variable("x", float64)


def use(source: int, target: int) -> list[Node]:
    """``x = y[source]; z[target] = x``."""
    return [
        Declare("x", Load("y", (number(source),), float64)),
        Store("z", (number(target),), X, "z"),
    ]


def run(node: Node, values: dict[str, float], variables: dict[str, float], stored: dict[int, float]) -> None:
    """A small interpreter of these statements: a variable is there up to the end of its block."""
    match node:
        case Block():
            own = dict(variables)
            for child in node.body:
                assert not (isinstance(child, Declare) and child.variable in own), child.variable
                run(child, values, own, stored)
            variables |= {name: value for name, value in own.items() if name in variables}
        case Declare(value=Load() as load):
            variables[node.variable] = values[f"y{load.indices[0]}"]
        case Assign():
            variables[node.variable] = -variables[node.variable]
        case Store():
            stored[int(str(node.indices[0]))] = variables[str(node.value)]
        case If() | Let() | For():
            run(node.then if isinstance(node, If) else node.body, values, dict(variables), stored)


def guarded(statements: list[Node], least: int) -> If:
    return If(Binary(">=", N, number(least), bool_), Block(tuple(statements)))


ABOUT = About(Names({"N", "y", "z"}), Facts().where(Binary(">=", N, number(4), bool_)))
VALUES = {"y0": 10.0, "y1": 11.0, "y2": 12.0}


def test_decided_guards_leave_no_two_variables_of_one_name() -> None:
    node = Decide().apply(Block((guarded(use(0, 0), 1), guarded(use(1, 1), 2), guarded(use(2, 2), 3))), ABOUT)
    assert not any(isinstance(inner, If) for inner in walk(node))
    stored: dict[int, float] = {}
    run(node, VALUES, {}, stored)
    assert stored == {0: 10.0, 1: 11.0, 2: 12.0}
    assert [inner.variable for inner in walk(node) if isinstance(inner, Declare)] == ["x", "x_2", "x_3"]


def test_one_in_a_definition_shares_the_block_around_it() -> None:
    inner = Let("v", N, Block((*use(1, 1), Assign("x", X, "z"), Store("z", (number(2),), X, "z"))))
    node = with_distinct_variables(Block((*use(0, 0), inner, Store("z", (number(3),), X, "z"))), Names({"y", "z"}))
    stored: dict[int, float] = {}
    run(node, VALUES, {}, stored)
    assert stored == {0: 10.0, 1: 11.0, 2: -11.0, 3: 10.0}


@pytest.mark.parametrize("in_loops", [False, True])
def test_blocks_of_their_own_keep_their_names(in_loops: bool) -> None:
    def around(k: int) -> Node:
        return For("i", number(0), N, Block(tuple(use(k, k)))) if in_loops else guarded(use(k, k), 9)

    node = Block((around(0), around(1), *use(2, 2)))
    assert with_distinct_variables(node, Names({"y", "z"})) is node


def test_a_new_name_is_in_use_nowhere() -> None:
    after = Store("z", (number(4),), Const(1.0, float64), "z")
    beside = For("x_2", number(0), N, after)
    node = with_distinct_variables(Block((*use(0, 0), *use(1, 1), beside)), Names({"y", "z"}))
    assert [inner.variable for inner in walk(node) if isinstance(inner, Declare)] == ["x", "x_3"]
