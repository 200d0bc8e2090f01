"""Facts of one computation as it is scheduled now: iterators, reads, and what its loops carry."""

from __future__ import annotations

from collections.abc import Mapping

from tiramisu_py.function import Computation
from tiramisu_py.program.ordering import shared
from tiramisu_py.program.statement import Role
from tiramisu_py.queries.dependences import LoopDependences
from tiramisu_py.queries.handles import function_of, loop_iterators
from tiramisu_py.queries.iterations import extents
from tiramisu_py.queries.reads import LinearRead, linear_reads, readers_of, sources_of
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class LoopFacts:
    """One loop of a statement: its `name`, and the iterator that it runs over, None for one over several together.

    `of` is the handle of the statement, such as ``total.update``. A loop that `carries` a dependence is neither
    parallel nor a vector loop as it stands; of the terms of a sum, whose order is free, none depends on another.
    """

    of: str
    name: str
    iterator: str | None
    carries: bool


@dataclass(frozen=True, eq=False)
class ComputationFacts:
    """Facts by which schedules of a computation are chosen.

    `iterators` are those of its values, `terms` those of a reduction's terms. `extents` has the most values of each,
    None where parameters set no bound. `reads` are its reads as linear forms, with the step that each makes along an
    iterator; `sources` what it reads, `readers` the computations that read it. `loops` are those of its statements now.
    """

    name: str
    iterators: tuple[str, ...]
    terms: tuple[str, ...]
    extents: Mapping[str, int | None]
    reads: tuple[LinearRead, ...]
    sources: tuple[str, ...]
    readers: tuple[str, ...]
    loops: tuple[LoopFacts, ...]

    @property
    def is_recurrent(self) -> bool:
        """Whether it reads values of its own."""
        return self.name in self.sources

    def steps(self, iterator: str) -> dict[str, list[int | None]]:
        """By source, how many elements each read moves along an iterator: 0 stays, 1 is contiguous, None is computed.

        ``a[i, j] + a[j, i]`` gives ``{"a": [1, queries.ANOTHER_ROW]}`` along j.
        """
        found: dict[str, list[int | None]] = {}
        for read in self.reads:
            found.setdefault(read.access.source, []).append(read.step(iterator))
        return found


def facts(computation: Computation) -> ComputationFacts:
    """The facts by which schedules of a computation are chosen, as it stands: nothing is changed or proven.

    ::

        of = tm.queries.facts(f["across"])
        of.extents                      # {"r": None, "c": None}
        of.steps("c")                   # {"down": [1, 1, 1]}
        [loop.name for loop in of.loops if not loop.carries]
    """
    function, name = function_of(computation), computation.name
    program = function.program
    declared = program.algorithm.computations[name]
    own = program.statements_of(name)
    nest = [s for s in program.statements.values() if s.acts and any(s is each or shared(s, each) for each in own)]
    carrying = LoopDependences(program, tuple(nest)).carrying
    loops = [
        LoopFacts(each.handle, loop_name, iterator, loop in carrying)
        for each in own
        for loop, loop_name, iterator in zip(
            each.loops, program.loop_names(each), loop_iterators(each, declared.point_iterators), strict=True
        )
        if each.role in (Role.VALUE, Role.INIT, Role.UPDATE)
    ]
    sizes = dict(zip(declared.point_iterators, extents(declared, terms=True), strict=True))
    return ComputationFacts(
        name, declared.iterators, declared.over, sizes, linear_reads(declared), tuple(sources_of(declared)),
        tuple(readers_of(program.algorithm, name)), tuple(loops),
    )  # fmt: skip
