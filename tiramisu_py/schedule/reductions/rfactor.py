"""rfactor: a reduction in two steps, whose first step has partial results as values of their own.

::

    C[i] = sum over k of e(i, k)      -->      C_k0[i, k0] = sum over k with floor(k / 8) = k0 of e(i, k)
                                               C[i] = sum over k0 of C_k0[i, k0]

Each term is in exactly one partial result, since the loops that are kept have one iteration for each term. So the two
definitions agree for every associative and commutative operator, and if the terms of a partial result are neighbours,
for every associative one. Floating-point sums are rounded differently. Source: Suriana,
Adams, Kamil, *Parallel associative reductions in Halide*, 2017.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, replace
from typing import Self

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation
from tiramisu_py.algorithm.domains.scatters import placed
from tiramisu_py.algorithm.expressions import Access, Expr, Iter
from tiramisu_py.algorithm.spellings import fresh_name, underscored
from tiramisu_py.algorithm.traversal import accesses, mentions, substitute
from tiramisu_py.errors import CommandError
from tiramisu_py.program.initial import with_computation
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.ordering import Order
from tiramisu_py.program.program import Program, nest
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import check_new_name, find, loop_name, statements
from tiramisu_py.schedule.command_fields import Named, OnStatements


def rfactor(
    program: Program, names: Sequence[str], loops: Sequence[str], name: str, command: str, stays: bool = False
) -> Program:
    """Sum the terms of a reduction to partial results, one for each iteration of some of its loops, and then these.

    With `stays`, the terms will be in the same nest as before, so that the loops over them may be tagged.
    """
    update = _update(program, names)
    whole = program.algorithm.computations[update.source]
    check_new_name(program, name, "the partial results (see name=)")
    kept = _kept(program, update, whole, loops)
    _check_neighbours(program, update, whole, kept)
    dropped = [x for x in update.loops if x not in kept and _of_terms(update, whole, x)]
    _check_dropped(program, update, dropped, stays)
    partial, combined = _parted(program, update, whole, kept, name)
    declared = with_computation(program, partial, order=_order(program, update, whole, partial, kept))
    made = [s for s in declared.statements.values() if s.source == name]
    program = declared.with_(statements=program.statements, algorithm=program.algorithm.factored(partial, combined))
    for statement in made:
        program = program.with_statement_before(statement, [update.name])
        program = program.with_(orders=(*program.orders, Order(statement.name, update.name, None, command)))
    program = _bundled_alike(program, update, program.statements[f"{name}_update"])
    program = program.with_statement(_remaining(program, update, whole, combined, kept))
    used = {loop for s in program.statements.values() for loop in s.loops}
    return program.with_(loops={number: loop for number, loop in program.loops.items() if number in used})


def _bundled_alike(program: Program, update: Statement, partial: Statement) -> Program:
    """The loops over terms of partial results, in the bundle that those of the reduction are in."""
    dealt = program.algorithm.dealt.get(update.source)
    found = [program.loops[loop].bundle for loop in update.loops if program.loops[loop].bundle is not None]
    if dealt is None or not found:
        return program
    loops = [loop for loop in partial.loops if program.loops[loop].name in dealt.numbered]
    return program.with_loop(*(replace(program.loops[loop], bundle=found[0]) for loop in loops))


def _update(program: Program, names: Sequence[str]) -> Statement:
    """The one update of a reduction in its original form; raises `CommandError`."""
    given = statements(program, names)
    updates = [s for s in given if s.role is Role.UPDATE]
    if not updates:
        raise CommandError(f"{given[0].handle} is no update of a reduction: rfactor is for C.update of a reduction C")
    original_update(program, updates[0], "rfactor")
    return updates[0]


def original_update(program: Program, update: Statement, what: str) -> None:
    """Refuse an update that is not the whole one of its reduction, as it is declared, for the command `what`."""
    source = update.source
    declared = program.algorithm.computations[source]
    if len([s for s in program.statements_of(source) if s.role is Role.UPDATE]) > 1:
        raise CommandError(f"the update of {source} is in parts: give {what} before the command that cuts it")
    if declared.ordered:
        raise CommandError(f"{source} is declared ordered=True: {what} adds its terms in another order")
    if any(read.source == source for read in accesses(update.body)):
        raise CommandError(f"the terms of {source} read {source} itself: its partial results would not be independent")
    if update.dims != declared.point_iterators or update.body is not declared.expr:
        raise CommandError(
            f"{source} is computed at another loop, or has been rewritten: give {what} before that command"
        )
    if update.memory.sources:
        raise CommandError(
            f"{update.handle} reads copies ({', '.join(update.memory.sources.values())}): give {what} before copy, "
            "which are then for the partial results"
        )


def _kept(program: Program, update: Statement, whole: Computation, loops: Sequence[str]) -> list[LoopId]:
    """The loops that are named, in the order of the nest; raises `CommandError`."""
    if not loops:
        raise CommandError(f"rfactor names the loops that number the partial results: {update.handle}.rfactor(k0)")
    found = [find(program, update, given) for given in loops]
    for given, loop in zip(loops, found, strict=True):
        if loop is None:
            raise CommandError(f"no loop {given}: {nest(program, update)}")
        if not _of_terms(update, whole, loop):
            raise CommandError(
                f"loop {given} does not run over terms of {whole.name}, but over its values: name a loop "
                f"over {', '.join(whole.over)}, or over blocks of it (after split)"
            )
    return [loop for loop in update.loops if loop in found]


def _of_terms(update: Statement, whole: Computation, loop: LoopId) -> bool:
    """Whether an iteration of a loop depends on the term, and not on the value alone."""
    form = sets.outputs(update.coords)[update.depth(loop)]
    return sets.involves_axes(form, len(whole.iterators), len(whole.over))


def _check_neighbours(program: Program, update: Statement, whole: Computation, kept: Sequence[LoopId]) -> None:
    """Refuse partial results of terms that are no neighbours, if the operator does not commute."""
    if whole.op is None or whole.op.commutative or not (placed(whole) or _is_dealt_out(program, update, whole, kept)):
        return
    names = ", ".join(program.loops[loop].name for loop in kept)
    raise CommandError(
        f"{whole.op} of {whole.name} is not commutative, and partial results for loop {names} would combine terms that "
        "are no neighbours: name the loop over blocks of neighbouring terms, the outer one of a split, or keep the "
        "order of the terms"
    )


def _is_dealt_out(program: Program, update: Statement, whole: Computation, kept: Sequence[LoopId]) -> bool:
    """Whether a term is in an earlier iteration of the kept loops than one before it, of the same value."""
    instances = update.instances.intersect_params(program.context.params())
    forms, variables = sets.outputs(update.coords), sets.variables(update.frame)
    parts = sets.graph(sets.function(update.frame, None, [forms[update.depth(loop)] for loop in kept]), instances)
    values = sets.graph(sets.function(update.frame, None, variables[: len(whole.iterators)]), instances)
    rising = values.apply_range(values.reverse()).intersect(isl.Map.lex_lt(instances.get_space()))
    falling = parts.apply_range(isl.Map.lex_gt(parts.get_space().range())).apply_range(parts.reverse())
    return not rising.intersect(falling).is_empty()


def _check_dropped(program: Program, update: Statement, dropped: Sequence[LoopId], stays: bool) -> None:
    """Refuse to take a loop from the update that something else uses: a statement, an order, a buffer, a tag."""
    if not dropped:
        raise CommandError(
            f"rfactor names all loops over terms of {update.source}, so that each partial result would be one term: "
            "leave out the loops over which partial results are summed"
        )
    for loop in dropped:
        name = program.loops[loop].name
        users = [s.handle for s in program.with_this_loop(loop) if s.name != update.name]
        users += [o.command for o in program.orders if o.level == loop]
        users += [b.name for b in program.buffers.values() if loop in b.scope]
        users += [s.name for s in program.storages.values() if loop in s.inner]
        if users:
            raise CommandError(
                f"rfactor takes loop {name} from {update.handle}, and {users[0]} is at this loop: give rfactor before"
            )
        if program.loops[loop].tag is not None and not stays:
            raise CommandError(
                f"rfactor takes loop {name} from {update.handle}, and it is tagged by {program.loops[loop].tagged_by}: "
                "give rfactor before, and tag the loop of the partial results"
            )


def _parted(
    program: Program, update: Statement, whole: Computation, kept: Sequence[LoopId], name: str
) -> tuple[Computation, Computation]:
    """The partial results, and the reduction that combines them."""
    coords, variables = sets.outputs(update.coords), sets.variables(update.frame)
    forms = [coords[update.depth(loop)] for loop in kept]
    terms = dict(zip(whole.over, variables[len(whole.iterators) :], strict=True))
    same = _numbering(update, whole, kept)
    inner = tuple(over for over in whole.over if over not in same)
    groups: list[str] = []
    for loop in kept:
        groups.append(fresh_name(program.loops[loop].name, (*whole.iterators, *inner, *groups), underscored))
    values = variables[: len(whole.iterators)]
    to = sets.function(update.frame, name, [*values, *forms, *(terms[over] for over in inner)])
    iterators = (*whole.iterators, *groups)
    points = sets.with_dims(sets.named(whole.points, update.name).apply(sets.graph(to)), (*iterators, *inner))
    domain = sets.with_dims(sets.named(sets.project_prefix(points, len(iterators)), name), iterators)
    renamed: dict[str, Expr] = {over: Iter(groups[k]) for over, k in same.items()}
    partial = replace(
        whole, name=name, iterators=iterators, domain=domain, points=points, over=inner,
        expr=substitute(whole.expr, renamed), guards=tuple(substitute(guard, renamed) for guard in whole.guards),
        shape=None, written=None,
    )  # fmt: skip
    combined = replace(
        whole, points=sets.with_dims(sets.named(domain, whole.name), iterators), over=tuple(groups),
        expr=Access(name, tuple(map(Iter, iterators)), whole.dtype, program.algorithm.owner),
        guards=tuple(guard for guard in whole.guards if not mentions(guard, whole.over)),
    )  # fmt: skip
    return partial, combined


def _numbering(update: Statement, whole: Computation, kept: Sequence[LoopId]) -> dict[str, int]:
    """The reduction iterators that are kept loops themselves, and which of them."""
    forms = [sets.outputs(update.coords)[update.depth(loop)] for loop in kept]
    terms = zip(whole.over, sets.variables(update.frame)[len(whole.iterators) :], strict=True)
    return {over: k for over, variable in terms for k, form in enumerate(forms) if form.plain_is_equal(variable)}


def kept_loops(
    program: Program, names: Sequence[str], loops: Sequence[str], what: str
) -> tuple[Statement, list[LoopId]]:
    """The update of a reduction, and those of the named loops that run over its terms, in the order of the nest."""
    given = statements(program, names)
    if not any(s.role is Role.UPDATE for s in given):
        raise CommandError(f"{what}: {given[0].handle} is no update of a reduction; leave it out")
    update = _update(program, names)
    whole = program.algorithm.computations[update.source]
    found = [find(program, update, given) for given in loops]
    return update, [loop for loop in update.loops if loop in found and _of_terms(update, whole, loop)]


def over_values(program: Program, update: Statement, loop: LoopId) -> bool:
    """Whether a loop of a reduction's update runs over values alone."""
    return not _of_terms(update, program.algorithm.computations[update.source], loop)


