"""What vectorisation makes of loops, by its shape; `tests/backends` compares what it computes."""

from __future__ import annotations

import pytest

from tests.programs.loop_ir.nodes import loops, of
from tests.programs.loop_ir.short_names import load, loop, size, store, temporary, updated, var
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import Const
from tiramisu_py.algorithm.operators import sum_
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.ir import (
    Allocate,
    Assign,
    Declare,
    For,
    Lane,
    Node,
    Private,
    Ramp,
    Store,
)
from tiramisu_py.ir.rewriting import Names, all_expressions
from tiramisu_py.passes.vectors.vectorize import vectorize
from tiramisu_py.program.loops import Combine, Vector

N, M, i, j = size("N"), size("M"), var("i"), var("j")


def vectorised(node: Node) -> Node:
    return vectorize(node, Names(()))


def test_a_vector_loop_is_strips_and_a_remainder_under_the_same_name() -> None:
    found = vectorised(loop("i", N, store("y", i, load("x", i + 1)), tag=Vector(8)))
    main, rest = loops(found)
    assert (main.variable, rest.variable) == ("i", "i")
    assert (main.step, rest.step) == (8, 1)
    ramps = [e for e in all_expressions(main) if isinstance(e, Ramp)]
    assert [(str(e.base), e.lanes) for e in ramps] == [("i + 1", 8), ("i", 8)] or len(ramps) == 2
    assert not [e for e in all_expressions(rest) if isinstance(e, Ramp)]


def test_a_constant_vector_loop_of_few_strips_is_straight_line_code() -> None:
    found = vectorised(loop("i", 16, store("y", i, 1.0), tag=Vector(8)))
    assert not loops(found)
    assert len(of(found, Store)) == 2


def test_a_vector_loop_shorter_than_a_vector_stays_scalar() -> None:
    found = vectorised(loop("i", 7, store("y", i, 1.0), tag=Vector(8)))
    assert isinstance(found, For)
    assert found.tag is None


def test_buffers_inside_a_vector_loop_have_a_vector_for_each_element() -> None:
    body = temporary("t", (N,), loop("j", N, store("t", j, load("x", i))), store("y", i, load("t", N - 1)))
    found = vectorised(loop("i", M, body, tag=Vector(4)))
    inside, outside = of(found, Allocate)
    assert isinstance(inside, Allocate)
    assert isinstance(outside, Allocate)
    assert (inside.lanes, outside.lanes) == (4, 1)


def test_a_reduction_keeps_partial_results_in_a_vector() -> None:
    private = (Private("s", sum_, Combine.PRIVATE),)
    update = updated("s", 0, sum_, load("x", i))
    found = vectorised(loop("i", N, update, tag=Vector(8, Combine.PRIVATE), reductions=private))
    (declared,) = of(found, Declare)
    assert isinstance(declared, Declare)
    assert declared.lanes == 8
    assert isinstance(declared.value, Const)
    assert str(declared.value) == "-0.0"
    assert [str(node.value) for node in of(found, Assign) if isinstance(node, Assign)] == [
        "s_partial + x[i : i + 8]",
        "s_partial + shifted(s_partial, s_partial, 4)",
        "s_partial + shifted(s_partial, s_partial, 2)",
        "s_partial + shifted(s_partial, s_partial, 1)",
    ]


def test_registers_of_a_partial_result_are_combined_in_pairs() -> None:
    private = (Private("s", sum_, Combine.PRIVATE),)
    wide = loop("i", N, updated("s", 0, sum_, load("x", i)), tag=Vector(16, Combine.PRIVATE), reductions=private)
    assigned = [node for node in of(vectorize(wide, Names(()), 16), Assign) if isinstance(node, Assign)]
    names = [f"s_partial_{k}" for k in range(4)]
    assert [(node.variable, str(node.value)) for node in assigned[4:7]] == [
        (names[0], f"{names[0]} + {names[2]}"),
        (names[1], f"{names[1]} + {names[3]}"),
        (names[0], f"{names[0]} + {names[1]}"),
    ]


def test_kernels_combine_lanes_one_by_one_in_the_same_order() -> None:
    private = (Private("s", sum_, Combine.PRIVATE),)
    update = updated("s", 0, sum_, load("x", i))
    wide = loop("i", N, update, tag=Vector(4, Combine.PRIVATE), reductions=private)
    found = vectorize(wide, Names(()), 16, on_host=False)
    assert len(of(found, Assign)) == 1
    last = [node for node in of(found, Store) if "partial" in str(node)][-1]
    assert isinstance(last, Store)
    assert [str(part.lane) for part in walk(last.value) if isinstance(part, Lane)] == ["0", "2", "1", "3"]


@pytest.mark.parametrize(("register", "lanes"), [(64, 16), (32, 8), (16, 4), (4, 2)])
def test_vectors_wider_than_a_register_are_in_parts(register: int, lanes: int) -> None:
    private = (Private("s", sum_, Combine.PRIVATE),)
    body = (store("y", i, load("x", i) * 2.0), updated("s", 0, sum_, load("x", i)))
    wide = loop("i", N, *body, tag=Vector(32, Combine.PRIVATE), reductions=private)
    found = vectorize(wide, Names(()), register)
    declared = [node for node in of(found, Declare) if isinstance(node, Declare)]
    assert [node.lanes for node in declared] == [lanes] * (32 // lanes)
    assert {e.lanes for e in all_expressions(found) if isinstance(e, Ramp)} == {lanes}
    assert loops(found)[0].step == 32


def test_the_widest_value_decides_the_parts_and_indices_do_not() -> None:
    doubled = store("y", i, load("x", load("p", i, dtype=ty.int64)) + 1.0, ty.float64)
    found = vectorize(loop("i", N, doubled, tag=Vector(16)), Names(()), 64)
    assert {e.lanes for e in all_expressions(found) if isinstance(e, Ramp)} == {8}
    gathered = store("y", i, load("x", load("p", i, dtype=ty.int64)))
    found = vectorize(loop("i", N, gathered, tag=Vector(16)), Names(()), 64)
    assert {e.lanes for e in all_expressions(found) if isinstance(e, Ramp)} == {16}
