"""From a proven program to loop IR: its instances, their order, and their elements, without any optimisation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce

import islpy as isl

from tiramisu_py.algorithm.domains.from_isl import condition_of_params
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.words.stages import ForeignFunction
from tiramisu_py.dependence.vector_padding import loaded_past_the_end, with_whole_vectors
from tiramisu_py.ir import ArrayArgument, Block, CallOptions, Labels, LoopFunction, Node, OnGpus, ScalarArgument
from tiramisu_py.ir.loop_functions import Precondition
from tiramisu_py.ir.rewriting import Names
from tiramisu_py.lower.component_arrays import in_component_arrays
from tiramisu_py.lower.interface import arguments, output_buffers, preconditions
from tiramisu_py.lower.kernels.kernel_function import LoweredKernel, Maker
from tiramisu_py.lower.loops.bundle_sizes import bundle_sizes
from tiramisu_py.lower.loops.lanes_in_order import with_lanes_in_order
from tiramisu_py.lower.loops.nest import Nest
from tiramisu_py.lower.loops.register_windows import as_padded, as_rings, in_windows
from tiramisu_py.lower.operations.collective_operations import Calls
from tiramisu_py.lower.operations.events import Waits
from tiramisu_py.lower.operations.host_part import HostProgram, host_of, pieces_of_operation
from tiramisu_py.lower.operations.launches import LaunchGrid, launch
from tiramisu_py.lower.operations.message_operations import Messages
from tiramisu_py.lower.operations.narrow_arguments import narrow_arguments
from tiramisu_py.lower.operations.stage_calls import stage_calls
from tiramisu_py.lower.operations.transfer_operations import copies
from tiramisu_py.lower.packing_functions import with_packs, without_packing
from tiramisu_py.lower.ranks.own_part import OwnPart, own_part
from tiramisu_py.lower.statements.allocation import Fragment, allocated_in, sequence
from tiramisu_py.lower.statements.body import Body, algorithm_line, bodies_of
from tiramisu_py.lower.statements.instances import Instance, arrays_of
from tiramisu_py.lower.statements.loop_names import loop_variables, reserved_names
from tiramisu_py.lower.statements.operation import LoweredOperation
from tiramisu_py.lower.statements.prefetch import lookaheads
from tiramisu_py.lower.versions import with_versions
from tiramisu_py.passes.base import About
from tiramisu_py.passes.pipeline import PIPELINE, Pipeline
from tiramisu_py.program.kernels import device_count
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import array_begin


def lower(program: Program, pipeline: Pipeline = PIPELINE) -> LoopFunction:
    """The loops of a proven program, its versions and what it packs, after the first passes of a pipeline."""

    def lowered(version: Program, passes: Pipeline = pipeline.unseen) -> LoopFunction:
        return passes.over_first(*in_component_arrays(*_lowered(version)))

    main = without_packing(program)
    return with_packs(program, with_versions(main, lowered(main, pipeline), lowered), lowered)


def _lowered(program: Program) -> tuple[LoopFunction, About]:
    """The loops of a program, and the information for the first passes."""
    own = own_part(with_whole_vectors(program))
    lowered = _Lowering(own).function(program, arguments(own.whole.program, own.arrays))
    boxes = own.boxes() if lowered.gpus.devices else {}
    params = own.ranked.program.algorithm.params
    return lowered, About(Names(params), params=params, definitions=own.ranked.definitions, boxes=boxes)


class _Lowering:
    """The part of a program that one rank executes, as loops."""

    def __init__(self, own: OwnPart) -> None:
        self.program, self.rings = in_windows(own.ranked.program)
        self.grid = own.ranked.grid
        self.code = HostCode(self.program, own)

    def function(self, program: Program, passed: tuple[ArrayArgument | ScalarArgument, ...]) -> LoopFunction:
        """The function of a program, with the arguments `passed`."""
        bodies = [[body for s in group for body in self.code.bodies(s)] for group in groups(self.code.host.program)]
        arrays = arrays_of(self.program)
        made = [self._nest(group, arrays) for group in bodies if group]
        body = as_rings(_whole(arrays, [nest for nest in made if nest is not None]), self.rings)
        body = with_lanes_in_order(self.program, as_padded(body, loaded_past_the_end(self.program)))
        return LoopFunction(
            name=program.algorithm.name,
            params=program.algorithm.params,
            arguments=passed,
            preconditions=(
                *preconditions(program),
                *bundle_sizes(self.program),
                *narrow_arguments(program),
                *self.code.gpu.preconditions.values(),
            ),
            body=self.code.around(body),
            externs=_externs([*(body for group in bodies for body in group), *self.code.gpu.kernels.values()]),
            labels=Labels(documentation=_documentation(program)),
            outputs=output_buffers(program),
            gpus=OnGpus(
                kernels=tuple(kernel.function for kernel in self.code.gpu.kernels.values()),
                devices=device_count(program),
                kind=program.targets.gpu,
                where=self.code.gpu.where(is_distributed=self.grid is not None),
            ),
            grid=self.grid,
            options=CallOptions(nontemporal_above=_nontemporal_above(self.program)),
        )

    def _nest(self, bodies: Sequence[Code], arrays: Mapping[str, Instance]) -> Fragment | None:
        code = self.code
        return Nest(code.host.program, bodies, code.variables, code.reserved, arrays, self.rings).lowered()


def groups(program: Program) -> list[list[Statement]]:
    """The statements of each root nest, in the order of the nests."""
    found: dict[int, list[Statement]] = {}
    for statement in program.statements.values():
        found.setdefault(program.positions[statement.name][0], []).append(statement)
    return [found[position] for position in sorted(found)]


def _whole(arrays: Mapping[str, Instance], nests: Sequence[Fragment]) -> Node:
    if not nests:
        return Block(())
    waiting = sequence(nests).waiting
    return allocated_in(nests, [array for name, array in arrays.items() if name in waiting]).node


def _nontemporal_above(program: Program) -> int | None:
    """The least of the bounds that statements give; None if none does."""
    given = (s.memory.nontemporal.above for s in program.statements.values() if s.memory.nontemporal is not None)
    return min((bound for bound in given if bound is not None), default=None)


def _externs(bodies: Sequence[Code | LoweredKernel]) -> tuple[ForeignFunction, ...]:
    return tuple({extern.name: extern for body in bodies for extern in body.externs}.values())


def _documentation(program: Program) -> tuple[str, ...]:
    """The algorithm, one line for each statement that computes values."""
    lines = (
        algorithm_line(program, statement, statement.body)
        for statement in program.storing
        if statement.role is not Role.COPY and statement.link.combination is None and not statement.instances.is_empty()
    )
    return tuple(dict.fromkeys((*lines, *_places(program))))


def _places(program: Program) -> Iterator[str]:
    """Where elements are that are elsewhere than their indices say, one line for each array.

    ``a[d0, d1] is element d0*S + d1 of a`` for an array with strides, ``a has the shape [N, M]`` for one of N * M
    elements, ``s[-1, 0] is element 0 of s, whose shape is [R + 2, C]`` for an output.
    """
    for buffer in program.buffers.values():
        if buffer.strides is not None and buffer.argument:
            indices = ", ".join(f"d{k}" for k in range(len(buffer.strides)))
            terms = (f"d{k}*({stride})" for k, stride in enumerate(buffer.strides))
            yield f"{buffer.name}[{indices}] is element {' + '.join(terms) or '0'} of {buffer.name}"
    for declared in program.algorithm.inputs.values():
        if declared.passed is not None:
            yield f"{declared.name} has the shape [{', '.join(map(str, declared.shape))}]"
    for name in program.algorithm.outputs:
        storage = program.storages[name]
        begin = array_begin(storage, program.context)
        if begin:
            shape = ", ".join(map(str, program.buffers[storage.buffer].extents))
            yield f"{begin} is element 0 of {storage.buffer}, whose shape is [{shape}]"


# -- the code of the host's part of a program, statement by statement: its own work, GPUs, and other ranks


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
        if statement.link.message is not None and statement.link.message.collective:
            return list(self.calls.of(statement))
        if statement.link.message is not None:
            return list(self.messages.posts(self.program.statements[statement.name], statement))
        if statement.is_call:
            return list(stage_calls(self.program, self.program.statements[statement.name], statement))
        completes = self.messages.completes(statement) if statement.link.waits is not None else []
        return [*completes, *self.gpu.bodies(statement)]


# -- the code of what the host tells GPUs to do, with their kernels, and of its statements between


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
        parts = [s.instances.params() for s in host.acting if s.name in operations and s.link.message is None]
        others = [s.instances.params() for s in host.acting if s.name not in operations and s.link.message is None]
        if not parts:
            return None
        where = reduce(isl.Set.union, parts).gist(host.context).coalesce()
        needed = host.context if is_distributed else reduce(isl.Set.union, others, where).intersect(host.context)
        return None if needed.is_subset(where) else condition_of_params(where, host.context)

    def bodies(self, statement: Statement) -> list[Body | LoweredOperation]:
        """The code of a statement of the host's part."""
        if statement.link.waits is not None:
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
