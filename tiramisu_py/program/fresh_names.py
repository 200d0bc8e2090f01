"""Unused names in a program, for statements, loops, exchanges, and parameters of generated code."""

from __future__ import annotations

from collections.abc import Iterable

from tiramisu_py.algorithm.reserved import USED, WORDS
from tiramisu_py.algorithm.spellings import fresh_name, indexed
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement

#: Names that C and generated sources use; the emitters rename anything else that clashes with C.
RESERVED = WORDS | USED


def names_in(program: Program) -> set[str]:
    """The names that parameters, declarations, statements and buffers of a program have."""
    algorithm = program.algorithm
    return {*algorithm.params, *algorithm.inputs, *algorithm.computations, *program.statements, *program.buffers}


def free_name(program: Program, wanted: str) -> str:
    """A name for a new statement: the one wanted, with a number appended if it is taken."""
    return fresh_name(wanted, names_in(program))


def free_parameter(program: Program, wanted: str, beside: Iterable[str] = ()) -> str:
    """A name for a parameter that the compiler adds: unused in the program, in C and in `beside`."""
    return fresh_name(wanted, {*RESERVED, program.algorithm.name, *names_in(program), *beside}, indexed)


def free_loop(program: Program, around: Iterable[Statement], wanted: str) -> str:
    """A name for a new loop around some statements, or inside their loops, that none of their loops has."""
    return fresh_name(wanted, {name for statement in around for name in program.loop_names(statement)})


def free_exchange(program: Program, wanted: str) -> str:
    """A name for a new exchange: no other exchange, statement or storage has it."""
    exchanges = {s.link.message.exchange for s in program.statements.values() if s.link.message is not None}
    return fresh_name(wanted, {*exchanges, *program.statements, *program.storages})
