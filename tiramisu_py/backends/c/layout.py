"""The layout of a source: opening braces at the end of their line, long lines broken."""

from __future__ import annotations

import re
from collections.abc import Iterator

import cgen

#: The characters that decide where a line may be broken.
_MARKS = re.compile(r'[ "()\[\]{}]')
#: Calls whose arguments stay whole.
MESSAGES = ("TM_SEND(", "TM_RECEIVE(")
#: The line length; longer lines are broken at these operators.
WIDTH = 120
OPERATORS = ("+", "-", "*", "/", "?", ":", "&&", "||", "&", "|", "^", "<", ">", "==", "!=")


class _Chained(cgen.Block):
    """A block of one ``if``, without its braces."""

    def generate(self, with_semicolon: bool = True) -> Iterator[str]:
        for item in self.contents:
            yield from item.generate()


def chained(block: cgen.Block) -> cgen.Block:
    """The code that follows ``else``: if that is another ``if``, without braces around it."""
    return _Chained(block.contents) if len(block.contents) == 1 and isinstance(block.contents[0], cgen.If) else block


def opened(lines: list[cgen.Generable]) -> list[cgen.Generable]:
    """The lines; if they are one block and comments, without the braces of that block."""
    others = [line for line in lines if not isinstance(line, cgen.LineComment)]
    if len(others) != 1 or not isinstance(others[0], cgen.Block):
        return lines
    return [part for line in lines for part in (line.contents if isinstance(line, cgen.Block) else [line])]


def text(module: cgen.Generable) -> str:
    """The text of a module, an opening brace at the end of its line, ``else`` after the closing one."""
    lines: list[str] = []
    for line in module.generate():
        stripped = line.strip()
        if stripped == "{" and lines and _opens(lines[-1]):
            lines[-1] += " {"
        elif stripped == "else" and lines and lines[-1].strip() == "}":
            lines[-1] += " else"
        elif stripped.startswith("if (") and lines and lines[-1].strip() in ("else", "} else"):
            lines[-1] += f" {stripped}"
        else:
            lines.append(line.rstrip())
    return "\n".join(part for line in lines for part in wrapped(line)) + "\n"


def wrapped(line: str) -> list[str]:
    """A long statement on several lines, broken where the fewest parentheses are open."""
    indent = len(line) - len(line.lstrip())
    if len(line) <= WIDTH or line.lstrip().startswith(("#", "//")):
        return [line]
    place = _break(line, indent)
    if place is None:
        return [line]
    first, rest = line[:place].rstrip(), " " * (indent + 4) + line[place:].lstrip()
    following = wrapped(rest)
    return [first, following[0], *(part.replace("    ", "", 1) for part in following[1:])]


def _break(line: str, indent: int) -> int | None:
    """Where to break: after a comma or before an operator, as far right as fits at the least depth."""
    depth, quoted, listed = 0, False, line.lstrip().startswith(MESSAGES)
    places: list[tuple[int, int]] = []
    for found in _MARKS.finditer(line, 0, WIDTH):
        i, character = found.start(), found.group()
        quoted ^= character == '"' and line[i - 1] != "\\"
        depth += (character in "([{") - (character in ")]}")
        comma = character == " " and line[i - 1] in ",;"
        operator = character == " " and line[i + 1 : i + 3].strip() in OPERATORS and not (listed and depth == 1)
        if i > indent + 20 and not quoted and (comma or operator):
            places.append((depth, -i))
    return -min(places)[1] if places else None


def _opens(line: str) -> bool:
    stripped = line.strip()
    return stripped.endswith((")", "else")) and not stripped.startswith(("#", "//"))
