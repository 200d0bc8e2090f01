"""Public functions and classes whose calls are checked: one that does not fit is answered with the call to write.

::

    @own_call
    def select(condition: Operand, yes: Operand, no: Operand) -> Expr: ...

    tm.select(c, 1)     -->   tm.select(c, 1) lacks no: write tm.select(c, 1, no)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import Parameter, getattr_static, signature
from typing import Any, TypeVar

from tiramisu_py.errors import CallError

#: What stands for a missing argument in the call to write; ``{0}`` is the first argument.
_EXAMPLES = {"by": "8", "width": "8", "factor": "4", "outer": "{0}0", "inner": "{0}1", "dtype": "tm.float32"}
_C = TypeVar("_C", bound=type)
_F = TypeVar("_F", bound=Callable[..., Any])
_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def own_call(function: _F) -> _F:
    """A decorator of a public function of the front: a call that does not fit raises `CallError`."""
    return _checked(function, f"tm.{function.__name__.rstrip('_')}")


def own_call_of(room: str, name: str = "") -> Callable[[_F], _F]:
    """A decorator of a public function of a room, ``tm.recipes``, or of one that has another name there."""

    def decorated(function: _F) -> _F:
        return _checked(function, f"{room}.{name or function.__name__}")

    return decorated


def own_class(cls: _C) -> _C:
    """A decorator of a public class, above that of a dataclass: what it is not made of raises `CallError`."""
    given = getattr_static(cls, "__init__")
    setattr(cls, "__init__", _Start(cls, given))  # noqa: B010 (a type checker takes it for an instance's)
    return cls


class _Start:
    """The `__init__` of a class, checked when it is first looked at: that of a dataclass is made no sooner."""

    def __init__(self, cls: type, given: Any) -> None:
        self.cls, self.given = cls, given

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        checked = _checked(self.given.__get__(None, self.cls), f"tm.{self.cls.__name__}", skipped=1)
        if vars(self.cls).get("__init__") is self:
            setattr(self.cls, "__init__", checked)  # noqa: B010 (as above)
        return checked if instance is None else checked.__get__(instance, owner)


def _checked(function: _F, called: str, skipped: int = 0) -> _F:
    """The function, which is told to the user by the name `called`, without its first `skipped` arguments."""

    @wraps(function)
    def checked(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except TypeError as error:
            own = list(signature(function).parameters.values())[skipped:]
            if not is_of_the_call(error) or not (words := misfit(called, own, arguments[skipped:], named)):
                raise
        raise CallError(words)

    return checked  # type: ignore[return-value]


def is_of_the_call(error: TypeError) -> bool:
    """Whether a call itself raised an error, caught in the frame of the call, and nothing that it has called."""
    return error.__traceback__ is None or error.__traceback__.tb_next is None


def misfit(call: str, own: Sequence[Parameter], arguments: Sequence[object], named: Mapping[str, object]) -> str:
    """The fault of a call of ``tm.select``, or of the method ``b.split``, and the call to write; "" if it fits."""
    name = call.rpartition(".")[2]
    listed = [p for p in own if p.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)]
    shown = [_shown(each) for each in arguments]
    given = f"{call}({', '.join([*shown, *(f'{each}={_shown(value)}' for each, value in named.items())])})"
    taken = {p.name for p in listed[: len(arguments)]}
    lacks = [p for p in listed[len(arguments) :] if p.default is p.empty and p.name not in named]
    lacks += [p for p in own if p.kind is Parameter.KEYWORD_ONLY and p.default is p.empty and p.name not in named]
    names = ", ".join(p.name for p in own if p.kind in _NAMED)
    unknown = [each for each in named if each not in {p.name for p in own if p.kind in _NAMED}]
    if unknown and not any(p.kind is Parameter.VAR_KEYWORD for p in own):
        return f"{given} has the argument {unknown[0]}=, and {name} takes {names or 'none'}"
    if len(arguments) > len(listed) and not any(p.kind is Parameter.VAR_POSITIONAL for p in own):
        count = f"{len(listed)} argument{'' if len(listed) == 1 else 's'} without a name"
        return f"{given} has {len(arguments)} of at most {count}: {name} takes {names or 'none'}"
    twice = [each for each in named if each in taken]
    if twice:
        return f"{given} gives {twice[0]} twice"
    if not lacks:
        return ""
    first = shown[0] if shown else listed[0].name if listed else ""
    added = [_EXAMPLES.get(p.name, p.name).format(first) for p in lacks]
    words = [
        *shown,
        *(
            f"{p.name}={each}" if named or p.kind is Parameter.KEYWORD_ONLY else each
            for p, each in zip(lacks, added, strict=True)
        ),
        *(f"{each}={_shown(value)}" for each, value in named.items()),
    ]
    return f"{given} lacks {', '.join(p.name for p in lacks)}: write {call}({', '.join(words)})"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 and "\n" not in text else f"{text[:37].splitlines()[0]}..."
