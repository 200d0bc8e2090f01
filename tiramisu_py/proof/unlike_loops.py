"""Loops that statements share by position, though they count different things: this is right, but may not be meant."""

from __future__ import annotations

from collections.abc import Iterator

from tiramisu_py import sets
from tiramisu_py.program.loops import Loop
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.proof.violations.repairs import divisors


def unlike(program: Program) -> Iterator[str]:
    """Pairs of statements whose shared loop was split by different sizes, or runs over another iterator of one."""
    seen = set[frozenset[str]]()
    for loop in program.loops.values():
        inside = [s for s in program.with_this_loop(loop.id) if s.acts and not loop.added]
        for statement in inside[1:]:
            pair = frozenset((inside[0].name, statement.name))
            said = _split(loop, inside[0], statement) or _turned(loop, statement)
            if said and pair not in seen:
                seen.add(pair)
                yield said


def _split(loop: Loop, first: Statement, second: Statement) -> str:
    sizes = [divisors(sets.outputs(s.coords)[s.depth(loop.id)]) for s in (first, second)]
    if not all(sizes) or sizes[0] == sizes[1]:
        return ""
    taken = [f"{', '.join(map(str, size))} in {s.handle}" for size, s in zip(sizes, (first, second), strict=True)]
    return f"loop {loop.name} is shared by its position, and was split by {taken[0]}, and by {taken[1]}"


def _turned(loop: Loop, statement: Statement) -> str:
    """The words for a loop that has the name of another iterator of a statement than the one it runs over."""
    form = sets.outputs(statement.coords)[statement.depth(loop.id)]
    if loop.name not in statement.dims:
        return ""
    for name, variable in zip(statement.dims, sets.variables(statement.frame), strict=True):
        if name != loop.name and form.plain_is_equal(variable):
            return f"loop {loop.name} is shared by its position, and runs over the {name} of {statement.handle}"
    return ""
