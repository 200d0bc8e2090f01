"""Names: what a user may call what."""

from __future__ import annotations

import re
from typing import Any

from tiramisu_py.algorithm.reserved import OWN, in_library, is_macro, is_taken_inside, is_word, obstacle_outside
from tiramisu_py.errors import DeclarationError
from tiramisu_py.sets import ISL_WORDS

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_name(name: Any, what: str, linked: bool = False) -> str:
    """`name` itself, if it is an identifier of C that is free to use; raises `DeclarationError`.

    `linked` names are visible to the linker, and must not be those of libraries either. Other names may: the emitted
    text calls them otherwise.
    """
    if not isinstance(name, str):
        raise DeclarationError(f"the name of {what} is a string, not {name!r}")
    if not _IDENTIFIER.fullmatch(name):
        raise DeclarationError(f"{name!r} cannot be the name of {what}: it must be an identifier of C")
    if is_word(name) or name in ISL_WORDS:
        raise DeclarationError(f"{name!r} cannot be the name of {what}: C or isl has it already")
    if name == "tm" or name.startswith(("tm_", "__")):
        raise DeclarationError(f"{name!r} cannot be the name of {what}: tm and names in tm_ and __ are reserved")
    obstacle = obstacle_outside(name) if linked else ""
    if obstacle:
        raise DeclarationError(f"{name!r} cannot be the name of {what}: {obstacle}")
    return name


def check_extern_name(name: Any, source: str) -> str:
    """The name of a function of the user's in C, as the emitted text calls it; raises `DeclarationError`.

    One that comes with its `source` must not be a function of C's library; without, it may be one.
    """
    what = "an external function"
    found = check_name(name, what)
    if is_macro(name) or name in OWN or (is_taken_inside(name) and not in_library(name)):
        raise DeclarationError(f"{name!r} cannot be the name of {what}: generated sources have it already")
    if source and in_library(name):
        raise DeclarationError(
            f"{name!r} cannot be the name of {what} with a source of its own: C's library has a function of this name; "
            "call yours otherwise, or leave source= out to call the library's"
        )
    return found
