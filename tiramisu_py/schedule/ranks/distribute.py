"""Commands that say on which ranks loops run, and which ranks hold the caller's arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, replace
from typing import Self

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation, value_names
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Binary, Const, Expr, Iter, as_expr
from tiramisu_py.errors import CommandError
from tiramisu_py.program.loops import Combine, LoopId, Rank
from tiramisu_py.program.machine.distribution import Dealt, Distribution, Pieces, Spread
from tiramisu_py.program.program import Program, adds_up
from tiramisu_py.program.ranks.combined_reductions import not_combined
from tiramisu_py.program.ranks.spread import axes
from tiramisu_py.program.ranks.told_ranks import told_ranks
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Memory
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import listed, loop_name, loops_named, size
from tiramisu_py.schedule.command_fields import Named, OnFunction, OnStatements
from tiramisu_py.schedule.loops.tags import tagged
from tiramisu_py.schedule.ranks import declare_blocks as run_time_blocks
from tiramisu_py.schedule.ranks.uneven_distribution import Cut, cut_up


def tag_distribute(
    program: Program,
    names: Sequence[str],
    loops: Sequence[str],
    first: int,
    local: bool,
    combine: Combine | None,
    command: str,
) -> Program:
    """Run loops on ranks: the first along axis `first` of the process grid, the second along the next axis, and so on.

    A rank keeps its part of the values (`local`), or all of them.
    """
    _check_no_bounds(program, f"give tag_distribute one loop, and bounds=({_bounds(program)})")
    twice = [name for name in loops if loops.count(name) > 1]
    if twice:
        raise CommandError(f"loop {twice[0]} is named twice: a loop runs along one axis of the process grid")
    for number, name in enumerate(loops, start=first):
        found = [loop for _, loop in loops_named(program, names, name)]
        _check_combined(program, found, name, combine)
        for loop in found:
            program = tagged(program, loop, Rank(number, local, combine), command)
    check_axes(program)
    return program


def _bounds(program: Program) -> str:
    return ", ".join(told_ranks(program).bounds)


def _check_no_bounds(program: Program, advice: str) -> None:
    """Refuse constant ranks beside blocks with bounds that are known at run time."""
    if bounds := _bounds(program):
        raise CommandError(f"ranks have blocks already, with the bounds {bounds}: {advice}")


def _check_combined(program: Program, loops: Sequence[LoopId], name: str, combine: Combine | None) -> None:
    """Refuse `combine` where no reduction runs over the loop, or where MPI lacks the operator."""
    if combine is None:
        return
    over = [s for loop in loops for s in program.with_this_loop(loop) if _reduces_over(program, s, loop)]
    if not over:
        raise CommandError(f"combine=tm.{combine.name}: no reduction runs over loop {name}; leave combine= out")
    if combine not in (Combine.PRIVATE, Combine.TREE):
        raise CommandError(
            f"combine=tm.{combine.name}: ranks share no memory, so each collects its own partial results of "
            f"{over[0].source}: use combine=tm.PRIVATE, or tm.TREE"
        )
    for statement in over:
        source = program.algorithm.source(statement.source)
        fault = not_combined(source, combine is Combine.TREE) if isinstance(source, Computation) else ""
        if fault:
            raise CommandError(f"combine=tm.{combine.name}: {fault}")


def _reduces_over(program: Program, statement: Statement, loop: LoopId) -> bool:
    """Whether different iterations of a loop combine terms of one value, or it has a single iteration."""
    if statement.role is not Role.UPDATE:
        return False
    iterations = sets.as_set(sets.component(statement.coords_map, statement.depth(loop)).range())
    return adds_up(program, statement, loop) or bool(iterations.is_singleton())


def grid(program: Program, extents: Sequence[object]) -> Program:
    """Declare the process grid: how many ranks there are along each of its axes."""
    if not extents:
        raise CommandError("grid needs the number of ranks along each axis: grid(4), or grid(2, P)")
    _check_no_bounds(program, "there are as many ranks as the function is called with")
    program = program.with_(ranks=replace(program.ranks, grid=tuple(_extent(program, given) for given in extents)))
    check_axes(program)
    for source, distribution in program.ranks.distributions.items():
        for axis, spread in enumerate(distribution.axes):
            _check_fits(program, source, axis, spread)
    return program


def _extent(program: Program, given: object) -> Expr:
    """The number of ranks along an axis: at least 1, constant or affine in the parameters."""
    if not isinstance(given, Expr):
        return as_expr(size(given, "the number of ranks along an axis"))
    space = program.algorithm.frame(None, ())
    try:
        form = Affine(space, {}).single(given)
    except NotAffine:
        raise CommandError(
            f"the number of ranks {given} is neither an integer nor affine in the parameters "
            f"({', '.join(program.algorithm.params) or 'there are none'})"
        ) from None
    none = sets.as_set(form.to_pw_aff().lt_set(sets.constant(space, 1).to_pw_aff()))
    if not none.intersect_params(program.context.params()).is_empty():
        raise CommandError(f"there may be no rank along an axis: declare the function with assume={f'{given} >= 1'!r}")
    return given


def check_axes(program: Program) -> None:
    """Refuse loops, arrays of the caller and messages that disagree on the number of axes of the process grid."""
    if told_ranks(program).unnumbered:
        return
    count = axes(program)
    if program.ranks.grid and count > len(program.ranks.grid):
        has = f"the process grid ({', '.join(map(str, program.ranks.grid))}) has {_axes(len(program.ranks.grid))}"
        for loop in program.loops.values():
            if isinstance(loop.tag, Rank) and loop.tag.axis >= len(program.ranks.grid):
                raise CommandError(f"loop {loop.name} runs along axis {loop.tag.axis} ({loop.tagged_by}), but {has}")
        count = len(program.ranks.grid)
    for source, distribution in program.ranks.distributions.items():
        if len(distribution.axes) != count:
            raise CommandError(
                f"{source} is distributed along {_axes(len(distribution.axes))}, but the process grid has "
                f"{_axes(count)}: give {source}.distribute_array(..., rank=(...)) one entry for each (None: the same "
                "on all ranks along it)"
            )
    for statement in program.acting:
        if statement.link.message is not None and sets.out_size(sets.graph(statement.link.message.peer)) != count:
            named = sets.out_size(sets.graph(statement.link.message.peer))
            raise CommandError(
                f"{statement.handle} names a rank by {named} coordinate{'' if named == 1 else 's'}, but the process "
                f"grid has {_axes(count)}: declare it with {program.algorithm.name}.grid(...), or tag all loops with "
                "tag_distribute, before create_exchange"
            )


def _axes(count: int) -> str:
    return f"{count} ax{'is' if count == 1 else 'es'}"


# -- arrays of the caller


def distribute(program: Program, source: str, iterators: object, rank: object) -> Program:
    """Let the ranks hold an input or an output in parts: the element ``[iterators]`` on the rank given by `rank`."""
    _check_callers(program, source)
    names = [loop_name(iterator, "an iterator") for iterator in listed(iterators, "the list of iterators")]
    if len(set(names)) < len(names):
        raise CommandError(f"an iterator is named twice: {', '.join(names)}")
    dims = len(value_names(program.algorithm.source(source)))
    if len(names) != dims:
        raise CommandError(
            f"{source} has {dims} dimension{'' if dims == 1 else 's'}, and {len(names)} "
            f"iterator{' is' if len(names) == 1 else 's are'} named: name one for each dimension"
        )
    along = list(rank) if isinstance(rank, tuple | list) else [rank]
    if not along:
        raise CommandError("rank=() names no axis of the process grid: give an entry for each, None for all ranks")
    at = {name: dim for dim, name in enumerate(names)}
    spreads = tuple(cut_up(program, given, at) if isinstance(given, Cut) else _spread(given, at) for given in along)
    if any(spread is not None for spread in spreads):
        advice = f"give distribute a dimension as rank=, and bounds=({_bounds(program)})"
        _check_no_bounds(program, advice)
    dealt = [spread.dim for spread in spreads if isinstance(spread, Dealt | Pieces)]
    for dim in dealt:
        if dealt.count(dim) > 1:
            raise CommandError(
                f"rank={rank}: {names[dim]} is dealt out along two axes of the process grid: deal it out along one, "
                "and give None for the other"
            )
    for axis, spread in enumerate(spreads):
        _check_fits(program, source, axis, spread)
    same = [s.source for s in program.storages_in(program.storages[source].buffer) if _is_callers(program, s.source)]
    held = dict.fromkeys(same, Distribution(spreads))
    program = program.with_(ranks=replace(program.ranks, distributions={**program.ranks.distributions, **held}))
    check_axes(program)
    return program


def held_alike(program: Program) -> Program:
    """The program in which an output stored over a distributed input is distributed like the input.

    Refuses arrays of the caller that cannot be distributed: in the memory of a GPU, or with their own layout.
    """
    for source in list(program.ranks.distributions):
        _check_plain(program, source)
        for storage in program.storages_in(program.storages[source].buffer):
            other = storage.source
            if not _is_callers(program, other) or other == source:
                continue
            if (
                program.ranks.distributions.get(other, program.ranks.distributions[source])
                != program.ranks.distributions[source]
            ):
                raise CommandError(f"{source} and {other} are one array of the caller: distribute them alike")
            program = program.with_(
                ranks=replace(
                    program.ranks,
                    distributions={**program.ranks.distributions, other: program.ranks.distributions[source]},
                )
            )
    return program


def _is_callers(program: Program, source: str) -> bool:
    return source in program.algorithm.inputs or source in program.algorithm.outputs


def _check_callers(program: Program, source: str) -> None:
    """Refuse a source that is not an array of the caller in host memory."""
    if _is_callers(program, source):
        _check_plain(program, source)
        return
    name = program.algorithm.name
    slices = [output for output in program.algorithm.outputs if output == f"{source}_out"]
    hint = f'; what {name} returns is {slices[0]}: {name}["{slices[0]}"].distribute_array(...)' if slices else ""
    raise CommandError(
        f"{source} is a temporary, neither an input nor an output: its values are held by the ranks that compute them; "
        f"say which with {source}.tag_distribute{hint}"
    )


def _check_plain(program: Program, source: str) -> None:
    storage = program.storages[source]
    buffer = program.buffers[storage.buffer]
    if buffer.memory is Memory.GPU:
        raise CommandError(f"{source} is in the memory of a GPU: ranks hold parts of arrays in host memory")
    if not sets.is_identity(storage.index):
        raise CommandError(
            f"{source} has a layout of its own (store_in): ranks hold parts of an array at its plain indices"
        )


def _spread(given: object, at: Mapping[str, int]) -> Spread:
    """The distribution along one axis: ``r // B``, ``(r // B) % P``, a rank's coordinate, or None for all ranks."""
    if given is None or (isinstance(given, int) and not isinstance(given, bool) and given >= 0):
        return given
    if isinstance(given, Iter) and given.name in at:
        return Dealt(at[given.name], 1)
    if isinstance(given, Binary) and given.op == "//":
        block = _size(given.right)
        if isinstance(given.left, Iter) and given.left.name in at and block is not None:
            return Dealt(at[given.left.name], block)
    if isinstance(given, Binary) and given.op == "%":
        inner, cycle = _spread(given.left, at), _size(given.right)
        if isinstance(inner, Dealt) and inner.cycle is None and cycle is not None:
            return Dealt(inner.dim, inner.block, cycle)
    raise CommandError(
        f"rank={given}: give blocks (r // B, with a number B), blocks that go round ((r // B) % P, with numbers), "
        "pieces (tm.pieces(r, [H])), the coordinate of one rank, or None for all; on a grid of several axes a tuple "
        f"with one of these for each; the iterators are {', '.join(at)}; for blocks whose size is known at run time "
        "only there is Function.blocks"
    )


