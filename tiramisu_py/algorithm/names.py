"""The rules for names that the user gives."""

from __future__ import annotations

import re
from inspect import signature
from typing import Any

from tiramisu_py.algorithm.reserved import OWN, in_library, is_macro, is_taken_inside, is_word, obstacle_outside
from tiramisu_py.errors import DeclarationError
from tiramisu_py.sets import ISL_WORDS

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_name(name: Any, what: str, linked: bool = False) -> str:
    """`name` itself, if it is an identifier of C that is free to use; raises `DeclarationError`.

    `linked` names are visible to the linker, and must not be names of libraries either. Other names may be: the
    emitted text renames them.
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


def is_reserved(name: str) -> bool:
    """Whether `check_name` refuses an identifier: C, isl or generated sources have it."""
    return is_word(name) or name in ISL_WORDS or name == "tm" or name.startswith(("tm_", "__"))


def check_extern_name(name: Any, source: str) -> str:
    """The name of an external C function, as the emitted text calls it; raises `DeclarationError`.

    A function with a `source` must not have the name of a C library function; one without may be that function.
    """
    what = "an external function"
    found = check_name(name, what)
    if is_macro(name) or name in OWN or (is_taken_inside(name) and not in_library(name)):
        raise DeclarationError(f"{name!r} cannot be the name of {what}: generated sources have it already")
    if source and in_library(name):
        raise DeclarationError(
            f"{name!r} cannot be the name of {what} with a source of its own: C's library has a function of this name; "
            "give yours another name, or leave source= out to call the library's"
        )
    return found


def check_callable(given: object, count: int, how: str) -> None:
    """Refuse what is no function of as many arguments; `how` says what it is, and what it takes."""
    if not callable(given):
        raise DeclarationError(f"{how}: give a function, not {given!r}")
    try:
        signature(given).bind(*[None] * count)
    except ValueError:  # a function written in C, without a signature
        pass
    except TypeError as error:
        raise DeclarationError(f"{how}; {error}") from None
