"""Recursive functions over expressions without a stack of their own: what is deep or shared costs what it has nodes."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

_T = TypeVar("_T")

#: A function that yields the arguments of calls of itself, and is sent what they answer.
Steps = Generator[tuple[Any, ...], Any, _T]


def unstacked(
    step: Callable[..., Steps[_T]], *arguments: Any, shared: Callable[[tuple[Any, ...]], bool] = lambda _: True
) -> _T:
    """What `step` answers for these arguments, where ``x = yield (..)`` is a call of itself with others.

    Calls with the same arguments (the same objects, of those that are `shared`) are one call. What a call raises, none
    of those that wait for it sees: it is raised at once.
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
