"""Commands that run loops on the blocks and threads of a GPU: tag_gpu, coarsen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, replace
from math import prod
from typing import Any, Self

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Const, Iter
from tiramisu_py.errors import CallError, CommandError, UnsupportedError
from tiramisu_py.program.editing import Coordinates, Rewrite
from tiramisu_py.program.kernels import KernelNest, axis_name, kernels
from tiramisu_py.program.loops import Combine, GpuBlock, GpuThread, Launch, Loop, LoopId
from tiramisu_py.program.machine.gpu_target import placed_bytes
from tiramisu_py.program.program import Program, nest
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Buffer, Memory
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import find, listed, loop_name, loops_named, size, statements, unused
from tiramisu_py.schedule.command_fields import Named, OnStatements
from tiramisu_py.schedule.devices.bundles_on_gpus import bundles_named, bundles_tagged
from tiramisu_py.schedule.devices.last_blocks import Ending, results_of_blocks, with_ending
from tiramisu_py.schedule.devices.tagging import Tagging
from tiramisu_py.schedule.devices.two_passes import in_two_passes
from tiramisu_py.schedule.loops.single_iterations import without_single_iterations
from tiramisu_py.schedule.loops.transforms import parted, tile
from tiramisu_py.schedule.nesting import block_loops, check_nesting
from tiramisu_py.schedule.storage.shared_scope import settled

#: How blocks add to one element one after another.
_IN_TURN = (Combine.LOCK, Combine.ORDERED)
#: Dimensions of a grid, and of a block.
MOST_AXES = 3


def tagging(asked: TagGpu | GpuTile, blocks: Sequence[Iter], threads: Sequence[Iter]) -> Tagging:
    """The arguments of a command, checked."""
    outer = _named(blocks, "blocks")
    inner = _named(threads, "threads")
    repeated = [name for name in (*outer, *inner) if (*outer, *inner).count(name) > 1]
    if repeated:
        raise CommandError(f"loop {repeated[0]} is named twice: a loop runs on blocks or on threads, along one axis")
    if asked.combine not in (None, Combine.ATOMIC, Combine.LOCK, Combine.ORDERED, Combine.TREE):
        raise CommandError(f"combine={asked.combine!r}: on a GPU, choose tm.ATOMIC, tm.LOCK, tm.ORDERED or tm.TREE")
    if asked.combine in _IN_TURN and (asked.grid is not None or listed(getattr(asked, "counted", ()), "counted")):
        raise CommandError(
            f"combine=tm.{asked.combine.name} lets blocks add one after another, and grid= and counted= say what a "
            "block goes on with: leave them out, or use combine=tm.ATOMIC"
        )
    launch = Launch(
        size(asked.stream, "stream", 0),
        size(asked.device, "device", 0),
        None if asked.grid is None else size(asked.grid, "grid"),
        None if asked.minimum_blocks is None else size(asked.minimum_blocks, "minimum_blocks"),
        bool(asked.barriers),
    )
    if inner and not outer and launch != Launch():
        raise CommandError("stream, device, grid, minimum_blocks and barriers are for the kernel: name its block loops")
    if asked.across not in (None, Combine.ATOMIC, Combine.TWO_PASS, Combine.LAST_BLOCK):
        raise CommandError(f"across={asked.across!r}: choose tm.ATOMIC, tm.TWO_PASS or tm.LAST_BLOCK")
    if asked.across is Combine.LAST_BLOCK and asked.grid is not None:
        raise CommandError(
            "across=tm.LAST_BLOCK counts the blocks that have ended, and with grid= a block goes on as another one: "
            "leave grid= out, or use across=tm.TWO_PASS"
        )
    if asked.across is not None and asked.combine is not Combine.TREE:
        raise CommandError(f"across=tm.{asked.across.name} says what becomes of the results of trees: combine=tm.TREE")
    return Tagging(outer, inner, launch, asked.combine, asked.across, _counted(asked, outer))


def _counted(asked: TagGpu | GpuTile, blocks: Sequence[str]) -> tuple[str, ...]:
    """The block loops that are counted, checked."""
    counted = tuple(loop_name(loop) for loop in listed(getattr(asked, "counted", ()), "counted"))
    others = [name for name in counted if name not in blocks]
    if others:
        raise CommandError(f"counted=[{', '.join(counted)}]: {others[0]} is none of the block loops, {_words(blocks)}")
    if counted and len(counted) == len(blocks):
        raise CommandError(
            f"counted=[{', '.join(counted)}]: the last block goes on with what follows the counted loops inside "
            "of other block loops: leave one of the block loops uncounted, of one iteration if need be"
        )
    if counted and asked.grid is not None:
        raise CommandError("counted=[...] counts the blocks that have ended, and with grid= a block goes on as another")
    if counted and asked.across is not None:
        raise CommandError(f"across=tm.{asked.across.name} says which blocks are counted: leave counted= out")
    return counted


def _words(names: Sequence[str]) -> str:
    return ", ".join(names) or "of which there are none"


def _named(given: Sequence[Iter], what: str) -> tuple[str, ...]:
    names = tuple(loop_name(loop) for loop in listed(given, what))
    if len(names) > MOST_AXES:
        raise CommandError(f"{what} has {len(names)} loops: a GPU has {MOST_AXES} axes, x, y and z")
    return names


def tag_gpu(program: Program, names: Sequence[str], tagged: Tagging, command: str) -> Program:
    """Run loops on blocks and threads; a statement without loops is run by one thread."""
    _check_again(program, names, tagged)
    if runs := bundles_named(program, names, (*tagged.blocks, *tagged.threads)):
        return bundles_tagged(program, runs, tagged, command)
    ending: Ending | None = None
    if tagged.across is Combine.TWO_PASS:
        program, names = in_two_passes(program, names, tagged.blocks, tagged.launch, command)
    if tagged.across is Combine.LAST_BLOCK:
        program, names, ending = results_of_blocks(program, names, tagged.blocks, tagged.threads, command)
    wanted = (*tagged.blocks, *tagged.threads)
    own = statements(program, names)
    alone = [s for s in own if not s.loops] if tagged.blocks or not wanted else []
    chosen = [s for s in own if wanted and all(find(program, s, name) is not None for name in wanted)]
    words = "; ".join(nest(program, s) for s in own)
    if not wanted and not alone:
        raise CommandError(f"tag_gpu needs blocks=[...], threads=[...] or both: {words}")
    if wanted and not chosen:
        raise CommandError(f"no statement has the loops {', '.join(wanted)}: {words}")
    for statement in chosen:
        program = _tagged(program, statement, tagged, command)
    without = [s.name for s in own if s not in chosen and _lacks_threads(program, s, tagged)]
    for name in without:
        program = _tagged(program, program.statements[name], tagged, command)
    for statement in alone:
        program = _alone(program, statement, tagged, command)
    names = [*(statement.name for statement in chosen), *without]
    if ending is not None:
        program = with_ending(program, ending, tagged.launch, command)
        names += [f"{ending.of}_init", f"{ending.of}_update"]
    for name in names:
        for loop in program.statements[name].loops:
            check_nesting(program, loop)
    check_limits(program, names)
    return without_single_iterations(settled(program))


def _check_again(program: Program, names: Sequence[str], tagged: Tagging) -> None:
    """Refuse a second command for a reduction whose blocks' results are values: its terms are in other loops now."""
    for update in (s for s in statements(program, names) if s.role is Role.UPDATE):
        made = f"{update.source}_blocks"
        whole = program.algorithm.wholes.get(made)
        tags = [program.loops[loop] for loop in update.loops if program.loops[loop].tag is not None]
        if whole is None or whole.name != update.source or not tags:
            continue
        own = {loop.name for loop in tags if isinstance(loop.tag, GpuBlock)}
        lacking = any(find(program, update, name) is None for name in tagged.threads)
        if not lacking and tagged.across is None and own.issuperset(tagged.blocks):
            continue
        before = tags[0].tagged_by
        raise CommandError(
            f"the blocks of {update.source} have results of their own, {made}, since {before}, and {update.handle} "
            f"combines these: {program.algorithm.name}.undo() to before that command, to give another one, or tag the "
            f"loops of {made}.update"
        )


