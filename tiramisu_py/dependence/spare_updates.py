"""Updates that may also run where their guards do not hold, if they then store what they have loaded.

A vector loop computes all its lanes, and stores the old element in the lanes whose guard does not hold. That changes
nothing if the element exists and has a value, no other iteration of a concurrent loop touches it meanwhile, and
whatever the term is made of can be loaded and has a result. Lanes with partial results of their own (PRIVATE) touch no
element, and keep these results.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation
from tiramisu_py.algorithm.declare.soundness import ValueSets
from tiramisu_py.algorithm.expressions import Binary, Call, Const, Expr
from tiramisu_py.algorithm.traversal import mentions, walk
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.program.loops import Combine, Parallel, Vector
from tiramisu_py.program.ordering import shared
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Memory


def may_run_anywhere(program: Program, statement: Statement) -> bool:
    """Whether an update in a vector loop may run in the iterations that its guards exclude.

    Each guard is on the terms, so that every element has been started.
    """
    computation = program.algorithm.source(statement.source)
    if statement.role is not Role.UPDATE or not statement.guards or not isinstance(computation, Computation):
        return False
    if program.meets_ranks or program.kernel_of(statement) is not None:
        return False
    tag = program.loops[statement.loops[-1]].tag if statement.loops else None
    if not isinstance(tag, Vector) or tag.combine not in (None, Combine.PRIVATE):
        return False
    if program.buffers[program.storages[statement.memory.target].buffer].memory not in (Memory.HOST, Memory.REGISTER):
        return False
    terms_only = all(mentions(guard, computation.over) for guard in statement.guards)
    if not terms_only or not _always_has_a_result(statement.body):
        return False
    return _reads_inside(program, statement, computation) and is_undisturbed(program, statement)


def _reads_inside(program: Program, statement: Statement, computation: Computation) -> bool:
    """Whether the elements that an update reads are in their arrays whether guards hold or not."""
    values = ValueSets(program.algorithm)
    points = sets.graph(statement.point, statement.instances).range().intersect_params(program.context.params())
    read = values.readings(statement.body, computation, sets.out_size(sets.graph(statement.point)))
    return all(
        reading.where(points).relation.subtract_range(values.domain(reading.access.source)).is_empty()
        for reading in read
    )


def _always_has_a_result(body: Expr) -> bool:
    """Whether an expression has a result whatever its operands are: no C function, and no division by a value."""
    for e in walk(body):
        if isinstance(e, Call) and e.extern is not None:
            return False
        if isinstance(e, Binary) and e.dtype.is_integer and e.op in ("//", "%", "<<", ">>"):
            known = e.right.value if isinstance(e.right, Const) else 0
            if not 0 < known < e.dtype.bits:
                return False
    return True


def is_undisturbed(program: Program, statement: Statement) -> bool:
    """Whether no two iterations of a concurrent loop conflict, wherever the statement's guards hold."""
    flow = Flow(MemoryAccesses(program))
    write = flow.accesses.write(statement)
    reads = [read for s in flow.accesses.sources(statement) if (read := flow.accesses.read(statement, s)) is not None]
    if write is None or any(read.buffer.dtype.is_bool and not read.buffer.argument for read in reads):
        return False  # what has no value yet may be no truth value
    for own in (write, *reads):
        others = (*flow.accesses.writers(own.home), *(flow.accesses.readers(own.home) if own.is_write else ()))
        if any(_meet(flow, own, other, _depths_of_copies(program, statement, own, other)) for other in others):
            return False
    return True


def _depths_of_copies(program: Program, update: Statement, a: MemoryAccess, b: MemoryAccess) -> set[int]:
    """The depths of loops whose iterations have copies, if two accesses are those of an update to its element."""
    home = program.storages[update.memory.target].buffer
    if not all(each.actor.statement is update and each.buffer.name == home for each in (a, b)):
        return set()
    tags = [program.loops[loop].tag for loop in update.loops]
    return {
        depth for depth, tag in enumerate(tags) if isinstance(tag, Vector | Parallel) and tag.combine is Combine.PRIVATE
    }


def _meet(flow: Flow, a: MemoryAccess, b: MemoryAccess, copied: Collection[int]) -> bool:
    """Whether two accesses touch one place in different iterations of a concurrent loop, not of those `copied`."""
    depths = [depth for depth in _concurrent(flow, a, b) if depth not in copied]
    if not depths:
        return False
    times = flow.same_place(a, b)
    times = times.apply_domain(a.prefix(depths[-1] + 1)).apply_range(b.prefix(depths[-1] + 1))
    for depth in depths:
        same = sets.equal_prefix(times, depth)
        if not (sets.less_at(same, depth).is_empty() and sets.greater_at(same, depth).is_empty()):
            return True
    return False


def _concurrent(flow: Flow, a: MemoryAccess, b: MemoryAccess) -> Iterator[int]:
    """The depths of the concurrent loops that two accesses share, inside the scope of their buffer."""
    first, second, loops = a.actor.statement, b.actor.statement, flow.accesses.program.loops
    if first is not None and second is not None:
        yield from (k for k in range(len(a.buffer.scope), shared(first, second)) if loops[first.loops[k]].is_concurrent)
