"""Calls that do not fit a public function or class: the error is one of this package and of Python, with our call."""

from __future__ import annotations

import pickle
from importlib import import_module
from inspect import Parameter, signature
from types import FunctionType

import pytest

import tiramisu_py as tm
from tiramisu_py.public_calls import own_call

_ROOMS = {"tm": tm} | {
    f"tm.{name}": getattr(tm, name) for name in ("boundary", "patterns", "progress", "recipes", "sparse")
}
_CLASSES = ["Buffer", "Config", "Function", "GpuTarget", "Machine", "MemoryLevel"]
#: Every public function by the name that users know, and the classes that they make themselves.
_PUBLIC = {
    f"{label}.{name}": getattr(room, name)
    for label, room in _ROOMS.items()
    for name in getattr(room, "__all__", dir(room))
    if isinstance(getattr(room, name), FunctionType) and not name.startswith("_")
} | {f"tm.{name}": getattr(tm, name) for name in _CLASSES}


def _parameters(called: str) -> list[Parameter]:
    return list(signature(_PUBLIC[called]).parameters.values())


def test_there_are_public_functions_in_every_room():
    assert len(_PUBLIC) > 100
    assert {name.rpartition(".")[0] for name in _PUBLIC} == set(_ROOMS)


def test_an_argument_that_there_is_not_is_answered_with_those_there_are():
    for called, public in _PUBLIC.items():
        own = _parameters(called)
        if any(each.kind is Parameter.VAR_KEYWORD for each in own):
            continue
        with pytest.raises(tm.CallError) as raised:
            public(nonsense_=1)
        said = str(raised.value)
        assert said.startswith(f"{called}(nonsense_=1) has the argument nonsense_=, and ")
        assert all(each.name in said for each in own if each.kind is not Parameter.VAR_POSITIONAL), called


def test_an_argument_too_few_is_answered_with_the_call_to_write():
    for called, public in _PUBLIC.items():
        required = [each for each in _parameters(called) if each.default is Parameter.empty]
        required = [each for each in required if each.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)]
        if required:
            with pytest.raises(tm.CallError) as raised:
                public()
            lacks = ", ".join(each.name for each in required)
            assert str(raised.value).startswith(f"{called}() lacks {lacks}: write {called}(")
            assert isinstance(raised.value, TypeError)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("tm.select(1)", "tm.select(1) lacks yes, no: write tm.select(1, yes, no)"),
        ("tm.params()", "tm.params() lacks names: write tm.params(names)"),
        ("tm.sqrt(2.0, 3)", "tm.sqrt(2.0, 3) has 2 of at most 1 argument without a name: sqrt takes x"),
        ("tm.minimum(1, 2, x=3)", "tm.minimum(1, 2, x=3) has the argument x=, and minimum takes a, b"),
        ("tm.clip(1, 2, x=3)", "tm.clip(1, 2, x=3) gives x twice"),
        ("tm.Function(params=[])", "tm.Function(params=[]) lacks name: write tm.Function(name=name, params=[])"),
        ("tm.Buffer('b', [4])", "tm.Buffer('b', [4]) lacks dtype: write tm.Buffer('b', [4], tm.float32)"),
        ("tm.any(1)", "tm.any is no function of values: write f.reduction(name, domain, {k: K}, tm.any, a[i, k])"),
    ],
)
def test_a_call_that_does_not_fit_says_what_to_write(call, said):
    with pytest.raises(tm.CallError) as raised:
        eval(call, {"tm": tm})
    assert str(raised.value) == said


def test_checked_functions_are_those_of_their_modules_and_pickle_and_show_their_arguments():
    for called, public in _PUBLIC.items():
        assert getattr(import_module(public.__module__), public.__name__) is public, called
        assert pickle.loads(pickle.dumps(public)) is public, called
        assert public.__doc__, called
        assert [each.name for each in _parameters(called)] != ["arguments", "named"], called


def test_an_error_inside_of_a_function_stays_as_it_is():
    def given(_):
        raise TypeError("of the inside")

    @own_call
    def twice(x, call):
        return 2 * call(x)

    with pytest.raises(TypeError, match="of the inside") as raised:
        twice(1, given)
    assert not isinstance(raised.value, tm.TiramisuError)
    with pytest.raises(TypeError, match="unsupported operand") as raised:  # raised in the function's own frame
        twice(1, lambda _: None)
    assert not isinstance(raised.value, tm.TiramisuError)
