"""keep: values of an input in a layout of their own are packed by a function of their own, and passed by the caller."""

from __future__ import annotations

from dataclasses import replace

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Input
from tiramisu_py.algorithm.declare.soundness import box
from tiramisu_py.algorithm.domains.extents_from_arguments import params_of
from tiramisu_py.algorithm.expressions import Access
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.errors import CommandError
from tiramisu_py.program.kept_operands import KeptOperand
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import statements
from tiramisu_py.schedule.command_fields import OnStatements


def keep(program: Program, written: str, names: tuple[str, ...]) -> Program:
    """Let the caller pass what these statements store, made by a function of their own."""
    targets = {statement.memory.target for statement in statements(program, names)}
    if len(targets) > 1:
        raise CommandError(f"{written} is kept in several places: {', '.join(sorted(targets))}; keep one at a time")
    (target,) = targets
    if any(operand.storage == target for operand in program.calls.kept):
        raise CommandError(f"{written} is kept between calls already")
    buffer = program.buffers[program.storages[target].buffer]
    if buffer.argument:
        raise CommandError(f"{written} is in the caller's array {buffer.name} already: keep is for temporaries")
    if buffer.scope:
        loops = ", ".join(program.loops[loop].name for loop in buffer.scope)
        raise CommandError(
            f"{written} is made anew in each iteration of ({loops}): only what is made once a call can be kept, "
            "such as a pack without level="
        )
    storing = [statement for statement in program.storing if statement.memory.target == target]
    source = _only_input(program, written, storing)
    program = program.with_(calls=replace(program.calls, kept=(*program.calls.kept, KeptOperand(target, source))))
    return program.with_statement(*(_for_all_calls(program, one) for one in storing if one.role is Role.COPY))


def _only_input(program: Program, written: str, storing: list[Statement]) -> str:
    """The one input array from which statements make their values."""
    own = {statement.source for statement in storing if statement.role is not Role.COPY}
    roots = [root for statement in storing for root in (statement.body, *statement.guards)]
    read = {part.source for root in roots for part in walk(root) if isinstance(part, Access)} - own
    inputs = [name for name in read if name in program.algorithm.inputs]
    if len(read) != 1 or len(inputs) != 1 or program.algorithm.inputs[inputs[0]].scalar:
        named = ", ".join(sorted(read)) or "nothing"
        raise CommandError(
            f"{written} is made from {named}: only what is made from one array of the caller can be kept"
        )
    return inputs[0]


def _for_all_calls(program: Program, statement: Statement) -> Statement:
    """A copy of what is read at any value of the parameters on which neither its array nor the input depends.

    A call reads the weights only if it has pictures, but they are packed for all calls.
    """
    declared = program.algorithm.source(statement.source)
    buffer = program.buffers[program.storages[statement.memory.target].buffer]
    assert isinstance(declared, Input)
    known = {name for extent in (*declared.shape, *buffer.extents) for name in params_of(extent)}
    others = [name for name in program.algorithm.params if name not in known]
    instances = sets.without_params(statement.instances.intersect_params(program.context.params()), others)
    instances = instances.align_params(statement.frame).coalesce()
    inside = box(sets.sized_frame(program.algorithm.param_space, None, len(declared.shape)), declared.shape)
    inside = sets.preimage(inside, sets.renamed(program.value_of(statement), None))
    return replace(statement, instances=instances.intersect(inside).coalesce())


# -- the commands as values


@dataclass(frozen=True, eq=False)
class Keep(OnStatements):
    """Let the caller keep the values of an input that are packed once, and pass them in place of the input.

    ::

        conv(pictures, weights):             -->   conv_pack_weights(weights, weights_packed):
            weights_packed[..] = weights[..]           weights_packed[..] = weights[..]
            total[..] += .. weights_packed[..]     conv(pictures, weights_packed):
                                                       total[..] += .. weights_packed[..]

    It is for a `copy` that is made for the whole call, and for a computation at the top of the program; they are
    made from one array of the caller, and everything else reads what is packed. All operands kept of one input are
    made by one function: ``packed = kernel.pack("weights", weights)`` calls it, and ``kernel(pictures, packed)``
    takes the result, for any number of pictures. Given a plain array, a call packs it first. For C programs the
    function is in the header, with the layout of the array and a function for its size.
    """

    def applied(self, program: Program) -> Program:
        return keep(program, self.of.written, self.names(program))
