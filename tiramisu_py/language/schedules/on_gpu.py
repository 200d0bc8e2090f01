"""Block programs on GPUs: a program is a block of threads, which share the elements of each value.

What programs compute lies in shared memory, so that each thread may read what another one has computed; the barriers
are derived. The last axis of a block is on neighbouring threads, so that these read neighbouring elements.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.errors import UnsupportedError
from tiramisu_py.function.arrays import ProgramValue
from tiramisu_py.function.handles.computations import Reduction, Selection
from tiramisu_py.language.launched import KernelRun
from tiramisu_py.language.schedules.placement import block_axes, extent_of_axis, loop_names, placed
from tiramisu_py.language.values.groups import sources_of
from tiramisu_py.program.loops import Combine
from tiramisu_py.program.storage import Memory
from tiramisu_py.program.targets import Gpu

#: The threads of a warp.
WARP = 32
#: The most axes of a grid of blocks.
MOST_BLOCKS = 3


def on_gpu(run: KernelRun, where: Gpu, num_warps: int) -> None:
    """Schedule the programs of a run on the blocks of a GPU, each with so many warps."""
    chosen = {value.name for value in run.values if _memory(run, value) is not Memory.HOST}
    whole = placed(run, apart=True)
    grid = {each.name for each in whole.programs} & _free_programs(run)
    blocks = [each for each in whole.programs if each.name in grid]
    if not blocks or len(blocks) > MOST_BLOCKS:
        raise UnsupportedError(
            f"the programs of {run.ir.name} are no box of blocks of a GPU",
            "store blocks at program_id * extent + arange, in one to three dimensions",
        )
    for value in run.values:
        handle = run.function[value.name]
        if value.name not in run.outputs and value.name not in chosen:
            handle.store_in(Memory.SHARED)
    main = True
    for value in reversed(run.values):
        for part in _parts(run, value):
            threads = _threads(run, value, part, num_warps)
            if isinstance(handle := run.function[value.name], Reduction) and run.is_atomic(value.name):
                _atomic(run, value, handle, part, blocks, threads, where)
                main = False
                continue
            if value.name in run.outputs and main:
                run.function[value.name].tag_gpu(blocks=blocks, device=where.device, stream=where.stream)
                main = False
            if threads:
                part.tag_gpu(threads=threads)


def in_stages(run: KernelRun, stages: int) -> None:
    """Load what an iteration of a loop reads `stages` - 1 iterations early; raises `UnsupportedError` if none loads."""
    own, shared = {value.name for value in run.values}, list[ProgramValue]()
    for value in run.values:
        is_loaded = not value.over and not own & set(sources_of(value)) and value.name not in run.outputs
        if is_loaded and loop_names(run, value) and _memory(run, value) is Memory.SHARED:
            shared.append(value)
    if not shared:
        raise UnsupportedError(
            f"num_stages={stages} of {run.ir.name}: no iteration of a loop loads a block into shared memory",
            "leave num_stages out",
        )
    for value in shared:
        run.function[value.name].pipeline(Iter(loop_names(run, value)[-1]), stages)


def _atomic(
    run: KernelRun, value: ProgramValue, handle: Reduction, part: Selection, blocks: Sequence[Iter],
    threads: Sequence[Iter], where: Gpu,
) -> None:  # fmt: skip
    """Blocks that add to one element in any order; a kernel before it sets the elements to zero."""
    own = {each.name for each in value.over}
    if part.statement_names() != handle.init.statement_names():
        part.tag_gpu(blocks=blocks, threads=threads, combine=Combine.ATOMIC, device=where.device, stream=where.stream)
        return
    free = [each for each in blocks if each.name not in own]
    if not free and threads:
        cut = Iter(f"{threads[0].name}_block"), Iter(f"{threads[0].name}_own")
        part.split(threads[0], WARP, *cut)
        free, threads = [cut[0]], [cut[1], *threads[1:]]
        part.reorder(*free, *threads)
    part.tag_gpu(blocks=free, threads=threads, device=where.device, stream=where.stream)


def _memory(run: KernelRun, value: ProgramValue) -> Memory:
    """Where the values of a computation are kept."""
    program = run.function.program
    return program.buffers[program.storages[value.name].buffer].memory


def _free_programs(run: KernelRun) -> set[str]:
    """The axes of the grid over which nothing is added up in turn."""
    over = {
        each.name
        for value in run.values
        if value.name in run.outputs and not run.is_atomic(value.name)
        for each in value.over
    }
    return {name for name in run.programs.axes.programs if name not in over}


def _parts(run: KernelRun, value: ProgramValue) -> list[Selection]:
    """The statements of a computation that have loops of their own."""
    handle = run.function[value.name]
    return [handle.init, handle.update] if isinstance(handle, Reduction) else [handle]


def _threads(run: KernelRun, value: ProgramValue, part: Selection, num_warps: int) -> Sequence[Iter]:
    """Cut the last two axes of a statement for the threads of a block; the loops over threads, the last along x."""
    axes = block_axes(run, value, part)
    if not axes:
        return ()
    found, outer = list[Iter](), list[Iter]()
    for axis, most in zip(axes[-2:], (num_warps, WARP) if len(axes) > 1 else (num_warps * WARP,), strict=True):
        if extent_of_axis(run, value, axis) > most:
            cut = Iter(f"{axis.name}_part"), Iter(f"{axis.name}_thread")
            part.split(axis, most, *cut)
            outer.append(cut[0])
            found.append(cut[1])
        else:
            found.append(axis)
    statement = run.function.program.statements[part.statement_names()[0]]
    names = run.function.program.loop_names(statement)
    rest = [Iter(name) for name in names if name in {each.name for each in (*axes[:-2], *value.over)}]
    loops = set(run.programs.axes.loops) | set(run.programs.axes.programs)
    inner = [each for each in rest if each.name not in loops]
    moved = [*outer, *(each for each in inner if each.name in {a.name for a in axes[:-2]}), *found]
    part.reorder(*moved, *(each for each in inner if each.name not in {a.name for a in axes[:-2]}))
    return found
