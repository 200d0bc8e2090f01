"""Progress of long work: the step that the compiler is at, how long it takes, and what would make it shorter.

Each step is logged, with its time, as INFO to the logger "tiramisu_py". A step that takes long is also shown while it
lasts: see `show`.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import TextIO

from tiramisu_py.public_calls import own_call_of
from tiramisu_py.records import dataclass

__all__ = ["show", "step"]

_log = logging.getLogger("tiramisu_py")
#: The environment variable that says whether steps are shown: 1 or 0; without it they are on a terminal.
VARIABLE = "TIRAMISU_PROGRESS"
#: A step is shown once it has taken so many seconds.
PATIENCE = 2.0
_EACH = 0.5


@own_call_of("tm.progress")
def show(asked: bool | None = True) -> None:
    """Show steps that take more than two seconds on standard error (True), never (False), or on a terminal (None).

    ::

        tm.progress.show()
        f.compile()         blur: proof, 2 s ...

    The default is None. It is kept in the environment, as ``TIRAMISU_PROGRESS`` (1 or 0), for this process and those
    that it starts.
    """
    if asked is None:
        os.environ.pop(VARIABLE, None)
    else:
        os.environ[VARIABLE] = "1" if asked else "0"


def _is_shown(stream: TextIO) -> bool:
    asked = os.environ.get(VARIABLE, "")
    return asked == "1" if asked in ("0", "1") else stream.isatty()


@dataclass(eq=False)
class _Step:
    """A step under way, shown by a thread of its own if it takes long."""

    what: str
    shorter: str
    stream: TextIO
    began: float = field(default_factory=time.perf_counter)
    ended: threading.Event = field(default_factory=threading.Event)
    turn: threading.Lock = field(default_factory=threading.Lock)
    was_shown: bool = False

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began

    def watch(self) -> None:
        """Show it until it ends: on a terminal with its time in one line, elsewhere as one line."""
        wait = PATIENCE
        while not self.ended.wait(wait):
            self._write(f"{self.what}, {self.seconds:.0f} s ...", "" if self.stream.isatty() else "\n")
            if not self.stream.isatty():
                return
            wait = _EACH

    def end(self) -> None:
        """Say how long it took, if it was shown, and what would make it shorter."""
        self.ended.set()
        if self.was_shown:
            shorter = f" ({self.shorter})" if self.shorter else ""
            self._write(f"{self.what} took {self.seconds:.1f} s{shorter}", "\n", last=True)

    def _write(self, text: str, end: str, last: bool = False) -> None:
        with self.turn:
            if last or not self.ended.is_set():
                self.was_shown = True
                self.stream.write(f"\r\x1b[K{text}{end}" if self.stream.isatty() else f"{text}{end}")
                self.stream.flush()


@contextmanager
@own_call_of("tm.progress")
def step(what: str, shorter: str = "") -> Iterator[None]:
    """A step of long work, `what` in words; `shorter` says what would make it shorter, to users who waited for it."""
    own = _Step(what, shorter, sys.stderr)
    if own.stream is not None and _is_shown(own.stream):
        threading.Thread(target=own.watch, name="tiramisu_py progress", daemon=True).start()
    try:
        yield
    finally:
        own.end()
        _log.info("%s: %.3f s", what, own.seconds)
