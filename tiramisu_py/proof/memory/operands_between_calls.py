"""Operands kept between calls: the program can be cut in one function that packs them, and one that is called often.

The theorem holds for the program with both parts. The cut keeps it if the parts share no loop, the packed arrays are
the caller's for good (nothing else stores to them, each element has one value), they are made from one array that
nobody changes, and no other statement reads that array. The parts may then be calls of their own: all packing is before
everything else, and reads what it would have read.
"""

from __future__ import annotations

from collections.abc import Iterator

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Access
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.program.kept_operands import KeptOperand, packed_from, packing
from tiramisu_py.program.kernels import device_count
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Memory
from tiramisu_py.proof.violations.condition import Sentence, Topic
from tiramisu_py.proof.violations.findings import Finding, Key

#: The statements that can pack.
_PACKING = (Role.COPY, Role.VALUE, Role.INIT, Role.UPDATE)


def findings(flow: Flow, _: Key | None = None) -> Iterator[Finding]:
    """Every reason why the packing of a kept operand is no function of its own."""
    program = flow.accesses.program
    if not program.calls.kept:
        return
    if program.runs_on_ranks or device_count(program):
        uses = "GPUs" if device_count(program) else "ranks"
        yield _found(program.calls.kept[0], "host", f"{program.algorithm.name} uses {uses}: keep is for the host alone")
        return
    lost = [operand for operand in program.calls.kept if operand.storage not in program.storages]
    for operand in lost:
        yield _found(operand, "gone", f"{operand.storage} is to be kept between calls, but is no longer stored")
    if lost:
        return
    for operand in program.calls.kept:
        yield from _unfit_array(program, operand)
        for statement in (s for s in program.storing if s.memory.target == operand.storage):
            yield from _unfit_statement(flow, operand, statement)
        if program.frame(program.storages[operand.storage]) == ():
            yield from _folded(flow, operand)
    for source in packed_from(program):
        yield from _shared(flow, source)


def _found(operand: KeptOperand, sort: str, message: str, repair: str = "") -> Finding:
    witness = Witness({}, reader=(operand.source, ()))
    violation = Violation("reach", message, witness, repair=repair or f"leave {operand.storage}.keep() out")
    return Finding.of(Key(sort, (operand.storage,)), violation)


def _unfit_array(program: Program, operand: KeptOperand) -> Iterator[Finding]:
    name, storage = operand.storage, program.storages[operand.storage]
    buffer = program.buffers[storage.buffer]
    said = f"{name} is to be kept between calls, but "
    if buffer.argument:
        yield _found(operand, "array", f"{said}is in the caller's array {buffer.name}")
    elif buffer.memory is not Memory.HOST or buffer.pages is not None:
        where = f"is placed ({buffer.pages})" if buffer.pages is not None else f"is in {buffer.memory.value} memory"
        yield _found(operand, "array", f"{said}{where}: the caller passes ordinary memory of the host")
    elif buffer.scope:
        loops = ", ".join(program.loops[loop].name for loop in buffer.scope)
        yield _found(operand, "array", f"{said}{buffer.name} exists once for each iteration of ({loops})")
    elif len(list(program.storages_in(buffer.name))) > 1:
        others = ", ".join(each.source for each in program.storages_in(buffer.name) if each.name != name)
        yield _found(operand, "array", f"{said}shares {buffer.name} with {others}")


def _unfit_statement(flow: Flow, operand: KeptOperand, statement: Statement) -> Iterator[Finding]:
    program, said = flow.accesses.program, f"{statement.handle} packs {operand.storage}, which is kept between calls, "
    if statement.role not in _PACKING:
        yield _found(operand, "role", f"{said}but is no copy and no computation")
        return
    own = {operand.storage, *(kept.storage for kept in program.calls.kept if kept.source == operand.source)}
    for source in flow.accesses.sources(statement):
        storage = program.storage_for(statement, source)
        if storage.name != operand.source and storage.name not in own:
            yield _found(operand, "source", f"{said}but reads {storage.name}, and not only {operand.source}")
    for scalar in _scalars(program, statement):
        yield _found(operand, "source", f"{said}but reads the scalar {scalar}, which may differ from call to call")


def _folded(flow: Flow, operand: KeptOperand) -> Iterator[Finding]:
    """Elements that hold one value after another."""
    program, storage = flow.accesses.program, flow.accesses.program.storages[operand.storage]
    writes = (flow.accesses.write(s) for s in program.storing if s.memory.target == operand.storage)
    stored = sets.united([sets.graph(w.value, w.domain).range() for w in writes if w is not None])
    if stored is not None and not sets.graph(storage.index, sets.named(stored, None)).is_injective():
        message = f"{operand.storage} is to be kept between calls, but elements of {storage.buffer} hold several values"
        yield _found(operand, "folded", message)


def _scalars(program: Program, statement: Statement) -> list[str]:
    roots = (statement.body, *statement.guards)
    read = dict.fromkeys(part.source for root in roots for part in walk(root) if isinstance(part, Access))
    inputs = program.algorithm.inputs
    return [name for name in read if name in inputs and inputs[name].scalar]


def _shared(flow: Flow, source: str) -> Iterator[Finding]:
    """The array and the loops that other statements must not share with those that pack an input."""
    program = flow.accesses.program
    operand = next(kept for kept in program.calls.kept if kept.source == source)
    packs = packing(program, source)
    array = program.storages[source].buffer
    for storage in program.storages_in(array):
        if storage.name != source:
            message = f"{operand.storage} is kept between calls, but {storage.source} is stored over {source}"
            yield _found(operand, "overwritten", message)
    loops = {loop for statement in packs for loop in statement.loops}
    for statement in program.statements.values():
        if statement in packs:
            continue
        if loops.intersection(statement.loops):
            message = f"{statement.handle} shares a loop with the packing of {operand.storage}, which is kept"
            yield _found(operand, "loops", message)
        if statement.acts and any(
            program.storage_for(statement, read).name == source for read in flow.accesses.sources(statement)
        ):
            message = f"{statement.handle} reads {source}, but callers pass {operand.storage} in its place"
            repair = f"pack what {statement.handle} reads of {source}, and keep that too, or leave keep out"
            yield _found(operand, "unpacked", message, repair)


def _proven(program: Program) -> str:
    names = ", ".join(operand.storage for operand in program.calls.kept)
    return f"what is kept between calls is packed first, and stays as it is: {names}" if names else ""


SENTENCES = (Sentence(Topic.VALUES, _proven),)
