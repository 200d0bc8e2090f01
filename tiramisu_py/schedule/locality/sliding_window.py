"""The strips of values that slide along a loop: how far each iteration advances, and how many strips it reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

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


@dataclass(frozen=True)
class Window:
    """Sliding strips of `by` values along `axis`; strip 0 begins at `start`, a form of the outer coordinates.

    Iteration t computes strip ``t + lead``, and reads strips from ``t + first`` to ``t + lead``.
    """

    axis: int
    by: int
    start: isl.Aff
    first: int
    lead: int

    @property
    def count(self) -> int:
        """The number of strips that an iteration reads or computes."""
        return self.lead - self.first + 1

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


def _steps(needed: isl.Map, axis: int, depth: int) -> dict[int, list[isl.Aff]]:
    """The steps by which needed values advance along an axis, each with its origins (forms of outer coordinates)."""
    found: dict[int, list[isl.Aff]] = {}
    for bound in sets.lower_bounds(sets.component(needed, axis)):
        step = sets.stride(bound, depth)
        if step is not None and step > 0:
            space = sets.sized_frame(bound.get_domain_space(), None, depth)
            zero = [*sets.variables(space), sets.constant(space, 0)]
            (form,) = sets.outputs(sets.compose(sets.function(space, None, zero), sets.function(*_on_frame(bound))))
            constant = sets.terms(form).constant if sets.terms(form).denominator == 1 else 0
            found.setdefault(step, []).append(sets.plus(form, -constant))
    return found


def _axis(
    sliding: Sliding, names: list[list[str]], moving: dict[int, dict[int, list[isl.Aff]]], along: str | None, level: str
) -> int:
    source = sliding.source
    if along is None:
        if len(moving) == 1:
            return next(iter(moving))
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


def _measured(needed: isl.Map, axis: int, step: int, start: isl.Aff, depth: int) -> Window | None:
    """The window of strips that iterations read, counted from their own strip; None if it has no constant bound."""
    pairs = sets.flat_pairs(needed, "pairs")
    space = pairs.get_space()
    variables = sets.variables(space)
    window = Window(axis, step, start, 0, 0)
    distance = window.from_start(space, variables[:depth], variables[depth + 1 + axis])
    strip = sets.floor_div(distance, step).sub(variables[depth])
    strips = pairs.apply(sets.graph(sets.function(space, None, [strip])))
    found = sets.interval(strips, 0)
    return None if found is None else replace(window, first=found[0], lead=found[1])
