"""Cases: the instances of a statement, cut by the affine conditions of the selects in its body."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.affine import Affine
from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.dependence.cases import Part, by_branch
from tiramisu_py.errors import CommandError
from tiramisu_py.program.editing import in_place_of, on_instances
from tiramisu_py.program.program import Program, nest
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import check_new_name, find, loop_name, statements
from tiramisu_py.schedule.command_fields import OnStatements


def separate_cases(program: Program, names: Sequence[str], level: str | None) -> Program:
    """Cut statements by the selects of their bodies; the parts share the loops up to `level` (none if it is None)."""
    found = [s for s in statements(program, names) if s.role is Role.VALUE and len(_cases(program, s)) > 1]
    if not found:
        raise CommandError(
            f"{', '.join(names)} contain{'s' if len(names) == 1 else ''} no select with an affine condition"
        )
    for statement in found:
        depth = 0
        if level is not None:
            loop = find(program, statement, level)
            if loop is None:
                raise CommandError(f"no loop {level} here: {nest(program, statement)}")
            depth = statement.depth(loop) + 1
        program = _separated(program, statement, depth)
    return program


def _separated(program: Program, statement: Statement, depth: int) -> Program:
    for loop in statement.loops[depth:]:
        sharing = [s.name for s in program.with_this_loop(loop) if s.name != statement.name]
        if sharing:
            name = program.loops[loop].name
            raise CommandError(
                f"loop {name} of {statement.name} is shared with {', '.join(sharing)}: separate before fusing them, or "
                "name a level outside"
            )
    parts = []
    for number, (instances, body) in enumerate(_cases(program, statement)):
        name = f"{statement.name}_{number}"
        check_new_name(program, name, f"part {number} of {statement.name}")
        loops = list(statement.loops[:depth])
        for old in statement.loops[depth:]:
            fresh = replace(program.loops[old], id=program.next_loop())
            program = program.with_loop(fresh)
            loops.append(fresh.id)
        part = on_instances(statement, name, sets.named(instances, name), tuple(loops))
        parts.append(replace(part, body=body))
    return in_place_of(program, statement, parts)


def _cases(program: Program, statement: Statement) -> list[Part]:
    forms = dict(zip(program.point_names(statement), sets.outputs(statement.point), strict=False))
    found = by_branch(Affine(statement.frame, forms), statement.instances, statement.body)
    return [part for _, part in sorted(found, key=lambda case: case[0])]


# -- the commands as values


@dataclass(frozen=True, eq=False)
class SeparateCases(OnStatements):
    """Cut the computation into parts by the cases of its selects; each part is scheduled separately.

    ::

        for i in 0..N:                        -->   for i in {0}: S_0[i] = a
            S[i] = select(i == 0, a, b)             for i in 1..N: S_1[i] = b         (separate_cases())

    Affine conditions are resolved: the parts contain no such select, so that the inside of a picture is a loop of
    its own, without its border. The parts share the loops up to `at`; without a level they are separate nests.
    (The compiler splits loops by such selects in any case; use this command to schedule the parts differently.)
    Returns the parts, that of the first branch first.
    """

    former = (("level", "at"),)

    at: Iter | None = None

    def applied(self, program: Program) -> Program:
        level = None if self.at is None else loop_name(self.at)
        return separate_cases(program, self.names(program), level)
