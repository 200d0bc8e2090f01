"""Sums of the parts that programs have stored: on cores, in a second kernel, or by the block that ends last."""

from __future__ import annotations

from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.errors import UnsupportedError
from tiramisu_py.function.handles.computations import Reduction
from tiramisu_py.language.launched import KernelRun
from tiramisu_py.language.schedules.placement import PlacedValues, cut_loops, in_one_iteration
from tiramisu_py.language.schedules.thread_layouts import ThreadLayouts
from tiramisu_py.language.values.parts import PartedSum
from tiramisu_py.program.loops import Combine
from tiramisu_py.program.targets import GpuThreads

#: The threads of a block that adds parts up.
_THREADS = 128
#: The most axes of a grid of blocks.
_AXES = 3


def sum_on_cores(run: KernelRun, parted: PartedSum, lanes: int, in_threads: bool) -> None:
    """Rows in threads, and their elements in vectors, each with its parts in the order of programs."""
    total = _of(run, parted)
    *rows, last = parted.total.domain
    over, cut, lane = [*parted.total.over], Iter(f"{last.name}_cut"), Iter(f"{last.name}_lane")
    for part in (total.init, total.update):
        part.split(last, lanes, cut, lane)
    total.update.reorder(*rows, cut, *over, lane)
    for part in (total.init, total.update):
        part.vectorize(lane, lanes, remainder="mask")
        if in_threads:
            part.parallelize(rows[0] if rows else cut)


def sum_in_a_second_kernel(run: KernelRun, parted: PartedSum, where: GpuThreads) -> None:
    """A thread for each element."""
    total = _of(run, parted)
    *rows, last = parted.total.domain
    if len(rows) >= _AXES:
        raise UnsupportedError(
            f"combine=tm.TWO_PASS of {total.name}: it has {len(rows) + 1} indices, and a grid of blocks three axes",
            "give tm.ATOMIC",
        )
    block, thread = Iter(f"{last.name}_block"), Iter(f"{last.name}_thread")
    for part in (total.init, total.update):
        part.split(last, _THREADS, block, thread)
    total.update.reorder(*rows, block, thread, *parted.total.over)
    total.init.compute_at(total.update, thread)
    total.update.tag_gpu(blocks=[*rows, block], threads=[thread], device=where.device, stream=where.stream)
    total.init.tag_gpu(threads=[thread])


def in_last_block(run: KernelRun, parted: PartedSum, whole: PlacedValues) -> list[Iter]:
    """Put a sum after the programs that are counted; their loops."""
    total = _of(run, parted)
    over, found = [*parted.total.over], cut_loops(run, parted.total, run.stores[total.name][0])
    outer, inner = ([], []) if found is None else found
    once = in_one_iteration(run, parted.total, outer, inner) if found is not None else None
    outer = outer if once is None else [once]
    kept = [each for each in whole.programs if each.name not in {other.name for other in over}]
    if not kept or [str(each) for each in outer] != [str(each) for each in kept]:
        raise UnsupportedError(
            f"combine=tm.LAST_BLOCK of {total.name}: programs are counted for each block of elements, and those of "
            f"{total.name} are no axes of the grid beside {', '.join(each.name for each in over)}",
            "give tm.TWO_PASS",
        )
    total.update.reorder(*outer, *inner, *over)
    total.init.reorder(*outer, *inner)
    total.init.compute_at(total.update, outer[-1])
    total.update.fuse(whole.main, outer[-1])
    return over


def threads_of_last_block(run: KernelRun, parted: PartedSum, dealt: ThreadLayouts) -> None:
    """The elements of a sum on the threads of the last block."""
    total = _of(run, parted)
    for part in (total.init, total.update):
        loops = dealt.loops(parted.total, part)
        if loops.threads:
            part.tag_gpu(threads=list(loops.threads))


def is_in_last_block(parted: PartedSum) -> bool:
    """Whether the block that ends last adds the parts up."""
    return parted.combine is Combine.LAST_BLOCK


def _of(run: KernelRun, parted: PartedSum) -> Reduction:
    found = run.function[parted.total.name]
    assert isinstance(found, Reduction)
    return found
