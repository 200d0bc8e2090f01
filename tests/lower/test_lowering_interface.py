"""What the caller sees: arguments, preconditions, documentation."""

from __future__ import annotations

import numpy as np
import pytest

from tests.programs.by_hand import Author, computed, iters
from tiramisu_py.algorithm import types as ty
from tiramisu_py.interpret import InterpretError
from tiramisu_py.ir import LoopFunction
from tiramisu_py.lower.interface import preconditions
from tiramisu_py.lower.lowering import lower


def simple(params: str = "N", assume: str = "", where: str = "0 <= i < N", shape: int | None = None) -> LoopFunction:
    author = Author("simple", params, assume)
    N = author.params()[0]
    (i,) = iters("i")
    x = author.input("x", ty.float32, [N])
    author.computation("y", "i", where, x[i] + 1, shape=None if shape is None else [N + shape])
    author.computation("z", "i", where, x[i] + 2)
    return lower(author.program("z", "y"))


def test_inputs_come_first_then_outputs_in_their_order():
    function = simple()
    assert function.params == ("N",)
    assert [argument.name for argument in function.arguments] == ["x", "z", "y"]
    assert function.outputs == ("z", "y")


@pytest.mark.parametrize(
    ("params", "assume", "words"),
    [
        ("N", "", ["N >= 0"]),
        ("N", "N >= 1", ["N >= 1"]),
        ("N M", "N >= 1 and M <= 8", ["N >= 1", "M <= 8", "M >= 0"]),
        ("N M", "N = 2 M and M >= 1", ["2*M == N", "N >= 2"]),
        ("N M", "N <= 3 M - 2", ["3*M >= N + 2", "N >= 0"]),
    ],
)
def test_what_is_assumed_is_said_in_words(params, assume, words):
    assert sorted(text for _, text in simple(params, assume).preconditions) == sorted(words)


def test_sizes_that_are_not_assumed_are_refused():
    function = simple(assume="N >= 2")
    computed(function, {"N": 2}, {"x": np.zeros(2, np.float32)})
    with pytest.raises(InterpretError, match="N >= 2"):
        computed(function, {"N": 1}, {"x": np.zeros(1, np.float32)})


def test_assumptions_in_pieces_are_one_condition():
    ((condition, words),) = simple(assume="(N <= 2 or N >= 8)").preconditions
    assert condition.dtype.is_bool and words == "(N >= 0 and N <= 2) or (N >= 8)"
    function = simple(assume="(N <= 2 or N >= 8)")
    for size, fits in [(0, True), (2, True), (3, False), (7, False), (8, True)]:
        x = np.zeros(size, np.float32)
        if fits:
            computed(function, {"N": size}, {"x": x})
        else:
            with pytest.raises(InterpretError):
                computed(function, {"N": size}, {"x": x})


def test_multiples_are_checked_as_such():
    function = simple(assume="exists e : N = 4 e")
    computed(function, {"N": 8}, {"x": np.zeros(8, np.float32)})
    with pytest.raises(InterpretError):
        computed(function, {"N": 6}, {"x": np.zeros(6, np.float32)})


def test_an_assumption_that_nothing_satisfies_is_said():
    author = Author("never", "N", "N >= 1 and N <= 0")
    ((condition, words),) = preconditions(author.program())
    assert "no sizes" in words and condition.dtype.is_bool


def test_an_output_that_is_written_in_part_is_not_covered():
    assert [a.covered for a in simple().arguments[1:]] == [True, True]
    assert [a.covered for a in simple(shape=1).arguments[1:]] == [True, False]
    assert [a.covered for a in simple(where="0 <= i < N and (exists e : i = 2 e)", shape=0).arguments[1:]] == [
        False,
        False,
    ]


def test_the_documentation_is_the_algorithm():
    assert simple().labels.documentation == ("y[i] = x[i] + 1", "z[i] = x[i] + 2")
