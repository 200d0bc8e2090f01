"""Recursive functions over expressions as generators: depth needs no stack, and a shared node is visited once."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

_T = TypeVar("_T")

#: A generator that yields the arguments of recursive calls, is sent their results, and returns its own.
Steps = Generator[tuple[Any, ...], Any, _T]


def unstacked(
    step: Callable[..., Steps[_T]], *arguments: Any, shared: Callable[[tuple[Any, ...]], bool] = lambda _: True
) -> _T:
    """The result of `step` for these arguments, where ``x = yield (..)`` is a recursive call.

    Calls with the same argument objects are made once, if `shared` says so of the arguments. An exception is raised at
    once: the calls that wait for the result do not see it.
    """
    known: dict[tuple[int, ...], tuple[_T, tuple[Any, ...]]] = {}
    calls = [(step(*arguments), arguments)]
    answer: Any = None
    while calls:
        running, given = calls[-1]
        try:
            wanted = running.send(answer)
        except StopIteration as ended:
            calls.pop()
            answer = ended.value
            if shared(given):
                known[tuple(map(id, given))] = (answer, given)
            continue
        kept = known.get(tuple(map(id, wanted)))
        answer = None if kept is None else kept[0]
        if kept is None:
            calls.append((step(*wanted), wanted))
            answer = None
    result: _T = answer
    return result
