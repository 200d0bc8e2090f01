"""Permutable bands of loops: the least skews and shifts after which no dependence points backwards along any loop.

Such loops can be tiled and put in any order. Along each loop x_k, outermost first, the band has

    x'_k  =  +-x_k + shift_k(statement) + sum over m < k of factor_km * x'_m

with the least factors, those of the outermost loop last, and then the least shifts, for which all distances of
dependences are at least 0. This is a small integer program: a form is at least 0 for all distances if it is so at the
corners of their hull, and does not fall in its directions. Source: Feautrier, Some Efficient Solutions to the Affine
Scheduling Problem; Bondhugula et al., A Practical Automatic Polyhedral Parallelizer and Locality Optimizer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.errors import CommandError
from tiramisu_py.program.command import Command
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.program import Program, nest
from tiramisu_py.program.statement import Statement
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import find, statements
from tiramisu_py.schedule.loops.correcting_shifts import references
from tiramisu_py.schedule.loops.nest_dependences import NestDependence, nest_dependences
from tiramisu_py.schedule.loops.order import Fuse
from tiramisu_py.schedule.loops.transforms import Reverse, Shift
from tiramisu_py.schedule.loops.unimodular import Skew
from tiramisu_py.sets import smallest


@dataclass(frozen=True)
class Band:
    """Loops that can be tiled and permuted after the commands, outermost first.

    `factors` are the multiples of the loops before it that are added to each loop, `turned` the loops that run
    backwards, `shifts` how much later each statement runs along each loop. A loop is `independent` if no dependence
    goes from one of its iterations to another, so that it is parallel wherever it stands; it is `parallel` if it is so
    in each iteration of the loops of the band around it. `tiles` are the loops over tiles, and `threads` is the loop on
    threads, that the commands make. A printed band is its commands.
    """

    loops: tuple[str, ...]
    factors: tuple[tuple[int, ...], ...]
    turned: tuple[str, ...]
    shifts: Mapping[str, tuple[int, ...]]
    independent: tuple[bool, ...]
    parallel: tuple[bool, ...]
    commands: tuple[Command, ...]
    tiles: tuple[str, ...] = ()
    threads: str | None = None

    def __str__(self) -> str:
        return "\n".join(command.text for command in self.commands)


@dataclass
class _Found:
    """The choice for the loops so far; for each dependence its generators in the new coordinates."""

    signs: list[int] = field(default_factory=list)
    factors: list[list[int]] = field(default_factory=list)
    shifts: list[list[int]] = field(default_factory=list)
    distances: list[list[list[int]]] = field(default_factory=list)


def permutable_band(program: Program, names: Sequence[str], loops: Sequence[str] | None = None) -> Band:
    """The band of these loops of statements, or of as many of their outermost loops as possible.

    Statements that do not share the loops are fused. Raises `CommandError` if named loops are no band, with a pair of
    iterations that no skew keeps in order.
    """
    chosen = statements(program, names)
    if not chosen:
        raise CommandError("a band needs statements")
    outer, depth = band_range(program, chosen, loops)
    while True:
        search = _Search(program, chosen, outer, depth)
        failed = search.run()
        if failed is None:
            return search.band()
        if loops is not None or failed == 0:
            raise CommandError(search.obstacle(failed))
        depth = outer + failed


def band_range(program: Program, chosen: Sequence[Statement], loops: Sequence[str] | None) -> tuple[int, int]:
    """The depths at which a band begins and ends."""
    first = chosen[0]
    least = min(chosen, key=lambda s: len(s.loops))
    if not least.loops:
        raise CommandError(f"{nest(program, least)}: a band needs a loop")
    if loops is None:
        return 0, len(least.loops)
    found = [find(program, first, name) for name in loops]
    if not found or any(loop is None for loop in found):
        absent = [name for name, loop in zip(loops, found, strict=True) if loop is None]
        raise CommandError(
            f"{nest(program, first)}, and no loop {', '.join(absent)}"
            if absent
            else f"{nest(program, first)}: name at least one of them, or leave the loops out"
        )
    begin = first.depth(_known(found[0]))
    if tuple(found) != first.loops[begin : begin + len(found)]:
        raise CommandError(f"{nest(program, first)}: name loops that follow one another, not {', '.join(loops)}")
    if len(least.loops) < begin + len(found):
        raise CommandError(f"{nest(program, least)}: too few for a band of {', '.join(loops)}")
    for other in chosen[1:]:
        if other.loops[:begin] != first.loops[:begin]:
            raise CommandError(f"{first.handle} and {other.handle} do not share the loops around {loops[0]}")
    return begin, begin + len(found)


def _known(loop: LoopId | None) -> LoopId:
    assert loop is not None
    return loop


class _Search:
    """The search for a band of the loops from `outer` up to `depth` of statements."""

    def __init__(self, program: Program, chosen: Sequence[Statement], outer: int, depth: int) -> None:
        self.outer, self.depth = outer, depth
        self.names = [s.name for s in chosen]
        self.fusions, self.fused = _fused(program, self.names, depth)
        first = self.fused.statements[self.names[0]]
        self.loops = [self.fused.loops[loop].name for loop in first.loops[outer:depth]]
        self.dependences = nest_dependences(program, self.fused, self.names, outer, depth)
        self.legal = [one for one in self.dependences if not one.add_up]
        self.found = _Found()

    def run(self) -> int | None:
        """Find the band; the number of the first loop that cannot belong to it, or None."""
        apart: frozenset[NestDependence] = frozenset()
        while True:
            self.found = _Found(distances=[[[] for _ in one.generators] for one in self.dependences])
            for k in range(len(self.loops)):
                if not any(self._extended(k, sign, apart) for sign in (1, -1)):
                    return k
            late = {one for one in self.legal if one not in apart and self._meet(one) and self._is_late(one)}
            if not late:
                return None
            apart |= late

    def _extended(self, k: int, sign: int, apart: frozenset[NestDependence]) -> bool:
        """Add the loop k, in its direction or turned; False if no factors and shifts keep all dependences."""
        rows: list[tuple[list[int], int]] = []
        for one, new in zip(self.dependences, self.found.distances, strict=True):
            if one.add_up:
                continue
            for (weight, old), made in zip(one.generators, new, strict=True):
                late = weight if one in apart and k == len(self.loops) - 1 else 0
                rows.append(([*made, *self._shift_row(one, weight)], sign * old[k] - late))
            if one.is_tied:
                rows += [([0] * k + self._shift_row(one, by), 0) for by in (1, -1)]
        count = k + len(self.names)
        chosen = sets.least_integers(rows, count, [range(1, k), range(min(k, 1)), range(k, count)])
        if chosen is None:
            return False
        factors, shifts = chosen[:k], chosen[k:]
        for one, new in zip(self.dependences, self.found.distances, strict=True):
            for (weight, old), made in zip(one.generators, new, strict=True):
                moved = [a * b for a, b in zip(self._shift_row(one, weight), shifts, strict=True)]
                made.append(sign * old[k] + sum(a * b for a, b in zip(factors, made, strict=True)) + sum(moved))
        self.found.signs.append(sign)
        self.found.factors.append(factors)
        self.found.shifts.append(shifts)
        return True

    def _shift_row(self, one: NestDependence, weight: int) -> list[int]:
        """The distance that the shifts of the statements add."""
        row = [0] * len(self.names)
        row[self.names.index(one.second.name)] += weight
        row[self.names.index(one.first.name)] -= weight
        return row

    def _meet(self, one: NestDependence) -> bool:
        """Whether both iterations of some pair become the same iteration of the band."""
        at = self.dependences.index(one)
        return any(
            weight and not any(new) for (weight, _), new in zip(one.generators, self.found.distances[at], strict=True)
        )

    def _is_late(self, one: NestDependence) -> bool:
        """Whether pairs in one iteration of the band may be in the wrong order there."""
        a, b = (self.names.index(each.name) for each in (one.first, one.second))
        return one.is_strict or (one.is_inner and any(by[a] != by[b] for by in self.found.shifts))

    # -- the result

    def band(self) -> Band:
        """The band that has been found."""
        count = len(self.loops)
        vectors = [new for distances in self.found.distances for new in distances]
        sums = [
            new
            for one, distances in zip(self.dependences, self.found.distances, strict=True)
            for new in distances
            if one.add_up
        ]
        independent = tuple(not any(new[k] for new in vectors) for k in range(count))
        inside = [[new for new in vectors if not any(new[:k])] for k in range(count)]
        parallel = tuple(not any(new[k] for new in (*inside[k], *sums)) for k in range(count))
        return Band(
            loops=tuple(self.loops),
            factors=tuple(map(tuple, self.found.factors)),
            turned=tuple(name for name, sign in zip(self.loops, self.found.signs, strict=True) if sign < 0),
            shifts={name: tuple(by[n] for by in self.found.shifts) for n, name in enumerate(self.names)},
            independent=independent,
            parallel=parallel,
            commands=tuple(self._commands()),
        )

    def _commands(self) -> list[Command]:
        """The fusions, and for each loop its reversal, its shifts and its skew."""
        made: list[Command] = list(self.fusions)
        (base,) = references(self.fused, self.names[:1])
        for k, name in enumerate(self.loops):
            loop = Iter(name)
            if self.found.signs[k] < 0:
                made.append(Reverse(base, loop))
            for by in sorted(set(self.found.shifts[k]) - {0}):
                moved = [n for n, shift in zip(self.names, self.found.shifts[k], strict=True) if shift == by]
                made += [Shift(named, loop, by) for named in references(self.fused, moved)]
            factors = {Iter(o): by for o, by in zip(self.loops, self.found.factors[k], strict=False) if by}
            if len(factors) == 1:
                made += [Skew(base, outer, loop, by) for outer, by in factors.items()]
            elif factors:
                made.append(Skew(base, factors, loop))
        return made

    def obstacle(self, k: int) -> str:
        """Why the loop k cannot belong to the band, with a pair of iterations, and what to do."""
        loops, outer = ", ".join(self.loops), f", {', '.join(self.loops[:k])}" if k else ""
        for one in self.legal:
            wrong = sets.greater_at(one.pairs, self.outer + k)
            if not wrong.is_empty():
                params = smallest.smallest_params(wrong)
                pair = smallest.first(sets.flat_pairs(sets.fixed_map(wrong, params), "pair"))
                a, b = (", ".join(map(str, part)) for part in (pair[: self.depth], pair[self.depth :]))
                sizes = "".join(f", {name} = {value}" for name, value in params.items())
                return (
                    f"{loops} are no band: {one.second.handle} in iteration {b} needs {one.first.handle} of iteration "
                    f"{a}{sizes}, and no constant skew or shift of {self.loops[k]} keeps all such pairs in order; name "
                    f"fewer loops{outer}"
                )
        names = ", ".join(self.fused.statements[name].handle for name in self.names)
        return f"{loops} are no band: no shift of {names} along {self.loops[k]} keeps their order; name fewer of them"


def _fused(program: Program, names: Sequence[str], depth: int) -> tuple[list[Fuse], Program]:
    """The fusions after which statements share their outermost loops, and the program after them."""
    made: list[Fuse] = []
    for name in names[1:]:
        base, other = program.statements[names[0]], program.statements[name]
        if other.loops[:depth] != base.loops[:depth]:
            (first,), (second,) = references(program, [base.name]), references(program, [name])
            made.append(Fuse(second, first, Iter(program.loops[base.loops[depth - 1]].name)))
            program = made[-1].applied(program)
    return made, program
