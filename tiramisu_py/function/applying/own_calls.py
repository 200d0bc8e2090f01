"""Methods whose calls are checked: an argument too few or too many is answered with the call to write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import Signature, signature
from types import FunctionType
from typing import Any, TypeVar

from tiramisu_py.algorithm.misuse import unknown_name
from tiramisu_py.errors import CallError
from tiramisu_py.former_words import warn_of_old_word
from tiramisu_py.public_calls import is_of_the_call, misfit

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
    "lower": 'write show("lowered")',
    "update_definition": "write update",
}
_F = TypeVar("_F", bound=Callable[..., Any])


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
            if not is_of_the_call(error) or not (
                words := method_misfit(self, signature(method), method.__name__, arguments, named)
            ):
                raise
        raise CallError(words)

    return checked


def method_misfit(
    of: object, taken_by: Signature, name: str, arguments: Sequence[object], named: Mapping[str, object]
) -> str:
    """The fault of a call of the method `name`, and the call to write; "" if it fits."""
    handle = getattr(of, "name", None) or repr(of)
    return misfit(f"{handle}.{name}", list(taken_by.parameters.values())[1:], arguments, named)
