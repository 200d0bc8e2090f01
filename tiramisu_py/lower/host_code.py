"""The code of the host's part of a program, statement by statement: its own work, GPUs, and other ranks."""

from __future__ import annotations

from tiramisu_py.ir import Node
from tiramisu_py.lower.gpu_code import GpuCode
from tiramisu_py.lower.operations.collective_operations import Calls
from tiramisu_py.lower.operations.host_part import host_of
from tiramisu_py.lower.operations.message_operations import Messages
from tiramisu_py.lower.operations.stage_calls import stage_calls
from tiramisu_py.lower.ranks.own_part import OwnPart
from tiramisu_py.lower.statements.body import Body
from tiramisu_py.lower.statements.loop_names import loop_variables, reserved_names
from tiramisu_py.lower.statements.operation import LoweredOperation
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement

#: The code of a piece of a statement.
Code = Body | LoweredOperation


class HostCode:
    """The code of the statements of the host's part; `program` is a rank's own part, with its windows of registers."""

    def __init__(self, program: Program, own: OwnPart) -> None:
        self.program = program
        self.reductions = own.reductions
        self.reserved = reserved_names(program)
        self.variables = own.ranked.named(loop_variables(program, self.reserved))
        self.host = host_of(program, own.ranked.coordinates)
        taken = self.reserved.union(self.variables.values())
        self.messages = Messages(own.ranked, self.host, self.variables, taken)
        self.calls = Calls(self.messages)
        self.gpu = GpuCode(program, self.host, self.variables, self.reserved)

    def around(self, body: Node) -> Node:
        """The body of the function, with the events and requests that its operations use."""
        return self.messages.around(self.gpu.around(body))

    def bodies(self, statement: Statement) -> list[Code]:
        """The code of a statement of the host's part."""
        if statement.name in self.reductions.names:
            return self.reductions.bodies(self.program, statement)
        if statement.message is not None and statement.message.collective:
            return list(self.calls.of(statement))
        if statement.message is not None:
            return list(self.messages.posts(self.program.statements[statement.name], statement))
        if statement.is_call:
            return list(stage_calls(self.program, self.program.statements[statement.name], statement))
        completes = self.messages.completes(statement) if statement.waits is not None else []
        return [*completes, *self.gpu.bodies(statement)]
