"""The place in the user's script from which a call comes."""

from __future__ import annotations

import os
import sys

from tiramisu_py.algorithm.declarations import Location

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_BACKENDS = os.path.join(os.path.dirname(_PACKAGE), "backends")


def caller() -> Location | None:
    """The innermost place outside of this package on the call stack."""
    frame = sys._getframe(1)
    while frame is not None:
        file = os.path.abspath(frame.f_code.co_filename)
        if not file.startswith((_PACKAGE + os.sep, _BACKENDS + os.sep)):
            return Location(os.path.basename(file), frame.f_lineno)
        frame = frame.f_back  # type: ignore[assignment]
    return None
