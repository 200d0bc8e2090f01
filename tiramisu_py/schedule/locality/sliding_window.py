"""The strips of values that slide along a loop: how far each iteration advances, and how many strips it reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import value_names
from tiramisu_py.errors import CommandError
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.program.storage import Storage
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.locality.compute_at import read_by

#: The steps by which values advance along axes, each with its origins.
Moving = dict[int, dict[Fraction, list[isl.Aff]]]
#: The most iterations in which a window moves once.
SLOWEST = 16


@dataclass(frozen=True)
class Window:
    """Sliding strips of `by` values along `axis`; strip 0 begins at `start`, a form of the outer coordinates.

    Iteration t computes strip ``t + lead``, and reads strips from ``t + first`` to ``t + lead``. A slow window moves
    on in each `every`-th iteration: t stands for ``floor((t + phase) / every)``, and the first of the iterations with
    one such number computes.
    """

    axis: int
    by: int
    start: isl.Aff
    first: int
    lead: int
    every: int = 1
    phase: int = 0

    @property
    def count(self) -> int:
        """The number of strips that an iteration reads or computes."""
        return self.lead - self.first + 1

    def turn(self, iteration: isl.Aff) -> isl.Aff:
        """The number of the turn that an iteration belongs to, which is its own unless the window is slow."""
        return iteration if self.every == 1 else sets.floor_div(sets.plus(iteration, self.phase), self.every)

    def time(self, distance: isl.Aff) -> isl.Aff:
        """The iteration that computes a value at this distance from the start."""
        turn = sets.plus(sets.floor_div(distance, self.by), -self.lead)
        return turn if self.every == 1 else sets.plus(sets.scaled(turn, self.every), -self.phase)

    def from_start(self, space: isl.Space, outer: Sequence[isl.Aff], value: isl.Aff) -> isl.Aff:
        """The distance of a value from the start; the outer coordinates and the value are forms on one frame."""
        where = sets.compose(sets.function(space, None, outer), sets.function(*_on_frame(self.start)))
        return value.sub(sets.outputs(where)[0])


def _on_frame(form: isl.Aff) -> tuple[isl.Space, None, list[isl.Aff]]:
    return form.get_domain_space(), None, [form]


@dataclass(frozen=True, eq=False)
class Sliding:
    """A sliding producer: its statements, the loop and its depth, the storage, and the statements that read it."""

    source: str
    own: tuple[Statement, ...]
    loop: LoopId
    depth: int
    storage: Storage
    readers: tuple[Statement, ...]


def window_of(program: Program, sliding: Sliding, along: str | None, by: int | None, origin: int) -> Window:
    needed = read_by(program, sliding.source, sliding.readers, sliding.depth + 1).intersect_params(program.context)
    names = _value_names(program, sliding)
    moving = {axis: steps for axis in range(len(names)) if (steps := _steps(needed, axis, sliding.depth))}
    level = program.loops[sliding.loop].name
    if not moving:
        _check_steady(program, sliding, needed, names)
    axis = _axis(sliding, names, moving, along, level)
    steps = moving[axis]
    if by is not None and by not in steps:
        distance = " or ".join(map(str, steps))
        raise CommandError(
            f"an iteration of {level} moves the window by {distance} along {names[axis][0]}, not by {by}: give "
            f"by={distance}"
        )
    windows = [
        window
        for step, starts in steps.items()
        if by in (None, step)
        for start in starts
        if (window := _measured(needed, axis, step, sets.plus(start, origin), sliding.depth)) is not None
    ]
    if not windows:
        raise CommandError(
            f"the part of {sliding.source} that an iteration of {level} reads has no constant extent along "
            f"{names[axis][0]}: a window that slides has a constant size"
        )
    return min(windows, key=lambda window: window.count * window.by)


def _value_names(program: Program, sliding: Sliding) -> list[list[str]]:
    """The names of each value index: the declared one, and those of the loops that run along it."""
    names = [[name] for name in value_names(program.algorithm.source(sliding.source))]
    for statement in sliding.own:
        values = sets.outputs(program.value_of(statement))
        inner = list(zip(statement.loops, sets.outputs(statement.coords), strict=True))[sliding.depth + 1 :]
        for loop, form in inner:
            for own, value in zip(names, values, strict=True):
                if form.plain_is_equal(value) and program.loops[loop].name not in own:
                    own.insert(0, program.loops[loop].name)
    return names


def _steps(needed: isl.Map, axis: int, depth: int) -> dict[Fraction, list[isl.Aff]]:
    """The steps by which needed values advance along an axis, each with its origins (forms of outer coordinates).

    A whole number of values for each iteration, or one value for a few of them.
    """
    found: dict[Fraction, list[isl.Aff]] = {}
    for bound in sets.lower_bounds(sets.component(needed, axis)):
        step = _step(bound, depth)
        if step is not None:
            space = sets.sized_frame(bound.get_domain_space(), None, depth)
            zero = [*sets.variables(space), sets.constant(space, 0)]
            (form,) = sets.outputs(sets.compose(sets.function(space, None, zero), sets.function(*_on_frame(bound))))
            constant = sets.terms(form).constant if sets.terms(form).denominator == 1 else 0
            found.setdefault(step, []).append(sets.plus(form, -constant))
    return found


def _step(bound: isl.Aff, depth: int) -> Fraction | None:
    """How far a bound moves in an iteration: by whole values, or by one of them in a few; None if otherwise."""
    whole, slope = sets.stride(bound, depth), sets.slope(bound, depth)
    if whole is not None:
        return Fraction(whole) if whole > 0 else None
    return slope if slope > 0 and slope.numerator == 1 and 1 < slope.denominator <= SLOWEST else None


def _check_steady(program: Program, sliding: Sliding, needed: isl.Map, names: list[list[str]]) -> None:
    """Refuse a window that moves, but not by the same strip in each iteration, or once in a few."""
    level, reader = program.loops[sliding.loop].name, sliding.readers[0].handle
    for axis, (name, *_) in enumerate(names):
        for bound in sets.lower_bounds(sets.component(needed, axis)):
            turn = sets.period(bound, sliding.depth)
            steps = sets.slope(bound, sliding.depth) * turn
            if steps > 0:
                source, outer = sliding.source, f"{level}_outer"
                raise CommandError(
                    f"{turn} iterations of {level} together move by {steps} along {name} what they read of {source}, "
                    f"and a window moves by one strip in each, or once in a few: first {reader}.split({level}, {turn}, "
                    f"{outer}, {level}_inner), then {source} is computed, and slides, in {outer}"
                )


def _axis(sliding: Sliding, names: list[list[str]], moving: Moving, along: str | None, level: str) -> int:
    source = sliding.source
    if along is None:
        steady = [axis for axis, steps in moving.items() if any(step.denominator == 1 for step in steps)]
        if len(steady or moving) == 1:
            return next(iter(steady or moving))
        if not moving:
            raise CommandError(f"the part of {source} that an iteration of {level} reads is the same in each of them")
        listed = ", ".join(names[axis][0] for axis in moving)
        raise CommandError(f"several indices of {source} move with {level}: name one of {listed} as along")
    for axis, own in enumerate(names):
        if along in own:
            if axis in moving:
                return axis
            raise CommandError(f"the part of {source} that an iteration of {level} reads does not move along {along}")
    known = ", ".join(own[0] for own in names)
    raise CommandError(f"{along} is not an index of {source}: choose one of {known}")


def _measured(needed: isl.Map, axis: int, step: Fraction, start: isl.Aff, depth: int) -> Window | None:
    """The window of strips that iterations read, counted from their own strip; None if it has no constant bound."""
    pairs = sets.flat_pairs(needed, "pairs")
    space = pairs.get_space()
    variables = sets.variables(space)
    found = list[Window]()
    for phase in range(step.denominator):
        window = Window(axis, step.numerator, start, 0, 0, step.denominator, phase)
        distance = window.from_start(space, variables[:depth], variables[depth + 1 + axis])
        strip = sets.floor_div(distance, window.by).sub(window.turn(variables[depth]))
        strips = sets.interval(pairs.apply(sets.graph(sets.function(space, None, [strip]))), 0)
        if strips is not None:
            found.append(replace(window, first=strips[0], lead=strips[1]))
    return min(found, key=lambda window: window.count, default=None)
