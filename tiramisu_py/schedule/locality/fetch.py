"""Reads as values of their own: what a computation reads of a source at places that values choose, such as rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation
from tiramisu_py.algorithm.domains.domain import conjuncts
from tiramisu_py.algorithm.expressions import Access, Expr, Iter
from tiramisu_py.algorithm.traversal import accesses, mentions, rewrite, walk
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

    The new values, called `name`, have the iterators that the read depends on, in its order, after those given as
    `over`: with the run of positions, ``over=[r]``, the values of a run are fetched in its bounds. What another
    computation has fetched under this name serves both, if it is the same. With ``rows.compute_at(msg, block)`` and
    ``rows.store_in(tm.SHARED)`` the threads of a block gather the rows that they share once, where `copy` takes boxes
    whose corners are no values. The same elements are read: bits stay. `Function.evaluate` computes the values as they
    were declared. Returns the handle of the new values. Give the command before others on the computation. Raises
    `CommandError` for a source that is not read, or is read in several ways, and for what is no iterator of the
    computation.
    """

    source: Named
    name: str
    over: Sequence[Iter] = ()

    def applied(self, program: Program) -> Program:
        whole = program.algorithm.computations[self.computation]
        read = _read(whole, self.source)
        check_unscheduled(program, whole, "fetch")
        if self.name not in program.algorithm.computations:
            check_new_name(program, self.name, "the values that are fetched")
        made = _fetched(whole, read, self.name, _beside(whole, self.over))
        known = _is_known(program, made)
        if not known:
            check_new_name(program, self.name, "the values that are fetched")
        at = Access(self.name, tuple(map(Iter, made.iterators)), made.dtype, program.algorithm.owner)

        def instead(e: Expr) -> Expr | None:
            return at if isinstance(e, Access) and e.key() == read.key() else None

        changed = replace(whole, expr=rewrite(whole.expr, instead))
        order = program.loop_names([s for s in program.statements.values() if s.source == whole.name][-1])
        added = [] if known else [made]
        algorithm = program.algorithm.with_rewritten(lambda c: changed if c is whole else c, added)
        return rebuilt(added_before(program, added, whole.name), algorithm, changed, order)


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


def _is_known(program: Program, made: Computation) -> bool:
    """Whether another command has fetched these values, which have the same name: then both read the same ones."""
    known = program.algorithm.computations.get(made.name)
    is_fetched = (
        made.name in program.algorithm.rewritten and made.name not in program.algorithm.as_declared.computations
    )
    if known is None or not is_fetched or len(known.iterators) != len(made.iterators):
        return False
    names = dict(zip(known.iterators, map(Iter, made.iterators), strict=True))

    def at(e: Expr) -> Expr | None:
        return names.get(e.name) if isinstance(e, Iter) else None

    same = rewrite(known.expr, at)
    inside = [rewrite(guard, at).key() for guard in known.guards] == [guard.key() for guard in made.guards]
    return inside and same.key() == made.expr.key() and made.domain.is_subset(known.domain)


def _beside(whole: Computation, over: Sequence[Iter]) -> tuple[str, ...]:
    """The names of iterators of a computation that are given; raises `CommandError` for others."""
    for each in over:
        if not isinstance(each, Iter) or each.name not in whole.point_iterators:
            raise CommandError(f"over={each}: {whole.name} has the iterators {', '.join(whole.point_iterators)}")
    return tuple(each.name for each in over)


def _fetched(whole: Computation, read: Access, name: str, beside: tuple[str, ...]) -> Computation:
    """The values of a read, over the iterators that it depends on, and over some `beside` these."""
    found = [e.name for e in walk(read) if isinstance(e, Iter) and e.name in whole.point_iterators]
    used = [*dict.fromkeys([*beside, *found])]
    space = whole.points.get_space()
    forms = dict(zip(whole.point_iterators, sets.variables(space), strict=True))
    kept = [forms[iterator] for iterator in used]
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
