"""Values of positions in a loop over the runs that these are in: `rewriting.values_in_runs` in a program."""

from __future__ import annotations

from typing import Self

from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.algorithm.spellings import fresh_name, underscored
from tiramisu_py.errors import CommandError
from tiramisu_py.program.program import Program
from tiramisu_py.program.rebuilding import check_unscheduled, rebuilt, with_bodies
from tiramisu_py.records import dataclass
from tiramisu_py.rewriting.values_in_runs import valued_in_runs
from tiramisu_py.schedule.command_arguments import loop_name
from tiramisu_py.schedule.command_fields import Named, OnStatements


@dataclass(frozen=True, eq=False)
class InRuns(OnStatements):
    """Compute values of positions in a loop over the runs that these are in, whose number they read until now.

    ::

        for p: msg[p] = e(etype[p], p)     -->     for r: for p in types[r]..types[r + 1]:
                                                       msg[p] = e(r, p)                       (msg.in_runs(types, r))

    ``types = f.segments("types", R, of=E, at=etype)`` says that `etype` has the run of each position (COO), so that
    loops may have a run at a time (CSR): what is read of a run, such as a matrix, is read once for many positions. The
    same values are computed and kept at the same places: bits stay. `loop` names the loop over runs.
    `Function.evaluate` computes the values as they were declared. Give the command before others on `msg`; what reads
    it may be scheduled. Raises `CommandError` for what reads no run of its own positions, and for outputs.
    """

    runs: Named
    loop: Iter | None = None

    @classmethod
    def called(cls, of: Named, runs: Named, loop: Iter | None = None) -> Self:
        return cls(of, runs, loop)

    def applied(self, program: Program) -> Program:
        algorithm = program.algorithm
        start = algorithm.inputs.get(self.runs.source) if isinstance(self.runs, Named) else None
        if start is None:
            raise CommandError(f'{self.runs!r} are no runs: declare types = f.segments("types", .., of=.., at=..)')
        whole = algorithm.computations[self.computation]
        if whole.name in algorithm.outputs or whole.name in algorithm.gathered:
            raise CommandError(f"{whole.name} is an output, or gathered: let another computation be it")
        stage = next(
            (c for c in algorithm.computations.values() if c.stage is not None and whole.name in c.sources), None
        )
        if stage is not None:
            raise CommandError(
                f"{stage.name} is a call of a stage that reads {whole.name}: its values stay by position"
            )
        row = fresh_name(
            "run" if self.loop is None else loop_name(self.loop),
            (*whole.point_iterators, *algorithm.params),
            underscored,
        )
        changed, read = valued_in_runs(algorithm, whole, start, row)
        check_unscheduled(program, whole, "in_runs")
        if program.storages[whole.name].chosen:
            raise CommandError(f"{whole.name} is stored where a command has put it: give in_runs first, and that then")
        return with_bodies(rebuilt(program, changed, changed.computations[whole.name], new_array=True), read, algorithm)
