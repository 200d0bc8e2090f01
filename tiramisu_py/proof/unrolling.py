"""Unrolled loops, whose bodies are repeated in the emitted text, are not too long for that."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from tiramisu_py import sets
from tiramisu_py.program.loops import MOST_COPIES, MOST_STRIPS, Loop, Unroll, Vector
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.proof.violations.findings import Finding, fault

#: The largest unroll factor that a repair suggests.
_FACTOR = 8


def faults(program: Program) -> Iterator[Finding]:
    """Loops that would be repeated too often, and partial tiles that would have too many versions."""
    copies = {s.name: _Copies(program, s) for s in program.acting if _is_unrolled(program, s)}
    for loop in program.loops.values():
        if isinstance(loop.tag, Unroll):
            inside = [copies[s.name] for s in program.with_this_loop(loop.id) if s.name in copies]
            if inside:
                yield from _too_long(loop, inside)


def constant_extent(program: Program, statement: Statement, loop: Loop) -> int | None:
    """The most iterations of a loop of a statement, if that is a constant; None if it is not."""
    found = _Copies(program, statement)._extent(loop)
    return None if found is None else found[0]


def _is_unrolled(program: Program, statement: Statement) -> bool:
    return any(isinstance(program.loops[loop].tag, Unroll) for loop in statement.loops)


def _too_long(loop: Loop, inside: list[_Copies]) -> Iterator[Finding]:
    first = inside[0].statement
    below = sum(each.below(loop) for each in inside)
    times = max(each.times(loop) for each in inside)
    versions = sum(each.in_versions(loop) for each in inside)
    handle, most = first.handle, f"at most {MOST_COPIES:,} are allowed"
    if times > 1 and times * below > MOST_COPIES:
        factor = min(_FACTOR, MOST_COPIES // below)
        message = f"unrolling loop {loop.name} of {handle} makes {times * below:,} statements of it; {most}"
        repair = f"{handle}.unroll({loop.name}, {factor})" if factor > 1 else f"leave {handle}.unroll({loop.name}) out"
        yield fault("bounds", f"unrolled {loop.id}", first, message, repair)
    elif versions > 2 * MOST_COPIES:  # with a few more than fit, lowering leaves a loop for the rest
        message = (
            f"a version of loop {loop.name} of {handle} for each number of iterations of partial tiles makes "
            f"{versions:,} statements of it; {most}"
        )
        calls = " and ".join(f"{handle}.unroll({each.name})" for each in inside[0].special())
        repair = f'make the tiles smaller, or leave out remainder="specialize" of {calls}'
        yield fault("bounds", f"versions {loop.id}", first, message, repair)


class _Copies:
    """How often a statement is repeated in the emitted text."""

    def __init__(self, program: Program, statement: Statement) -> None:
        self.program = program
        self.statement = statement
        self.instances = statement.instances.intersect_params(program.context.params())
        self._extents: dict[int, tuple[int, bool] | None] = {}

    def times(self, loop: Loop) -> int:
        """How often one loop repeats the statement, apart from loops outside and inside; 1 if it stays a loop."""
        if not isinstance(loop.tag, Unroll):
            return 1
        extent = self._extent(loop)
        if extent is None:
            return loop.tag.factor or 1
        return extent[0] if loop.tag.factor is None else min(loop.tag.factor, extent[0])

    def below(self, loop: Loop) -> int:
        """How often the loops inside a loop repeat the statement."""
        inside = self.statement.loops[self.statement.depth(loop.id) + 1 :]
        return prod(self.times(self.program.loops[each]) for each in inside)

    def in_versions(self, loop: Loop) -> int:
        """How often all versions of partial tiles repeat the statement, if this loop is the first with any; else 0."""
        special = self.special()
        if not special or special[0] is not loop:
            return 0
        return prod(self._versions(self.program.loops[number]) for number in self.statement.loops)

    def special(self) -> list[Loop]:
        """The statement's loops that have versions for partial tiles."""
        loops = (self.program.loops[number] for number in self.statement.loops)
        return [loop for loop in loops if isinstance(loop.tag, Unroll) and loop.tag.remainder == "specialize"]

    def _versions(self, loop: Loop) -> int:
        extent = self._extent(loop)
        if isinstance(loop.tag, Vector):
            strips = max(1, (extent[0] if extent else 0) // loop.tag.width)
            return strips if loop.tag.partial == "loop" or strips > MOST_STRIPS else strips + strips * (strips + 1) // 2
        if not isinstance(loop.tag, Unroll) or loop.tag.remainder != "specialize":
            return self.times(loop)
        most = self.times(loop) if loop.tag.factor is None else loop.tag.factor
        if loop.tag.factor is None and (extent is None or extent[1]):
            return self.times(loop)
        return most * (most + 1) // 2

    def _extent(self, loop: Loop) -> tuple[int, bool] | None:
        """The constant bound of a loop's trip count, and whether the loop always reaches it; None if there is none."""
        if loop.id not in self._extents:
            self._extents[loop.id] = self._found(self.statement.depth(loop.id))
        return self._extents[loop.id]

    def _found(self, depth: int) -> tuple[int, bool] | None:
        outside = sets.graph(self.statement.prefix(depth), self.instances)
        here = sets.function(self.statement.frame, None, [sets.outputs(self.statement.coords)[depth]])
        executed = outside.reverse().apply_range(sets.graph(here)).coalesce()
        relation = executed.gist_domain(executed.domain()).coalesce()  # the bounds that hold in all iterations outside
        most = sets.interval_around(relation)
        if most is None:
            return None
        high = sets.plus(most.low, most.extent - 1).to_pw_aff()
        domain = executed.domain()
        full = sets.box([most.low.to_pw_aff()], [high], domain.get_space()).intersect_domain(domain)
        return most.extent, bool(full.is_subset(executed))
