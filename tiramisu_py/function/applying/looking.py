"""Methods with several views, `f.show("loops")`: the first argument says which, the others are those of the view."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any, Protocol

from tiramisu_py.errors import ArgumentError, CallError
from tiramisu_py.public_calls import misfit

#: The first argument of the method, by a name that no parameter of a function has.
_WHAT = Parameter("_view", Parameter.POSITIONAL_ONLY)


class _Named(Protocol):
    @property
    def name(self) -> str: ...


def looked_at(
    of: _Named,
    method: str,
    views: Mapping[str, Callable[..., Any]],
    what: object,
    arguments: Sequence[object],
    named: Mapping[str, object],
) -> Any:
    """The view `what` of a function, with its arguments.

    ::

        f.show("loops")     -->   views["loops"]()

    Raises `ArgumentError` with the names of all views, and `CallError` for arguments that the view does not take.
    """
    view = views.get(what) if isinstance(what, str) else None
    if view is None:
        known = ", ".join(f'"{each}"' for each in views)
        raise ArgumentError(f"{of.name}.{method}({what!r}): {what!r} is no view: it has {known}")
    taken = [_WHAT, *signature(view).parameters.values()]
    if words := misfit(f"{of.name}.{method}", taken, (what, *arguments), named):
        raise CallError(words)
    return view(*arguments, **named)
