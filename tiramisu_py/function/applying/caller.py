"""The place in the user's script from which a call comes, and warnings there."""

from __future__ import annotations

import os
import sys
import warnings

from tiramisu_py.algorithm.declarations import Location

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def warn_of_old_word(said: str) -> None:
    """Warn of a word of an older version, at the place in the user's script; `said` has the one to write."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_own(frame.f_code.co_filename):
        level, frame = level + 1, frame.f_back
    warnings.warn(said, DeprecationWarning, stacklevel=level)


def _is_own(file: str) -> bool:
    return os.path.abspath(file).startswith(_PACKAGE + os.sep)


def caller() -> Location | None:
    """The innermost place outside of this package on the call stack."""
    frame = sys._getframe(1)
    while frame is not None:
        if not _is_own(frame.f_code.co_filename):
            return Location(os.path.basename(frame.f_code.co_filename), frame.f_lineno)
        frame = frame.f_back  # type: ignore[assignment]
    return None
