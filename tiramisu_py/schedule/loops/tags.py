"""Commands that say how the iterations of a loop run: parallelize, vectorize, unroll."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, replace
from numbers import Integral
from typing import Self

from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.algorithm.spellings import fresh_name, underscored
from tiramisu_py.errors import CommandError
from tiramisu_py.program.bundles import members
from tiramisu_py.program.loops import Combine, LoopId, Parallel, Tag, Unroll, Vector
from tiramisu_py.program.program import Program, nest
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import find, loop_name, loops_named, size, statements
from tiramisu_py.schedule.command_fields import Handle, Named, OnStatements
from tiramisu_py.schedule.nesting import check_nesting
from tiramisu_py.schedule.reductions.dealt_terms import in_ranges
from tiramisu_py.schedule.reductions.results_of_chunks import in_chunks

SCHEDULES = ("static", "dynamic", "guided")
WIDTHS = (2, 4, 8, 16, 32, 64)
#: The ranges of a bundle whose results are combined in a tree.
RANGES = 64
#: Ways to run the last iterations, which do not fill a vector or an unrolled tile; the first is the default.
VECTOR_REMAINDERS = ("scalar", "mask", "overlap", "pad")
UNROLL_REMAINDERS = ("loop", "specialize")
#: The remainders of vector loops that may have a version for each number of vectors.
IN_VECTORS = ("mask", "pad")


def parallelize(program: Program, names: Sequence[str], loops: Sequence[str], tag: Parallel, command: str) -> Program:
    """Deal the iterations of a loop (or of several nested ones together) out to threads."""
    found = [members(program, program.statements[name], loops[0]) for name in names if name in program.statements]
    if len(loops) == 1 and any(found):
        return _together(program, found, tag, command)
    outermost = replace(tag, collapse=len(loops))
    for statement, outer in loops_named(program, names, loops[0]):
        run = _adjacent(program, program.statements[statement.name], outer, loops)
        program = tagged(program, outer, outermost, command)
        for inner in run[1:]:
            program = tagged(program, inner, replace(tag, collapse=0), command)
    return program


def in_ranges_of_bundles(program: Program, names: Sequence[str], loops: Sequence[str]) -> tuple[Program, list[str]]:
    """The program with bundles of terms in ranges, and the names of the loops over these in their place."""
    found = [(s, run) for s in statements(program, names) if (run := members(program, s, loops[0]))]
    if len(loops) > 1 or not found:
        return program, list(loops)
    statement, run = found[0]
    if statement.role is not Role.UPDATE:
        raise CommandError(f"combine=tm.TREE: {statement.handle} is no update of a reduction; leave it out")
    taken = {name for s in program.with_this_loop(run[0]) for name in program.loop_names(s)}
    ranges = fresh_name(f"{loops[0]}_ranges", taken, underscored)
    return in_ranges(program, statement, run, RANGES, (loops[0], ranges)), [ranges]


def _together(program: Program, found: Sequence[tuple[LoopId, ...]], tag: Parallel, command: str) -> Program:
    """Deal the iterations of bundles out to threads, in ranges of consecutive ones."""
    if tag.balance is not None:
        raise CommandError(f"balance={tag.balance}: it is for one loop, and a bundle has several: leave it out")
    if tag.schedule != "static" and tag.chunk is None:
        raise CommandError(
            f'schedule="{tag.schedule}" of a bundle needs chunk=, the number of iterations that a thread takes at a '
            "time: the first one of each is found by divisions; give chunk=4096"
        )
    for run in dict.fromkeys(run for run in found if run):
        bundle = program.loops[run[0]].bundle
        assert bundle is not None
        if bundle.within:
            raise CommandError(
                f"{bundle.name} and {bundle.within} are the blocks of a bundle, for the blocks and threads of a GPU: "
                f"without the split, threads of the host take ranges of the bundle, of chunk={bundle.size} iterations"
            )
        for position, loop in enumerate(run):
            program = tagged(program, loop, replace(tag, collapse=0 if position else len(run)), command)
    return program


def _adjacent(program: Program, statement: Statement, outer: LoopId, loops: Sequence[str]) -> list[LoopId]:
    found = [outer]
    for name in loops[1:]:
        loop = find(program, statement, name)
        if loop is None or statement.depth(loop) != statement.depth(found[-1]) + 1:
            raise CommandError(
                f"parallelize takes loops that are perfectly nested: {name} is not just inside "
                f"{program.loops[found[-1]].name} ({nest(program, statement)})"
            )
        found.append(loop)
    return found


def tag_loop(program: Program, names: Sequence[str], loop: str, tag: Vector | Unroll, command: str) -> Program:
    """Run a loop in strips of lanes, or repeat its body."""
    for _, found in loops_named(program, names, loop):
        program = tagged(program, found, tag, command)
    return program


def _remainder(given: object, known: tuple[str, ...], name: str = "remainder") -> str:
    if isinstance(given, str) and given in known:
        return given
    raise CommandError(f"{name}={given!r}: choose one of {', '.join(known)}")


def _combine(given: object, *more: Combine) -> Combine | None:
    if given is None or given in (Combine.PRIVATE, Combine.ATOMIC):
        return given
    known = " or ".join(f"tm.{each.name}" for each in (Combine.PRIVATE, Combine.ATOMIC, *more))
    on_gpu = " (blocks of a GPU have others: tag_gpu)" if given in (Combine.LOCK, Combine.ORDERED) else ""
    said = f"tm.{given.name}" if isinstance(given, Combine) else repr(given)
    raise CommandError(f"combine={said}: choose {known}{on_gpu}")


def tagged(program: Program, loop: LoopId, tag: Tag, command: str) -> Program:
    """The program with a loop tagged; raises `CommandError` on a contradiction with another tag."""
    old = program.loops[loop]
    if old.tag is not None and type(old.tag) is not type(tag):
        raise CommandError(f"loop {old.name} is tagged already, by {old.tagged_by}")
    program = program.with_loop(replace(old, tag=tag, tagged_by=command))
    check_nesting(program, loop)
    return program


# -- the commands as values


@dataclass(frozen=True, eq=False)
class Parallelize(OnStatements):
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

    With `threads` at most so many share the iterations, and no more than the kernel has: a small loop is faster on
    one, ``parallelize(i, threads=1)``, and a sum with ``combine=tm.PRIVATE`` has no more partial results than threads.
    """

    many = "over"

    over: tuple[Iter, ...]
    _: KW_ONLY
    schedule: str = "static"
    chunk: int | None = None
    combine: Combine | None = None
    balance: Handle | None = None
    threads: int | None = None

    @classmethod
    def called(
        cls,
        of: Named,
        *over: Iter,
        schedule: str = "static",
        chunk: int | None = None,
        combine: Combine | None = None,
        balance: Handle | None = None,
        threads: int | None = None,
    ) -> Self:
        return cls(of, over, schedule=schedule, chunk=chunk, combine=combine, balance=balance, threads=threads)

    def applied(self, program: Program) -> Program:
        if not self.over:
            raise CommandError("parallelize needs a loop")
        if self.schedule not in SCHEDULES:
            raise CommandError(f"schedule={self.schedule!r}: choose one of {', '.join(SCHEDULES)}")
        chunk = None if self.chunk is None else size(self.chunk, "chunk")
        balance = None if self.balance is None else self._balanced(program, self.balance)
        threads = None if self.threads is None else size(self.threads, "threads")
        names, loops, combine = self.names(program), [loop_name(loop) for loop in self.over], self.combine
        if combine is Combine.TREE:
            program, loops = in_ranges_of_bundles(program, names, loops)
            (program, names), combine = in_chunks(program, names, loops, self.text), None
        tag = Parallel(self.schedule, chunk, _combine(combine, Combine.TREE), balance=balance, threads=threads)
        return parallelize(program, names, loops, tag, self.text)

    def _balanced(self, program: Program, balance: object) -> str:
        """The input by which shares are cut; raises `CommandError` if they cannot be cut by it."""
        if not isinstance(balance, Handle):
            raise CommandError(f"balance={balance!r}: give an input of {program.algorithm.name}")
        source = balance._named.source
        declared = program.algorithm.inputs.get(source)
        if declared is None:
            raise CommandError(f"balance={balance}: give an input with the number of terms before each iteration")
        if not declared.monotone or len(declared.shape) != 1:
            raise CommandError(
                f"balance={balance}: threads search {balance} for the ends of their shares, and it is not declared to "
                "have one dimension and not to decrease: declare it with monotone=True"
            )
        if declared.device is not None:
            raise CommandError(f"balance={balance}: it is in the memory of a GPU, and the host's threads search it")
        if len(self.over) > 1 or self.schedule != "static" or self.chunk is not None:
            raise CommandError(
                f"balance={balance}: each thread has one share of the iterations of one loop: leave out other loops, "
                "schedule= and chunk="
            )
        return source


