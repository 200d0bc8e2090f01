"""Calls that do not fit a method: the error is one of this package and of Python, with the call to write."""

from __future__ import annotations

import pytest

import tiramisu_py as tm

N, M = tm.params("N M")
i, j, i0, j0, i1, j1 = tm.iters("i j i0 j0 i1 j1")


@pytest.fixture
def made():
    f = tm.Function("f", params=[N, M])
    a = f.input("a", tm.float32, [N, M])
    b = f.computation("b", {i: N, j: M}, a[i, j] + 1)
    f.outputs(b)
    return f, a, b


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("b.split(i, 8)", r"lacks outer, inner: write b\.split\(i, 8, i0, i1\)"),
        ("b.split(i, 8, i0)", r"lacks inner: write b\.split\(i, 8, i0, i1\)"),
        ("b.split(i, 8, i0, i1, 9)", "5 of at most 4 arguments"),
        ("b.split(i, factor=8)", "has the argument factor=, and split takes loop, by, outer, inner, origin"),
        ("b.split(i, 8, i0, i1, by=4)", "gives by twice"),
        ("b.vectorize(j)", r"lacks width: write b\.vectorize\(j, 8\)"),
        ("f.input('z', tm.float32)", "lacks shape"),
        ("f.compile(b)", "1 of at most 0 arguments"),
        ("f(b)", r"write kernel = f\.compile\(\)"),
        ("a(i, j)", r"named in brackets, a\[i, j\]"),
        ("b(i, j)", r"named in brackets, b\[i, j\]"),
    ],
)
def test_a_call_that_does_not_fit_is_answered_with_the_call_to_write(made, call, said):
    f, a, b = made
    before = f.program
    with pytest.raises(tm.CallError, match=said) as raised:
        eval(call, {"tm": tm, "f": f, "a": a, "b": b, "i": i, "j": j, "i0": i0, "i1": i1})
    assert isinstance(raised.value, TypeError)
    assert f.program is before


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("split(i, i0, i1, 8)", "split(i, 8, i0, i1)"),
        ("split(8, i, i0, i1)", "split(i, 8, i0, i1)"),
        ("tile(i, j, 8, 4)", "tile(i, j, 8, 4, i0, j0, i1, j1)"),
        ("tile(i, j, i0, j0, i1, j1, 8, 4)", "tile(i, j, 8, 4, i0, j0, i1, j1)"),
        ("tile(i, j, i1, j1, 8, 4)", "tile(i, j, 8, 4, i0, j0, i1, j1)"),
        ("tile(i, j, 8, 4, i0, j0)", "tile(i, j, 8, 4, i0, j0, i1, j1)"),
        ("gpu_tile(i, j, i0, j0, i1, j1, 8, 4)", "gpu_tile(i, j, 8, 4, i0, j0, i1, j1)"),
        ("vectorize(8, j)", "vectorize(j, 8)"),
    ],
)
def test_arguments_in_the_order_of_others_are_answered_with_ours(made, wrong, right):
    _, _, b = made
    names = {"b": b, "i": i, "j": j, "i0": i0, "j0": j0, "i1": i1, "j1": j1}
    with pytest.raises(tm.CommandError) as raised:
        eval(f"b.{wrong}", names)
    assert str(raised.value).endswith(f"write {right}")
    eval(f"b.{right}", names)  # the repair is one


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda f, b: b.parallel(i), r"b has no parallel: write parallelize\(i\)"),
        (lambda f, b: b.compute_root(), "has loops of its own until compute_at"),
        (lambda f, b: b.vectorise(j, 8), "did you mean vectorize"),
        (lambda f, b: f.parallelize(i), r"a command of a computation: write b\.parallelize"),
        (lambda f, b: f.realize(), r"write compile\(\)"),
    ],
)
def test_a_command_of_another_name_is_answered_with_ours(made, use, said):
    f, _, b = made
    with pytest.raises(tm.UnknownNameError, match=said) as raised:
        use(f, b)
    assert isinstance(raised.value, AttributeError)


def test_an_error_inside_of_a_method_stays_as_it_is(made, monkeypatch):
    f, _, _ = made

    def broken(*_):
        raise TypeError("of the inside")

    monkeypatch.setattr("tiramisu_py.function.results.Scheduled.apply", broken)
    with pytest.raises(TypeError, match="of the inside") as raised:
        f["b"].parallelize(i)
    assert not isinstance(raised.value, tm.TiramisuError)
