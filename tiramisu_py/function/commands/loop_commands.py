"""Commands on loops and their tags: split, tile, reorder, skew, parallelize, vectorize and the like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tiramisu_py.algorithm.expressions import Expr, Iter
from tiramisu_py.errors import CommandError
from tiramisu_py.function.applying.applied import AppliedStatements, Nameable, as_list
from tiramisu_py.program.loops import Combine
from tiramisu_py.schedule.command_fields import Named
from tiramisu_py.schedule.loops.coalesced_producers import Coalesce
from tiramisu_py.schedule.loops.tags import Parallelize, UnrollLoop, Vectorize
from tiramisu_py.schedule.loops.tensorize import Tensorize
from tiramisu_py.schedule.loops.transforms import Interchange, Reorder, Reverse, Shift, Split, Tile
from tiramisu_py.schedule.loops.unimodular import Skew, Transform
from tiramisu_py.schedule.loops.unroll_and_jam import UnrollAndJam
from tiramisu_py.schedule.reductions.rfactor import Rfactor

if TYPE_CHECKING:
    from tiramisu_py.function.handles.computations import Input, Reduction


class LoopCommands(AppliedStatements):
    """Commands on the loops of a computation."""

    def split(self, loop: Iter, by: int, outer: Iter, inner: Iter, *, origin: int = 0) -> Self:
        """Cut a loop into blocks of `by` iterations; the last block may be shorter.

        ::

            for i in 0..N:          -->   for i0 in 0..ceil(N / by):
                S[i]                          for i1 in 0..min(by, N - by*i0):
                                                  S[by*i0 + i1]

        Blocks start at multiples of `by` counted from `origin`: ``i0 = floor((i - origin) / by)``. Raises
        `CommandError` for a loop that does not exist or is tagged, a size below 1, or a name in use.

        A bundle of loops over values (see `coalesce`) is split for the blocks and threads of a GPU. One of loops over
        terms of a reduction becomes a smaller one, and an ordinary loop over the remainders of its numbers::

            for j = (h, x, y):      -->   for j0 = (h, x, y):
                C += e(h, x, y)               for j1 in 0..by:
                                                  if number(h, x, y) % by == j1: C += e(h, x, y)

        so that ``reorder(j1, j0)`` has a thread, or a partial result of `rfactor`, for each remainder.
        """
        self._apply(Split(self._named, loop, by, outer, inner, origin=origin))
        return self

    def tile(self, *arguments: Iter | int | Mapping[Iter, int]) -> Self:
        """Tile any number of loops: ``tile(i, j, 32, 64, i0, j0, i1, j1)``, loops, sizes, outer and inner names.

        ::

            for i in 0..N:          -->   for i0 in ..:
                for j in 0..M:                for j0 in ..:
                    S[i, j]                       for i1 in 0..32:
                                                      for j1 in 0..64:
                                                          S[32*i0 + i1, 64*j0 + j1]

        Loops and sizes may be a dict, ``tile({i: 32, j: 64}, i0, j0, i1, j1)``; without names after it, the loops are
        called i0, j0, i1 and j1.

        Source: TIRAMISU, ``computation::tile``. Raises `CommandError` as `split` does, and where the loops are not
        perfectly nested.
        """
        self._apply(Tile(self._named, arguments))
        return self

    def coalesce(self, *loops: Iter, into: Iter | None = None, producers: bool = False) -> Self:
        """Join nested loops over a box into one loop, with the same order of iterations.

        ::

            for h in 0..H:          -->   for j in 0..50*H:
                for x in 0..10:               S[j // 50, j // 5 % 10, j % 5]
                    for y in 0..5:
                        S[h, x, y]                                        (coalesce(h, x, y, into=j))

        Every statement that shares the loops is changed. Where all arrays have these dimensions one after another,
        their elements are read in one run, and nothing is divided: a sum over a whole array is one loop for
        `vectorize`, and threads share all of its iterations.

        If not only the outermost of the loops has as many iterations as a size says, they stay in the program as a
        bundle, which `parallelize`, `split`, `reorder` and `tag_gpu` take as one loop::

            for h in 0..N:          -->   for j = (h, x, y):
                for x in 0..M:                S[h, x, y]
                    for y in 0..K:
                        S[h, x, y]                                        (coalesce(h, x, y, into=j))

        Code numbers its iterations, and divides when a range of them begins. A call whose numbers would not fit 64
        bits is refused.

        With `producers`, the computations that are read point by point in these loops are joined alike, and run in the
        same iterations, outputs too; so are theirs::

            for h, for x: p[h, x] = e(h, x)     -->     for j: p[j // 10, j % 10] = e(j // 10, j % 10)
            for h, for x: C[] += p[h, x]                       C[] += p[j // 10, j % 10]

        ``p.inline()`` of one that is no output, before or after, saves its array.

        Raises `CommandError` for loops that are tagged, not directly nested, or no box, with an iteration that is
        missing. Source: Zhao et al., Panamera; OpenMP's ``collapse``, Halide's ``fuse``.
        """
        if into is None:
            names = ", ".join(map(str, loops))
            raise CommandError(f"coalesce({names}) needs a name for the loop that it makes: coalesce({names}, into=j)")
        self._apply(Coalesce(self._named, loops, into=into, producers=producers))
        return self

    def interchange(self, a: Iter, b: Iter) -> Self:
        """Swap two loops.

        ::

            for i in ..:            -->   for j in ..:
                for j in ..:                  for i in ..:
                    S[i, j]                       S[i, j]

        Tags stay with their loops. Raises `CommandError` where the loops are not perfectly nested.
        """
        self._apply(Interchange(self._named, a, b))
        return self

    def reorder(self, *order: Iter) -> Self:
        """Permute loops: the named loops are put, in the given order, at the positions that they occupy now.

        ::

            for i, for j, for k: S[i, j, k]     -- reorder(k, i, j) -->     for k, for i, for j: S[i, j, k]
        """
        self._apply(Reorder(self._named, order))
        return self

    def shift(self, loop: Iter, by: Expr | int) -> Self:
        """Run this computation `by` iterations later in a loop that it may share with others.

        ::

            for i in 0..N:          -->   for i in 0..N + 1:
                p[i]                          if i < N: p[i]
                q[i]                          if i > 0: q[i - 1]          (q.shift(i, 1))

        `by` is an integer or affine in the parameters; negative means earlier.
        """
        self._apply(Shift(self._named, loop, by))
        return self

    def skew(
        self,
        outer: Iter | Mapping[Iter, int],
        inner: Iter | Mapping[Iter, int],
        factor: int | None = None,
        new: Iter | None = None,
    ) -> Self:
        """Start the inner loop later by `factor` for each iteration of an outer one: ``inner' = inner + factor*outer``.

        ::

            for t in 0..T:          -->   for t in 0..T:
                for i in 0..N:                for i in t..N + t:
                    S[t, i]                       S[t, i - t]             (skew(t, i, 1))

        Several factors are a dict: ``skew({t: 1, i: 1}, j)`` is ``j' = j + t + i``, and ``skew(t, {i: 1, j: 1})`` skews
        both i and j. `new` renames the loop. Makes wavefronts parallel and time loops tileable; `skew_for` finds the
        factors.
        """
        self._apply(Skew(self._named, outer, inner, factor, new=new))
        return self

    def transform(
        self,
        loops: Sequence[Iter],
        matrix: Sequence[Sequence[int]] | np.ndarray[Any, Any],
        new: Sequence[Iter] | None = None,
    ) -> Self:
        """Replace loops by integer combinations of them, a row of the matrix for each new loop.

        ::

            for i in 0..N:          -->   for w in 0..N + M - 1:
                for j in 0..M:                for j in max(0, w - N + 1)..min(M, w + 1):
                    S[i, j]                       S[w - j, j]

                                    (transform([i, j], [[1, 1], [0, 1]], [w, j]): w = i + j, a wavefront)

        Interchange, reversal and skewing, and any sequence of them, are such matrices: those whose determinant is 1 or
        -1. Others are refused, since several iterations would meet, or points between would be empty. The new loops
        take the positions of the old ones, outermost first; without `new` they keep the names at these positions.
        Raises `CommandError` for loops that are tagged or not perfectly nested.
        Source: Wolf and Lam, A Loop Transformation Theory; TIRAMISU, ``computation::skew`` with four factors.
        """
        rows = matrix.tolist() if isinstance(matrix, np.ndarray) else matrix
        self._apply(Transform(self._named, as_list(loops), as_list(rows), as_list(new)))
        return self

    def reverse(self, loop: Iter) -> Self:
        """Run a loop backwards: ``i' = -i``.

        ::

            for i in 0..N: S[i]     -->   for i in -(N - 1)..1: S[-i]
        """
        self._apply(Reverse(self._named, loop))
        return self

    # -- tags

    def parallelize(
        self,
        *over: Iter,
        schedule: str = "static",
        chunk: int | None = None,
        combine: Combine | None = None,
        balance: Input | None = None,
    ) -> Self:
        """Deal the iterations of a loop out to threads; several directly nested loops are dealt out together.

        ::

            for i in 0..N:          -->   #pragma omp parallel for schedule(static)
                S[i]                      for (i = 0; i < N; i++) S[i]

        `schedule` is ``"static"``, ``"dynamic"`` or ``"guided"``, with an optional `chunk`. If a reduction runs over
        the loop, name how partial results are combined: ``combine=tm.PRIVATE``, ``tm.ATOMIC`` or ``tm.TREE``. In a tree
        each iteration, a chunk of terms, has a result of its own, ``C_chunks`` of a reduction ``C``, as `rfactor` makes
        them; they are combined in the order of the chunks, the same way on any number of threads.

        The iterations of a bundle (see `coalesce`) are dealt out in ranges of consecutive ones: one for each thread, or
        with `chunk` of so many. In a tree of its terms are 64 ranges.

        With ``"static"`` each thread runs consecutive iterations, and their numbers differ by at most one. So after
        ``split(r, 4, r0, r1); parallelize(r0)`` the rows of a thread begin at a multiple of 4, and the shares of
        threads differ by at most one block.

        With `balance` the shares have about the same number of terms, not of iterations. It is an input that does not
        decrease, such as the starts of rows: iteration i has ``start[i + 1] - start[i]`` terms (and costs as much as
        one more), and each thread searches it for the ends of its share::

            for i in 0..N:          -->   first, end = what thread t of T has: start[first] + first is about
                S[i]                      t/T of start[N] + N
                                          for i in first..end: S[i]           (parallelize(i, balance=start))

        A row is never divided. `check()` refuses a balance that has no element for an iteration or its end, that
        nothing else reads, or that the function writes.
        """
        balanced = None if balance is None else self._balance(balance)
        self._apply(Parallelize(self._named, over, schedule=schedule, chunk=chunk, combine=combine, balance=balanced))
        return self

    def _balance(self, balance: Input) -> Named:
        if not isinstance(balance, Nameable) or balance._function is not self._function:
            raise CommandError(f"balance={balance!r}: give an input of {self._function.name}")
        return balance._named

    def vectorize(
        self,
        loop: Iter,
        width: int,
        *,
        combine: Combine | None = None,
        remainder: str = "scalar",
        partial: str = "loop",
    ) -> Self:
        """Run a loop in strips of `width` lanes (2, 4, 8, 16, 32 or 64); remaining iterations run one by one.

        A second call for a loop replaces the first.

        ::

            for j in 0..N:          -->   for (j = 0; j + 8 <= N; j += 8) S[j : j + 8]
                S[j]                      for (; j < N; j++) S[j]

        Strips are cut from the loop's lower bound (with masks, along rows of a temporary that each begin at a vector,
        from the first vector after it); the iterator keeps its name. Over the loop of a reduction,
        ``combine=tm.PRIVATE`` keeps a partial result in each lane; afterwards the upper half of the lanes is combined
        with the lower half, until one is left. Inside a kernel up to 16 bytes are one load or store
        (float2, float4) where they are known to be aligned; elsewhere elements are loaded and stored one by one.

        `remainder` says how the host runs the last iterations, which do not fill a vector: ``"scalar"``, one by one;
        ``"mask"``, as an additional vector in which only the first lanes access memory; ``"overlap"``, as a vector that
        ends with the loop and repeats some iterations (one by one in loops shorter than a vector); ``"pad"``, as a
        whole vector that goes past the end::

            for j in 0..N:          -->   for (j = 0; j + 8 <= N; j += 8) S[j : j + 8]
                S[j]                      if (j < N) S[j : j + 8]                 ("mask": the first N - j lanes)
                                          if (j < N) S[N - 8 : N]                 ("overlap", where N >= 8)
                                    -->   for (j = 0; j < N; j += 8) S[j : j + 8] ("pad")

        With masks, a loop that is never longer than a few vectors, such as a tile, has no scalar code at all, and keeps
        its values in registers in partial tiles too. Overlap is refused where repeating an iteration would change a
        result: for an update in place, or a sum that began earlier. Padding is for temporaries, whose buffers grow to
        whole vectors automatically; it is refused where a lane past the end would read outside of an array (the report
        says by how much the array is too small), or would store to an array of the caller or over a value that is kept.
        With ``combine=``, and inside kernels, the last iterations run one by one whatever `remainder` is.

        On the host a lane may read what a later lane of its vector, or of a later one, replaces
        (``a[i] = a[i + 1]`` in place): a statement loads in all lanes before it stores in any. That is proven for
        reads of the same statement or of an earlier one in the loop, not with overlap.

        `partial` says how a tile of several vectors runs if it is not full. With ``"specialize"``, for masks and
        padding, there is a version without loops for each number of vectors, in which registers stay registers, and no
        vector is computed in vain::

            for j1 in 0..min(32, M - 32*j0): S  -->   if (M - 32*j0 >= 32) { S[0 : 16]; S[16 : 32]; }
                                                      else if (M - 32*j0 >= 17) { S[0 : 16]; S[16 : M - 32*j0]; }
                                                      else S[0 : M - 32*j0];
        """
        self._apply(Vectorize(self._named, loop, width, combine=combine, remainder=remainder, partial=partial))
        return self

    def unroll(self, loop: Iter, factor: int | None = None, *, remainder: str = "loop") -> Self:
        """Repeat a loop's body `factor` times, or (without a factor) for all of its iterations.

        A second call for a loop replaces the first.

        ::

            for i in 0..N: S[i]     -->   for (i = 0; i + 2 <= N; i += 2) { S[i]; S[i + 1]; }
                                          for (; i < N; i++) S[i];                      (unroll(i, 2))

        Without a factor the loop should have a constant trip count in full tiles; other tiles keep a loop. With
        ``remainder="specialize"`` there is instead a version without loops for each trip count that a tile (or the rest
        of a factor) can have, in which registers stay registers::

            for r1 in 0..min(4, R - 4*r0): S    -->   if (R - 4*r0 >= 4) { S; S; S; S; }
                                                      else if (R - 4*r0 == 3) { S; S; S; }
                                                      else if (R - 4*r0 == 2) { S; S; }
                                                      else S;

        The test is outside of the loops in which it does not change. `check()` refuses loops whose copies or versions
        would be far too much code (thousands of statements); code that is only slightly too long remains a loop.
        """
        self._apply(UnrollLoop(self._named, loop, factor, remainder=remainder))
        return self

    def tensorize(self, rows: Iter, columns: Iter, terms: Iter, instruction: str) -> Self:
        """Run three loops of a product by an instruction on small matrices: AMX of cores, or a GPU's tensor cores.

        ::

            for i in 0..16:               -->   tile of C += tile of A * tile of B
                for j in 0..16:
                    for k in 0..64:
                        C[i, j] += A[i, k] * B[k, j]          (C.update.tensorize(i, j, k, "amx"))

        The loops are the innermost ones, in any order, of as many iterations as the instruction takes: `split` makes
        them. A tile that is not full stays loops. The term is a product of two values, each converted to the type of
        the sum; one depends on the row and the term, the other on the term and the column.

        =============== ================ ============================================================================
        instruction     rows, columns,   products, and the type of their sum
                        terms
        =============== ================ ============================================================================
        "amx"           16, 16, 64 bytes uint8 and int8, in any pair, in int32; bfloat16 in float32
        "m16n8k16"      2, 2, 16         float16, bfloat16 in float32 (a GPU from compute capability 8.0 on)
        "m16n8k8"       2, 2, 8          float16 in float32 (from 7.5 on)
        "m16n8k8.tf32"  2, 2, 8          float32 in float32, with 10 bits after the point in factors (from 8.0 on)
        =============== ================ ============================================================================

        Sums of integers are exact. Those of floats give up bits, since the instruction adds terms in an order of its
        own; the report names what else is given up.

        With ``"amx"`` the sums are in memory, a row's neighbours beside each other, and stay in registers around a loop
        that adds to the same tiles. So are the terms of a row of the left factor. The right one has the terms in
        groups of 4 bytes: 4 bytes, or 2 bfloat16, of one column together::

            B.store_in(panels, [j // 16, k // 4, j % 16, k % 4])

        The processor needs AMX, as Intel's have from Sapphire Rapids on; ``compile(target="sapphirerapids")`` compiles
        for it anywhere.

        On a GPU the 32 threads of a warp run the instruction together: the block has 4 threads along x and 8 along y,
        the sums are in registers, and ``rows`` and ``columns`` are those of one thread. Thread (x, y) has the rows y
        and y + 8 of a tile of 16 by 8, and the columns 2x and 2x + 1.

        `check()` refuses loops of other lengths, loops that are not the innermost ones, and operands that do not lie as
        the instruction takes them. Raises `CommandError` for terms that are no products, and types that it does not
        have.
        """
        self._apply(Tensorize(self._named, rows, columns, terms, instruction))
        return self

    def unroll_and_jam(self, loop: Iter, factor: int, outer: Iter | None = None, inner: Iter | None = None) -> Self:
        """Repeat the body of the loops inside `loop` for `factor` of its iterations, side by side.

        ::

            for r in 0..R:          -->   for r in 0..ceil(R / 2):
                for c in 0..C:                for c in 0..C:
                    S[r, c]                       S[2*r, c]
                                                  S[2*r + 1, c]           (unroll_and_jam(r, 2))

        So the copies share their loads: eight rows of a 3 x 3 stencil need ten rows of its input, not 24. The command
        is ``split(r, 2, r, r_jam)``, with `r_jam` moved inside all other loops (a vector loop too) and unrolled there;
        `outer` and `inner` are other names for the two loops. A last, shorter block keeps a loop.

        Computations that S reads are moved into its loops afterwards, by `compute_at`, and have their own loops there:
        after ``p.compute_at(S, c)``, ``p.unroll(r)`` repeats the rows of p that the copies of S need. The start and the
        update of a reduction are jammed each in its own loops. Raises `CommandError` for a tagged loop, and for a loop
        shared by statements that do not share all loops inside of it. Source: Allen and Kennedy.
        """
        self._apply(UnrollAndJam(self._named, loop, factor, outer=outer, inner=inner))
        return self

    def rfactor(self, *loops: Iter, name: str | None = None) -> Reduction:
        """Sum the terms of a reduction to partial results, one for each iteration of some of its loops, and then these.

        ::

            for k in 0..K:                -->   for k0 in 0..ceil(K / 8):
                C[i] += e(i, k)                     for k in 8*k0..min(8*k0 + 8, K):
                                                        C_partial[i, k0] += e(i, k)
                                                for k0 in 0..ceil(K / 8):
                                                    C[i] += C_partial[i, k0]      (split(k, 8, k0, k1), rfactor(k0))

        Returns the partial results, called `name`: a reduction whose further indices are these loops, and which is
        scheduled like any other. In registers, ``partial.compute_at(C.update, j0)`` and
        ``partial.store_in(tm.REGISTER)``, they are the accumulators of a tile; with ``k0`` on threads or ranks they are
        computed side by side; with the inner loop of a split (``k mod 8``) they are several accumulators, or lanes.
        What remains of the update combines the partial results in its loops over values and those named.

        The operator is associative, and commutative where needed, so that integers and minima do not change; sums of
        floating-point numbers are rounded in another order, and the report says so. `Function.evaluate` computes the
        algorithm as it was declared. Give the command before those that move or copy what the update reads. Raises
        `CommandError` for a loop that does not run over terms, if no loop is left to sum over, for reductions declared
        ``ordered``, for an operator that does not commute unless each partial result has neighbouring terms, and for
        loops that are tagged or shared. Source: Suriana, Adams and Kamil, Halide's ``rfactor``.
        """
        command = Rfactor(self._named, loops, name=name)
        self._apply(command)
        made: Reduction = self._function[command.made()]
        return made
