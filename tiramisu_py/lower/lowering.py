"""From a proven program to loop IR: what is executed, in which order, on which elements. Nothing is optimised here."""

from __future__ import annotations

from collections.abc import Sequence

from tiramisu_py.algorithm.expressions import ExternFunction
from tiramisu_py.lower.allocation import Fragment, allocated_in, sequence
from tiramisu_py.lower.bodies import Body, algorithm_line, body_of
from tiramisu_py.lower.collapse import settled
from tiramisu_py.lower.interface import arguments, output_buffers, preconditions
from tiramisu_py.lower.ir import Block, LoopFunction, Node
from tiramisu_py.lower.names import loop_variables, reserved_names
from tiramisu_py.lower.nests import Nest
from tiramisu_py.lower.pieces import pieces_of
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement


def lower(program: Program) -> LoopFunction:
    """The loops of a program that has been proven; raises `UnsupportedError` where isl finds no loops for it."""
    bodies = [[body_of(program, piece) for s in group for piece in pieces_of(program, s)] for group in groups(program)]
    reserved = reserved_names(program)
    variables = loop_variables(program, reserved)
    nests = [Nest(program, group, variables, reserved).lowered() for group in bodies if group]
    return LoopFunction(
        name=program.algorithm.name,
        params=program.algorithm.params,
        arguments=arguments(program),
        preconditions=preconditions(program),
        body=settled(_whole(program, [nest for nest in nests if nest is not None])),
        externs=_externs([body for group in bodies for body in group]),
        documentation=_documentation(program),
        outputs=output_buffers(program),
    )


def groups(program: Program) -> list[list[Statement]]:
    """The statements of each root nest, in the order of the nests."""
    found: dict[int, list[Statement]] = {}
    for statement in program.storing:
        found.setdefault(program.positions[statement.name][0], []).append(statement)
    return [found[position] for position in sorted(found)]


def _whole(program: Program, nests: Sequence[Fragment]) -> Node:
    if not nests:
        return Block(())
    waiting = sequence(nests).waiting
    return allocated_in(nests, [buffer for name, buffer in program.buffers.items() if name in waiting]).node


def _externs(bodies: Sequence[Body]) -> tuple[ExternFunction, ...]:
    return tuple({extern.name: extern for body in bodies for extern in body.externs}.values())


def _documentation(program: Program) -> tuple[str, ...]:
    """The algorithm, a line for each statement that computes something."""
    lines = (
        algorithm_line(program, statement, statement.body)
        for statement in program.storing
        if statement.role is not Role.COPY and not statement.instances.is_empty()
    )
    return tuple(dict.fromkeys(lines))
