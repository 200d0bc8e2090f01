"""Computations whose values do not depend on each other: threads share the outermost loop, the best one is vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from tiramisu_py import Function, Iter
from tiramisu_py.auto.model.offers import Fresh, Offer, Problem
from tiramisu_py.auto.model.strides import best_iterator
from tiramisu_py.auto.single.phases import computed_less, in_phases, phases_of
from tiramisu_py.queries import Access, walk

#: The block of a single loop that threads share.
BLOCK = 1 << 14
#: How many rows before its use a value is prefetched: what is read across rows is not foreseen by the processor.
AHEAD = 8
#: The bytes of a cache line, and of vectors that cross none of its ends in any array that is aligned as NumPy's are;
#: and the most operations of a value in such vectors, which are more of them.
LINE, PART, CHEAP = 64, 16, 7


def streamed(problem: Problem, name: str) -> Iterator[Offer]:
    """The candidates of a computation of values that are independent of each other."""
    declared = problem.computation(name)
    if not declared.loop_iterators or declared.stage is not None:
        return
    vector = best_iterator(problem.touches(name), declared, declared.iterators)
    assert vector is not None
    lanes, outer = problem.lanes(name), [each for each in declared.iterators if each != vector]
    shared = f"threads share {outer[0] if outer else f'blocks of {BLOCK} of {vector}'}, " if problem.threads > 1 else ""
    said, why = f"{shared}vectors of {lanes} along {vector}", "no value reads another one of it"
    work = problem.work(name, vector, lanes)
    others = _beside(problem, name, vector)

    def one(function: Function) -> None:
        _in_vectors(problem, function, name, vector)

    whole = _are_in_lines(problem, (*others, name), vector)

    def several(function: Function) -> None:
        loop = _in_vectors(problem, function, others[0], vector, whole_lines=whole)
        for before, each in pairwise([*others, name]):
            _in_vectors(problem, function, each, vector, whole_lines=whole)
            function[each].after(function[before], loop)

    if others:
        wide = f"{shared}a cache line of each in turn, along {vector}" if whole else said
        yield Offer(
            name, f"{', '.join((*others, name))} in one loop: {wide}", "they read the same values", several,
            (*others, name), replace(work, bytes=work.bytes - declared.dtype.bytes),
        )  # fmt: skip
    across = _read_across(problem, name, vector) if outer else []
    if across:
        yield Offer(
            name, f"{said}, prefetching {', '.join(across)} {AHEAD} iterations of {outer[-1]} ahead",
            "they are read across their rows", lambda function: _prefetching(problem, function, name, vector, across),
            (name,), replace(work, bytes=work.bytes - 1),
        )  # fmt: skip
    yield Offer(name, said, why, one, (name,), work)
    if (phases := phases_of(problem, name, vector)) > 1 and vector == declared.iterators[-1]:
        yield Offer(
            name, f"{said}, each of its {phases} phases by itself", "in a phase, all lanes read one plane",
            lambda function: _in_vectors(problem, function, name, vector, phases), (name,),
            replace(work, accesses=work.accesses - computed_less(problem, name, vector) + phases - 1),
        )  # fmt: skip
    if problem.threads > 1:
        yield Offer(
            name, f"threads share {declared.iterators[0]}", why,
            lambda function: function[name].parallelize(Iter(declared.iterators[0])), (name,), problem.work(name, None),
        )  # fmt: skip


def _read_across(problem: Problem, name: str, vector: str) -> list[str]:
    """Reads at places that a vector takes from several rows, by formulas of several iterators."""
    found = []
    for touch in problem.touches(name):
        used = [{node.name for node in walk(index) if isinstance(node, Iter)} for index in touch.access.indices]
        values = any(
            isinstance(node, Access) and node.indices for index in touch.access.indices for node in walk(index)
        )
        if touch.step(vector) is None and not values and all(len(each) > 1 and vector in each for each in used):
            found.append(touch.access.source)
    return list(dict.fromkeys(found))


def _prefetching(problem: Problem, function: Function, name: str, vector: str, sources: Sequence[str]) -> None:
    _in_vectors(problem, function, name, vector)
    rows = [each for each in problem.computation(name).iterators if each != vector][-1]
    for source in sources:
        function[name].prefetch(function[source], Iter(rows), AHEAD)


def _beside(problem: Problem, name: str, vector: str) -> tuple[str, ...]:
    """Other results of the same points that read what this one reads, declared before it."""
    declared = problem.computation(name)
    if name not in problem.algorithm.outputs or problem.readers[name]:
        return ()
    sources = {touch.access.source for touch in problem.touches(name)}
    found = []
    for other in list(problem.algorithm.computations)[: list(problem.algorithm.computations).index(name)]:
        one = problem.computation(other)
        independent = not one.is_reduction and not one.group and one.stage is None and not problem.is_recurrent(other)
        if not independent or other in problem.given or problem.readers[other] or one.iterators != declared.iterators:
            continue
        same = one.domain.set_tuple_name("").is_equal(declared.domain.set_tuple_name(""))
        along = best_iterator(problem.touches(other), one, one.iterators) == vector
        if same and along and sources & {touch.access.source for touch in problem.touches(other)}:
            found.append(other)
    return tuple(found)


def _are_in_lines(problem: Problem, names: Sequence[str], vector: str) -> bool:
    """Whether a loop over several results stores a cache line of each in turn, where a vector is less than a line.

    Lines that are stored past the caches leave as they are: half of one, if another array's comes before the rest.
    """
    past = all(problem.is_only_written(each) and vector == problem.computation(each).iterators[-1] for each in names)
    sizes = {problem.computation(each).dtype.bytes for each in names}
    return past and len(names) > 1 and problem.cpu.vector_bytes < LINE and len(sizes) == 1 and max(sizes) < PART


def _in_vectors(
    problem: Problem, function: Function, name: str, vector: str, phases: int = 1, *, whole_lines: bool = False
) -> Iter:
    """Vectors along a loop, of each phase by itself or for whole cache lines, threads along the outermost loop; the
    loop in which others follow is returned, the innermost one before phases, or that over lines.
    """
    loops = _ordered(function, name, vector)
    if len(loops) == 1 and problem.threads > 1:
        fresh = Fresh(function)
        first, loops[0] = fresh(f"{vector}0"), fresh(f"{vector}1")
        function[name].split(Iter(vector), BLOCK, first, loops[0])
        loops.insert(0, first)
    if problem.threads > 1:
        function[name].parallelize(loops[0])
    if whole_lines:
        loops[-1] = _lines(problem, function, name, loops[-1])
    else:
        in_phases(function, name, loops[-1], phases, problem.lanes(name))
    if problem.is_only_written(name) and vector == problem.computation(name).iterators[-1]:
        function[name].store_nontemporal()
    return loops[-1]


def _lines(problem: Problem, function: Function, name: str, loop: Iter) -> Iter:
    """Vectors, all of a cache line after each other; the loop over lines is returned."""
    stage: Any = function[name]
    fresh, size = Fresh(function), problem.computation(name).dtype.bytes
    lanes = PART // size if problem.operations(name) <= CHEAP else problem.lanes(name)
    line, inside, part, lane = (fresh(each) for each in ("line", f"{loop.name}_", "part", "lane"))
    stage.split(loop, LINE // size, line, inside)
    stage.split(inside, lanes, part, lane)
    stage.unroll(part)
    stage.vectorize(lane, lanes, remainder="mask")
    return line


def _ordered(function: Function, name: str, vector: str) -> list[Iter]:
    """Put the loop of the vectors innermost, and return all loops."""
    loops = [Iter(each) for each in function.program.algorithm.computations[name].iterators]
    if loops[-1].name != vector:
        loops = [*(each for each in loops if each.name != vector), Iter(vector)]
        function[name].reorder(*loops)
    return loops
