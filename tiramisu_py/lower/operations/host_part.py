"""The host's part of a program: its nests have a statement for each launch, copy and message.

A kernel is one operation in each iteration of the host's loops around it. A transfer, a message, or a combination over
ranks is one operation in each iteration of the loops outside of its bulk, and so is a call of a C function over whole
arrays. Each becomes a statement with only those loops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.lower.operations.transfer_boxes import boxes_of
from tiramisu_py.lower.statements.index_set_splitting import DomainPiece
from tiramisu_py.program.kernels import KernelNest, kernels
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.collective_exchanges import Collective, collectives, issued, renamed
from tiramisu_py.program.statement import Statement
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class HostProgram:
    """The host's part of a program.

    `program` has one statement for each kernel, transfer and half of an exchange, with only the loops of the host;
    `launched` are the kernels by the names of their statements, and `operation` maps each statement of a kernel,
    transfer or message to the statement that represents it here.
    """

    program: Program
    launched: Mapping[str, KernelNest] = field(default_factory=dict)
    operation: Mapping[str, str] = field(default_factory=dict)


def host_of(program: Program, coordinates: Sequence[str] = ()) -> HostProgram:
    """The host's part; the program itself if there are no GPUs and no messages.

    `coordinates` are the parameters of this rank's coordinates, on which collective calls do not depend.
    """
    found_nests = [nest for nest in kernels(program) if not nest.is_last]
    operation = {s.name: nest.name for nest in found_nests for s in (*nest.statements, *nest.beside)}
    nests = {nest.name: nest.without_trees for nest in found_nests}
    operation |= {s.name: s.name for s in program.acting if s.link.transfer is not None or s.link.message is not None}
    called = [s.name for s in program.acting if s.calls_ranks or s.is_call]
    if not operation and not called:
        return HostProgram(program)
    together = {one.send.name: one for one in _collectives(program)}
    operation |= {one.receive.name: name for name, one in together.items()}
    found: dict[str, Statement] = {}
    for statement in program.statements.values():
        name = operation.get(statement.name)
        if statement.name in called:
            found[statement.name] = _issued(program, statement.name, (statement,))
        elif name is None:
            found[statement.name] = statement
        elif name in together:
            found[name] = _called(together[name], coordinates)
        elif name not in found:
            group = (*nests[name].statements, *nests[name].beside) if name in nests else (statement,)
            found[name] = _issued(program, name, group)
    found = _in_order(program, found)
    return HostProgram(program.with_(statements=found, orders=renamed(program.orders, operation)), nests, operation)


def _in_order(program: Program, found: Mapping[str, Statement]) -> dict[str, Statement]:
    """The statements of the host's part as the program runs them: what is declared first comes first where no command
    says otherwise, and a kernel is declared with the last of what keeps it in its place.
    """
    names = sorted(found, key=lambda name: program.positions[name])
    return {name: found[name] for name in names}


def _collectives(program: Program) -> tuple[Collective, ...]:
    found = collectives(program)
    for one in found:
        if not one.is_whole:
            raise CompilerDefect(
                f"{one.name} is collective, but has been cut into parts: a collective call has one send"
            )
    return found


def _called(one: Collective, coordinates: Sequence[str]) -> Statement:
    """A collective exchange as one statement, whose instances are its calls."""
    calls = sets.without_params(one.calls, coordinates).align_params(one.program.algorithm.param_space)
    here = sets.universe(sets.sized_frame(one.program.algorithm.param_space, None, len(coordinates)))
    for form, name in zip(sets.variables(here.get_space()), coordinates, strict=True):
        here = sets.where_equal(here, form, name)
    here = here.intersect_params(one.program.context.params())
    return issued(one, calls, here)


def _issued(program: Program, name: str, group: Sequence[Statement]) -> Statement:
    """An operation as a statement: its instances are the host's iterations in which the operation has work."""
    some = next((statement for statement in group if statement.name == name), group[0])
    depth = boxes_of(program, some)[0] if some.link.transfer is not None else program.host_depth(some)
    parts = list[isl.Set]()
    for statement in group:
        within = statement.instances.intersect_params(program.context)
        parts.append(within.apply(sets.graph(statement.prefix(depth))))
    instances = sets.union_of(parts)
    dims = tuple(f"{program.loops[loop].name}_{i}" for i, loop in enumerate(some.loops[:depth]))
    instances = sets.with_dims(sets.named(instances.coalesce(), name), dims)
    identity = sets.identity(instances.get_space())
    return replace(
        some,
        dims=dims,
        instances=instances,
        point=identity,
        loops=some.loops[:depth],
        coords=sets.renamed(identity, None),
    )


def pieces_of_operation(statement: Statement) -> list[DomainPiece]:
    """The instances of an operation in disjoint, convex pieces."""
    parts = [part for part in sets.basic_sets(statement.instances) if not part.is_empty()]
    if len(parts) == 1:
        return [DomainPiece(statement.name, statement, parts[0], statement.body)]
    named = ((f"{statement.name}#{number}", part) for number, part in enumerate(parts))
    return [DomainPiece(name, statement, sets.named(part, name), statement.body) for name, part in named]
