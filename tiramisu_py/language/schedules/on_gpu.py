"""Block programs on GPUs: a program is a block of threads, which share the elements of each value.

What one thread computes and another one reads lies in shared memory, and the barriers are derived; everything else
stays in registers. Products of 16-bit floats run on tensor cores where their extents allow it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.errors import UnsupportedError
from tiramisu_py.function.arrays import ProgramValue
from tiramisu_py.function.handles.computations import Reduction, Selection
from tiramisu_py.language.launched import KernelRun
from tiramisu_py.language.schedules.memory_in_turns import take_turns
from tiramisu_py.language.schedules.parts_of_sums import (
    in_last_block,
    is_in_last_block,
    sum_in_a_second_kernel,
    threads_of_last_block,
)
from tiramisu_py.language.schedules.placement import loop_names, placed
from tiramisu_py.language.schedules.thread_layouts import WARP, layouts
from tiramisu_py.language.values.groups import sources_of
from tiramisu_py.program.storage import Memory
from tiramisu_py.program.targets import GpuThreads

#: The most axes of a grid of blocks.
MOST_BLOCKS = 3


def on_gpu(run: KernelRun, where: GpuThreads, num_warps: int, num_stages: int = 1) -> None:
    """Schedule the programs of a run on the blocks of a GPU, each with so many warps, and loads in so many stages."""
    kept = {value.name: _memory(run, value) for value in run.values}
    chosen = {name: memory for name, memory in kept.items() if memory is not Memory.HOST}
    whole = placed(run, apart=True)
    in_turn = _programs_in_turn(run)
    blocks = [each for each in whole.programs if each.name not in in_turn]
    if in_turn and not blocks:
        _refuse_all_in_turn(run, in_turn)
    if not blocks or len(blocks) > MOST_BLOCKS:
        raise UnsupportedError(
            f"the programs of {run.ir.name} are no box of blocks of a GPU",
            "store blocks at program_id * extent + arange, in one to three dimensions",
        )
    ending = [each for each in run.sums if is_in_last_block(each)]
    counted = [each for parted in ending for each in in_last_block(run, parted, whole)]
    dealt = layouts(run, num_warps, chosen)
    for value in run.values:
        if value.name not in run.stored and value.name not in chosen:
            handle = run.function[value.name]
            if dealt.stays_in_registers(value):
                handle.store_in(Memory.REGISTER)
            elif (turned := dealt.swizzle(value)) is not None:
                handle.store_in(Memory.SHARED, swizzle=turned)
            else:
                handle.store_in(Memory.SHARED)
    early = _early(run, num_stages)
    take_turns(run, dealt, {*chosen, *(each.name for each in early)})
    main = True
    for value in reversed(run.values):
        for part in _parts(run, value):
            loops = dealt.loops(value, part)
            threads = loops.threads
            if isinstance(handle := run.function[value.name], Reduction) and run.combine_of_blocks(value.name):
                _atomic(run, value, handle, part, blocks, threads, where)
                main = False
                continue
            if value.name in run.stored and main:
                last = {"counted": counted} if counted else {}
                run.function[value.name].tag_gpu(blocks=blocks, device=where.device, stream=where.stream, **last)
                main = False
            if threads:
                part.tag_gpu(threads=list(threads), combine=loops.combine)
            for loop in loops.unrolled:
                part.unroll(loop)
            if loops.vector:
                part.vectorize(*loops.vector)
            if loops.tile:
                rows, columns, terms = loops.tile
                part.tensorize(rows, columns, terms, dealt.products[value.name].instruction)
    for parted in run.sums:
        if parted in ending:
            threads_of_last_block(run, parted, dealt)
        else:
            sum_in_a_second_kernel(run, parted, where)
    for value in early:
        run.function[value.name].pipeline(Iter(loop_names(run, value)[-1]), num_stages)


def _early(run: KernelRun, stages: int) -> list[ProgramValue]:
    """The values that a loop loads `stages` - 1 iterations early; raises `UnsupportedError` if none loads."""
    own, shared = {value.name for value in run.values}, list[ProgramValue]()
    for value in run.values if stages > 1 else ():
        is_loaded = not value.over and not own & set(sources_of(value)) and value.name not in run.stored
        if is_loaded and loop_names(run, value) and _memory(run, value) is Memory.SHARED:
            shared.append(value)
    if not shared and stages > 1:
        raise UnsupportedError(
            f"num_stages={stages} of {run.ir.name}: no iteration of a loop loads a block into shared memory",
            "leave num_stages out",
        )
    return shared


def _atomic(
    run: KernelRun, value: ProgramValue, handle: Reduction, part: Selection, blocks: Sequence[Iter],
    threads: Sequence[Iter], where: GpuThreads,
) -> None:  # fmt: skip
    """Blocks that add to one element, in any order or in turn; a kernel before it sets the elements to zero."""
    own = {each.name for each in value.over}
    if part.statement_names() != handle.init.statement_names():
        part.tag_gpu(
            blocks=blocks,
            threads=threads,
            combine=run.combine_of_blocks(value.name),
            device=where.device,
            stream=where.stream,
        )
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


def _refuse_all_in_turn(run: KernelRun, in_turn: set[str]) -> None:
    """Refuse programs of which each waits for the one before it: nothing is left for blocks."""
    sums = [value for value in run.values if value.name in run.stored and not run.combine_of_blocks(value.name)]
    added = [value for value in sums if any(each.name in in_turn for each in value.over)]
    names, axes = (" and ".join(each) for each in ([value.name for value in added], sorted(in_turn)))
    raise UnsupportedError(
        f"{added[0].origin}: the programs of {run.ir.name} add to {names} in turn, combine=tm.ORDERED, along {axes}, "
        "which leaves no axis of the grid to the blocks of a GPU",
        "give combine=tm.TWO_PASS, which keeps the order, or tm.ATOMIC",
    )


def _programs_in_turn(run: KernelRun) -> set[str]:
    """The axes of the grid over which something is added up in turn."""
    return {
        each.name
        for value in run.values
        if value.name in run.stored and not run.combine_of_blocks(value.name)
        for each in value.over
    }


def _parts(run: KernelRun, value: ProgramValue) -> list[Selection]:
    """The statements of a computation that have loops of their own."""
    handle = run.function[value.name]
    return [handle.init, handle.update] if isinstance(handle, Reduction) else [handle]
