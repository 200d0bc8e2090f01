"""The command `remove`: a statement that computes nothing, or a copy that nothing reads, is no longer there."""

from __future__ import annotations

from tiramisu_py.errors import CommandError
from tiramisu_py.program.editing import removed
from tiramisu_py.program.program import Program
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import statements
from tiramisu_py.schedule.command_fields import Handle, NamedInput, OnFunction


@dataclass(frozen=True, eq=False)
class Remove(OnFunction):
    """Remove a transfer, an exchange or half of one, a wait, a barrier, or a copy that nothing reads.

    ::

        copy a to the GPU       -->   for i on the GPU: b[i] = f(a[i])     (f.remove(copy))
        for i on the GPU: b[i] = f(a[i])
    """

    handle: Handle

    def applied(self, program: Program) -> Program:
        if not isinstance(self.handle, Handle) or isinstance(self.handle, NamedInput):
            name = program.algorithm.name
            raise CommandError(
                f"{name} cannot remove {self.handle!r}: give a transfer, exchange, wait, barrier or copy of {name}"
            )
        for statement in statements(program, self.handle._named.statements(program)):
            program = removed(program, statement)
        return program
