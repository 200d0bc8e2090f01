"""The stages of a stencil in bands of rows, whose earlier stages stay in registers: rows beside a band are repeated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tiramisu_py.auto.groups.row_pipelines import pipeline, work_in_cache
from tiramisu_py.auto.model.cost import ValueWork
from tiramisu_py.auto.model.offers import Offer, Problem
from tiramisu_py.errors import TiramisuError
from tiramisu_py.recipes import stencil
from tiramisu_py.recipes.recipe import Recipe
from tiramisu_py.recipes.stencil import Plan


def stages(problem: Problem, name: str) -> Iterator[Offer]:
    """The stages of a stencil over two dimensions that end here: their rows stay in registers or the cache."""
    if len(problem.computation(name).iterators) != 2:
        return
    chain = [name]
    for reader in chain:
        for source in problem.sources(reader):
            own = problem.computation(source)
            alone = set(problem.readers[source]) <= set(chain) and source not in problem.algorithm.outputs
            plain = not own.is_reduction and not own.group and not problem.is_recurrent(source)
            if source not in chain and alone and plain and len(own.iterators) == 2:
                chain.append(source)
    aligned = pipeline(problem, name)
    chain = [each for each in chain if aligned is not None and each in aligned.windows] or [name]
    if len(chain) == 1 and not _has_neighbours(problem, name):
        return
    ordered = [each for each in problem.algorithm.computations if each in chain]
    work = _work(problem, name, ordered)
    if work is None:
        return
    yield Offer(
        name, f"{', '.join(ordered)} in bands of rows", "neighbours are read again while they are in registers",
        lambda function: stencil(*(function[each] for each in ordered), cpu=problem.cpu), tuple(ordered),
        work, is_tiled=True,
    )  # fmt: skip


def _work(problem: Problem, name: str, ordered: Sequence[str]) -> ValueWork | None:
    """What a value needs: rows of earlier stages are computed again for each band, and read from registers.

    None if the recipe does not take the stages.
    """
    try:
        plan = Plan(Recipe("stencil", [problem.function[each] for each in ordered]), problem.cpu, None)
    except TiramisuError:
        return None
    own = work_in_cache(problem, ordered)
    found = pipeline(problem, name)
    if found is None:
        return replace(own, bytes=0.9 * own.bytes)
    again = sum(
        problem.operations(each) * (found.windows[each].height - 1) / plan.rows
        for each in ordered if each in found.windows
    )  # fmt: skip
    saved = sum(len(problem.reads_of(reader, each)) for each in ordered for reader in problem.readers[each])
    accesses = own.accesses - (saved if plan.in_registers else 0)
    return replace(own, operations=own.operations + again, accesses=accesses)


def _has_neighbours(problem: Problem, name: str) -> bool:
    """Whether a computation reads a source at several places, a constant number of rows and columns apart."""
    declared = problem.computation(name)
    beside = [
        touch.access.source for touch in problem.touches(name)
        if len(touch.forms) == 2 and None not in (touch.offset(axis, declared.iterators[axis]) for axis in (0, 1))
    ]  # fmt: skip
    return len(beside) > len(set(beside))
