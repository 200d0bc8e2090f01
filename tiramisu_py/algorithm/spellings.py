"""Names that differ: a wanted name that is taken is told apart by a suffix, and who reads the name decides which."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from itertools import count

#: A name's spelling: the wanted name, and how many before it are taken (1, 2, ...).
Spelling = Callable[[str, int], str]


def numbered(wanted: str, tried: int) -> str:
    """``x, x2, x3, ...``: names that users read, of statements and loops."""
    return f"{wanted}{tried + 1}"


def indexed(wanted: str, tried: int) -> str:
    """``x, x_1, x_2, ...``: variables and arrays of generated code."""
    return f"{wanted}_{tried}"


def counted(wanted: str, tried: int) -> str:
    """``x, x_2, x_3, ...``: variables that passes add to generated code."""
    return f"{wanted}_{tried + 1}"


def underscored(wanted: str, tried: int) -> str:
    """``x, x_, x__, ...``: dimensions and iterators, short in conditions."""
    return wanted + "_" * tried


def fresh_name(wanted: str, taken: Container[str], spelled: Spelling = numbered) -> str:
    """The wanted name, or where it is taken the first spelling of it that is not."""
    if wanted not in taken:
        return wanted
    return next(name for name in (spelled(wanted, tried) for tried in count(1)) if name not in taken)


def distinct(names: Iterable[str]) -> list[str]:
    """The names, made different by underscores where they repeat."""
    found: list[str] = []
    for name in names:
        found.append(fresh_name(name, found, underscored))
    return found
