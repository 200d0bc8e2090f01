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
