"""A command: a loop in pairs of iterations, ``b.halve(i)``.

::

    for i in 0 .. N: b[i]      -->      for i_0 in 0 .. (N + 1) // 2: for i_1 in 0 .. 2: b[2 * i_0 + i_1]
"""

from __future__ import annotations

from dataclasses import dataclass

from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.program.program import Program
from tiramisu_py.schedule.command_arguments import loop_name
from tiramisu_py.schedule.command_fields import OnStatements
from tiramisu_py.schedule.loops.transforms import split


@dataclass(frozen=True, eq=False)
class Halve(OnStatements):
    """A loop is cut into pairs of iterations, which two loops of its name count."""

    loop: Iter

    def applied(self, program: Program) -> Program:
        name = loop_name(self.loop)
        return split(program, self.names(program), name, 2, f"{name}_0", f"{name}_1")
