"""Deep recursion: it continues on the stack of a new thread before the current one is full.

Loops and most expressions nest only a few levels, so passes over them are plain recursive functions. Some programs are
deep nevertheless: a sum of thousands of terms, a thousand nested temporaries. Each thread has its own stack and its own
count of frames. A function decorated with `deep` continues on a new thread, and waits for it, long before Python's
recursion limit. Only one of the threads runs at a time, and the limit is not raised.

A thread costs as much as a thousand calls. Statements (`deep_nest`) leave a stack before expressions do, so that a deep
nest takes one thread at a few of its statements, not one for each expression inside.

A function over expressions, which may share subtrees, can be a generator instead: `unstacked` runs it without a stack,
and visits a shared node once.
"""

from __future__ import annotations

import contextvars
import functools
import sys
import threading
from collections.abc import Callable, Generator
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")

#: A generator that yields the arguments of recursive calls, is sent their results, and returns its own.
Steps = Generator[tuple[Any, ...], Any, _T]

#: A stack with this many frames counts as full (Python's own limit is at least 1000) ..
MOST_FRAMES = 550
#: .. and for the functions of statements with this many.
MOST_IN_NESTS = 400


def is_full(most: int) -> bool:
    """Whether the current stack has `most` frames or more."""
    try:
        sys._getframe(most)
    except ValueError:
        return False
    return True


def deep(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """A version of a function that may recurse, directly or indirectly, to any depth."""
    return _guarded(function, MOST_FRAMES)


def deep_nest(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """A version of a function of statements that may recurse to any depth, and leaves room for their expressions."""
    return _guarded(function, MOST_IN_NESTS)


def _guarded(function: Callable[_P, _T], most: int) -> Callable[_P, _T]:
    @functools.wraps(function)
    def guarded(*arguments: _P.args, **named: _P.kwargs) -> _T:
        if is_full(most):
            return on_new_stack(lambda: function(*arguments, **named))
        return function(*arguments, **named)

    return guarded


def on_new_stack(work: Callable[[], _T]) -> _T:
    """The result (or exception) of `work`, run on the stack of a new thread."""
    answered: list[_T] = []
    raised: list[BaseException] = []
    context = contextvars.copy_context()

    def run() -> None:
        try:
            answered.append(context.run(work))
        except BaseException as error:
            raised.append(error)

    thread: Any = threading.Thread(target=run, name="tiramisu: a deep expression", daemon=True)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return answered[0]


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
