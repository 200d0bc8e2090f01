"""Names that nothing has yet."""

from __future__ import annotations

import pytest

import tiramisu_py as tm
from tiramisu_py.program import fresh_names
from tiramisu_py.program.fresh_names import Spelling, counted, distinct, fresh_name, indexed, numbered, underscored
from tiramisu_py.program.program import Program


@pytest.mark.parametrize(
    ("spelled", "names"),
    [
        (numbered, ["x", "x2", "x3", "x4"]),
        (indexed, ["x", "x_1", "x_2", "x_3"]),
        (counted, ["x", "x_2", "x_3", "x_4"]),
        (underscored, ["x", "x_", "x__", "x___"]),
    ],
)
def test_names_asked_for_one_after_the_other_differ_by_their_spelling(spelled: Spelling, names: list[str]) -> None:
    taken: list[str] = []
    for _ in names:
        taken.append(fresh_name("x", taken, spelled))
    assert taken == names


def test_a_gap_in_the_numbers_is_used_first() -> None:
    assert fresh_name("x", {"x", "x3"}) == "x2"
    assert fresh_name("x", {"x2"}) == "x"


def test_names_that_repeat_are_made_different_in_their_order() -> None:
    assert distinct(["i", "j", "i", "i_", "i"]) == ["i", "j", "i_", "i__", "i___"]


def program() -> Program:
    """A function ``f`` of N with an input x, and a computation y in a loop over i."""
    (size,), (i,) = tm.params("N"), tm.iters("i")
    f = tm.Function("f", params=[size])
    x = f.input("x", tm.float32, [size])
    f.outputs(f.computation("y", {i: size}, x[i] + 1))
    return f.program


@pytest.mark.parametrize(
    ("wanted", "found"), [("N", "N2"), ("x", "x2"), ("y", "y2"), ("z", "z"), ("f", "f"), ("i", "i")]
)
def test_a_new_statement_has_no_name_of_a_parameter_input_or_statement(wanted: str, found: str) -> None:
    assert fresh_names.free_name(program(), wanted) == found


@pytest.mark.parametrize(
    ("wanted", "found"), [("N", "N_1"), ("f", "f_1"), ("int", "int_1"), ("sqrt", "sqrt_1"), ("rank0", "rank0")]
)
def test_a_new_parameter_has_also_no_name_of_the_function_or_of_c(wanted: str, found: str) -> None:
    assert fresh_names.free_parameter(program(), wanted) == found


def test_a_new_parameter_has_no_name_of_those_beside() -> None:
    assert fresh_names.free_parameter(program(), "x_from", ["x_from"]) == "x_from_1"


@pytest.mark.parametrize(("wanted", "found"), [("i", "i2"), ("y", "y")])
def test_a_new_loop_has_no_name_of_a_loop_around_its_statements(wanted: str, found: str) -> None:
    given = program()
    assert fresh_names.free_loop(given, given.statements.values(), wanted) == found
    assert fresh_names.free_loop(given, [], wanted) == wanted