@dataclass(frozen=True, eq=False)
class Vectorize(OnStatements):
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
    With ``combine=tm.PRIVATE`` and masks, the last iterations of a sum, or of another reduction whose terms are all
    that the loop computes, are one more vector of the partial results, of which the first lanes are active: loops of a
    few iterations, such as the rows of a sparse matrix, then need no scalar code. With any other remainder of such a
    loop, and inside kernels, the last iterations run one by one.

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

    loop: Iter
    width: int
    _: KW_ONLY
    combine: Combine | None = None
    remainder: str = "scalar"
    partial: str = "loop"

    def applied(self, program: Program) -> Program:
        if isinstance(self.loop, Integral) and isinstance(self.width, Iter):
            raise CommandError(f"the width comes after the loop: write vectorize({self.width}, {self.loop})")
        loop, width = loop_name(self.loop), self.width
        if not isinstance(width, Integral) or width not in WIDTHS or isinstance(width, bool):
            raise CommandError(f"the vector width of {loop} is {width!r}: choose one of {WIDTHS}")
        remainder = _remainder(self.remainder, VECTOR_REMAINDERS)
        partial = _remainder(self.partial, UNROLL_REMAINDERS, "partial")
        if partial == "specialize" and remainder not in IN_VECTORS:
            raise CommandError(
                f'partial="specialize" has a version for each number of vectors, and remainder={remainder!r} runs the '
                f"rest of a tile in another way: choose one of {', '.join(IN_VECTORS)} for remainder="
            )
        tag = Vector(int(width), _combine(self.combine), remainder, partial)
        return tag_loop(program, self.names(program), loop, tag, self.text)


@dataclass(frozen=True, eq=False)
class UnrollLoop(OnStatements):
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

    verb = "unroll"

    loop: Iter
    factor: int | None = None
    _: KW_ONLY
    remainder: str = "loop"

    def applied(self, program: Program) -> Program:
        loop = loop_name(self.loop)
        factor = None if self.factor is None else size(self.factor, f"the unrolling factor of {loop}")
        tag = Unroll(factor, _remainder(self.remainder, UNROLL_REMAINDERS))
        return tag_loop(program, self.names(program), loop, tag, self.text)
