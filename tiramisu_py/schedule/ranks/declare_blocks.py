"""Commands that deal work out in blocks whose bounds are known at run time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Expr, Operand, Param, as_expr
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.errors import CommandError
from tiramisu_py.program.loops import Rank, RankBlock
from tiramisu_py.program.machine.distribution import Blocks, Distribution, OwnBlock
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.run_time_blocks import named_by
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import listed, loop_name, loops_named
from tiramisu_py.schedule.command_fields import OnFunction
from tiramisu_py.schedule.loops.tags import tagged
from tiramisu_py.schedule.ranks.rank_numbers import RANK


def declare_blocks(program: Program, extent: Operand, lower: object, upper: object) -> Program:
    """Give each rank a block of the numbers from 0 up to `extent`: from `lower` up to `upper`."""
    names = [_bound(program, bound) for bound in (lower, upper)]
    if names[0] == names[1]:
        raise CommandError(f"the block is empty: it begins and ends at {names[0]}")
    if program.ranks.blocks is not None and program.ranks.blocks.bounds != tuple(names):
        raise CommandError(
            f"there are blocks already, with the bounds {', '.join(program.ranks.blocks.bounds)}: one axis only"
        )
    if _has_constant_ranks(program):
        raise CommandError("ranks are constant blocks already (r // B): blocks with bounds cannot be used beside them")
    _check_extent(program.algorithm, as_expr(extent), names)
    made = Blocks(names[0], names[1], as_expr(extent))
    used = named_by(program.algorithm, made)
    if used is not None:
        raise CommandError(
            f"{used[0]} depends on {used[1]}, which differs from rank to rank: arrays and values are the same on "
            "every rank that computes them"
        )
    return program.with_(ranks=replace(program.ranks, blocks=made))


def _bound(program: Program, given: object) -> str:
    if isinstance(given, Param) and given.name in program.algorithm.params:
        return given.name
    raise CommandError(
        f"{given!r} bounds no block: give a parameter of the function (tm.params, and params=[...] of tm.Function)"
    )


def _check_extent(algorithm: Algorithm, extent: Expr, names: Sequence[str]) -> None:
    used = {part.name for part in walk(extent) if isinstance(part, Param)}
    try:
        Affine(sets.sized_frame(algorithm.param_space, None, 0), {}).single(extent)
    except NotAffine as error:
        raise CommandError(
            f"the extent of the blocks, {extent}, is not affine in the parameters: {error.part}"
        ) from None
    if used & set(names):
        raise CommandError(f"the extent of the blocks, {extent}, is the same on all ranks: it cannot depend on {names}")


def _has_constant_ranks(program: Program) -> bool:
    tagged_loops = any(isinstance(loop.tag, Rank) for loop in program.loops.values())
    return bool(
        tagged_loops or program.ranks.grid or any(d.in_blocks is None for d in program.ranks.distributions.values())
    )


def block_of(program: Program, given: object) -> Blocks:
    """The blocks that ``bounds=(lo, hi)`` names, which `declare_blocks` has declared."""
    names = tuple(_bound(program, bound) for bound in listed(given, "bounds"))
    if program.ranks.blocks is not None and program.ranks.blocks.bounds != names:
        raise CommandError(
            f"bounds=({', '.join(names)}): blocks have the bounds ({', '.join(program.ranks.blocks.bounds)})"
        )
    if program.ranks.blocks is None:
        raise CommandError(
            f"bounds=({', '.join(names)}): declare the extent of these blocks first, with Function.blocks"
        )
    return program.ranks.blocks


def tag_distribute(
    program: Program, names: Sequence[str], loops: Sequence[str], bounds: object, command: str
) -> Program:
    """Run on each rank the iterations of a loop that are in its block."""
    block_of(program, bounds)
    if len(loops) != 1:
        raise CommandError("give one loop: blocks with bounds lie along one axis of the ranks")
    for _, loop in loops_named(program, names, loops[0]):
        program = tagged(program, loop, RankBlock(), command)
    return program


def distribute(program: Program, source: str, iterators: Sequence[object], rank: object, bounds: object) -> Program:
    """Let each rank hold its block of an input or an output, along the dimension `rank`."""
    block_of(program, bounds)
    names = [loop_name(iterator, "an iterator") for iterator in listed(iterators, "the list of iterators")]
    extents = program.buffers[program.storages[source].buffer].extents
    if len(names) != len(extents) or len(set(names)) < len(names):
        raise CommandError(f"{source} has {len(extents)} dimensions: name an iterator for each of them")
    dim = loop_name(rank, "a dimension")
    if dim not in names:
        raise CommandError(f"rank={rank}: with bounds give the iterator that is dealt out, one of {', '.join(names)}")
    distribution = Distribution((OwnBlock(names.index(dim)),))
    return program.with_(
        ranks=replace(program.ranks, distributions={**program.ranks.distributions, source: distribution})
    )


def relative_peers(program: Program, dims: Sequence[str], peers: Sequence[Expr]) -> tuple[list[Expr], bool]:
    """The peers of a message, and whether they are relative to the rank itself.

    They are relative where ranks have blocks with run-time bounds: ``tm.rank + 1`` is then 1.
    """
    if program.ranks.blocks is None:
        return list(peers), False
    if len(peers) != 1:
        raise CommandError("blocks with bounds lie along one axis of the ranks: give one coordinate of the other rank")
    frame = program.algorithm.frame(None, (RANK.name,))
    try:
        away = Affine(frame).single(peers[0] - RANK)
    except NotAffine:
        away = None
    if RANK.name in dims or away is None or not sets.is_constant(away):
        raise CommandError(f"{peers[0]} is not a known neighbour: give tm.rank + 1 or tm.rank - 1")
    return [as_expr(sets.constant_of(away))], True


# -- the commands as values


@dataclass(frozen=True, eq=False)
class DeclareBlocks(OnFunction):
    """Give each rank a block of the numbers from 0 up to `extent`, whose bounds are known at run time.

    ::

        R, lo, hi = tm.params("R lo hi")
        f = tm.Function("blur", params=[R, lo, hi])
        ...
        f.blocks(R, lo, hi)
        image.distribute_array([r], rank=r, bounds=(lo, hi))      a rank holds, and is called with, image[lo..hi]
        bx.tag_distribute(r, bounds=(lo, hi))               and computes bx[lo..hi]
        down = f.create_exchange(bx[r], send=({r: (hi - 1, hi)}, hi < R), to=tm.rank + 1,
                             recv=({r: (lo - 1, lo)}, lo > 0), source=tm.rank - 1)

    `lower` and `upper` are parameters of the function, whose values differ by rank. The blocks of ranks 0, 1, ...
    follow one another and cover all numbers. Any number of ranks and any split are allowed, as long as each block
    has the numbers that messages take from it (`Blocks.least`); ranks after the last block have nothing to do.
    """

    verb = "blocks"

    extent: Operand
    lower: Param
    upper: Param

    def applied(self, program: Program) -> Program:
        return declare_blocks(program, self.extent, self.lower, self.upper)
