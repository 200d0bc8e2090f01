"""The place in the user's script from which a call comes."""

from __future__ import annotations

import os
import sys

from tiramisu_py.algorithm.declarations import Location
from tiramisu_py.former_words import is_own


def caller() -> Location | None:
    """The innermost place outside of this package on the call stack."""
    frame = sys._getframe(1)
    while frame is not None:
        if not is_own(frame.f_code.co_filename):
            return Location(os.path.basename(frame.f_code.co_filename), frame.f_lineno)
        frame = frame.f_back  # type: ignore[assignment]
    return None
