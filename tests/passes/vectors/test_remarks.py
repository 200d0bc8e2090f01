"""What a vector loop calls lane by lane is said in its source."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm

N = tm.params("N")[0]
i = tm.iters("i")[0]


def applied(function: object, lanes: int | None) -> tm.Function:
    """A function of each element, in vectors or not."""
    assert callable(function)
    f = tm.Function("applied", params=[N])
    a = f.input("a", tm.float32, [N])
    b = f.computation("b", {i: N}, function(a[i]) + a[i])
    f.outputs(b)
    if lanes is not None:
        b.vectorize(i, lanes)
    return f


@pytest.mark.parametrize("name", ["erf", "tanh", "expm1"])
def test_a_function_without_an_instruction_is_remarked_in_vectors_alone(name: str) -> None:
    f = applied(getattr(tm, name), 8)
    (code,) = [text for file, text in f.source().items() if file == "applied.c"]
    assert code.count(f"// called for each lane: {name}\n") == 1
    plain = applied(getattr(tm, name), None).source()["applied.c"]
    assert "called for each lane" not in plain
    a = np.linspace(-1, 1, 19, dtype=np.float32)
    np.testing.assert_allclose(f.compile()(a), f.evaluate(a=a), rtol=1e-6)


@pytest.mark.parametrize("name", ["sqrt", "absolute", "floor", "exp"])
def test_a_function_of_vectors_is_not(name: str) -> None:
    assert "called for each lane" not in applied(getattr(tm, name), 8).source()["applied.c"]


def vectors(what: str) -> tm.Function:
    """A function whose vector loop does something for each lane."""
    f = tm.Function(what, params=[N], assume="N >= 1")
    a = f.input("a", tm.float16 if what == "half" else tm.float32, [N])
    at = f.input("at", tm.int32, [N], values=(0, N))
    value = {
        "guard": lambda: tm.select(i % 3 == 1, a[i - 1], 0.0),
        "gather": lambda: a[at[i]] + 1,
        "half": lambda: tm.rint(a[i]),
        "plain": lambda: a[i] + 1,
    }[what]()
    b = f.computation("b", {i: N}, value)
    f.outputs(b)
    b.vectorize(i, 8)
    return f


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("guard", "b: lane by lane: where a condition holds for some lanes of a vector only"),
        ("gather", "b: gathered at computed indices: a"),
        ("half", "b: lane by lane: a function of 16-bit floats has no vectors"),
        ("plain", None),
    ],
)
def test_what_is_done_for_each_lane_is_said_by_the_kernel_its_source_and_the_cost(what: str, words: str | None) -> None:
    f = vectors(what)
    kernel = f.compile()
    assert kernel.remarks == f.cost(N=100).remarks == (() if words is None else (words,))
    (code,) = [text for file, text in kernel.source.items() if file == f"{what}.c"]
    assert (words is None) or f"// {words.removeprefix('b: ')}" in code
    assert ("in vectors, " in str(f.cost(N=100))) == (words is not None)
    a = np.linspace(-1, 1, 19).astype(np.float16 if what == "half" else np.float32)
    at = np.arange(19, dtype=np.int32)[::-1].copy()
    np.testing.assert_array_equal(kernel(a, at), f.evaluate(a=a, at=at))


def test_functions_that_are_called_for_each_lane_are_among_the_remarks() -> None:
    assert applied(tm.tanh, 8).compile().remarks == ("b: called for each lane: tanh",)
    assert applied(tm.tanh, None).compile().remarks == ()
