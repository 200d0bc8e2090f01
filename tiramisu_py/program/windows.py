"""Blocks whose bounds are known at run time: what one rank does, and what it and its neighbours do.

Each rank has the numbers from `lower` up to `upper`, two parameters of which it has values of its own. `own` is the
program of one rank: an ordinary one, in which statements in a rank's block run there only. All conditions of the theorem
are proven of it, except those about messages: they need the other end.

`window` is the program of three ranks in a row, numbered -1, 0 and 1 from the middle one: b0 <= lower <= upper <= b1 are
the bounds of their blocks, of which the outer two are parameters more. Only messages to and from the middle are in it;
what the neighbours tell others is in the window of another rank. An instance has the number of its rank and the bounds
of its block as further dimensions,

    {[x, q, l, u] : q = -1, l = b0, u = lower;  or  q = 0, l = lower, u = upper;  or  q = 1, l = upper, u = b1}

and what it says of `lower` and `upper` is said of l and u. A neighbour exists where the middle's block does not reach
the end of the numbers.
"""

from __future__ import annotations

from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.affine import Affine
from tiramisu_py.algorithm.declarations import Algorithm
from tiramisu_py.program.distribution import Blocks
from tiramisu_py.program.loops import Loop, Rank, RankBlock
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement

#: The ranks of a window.
BELOW, MIDDLE, ABOVE = -1, 0, 1


# -- one rank


def own(program: Program) -> Program:
    """What one rank does: its blocks are wide enough for its messages, and it runs the iterations of its block."""
    blocks = program.blocks
    if blocks is None or program.is_spread:
        return program
    changed = program.with_(is_spread=True, blocks=replace(blocks, least=max(blocks.least, least(program))))
    for statement in program.statements.values():
        changed = changed.with_statement(_inside(program, blocks, statement))
    algorithm = program.algorithm
    return changed.with_(narrowed=algorithm.context.intersect(_own_context(changed.blocks, algorithm)).coalesce())


def _inside(program: Program, blocks: Blocks, statement: Statement) -> Statement:
    """A statement with those of its instances that are in the rank's block."""
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
    return _both(form.ge_set(lower), form.lt_set(upper))


def _both(*parts: isl.Set | isl.BasicSet) -> isl.Set:
    found = sets.as_set(parts[0])
    for part in parts[1:]:
        found = found.intersect(sets.as_set(part))
    return found


def _own_context(blocks: Blocks | None, algorithm: Algorithm) -> isl.Set:
    """The bounds that a rank can have: all numbers, or a part that is wide enough, and leaves enough to others."""
    assert blocks is not None
    bounds = _Bounds(blocks, sets.sized_frame(algorithm.param_space, None, 0))
    inside = _both(bounds.zero.le_set(bounds.lower), bounds.lower.le_set(bounds.upper), bounds.within(bounds.upper))
    several = bounds.wide(bounds.lower, bounds.upper)
    several = several.intersect(bounds.first.union(bounds.wide(bounds.zero, bounds.lower)))
    several = several.intersect(bounds.last.union(bounds.wide(bounds.upper, bounds.extent)))
    return inside.intersect(several.union(bounds.first.intersect(bounds.last))).params().coalesce()


class _Bounds:
    """The bounds of blocks as forms on a frame."""

    def __init__(self, blocks: Blocks, space: isl.Space) -> None:
        self.blocks = blocks
        self.space = space
        self.zero = sets.constant(space, 0)
        self.lower = sets.parameter(space, blocks.lower)
        self.upper = sets.parameter(space, blocks.upper)
        self.extent = Affine(space, {}).single(blocks.extent)

    def within(self, upper: isl.Aff) -> isl.Set:
        """Where a bound does not exceed the numbers there are."""
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


def held(program: Program, source: str, values: isl.Set) -> isl.Set:
    """Those of the values of a source that are in the rank's own array of the caller."""
    distribution, blocks = program.distributions.get(source), program.blocks
    dim = None if distribution is None else distribution.in_blocks
    if dim is None or blocks is None:
        return values
    return values.intersect(in_block(blocks, _element(program, source, values, dim)))


