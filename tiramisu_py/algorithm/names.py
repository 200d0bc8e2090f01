"""Names: what can be called what in the generated C."""

from __future__ import annotations

import re
from typing import Any

from tiramisu_py.errors import DeclarationError

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

#: The keywords of C11 and C++, both of which read the generated header, and the names that isl text reserves.
KEYWORDS = frozenset((
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern",
    "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short", "signed",
    "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while", "asm",
    "bool", "catch", "class", "const_cast", "delete", "dynamic_cast", "explicit", "export", "false", "friend",
    "mutable", "namespace", "new", "nullptr", "operator", "private", "protected", "public", "reinterpret_cast",
    "static_cast", "template", "this", "throw", "true", "try", "typeid", "typename", "using", "virtual", "wchar_t",
    "NULL", "and", "or", "not", "exists", "mod", "implies", "infty", "NaN", "floor", "ceild", "floord",
))  # fmt: skip


def check_name(name: Any, what: str) -> str:
    """`name` itself, if it is an identifier of C that is free to use; raises `DeclarationError`."""
    if not isinstance(name, str):
        raise DeclarationError(f"the name of {what} is a string, not {name!r}")
    if not _IDENTIFIER.fullmatch(name):
        raise DeclarationError(f"{name!r} cannot be the name of {what}: it must be an identifier of C")
    if name in KEYWORDS:
        raise DeclarationError(f"{name!r} cannot be the name of {what}: it is a reserved word")
    if name.startswith(("tm_", "__")):
        raise DeclarationError(f"{name!r} cannot be the name of {what}: names in tm_ and __ are reserved")
    return name
