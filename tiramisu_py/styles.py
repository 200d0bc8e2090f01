"""Text in colours: in a terminal, and as HTML in a notebook."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping

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
