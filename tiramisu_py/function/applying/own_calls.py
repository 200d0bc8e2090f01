"""Methods whose calls are checked: an argument too few or too many is answered with the call to write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import Parameter, Signature, signature
from types import FunctionType
from typing import Any, TypeVar

from tiramisu_py.algorithm.misuse import unknown_name
from tiramisu_py.errors import CallError
from tiramisu_py.function.applying.caller import warn_of_old_word

#: What stands for a missing argument in the call to write; ``{0}`` is the first argument.
_EXAMPLES = {"by": "8", "width": "8", "factor": "4", "outer": "{0}0", "inner": "{0}1", "dtype": "tm.float32"}
#: Commands of other systems, and what to write for them.
_ELSEWHERE = {
    "parallel": "write parallelize(i)",
    "compute_root": "a computation has loops of its own until compute_at",
    "store_root": "an array is that of the whole function until store_at",
    "compute_inline": "write inline()",
    "gpu_blocks": "write tag_gpu([i0], [i1])",
    "gpu_threads": "write tag_gpu([i0], [i1])",
    "gpu": "write tag_gpu([i0], [i1])",
    "bind": "write tag_gpu([i0], [i1])",
    "bound": "facts of sizes are assumed: tm.Function(.., assume=..)",
    "bound_extent": "facts of sizes are assumed: tm.Function(.., assume=..)",
    "reorder_storage": "write store_in",
    "fold_storage": "write store_in with an index % size",
    "cache_read": "write copy",
    "cache_write": "write accumulate_in_registers or store_in",
    "decompose_reduction": "write init and update",
    "realize": "write compile(), and call what it returns",
    "build": "write compile()",
    "lower": "write lowered()",
    "update_definition": "write update",
}
_F = TypeVar("_F", bound=Callable[..., Any])
_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


class OwnCalls:
    """Base of what users call methods of: a call that does not fit its method raises `CallError`.

    ::

        b.split(i, 8)       -->   b.split(i, 8) lacks outer, inner: write b.split(i, 8, i0, i1)
    """

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        for name, method in list(vars(cls).items()):
            if isinstance(method, FunctionType) and not name.startswith("_") and not hasattr(method, "command"):
                setattr(cls, name, _checked(method))


def unknown_command(of: object, name: str) -> AttributeError:
    """The error of a method that a handle or a function does not have: what to write, or a name like it."""
    if hasattr(type(of), name):  # of a property that raised an AttributeError: raise that one
        object.__getattribute__(of, name)
    known = [each for each in dir(type(of)) if not each.startswith("_")]
    return unknown_name(of, name, known, _ELSEWHERE.get(name, ""))


def formerly(**former: str) -> Callable[[_F], _F]:
    """A decorator of methods some of whose arguments had other names in older versions: old names, and those of now."""

    def decorated(method: _F) -> _F:
        method.former = former  # type: ignore[attr-defined]
        return method

    return decorated


def in_words_of_now(method: str, former: Mapping[str, str], named: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by the names that they have now; warns of older ones."""
    found = dict(named)
    for old, new in former.items():
        if old in named and new not in named:
            warn_of_old_word(f"{old}= of {method} is an old word: write {new}=")
            found[new] = found.pop(old)
    return found


def _checked(method: FunctionType) -> Callable[..., Any]:
    former: Mapping[str, str] = getattr(method, "former", {})

    @wraps(method)
    def checked(self: Any, /, *arguments: Any, **named: Any) -> Any:
        if former:
            named = in_words_of_now(method.__name__, former, named)
        try:
            return method(self, *arguments, **named)
        except TypeError as error:
            inside = error.__traceback__ is not None and error.__traceback__.tb_next is not None
            if inside or not (words := misfit(self, signature(method), method.__name__, arguments, named)):
                raise
        raise CallError(words)

    return checked


def misfit(of: object, taken_by: Signature, name: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> str:
    """The fault of a call of the method `name`, and the call to write; "" if it fits."""
    own = list(taken_by.parameters.values())[1:]
    listed = [p for p in own if p.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)]
    shown = [_shown(each) for each in arguments]
    handle = getattr(of, "name", None) or repr(of)
    call = f"{handle}.{name}"
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