def _element(program: Program, source: str, values: isl.Set, dim: int) -> isl.Aff:
    """One index of the element that a value is kept in."""
    index = sets.from_frame(program.storages[source].index, values.get_space())
    return sets.outputs(index)[dim]


def in_any_block(program: Program, source: str, values: isl.Set) -> isl.Set:
    """Those of the values of a source that are in the array of some rank."""
    distribution, blocks = program.distributions.get(source), program.blocks
    dim = None if distribution is None else distribution.in_blocks
    if dim is None or blocks is None:
        return values
    form = _element(program, source, values, dim)
    zero, extent = sets.constant(values.get_space(), 0), Affine(values.get_space(), {}).single(blocks.extent)
    return values.intersect(_both(form.ge_set(zero), form.lt_set(extent)))


def own_elements(program: Program, elements: isl.Set, dim: int) -> isl.Set:
    """Those of an array's elements that are in the rank's block."""
    assert program.blocks is not None
    return elements.intersect(in_block(program.blocks, sets.variables(elements.get_space())[dim]))


# -- how wide blocks are at least


def least(program: Program) -> int:
    """How many numbers a block must have for each value of a message to be in the sender's block: 1 at least.

    The farthest that a message reaches into a block, from its end at the other rank; where that has no constant bound,
    the proof may need ``assume=`` to say more.
    """
    return max([1, *(_reach(program, half) for half in program.statements.values() if half.message is not None)])


def _reach(program: Program, half: Statement) -> int:
    blocks, message, dim = program.blocks, half.message, block_dim(program, half.source)
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
    """The index of a source's values that tells which rank computes, or is given, a value; None for no single one."""
    distribution = program.distributions.get(source)
    if distribution is not None and source in program.algorithm.inputs:
        return distribution.in_blocks
    for statement in program.statements_of(source):
        depth = block_depth(program, statement)
        if depth is not None:
            form, values = sets.outputs(statement.coords)[depth], sets.outputs(program.value_of(statement))
            return next((dim for dim, value in enumerate(values) if value.plain_is_equal(form)), None)
    return None


# -- three ranks


def window(program: Program) -> Program:
    """The messages of one rank, and what it and its neighbours do about them; `program` is what `own` made."""
    blocks = program.blocks
    assert blocks is not None
    names = outer_names(program.algorithm, blocks)
    params = (*program.algorithm.params, *names)
    algorithm = replace(program.algorithm, params=params)
    frame = sets.sized_frame(algorithm.param_space, None, 0)
    bounds = _Bounds(blocks, frame)
    outer = (sets.parameter(frame, names[0]), sets.parameter(frame, names[1]))
    context = program.context.intersect(_window_context(bounds, *outer)).coalesce()
    algorithm = replace(algorithm, context=context)
    changed = program.with_(
        algorithm=algorithm, narrowed=context, rank_axes=1, ranks=_numbers(algorithm, blocks), blocks=None,
        window=(*blocks.bounds, *names),
    )  # fmt: skip
    for statement in program.statements.values():
        loop = Loop(changed.next_loop(), "rank", Rank())
        changed = changed.with_loop(loop).with_statement(_on_three(statement, blocks, names, algorithm, loop))
    return changed


def outer_names(algorithm: Algorithm, blocks: Blocks) -> tuple[str, str]:
    """Names for where the block below begins, and where the block above ends."""
    below, above = f"{blocks.lower}_below", f"{blocks.upper}_above"
    while below in algorithm.params or above in algorithm.params:
        below, above = f"{below}_", f"{above}_"
    return below, above


def _window_context(bounds: _Bounds, below: isl.Aff, above: isl.Aff) -> isl.Set:
    """What is known of the outer bounds: that neighbours, where they exist, have blocks that are wide enough."""
    no_lower = bounds.first.intersect(sets.as_set(below.eq_set(bounds.zero)))
    lower = _both(bounds.zero.le_set(below), bounds.wide(below, bounds.lower)).subtract(bounds.first)
    no_upper = bounds.last.intersect(sets.as_set(above.eq_set(bounds.extent)))
    upper = _both(bounds.within(above), bounds.wide(bounds.upper, above)).subtract(bounds.last)
    return no_lower.union(lower).intersect(no_upper.union(upper)).params()


