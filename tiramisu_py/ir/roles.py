"""Roles of the fields of a statement: the one table from which walks, rewriting and names are made.

A new class of statements says in its `roles` which of its fields holds what; nothing else in the room has to know it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Roles:
    """The fields of a class by what they hold; each field has one role.

    `inside`: statements, a tuple of them, or None. `operands`: expressions, tuples of them, parts that have roles of
    their own, or None. Names are strings, or tuples of them: `defines` is the variable that the statement defines for
    what is inside, `reads` are the arrays of which elements are read other than by loads, `names` are other variables,
    arrays, events and requests. `data` is all that is neither rewritten nor a name.
    """

    inside: tuple[str, ...] = ()
    operands: tuple[str, ...] = ()
    defines: str | None = None
    reads: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    data: tuple[str, ...] = ()


def roles(
    inside: str = "",
    operands: str = "",
    defines: str | None = None,
    reads: str = "",
    names: str = "",
    data: str = "",
) -> Roles:
    """Roles by the names of fields, with blanks between them; operands in the order in which they are evaluated."""
    return Roles(
        tuple(inside.split()),
        tuple(operands.split()),
        defines,
        tuple(reads.split()),
        tuple(names.split()),
        tuple(data.split()),
    )