def _size(given: Expr) -> int | None:
    whole = isinstance(given, Const) and isinstance(given.value, int) and given.value > 0
    return int(given.value) if whole else None  # type: ignore[attr-defined]


def _check_fits(program: Program, source: str, axis: int, spread: Spread) -> None:
    """Refuse a rank beyond a declared grid of constant extents."""
    extent = _size(program.ranks.grid[axis]) if axis < len(program.ranks.grid) else None
    if extent is None:
        return
    cycle = spread.cycle if isinstance(spread, Dealt) else None
    last = spread if isinstance(spread, int) else max(spread.ranks) if isinstance(spread, Pieces) else -1
    if last >= extent:
        raise CommandError(
            f"{source} is held by rank {last} along axis {axis}, but the process grid has ranks 0 to {extent - 1}"
        )
    if cycle is not None and cycle > extent:
        raise CommandError(
            f"{source} is dealt out to {cycle} ranks along axis {axis}, but the process grid has {extent} there"
        )


# -- the commands as values


@dataclass(frozen=True, eq=False)
class TagDistribute(OnStatements):
    """Run the iterations of a loop on ranks: iteration q on rank q; several loops run on a process grid.

    ::

        for q in 0..P:          -->   on rank q:
            for r1 in 0..B:               for r1 in 0..B:
                S[B*q + r1]                   S[B*q + r1]      (tag_distribute(q))

    The first loop is along axis 0 of the grid, the second along axis 1; a single one may be along another `axis`.
    Ranks are numbered row by row: on a grid of 2 x 3, rank 4 has the coordinates (1, 1). The loop may be anywhere
    in the nest, outside of loops that run on threads or on a GPU. A statement without a loop along an axis is
    executed by every rank along it. A rank keeps its own part of the stored values; with ``drop_rank_iter=False``
    it keeps arrays in full, at their global indices. Over the loop of a reduction, ``combine=tm.PRIVATE`` lets each
    rank add up its own terms; at the end of the loop all ranks along its axis combine them (MPI_Allreduce, in an
    order chosen by MPI; with ``combine=tm.TREE`` by halves of their numbers). Each rank runs the start of the
    reduction, and has its value in the end. `combine` cannot be used with `bounds`. The grid is as large as the
    loops need, or as `Function.grid` declares it. With ``bounds=(lo, hi)``, parameters that `Function.blocks`
    declared, a rank runs the iterations from lo up to hi, one after another; the bounds differ by rank, and are
    known at run time. Source: TIRAMISU, ``tag_distribute_level``.
    """

    many = "loops"

    loops: tuple[Iter, ...]
    _: KW_ONLY
    axis: int | None = None
    drop_rank_iter: bool = True
    combine: Combine | None = None
    bounds: object = None

    @classmethod
    def called(
        cls,
        of: Named,
        *loops: Iter,
        axis: int | None = None,
        drop_rank_iter: bool = True,
        combine: Combine | None = None,
        bounds: object = None,
    ) -> Self:
        return cls(of, loops, axis=axis, drop_rank_iter=drop_rank_iter, combine=combine, bounds=bounds)

    def applied(self, program: Program) -> Program:
        names, loops, local = self.names(program), [loop_name(loop) for loop in self.loops], self.drop_rank_iter
        if self.bounds is not None:
            if self.combine is not None:
                raise CommandError("combine= with bounds=: ranks combine no partial results over blocks with bounds")
            return run_time_blocks.tag_distribute(program, names, loops, self.bounds, self.text)
        if not loops:
            raise CommandError("tag_distribute needs a loop")
        if self.axis is not None and len(loops) > 1:
            words = "several are along axes 0, 1, ... in the order they are named"
            raise CommandError(f"axis= is for a single loop: {words}")
        if not isinstance(local, bool):
            raise CommandError(f"drop_rank_iter={local!r}: give True (a rank keeps its own part) or False (all of it)")
        if not isinstance(self.combine, Combine | None):
            raise CommandError(f"combine={self.combine!r}: choose tm.PRIVATE or tm.TREE, for the loop of a reduction")
        axis = 0 if self.axis is None else size(self.axis, "axis", 0)
        return tag_distribute(program, names, loops, axis, local, self.combine, self.text)