def _numbers(algorithm: Algorithm, blocks: Blocks) -> isl.Set:
    """The ranks that exist: the middle, and its neighbours where its block does not reach the end."""
    space = sets.sized_frame(algorithm.param_space, None, 1)
    bounds, q = _Bounds(blocks, space), sets.variables(space)[0]

    def number(value: int) -> isl.Set:
        return sets.as_set(q.eq_set(sets.constant(space, value)))

    below = number(BELOW).subtract(bounds.first)
    above = number(ABOVE).subtract(bounds.last)
    return number(MIDDLE).union(below).union(above).intersect_params(algorithm.context.params())


def _on_three(
    statement: Statement, blocks: Blocks, outer: tuple[str, str], algorithm: Algorithm, loop: Loop
) -> Statement:
    """A half of an exchange, or a wait, on three ranks: of halves, the messages to and from the middle.

    Others, about which neighbours do not care, are on the middle rank alone.
    """
    count = len(statement.dims)
    dims = (*statement.dims, "rank", blocks.lower, blocks.upper)
    frame = algorithm.frame(statement.name, tuple(f"d{k}" for k in range(count + 3)))
    forms = sets.variables(frame)
    q, low, high = forms[count:]
    instances = _moved(statement.instances, blocks, frame, count)
    instances = instances.intersect(_bounds_of_rank(frame, q, low, high, blocks, outer))
    instances = instances.intersect(sets.preimage(_numbers(algorithm, blocks), sets.function(frame, None, [q])))

    def moved(of: isl.MultiAff) -> list[isl.Aff]:
        return [sets.replaced(aff, frame, {blocks.lower: low, blocks.upper: high}) for aff in sets.outputs(of)]

    message, at_middle = statement.message, sets.as_set(q.eq_set(sets.constant(frame, MIDDLE)))
    if message is None and statement.role is not Role.WAIT:
        instances = instances.intersect(at_middle)
    if message is not None:
        peer = [q.add(form) for form in moved(message.peer)]
        to_middle = sets.as_set(peer[0].eq_set(sets.constant(frame, MIDDLE)))
        instances = instances.intersect(at_middle.union(to_middle))
        slots = None if message.slots is None else sets.function(frame, None, moved(message.slots))
        message = replace(message, peer=sets.function(frame, None, peer), is_relative=False, slots=slots)
    target = statement.point.get_space().get_tuple_name(isl.dim_type.out)
    return replace(
        statement,
        dims=dims,
        instances=sets.with_dims(instances.coalesce(), tuple(f"d{k}" for k in range(count + 3))),
        point=sets.function(frame, target, moved(statement.point)),
        loops=(*statement.loops, loop.id),
        coords=sets.function(frame, None, [*moved(statement.coords), q]),
        message=message,
    )


def _moved(instances: isl.Set, blocks: Blocks, frame: isl.Space, count: int) -> isl.Set:
    """Instances with the bounds of the rank's block as their last two dimensions, in place of the parameters."""
    found = sets.param_as_last_dim(sets.param_as_last_dim(instances, blocks.lower), blocks.upper)
    found = sets.with_inserted_dim(found, count)
    return sets.named(found.align_params(frame.params()), sets.tuple_name(frame))


def _bounds_of_rank(
    frame: isl.Space, q: isl.Aff, low: isl.Aff, high: isl.Aff, blocks: Blocks, outer: tuple[str, str]
) -> isl.Set:
    b0, b1, b2, b3 = (sets.parameter(frame, n) for n in (outer[0], blocks.lower, blocks.upper, outer[1]))
    found = sets.empty(frame)
    for number, lower, upper in ((BELOW, b0, b1), (MIDDLE, b1, b2), (ABOVE, b2, b3)):
        here = q.eq_set(sets.constant(frame, number))
        found = found.union(_both(here, low.eq_set(lower), high.eq_set(upper)))
    return found
