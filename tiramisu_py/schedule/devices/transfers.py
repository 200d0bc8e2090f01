"""Transfers: copies of values from the memory of one device to that of another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, replace
from enum import Enum
from typing import Any

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm, Computation, value_names
from tiramisu_py.algorithm.dimension_names import dimension_names
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.domains.domain import parse_domain
from tiramisu_py.algorithm.domains.references import Owner
from tiramisu_py.algorithm.expressions import Access, Expr, Iter
from tiramisu_py.algorithm.names import check_name
from tiramisu_py.dependence.values_read import existing
from tiramisu_py.errors import CommandError
from tiramisu_py.program.fresh_names import free_name
from tiramisu_py.program.loops import Bulk, Loop, LoopId
from tiramisu_py.program.program import Program, nest
from tiramisu_py.program.statement import FILES, LOADS, STORES, Link, MemoryUse, Role, Statement, Transfer, is_gpu
from tiramisu_py.program.statement_runs import conditions_of_values
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import check_new_name, listed, loop_name, size
from tiramisu_py.schedule.command_fields import OnFunction
from tiramisu_py.schedule.devices.files import with_file
from tiramisu_py.schedule.locality.compute_at import loads
from tiramisu_py.sets import smallest


class Direction(Enum):
    """Between which memories a transfer goes: those of the host, of GPUs, and files."""

    CPU2GPU = "cpu2gpu"
    GPU2CPU = "gpu2cpu"
    GPU2GPU = "gpu2gpu"
    CPU2FILE = "cpu2file"
    FILE2CPU = "file2cpu"
    GPU2FILE = "gpu2file"
    FILE2GPU = "file2gpu"

    def __repr__(self) -> str:
        return self.name


_TO_FILES = (Direction.CPU2FILE, Direction.GPU2FILE)
_FROM_FILES = (Direction.FILE2CPU, Direction.FILE2GPU)


class Mode(Enum):
    """Whether the host continues only when a transfer is complete (SYNC), or at once (ASYNC)."""

    SYNC = "sync"
    ASYNC = "async"

    def __repr__(self) -> str:
        return self.name


def with_transfer(
    program: Program, name: str, source: str, instances: isl.Set, transfer: Transfer, bulk: bool, command: str
) -> Program:
    """The program with an additional transfer: of the values of `source` (an input or a computation) in `instances`.

    `instances` are value indices, in a tuple of any name. With `bulk` the whole transfer is one operation; otherwise
    each value is one, until loops are collapsed. The loops are new and named after the source's dimensions; the user
    sees `command` as their origin. The transfer is declared after the statements that compute the source and, if it
    goes to a GPU, before the first that reads it; orders given later take precedence.
    """
    point = sets.identity(sets.universe(instances.get_space()).get_space())
    dims = dimension_names(program.algorithm, source)
    program, made = _declared(program, name, source, sets.named(instances, name), dims, point, transfer)
    return collapsed(program, made.name, made.loops, command) if bulk else program


def source_of(access: object, algorithm: Algorithm) -> str:
    """The name of the input or computation whose values a transfer moves."""
    if isinstance(access, Access) and access.owner is not algorithm.owner:
        other = f" {access.owner.name}" if isinstance(access.owner, Owner) else ""
        raise CommandError(f"{access!r} belongs to another function{other}: name a value of this one")
    if not isinstance(access, Access):
        raise CommandError(f"{access!r} names no value to transfer: give one such as image[r, c] of this function")
    if access.source in algorithm.inputs and algorithm.inputs[access.source].scalar:
        raise CommandError(f"{access.source} is a scalar: kernels are passed it, and need no transfer")
    return access.source


def between(direction: object, mode: object, stream: object, device: object, to_device: object) -> Transfer:
    """The devices and the mode of a transfer, checked."""
    if not isinstance(direction, Direction):
        raise CommandError(
            f"direction={direction!r}: choose tm.CPU2GPU, tm.GPU2CPU, tm.GPU2GPU, tm.CPU2FILE, tm.FILE2CPU, "
            "tm.GPU2FILE or tm.FILE2GPU"
        )
    if not isinstance(mode, Mode):
        raise CommandError(f"mode={mode!r}: choose tm.SYNC or tm.ASYNC")
    gpu, sequence = size(device, "device", 0), size(stream, "stream", 0)
    if (direction is Direction.GPU2GPU) != (to_device is not None):
        raise CommandError("to_device= is the target of a tm.GPU2GPU transfer, and for no other direction")
    if direction in (*_TO_FILES, *_FROM_FILES):
        return _of_files(direction, mode, sequence, gpu)
    source = None if direction is Direction.CPU2GPU else gpu
    target = {Direction.CPU2GPU: gpu, Direction.GPU2CPU: None}.get(direction, to_device)
    if direction is Direction.GPU2GPU and size(to_device, "to_device", 0) == gpu:
        raise CommandError(f"a transfer from GPU {gpu} to itself moves nothing")
    return Transfer(source, target, mode is Mode.ASYNC, sequence)  # type: ignore[arg-type]


def _of_files(direction: Direction, mode: Mode, stream: int, device: int) -> Transfer:
    of_gpu = direction in (Direction.GPU2FILE, Direction.FILE2GPU)
    if stream or (device and not of_gpu):
        raise CommandError(
            f"{'stream' if stream else 'device'}= is for GPUs: files have a queue of stores and one of loads"
        )
    other = device if of_gpu else None
    asynchronous = mode is Mode.ASYNC
    if direction in _TO_FILES:
        return Transfer(other, FILES, asynchronous, STORES)
    return Transfer(FILES, other, asynchronous, LOADS)


def default_name(source: str, transfer: Transfer) -> str:
    """The default name of a transfer."""
    if transfer.uses_files:
        return f"{source}_{'stored' if transfer.target == FILES else 'loaded'}"
    return f"{source}_to_{'cpu' if transfer.target is None else 'gpu'}"


def one_sided(program: Program, name: str, domain: object, access: Expr, transfer: Transfer, owner: object) -> Program:
    """The program with an additional transfer, as the user declares it: of ``access`` at each point of `domain`."""
    check_name(name, "a transfer")
    check_new_name(program, name, "the transfer (see name=)")
    found = parse_domain(program.algorithm, name, domain, None, owner)
    if found.guards:
        raise CommandError(f"the domain of {name} has conditions that are not affine: {found.guards[0]}")
    assert isinstance(access, Access)
    return create_transfer(program, name, found.iterators, found.points, access, transfer)


def create_transfer(
    program: Program, name: str, dims: Sequence[str], domain: isl.Set, access: Access, transfer: Transfer
) -> Program:
    """The program with an additional one-sided transfer: of the values ``access`` at the points of `domain`.

    `dims` are the iterators of the domain, which the indices of the access use.
    """
    instances = sets.with_dims(sets.named(domain, name), dims)
    reader = Affine(instances.get_space())
    try:
        forms = [reader.single(index) for index in access.indices]
    except NotAffine as error:
        raise CommandError(f"{access} cannot be transferred: {error.part} is not affine in {', '.join(dims)}") from None
    point = sets.function(instances.get_space(), None, forms)
    if not sets.graph(point, instances).is_injective():
        raise CommandError(f"{access} names a value several times: a transfer takes each value once")
    program, _ = _declared(program, name, access.source, instances, dims, point, transfer)
    return program


def _check_not_into_an_input(program: Program, source: str, transfer: Transfer) -> None:
    """Refuse a transfer that writes the caller's array of an input: its values are there already."""
    if source in program.algorithm.inputs and transfer.target != FILES:
        buffer = program.buffers[program.storages[source].buffer]
        if buffer.argument and transfer.target == buffer.device:
            where = "host memory" if buffer.device is None else f"the memory of GPU {buffer.device}"
            raise CommandError(f"{source} is an input in {where}: its values are there, and no transfer writes it")