def _lacks_threads(program: Program, statement: Statement, tagged: Tagging) -> bool:
    """Whether a statement is in no kernel yet, and has all the block loops but not all the thread loops.

    An example is the start of a reduction whose terms are dealt out to threads: thread 0 of the axis runs it.
    """
    found = [find(program, statement, name) for name in tagged.blocks]
    return bool(found) and None not in found and not any(program.loops[loop].tag for loop in statement.loops)


def _tagged(program: Program, statement: Statement, tagged: Tagging, command: str) -> Program:
    blocks, threads = (
        [find(program, statement, name) for name in listed_] for listed_ in (tagged.blocks, tagged.threads)
    )
    others = [loop for loop in block_loops(program, statement) if loop not in (*blocks, *threads)]
    if tagged.blocks and others:
        other = program.loops[others[0]]
        raise CommandError(
            f"{statement.name} is inside the block loop {other.name} already ({other.tagged_by}): name all block loops "
            "of the kernel, or threads=[...] alone"
        )
    if not tagged.blocks and not others:
        raise CommandError(f"{statement.name} is in no kernel: name block loops too, blocks=[...]")
    terms = _over_terms(program, statement, blocks, tagged.combine) if tagged.combine in _IN_TURN else ()
    for axis, loop in enumerate(reversed(blocks)):
        assert loop is not None
        counted = program.loops[loop].name in tagged.counted
        combine = tagged.combine
        if combine in _IN_TURN and loop not in terms:
            combine = combine if combine is Combine.LOCK and _locked_for_others(program, statement, loop) else None
        program = _with_tag(program, loop, GpuBlock(axis, tagged.launch, combine, counted), command)
    for axis, loop in enumerate(reversed(threads)):
        if loop is not None:
            own = None if tagged.combine in _IN_TURN else tagged.combine
            program = _with_tag(program, loop, GpuThread(axis, own), command)
    return program