def original_coords(update: Statement, whole: Computation, kept: Sequence[LoopId], partial: Statement) -> isl.MultiAff:
    """The coordinates of an update's loops, for the update of its partial results: its terms are in the same nest."""
    same, variables = _numbering(update, whole, kept), sets.variables(partial.frame)
    count = len(whole.iterators)
    inner = iter(variables[count + len(kept) :])
    terms = [variables[count + same[over]] if over in same else next(inner) for over in whole.over]
    original = sets.function(partial.frame, update.name, [*variables[:count], *terms])
    forms = sets.outputs(sets.compose(original, update.coords))
    for number, loop in enumerate(kept):
        forms[update.depth(loop)] = variables[count + number]
    return sets.function(partial.frame, None, forms)


def value_coords(
    update: Statement, whole: Computation, kept: Sequence[LoopId], loops: Sequence[LoopId], start: Statement
) -> isl.MultiAff:
    """The coordinates of some of an update's loops, kept ones or over values, for the start of its partial results."""
    count, variables = len(whole.iterators), sets.variables(start.frame)
    forms = [
        variables[count + kept.index(loop)]
        if loop in kept
        else _without_terms(sets.outputs(update.coords)[update.depth(loop)], count, start.frame)
        for loop in loops
    ]
    return sets.function(start.frame, None, forms)