def _declared(
    program: Program,
    name: str,
    source: str,
    instances: isl.Set,
    dims: Sequence[str],
    point: isl.MultiAff,
    transfer: Transfer,
) -> tuple[Program, Statement]:
    check_name(name, "a transfer")
    check_new_name(program, name, "the transfer (see name=)")
    if source not in program.storages:
        raise CommandError(f"{source} is kept in no memory: there is nothing to transfer")
    _check_not_into_an_input(program, source, transfer)
    program, kept = with_file(program, source, transfer)
    space = sets.with_dims(instances, dims).get_space()
    check_values(program, name, source, sets.graph(sets.from_frame(point, space), instances).range())
    declared = program.algorithm.source(source)
    first = program.next_loop()
    loops = [Loop(first + k, dim) for k, dim in enumerate(dims)]
    statement = Statement(
        name=name,
        source=source,
        role=Role.COPY,
        dims=tuple(dims),
        instances=sets.with_dims(instances, dims),
        point=sets.renamed(sets.from_frame(point, space), source),
        loops=tuple(loop.id for loop in loops),
        coords=sets.renamed(sets.identity(space), None),
        body=Access(source, tuple(map(Iter, value_names(declared))), declared.dtype),
        memory=MemoryUse(
            target=kept if transfer.target == FILES else source,
            sources={source: kept} if transfer.source == FILES else {},
        ),
        guards=_conditions(program, source),
        link=Link(transfer=transfer),
    )
    return _in_place(program.with_loop(*loops), statement), statement


