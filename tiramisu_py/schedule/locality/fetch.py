"""Reads as values of their own: what a computation reads of a source at places that values choose, such as rows."""

from __future__ import annotations

from dataclasses import replace

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation
from tiramisu_py.algorithm.domains.domain import conjuncts
from tiramisu_py.algorithm.expressions import Access, Expr, Iter
from tiramisu_py.algorithm.traversal import accesses, mentions, rewrite
from tiramisu_py.errors import CommandError
from tiramisu_py.program.program import Program
from tiramisu_py.program.rebuilding import added_before, check_unscheduled, rebuilt
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import check_new_name
from tiramisu_py.schedule.command_fields import Named, OnStatements


@dataclass(frozen=True, eq=False)
class Fetch(OnStatements):
    """Fetch what a computation reads of a source into values of their own, which it reads instead.

    ::

        for p, d, k:                               -->   for p, k: rows[p, k] = x[index[p], k]
            msg[p, d] += x[index[p], k] * w[k, d]        for p, d, k: msg[p, d] += rows[p, k] * w[k, d]
                                                                                        (msg.fetch(x, "rows"))

    The new values, called `name`, have the iterators that the read depends on. With ``rows.compute_at(msg, block)`` and
    ``rows.store_in(tm.SHARED)`` the threads of a block gather the rows that they share once, where `copy` takes boxes
    whose corners are no values. The same elements are read: bits stay. `Function.evaluate` computes the values as they
    were declared. Returns the handle of the new values. Give the command before others on the computation. Raises
    `CommandError` for a source that is not read, or is read in several ways.
    """

    source: Named
    name: str

    def applied(self, program: Program) -> Program:
        whole = program.algorithm.computations[self.computation]
        check_new_name(program, self.name, "the values that are fetched")
        read = _read(whole, self.source)
        check_unscheduled(program, whole, "fetch")
        made = _fetched(whole, read, self.name)
        at = Access(self.name, tuple(map(Iter, made.iterators)), made.dtype, program.algorithm.owner)

        def instead(e: Expr) -> Expr | None:
            return at if isinstance(e, Access) and e.key() == read.key() else None

        changed = replace(whole, expr=rewrite(whole.expr, instead))
        order = program.loop_names([s for s in program.statements.values() if s.source == whole.name][-1])
        algorithm = program.algorithm.with_rewritten(lambda c: changed if c is whole else c, [made])
        return rebuilt(added_before(program, [made], whole.name), algorithm, changed, order)


def _read(whole: Computation, source: object) -> Access:
    """The read of a source that the values of a computation have; raises `CommandError`."""
    if whole.stage is not None or whole.group:
        raise CommandError(f"{whole.name} is a call of a stage, or declared in a group: it reads its sources in place")
    name = source.source if isinstance(source, Named) else ""
    if name == whole.name and name in whole.sources:
        raise CommandError(f"{name} reads its own values, and is a recurrence: fetch what it reads of others")
    found = {read.key(): read for read in accesses(whole.expr) if read.source == name}
    if not found:
        known = ", ".join(sorted({read.source for read in accesses(whole.expr)})) or "nothing"
        raise CommandError(f"{whole.name} does not read {source}: it reads {known}")
    if len(found) > 1:
        ways = ", ".join(map(str, found.values()))
        raise CommandError(f"{whole.name} reads {name} in several ways, {ways}: let a computation of its own read one")
    (read,) = found.values()
    if not any(mentions(read, (iterator,)) for iterator in whole.point_iterators):
        raise CommandError(f"{read} is one value for all of {whole.name}: there is nothing to fetch but once")
    return read


def _fetched(whole: Computation, read: Access, name: str) -> Computation:
    """The values of a read, over the iterators that it depends on."""
    used = [iterator for iterator in whole.point_iterators if mentions(read, (iterator,))]
    axes = [k for k, iterator in enumerate(whole.point_iterators) if iterator in used]
    space = whole.points.get_space()
    kept = [form for k, form in enumerate(sets.variables(space)) if k in axes]
    points = sets.as_set(whole.points.apply(sets.graph(sets.function(space, name, kept)))).coalesce()
    others = [iterator for iterator in whole.point_iterators if iterator not in used]
    own = [part for guard in whole.guards for part in conjuncts(guard)]
    return Computation(
        name=name,
        dtype=read.dtype,
        iterators=tuple(used),
        domain=points,
        points=points,
        expr=read,
        guards=tuple(part for part in own if not mentions(part, others)),
        location=whole.location,
    )
