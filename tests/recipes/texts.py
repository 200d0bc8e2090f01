"""The commands of a text of a recipe, without the lines that say what names are."""

from __future__ import annotations

import re

_NAMES = re.compile(r'[\w, ]+ = (tm\.(iters|params)\("|f\[")')


def commands(text: str) -> list[str]:
    """The lines that are commands, or comments."""
    return [line for line in text.splitlines() if not _NAMES.match(line)]