def _conditions(program: Program, source: str) -> tuple[Expr, ...]:
    """The conditions under which a transfer moves a value in runs: those of the runs.

    Values that have a place each are moved without them, except where they are the caller's, who keeps the others.
    """
    declared = program.algorithm.source(source)
    if not isinstance(declared, Computation) or not declared.guards:
        return ()
    storage = program.storages[source]
    if source not in program.algorithm.outputs and not program.frame(storage):
        places = sets.graph(storage.index, sets.named(declared.domain, None))
        if places.is_injective():
            return ()
    return conditions_of_values(program, source)


def check_values(program: Program, name: str, source: str, values: isl.Set) -> None:
    """Refuse a transfer, or half of an exchange, that takes values which the source does not have."""
    outside = sets.named(values, None).intersect_params(program.context).subtract(existing(program, source))
    if not outside.is_empty():
        params = smallest.smallest_params(outside)
        value = f"{source}[{', '.join(map(str, smallest.first(sets.fixed(outside, params))))}]"
        sizes = ", ".join(f"{param} = {number}" for param, number in params.items())
        where = f", at {sizes}" if sizes else ""
        raise CommandError(f"{name} takes values of {source} that do not exist: there is no {value}{where}")


def _in_place(program: Program, transfer: Statement) -> Program:
    """Declare a transfer after the statements that store its values and, towards a GPU, before those that load them."""
    assert transfer.link.transfer is not None
    names = list(program.statements)
    of_file = transfer.link.transfer.source == FILES
    kept = transfer.memory.sources[transfer.source] if of_file else transfer.source
    stored = [s.name for s in program.storing if s.source == transfer.source and s.memory.target == kept]
    last = max((names.index(name) for name in stored), default=-1)
    after = names[last + 1 :]
    if of_file or is_gpu(transfer.link.transfer.target):
        loading = [n for n in after if loads(program.statements[n], transfer.source)]
        after = after[after.index(loading[0]) :] if loading else []
    return program.with_statement_before(transfer, after)


def collapse_many(program: Program, names: Sequence[str], given: Sequence[object], command: str) -> Program:
    """Make all iterations of the innermost loops of a transfer, or of half of an exchange, one operation."""
    wanted = [loop_name(loop) for loop in listed(given, "the list of loops")]
    if not wanted:
        raise CommandError("collapse_many needs a loop")
    for name in names:
        statement = program.statements[name]
        program = collapsed(program, name, _innermost(program, statement, wanted), command)
    return program


def _innermost(program: Program, statement: Statement, wanted: Sequence[str]) -> tuple[LoopId, ...]:
    """The innermost loops of a transfer: the wanted ones, and those already collapsed into one operation."""
    for count in range(len(wanted), len(statement.loops) + 1):
        inner = statement.loops[-count:]
        others = [loop for loop in inner if program.loops[loop].name not in wanted]
        named = len(others) == count - len(wanted)
        if named and all(isinstance(program.loops[loop].tag, Bulk) for loop in others):
            return inner
    raise CommandError(f"one operation has the innermost loops, not {', '.join(wanted)} ({nest(program, statement)})")


def collapsed(program: Program, name: str, loops: Iterable[LoopId], command: str) -> Program:
    """The program with loops of a transfer tagged as one operation."""
    for number in loops:
        loop = program.loops[number]
        others = [s.name for s in program.with_this_loop(number) if s.name != name]
        if others:
            raise CommandError(
                f"loop {loop.name} of {program.statements[name].handle} is shared with {', '.join(others)}: one "
                "operation has loops of its own"
            )
        if loop.is_rank:
            raise CommandError(
                f"loop {loop.name} runs on ranks, and a message is from one rank to one: collapse loops inside of it"
            )
        if loop.tag is not None and not isinstance(loop.tag, Bulk):
            raise CommandError(f"loop {loop.name} is tagged already, by {loop.tagged_by}")
        program = program.with_loop(replace(loop, tag=Bulk(), tagged_by=command))
    return program


# -- the commands as values


@dataclass(frozen=True, eq=False)
class CreateTransfer(OnFunction):
    """Values are copied from the memory of one device to that of another."""

    verb = "create_xfer"

    domain: Any
    access: Expr
    direction: Direction | None
    _: KW_ONLY
    mode: Mode = Mode.SYNC
    stream: int = 0
    device: int = 0
    to_device: int | None = None
    name: str | None = None

    def transfer(self) -> Transfer:
        """The devices and the mode; raises `CommandError`."""
        return between(self.direction, self.mode, self.stream, self.device, self.to_device)

    @property
    def taken(self) -> str:
        """The computation or input whose values are moved."""
        assert isinstance(self.access, Access)
        return self.access.source

    def made(self, program: Program) -> str:
        """The name of the transfer; raises `CommandError`."""
        taken, transfer = source_of(self.access, program.algorithm), self.transfer()
        return free_name(program, default_name(taken, transfer)) if self.name is None else self.name

    def applied(self, program: Program) -> Program:
        name, owner = self.made(program), program.algorithm.owner
        return one_sided(program, name, self.domain, self.access, self.transfer(), owner)
