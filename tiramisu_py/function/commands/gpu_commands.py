"""Commands that run loops on a GPU: tag_gpu, gpu_tile, coarsen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.function.applying.applied import AppliedStatements
from tiramisu_py.program.loops import Combine
from tiramisu_py.schedule.devices.tag_gpu import Coarsen, GpuTile, TagGpu


class GpuCommands(AppliedStatements):
    """How the loops of a computation run on a GPU."""

    def tag_gpu(
        self,
        blocks: Sequence[Iter] = (),
        threads: Sequence[Iter] = (),
        stream: int = 0,
        *,
        device: int = 0,
        grid: int | None = None,
        minimum_blocks: int | None = None,
        combine: Combine | None = None,
        across: Combine | None = None,
        barriers: bool = True,
    ) -> Self:
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
        are combined: ``combine=tm.TREE`` or ``tm.ATOMIC``. In a tree are the threads that add to one element; along
        other thread loops each has a tree of its own (a warp a row). Without other blocks that add to it, the kernel
        may use the result: of ``tm.SHARED`` memory, or in each thread's own ``tm.REGISTER``. The results of several
        blocks are added atomically, or with ``across=tm.TWO_PASS`` stored, and combined by a second kernel, the same
        way in each call: as values ``C_blocks`` of a reduction ``C``, made by `rfactor`. With ``across=tm.LAST_BLOCK``
        the block that ends last combines them, in the same kernel, and runs what is ordered after ``C.update`` at a
        block loop over values (``once``, of one iteration, if there is none). Barriers between threads are placed where
        dependences need them, unless ``barriers=False``. A statement without loops (the start of a sum of everything)
        is run by a single thread: ``total.init.tag_gpu()``, or together with the rest of its computation. A second call
        replaces the first. A block has at most 1,024 threads (64 of them along z) and 48 KiB of shared memory, or what
        `Function.gpu_target` says; if it would need more, the command or the proof says how many.

        A bundle of loops over values (see `coalesce`) that is split runs on blocks and threads by both its names,
        ``tag_gpu(blocks=[j0], threads=[j1])``: each iteration has a thread, or with `grid` each thread has those that
        are as many apart as there are threads. Iterations then share no memory of a block, and no barrier.
        Source: TIRAMISU, ``computation::tag_gpu_level``.
        """
        command = TagGpu(
            self._named, blocks=blocks, threads=threads, stream=stream, device=device, grid=grid,
            minimum_blocks=minimum_blocks, combine=combine, across=across, barriers=barriers,
        )  # fmt: skip
        self._apply(command)
        return self

    def gpu_tile(
        self,
        *arguments: Iter | int,
        stream: int = 0,
        device: int = 0,
        grid: int | None = None,
        minimum_blocks: int | None = None,
        combine: Combine | None = None,
        across: Combine | None = None,
        barriers: bool = True,
    ) -> Self:
        """Tile two or three loops, and run the tiles on blocks and the iterations inside on threads.

        ::

            for i in 0..N:          -->   for i0, j0 on blocks:
                for j in 0..M:                for i1, j1 on threads:
                    S[i, j]                       S[16*i0 + i1, 16*j0 + j1]   (gpu_tile(i, j, 16, 16, i0, j0, i1, j1))

        The same as `tile` followed by `tag_gpu`, whose options it takes.
        """
        command = GpuTile(
            self._named, arguments, stream=stream, device=device, grid=grid,
            minimum_blocks=minimum_blocks, combine=combine, across=across, barriers=barriers,
        )  # fmt: skip
        self._apply(command)
        return self

    def coarsen(self, loop: Iter, factor: int, inner: Iter) -> Self:
        """Give each thread (or each block) `factor` iterations of its loop, in a sequential loop inside.

        ::

            for c1 in 0..64 on threads:   -->   for c1 in 0..16 on threads:
                S[c1]                               for k in 0..4:
                                                        S[c1 + 16*k]      (coarsen(c1, 4, k))

        The iterations of a thread are a stride apart, so that neighbouring threads still access neighbouring elements;
        those of a block are adjacent. The loop keeps its name and its tag. Coarsen before `cache_shared`: if a copy is
        already inside the loop, each of the `factor` iterations would fill only a part of it.
        """
        self._apply(Coarsen(self._named, loop, factor, inner))
        return self
