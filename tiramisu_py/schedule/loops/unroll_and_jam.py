"""Unroll-and-jam: copies of the iterations of an outer loop side by side in the innermost loop."""

from __future__ import annotations

from collections.abc import Iterable

from tiramisu_py import sets
from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.domains.domain import conjuncts
from tiramisu_py.algorithm.expressions import Binary, Iter
from tiramisu_py.algorithm.traversal import accesses, iterators
from tiramisu_py.errors import CommandError
from tiramisu_py.program.fresh_names import free_loop
from tiramisu_py.program.loops import LoopId, Unroll
from tiramisu_py.program.ordering import shared
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import find, loop_name, loops_named, size
from tiramisu_py.schedule.command_fields import OnStatements
from tiramisu_py.schedule.loops.tags import tag_loop
from tiramisu_py.schedule.loops.transforms import permuted, split


def _jammed(program: Program, statement: Statement, loop: LoopId) -> Program:
    """A loop inside all others but those whose iteration it chooses, ``place[loop]``."""
    inside = statement.loops[statement.depth(loop) + 1 :]
    chosen = [each for each in inside if each in _chosen(program, statement, loop)]
    return permuted(program, statement, (*(each for each in inside if each not in chosen), loop, *chosen))


def _chosen(program: Program, statement: Statement, loop: LoopId) -> set[LoopId]:
    """The loops over places of a scatter that a loop over its terms chooses."""
    found = set[LoopId]()
    names = dict(zip(program.point_names(statement), sets.outputs(statement.point), strict=False))
    coords = dict(zip(statement.loops, sets.outputs(statement.coords), strict=True))

    def loops(inside: Iterable[str]) -> set[LoopId]:
        axes = {axis for name in inside if name in names for axis in sets.axes_of(names[name])}
        return {each for each, form in coords.items() if axes & sets.axes_of(form)}

    for condition in (typed(part) for guard in statement.guards for part in conjuncts(guard)):
        if isinstance(condition, Binary) and condition.op == "==":
            for place, value in ((condition.left, condition.right), (condition.right, condition.left)):
                if not accesses(place) and accesses(value) and loop in loops(iterators(value)):
                    found |= loops(iterators(place))
    return found


def _check_alone(program: Program, statement: Statement, loop: LoopId) -> None:
    """Refuse a loop whose statements do not share all the loops inside of it."""
    for other in program.with_this_loop(loop):
        if other.loops[: shared(statement, other)] != max(statement.loops, other.loops, key=len):
            name = program.loops[loop].name
            raise CommandError(
                f"{statement.handle} and {other.handle} share the loop {name}, but not all loops inside of it, so "
                f"its iterations cannot be jammed: unroll_and_jam {name} first, and then place {other.handle} in the "
                f"loops of {statement.handle} (compute_at, after)"
            )


# -- the commands as values


@dataclass(frozen=True, eq=False)
class UnrollAndJam(OnStatements):
    """Repeat the body of the loops inside `loop` for `factor` of its iterations, side by side.

    ::

        for r in 0..R:          -->   for r in 0..ceil(R / 2):
            for c in 0..C:                for c in 0..C:
                S[r, c]                       S[2*r, c]
                                              S[2*r + 1, c]           (unroll_and_jam(r, 2))

    So the copies share their loads: eight rows of a 3 x 3 stencil need ten rows of its input, not 24. The command
    is ``split(r, 2, r, r_jam)``, with `r_jam` moved inside all other loops (a vector loop too, but not those over the
    places of a scatter that r chooses) and unrolled there;
    `outer` and `inner` are other names for the two loops. A last, shorter block keeps a loop.

    Computations that S reads are moved into its loops afterwards, by `compute_at`, and have their own loops there:
    after ``p.compute_at(S, c)``, ``p.unroll(r)`` repeats the rows of p that the copies of S need. The start and the
    update of a reduction are jammed each in its own loops. Raises `CommandError` for a tagged loop, and for a loop
    shared by statements that do not share all loops inside of it. Source: Allen and Kennedy.
    """

    spelled_out = ("outer", "inner")

    loop: Iter
    factor: int
    outer: Iter | None = None
    inner: Iter | None = None

    def applied(self, program: Program) -> Program:
        names, loop = self.names(program), loop_name(self.loop)
        factor = size(self.factor, f"the block size of {loop}")
        found = loops_named(program, names, loop)
        for statement, number in found:
            _check_alone(program, statement, number)
        jammed = [statement for _, number in found for statement in program.with_this_loop(number)]
        outer = loop if self.outer is None else loop_name(self.outer)
        inner = free_loop(program, jammed, f"{loop}_jam") if self.inner is None else loop_name(self.inner)
        program = split(program, names, loop, factor, outer, inner)
        inside = sorted({statement.name for statement in jammed})
        for name in inside:
            statement = program.statements[name]
            moved = find(program, statement, inner)
            assert moved is not None
            program = _jammed(program, statement, moved)
        return tag_loop(program, inside, inner, Unroll(), self.text)
