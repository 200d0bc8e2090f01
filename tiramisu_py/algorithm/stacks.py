"""Deep recursion: it continues on the stack of a new thread before the current one is full.

Loops and most expressions nest only a few levels, so passes over them are plain recursive functions. Some programs are
deep nevertheless: a sum of thousands of terms, a thousand nested temporaries. Each thread has its own stack and its own
count of frames. A function decorated with `deep` continues on a new thread, and waits for it, long before Python's
recursion limit. Only one of the threads runs at a time, and the limit is not raised.
"""

from __future__ import annotations

import contextvars
import functools
import sys
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")

#: A stack with this many frames counts as full (Python's own limit is at least 1000).
MOST_FRAMES = 400


def is_full() -> bool:
    """Whether the current stack has `MOST_FRAMES` frames or more."""
    try:
        sys._getframe(MOST_FRAMES)
    except ValueError:
        return False
    return True


def deep(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """A version of a function that may recurse, directly or indirectly, to any depth."""

    @functools.wraps(function)
    def guarded(*arguments: _P.args, **named: _P.kwargs) -> _T:
        if is_full():
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
