"""Writes docs/commands.md from the docstrings of the public interface.

With ``--check`` it only says, by its exit status, whether the page is current.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import tiramisu_py as tm

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "commands.md"
HEAD = """# All commands

The public interface, made from the docstrings by `scripts/reference`. In the pictures `-->` stands between the loops
before a command and those after it. Every command returns its handle (or the new ones): they can be chained.
"""


def public_names() -> list[str]:
    """What `import tiramisu_py` gives, in the order of its `__all__`."""
    return [name for name in tm.__all__ if not name.startswith("_")]


def members(cls: type) -> Iterator[tuple[str, object]]:
    """The documented public members of a class and of its own bases, in order of definition."""
    seen: set[str] = set()
    for owner in reversed([base for base in cls.__mro__ if base.__module__.startswith("tiramisu_py")]):
        for name, member in vars(owner).items():
            documented = inspect.getdoc(getattr(cls, name, None)) and not name.startswith("_")
            if documented and name not in seen and isinstance(member, property | staticmethod | type(members)):
                seen.add(name)
                yield name, getattr(cls, name)


def signature(name: str, member: object) -> str:
    """``split(loop, by, outer, inner, *, origin=0)``: names and defaults, without types."""
    if isinstance(member, property) or not callable(member):
        return name
    parameters = [p.replace(annotation=inspect.Parameter.empty) for p in inspect.signature(member).parameters.values()]
    shown = inspect.Signature([p for p in parameters if p.name != "self"])
    return f"{name}{shown}"


def text(docstring: str) -> str:
    """A docstring as Markdown: a paragraph that is ``::`` alone makes a fenced block of what is indented below it."""
    return re.sub(r"^::\n\n((?:(?: +.*)?\n)*(?: +.*))", _fenced, docstring, flags=re.MULTILINE)


def _fenced(match: re.Match[str]) -> str:
    return f"```text\n{textwrap.dedent(match[1])}\n```"


def of_class(name: str, cls: type) -> Iterator[str]:
    """One class: its docstring, then its members."""
    yield f"## {name}\n\n{text(inspect.getdoc(cls) or '')}\n"
    for member_name, member in members(cls):
        shown = signature(member_name, member)
        yield f"### {name}.{member_name}\n\n`{shown}`\n\n{text(inspect.getdoc(member) or '')}\n"


def of_errors(errors: list[str]) -> Iterator[str]:
    """The exceptions as a list."""
    lines = [f"- `tm.{name}`: {first_line(getattr(tm, name))}" for name in errors]
    yield "## Errors\n\n" + "\n".join(lines) + "\n"


def of_values(names: list[str]) -> Iterator[str]:
    """Functions and constants."""
    for name in names:
        value = getattr(tm, name)
        if inspect.isfunction(value):
            yield f"## tm.{signature(name, value)}\n\n{text(inspect.getdoc(value) or '')}\n"
    plain = [name for name in names if not inspect.isfunction(getattr(tm, name))]
    yield "## Other names\n\n" + ", ".join(f"`tm.{name}`" for name in plain) + "\n"


def first_line(documented: object) -> str:
    """The first sentence of a docstring."""
    return (inspect.getdoc(documented) or "").splitlines()[0]


def page() -> str:
    """The whole reference."""
    names = public_names()
    classes = [name for name in names if inspect.isclass(getattr(tm, name))]
    errors = [name for name in classes if issubclass(getattr(tm, name), Exception)]
    shown = [name for name in classes if name not in errors]
    rest = [name for name in names if name not in classes]
    parts = [HEAD]
    for name in shown:
        parts += of_class(name, getattr(tm, name))
    parts += of_values(rest)
    parts += of_errors(errors)
    return "\n".join(parts)


def main() -> int:
    """Write or compare."""
    made = page()
    if sys.argv[1:] == ["--check"]:
        return 0 if PAGE.exists() and PAGE.read_text() == made else 1
    PAGE.write_text(made)
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
