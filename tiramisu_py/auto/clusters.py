"""Clusters of computations that are scheduled together, and the candidates of each: the structure of the schedule."""

from __future__ import annotations

from collections.abc import Iterator

from tiramisu_py.auto.groups.blocks_outside import blocked
from tiramisu_py.auto.groups.factor_tiles import factored
from tiramisu_py.auto.groups.group_orders import terms_outside
from tiramisu_py.auto.groups.nests import members_of, swept
from tiramisu_py.auto.groups.row_bands import in_bands
from tiramisu_py.auto.groups.row_pipelines import rows_in_turn, stages
from tiramisu_py.auto.groups.sums_of_rows import in_their_rows
from tiramisu_py.auto.model.offers import Offer, Problem
from tiramisu_py.auto.model.strides import loop_cost
from tiramisu_py.auto.single.independent import streamed
from tiramisu_py.auto.single.inlining import inlined
from tiramisu_py.auto.single.sums import read_at_the_end, reduced, scattered
from tiramisu_py.auto.waves.diagonals import diagonal
from tiramisu_py.auto.waves.lines import in_lanes, side_by_side
from tiramisu_py.auto.waves.pivots import pivoted
from tiramisu_py.auto.waves.step_pipelines import pipelined, tiled_over_time
from tiramisu_py.queries import chosen_by_values


def anchors(problem: Problem) -> Iterator[str]:
    """The computations in the order in which they get commands: recurrences, then each other one after its readers."""
    last_first = list(problem.algorithm.computations)[::-1]
    yield from (name for name in last_first if problem.is_recurrent(name))
    yield from (name for name in last_first if not problem.is_recurrent(name))


def candidates(problem: Problem, name: str) -> list[Offer]:
    """The candidates for a computation that nothing covers yet, the best first."""
    declared = problem.computation(name)
    if declared.stage is not None or (declared.group and not declared.point_iterators):
        return []
    if declared.group:
        found = [*factored(problem, name), *blocked(problem, name), *terms_outside(problem, name)]
        found += pivoted(problem, name)
        found += [*pipelined(problem, name), *side_by_side(problem, name), *swept(problem, name)]
    elif chosen_by_values(declared) and not problem.is_recurrent(name):
        found = list(scattered(problem, name))
    elif declared.is_reduction:
        found = [*in_their_rows(problem, name), *reduced(problem, name)]
    elif problem.is_recurrent(name):
        tiled = [*tiled_over_time(problem, name)] or [*pipelined(problem, name)]
        found = [*tiled, *diagonal(problem, name), *in_lanes(problem, name), *swept(problem, name)]
    else:
        found = [*inlined(problem, name), *read_at_the_end(problem, name)]
        found += [*stages(problem, name), *rows_in_turn(problem, name), *in_bands(problem, name)]
        found += in_their_rows(problem, name)
        found += streamed(problem, name)
    found = [each for each in found if problem.tiles or not each.is_tiled]
    if found and not chosen_by_values(declared):
        found.append(as_declared(problem, name))
    return sorted(found, key=lambda each: problem.cost(each.work))


def as_declared(problem: Problem, name: str) -> Offer:
    """The offer of no commands: a nest keeps the order in which it was declared, if the others are estimated slower.

    A C compiler makes vectors of values that are independent and contiguous, but not of sums, whose order it keeps. One
    thread does what the other offers share.
    """
    declared, touched = problem.computation(name), problem.touches(name)
    last = declared.point_iterators[-1:]
    alone = not declared.is_reduction and not declared.group and not problem.is_recurrent(name)
    contiguous = bool(last) and loop_cost(touched, declared, last[0]) <= len(touched) + 1
    vector = last[0] if alone and contiguous and not declared.guards else None
    lanes, chain = (problem.lanes(name) if vector else 1), (0.0 if alone else problem.latency)
    work = problem.work(name, vector, lanes, stores=1.0 if alone else 2.0, chain=chain).by_one_of(problem.threads)
    why = "everything else is estimated slower than the order of the declaration"
    return Offer(name, "as declared", why, lambda function: None, members_of(problem, name), work)
