"""Warnings of words of older versions, at the place in the user's script."""

from __future__ import annotations

import os
import sys
import warnings

_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def warn_of_old_word(said: str) -> None:
    """Warn of a word of an older version, at the place in the user's script; `said` has the one to write."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and is_own(frame.f_code.co_filename):
        level, frame = level + 1, frame.f_back
    warnings.warn(said, DeprecationWarning, stacklevel=level)


def is_own(file: str) -> bool:
    """Whether a file is one of this package."""
    return os.path.abspath(file).startswith(_PACKAGE + os.sep)
