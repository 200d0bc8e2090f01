"""Recursion as deep as programs are: it goes on upon a new stack where the one at hand is half full.

Loops nest a few deep, and expressions mostly too, so that passes over them are plain recursive functions. A program may
be deep nevertheless: a sum of thousands of terms, a thousand temporaries one inside the other. Each thread has a stack
and a count of frames of its own; a function that is `deep` continues on those of a new thread, and waits for it, before
Python's limit is near. Nothing runs at the same time, and no limit is raised.
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

#: From so many frames on, a stack is taken to be full (Python's own limit is 1000, or more).
MOST_FRAMES = 400


def is_full() -> bool:
    """Whether the stack at hand has `MOST_FRAMES` frames or more."""
    try:
        sys._getframe(MOST_FRAMES)
    except ValueError:
        return False
    return True


def deep(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """A function that may call itself, or come back to itself, as often as it wants."""

    @functools.wraps(function)
    def guarded(*arguments: _P.args, **named: _P.kwargs) -> _T:
        if is_full():
            return on_new_stack(lambda: function(*arguments, **named))
        return function(*arguments, **named)

    return guarded


def on_new_stack(work: Callable[[], _T]) -> _T:
    """What `work` answers, or raises, on the stack of a thread of its own."""
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