@dataclass(frozen=True, eq=False)
class Distribute(OnStatements):
    """Let each rank hold a part of the array: the element at ``[iterators]`` is on rank `rank`.

    A second call replaces the first.

    ::

        on each rank: image[r, c]     -->     on rank q: image[r, c] where r // B == q

        image.distribute_array([r, c], rank=r // B)           rows r with r // B == q on rank q (blocks)
        image.distribute_array([r, c], rank=(r // B) % P)     blocks of B rows, dealt out to P ranks in turn
        image.distribute_array([r, c], rank=tm.pieces(r, [H]))    rows below H on rank 0, others on rank 1
        image.distribute_array([r, c], rank=0)                all of it on rank 0
        image.distribute_array([r, c], rank=None)             all of it on every rank, as without the command
        a.distribute_array([i, j], rank=(i // B, j // B))     tiles on a process grid
        a.distribute_array([i, j], rank=(i // B, None))       rows; the same on all ranks along the second axis
        image.distribute_array([r, c], rank=r, bounds=(lo, hi))   the rows of the rank's block (Function.blocks)

    The points at which pieces are cut may be parameters, chosen when the function is called (`tm.pieces`). On each
    rank the caller passes the part that the rank holds, without gaps, and receives its part of an output; the
    algorithm and the commands still use indices into the whole array. An output stored over an input is held like
    the input. A temporary is held where it is computed. Raises `CommandError` for anything but an input or an
    output in host memory, and if the number of entries is not the number of axes of the process grid.
    """

    verb = "distribute_array"

    spelled_out = ("rank", "bounds")

    iterators: Sequence[Iter]
    rank: object
    bounds: object = None

    def applied(self, program: Program) -> Program:
        if self.bounds is None:
            return distribute(program, self.computation, self.iterators, self.rank)
        return run_time_blocks.distribute(program, self.computation, self.iterators, self.rank, self.bounds)


@dataclass(frozen=True, eq=False)
class Grid(OnFunction):
    """Declare the process grid: the number of ranks along each axis.

    ::

        as many ranks as the loops need     -->   4 ranks in a row                       (f.grid(4))
                                            -->   2 x P ranks, numbered row by row       (f.grid(2, P))

    Numbers are constants or affine in the parameters, at least 1. Ranks are numbered row by row, so that on a grid
    of 2 x 3 rank 4 has the coordinates (1, 1). Without a declaration the grid is as large as the loops that
    `tag_distribute` runs on ranks need. The function needs at least as many ranks as the grid has; those beyond it
    do nothing. A second call replaces the first. Raises `CommandError` where loops, arrays or messages use more
    axes.
    """

    many = "extents"

    extents: tuple[Expr | int, ...]

    @classmethod
    def called(cls, function: str, *extents: Expr | int) -> Self:
        return cls(function, extents)

    def applied(self, program: Program) -> Program:
        return grid(program, self.extents)
