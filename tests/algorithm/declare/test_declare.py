"""Declarations: inferred types, recurrences, and what is refused, naming the user's objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.programs.miniature import Handle, Small, iters, params
from tiramisu_py.algorithm import functions as tm
from tiramisu_py.algorithm import operators
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.domains.references import access
from tiramisu_py.algorithm.expressions import cast, select
from tiramisu_py.algorithm.names import check_name
from tiramisu_py.errors import DeclarationError, DTypeError, TiramisuError

i, j, k, t = iters("i j k t")
N, M, T = params("N M T")


def example() -> Small:
    f = Small("N M")
    f.input("image", ty.float32, [N + 2, M + 2])
    f.input("start", "int32", [N + 1], values=(0, M + 1), monotone=True)
    f.scalar("gain", "float32")
    return f


# -- types


@pytest.mark.parametrize(
    ("expr", "expected"),
    [(1, ty.int64), (1.5, ty.float64), (True, ty.bool_), (i + 1, ty.int64), (i / 2, ty.float64), (i < 3, ty.bool_),
     (np.float32(2), ty.float32)],
    ids=str,
)  # fmt: skip
def test_a_computation_has_the_strong_type_of_its_expression(expr: Any, expected: ty.DType) -> None:
    c = Small("N").computation("c", {i: N}, expr).declared
    assert c.dtype == expected == c.expr.dtype


def test_a_given_type_converts_the_expression() -> None:
    f = example()
    c = f.computation("c", {i: N}, i / 2, dtype="int16").declared
    assert c.dtype == ty.int16 and str(c.expr) == "int16(i / 2)"


@pytest.mark.parametrize(
    ("recurrence", "expected"),
    [
        (lambda h: select(t == 0, 1, h[t - 1] * 2), ty.int64),
        (lambda h: select(t == 0, 1, h[t - 1] / 2), ty.float64),
        (lambda h: select(t == 0, np.float32(1), (h[t - 1] + h[t - 1]) / 2), ty.float32),
        (lambda h: select(t == 0, cast("int8", 1), tm.maximum(h[t - 1], 3)), ty.int8),
        (lambda h: select(t == 0, True, ~h[t - 1]), ty.bool_),
        (lambda h: select(t == 0, 1, tm.sqrt(h[t - 1])), ty.float64),
    ],
    ids=["doubled", "halved", "single", "small", "negated", "rooted"],
)
def test_the_type_of_a_recurrence_follows_from_its_other_terms(recurrence: Any, expected: ty.DType) -> None:
    c = Small("T").computation("h", {t: T}, recurrence).declared
    assert c.dtype == expected == c.expr.dtype


def test_a_given_type_is_the_type_in_which_a_recurrence_reads_itself() -> None:
    c = Small("T").computation("h", {t: T}, lambda h: select(t == 0, 0, h[t - 1] + 1), dtype="uint8").declared
    assert c.dtype == ty.uint8 and str(c.expr) == "select(t == 0, 0, h[t - 1] + 1)"


@pytest.mark.parametrize(
    ("op", "term", "expected"),
    [
        (operators.sum_, np.int32(1), ty.int32),
        (operators.sum_, np.float16(1), ty.float16),
        (operators.sum_, k < 2, ty.int64),
        (operators.product, k < 2, ty.int64),
        (operators.max_, k < 2, ty.bool_),
        (operators.logical_and, k < 2, ty.bool_),
        (operators.min_, k, ty.int64),
    ],
    ids=str,
)
def test_a_reduction_has_the_type_of_its_terms_but_sums_of_conditions_count(
    op: operators.Operator, term: Any, expected: ty.DType
) -> None:
    assert Small("N").reduction("r", {i: N}, {k: N}, op, term).declared.dtype == expected


def test_an_input_holds_what_was_declared() -> None:
    start = example().algorithm.inputs["start"]
    assert (start.dtype, start.monotone, start.permutation, start.scalar) == (ty.int32, True, False, False)
    assert [str(bound) for bound in start.values or ()] == ["0", "M + 1"]
    assert example().algorithm.inputs["gain"].scalar


def test_a_shape_is_kept() -> None:
    c = Small("N").computation("c", {i: N}, 1.0, shape=[N + 4]).declared
    assert c.shape is not None and [str(extent) for extent in c.shape] == ["N + 4"]


# -- what is refused


def from_another_function() -> Any:
    return Small("N").input("other", "float32", [N])[i]


BAD: dict[str, tuple[Callable[[Small], Any], str]] = {
    "a name with a space": (lambda f: f.input("a b", "int8", [N]), "'a b' cannot be the name of an input"),
    "a name that starts with a digit": (lambda f: f.computation("2x", {i: N}, 1), "'2x' cannot be the name of a comp"),
    "an empty name": (lambda f: f.scalar("", "int8"), "'' cannot be the name of a scalar"),
    "a number as a name": (lambda f: f.input(3, "int8", [N]), "the name of an input is a string, not 3"),
    "a keyword of C": (lambda f: f.computation("double", {i: N}, 1), "'double' cannot be the name of a computation"),
    "a word of isl": (lambda f: f.input("exists", "int8", [N]), "'exists' cannot be the name of an input: C or isl"),
    "a reserved prefix": (lambda f: f.input("tm_x", "int8", [N]), "'tm_x' cannot .*reserved"),
    "a name twice": (lambda f: f.input("image", "int8", [N]), "'image' .*an input of f has it"),
    "the name of a parameter": (lambda f: f.computation("N", {i: 3}, 1), "'N' .*a parameter of f has it"),
    "a name that a reduction needs": (
        lambda f: (f.input("r_init", "int8", [N]), f.reduction("r", {i: N}, {k: N}, operators.sum_, 1)),
        "'r_init' cannot be the name of a statement of the reduction r: an input of f has it",
    ),
    "a name that a reduction has": (
        lambda f: (f.reduction("r", {i: N}, {k: N}, operators.sum_, 1), f.computation("r_update", {i: N}, 1)),
        "'r_update' cannot be the name of a computation: a statement of the reduction r has it",
    ),
    "a complex input": (lambda f: f.input("z", "complex64", [N]), "z: 'complex64' is not a scalar type"),
    "a literal's type": (lambda f: f.input("z", ty.weak_int, [N]), "z: weak int is the type of literals"),
    "a computation of strings": (lambda f: f.computation("z", {i: N}, 1, dtype=str), "z: .*is not a scalar type"),
    "a shape that is a number": (lambda f: f.input("z", "int8", 5), "the shape of z is 5; write a list"),
    "an extent that is a float": (lambda f: f.input("z", "int8", [2.5]), "extent 0 of z is 2.5"),
    "an extent that is negative": (lambda f: f.input("z", "int8", [N, -1]), "extent 1 of z is -1"),
    "an extent that is not affine": (
        lambda f: f.input("z", "int8", [N * M + 1]), r"extent 0 of z is N \* M \+ 1, which is not",
    ),
    "an extent with an iterator": (lambda f: f.input("z", "int8", [i]), "extent 0 of z uses the iterator i"),
    "an extent of another function": (lambda f: f.input("z", "int8", [T]), r"extent 0 of z uses the parameter T"),
    "an extent that is a value": (
        lambda f: f.input("z", "int8", [start(f)[0]]), r"extent 0 of z is start\[0\], which is not affine",
    ),
    "an extent that is text": (lambda f: f.input("z", "int8", ["N"]), "extent 0 of z cannot be used: 'N'"),
    "facts of floats": (lambda f: f.input("z", "float32", [N], values=(0, 2)), "z is float32: values=.* for integers"),
    "a range of one bound": (lambda f: f.input("z", "int8", [N], values=(0,)), r"values= of z is \(0,\)"),
    "a range of floats": (lambda f: f.input("z", "int8", [N], values=(0, 1.5)), "values= of z is 1.5"),
    "too few indices": (lambda f: image(f)[i], r"image has 2 indices, 1 was given: image\[i"),
    "a float as an index": (lambda f: image(f)[i, 0.5], r"index 1 of image\[i, 0.5\] is weak float, not an integer"),
    "a float value as an index": (lambda f: image(f)[image(f)[0, 0], 0], "index 0 of image.* is float32"),
    "a slice": (lambda f: image(f)[:, 0], r"index 0 of image\[:, 0\] is a slice"),
    "an ellipsis": (lambda f: image(f)[..., 0], r"index 0 of image\[..., 0\] is a slice"),
    "a truth value as an index": (lambda f: image(f)[True, 0], "index 0 of image.* is a truth value"),
    "text as an index": (lambda f: image(f)["a", 0], r"index 0 of image\[a, 0\] cannot be used"),
    "an iterator that the domain lacks": (
        lambda f: f.computation("z", {i: N}, image(f)[i, j]), r"z uses the iterator j, which is not among .*\(i\)",
    ),
    "a parameter of another function": (
        lambda f: f.computation("z", {i: N}, i + T), r"z uses the parameter T, which f does not have",
    ),
    "a value of another function": (
        lambda f: f.computation("z", {i: N}, from_another_function()),
        r"z reads other\[i\], which belongs to another function than f",
    ),
    "a list as an expression": (lambda f: f.computation("z", {i: N}, [1, 2]), r"the expression of z cannot be used"),
    "an array as an expression": (lambda f: f.computation("z", {i: N}, np.ones(3)), "expression of z .*Function.input"),
    "a recurrence that returns nothing": (lambda f: f.computation("z", {i: N}, lambda z: None), "the expression of z"),
    "a recurrence with nothing but itself": (
        lambda f: f.computation("z", {i: N}, lambda z: z[i - 1]), "the type of the recurrence z does not follow",
    ),
    "a recurrence with too many indices": (
        lambda f: f.computation("z", {i: N}, lambda z: z[i, 0] + 1), r"z has 1 index, 2 were given: z\[i, 0\]",
    ),
    "a literal that does not fit": (lambda f: f.computation("z", {i: N}, 300, dtype="uint8"), "z: .*300 does not fit"),
    "a shape of another rank": (
        lambda f: f.computation("z", {i: N}, 1, shape=[N, M]), "shape= of z has 2 extents, but z has 1 iterators",
    ),
    "a domain that is a number": (lambda f: f.computation("z", 12, 1), "the domain of z is 12; write a dict"),
    "an operator that is text": (lambda f: f.reduction("z", {i: N}, {k: N}, "+", 1), r"op= of z is '\+'; use tm.sum"),
    "a bitwise operator on floats": (
        lambda f: f.reduction("z", {i: N}, {k: N}, operators.logical_or, 1.5), "tm.logical_or cannot combine the fl",
    ),
    "an operator with an identity that does not fit": (
        lambda f: f.reduction("z", {i: N}, {k: N}, tm.operator("far", tm.minimum, 999), 1, dtype="int8"),
        "the operator far cannot combine the int8 terms of z",
    ),
    "an operator that uses more than its operands": (
        lambda f: f.reduction("z", {i: N}, {k: N}, tm.operator("odd", lambda a, b: a + b + k, 0), 1),
        "the operator odd, which reduces z, uses k",
    ),
    "an operator that is no function": (lambda f: tm.operator("odd", 3, 0), "the operator odd needs a function"),
    "a term with an iterator that nothing declares": (
        lambda f: f.reduction("z", {i: N}, {k: N}, operators.sum_, image(f)[i, j]), "z uses the iterator j",
    ),
    "an iterator that is reduced over twice": (
        lambda f: f.reduction("z", {i: N}, {iters("i")[0]: N}, operators.sum_, 1),
        "the domain of z has the iterator i twice",
    ),
    "a bound that reads what is not declared": (
        lambda f: f.computation("z", {i: (0, unknown_access(f))}, 1), "reads nobody.*, but nobody is not declared in f",
    ),
    "a condition that is a number": (lambda f: f.computation("z", {i: N}, 1, where=1), "where= of z is weak int"),
}  # fmt: skip


def image(f: Small) -> Any:
    return handle(f, "image")


def start(f: Small) -> Any:
    return handle(f, "start")


def handle(f: Small, name: str) -> Any:
    return Handle(f.algorithm.inputs[name], f)


def unknown_access(f: Small) -> Any:
    return access("nobody", ty.int64, 1, 0, f)


def test_functions_of_c_may_name_values_but_not_what_is_linked() -> None:
    assert check_name("log", "an input") == "log"
    with pytest.raises(DeclarationError, match="'log' cannot be the name of a function"):
        check_name("log", "a function", linked=True)


@pytest.mark.parametrize("case", BAD)
def test_a_declaration_that_makes_no_sense_is_refused_by_name(case: str) -> None:
    declare, message = BAD[case]
    with pytest.raises(TiramisuError, match=message) as caught:
        declare(example())
    assert isinstance(caught.value, DeclarationError | DTypeError)


def test_a_refused_declaration_leaves_the_algorithm_as_it_was() -> None:
    f = example()
    before = f.algorithm
    with pytest.raises(DeclarationError):
        f.computation("z", {i: N}, image(f)[i, j])
    assert f.algorithm is before
