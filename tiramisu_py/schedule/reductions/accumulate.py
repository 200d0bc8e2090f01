"""Sums apart from what is stored: terms are added up in values of their own, which the reduction copies when whole."""

from __future__ import annotations

from dataclasses import replace

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation
from tiramisu_py.algorithm.domains.domain import conjuncts
from tiramisu_py.algorithm.domains.scatters import placed
from tiramisu_py.algorithm.expressions import Access, Iter
from tiramisu_py.algorithm.traversal import accesses, mentions
from tiramisu_py.errors import CommandError
from tiramisu_py.program.initial import with_computation
from tiramisu_py.program.program import Program
from tiramisu_py.program.rebuilding import check_unscheduled
from tiramisu_py.program.statement import Statement
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import check_new_name
from tiramisu_py.schedule.command_fields import OnStatements


@dataclass(frozen=True, eq=False)
class Accumulate(OnStatements):
    """Add the terms of a reduction in values of their own, which it copies: those may be in registers until then.

    ::

        for n: y[n] = 0                         for n: total[n] = 0
        for n: for k:               -->         for n: for k: total[n] += e(n, k)
            y[n] += e(n, k)                     for n: y[n] = total[n]                 (y.accumulate("total"))

    With ``total.compute_at(y, n)`` each sum is in a register, or in vectors of a tile, while its terms are added, and
    is stored once. The same terms are added in the same order: bits stay. `Function.evaluate` computes the reduction
    as it was declared. Returns the handle of the new reduction. Give the command before others on the reduction; a
    scatter is gathered first. Raises `CommandError` for what is no reduction on its own.
    """

    name: str

    def applied(self, program: Program) -> Program:
        whole = program.algorithm.computations[self.computation]
        _check(program, whole)
        check_new_name(program, self.name, "the values that terms are added in")
        check_unscheduled(program, whole, "accumulate")
        own = [part for guard in whole.guards for part in conjuncts(guard)]
        at = tuple(map(Iter, whole.iterators))
        copy = replace(
            whole,
            points=whole.domain,
            expr=Access(self.name, at, whole.dtype, program.algorithm.owner),
            guards=tuple(part for part in own if not mentions(part, whole.over)),
            over=(),
            op=None,
            ordered=False,
            determinism=None,
        )
        return _apart(program, whole, copy, self.name)


def _check(program: Program, whole: Computation) -> None:
    """Refuse what has no terms, or terms that are not all of its own."""
    name = whole.name
    if not whole.is_reduction:
        raise CommandError(f"{name} is no reduction: accumulate keeps the terms of a sum apart from what is stored")
    if whole.stage is not None or whole.group or whole.shape is not None or whole.run_of or whole.stored is not None:
        raise CommandError(f"{name} is declared in a group, over whole arrays, or with shape=: its sums stay in them")
    if any(read.source == name for read in accesses(whole.expr)):
        raise CommandError(f"the terms of {name} read {name} itself: they are added where they are read")
    if placed(whole):
        raise CommandError(
            f"{name} is a scatter, whose terms choose a place: {name}.gather(..) first, and accumulate then"
        )
    if not whole.iterators:
        raise CommandError(
            f"{name} is one value, which compilers keep in a register: accumulate is for values of loops"
        )


def _apart(program: Program, whole: Computation, copy: Computation, name: str) -> Program:
    """The program with the sums as a reduction, and the copy of them where the reduction was."""
    algorithm = program.algorithm
    own = [key for key, s in program.statements.items() if s.source == whole.name]
    order = program.loop_names(program.statements[own[-1]])
    sums = replace(whole, name=name, domain=sets.named(whole.domain, name), points=sets.named(whole.points, name))
    storage = program.storages[whole.name]
    bare = program.with_(
        statements={key: s for key, s in program.statements.items() if key not in own},
        storages={key: s for key, s in program.storages.items() if key != whole.name},
        buffers={key: b for key, b in program.buffers.items() if key != storage.buffer},
        algorithm=replace(algorithm, computations={k: c for k, c in algorithm.computations.items() if k != whole.name}),
    )
    made = with_computation(with_computation(bare, sums, order=order), copy)
    new = {key: s for key, s in made.statements.items() if s.source in (name, whole.name)}
    statements: dict[str, Statement] = {}
    for key, statement in program.statements.items():
        statements |= new if key == own[0] else {} if key in own else {key: statement}
    used = {loop for s in statements.values() for loop in s.loops}
    return program.with_(
        statements=statements,
        loops={number: loop for number, loop in made.loops.items() if number in used},
        storages={**program.storages, name: made.storages[name]},
        buffers={**program.buffers, name: made.buffers[made.storages[name].buffer]},
        algorithm=algorithm.factored(sums, copy),
    )
