"""Public methods made of commands: in a class of handles, ``split = command(Split)`` is the method `split`.

::

    bx.split(r, 8, r0, r1)      -->     Split(<bx>, r, 8, r0, r1), checked and applied; gives bx back

A method has the docstring of the command's class, its fields as arguments (or those of the class method `called`), and
their defaults. The handles that it is called with are kept as references by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, fields
from inspect import Parameter, Signature
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

import numpy as np

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.errors import CallError, CommandError
from tiramisu_py.former_words import warn_of_old_word
from tiramisu_py.function.applying.own_calls import in_words_of_now, method_misfit
from tiramisu_py.program.command import Command, name_of
from tiramisu_py.program.program import Program
from tiramisu_py.schedule.command_fields import Handle, Named

_P = ParamSpec("_P")
_H = TypeVar("_H")
_R = TypeVar("_R")
_R_co = TypeVar("_R_co", covariant=True)
_C = TypeVar("_C", bound=Command)


class Chained(Protocol[_P]):
    """A method that gives back what it is called on."""

    @overload
    def __get__(self, handle: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, handle: _H, owner: type[_H] | None = None) -> Callable[_P, _H]: ...


class Giving(Protocol[_P, _R_co]):
    """A method that returns something else, such as handles of what the command has made."""

    @overload
    def __get__(self, handle: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, handle: object, owner: type | None = None) -> Callable[_P, _R_co]: ...


@overload
def command(made: Callable[Concatenate[Named, _P], Command]) -> Chained[_P]: ...
@overload
def command(made: Callable[Concatenate[Named, _P], _C], gives: Callable[[Any, _C, Program], _R]) -> Giving[_P, _R]: ...


def command(made: Any, gives: Any = None) -> Any:
    """The public method of a command on statements, or on an array.

    `made` is the class of the command or its class method `called`. The method returns its handle, or what
    `gives(handle, command, before)` returns, where `before` is the program before the command.
    """
    return _method(made, gives, "Self")


@overload
def function_command(made: Callable[Concatenate[str, _P], Command]) -> Giving[_P, None]: ...
@overload
def function_command(
    made: Callable[Concatenate[str, _P], _C], gives: Callable[[Any, _C, Program], _R]
) -> Giving[_P, _R]: ...


def function_command(made: Any, gives: Any = None) -> Any:
    """The public method of a command on a function; it returns nothing, or what `gives` returns."""
    return _method(made, gives or _nothing, "None")


def _nothing(*_: object) -> None:
    return None


def _method(made: Any, gives: Any, result: str) -> Any:
    kind: type[Command] = made if isinstance(made, type) else made.__self__
    parameters, verb, former = _parameters(made), name_of(kind), dict(kind.former)
    lists = [number for number, each in enumerate(parameters) if each.name in kind.lists]

    def method(self: Any, /, *arguments: Any, **named: Any) -> Any:
        subject, function = self._subject
        kept = [_kept(each, function) for each in arguments]
        for number in lists:
            kept[number : number + 1] = [as_list(each) for each in kept[number : number + 1]]
        by_name = {name: _kept(each, function) for name, each in in_words_of_now(verb, former, named).items()}
        by_name |= {name: as_list(by_name[name]) for name in kind.lists if name in by_name}
        for name in kind.retired:
            if name in named:
                warn_of_old_word(f"{name}= of {verb} is an old word: write {kind.instead}")
        try:
            one: Command = made(subject, *kept, **by_name)
        except TypeError:
            words = method_misfit(self, signature, method.__name__, arguments, named)
            if not words:
                raise
            raise CallError(words) from None
        before = function.program
        self._apply(one)
        return self if gives is None else gives(self, one, before)

    if gives is not None:
        result = getattr(gives, "__annotations__", {}).get("return") or result
    signature = Signature([Parameter("self", Parameter.POSITIONAL_OR_KEYWORD), *parameters], return_annotation=result)
    method.__name__ = verb
    method.__qualname__ = f"{kind.__name__}.{method.__name__}"
    method.__module__, method.__doc__ = kind.__module__, kind.__doc__
    method.__signature__ = signature  # type: ignore[attr-defined]
    method.command = kind  # type: ignore[attr-defined]
    method.former = former  # type: ignore[attr-defined]
    return method


def _parameters(made: Any) -> Sequence[Parameter]:
    """The arguments of a command, without what it applies to."""
    if not isinstance(made, type):
        return list(inspect.signature(made).parameters.values())[1:]
    kinds = {True: Parameter.KEYWORD_ONLY, False: Parameter.POSITIONAL_OR_KEYWORD}
    return [
        Parameter(
            each.name, kinds[each.kw_only is True], annotation=each.type,
            default=Parameter.empty if each.default is MISSING else each.default,
        )
        for each in fields(made)[1:]
    ]  # fmt: skip


def _kept(given: Any, function: Any) -> Any:
    """An argument as commands keep it: handles as references by name; raises `CommandError` for another function's."""
    if isinstance(given, Handle):
        owner = getattr(given, "_function", function)
        if owner is not function:
            of = "another function" if owner.name == function.name else "the function"
            raise CommandError(
                f"{given} belongs to {of} {owner.name}, not to {function.name}: give what {function.name} has declared"
            )
        return given._named
    if type(given) in (list, tuple):
        return type(given)(_kept(each, function) for each in given)
    return given


def as_list(given: Any) -> Any:
    """An argument as commands keep it: other iterables of items as a list, anything else unchanged."""
    if isinstance(given, np.ndarray):
        return given.tolist()
    return list(given) if isinstance(given, Iterable) and not isinstance(given, Expr | str | list) else given