def _order(
    program: Program, update: Statement, whole: Computation, partial: Computation, kept: Sequence[LoopId]
) -> tuple[str, ...] | None:
    """The iterators of the partial results of a scatter in the order of the loops that they come from, else None.

    A term goes to a place, so that loops over terms stay outside of those over places: blocks of terms are outermost.
    """
    if not placed(whole):
        return None
    groups = partial.iterators[len(whole.iterators) :]
    found: list[str] = []
    for loop in update.loops:
        if loop in kept:
            found.append(groups[kept.index(loop)])
            continue
        form = sets.outputs(update.coords)[update.depth(loop)]
        found += [
            name
            for position, name in enumerate(whole.point_iterators)
            if position in sets.axes_of(form) and name in partial.point_iterators
        ]
    return tuple(dict.fromkeys([*found, *partial.point_iterators]))


def _remaining(
    program: Program, update: Statement, whole: Computation, combined: Computation, kept: Sequence[LoopId]
) -> Statement:
    """The update that combines partial results, in the loops over values and those that number partial results."""
    frame = program.algorithm.frame(update.name, combined.point_iterators)
    count, numbers = len(whole.iterators), sets.variables(frame)[len(whole.iterators) :]
    loops = tuple(loop for loop in update.loops if loop in kept or not _of_terms(update, whole, loop))
    coords = []
    for loop in loops:
        if loop in kept:
            coords.append(numbers[kept.index(loop)])
        else:
            coords.append(_without_terms(sets.outputs(update.coords)[update.depth(loop)], count, frame))
    instances = sets.with_dims(sets.named(combined.points, update.name), combined.point_iterators)
    changed = replace(
        update,
        dims=combined.point_iterators,
        instances=instances,
        point=sets.renamed(sets.identity(frame), update.source),
        loops=loops,
        coords=sets.function(frame, None, coords),
        body=combined.expr,
        guards=combined.guards,
    )
    if not sets.graph(changed.coords, instances).is_injective():
        raise CommandError(
            f"the remaining loops of {update.handle} would not tell its values apart: a loop over values and one over "
            "terms are mixed; give rfactor before skew"
        )
    return changed


def _without_terms(form: isl.Aff, count: int, frame: isl.Space) -> isl.Aff:
    """A form that depends on the first `count` dimensions alone, on another frame that begins with them."""
    narrow = sets.without_axes(form, count)
    values = sets.function(frame, None, sets.variables(frame)[:count])
    return sets.outputs(sets.compose(values, sets.function(narrow.get_domain_space(), None, [narrow])))[0]


# -- the command as a value


@dataclass(frozen=True, eq=False)
class Rfactor(OnStatements):
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

    many = "loops"

    loops: tuple[Iter, ...]
    _: KW_ONLY
    name: str | None = None

    @classmethod
    def called(cls, of: Named, *loops: Iter, name: str | None = None) -> Self:
        return cls(of, loops, name=name)

    def made(self) -> str:
        """The name of the partial results."""
        return self.name or f"{self.computation}_partial"

    def applied(self, program: Program) -> Program:
        return rfactor(program, self.names(program), list(map(loop_name, self.loops)), self.made(), self.text)
