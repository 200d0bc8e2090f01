"""How the lines of a source are laid out: braces on the line that they belong to."""

from __future__ import annotations

import cgen


def text(module: cgen.Generable) -> str:
    """The text of a module, an opening brace at the end of its line, ``else`` after the closing one."""
    lines: list[str] = []
    for line in module.generate():
        stripped = line.strip()
        if stripped == "{" and lines and _opens(lines[-1]):
            lines[-1] += " {"
        elif stripped == "else" and lines and lines[-1].strip() == "}":
            lines[-1] += " else"
        else:
            lines.append(line.rstrip())
    return "\n".join(lines) + "\n"


def _opens(line: str) -> bool:
    stripped = line.strip()
    return stripped.endswith((")", "else")) and not stripped.startswith(("#", "//"))