def _locked_for_others(program: Program, statement: Statement, loop: LoopId) -> bool:
    """Whether an earlier command gave a block loop a lock, along which blocks add to values of another reduction."""
    tag = program.loops[loop].tag
    others = [s for s in program.with_this_loop(loop) if s.role is Role.UPDATE and s.source != statement.source]
    locked = isinstance(tag, GpuBlock) and tag.combine is Combine.LOCK
    return locked and any(_over_terms(program, other, [loop], None) for other in others)


def _over_terms(
    program: Program, statement: Statement, blocks: Sequence[LoopId | None], combine: Combine | None
) -> Sequence[LoopId]:
    """The block loops of which several iterations add to one value; raises `CommandError` if there are none."""
    place = program.place(statement, program.storages[statement.memory.target], program.value_of(statement))
    instances = statement.instances.intersect_params(program.context)
    relation = sets.relating(sets.renamed(place, None), statement.prefix(len(statement.loops)), instances)
    pairs = relation.reverse().apply_range(relation)
    found = []
    for loop in blocks:
        position = statement.loops.index(loop) if loop in statement.loops else -1
        if loop is not None and position >= 0 and not pairs.is_subset(sets.equal_at(pairs, position)):
            found.append(loop)
    if statement.role is not Role.UPDATE or not blocks or combine is None:
        return found
    if not found:
        raise CommandError(
            f"combine=tm.{combine.name}: no two blocks add to one value of {statement.source}: leave combine= out"
        )
    if combine is Combine.ORDERED and len(found) > 1:
        names = ", ".join(program.loops[loop].name for loop in found)
        raise CommandError(
            f"combine=tm.ORDERED: blocks of the loops {names} add to one value of {statement.source}, and they add in "
            "the order of one loop: leave the others inside of a block"
        )
    return found


def _alone(program: Program, statement: Statement, tagged: Tagging, command: str) -> Program:
    """A statement without loops in a kernel of one thread: a block loop of one iteration around it."""
    number = program.next_loop()
    loop = Loop(number, "once", GpuBlock(0, tagged.launch), command)
    once = sets.function(statement.frame, None, [sets.constant(statement.frame, 0)])
    return program.with_loop(loop).with_statement(replace(statement, loops=(number,), coords=once))


