"""What Python and NumPy do with numbers, and not with expressions, is refused with what to write."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tiramisu_py as tm

N, K = tm.params("N K")
i, k = tm.iters("i k")
f = tm.Function("f", params=[N, K])
A = f.input("A", tm.float32, [N])
J = f.input("J", tm.int32, [N])

MISTAKES = [
    (lambda: np.exp(A[i]), r"write tm\.exp\(A\[i\]\)"),
    (lambda: np.maximum(A[i], 0), r"write tm\.maximum\(A\[i\], 0\)"),
    (lambda: np.sum(A[i]), "f.reduction"),
    (lambda: np.where(A[i] > 0, 1, 0), "tm.select"),
    (lambda: np.exp(A), r"tm\.exp\(A\)"),
    (lambda: tm.sum(A[i]), r"f\.reduction\(name, domain, \{k: K\}, tm\.sum"),
    (lambda: tm.max(A[i]), "takes two values"),
    (lambda: J[i][k], r"go together: J\[i, k\]"),
    (lambda: range(N), r"a domain \{i: N\} loops"),
    (lambda: list(A), r"a domain \{i: N\} loops"),
    (lambda: sum(A[i]), r"f\.reduction"),
    (lambda: max(A[i], 0), "tm.maximum"),
    (lambda: int(A[i]), r"write tm\.cast\(tm\.int32, A\[i\]\)"),
    (lambda: float(A[i]), "tm.cast"),
    (lambda: round(A[i]), "tm.rint"),
    (lambda: math.floor(A[i]), "tm.floor"),
    (lambda: math.sqrt(A[i]), "tm.sqrt"),
    (lambda: len(A[i]), "sizes are parameters"),
    (lambda: A[i] @ A[k], "f.reduction"),
    (lambda: A.__setitem__(i, 3), "f.computation"),
    (lambda: 1 if A[i] > 0 else 2, "tm.select"),
    (lambda: A[0:k], r"A\[0:k\] is a slice: write an iterator"),
    (lambda: [1, 2, 3][J[i]], "an input is a list"),
    (lambda: tm.cast(A[i], tm.int32), r"write tm\.cast\(tm\.int32, A\[i\]\)"),
    (lambda: tm.params(["N", "M"]), r'write tm\.params\("N M"\)'),
    (lambda: tm.iters(3), r'write tm\.iters\("i j"\)'),
    (lambda: tm.params("N N"), "a name twice"),
    (lambda: tm.Function("g", params=N), r"give a list of parameters, such as \[N\]"),
    (lambda: f.computation("c", {i: N}, lambda: 1), "is called with the computation itself"),
    (lambda: tm.operator("m", lambda a: a, 0), "is called with two operands"),
    (lambda: tm.operator("m", lambda a, b: a + b, "x"), "give a number"),
    (lambda: tm.extern("e", tm.float32, tm.float32, lambda x: x), "give a list of types"),
    (lambda: f.compile(compiler=3), "is no command"),
]


@pytest.mark.parametrize(("mistake", "said"), MISTAKES)
def test_a_mistake_is_answered_with_what_to_write(mistake, said):
    with pytest.raises(tm.TiramisuError, match=said):
        if mistake.__code__.co_names[:1] == ("compile",):
            f.outputs(f.computation("o", {i: N}, A[i]))
        mistake()


def test_numpy_scalars_stand_on_either_side_of_an_operator():
    pairs = [
        (np.float32(2) * A[i], "2.0 * A[i]"), (np.int32(3) > J[i], "J[i] < 3"), (A[i] - np.float32(1), "A[i] - 1.0"),
        (np.float32(1) / A[i], "1.0 / A[i]"), (np.float32(2) == A[i], "A[i] == 2.0"),
        (np.int32(1) << J[i], "1 << J[i]"),
    ]  # fmt: skip
    assert [str(made) for made, _ in pairs] == [text for _, text in pairs]
    assert {made.dtype.name for made, _ in pairs} == {"float32", "int32", "bool"}


@pytest.mark.parametrize("folder", ["", None, 3])
def test_an_export_names_its_folder(folder):
    g = tm.Function("g", params=[N])
    g.outputs(g.computation("o", {i: N}, tm.cast(tm.int32, i)))
    with pytest.raises(tm.ArgumentError, match=r'export takes the folder to write to, such as kernel.export\("g"\)'):
        g.compile().export(folder)
