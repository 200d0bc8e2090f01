"""Names that nothing has yet: one maker, for statements, loops, exchanges, and variables of generated code.

A wanted name that is taken is told apart by a suffix; which suffix depends on who reads the name.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from itertools import count

from tiramisu_py.algorithm.reserved import USED, WORDS
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement

#: A name's spelling: the wanted name, and how many before it are taken (1, 2, ...).
Spelling = Callable[[str, int], str]

#: What C and generated sources use; the emitters call anything else that C has otherwise.
RESERVED = WORDS | USED


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


def names_in(program: Program) -> set[str]:
    """The names that parameters, declarations, statements and buffers of a program have."""
    algorithm = program.algorithm
    return {*algorithm.params, *algorithm.inputs, *algorithm.computations, *program.statements, *program.buffers}


def free_name(program: Program, wanted: str) -> str:
    """A name for a new statement: the one wanted, with a number behind where something has it already."""
    return fresh_name(wanted, names_in(program))


def free_parameter(program: Program, wanted: str, beside: Iterable[str] = ()) -> str:
    """A name for a parameter that the compiler adds: nothing in a program, in C or of those `beside` has it."""
    return fresh_name(wanted, {*RESERVED, program.algorithm.name, *names_in(program), *beside}, indexed)


def free_loop(program: Program, around: Iterable[Statement], wanted: str) -> str:
    """A name for a new loop around some statements, or inside of loops of theirs: none of their loops has it."""
    return fresh_name(wanted, {name for statement in around for name in program.loop_names(statement)})


def free_exchange(program: Program, wanted: str) -> str:
    """A name for a new exchange: no other exchange, statement or storage has it."""
    exchanges = {s.message.exchange for s in program.statements.values() if s.message is not None}
    return fresh_name(wanted, {*exchanges, *program.statements, *program.storages})
