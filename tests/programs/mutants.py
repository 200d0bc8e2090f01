"""Programs changed by hand at random: times, places, points, extents and instances that no command would give."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import islpy as isl

from tests.programs.drafts import ByHand
from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Const
from tiramisu_py.algorithm.types import int64
from tiramisu_py.errors import CommandError
from tiramisu_py.program.command import Entry
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.proof import Report, check


@dataclass
class Mutant:
    """A program and its report, under the names that a script has for them."""

    program: Program

    @property
    def function(self) -> Mutant:
        return self

    def check(self) -> Report:
        return check(self.program)


def mutated(program: Program, choice: random.Random) -> Mutant:
    """The program after one to three changes; changes that make no sense are left out."""
    for _ in range(choice.choice((1, 1, 2, 3))):
        change = choice.choice(_CHANGES)
        try:
            changed = change(program, choice)
            assert changed.positions is not None
        except (CommandError, IndexError):
            continue
        program = changed.after(program, Entry(ByHand(change.__name__, lambda p: p)))
    return Mutant(program)


def _chosen(program: Program, choice: random.Random) -> Statement:
    return choice.choice(list(program.statements.values()))


def _fewer(program: Program, choice: random.Random) -> Program:
    """A statement without the instances in which one dimension is 0, 1 or 2."""
    statement = _chosen(program, choice)
    variable = choice.choice(sets.variables(statement.frame))
    gone = sets.as_set(variable.eq_set(sets.constant(statement.frame, choice.choice((0, 1, 1, 2)))))
    return program.with_statement(replace(statement, instances=statement.instances.subtract(gone)))


def _other_time(program: Program, choice: random.Random) -> Program:
    statement = _chosen(program, choice)
    coords = _changed(sets.outputs(statement.coords), choice, _TIMES)
    return program.with_statement(replace(statement, coords=sets.function(statement.frame, None, coords)))


def _other_point(program: Program, choice: random.Random) -> Program:
    statement = _chosen(program, choice)
    point = _changed(sets.outputs(statement.point), choice, _SHIFTS)
    name = sets.out_name(sets.graph(statement.point))
    return program.with_statement(replace(statement, point=sets.function(statement.frame, name, point)))


def _other_index(program: Program, choice: random.Random) -> Program:
    storage = choice.choice([s for s in program.storages.values() if s.buffer not in program.algorithm.inputs])
    space = storage.index.get_space().domain()
    index = _changed(sets.outputs(storage.index), choice, _INDICES)
    return program.with_storage(replace(storage, index=sets.function(space, None, index)))


def _other_extent(program: Program, choice: random.Random) -> Program:
    buffer = choice.choice([b for b in program.buffers.values() if b.name not in program.algorithm.inputs])
    extents = list(buffer.extents)
    axis = choice.choice(range(len(extents)))
    extents[axis] = extents[axis] + Const(choice.choice((-1, 1)), int64)
    return program.with_buffer(replace(buffer, extents=tuple(extents)))


def _shared_loop(program: Program, choice: random.Random) -> Program:
    """A statement alone in its outermost loop moves into that of another."""
    joining, other = _chosen(program, choice), _chosen(program, choice)
    old, new = joining.loops[0], other.loops[0]
    taken = len(program.with_this_loop(old)) > 1 or any(old in buffer.scope for buffer in program.buffers.values())
    if old == new or taken:
        return program
    return program.with_statement(replace(joining, loops=(new, *joining.loops[1:])))


Change = Callable[[isl.Aff], isl.Aff]

_SHIFTS: tuple[Change, ...] = (lambda x: sets.plus(x, 1), lambda x: sets.plus(x, -1))
_TIMES: tuple[Change, ...] = (
    *_SHIFTS,
    lambda x: x.neg(),
    lambda x: sets.floor_div(x, 2),
    lambda x: sets.modulo(x, 2),
    lambda x: sets.scaled(x, 0),
)
_INDICES: tuple[Change, ...] = (
    *_SHIFTS,
    lambda x: sets.modulo(x, 1),
    lambda x: sets.modulo(x, 2),
    lambda x: sets.floor_div(x, 2),
)


def _changed(components: list[isl.Aff], choice: random.Random, changes: tuple[Change, ...]) -> list[isl.Aff]:
    position = choice.choice(range(len(components)))
    components[position] = choice.choice(changes)(components[position])
    return components


_CHANGES = (_fewer, _other_time, _other_time, _other_index, _other_extent, _shared_loop, _other_point)
