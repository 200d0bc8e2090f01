"""Roles of the fields of a statement, on which walks, rewriting and the collection of names are based.

A new class of statements gives the roles of its fields in its `roles`; nothing else in the room has to know it.
"""

from __future__ import annotations

from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class Roles:
    """The fields of a class by role; each field has one role.

    `inside`: statements, a tuple of them, or None. `operands`: expressions, tuples of them, parts that have roles of
    their own, or None. Names are strings, or tuples of them: `defines` is the variable that the statement defines for
    its body, `reads` are the arrays that are read other than by loads, `names` are other variables, arrays, events and
    requests. `data` are the fields that are neither rewritten nor names.
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
    """Roles from the names of fields, separated by blanks; operands in their order of evaluation."""
    return Roles(
        tuple(inside.split()),
        tuple(operands.split()),
        defines,
        tuple(reads.split()),
        tuple(names.split()),
        tuple(data.split()),
    )
