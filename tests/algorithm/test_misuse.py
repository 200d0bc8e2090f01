"""What Python and NumPy do with numbers, and not with expressions, is refused with what to write."""

from __future__ import annotations

import copy
import math
import pickle

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
    (lambda: np.where(A[i] > 0, 1, 0), r"tm\.where"),
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
    (lambda: np.clip(A[i], 0, 1), r"write tm\.clip\(A\[i\], 0, 1\)"),
    (lambda: np.where(A[i] > 0, A[i], 0), r"write tm\.where\(A\[i\] > 0, A\[i\], 0\)"),
    (lambda: np.round(A[i]), r"write tm\.rint\(A\[i\]\)"),
    (lambda: np.mean(A), r"np\.mean needs one: write f\.reduction\(name, .* tm\.mean"),
    (lambda: np.float32(A[i]), r"write tm\.cast\(tm\.float32, \.\.\) for np\.float32"),
    (lambda: A > 0 & A > 0, r"put each in parentheses, \(x > 0\) & \(y > 0\)"),
    (lambda: A[i] > 0 & A[i] > 0, r"put each in parentheses"),
    (lambda: (A[i] > 0) & A[i] > 0, r"put each in parentheses"),
    (lambda: A[i] > 0 & (A[i] > 1), r"of a number and a condition; .*put each in parentheses"),
    (lambda: i > 0 & k > 0, r"each in parentheses, \(x > 0\) & \(y > 0\)"),
    (lambda: 0 < i < N, r"each in parentheses"),
]

ONE, LONE = tm.params("P"), tm.iters("l")
P = ONE[0]
#: Uses of what `tm.params` and `tm.iters` give as if it were an item of it.
WHOLE = [
    lambda: ONE + 1, lambda: 2 * ONE, lambda: ONE >= 1, lambda: -ONE, lambda: LONE == 0, lambda: ONE - N,
    lambda: N - ONE, lambda: A[i] + LONE, lambda: tm.sqrt(LONE), lambda: tm.select(i == ONE, A[i], 0),
    lambda: tm.Function("g", params=[ONE]), lambda: f.input("z", tm.float32, [N, ONE]),
    lambda: f.computation("z", {LONE: N}, 1.0), lambda: f.computation("z", {i: ONE}, 1.0),
    lambda: f.computation("z", {i: (0, ONE)}, 1.0), lambda: f.computation("z", [LONE], 1.0),
    lambda: f.computation("y", {i: N}, A[i]).split(LONE, 8, i, k),
    lambda: f.computation("x", {i: N}, A[i]).parallelize(LONE),
]  # fmt: skip


@pytest.mark.parametrize("use", WHOLE)
def test_the_tuple_of_params_is_refused_where_a_parameter_is_meant(use):
    with pytest.raises(tm.TiramisuError, match=r'is a tuple.*write \((P|l),\) = tm\.(params\("P"\)|iters\("l"\))'):
        use()


def test_the_tuple_of_params_is_a_tuple():
    more = ONE + (N,)
    assert ONE == (P,)
    assert ONE != "P"
    assert more == (P, N)
    assert tm.Function("g", params=ONE).input("a", tm.float32, ONE).name == "a"
    assert repr(pickle.loads(pickle.dumps(ONE))) == "(P,)"


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda: A[i].astype(tm.int32), r"write tm\.cast\(tm\.float32, A\[i\]\)"),
        (lambda: A[i].clip(0, 1), r"write tm\.clip\(A\[i\], low, high\)"),
        (lambda: A.sum(), r"tm\.sum"),
        (lambda: A.shape, "sizes are parameters"),
        (lambda: N.nothing, "N has no nothing"),
    ],
)
def test_an_attribute_of_numpy_is_answered_with_what_to_write(use, said):
    with pytest.raises(tm.UnknownNameError, match=said) as raised:
        use()
    assert isinstance(raised.value, AttributeError)


def test_values_have_no_attributes_for_protocols():
    for each in (A, A[i], N, f):
        assert not hasattr(each, "nothing") and getattr(each, "__array_interface__", None) is None
        assert copy.copy(each) is not None


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


@pytest.mark.parametrize("scalar", [np.float64(2), np.float32(2), np.float16(2), np.int64(2), np.int8(2), 2.0, 2])
@pytest.mark.parametrize("values", [A, J])
def test_types_of_numpy_scalars_are_those_of_numpy_2(scalar, values):
    array = np.ones(1, values.dtype.name)
    for made, there in ((values[i] * scalar, array * scalar), (scalar - values[i], scalar - array)):
        assert made.dtype.name == there.dtype.name


@pytest.mark.parametrize("folder", ["", None, 3])
def test_an_export_names_its_folder(folder):
    g = tm.Function("g", params=[N])
    g.outputs(g.computation("o", {i: N}, tm.cast(tm.int32, i)))
    with pytest.raises(tm.ArgumentError, match=r'export takes the folder to write to, such as kernel.export\("g"\)'):
        g.compile().export(folder)
