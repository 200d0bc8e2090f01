"""The code of what the host tells GPUs to do, with their kernels, and of its statements between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce

import islpy as isl

from tiramisu_py.algorithm.domains.from_isl import condition_of_params
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.ir import Node
from tiramisu_py.ir.loop_functions import Precondition
from tiramisu_py.lower.kernels.kernel_function import LoweredKernel, Maker
from tiramisu_py.lower.operations.events import Waits
from tiramisu_py.lower.operations.host_part import HostProgram, pieces_of_operation
from tiramisu_py.lower.operations.launches import LaunchGrid, launch
from tiramisu_py.lower.operations.transfer_operations import copies
from tiramisu_py.lower.statements.body import Body, bodies_of
from tiramisu_py.lower.statements.operation import LoweredOperation
from tiramisu_py.lower.statements.prefetch import lookaheads
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement


class GpuCode:
    """The code of the host's part: its own statements, and operations of GPUs with their kernels."""

    def __init__(
        self, program: Program, host: HostProgram, variables: Mapping[LoopId, str], reserved: frozenset[str]
    ) -> None:
        self.program = program
        self.host = host
        self.variables = variables
        self.waits = Waits(program, host, reserved.union(variables.values()))
        self.grids = {name: LaunchGrid(nest) for name, nest in host.launched.items()}
        self.kernels: dict[str, LoweredKernel] = {}
        self.preconditions: dict[object, Precondition] = {}
        for name, grid in self.grids.items():
            instances = host.program.statements[name].instances
            kernel = Maker(grid.nest, grid, variables, reserved, instances).kernel()
            if kernel is not None:
                self.kernels[name] = kernel
                for condition, words in grid.preconditions(instances):
                    self.preconditions.setdefault(condition.key(), (condition, words))

    def where(self, *, is_distributed: bool) -> Expr | None:
        """The parameters and ranks for which a GPU has work, as a condition; None if that is always so.

        Without a grid, only parameters count for which the program has any work.
        """
        host, operations = self.host.program, set(self.host.operation.values())
        parts = [s.instances.params() for s in host.acting if s.name in operations and s.message is None]
        others = [s.instances.params() for s in host.acting if s.name not in operations and s.message is None]
        if not parts:
            return None
        where = reduce(isl.Set.union, parts).gist(host.context).coalesce()
        needed = host.context if is_distributed else reduce(isl.Set.union, others, where).intersect(host.context)
        return None if needed.is_subset(where) else condition_of_params(where, host.context)

    def bodies(self, statement: Statement) -> list[Body | LoweredOperation]:
        """The code of a statement of the host's part."""
        if statement.waits is not None:
            return list(self.waits.awaits(statement))
        if statement.name in self.host.operation.values():
            return [self.waits.recorded(operation) for operation in self._operations(statement)]
        ahead = lookaheads(self.host.program, statement, self.variables)
        return [replace(body, ahead=ahead) for body in bodies_of(self.host.program, statement)]

    def _operations(self, statement: Statement) -> list[LoweredOperation]:
        if statement.name not in self.host.launched:
            return copies(self.program, self.program.statements[statement.name], statement)
        kernel = self.kernels.get(statement.name)
        if kernel is None:
            return []
        pieces = pieces_of_operation(statement)
        grid = self.grids[statement.name]
        tickets = None if kernel.tickets is None else kernel.tickets.name
        return [launch(grid, kernel.function, piece, self.variables, kernel.blocks, tickets) for piece in pieces]

    def around(self, body: Node) -> Node:
        """The body of the function, with the tickets of its kernels."""
        for kernel in self.kernels.values():
            if kernel.tickets is not None:
                body = kernel.tickets.allocated(body)
        return self.waits.around(body)