def _with_tag(program: Program, number: LoopId, tag: GpuBlock | GpuThread, command: str) -> Program:
    loop = program.loops[number]
    if loop.tag is not None and type(loop.tag) is not type(tag):
        raise CommandError(f"loop {loop.name} is tagged already, by {loop.tagged_by}")
    return program.with_loop(replace(loop, tag=tag, tagged_by=command))


# -- limits


def kernel_around(program: Program, statement: Statement) -> KernelNest | None:
    """The kernel that a statement is in, or the part of it."""
    found = (nest for nest in kernels(program) if any(s.name == statement.name for s in nest.statements))
    return next(found, None)


def check_limits(program: Program, names: Sequence[str]) -> None:
    """Refuse kernels with more threads in a block, or more shared memory, than a GPU has."""
    for found in kernels(program):
        if any(statement.name in names for statement in found.statements):
            _check_threads(found)
            _check_shared(found)


def _check_threads(kernel: KernelNest) -> None:
    shape = [1, 1, 1]
    for statement in kernel.statements:
        for axis, loop in enumerate(kernel.thread_loops(statement)):
            shape[axis] = max(shape[axis], _extent(kernel, loop))
    for axis, (number, most) in enumerate(zip(shape, kernel.gpu.most_along, strict=True)):
        if number > most:
            raise CommandError(
                f"a block of the kernel of {kernel.handle} has {number} threads along {axis_name(axis)}: "
                f"{kernel.gpu.name} allows {most} there; split the loop, or let each thread do several iterations "
                "with coarsen"
            )
    most = kernel.gpu.most_threads
    if prod(shape) > most:
        along = [str(number) for number in shape if number > 1]
        words = f"{' x '.join(along)} = {prod(shape)}" if len(along) > 1 else str(prod(shape))
        raise CommandError(
            f"a block of the kernel of {kernel.handle} has {words} threads: {kernel.gpu.name} "
            f"allows {most} in a block; make the tile smaller, or let each thread do several iterations with coarsen"
        )


def _extent(kernel: KernelNest, loop: LoopId | None) -> int:
    """The constant bound of a thread loop's trip count; 1 if there is none (later commands may provide one)."""
    if loop is None:
        return 1
    try:
        return kernel.extent(loop) or 1
    except UnsupportedError:
        return 1


def _check_shared(kernel: KernelNest) -> None:
    program = kernel.program
    used = {program.storages[s.memory.target].buffer for s in (*kernel.statements, *kernel.beside) if s.stores}
    shared = [b for b in map(program.buffers.__getitem__, used) if b.memory is Memory.SHARED]
    sizes = {buffer.name: bytes_of(buffer) for buffer in sorted(shared, key=lambda b: b.name)}
    total = placed_bytes(sizes.values())
    if total > kernel.gpu.most_shared:
        words = ", ".join(f"{name} {number}" for name, number in sizes.items() if number)
        raise CommandError(
            f"the kernel of {kernel.handle} needs {total} bytes of shared memory in each block ({words}): "
            f"{kernel.gpu.name} allows {kernel.gpu.most_shared}; make the tile smaller"
        )


def bytes_of(buffer: Buffer) -> int:
    """The size of a buffer; 0 where an extent is not constant."""
    extents = [extent.value if isinstance(extent, Const) else 0 for extent in buffer.extents]
    return prod(int(extent) for extent in extents) * buffer.dtype.bytes


# -- coarsening


def coarsen(program: Program, names: Sequence[str], loop: str, factor: int, inner: str) -> Program:
    """Let each thread run `factor` iterations a stride apart, or each block `factor` neighbouring iterations."""
    for statement, found in loops_named(program, names, loop):
        unused(program, program.with_this_loop(found), [inner])
        current = program.statements[statement.name]
        match program.loops[found].tag:
            case GpuThread():
                program = _thread_coarsened(program, current, found, factor, inner)
            case GpuBlock():
                program = _block_coarsened(program, current, found, factor, inner)
            case _:
                raise CommandError(
                    f"loop {loop} of {statement.name} runs neither on threads nor on blocks: tag it with "
                    "tag_gpu first, or split it"
                )
    return without_single_iterations(settled(program))


