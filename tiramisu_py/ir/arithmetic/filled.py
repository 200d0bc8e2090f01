"""Loads under a condition, with zeros where it does not hold."""

from __future__ import annotations

from tiramisu_py.algorithm.expressions import Expr, Select
from tiramisu_py.ir import Load
from tiramisu_py.program.machine.asynchronous_copies import is_zero


def filled_load(value: Expr) -> Load | None:
    """The load that a value is, or is under a condition with zero elsewhere, all bits of it; None for other values."""
    if isinstance(value, Select) and is_zero(value.no):
        value = value.yes
    return value if isinstance(value, Load) else None
