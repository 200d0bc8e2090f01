"""Names that nothing has yet."""

from __future__ import annotations

import pytest

import tiramisu_py as tm
from tiramisu_py.program import fresh_names
from tiramisu_py.program.program import Program


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
