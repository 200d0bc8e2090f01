"""pipeline: what a loop of a kernel brings into shared memory is brought some iterations before it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Access, Const, Iter, Select, as_expr
from tiramisu_py.errors import CommandError
from tiramisu_py.program.loops import LoopId, Vector
from tiramisu_py.program.machine.asynchronous_copies import COPIED, is_zero
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Buffer, Memory, Storage
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import loop_name, size, statements
from tiramisu_py.schedule.command_fields import OnStatements
from tiramisu_py.schedule.devices.tag_gpu import bytes_of, check_limits


def pipelined(program: Program, name: str, stages: int) -> Program:
    """Run a statement `stages` - 1 iterations early in the innermost loop that its storage is reused in.

    The buffer holds `stages` boxes, of which the iterations of the loop use one each, in turn: with t that loop,
    ``box = t mod stages`` for what reads, and ``(t + stages - 1) mod stages`` for the statement that runs in t.
    """
    statement = program.statements[name]
    storage = program.storages[statement.memory.target]
    buffer = program.buffers[storage.buffer]
    level, ahead = len(buffer.scope + storage.inner) - 1, stages - 1
    reading = _taking_turns(storage.index, level, stages)
    filled = Storage(
        f"{storage.name}_next", storage.source, buffer.name, _later(reading, level, ahead),
        inner=storage.inner, words=storage.words,
    )  # fmt: skip
    coords = sets.outputs(statement.coords)
    coords[level] = sets.plus(coords[level], -ahead)
    moved = replace(
        statement,
        coords=sets.function(statement.frame, None, coords),
        memory=replace(statement.memory, target=filled.name),
    )
    program = program.with_buffer(replace(buffer, extents=(as_expr(stages), *buffer.extents), passed=None))
    return program.with_storage(filled).with_storage(replace(storage, index=reading)).with_statement(moved)


def _taking_turns(index: isl.MultiAff, level: int, stages: int) -> isl.MultiAff:
    """The index with the number of the box in front, by the iteration of a loop."""
    space = index.get_space().domain()
    return sets.function(space, None, [sets.modulo(sets.variables(space)[level], stages), *sets.outputs(index)])


def _later(index: isl.MultiAff, level: int, by: int) -> isl.MultiAff:
    """The index that a loop uses some iterations later."""
    space = index.get_space().domain()
    moved = [sets.plus(form, by) if k == level else form for k, form in enumerate(sets.variables(space))]
    return sets.compose(sets.function(space, None, moved), index)


def check_deferred(program: Program, source: str, origin: str) -> None:
    """Refuse a deferred copy of what cp.async cannot copy."""
    width = program.algorithm.source(source).dtype.bytes
    if width not in COPIED:
        raise CommandError(f"deferred: cp.async copies 4, 8 or 16 bytes, and {source} has elements of {width}")
    memory = program.buffers[program.storages[origin].buffer].memory
    if memory in (Memory.SHARED, Memory.REGISTER):
        raise CommandError(f"deferred: cp.async copies from the GPU's memory, and {origin} is in {memory.value}")


def _can_be_deferred(program: Program, statement: Statement) -> bool:
    """Whether cp.async does what a statement does: a copy, or a load under its mask with zeros elsewhere.

    All that it loads is in the GPU's memory, also what its mask reads.
    """
    if statement.role is Role.COPY:
        source: str | None = statement.source
    else:
        source = _masked_load(statement) if statement.role is Role.VALUE else None
    if source is None or program.algorithm.source(source).dtype != program.algorithm.source(statement.source).dtype:
        return False
    near = (Memory.SHARED, Memory.REGISTER)
    storages = (program.storages[name] for name in statement.loads if name in program.storages)
    if any(program.buffers[storage.buffer].memory in near for storage in storages):
        return False
    lanes = [tag.width for loop in statement.loops if isinstance(tag := program.loops[loop].tag, Vector)]
    return program.algorithm.source(source).dtype.bytes * (lanes[0] if lanes else 1) in COPIED


def _masked_load(statement: Statement) -> str | None:
    """The source of a statement that stores what it loads, or zeros where a condition does not hold; else None."""
    body = statement.body
    if isinstance(body, Select) and is_zero(body.no):
        body = body.yes
    return body.source if isinstance(body, Access) else None


def _filling(program: Program, names: Sequence[str], of: str) -> tuple[Statement, Storage, Buffer]:
    """The one statement that fills a buffer in shared memory, its storage and the buffer; raises `CommandError`."""
    own = [s for s in statements(program, names) if s.stores]
    storages = sorted({s.memory.target for s in own})
    if not storages:
        raise CommandError(f"{of} stores nothing: pipeline is for what fills shared memory")
    storage = program.storages[storages[0]]
    buffer = program.buffers[storage.buffer]
    if buffer.memory is not Memory.SHARED:
        raise CommandError(
            f"{of} is in {buffer.name}, in {buffer.memory.value} memory: what is brought early is in shared memory; "
            f"make a copy with copy(.., into=tm.SHARED), or give {own[0].source}.store_in(tm.SHARED)"
        )
    sharing = list(program.storages_in(buffer.name))
    if len(sharing) > 1:
        names_ = ", ".join(sorted(each.name for each in sharing))
        raise CommandError(
            f"{buffer.name} holds several boxes, of {names_}, already: a copy is pipelined once, and without buffers=2"
        )
    writers = [s for s in program.storing if program.storages[s.memory.target].buffer == buffer.name]
    if len(writers) > 1 or len(own) > 1:
        listed = ", ".join(sorted(s.handle for s in writers))
        raise CommandError(
            f"{buffer.name} is filled by several statements, {listed}: pipeline brings early what one statement fills; "
            "keep what is loaded in a computation of its own, or in a copy"
        )
    if writers[0].source in writers[0].loads and writers[0].role is not Role.COPY:
        raise CommandError(
            f"{of} reads its own values, of iterations before: these are not there earlier; pipeline what it loads"
        )
    return writers[0], storage, buffer


def _check_loop(program: Program, statement: Statement, storage: Storage, buffer: Buffer, wanted: str) -> None:
    """Refuse a loop other than the innermost in each iteration of which the buffer is filled anew."""
    around = [program.loops[loop].name for loop in statement.loops]
    frame: tuple[LoopId, ...] = (*buffer.scope, *storage.inner)
    if wanted not in around:
        raise CommandError(f"loop {wanted} is not around {statement.handle}, whose loops are {', '.join(around)}")
    if not storage.inner:
        raise CommandError(
            f"{buffer.name} is filled once for each block, not anew in each iteration of {wanted}: make the copy at= "
            f"that loop, or give compute_at(.., {wanted})"
        )
    last = program.loops[frame[-1]]
    if last.name != wanted:
        raise CommandError(
            f"{buffer.name} is filled anew in each iteration of {last.name}, and loop {wanted} is another one: give "
            f"pipeline({last.name}, ..), or fill it at {wanted}"
        )
    if last.tag is not None:
        raise CommandError(
            f"loop {wanted} is tagged by {last.tagged_by}: iterations take turns in a sequential loop; give a loop "
            "inside of the threads"
        )
    if statement.loops[: len(frame)] != frame:
        raise CommandError(f"{statement.handle} is not inside of all the loops in which {buffer.name} is filled anew")


def pipeline(program: Program, names: Sequence[str], of: str, loop: str, stages: int) -> Program:
    """Bring what a statement loads `stages` - 1 iterations of a loop early; checked."""
    statement, storage, buffer = _filling(program, names, of)
    _check_loop(program, statement, storage, buffer, loop)
    unknown = [str(extent) for extent in buffer.extents if not isinstance(extent, Const)]
    if unknown:
        raise CommandError(
            f"{buffer.name} has the extent {unknown[0]}, and shared memory has constant ones: split the loops inside "
            f"of {loop} by a constant"
        )
    one = bytes_of(buffer)
    changed = pipelined(program, statement.name, stages)
    if _can_be_deferred(program, statement):
        filling = changed.statements[statement.name]
        changed = changed.with_statement(replace(filling, link=replace(filling.link, deferred=stages - 1)))
    try:
        check_limits(changed, [statement.name])
    except CommandError as error:
        raise CommandError(
            f"{stages} stages of {buffer.name}, {one} bytes each: {error}, or give fewer stages"
        ) from None
    return changed


@dataclass(frozen=True, eq=False)
class PipelineLoads(OnStatements):
    """Load what an iteration of a kernel's loop reads `stages` - 1 iterations before, into boxes that take turns.

    ::

        for k0:                      -->    for k0 in -1..:
            A_shared[..] = A[k0, ..]            A_shared[(k0 + 1) % 2, ..] = A[k0 + 1, ..]
            P[..] += A_shared[..]               if k0 >= 0: P[..] += A_shared[k0 % 2, ..]
                                                                                  (A_shared.pipeline(k0, 2))

    For a copy, or a computation of one statement, in shared memory, and the loop in each iteration of which it is
    filled anew: `at` of a copy, or that of `compute_at`. The loop begins `stages` - 1 iterations earlier, and shared
    memory holds `stages` boxes. One barrier an iteration is enough, where it took two. A copy of elements, or of
    vectors, of 4, 8 or 16 bytes from the GPU's memory is deferred (``cp.async``, which passes registers by, from
    compute capability 8.0 on): it is complete after `stages` - 1 barriers, so that loads of as many iterations are
    under way at once; in a kernel with several such copies, after the fewest of theirs. So is a load under a condition
    that is zero elsewhere, ``tm.select(i < N, A[i], 0)``: it loads what the condition holds for, and fills the rest
    with zeros. All else passes through registers, and is complete at once.

    With two stages it is ``copy(.., deferred=True, buffers=2)``. Raises `CommandError` for fewer than 2 stages, another
    loop, what is not in shared memory, and for boxes that do not fit, with their bytes.
    """

    verb = "pipeline"

    loop: Iter
    stages: int

    def applied(self, program: Program) -> Program:
        loop = loop_name(self.loop)
        stages = size(self.stages, f"the number of stages of {loop}", 2)
        return pipeline(program, self.names(program), str(self.of), loop, stages)
