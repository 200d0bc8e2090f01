"""A command on the buffer of a computation is for all of its statements: one part cannot have another buffer."""

from __future__ import annotations

from collections.abc import Sequence

from tiramisu_py.errors import CommandError
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement


def check_all_parts(program: Program, own: Sequence[Statement], command: str) -> None:
    """Refuse a command on a buffer that is for `own`, if these are only some of the statements that store to it.

    All statements of a computation store to one place, because a read may need values from several of them.
    """
    names = {statement.name for statement in own}
    left_out = [s for s in program.storing if s.name not in names and any(_one_thing(s, other) for other in own)]
    if not left_out:
        return
    first, whole = own[0], _whole(own[0])
    raise CommandError(
        f"{whole} has one buffer for all of its statements, and {', '.join(s.handle for s in left_out)} "
        f"store{'s' if len(left_out) == 1 else ''} to it as {first.handle} does: say {whole}.{command}(...), for all "
        f"of them; {_instead(whole, command)}"
    )


def _instead(whole: str, command: str) -> str:
    if command == "compute_at":
        return f"or first keep {whole} for the whole call, {whole}.store_at(consumer, tm.root)"
    return "for a buffer of its own, make a part a computation of its own, or a copy of it"


def kept_apart(program: Program, source: str) -> bool:
    """Whether the statements of a computation store to several places, so that naming a part selects one."""
    return len({statement.memory.target for statement in program.statements_of(source)}) > 1


def _one_thing(a: Statement, b: Statement) -> bool:
    """Whether two statements compute values of one computation, or are parts of one copy."""
    if a.source != b.source or a.link.message is not None or a.link.transfer is not None:
        return False
    if Role.COPY in (a.role, b.role):
        return a.role is b.role and _whole(a) == _whole(b)
    return True


def _whole(statement: Statement) -> str:
    """The handle of the computation or of the copy that a statement is a part of."""
    if statement.role is not Role.COPY:
        return statement.source
    return statement.origin.part_of[0] if statement.origin.part_of else statement.name
