"""The values that an iteration of a consumer's loops needs, beyond those that it reads itself.

Given needed = { o -> v }, the values of a computation that iteration o needs, and reads = { v -> w }, what each of them
reads, iteration o needs

    needed . reads                              of another computation
    needed . (1 u reads u reads . reads ...)    of a recurrence itself
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.values_read import existing, needed_values
from tiramisu_py.errors import CommandError
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.schedule.locality.holes import in_few_pieces
from tiramisu_py.sets import smallest


def through_others(
    program: Program, source: str, scope: tuple[LoopId, ...], inside: Sequence[Statement]
) -> isl.Map | None:
    """``iteration of scope -> values of source`` read by computations outside whose values the iteration needs.

    `inside` are the statements in the loops. None if there are no such computations. Later commands move them into the
    loops; until then the program is refused, since the values of `source` are inside the loops only.
    """
    between = _between(program, source, inside)
    needed: dict[str, isl.Map] = {}
    for statement in inside if between else ():
        outer = sets.graph(statement.prefix(len(scope)), statement.instances).reverse()
        for name in between & statement.loads:
            _add(needed, name, outer.apply_range(needed_values(program, statement, name)))
    for name in reversed(list(program.algorithm.computations)):
        if name not in between or name not in needed:
            continue
        own = program.statements_of(name)
        needed[name] = in_few_pieces(program, name, needed[name])
        if any(name in statement.loads for statement in own):
            needed[name] = with_own_values(program, own, needed[name])
        for read in {source, *between} - {name}:
            for relation in _reads(program, own, read):
                _add(needed, read, needed[name].apply_range(relation))
    return needed.get(source)


def _between(program: Program, source: str, inside: Iterable[Statement]) -> set[str]:
    """The computations outside that read `source`, themselves or through each other."""
    within, leading = {statement.source for statement in inside}, {source}
    for name in program.algorithm.computations:
        if name not in within and any(statement.loads & leading for statement in program.statements_of(name)):
            leading.add(name)
    return leading - {source}


def _add(needed: dict[str, isl.Map], name: str, values: isl.Map) -> None:
    needed[name] = needed[name].union(values) if name in needed else values


def _reads(program: Program, own: Iterable[Statement], source: str) -> Iterator[isl.Map]:
    """``value -> value of source`` that is read to compute it, of each statement that reads any."""
    for statement in own:
        if source in statement.loads:
            values = sets.graph(program.value_of(statement), statement.instances).reverse()
            yield values.apply_range(needed_values(program, statement, source))


def with_own_values(program: Program, own: Iterable[Statement], needed: isl.Map) -> isl.Map:
    """The needed values of a recurrence, with all that lead to them; or more, where isl has no exact form."""
    source = next(iter(own)).source
    reads = sets.union_of(_reads(program, own, source)).coalesce()
    chains, _ = reads.transitive_closure()
    return needed.union(needed.apply_range(chains)).intersect_range(existing(program, source)).coalesce()


def recurring(program: Program, own: Sequence[Statement], needed: isl.Map, level: str) -> isl.Map:
    """The values of a recurrence that each iteration needs, if different iterations compute values of their own.

    Iterations may share values only where they share some that they read: otherwise each of them would repeat what
    others compute of the recurrence, and `CommandError` is raised, with two of them.
    """
    source = own[0].source
    needed = needed.intersect_params(program.context)
    whole = with_own_values(program, own, needed)
    if not is_closed(program, own, whole):
        raise CommandError(_in_one_piece(source, "the values that lead to another one have no affine form"))
    repeated = whole.apply_range(whole.reverse()).subtract(needed.apply_range(needed.reverse()))
    if not repeated.is_empty():
        raise CommandError(_in_one_piece(source, _needed_twice(program, whole, repeated, source, level)))
    return whole


def is_closed(program: Program, own: Sequence[Statement], values: isl.Map) -> bool:
    """Whether each iteration has, with a value of a recurrence, all that this value reads of the recurrence."""
    reads = sets.union_of(_reads(program, own, own[0].source))
    return bool(values.apply_range(reads).is_subset(values))


def _needed_twice(program: Program, whole: isl.Map, repeated: isl.Map, source: str, level: str) -> str:
    """Two iterations that would compute the same value, at the smallest parameters."""
    params = smallest.smallest_params(repeated)
    both = sets.flat_pairs(sets.fixed_map(repeated, params), "pair")
    pair = smallest.first(both)
    count = len(pair) // 2
    values = [
        sets.fixed_map(whole, params).intersect_domain(_only(whole, part)) for part in (pair[:count], pair[count:])
    ]
    common = smallest.first(values[0].range().intersect(values[1].range()))
    sizes = ", ".join(f"{name} = {value}" for name, value in params.items())
    where = f"{source}[{', '.join(map(str, common))}] leads to what the iterations {pair[count - 1]} and {pair[-1]}"
    return f"{where} of {level} read{f', at {sizes}' if sizes else ''}"


def _only(whole: isl.Map, coordinates: tuple[int, ...]) -> isl.Set:
    return smallest.singleton(whole.get_space().domain(), coordinates)


def _in_one_piece(source: str, why: str) -> str:
    return (
        f"{source} is a recurrence, and cannot be computed piece by piece here: {why}; let it share loops with its "
        f"reader, reader.after({source}, loop), where the loop is not inside the recurrence, or tile it over time with "
        "time_tile"
    )
