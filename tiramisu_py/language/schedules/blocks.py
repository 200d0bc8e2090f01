"""The recipe for block programs: derived from the kernel, applied, and returned as text."""

from __future__ import annotations

from tiramisu_py.errors import ArgumentError
from tiramisu_py.function.applying.as_script import as_script
from tiramisu_py.language.launched import KernelRun
from tiramisu_py.language.schedules.on_cores import on_cores
from tiramisu_py.language.schedules.on_gpu import on_gpu
from tiramisu_py.program.targets import Cores, GpuThreads
from tiramisu_py.public_calls import own_call_of


@own_call_of("tm.recipes")
def blocks(run: KernelRun, on: Cores | GpuThreads, *, num_warps: int = 4, num_stages: int = 1) -> str:
    """Schedule the programs of a kernel, as its source has them.

    ::

        run = matmul[tl.cdiv(M, 32), tl.cdiv(N, 32)](A, B, C, TM=32, TN=32, TK=16)
        print(tm.recipes.blocks(run, on=tm.cores()))
            -->   i0, p0, rm, i1, p1, rn, ... = tm.iters("i0 p0 rm i1 p1 rn ...")
                  C = f["C"]
                  C.split(i0, 32, p0, rm)
                  ...
                  acc.compute_at(C, p1)
                  ...
                  C.parallelize(p0)

    On cores programs are dealt out to threads; what a program loads lies in blocks of its own, products run in tiles of
    registers, everything else in vectors along the last axis. Loads of programs without products are inlined where all
    that read them go along their rows, and rows that are read more than once are prefetched for the next program. On a
    GPU a program is a block of `num_warps` warps, whose
    threads share the elements of each value; what a program computes is in shared memory, where the user has chosen no
    other. Sums with ``combine=tm.ATOMIC`` are added up by blocks in any order. With `num_stages` of 2 or more what an
    iteration of a loop loads is loaded so many iterations early, but one.

    Returns the commands that were applied, to be pasted and edited; they are proven like a user's. Raises
    `ArgumentError`, `UnsupportedError` where no loop loads a block, and the error of a command that is refused; then
    none of them is applied.
    """
    if not isinstance(run, KernelRun):
        raise ArgumentError(f"tm.recipes.blocks takes the run of a kernel, kernel[grid](handles), not {run!r}")
    if not isinstance(on, Cores | GpuThreads):
        raise ArgumentError(f"tm.recipes.blocks: on={on!r}: give tm.cores() or tm.gpu()")
    for name, number in (("num_warps", num_warps), ("num_stages", num_stages)):
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise ArgumentError(f"tm.recipes.blocks: {name}={number!r}: give a number of at least 1")
    function = run.function
    start = len(function.commands)
    with function.all_or_nothing():
        if isinstance(on, Cores):
            on_cores(run, on)
        else:
            on_gpu(run, on, num_warps, num_stages)
    return as_script(function.commands[start:])
