"""Blocks whose bounds are known at run time: the program of one rank.

Each rank has the numbers from `lower` up to `upper`, two parameters whose values differ by rank. `own` is the program
of one rank: an ordinary program, in which statements of a rank's block run only there. All conditions of the theorem
are proven of it, except those on messages, which involve the other end (see `program.ranks.block_windows`).
"""

from __future__ import annotations

from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm, Computation, Input
from tiramisu_py.algorithm.domains.affine import Affine
from tiramisu_py.algorithm.expressions import Param
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.program.loops import RankBlock
from tiramisu_py.program.machine.distribution import Blocks
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement


def own(program: Program) -> Program:
    """The program of one rank: blocks are wide enough for its messages, and it runs the iterations of its block."""
    blocks = program.ranks.blocks
    if blocks is None or program.ranks.is_spread:
        return program
    changed = program.with_(
        ranks=replace(program.ranks, is_spread=True, blocks=replace(blocks, least=max(blocks.least, least(program))))
    )
    for statement in program.statements.values():
        changed = changed.with_statement(_inside(program, blocks, statement))
    algorithm = program.algorithm
    return changed.with_(
        calls=replace(
            changed.calls,
            narrowed=algorithm.context.intersect(_own_context(changed.ranks.blocks, algorithm)).coalesce(),
        )
    )


def _inside(program: Program, blocks: Blocks, statement: Statement) -> Statement:
    """The statement restricted to the instances in the rank's block."""
    depth = block_depth(program, statement)
    if depth is None:
        return statement
    form = sets.outputs(statement.coords)[depth]
    return replace(statement, instances=statement.instances.intersect(in_block(blocks, form)))


def block_depth(program: Program, statement: Statement) -> int | None:
    """The depth of the loop of a statement that runs over a rank's block; None where it has none."""
    tags = (program.loops[loop].tag for loop in statement.loops)
    return next((depth for depth, tag in enumerate(tags) if isinstance(tag, RankBlock)), None)


def in_block(blocks: Blocks, form: isl.Aff) -> isl.Set:
    """Where a form is in the rank's own block."""
    space = form.get_domain_space()
    lower, upper = sets.parameter(space, blocks.lower), sets.parameter(space, blocks.upper)
    return both(form.ge_set(lower), form.lt_set(upper))


def both(*parts: isl.Set | isl.BasicSet) -> isl.Set:
    """The intersection of some sets."""
    found = sets.as_set(parts[0])
    for part in parts[1:]:
        found = found.intersect(sets.as_set(part))
    return found


def _own_context(blocks: Blocks | None, algorithm: Algorithm) -> isl.Set:
    """The bounds that a rank can have: all numbers, or a part that is wide enough, and leaves enough to others."""
    assert blocks is not None
    bounds = Bounds(blocks, sets.sized_frame(algorithm.param_space, None, 0))
    inside = both(bounds.zero.le_set(bounds.lower), bounds.lower.le_set(bounds.upper), bounds.within(bounds.upper))
    several = bounds.wide(bounds.lower, bounds.upper)
    several = several.intersect(bounds.first.union(bounds.wide(bounds.zero, bounds.lower)))
    several = several.intersect(bounds.last.union(bounds.wide(bounds.upper, bounds.extent)))
    return inside.intersect(several.union(bounds.first.intersect(bounds.last))).params().coalesce()


class Bounds:
    """The bounds of blocks as forms on a frame."""

    def __init__(self, blocks: Blocks, space: isl.Space) -> None:
        self.blocks = blocks
        self.space = space
        self.zero = sets.constant(space, 0)
        self.lower = sets.parameter(space, blocks.lower)
        self.upper = sets.parameter(space, blocks.upper)
        self.extent = Affine(space, {}).single(blocks.extent)

    def within(self, upper: isl.Aff) -> isl.Set:
        """Where a bound does not exceed the extent."""
        return sets.as_set(upper.le_set(self.extent))

    def wide(self, lower: isl.Aff, upper: isl.Aff) -> isl.Set:
        """Where a block has enough numbers."""
        return sets.as_set(upper.ge_set(sets.plus(lower, self.blocks.least)))

    @property
    def first(self) -> isl.Set:
        """Where the rank is the first one."""
        return sets.as_set(self.lower.le_set(self.zero))

    @property
    def last(self) -> isl.Set:
        """Where the rank is the last one that has something to do."""
        return sets.as_set(self.upper.ge_set(self.extent))


# -- declarations that use bounds


def named_by(algorithm: Algorithm, blocks: Blocks) -> tuple[str, str] | None:
    """The first input or computation of an algorithm that uses a bound, and that bound; None where none does.

    Values must be the same wherever they are computed, but bounds differ by rank.
    """
    context = algorithm.context.params()
    sources: list[Input | Computation] = [*algorithm.inputs.values(), *algorithm.computations.values()]
    for source in sources:
        expressions = [*(source.shape or ())]
        used = set[str]()
        if isinstance(source, Computation):
            expressions += [source.expr, *source.guards]
            for points in (source.domain, source.points):
                used.update(sets.involved_params(points.gist_params(context).coalesce()))
        elif source.values is not None:
            expressions += source.values
        used.update(part.name for given in expressions for part in walk(given) if isinstance(part, Param))
        found = next((bound for bound in blocks.bounds if bound in used), None)
        if found is not None:
            return source.name, found
    return None


# -- the least size of blocks


def least(program: Program) -> int:
    """The size that a block must have so that each value of a message is in the sender's block; at least 1.

    It is the farthest reach of a message into a block, from the end next to the other rank; if that has no constant
    bound, the proof may need further assumptions (``assume=``).
    """
    return max([1, *(_reach(program, half) for half in program.statements.values() if half.link.message is not None)])


def _reach(program: Program, half: Statement) -> int:
    blocks, message, dim = program.ranks.blocks, half.link.message, block_dim(program, half.source)
    peer = None if message is None else sets.outputs(message.peer)[0]
    if blocks is None or dim is None or peer is None or not sets.is_constant(peer):
        return 1
    index, lower, upper = sets.outputs(half.point)[dim], *(sets.parameter(half.frame, n) for n in blocks.bounds)
    if sets.constant_of(peer) > 0:
        form = sets.plus(index, 1).sub(upper) if half.receives else upper.sub(index)
    else:
        form = lower.sub(index) if half.receives else sets.plus(index, 1).sub(lower)
    instances = half.instances.intersect_params(_own_context(blocks, program.algorithm))
    reached = instances.apply(sets.graph(sets.function(half.frame, None, [form])))
    return 1 if reached.is_empty() else sets.largest_value(reached, 0) or 1


def block_dim(program: Program, source: str) -> int | None:
    """The value index that determines which rank computes or receives a value; None if no single one does."""
    distribution = program.ranks.distributions.get(source)
    if distribution is not None and source in program.algorithm.inputs:
        return distribution.in_blocks
    for statement in program.statements_of(source):
        depth = block_depth(program, statement)
        if depth is not None:
            form, values = sets.outputs(statement.coords)[depth], sets.outputs(program.value_of(statement))
            return next((dim for dim, value in enumerate(values) if value.plain_is_equal(form)), None)
    return None
