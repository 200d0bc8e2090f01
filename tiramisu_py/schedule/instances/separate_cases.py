"""Cases: the instances of a statement, cut by the affine conditions of the selects in its body."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Expr, Iter, Select, as_typed
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.errors import CommandError
from tiramisu_py.program.program import Program, nest
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.schedule.command_arguments import check_new_name, find, loop_name, statements
from tiramisu_py.schedule.command_fields import OnStatements
from tiramisu_py.schedule.instances.separate import in_place_of, on_instances

#: Beyond this number of bodies a select stays in place: a box has an inside, four edges and four corners.
MOST_BODIES = 9

Part = tuple[isl.Set, Expr]
#: The branch taken at each cut: 0 if the condition holds, 1 if not.
Branch = tuple[int, ...]


def separate_cases(program: Program, names: Sequence[str], level: object) -> Program:
    """Cut statements by the selects of their bodies; the parts share the loops up to `level` (none if it is None)."""
    found = [s for s in statements(program, names) if s.role is Role.VALUE and len(_cases(program, s)) > 1]
    if not found:
        raise CommandError(
            f"{', '.join(names)} contain{'s' if len(names) == 1 else ''} no select with an affine condition"
        )
    for statement in found:
        depth = 0
        if level is not None:
            loop = find(program, statement, loop_name(level))
            if loop is None:
                raise CommandError(f"no loop {loop_name(level)} here: {nest(program, statement)}")
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
    splitter = _Splitter(Affine(statement.frame, forms))
    return [part for _, part in sorted(splitter.by_branch(statement.instances, statement.body), key=lambda p: p[0])]


def chooses(body: Expr) -> bool:
    """Whether a body has a select."""
    return next(_selects(body), None) is not None


def split_by_cases(reader: Affine, instances: isl.Set, body: Expr) -> list[Part]:
    """Parts of `instances`, each with a body in which selects decided there are resolved."""
    return _Splitter(reader).split(instances, body)


class _Splitter:
    """Cuts instances by the conditions of the selects in their body."""

    def __init__(self, reader: Affine) -> None:
        self.reader = reader

    def split(self, instances: isl.Set, body: Expr) -> list[Part]:
        """Parts of `instances`, each with a body in which selects decided there are resolved.

        Parts of full dimension are cut first, so that with too many parts only edges keep a select.
        """
        return [part for _, part in self.by_branch(instances, body)]

    def by_branch(self, instances: isl.Set, body: Expr) -> list[tuple[Branch, Part]]:
        """The parts of `split`, each with the branches that lead to it."""
        done: list[tuple[Branch, Part]] = []
        waiting: list[tuple[int, int, Branch, Part]] = [(0, 0, (), (instances, body))]
        number = 0
        while waiting and len(done) + len(waiting) < MOST_BODIES:
            _, _, branch, part = waiting.pop(waiting.index(min(waiting, key=lambda entry: entry[:2])))
            cut = self._cut(*part)
            if len(cut) == 1:
                done.append((branch, cut[0]))
            for which, each in enumerate(cut) if len(cut) > 1 else ():
                number += 1
                waiting.append((sets.equalities(each[0]), number, (*branch, which), each))
        return done + [(branch, part) for _, _, branch, part in waiting]

    def _cut(self, instances: isl.Set, body: Expr) -> list[Part]:
        """The parts on which the outermost affine select of a body is decided; the part alone if it has none."""
        while (found := self._affine(body)) is not None:
            select, holds = found
            inside, outside = instances.intersect(holds).coalesce(), instances.subtract(holds).coalesce()
            if not outside.is_empty() and not inside.is_empty():
                return [(inside, _decided(body, select, True)), (outside, _decided(body, select, False))]
            body = _decided(body, select, outside.is_empty())
        return [(instances, body)]

    def _affine(self, body: Expr) -> tuple[Select, isl.Set] | None:
        """The outermost affine select of a body, and where its condition holds."""
        for select in _selects(body):
            try:
                return select, self.reader.condition(select.condition)
            except NotAffine:
                continue
        return None


def _selects(body: Expr) -> Iterator[Select]:
    """The selects of a body, outer ones first, also those inside indices (neighbours that wrap or are clamped)."""
    waiting, seen = [body], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Select):
            yield node
        waiting += reversed(node.children())


def _decided(body: Expr, decided: Select, holds: bool) -> Expr:
    """The body with one select, and all others of the same condition, replaced by the branch taken."""
    key = decided.condition.key()

    def branch(e: Expr) -> Expr | None:
        if isinstance(e, Select) and e.condition.key() == key:
            return rewrite(as_typed(e.yes if holds else e.no, e.dtype), branch)
        return None

    return rewrite(body, branch)


# -- the commands as values


@dataclass(frozen=True, eq=False)
class SeparateCases(OnStatements):
    """The computation is cut into parts by the cases of its selects."""

    level: Iter | None = None

    def applied(self, program: Program) -> Program:
        return separate_cases(program, self.names(program), self.level)
