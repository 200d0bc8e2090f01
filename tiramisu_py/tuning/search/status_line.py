"""One line on the standard error stream that says how far a search is."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TextIO

#: The end of a terminal's line, and its beginning.
_CLEAR, _BEGIN = "\x1b[K", "\r"


#: Elsewhere than on a terminal, a line is shown this many seconds after the last one.
APART = 10.0


class Progress:
    """The line: rewritten on a terminal; elsewhere, if it is wanted, a new one from time to time."""

    def __init__(self, wanted: bool | None, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._is_terminal = bool(self._stream is not None and self._stream.isatty())
        self._shown = self._stream is not None and (self._is_terminal if wanted is None else wanted)
        self._last = ""
        self._next = 0.0

    def show(self, text: str, last: bool = False) -> None:
        """Shows a line in place of the last one."""
        if not self._shown or text == self._last:
            return
        if self._is_terminal:
            width = shutil.get_terminal_size().columns
            self._stream.write(f"{_BEGIN}{text[: width - 1]}{_CLEAR}")
        elif last or time.monotonic() >= self._next:
            self._stream.write(f"{text}\n")
            self._next = time.monotonic() + APART
        self._last = text
        self._stream.flush()

    def close(self) -> None:
        """Ends the line."""
        if self._shown and self._is_terminal and self._last:
            self._stream.write("\n")
            self._stream.flush()
