"""Names: what can be called what in the generated C."""

from __future__ import annotations

import re
from typing import Any

from tiramisu_py.errors import DeclarationError

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

#: The keywords of C11 and C++, both of which read the generated header.
KEYWORDS = (
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern",
    "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short", "signed",
    "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while", "asm",
    "bool", "catch", "class", "const_cast", "delete", "dynamic_cast", "explicit", "export", "false", "friend",
    "mutable", "namespace", "new", "nullptr", "operator", "private", "protected", "public", "reinterpret_cast",
    "static_cast", "template", "this", "throw", "true", "try", "typeid", "typename", "using", "virtual", "wchar_t",
)  # fmt: skip
#: What isl text reserves.
ISL_WORDS = (
    "and", "or", "not", "exists", "mod", "implies", "infty", "infinity", "NaN", "floor", "ceil", "ceild", "floord",
    "min", "max", "rat",
)  # fmt: skip
#: Types, macros and functions of C that generated code uses.
C_NAMES = (
    "NULL", "NAN", "INFINITY", "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t",
    "uint64_t", "size_t", "main", "errno", "abs", "fabs", "sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2",
    "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
    "rint", "trunc", "erf", "atan2", "hypot", "fmod", "copysign", "pow", "fmin", "fmax", "isnan", "isinf", "isfinite",
    "malloc", "calloc", "free", "aligned_alloc", "memcpy", "memset", "snprintf", "va",
)  # fmt: skip


def check_name(name: Any, what: str, linked: bool = False) -> str:
    """`name` itself, if it is an identifier of C that is free to use; raises `DeclarationError`.

    `linked` names are visible to the linker, and must not be those of C's library either.
    """
    if not isinstance(name, str):
        raise DeclarationError(f"the name of {what} is a string, not {name!r}")
    if not _IDENTIFIER.fullmatch(name):
        raise DeclarationError(f"{name!r} cannot be the name of {what}: it must be an identifier of C")
    if name in KEYWORDS or name in ISL_WORDS or (linked and name in C_NAMES):
        raise DeclarationError(f"{name!r} cannot be the name of {what}: C or isl has it already")
    if name == "tm" or name.startswith(("tm_", "__")):
        raise DeclarationError(f"{name!r} cannot be the name of {what}: tm and names in tm_ and __ are reserved")
    return name
