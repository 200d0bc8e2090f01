"""All loops of a statement at once: a form of its iterators for each, or an isl map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Self

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Expr, Iter, as_expr
from tiramisu_py.errors import CommandError
from tiramisu_py.program.loops import Loop
from tiramisu_py.program.program import Program, nest
from tiramisu_py.program.statement import Statement
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import statements
from tiramisu_py.schedule.command_fields import Named, OnStatements


def raw_schedule(program: Program, names: Sequence[str], given: object) -> Program:
    """Replace the loops of a statement by those of ``{a: i + j, b: j}``, or of an isl map ``{ [i, j] -> [a, b] }``."""
    own = statements(program, names)
    if len(own) != 1:
        raise CommandError(f"a time map is for one statement; choose one of {', '.join(s.name for s in own)}")
    statement = own[0]
    if not isinstance(given, str | Mapping):
        raise CommandError(f"a time map is loops with their forms, {{i0: i // 8, ...}}, not {type(given).__name__}")
    for buffer in program.buffers.values():
        if scoped := [program.loops[loop].name for loop in buffer.scope if loop in statement.loops]:
            raise CommandError(
                f"{statement.name} has the loop {scoped[0]}, and {buffer.name} a copy for each iteration of it: "
                "give it the time map before store_at and compute_at"
            )
    for loop in (program.loops[number] for number in statement.loops):
        if loop.is_rank:
            raise CommandError(
                f"loop {loop.name} of {statement.handle} runs on ranks ({loop.tagged_by}), and a time map makes all "
                "loops anew: give it the time map before tag_distribute"
            )
    if isinstance(given, Mapping):
        relation, loop_names = _of_forms(program, statement, given), [str(loop) for loop in given]
        text = "{" + ", ".join(f"{loop}: {form}" for loop, form in given.items()) + "}"
        coords = _as_function(statement, relation, text)
    else:
        relation = _parsed(program, statement, given)
        coords = _as_function(statement, relation, given)
        loop_names = _output_names(relation, statement, coords)
    first = program.next_loop()
    loops = [Loop(first + k, name) for k, name in enumerate(loop_names)]
    changed = replace(statement, coords=coords, loops=tuple(loop.id for loop in loops))
    return _outside(program, statement).with_loop(*loops).with_statement(changed)


def _outside(program: Program, statement: Statement) -> Program:
    """The program without what orders a statement in the loops that it leaves to others."""
    kept = [
        order for order in program.orders
        if statement.name not in (order.before, order.after) or order.level not in statement.loops
    ]  # fmt: skip
    return program.with_(orders=tuple(kept))


def _of_forms(program: Program, statement: Statement, given: Mapping[object, object]) -> isl.Map:
    """The map of loops with their forms; raises `CommandError` for what is no form of the statement's iterators."""
    reader, forms = Affine(statement.frame), []
    for loop, form in given.items():
        if not isinstance(loop, Iter):
            raise CommandError(f"{loop!r} is no loop of a time map: name loops by iterators, {{i0: i // 8, ...}}")
        if not isinstance(form, Expr | int) or isinstance(form, bool):
            raise CommandError(f"the loop {loop} of a time map is {form!r}, and no form of iterators")
        try:
            forms.append(reader.single(as_expr(form)))
        except NotAffine as error:
            raise CommandError(
                f"the loop {loop} of a time map is {form}, and {error.part} is no linear form of "
                f"{', '.join(statement.dims)}: {nest(program, statement)}"
            ) from None
    return sets.graph(sets.function(statement.frame, None, forms))


def _parsed(program: Program, statement: Statement, text: str) -> isl.Map:
    try:
        relation = sets.as_map(sets.read_map(program.algorithm.isl_context, text))
    except sets.IslTextError as error:
        raise CommandError(f"isl cannot read the time map {text!r}: {error}") from None
    if sets.in_size(relation) != len(statement.dims):
        raise CommandError(
            f"the time map {text!r} takes {sets.in_size(relation)} dimensions: {nest(program, statement)}"
        )
    unknown = [name for name in sets.params(relation) if name not in program.algorithm.params]
    if unknown:
        raise CommandError(f"the time map {text!r} uses {', '.join(unknown)}, which is not a parameter")
    if sets.in_name(relation) not in ("", statement.name, statement.source):
        raise CommandError(f"the time map {text!r} is for {sets.in_name(relation)}, not for {statement.name}")
    return sets.aligned_map(relation, statement.frame, None)


def _as_function(statement: Statement, relation: isl.Map, text: str) -> isl.MultiAff:
    missing = statement.instances.subtract(relation.domain())
    if not missing.is_empty():
        raise CommandError(f"the time map {text!r} leaves out instances of {statement.name}")
    inside = relation.intersect_domain(statement.instances)
    if not inside.is_single_valued():
        raise CommandError(f"the time map {text!r} gives an instance of {statement.name} several times")
    if not inside.is_injective():
        raise CommandError(f"the time map {text!r} puts several instances of {statement.name} at one time")
    found = sets.as_single_function(inside)
    if found is None:
        raise CommandError(f"the time map {text!r} has several pieces: cut {statement.name} with separate_at first")
    return found


def _output_names(relation: isl.Map, statement: Statement, coords: isl.MultiAff) -> list[str]:
    """The names of the loops: of the output dimensions, else of equal instance dimensions, else t0, t1, ..."""
    variables = sets.variables(statement.frame)
    names = []
    for k, (given, coordinate) in enumerate(zip(sets.out_dim_names(relation), sets.outputs(coords), strict=True)):
        same = [dim for dim, v in zip(statement.dims, variables, strict=True) if v.plain_is_equal(coordinate)]
        names.append(given or (same[0] if same else f"t{k}"))
    if len(set(names)) < len(names):
        raise CommandError(f"the time map of {statement.name} names a loop twice: {', '.join(names)}")
    return names


# -- the commands as values


@dataclass(frozen=True, eq=False)
class SetSchedule(OnStatements):
    """Replace all loops: each new loop is a form of the iterators, or they are given by an isl map.

    ::

        for i in 0..N:          -->   for d in 0..N + M - 1:
            for j in 0..M:                for j in max(0, d - N + 1)..min(M, d + 1):
                S[i, j]                       S[d - j, j]
                                                     (set_schedule({d: i + j, j: j}))

    Loops are given outermost first, and may have quotients and remainders, ``{i0: i // 8, j: j, i1: i % 8}``. An isl
    map, ``"{ [i, j] -> [i0 = floor(i / 8), j, i1 = i mod 8] }"``, takes the statement's instances to its loops; names
    of output dimensions become the names of the loops (t0, t1, ... where they have none). A statement that shares loops
    leaves them to the others, so that the members of a group can have loops of their own, and share those afterwards
    (`Function.order`). Raises `CommandError` for what is no linear form, for loops that leave out instances or have
    several at one time, for a map of several pieces, and if a buffer has a copy for each iteration of one of the loops.
    """

    map: str | Mapping[Iter, Expr]

    @classmethod
    def called(cls, of: Named, text: str | Mapping[Iter, Expr | int]) -> Self:
        if isinstance(text, Mapping):
            return cls(of, {loop: as_expr(form) if isinstance(form, int) else form for loop, form in text.items()})
        return cls(of, text)

    def applied(self, program: Program) -> Program:
        return raw_schedule(program, self.names(program), self.map)
