"""Computations that depend on themselves or share loops: which loops of each statement are parallel or vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tiramisu_py import Combine, Function, Iter
from tiramisu_py.auto.groups.kept_levels import KeptLevels, folds_of, kept_levels
from tiramisu_py.auto.model.cost import ValueWork
from tiramisu_py.auto.model.offers import Offer, Problem
from tiramisu_py.auto.model.strides import APART, loop_cost, read_cost
from tiramisu_py.errors import CommandError
from tiramisu_py.queries import LoopDependences, LoopId, Role, Statement, loop_iterators, shared, statement_handle
from tiramisu_py.recipes.reductions.rows import accumulating
from tiramisu_py.records import dataclass

#: How many lines run side by side: the chain of additions of one leaves the adders idle for as long.
LINES = 8


@dataclass(frozen=True, eq=False)
class LoopPlan:
    """The plan for the loops of one statement: their order, the vector loop, and the parallel one, by name."""

    statement: Statement
    handle: str
    order: tuple[str, ...]
    vector: str | None
    iterator: str | None
    lanes: int
    over_terms: bool
    parallel: str | None
    jam: LoopId | None = None

    def apply(self, function: Function, threads: bool, vectors: bool) -> None:
        handle = statement_handle(function, self.statement)
        if self.order:
            handle.reorder(*map(Iter, self.order))
        if self.jam is not None and vectors:
            handle.unroll_and_jam(Iter(function.program.loops[self.jam].name), LINES)
        if self.parallel is not None and threads:
            handle.parallelize(Iter(self.parallel))
        if self.vector is None or not vectors:
            return
        if self.over_terms:
            handle.vectorize(Iter(self.vector), self.lanes, combine=Combine.PRIVATE)
        else:
            handle.vectorize(Iter(self.vector), self.lanes, remainder="mask")


def members_of(problem: Problem, name: str) -> tuple[str, ...]:
    """The computations that are scheduled with one: those of its group that have loops."""
    group = problem.computation(name).group
    if not group:
        return (name,)
    return tuple(each.name for each in problem.algorithm.together(group) if each.point_iterators)


def swept(problem: Problem, name: str) -> Iterator[Offer]:
    """The candidates of a recurrence or a group: what its dependences leave parallel."""
    names = members_of(problem, name)
    program = problem.function.program
    statements = tuple(each for source in names for each in program.statements_of(source))
    dependences = LoopDependences(program, statements)
    plans = _jammed_once([_planned(problem, dependences, each) for each in statements])
    kept = ", ".join(dict.fromkeys(program.loops[loop].name for loop in sorted(dependences.carrying)))
    why = f"values depend on earlier ones along {kept}" if kept else "no loop carries a dependence"

    folds = list(folds_of(problem, names))
    in_place = [replace(each, levels=each.fewest) for each in folds]

    def offer(folds: Sequence[KeptLevels], threads: bool, vectors: bool) -> Iterator[Offer]:
        beside = [(each, reader) for each in folds for reader in each.beside]

        def apply(function: Function) -> None:
            for each, reader in beside:
                reader.follow(problem, function, each, threads, vectors)
            for fold in folds:
                fold.apply(function)
            for plan in plans:
                plan.apply(function, threads, vectors)

        said = [each.words for each in folds]
        said += [text for plan in plans if (text := _said(plan, threads, vectors))]
        covered = (*names, *dict.fromkeys(reader.name for _, reader in beside))
        if said:
            yield Offer(name, "; ".join(said), why, apply, covered, _work(problem, plans, bool(folds), vectors))

    several = problem.threads > 1
    for few in (in_place, folds) if in_place != folds else (folds,):
        if few:
            yield from offer(few, several, True)
    yield from _kept_whole(problem, names, _work(problem, plans, True, True))
    yield from offer((), several, True)
    if several:
        yield from offer((), False, True)
    yield from offer((), several, False)


def _work(problem: Problem, plans: Sequence[LoopPlan], folded: bool, vectors: bool) -> ValueWork:
    """The work of the statement with most loops; a recurrence without vectors waits for each value."""
    most = max(plans, key=lambda plan: len(plan.statement.loops))
    vector = most.iterator if vectors else None
    lanes = problem.lanes(most.statement.source) if vector else 1
    moved, stores = (0.5 if folded else 1.0), (2.0 if most.statement.role is Role.UPDATE else 1.0)
    source = most.statement.source
    chain = 0.0 if vector else problem.latency / (LINES if most.jam is not None and vectors else 1)
    return problem.work(source, vector, lanes, moved=moved, stores=stores, chain=chain)


def _kept_whole(problem: Problem, names: tuple[str, ...], work: ValueWork) -> Iterator[Offer]:
    """The offers to keep few levels that readers outside prevent: they say who, when they are tried."""
    for name in names:
        found = kept_levels(problem, names, name)
        if isinstance(found, str):
            why = f"{found} reads {name} at other levels than its own ones: all levels of {name} are kept"
            time = problem.computation(name).iterators[0]
            yield Offer(name, f"few levels of {name} along {time}", why, _refusing(why), names, work)


def _refusing(why: str) -> Callable[[Function], object]:
    def apply(function: Function) -> None:
        raise CommandError(why)

    return apply


def _said(plan: LoopPlan, threads: bool, vectors: bool) -> str:
    parts = [f"order {', '.join(plan.order)}"] if plan.order else []
    parts += [f"threads share {plan.parallel}"] if plan.parallel and threads else []
    parts += [f"{LINES} lines side by side"] if plan.jam is not None and vectors else []
    parts += [f"vectors of {plan.lanes} along {plan.vector}"] if plan.vector and vectors else []
    return f"{plan.handle}: {', '.join(parts)}" if parts else ""


def _jammed_once(plans: Sequence[LoopPlan]) -> list[LoopPlan]:
    """Plans in which the lines of a loop that several statements share are put side by side once."""
    found: list[LoopPlan] = []
    for plan in plans:
        seen = any(plan.jam == other.jam for other in found)
        found.append(replace(plan, jam=None) if seen else plan)
    return found


def _planned(problem: Problem, dependences: LoopDependences, statement: Statement) -> LoopPlan:
    """The vector loop of a statement among its own free loops, and its outermost parallel one."""
    names = problem.function.program.loop_names(statement)
    declared = problem.computation(statement.source)
    iterators = loop_iterators(statement, declared.point_iterators)
    over = [each in declared.over for each in iterators]
    common = max((shared(statement, each) for each in dependences.statements if each is not statement), default=0)
    free = [
        depth for depth in range(len(names))
        if statement.loops[depth] not in dependences.carrying and iterators[depth] is not None
        and not (over[depth] and declared.in_order)
    ]  # fmt: skip
    touched = problem.touches(statement.source) if statement.role is not Role.INIT else ()
    own = [depth for depth in reversed(free) if depth >= common]
    vector = min(own, key=lambda depth: loop_cost(touched, declared, iterators[depth] or ""), default=None)
    order: tuple[str, ...] = ()
    jam = None
    outer = [depth for depth in free if not over[depth]]
    if statement.role is Role.VALUE and len(names) > 1 and statement.loops[-1] in dependences.carrying and outer:
        far = [read_cost(touch, iterators[outer[-1]] or "") >= APART for touch in touched]
        jammed = statement.loops[outer[-1]]
        inside = [each for each in dependences.statements if jammed in each.loops]
        if any(far) and all(each.loops == statement.loops for each in inside):
            jam, vector = jammed, None
    if vector is not None and vector != len(names) - 1:
        moved = [*(depth for depth in range(len(names)) if depth != vector), vector]
        if dependences.allows(statement, moved):
            order = tuple(names[depth] for depth in moved[common:])
        else:
            vector = len(names) - 1 if len(names) - 1 in free else None
    parallel = [depth for depth in free if depth != vector and not over[depth]]
    sums = vector is not None and over[vector]
    lanes = problem.lanes(statement.source)
    return LoopPlan(
        statement, statement.handle, order, None if vector is None else names[vector],
        None if vector is None else iterators[vector],
        accumulating(lanes, problem.cpu) if sums else lanes, sums, names[parallel[0]] if parallel else None, jam,
    )  # fmt: skip
