"""Text in colours: in a terminal, and as HTML in a notebook."""

from __future__ import annotations

import html
import os
import re
import sys
from collections.abc import Mapping
from typing import TextIO

#: The colours of styles: the code of terminals, and a colour that is readable on light and dark pages.
_COLOURS = {
    "good": ("32", "#2e8b57"),
    "bad": ("31", "#d0453d"),
    "advice": ("36", "#2487a8"),
    "doubt": ("33", "#b07d12"),
}


def styled(text: str, styles: Mapping[str, str]) -> str:
    """A text in the colours of terminals: lines that begin with a pattern of `styles` have its style."""
    return "\n".join(
        line if style is None else f"\x1b[{_COLOURS[style][0]}m{line}\x1b[0m" for line, style in _lines(text, styles)
    )


def takes_colours(stream: TextIO | None = None) -> bool:
    """Whether a stream (default: standard output) is a terminal that shows colours, and the user wants them.

    Source: https://no-color.org for ``NO_COLOR``; ``TERM=dumb`` is a terminal without colours.
    """
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb":
        return False
    try:
        return (stream or sys.stdout).isatty()
    except (AttributeError, ValueError):  # no stream at all, or a closed one
        return False


def for_prompt(text: str, styles: Mapping[str, str]) -> str:
    """A text as an interactive prompt displays it: in colours if Python has a prompt, and its terminal takes them.

    Elsewhere it is plain: logs, files and messages that have the ``repr`` of an object take no colours.
    """
    return styled(text, styles) if hasattr(sys, "ps1") and takes_colours() else text.rstrip("\n")


def as_html(text: str, styles: Mapping[str, str] | None = None) -> str:
    """A text as preformatted HTML, in the colours of `styles`."""
    lines = [
        html.escape(line) if style is None else f'<span style="color: {_COLOURS[style][1]}">{html.escape(line)}</span>'
        for line, style in _lines(text, styles or {})
    ]
    return f'<pre style="line-height: 1.25">{chr(10).join(lines)}</pre>'


def _lines(text: str, styles: Mapping[str, str]) -> list[tuple[str, str | None]]:
    found = []
    for line in text.rstrip("\n").split("\n"):
        found.append((line, next((style for pattern, style in styles.items() if re.match(pattern, line)), None)))
    return found
