"""replicate: each thread along a loop computes its own copy of a value that does not depend on the loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.algorithm.spellings import distinct
from tiramisu_py.errors import CommandError
from tiramisu_py.program.loops import GpuThread, Loop, LoopId
from tiramisu_py.program.program import Program, nest
from tiramisu_py.program.statement import Statement
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import find, loop_name, statements
from tiramisu_py.schedule.command_fields import OnStatements
from tiramisu_py.schedule.nesting import check_nesting


def replicate(program: Program, names: Sequence[str], written: str, loop: str, command: str) -> Program:
    """Run each execution of these statements once for each iteration of the loop `loop` of what reads their values."""
    own = statements(program, names)
    for statement in own:
        _check(program, statement, loop)
    for target in dict.fromkeys(statement.memory.target for statement in own):
        readers = [s for s in program.acting if s.name not in names and target in s.loads]
        found = {s.name: number for s in readers if (number := find(program, s, loop)) is not None}
        if not found:
            raise CommandError(_unread(program, written, loop, readers))
        tag = _tag(program, loop, list(found.values()))
        copied = [s for s in own if s.memory.target == target]
        iterations = _iterations(program, target, [(s, found[s.name]) for s in readers if s.name in found])
        for statement in copied:
            new = Loop(program.next_loop(), loop, tag, "" if tag is None else command)
            program = program.with_loop(new).with_statement(_repeated(program, statement, new, iterations))
    for statement in statements(program, names):
        for number in statement.loops:
            check_nesting(program, number)
    return program


def _check(program: Program, statement: Statement, loop: str) -> None:
    """Refuse what has one place for all threads, or whose executions are no computation."""
    buffer = program.buffers[program.storages[statement.memory.target].buffer]
    if not statement.stores or statement.link.transfer or statement.link.message or statement.is_call:
        raise CommandError(f"{statement.handle} is issued once, by the host: replicate is for what threads compute")
    if buffer.argument or statement.source in program.algorithm.outputs:
        raise CommandError(
            f"{statement.source} is an output, of which the caller has one copy: replicate a computation that only "
            "others read"
        )
    if find(program, statement, loop) is not None:
        raise CommandError(f"{statement.handle} has a loop {loop} already: {nest(program, statement)}")
    combining = [one for one in (program.loops[number] for number in statement.loops) if _combines(one)]
    if statement.link.combination is not None or combining:
        how = f" in loop {combining[0].name} ({combining[0].tagged_by})" if combining else ""
        raise CommandError(
            f"{statement.handle} combines partial results of threads{how}, each of which has some of the terms: all "
            "threads have the result of a tree already; for copies that one thread computes, leave combine= out"
        )


def _combines(loop: Loop) -> bool:
    return getattr(loop.tag, "combine", None) is not None


def _unread(program: Program, written: str, loop: str, readers: Sequence[Statement]) -> str:
    if not readers:
        return f"nothing else reads {written}: replicate gives each thread that reads a value its own copy"
    words = "; ".join(nest(program, reader) for reader in readers)
    return f"nothing that reads {written} has a loop {loop}: {words}"


def _tag(program: Program, loop: str, found: Sequence[LoopId]) -> GpuThread | None:
    """The threads that the loops of the readers run on, if these are tagged already."""
    tags = dict.fromkeys(program.loops[number].tag for number in found)
    other = next((program.loops[n] for n in found if not isinstance(program.loops[n].tag, GpuThread | None)), None)
    if other is not None and other.tag is not None:
        raise CommandError(
            f"{loop} is a {other.tag.name} loop ({other.tagged_by}): replicate is for the threads of a GPU's block; "
            "compute_at gives each iteration of another loop its own values"
        )
    axes = {tag.axis for tag in tags if isinstance(tag, GpuThread)}
    if len(axes) > 1:
        raise CommandError(f"the loops {loop} that read it are along several axes of the block: replicate before tags")
    return GpuThread(axes.pop()) if axes else None


def _iterations(program: Program, target: str, readers: Sequence[tuple[Statement, LoopId]]) -> isl.Map:
    """The iterations of the readers' loops, in each iteration of the loops around the buffer.

    All of them, not those that read in one iteration of another loop they share: a recurrence is computed where its
    next value will be.
    """
    depth = len(program.frame(program.storages[target]))
    inside = [(reader, number) for reader, number in readers if program.in_scope(reader, program.storages[target])]
    if not inside:
        reader = readers[0][0]
        raise CommandError(
            f"{reader.handle} is outside of the loops in which {target} is kept ({nest(program, reader)}): compute it "
            "at a loop that they share"
        )
    parts = []
    for reader, number in inside:
        form = sets.outputs(reader.coords)[reader.depth(number)]
        around = sets.renamed(reader.prefix(depth), None)
        parts.append(sets.relating(around, sets.function(reader.frame, None, [form]), reader.instances))
    return sets.union_of(parts).coalesce()


def _repeated(program: Program, statement: Statement, loop: Loop, iterations: isl.Map) -> Statement:
    """The statement with a loop of its own, just inside of those that it shares, and an execution for each iteration.

    Given S with the loops around its buffer o(x), and iterations = {o -> j}, the instances become {S[j, x] : j in
    iterations(o(x))}: no point depends on j.
    """
    around = sets.renamed(statement.prefix(sets.in_size(iterations)), None)
    pairs = sets.graph(around, statement.instances).apply_range(iterations).reverse().coalesce()
    dims = distinct([loop.name, *statement.dims])
    instances = sets.with_dims(sets.flat_pairs(pairs, statement.name), dims)
    space = instances.get_space()
    variables = sets.variables(space)
    inner = sets.function(space, statement.name, variables[1:])
    coords = list(sets.outputs(sets.compose(inner, statement.coords)))
    shared = [d for d, number in enumerate(statement.loops) if len(program.with_this_loop(number)) > 1]
    at = shared[-1] + 1 if shared else 0
    return replace(
        statement,
        dims=tuple(dims),
        instances=instances,
        point=sets.compose(inner, statement.point),
        loops=(*statement.loops[:at], loop.id, *statement.loops[at:]),
        coords=sets.function(space, None, [*coords[:at], variables[0], *coords[at:]]),
    )


# -- the command as a value


@dataclass(frozen=True, eq=False)
class Replicate(OnStatements):
    """Let each thread along a loop compute its own copy of a value that does not depend on the loop.

    ::

        for t:                             -->   for t:
            for x on threads: if x == 0:             for x on threads:
                top[t] = max(top[t-1], a[t])             top[t] = max(top[t-1], a[t])       (in registers)
            barrier                                  for x on threads:
            for x on threads:                            out[x, t] = f(top[t], x)
                out[x, t] = f(top[t], x)                                                 (top.replicate(x))

    The computation gets a loop of this name, with the iterations that the loop has in what reads it, and its tag if it
    has one. Kept in registers, ``top.store_in(tm.REGISTER)``, each thread has the values in its own: what would be
    computed by one thread, and passed on through shared memory behind a barrier, is computed by all of them at the same
    time. It is for values that cost little: the largest value and the sum of a row so far, in softmax and attention.
    Consumers first: what a replicated computation reads can be replicated along its new loop.

    The values stay the same, and so do their bits. The proof shows that each thread reads its own copies; it refuses a
    copy that threads without the loop read, and copies that threads share (in shared memory, say). Raises
    `CommandError` where nothing that reads the values has the loop, for outputs, of which there is one copy, and for
    reductions of which each thread has some terms.
    """

    loop: Iter

    def applied(self, program: Program) -> Program:
        return replicate(program, self.names(program), self.of.written, loop_name(self.loop), str(self))
