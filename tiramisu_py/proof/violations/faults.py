"""What is wrong with a kernel: a name for it that other states of the program can be asked for, and the violation."""

from __future__ import annotations

from tiramisu_py.errors import Violation, Witness
from tiramisu_py.program.statement import Statement

Fault = tuple[str, Violation]


def fault(kind: str, key: str, statement: Statement, message: str, repair: str = "") -> Fault:
    """A violation of one statement; `key` names its sort."""
    witness = Witness({}, reader=(statement.source or statement.name, ()))
    return f"{key} {statement.name}", Violation(kind, message, witness, repair=repair)