def _thread_coarsened(program: Program, statement: Statement, old: LoopId, factor: int, inner: str) -> Program:
    kernel = kernel_around(program, statement)
    assert kernel is not None
    try:
        extent = kernel.extent(old)
    except UnsupportedError as error:
        raise CommandError(str(error)) from None
    assert extent is not None
    if factor > extent:
        raise CommandError(
            f"loop {program.loops[old].name} has at most {extent} iterations: a thread cannot take {factor} of them"
        )
    stride = -(-extent // factor)
    corner = kernel.corner(old)
    origin = sets.constant_of(corner) if sets.is_constant(corner) else 0
    first = program.next_loop()
    new = (replace(program.loops[old], id=first), Loop(first + 1, inner))

    def forward(c: Coordinates) -> Coordinates:
        moved = sets.plus(c[0], -origin)
        turn = sets.floor_div(moved, stride)
        return [moved.sub(sets.scaled(turn, stride)), turn]

    def backward(c: Coordinates) -> Coordinates:
        return [sets.plus(sets.scaled(c[1], stride).add(c[0]), origin)]

    return Rewrite((old,), new, forward, backward).applied(program)


def _block_coarsened(program: Program, statement: Statement, old: LoopId, factor: int, inner: str) -> Program:
    blocks = block_loops(program, statement)
    run = blocks[blocks.index(old) :]
    first = program.next_loop()
    grown = replace(program.loops[old], id=first)
    new = (grown, *(program.loops[loop] for loop in run[1:]), Loop(first + 1, inner))

    def forward(c: Coordinates) -> Coordinates:
        block = sets.floor_div(c[0], factor)
        return [block, *c[1:], c[0].sub(sets.scaled(block, factor))]

    def backward(c: Coordinates) -> Coordinates:
        return [sets.scaled(c[0], factor).add(c[-1]), *c[1:-1]]

    return Rewrite(run, new, forward, backward).applied(program)


# -- the commands as values


@dataclass(frozen=True, eq=False)
class TagGpu(OnStatements):
    """Run loops on the blocks of a GPU, and loops inside on the threads of each block: one to three of each.

    ::

        for r in 0..R:          -->   kernel<<<(C/64, R), 64>>>:
            for c0 in 0..C/64:            r, c0 = blockIdx.y, blockIdx.x
                for c1 in 0..64:          c1 = threadIdx.x
                    S[r, c0, c1]          S[r, c0, c1]        (tag_gpu(blocks=[r, c0], threads=[c1]))

    In each list the last loop is along axis x, the one before along y, then z. Loops around the block loops run on
    the host, which launches the kernel in each of their iterations; other loops inside are sequential. All
    statements inside the outermost block loop form one kernel, each with its own or shared thread loops. A
    statement without a loop along an axis is run by thread 0 of the axis; an example is the start of a reduction
    whose terms run on threads, which is tagged along with them. `stream` is the operation sequence of the GPU
    `device` on which the kernel is put; `grid` limits the blocks along x that run at once (a grid-stride loop);
    `minimum_blocks` is for the compiler's launch bounds. If a reduction runs over a loop, name how partial results
    are combined: ``combine=tm.TREE``, ``tm.ATOMIC``, or ``tm.LOCK``, with which one block after another adds to
    elements that they share; with ``tm.ORDERED`` they do so in the order of their loop, so that bits hold: a block
    draws its iteration when it starts, and waits for none that has not started. In a tree are the threads that add
    to one element; along
    other thread loops each has a tree of its own (a warp a row). Without other blocks that add to it, the kernel
    may use the result: of ``tm.SHARED`` memory, or in each thread's own ``tm.REGISTER``. The results of several
    blocks are added atomically, or with ``across=tm.TWO_PASS`` stored, and combined by a second kernel, the same
    way in each call: as values ``C_blocks`` of a reduction ``C``, made by `rfactor`. With ``across=tm.LAST_BLOCK``
    the block that ends last combines them, in the same kernel, and runs what is ordered after ``C.update`` at a
    block loop over values (``once``, of one iteration, if there is none). With ``counted=[b]`` the block of loop b
    that ends last runs what follows that loop inside of the other block loops. Barriers between threads are placed
    where dependences need them, unless ``barriers=False``. A statement without loops (the start of a sum of everything)
    is run by a single thread: ``total.init.tag_gpu()``, or together with the rest of its computation. A second call
    replaces the first. A block has at most 1,024 threads (64 of them along z) and 227 KiB of shared memory, or what
    `Function.gpu_target` says; if it would need more, the command or the proof says how many.

    A bundle of loops over values (see `coalesce`) that is split runs on blocks and threads by both its names,
    ``tag_gpu(blocks=[j0], threads=[j1])``: each iteration has a thread, or with `grid` each thread has those that
    are as many apart as there are threads. Iterations then share no memory of a block, and no barrier.
    Source: TIRAMISU, ``computation::tag_gpu_level``.
    """

    spelled_out = ("blocks", "threads", "stream")

    blocks: Sequence[Iter] = ()
    threads: Sequence[Iter] = ()
    stream: int = 0
    _: KW_ONLY
    device: int = 0
    grid: int | None = None
    minimum_blocks: int | None = None
    combine: Combine | None = None
    across: Combine | None = None
    barriers: bool = True
    counted: Sequence[Iter] = ()

    def applied(self, program: Program) -> Program:
        return tag_gpu(program, self.names(program), tagging(self, self.blocks, self.threads), self.text)


@dataclass(frozen=True, eq=False)
class GpuTile(OnStatements):
    """Tile two or three loops, and run the tiles on blocks and the iterations inside on threads.

    ::

        for i in 0..N:          -->   for i0, j0 on blocks:
            for j in 0..M:                for i1, j1 on threads:
                S[i, j]                       S[16*i0 + i1, 16*j0 + j1]   (gpu_tile(i, j, 16, 16, i0, j0, i1, j1))

    It is `tile` followed by `tag_gpu`: write these two where `tag_gpu` is to have options.
    """

    many = "arguments"
    retired = ("stream", "device", "grid", "minimum_blocks", "combine", "across", "barriers")
    instead = "tile(..) and tag_gpu(..), which has the options"

    arguments: tuple[Iter | int, ...]
    _: KW_ONLY
    stream: int = 0
    device: int = 0
    grid: int | None = None
    minimum_blocks: int | None = None
    combine: Combine | None = None
    across: Combine | None = None
    barriers: bool = True

    @classmethod
    def called(cls, of: Named, /, *arguments: Iter | int, **older: Any) -> Self:
        unknown = [name for name in older if name not in cls.retired]
        if unknown:
            raise CallError(f"gpu_tile has no argument {unknown[0]}=")
        return cls(of, arguments, **older)

    def applied(self, program: Program) -> Program:
        loops, sizes, new = parted(self.arguments, "gpu_tile")
        if len(loops) not in (2, 3):
            raise CommandError(
                "gpu_tile takes 2 or 3 loops, as many sizes, as many block and as many thread loops: "
                "gpu_tile(i, j, 16, 16, i0, j0, i1, j1); a single loop is split, and then tagged by tag_gpu"
            )
        made = [Iter(name) for name in new]
        tagged, names = tagging(self, made[: len(loops)], made[len(loops) :]), self.names(program)
        return tag_gpu(tile(program, names, loops, sizes, new), names, tagged, self.text)


@dataclass(frozen=True, eq=False)
class Coarsen(OnStatements):
    """Give each thread (or each block) `factor` iterations of its loop, in a sequential loop inside.

    ::

        for c1 in 0..64 on threads:   -->   for c1 in 0..16 on threads:
            S[c1]                               for k in 0..4:
                                                    S[c1 + 16*k]      (coarsen(c1, 4, k))

    The iterations of a thread are a stride apart, so that neighbouring threads still access neighbouring elements;
    those of a block are adjacent. The loop keeps its name and its tag. Coarsen before a `copy` into shared memory: if
    one is already inside the loop, each of the `factor` iterations would fill only a part of it.
    """

    loop: Iter
    factor: int
    inner: Iter

    def applied(self, program: Program) -> Program:
        loop, inner = loop_name(self.loop), loop_name(self.inner)
        return coarsen(program, self.names(program), loop, size(self.factor, f"the factor of {loop}", 2), inner)
