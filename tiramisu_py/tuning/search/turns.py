"""Turns of the machine: searches in several processes compile and measure one after another, never side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from tiramisu_py.queries import WITHOUT_LOCKS

#: The seconds between two looks at the lock, and those for which it is left to others after a turn.
POLL = 0.05


class Turns:
    """A lock in the folder of the cache, which all searches of this user share."""

    def __init__(self, folder: Path) -> None:
        self._lock = FileLock(folder / "tuning.lock", mode=0o600, poll_interval=POLL, fallback_to_soft=False)
        self._contended = False

    @contextmanager
    def turn(self, is_over: Callable[[], bool], waiting: Callable[[], object]) -> Iterator[bool]:
        """A context in which no other search uses the machine; false if the time was over first.

        ``waiting()`` is called where another search has the turn. In a file system without locks nobody waits.
        """
        if self._contended:
            time.sleep(2 * POLL)  # otherwise the process that has had the turn would always be first
        mine = self._acquired(is_over, waiting)
        try:
            yield mine
        finally:
            if mine:
                self._lock.release()

    def _acquired(self, is_over: Callable[[], bool], waiting: Callable[[], object]) -> bool:
        self._contended = False
        while True:
            try:
                self._lock.acquire(timeout=POLL)
                return True
            except Timeout:
                self._contended = True
                waiting()
                if is_over():
                    return False
            except OSError as error:
                if error.errno not in WITHOUT_LOCKS:
                    raise
                return True
