"""Statements of a computation made anew, where commands change what is computed and not only when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tiramisu_py.algorithm.declarations import Algorithm, Computation
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.errors import CommandError
from tiramisu_py.program.initial import with_computation
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role


def check_unscheduled(program: Program, whole: Computation, command: str) -> None:
    """Refuse what has been changed: its statements are made anew. `command` is the name of what does so."""
    own = [s for s in program.statements.values() if s.source == whole.name]
    names = {s.name for s in own}
    roles = {Role.INIT, Role.UPDATE} if whole.is_reduction else {Role.VALUE}
    if len(own) != len(roles) or {s.role for s in own} != roles:
        raise CommandError(f"{whole.name} is in parts, or copied: give {command} before the command that does so")
    for statement in own:
        shared = [s.handle for x in statement.loops for s in program.with_this_loop(x) if s.name not in names]
        tagged = [program.loops[x] for x in statement.loops if program.loops[x].tag is not None]
        if shared or tagged or any(names & {o.before, o.after} for o in program.orders):
            what = f"shares loops with {shared[0]}" if shared else "has been scheduled"
            raise CommandError(f"{statement.handle} {what}: give {command} first, and the commands on its loops then")
    last = next(s for s in own if s.role is not Role.INIT)
    plain = set(map(str, program.loop_names(last))) == set(whole.point_iterators)
    if not plain or last.body is not whole.expr or last.memory.sources:
        raise CommandError(
            f"{last.handle} has been rewritten: give {command} first, and the commands on its loops then"
        )


def rebuilt(
    program: Program,
    algorithm: Algorithm,
    changed: Computation,
    order: tuple[str, ...] | None = None,
    *,
    new_array: bool = False,
) -> Program:
    """The program of a changed `algorithm` with the statements of one computation made anew, in loops of this order.

    Its values stay in their array, or have a `new_array`. What else has changed keeps its statements.
    """
    name = changed.name
    own = [s.name for s in program.statements.values() if s.source == name]
    bare = program.with_(
        statements={key: s for key, s in program.statements.items() if key not in own},
        storages={key: s for key, s in program.storages.items() if key != name},
        buffers={key: b for key, b in program.buffers.items() if key != program.storages[name].buffer},
        algorithm=replace(algorithm, computations={k: c for k, c in algorithm.computations.items() if k != name}),
    )
    made = with_computation(bare, changed, order=order)
    statements = {key: made.statements[key] if key in own else s for key, s in program.statements.items()}
    used = {loop for s in statements.values() for loop in s.loops}
    loops = {number: each for number, each in made.loops.items() if number in used}
    kept = made if new_array else program
    return kept.with_(statements=statements, loops=loops, algorithm=algorithm)


def added_before(program: Program, added: Sequence[Computation], reader: str) -> Program:
    """The program with computations that are computed before one that will read them, which its algorithm lacks."""
    made = program
    for each in added:
        made = with_computation(made, each)
    names = {each.name for each in added}
    own = [s for s in made.statements.values() if s.source in names]
    rest = program.with_(loops=made.loops, buffers=made.buffers, storages=made.storages)
    first = [s.name for s in program.statements.values() if s.source == reader]
    for statement in own:
        rest = rest.with_statement_before(statement, first)
    return rest


def with_bodies(program: Program, change: Callable[[Expr], Expr | None], before: Algorithm) -> Program:
    """The program in which all statements read something else, as `change` says of a part of their expressions.

    Statements that compute what the algorithm said `before` compute what it says now, and count as unscheduled.
    """
    for s in [*program.statements.values()]:
        old, new = (known.computations.get(s.source) for known in (before, program.algorithm))
        as_declared = old is not None and new is not None and s.body is old.expr
        body = new.expr if as_declared and new is not None else rewrite(s.body, change)
        guards = tuple(rewrite(guard, change) for guard in s.guards)
        if body is not s.body or any(new is not old for new, old in zip(guards, s.guards, strict=True)):
            program = program.with_statement(replace(s, body=body, guards=guards))
    return program


def without(program: Program, name: str) -> Program:
    """The program in which a computation that nothing reads is not computed."""
    buffer = program.storages[name].buffer
    statements = {key: s for key, s in program.statements.items() if s.source != name}
    used = {loop for s in statements.values() for loop in s.loops}
    return program.with_(
        statements=statements,
        loops={number: each for number, each in program.loops.items() if number in used},
        storages={key: s for key, s in program.storages.items() if key != name},
        buffers={key: b for key, b in program.buffers.items() if key != buffer},
    )
