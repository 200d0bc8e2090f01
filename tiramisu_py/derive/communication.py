"""How much a program moves between memories: elements, bytes and messages, counted exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.derive.boxes import copies_of
from tiramisu_py.errors import ArgumentError
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Device, Statement


@dataclass(frozen=True)
class Moved:
    """What one transfer moves in a call: elements, bytes, and messages (operations that are put on a sequence)."""

    name: str
    direction: str
    elements: int
    bytes: int
    messages: int


@dataclass(frozen=True)
class Communication:
    """What all transfers of a program move in a call, and what each of them does."""

    transfers: tuple[Moved, ...] = ()

    @property
    def elements(self) -> int:
        """How many elements are moved."""
        return sum(moved.elements for moved in self.transfers)

    @property
    def bytes(self) -> int:
        """How many bytes are moved."""
        return sum(moved.bytes for moved in self.transfers)

    @property
    def messages(self) -> int:
        """How many copies are made."""
        return sum(moved.messages for moved in self.transfers)

    def towards(self, direction: str) -> Communication:
        """Only what goes in one direction, as in ``"host -> gpu 0"``."""
        return Communication(tuple(moved for moved in self.transfers if moved.direction == direction))

    def __str__(self) -> str:
        rows = [
            f"{m.name}: {m.direction}, {m.elements} elements, {m.bytes} bytes in {m.messages} operations"
            for m in self.transfers
        ]
        return "\n".join(
            [*rows, f"together {self.elements} elements, {self.bytes} bytes in {self.messages} operations"]
        )


def communication(program: Program, params: Mapping[str, int]) -> Communication:
    """What a program moves at some parameter values."""
    _check(program, params)
    transfers = (s for s in program.statements.values() if s.transfer is not None)
    return Communication(tuple(_moved(program, statement, params) for statement in transfers))


def _check(program: Program, params: Mapping[str, int]) -> None:
    names = program.algorithm.params
    missing = [name for name in names if name not in params]
    unknown = [name for name in params if name not in names]
    if missing or unknown:
        wrong = f"{', '.join(missing)} has no value" if missing else f"{', '.join(unknown)} is not one of them"
        raise ArgumentError(f"{program.algorithm.name} has the parameters {', '.join(names)}: {wrong}")
    if sets.fixed(program.context, params).is_empty():
        values = ", ".join(f"{name} = {params[name]}" for name in names)
        raise ArgumentError(f"{program.algorithm.name} is not defined for {values}")


def _moved(program: Program, statement: Statement, params: Mapping[str, int]) -> Moved:
    assert statement.transfer is not None
    instances = sets.fixed(statement.instances, params)
    elements = points(instances)
    messages = sum(points(sets.fixed(iterations, params)) for iterations in copies_of(program, statement))
    size = program.buffers[program.storages[statement.target].buffer].dtype.bytes
    direction = f"{_words(statement.transfer.source)} -> {_words(statement.transfer.target)}"
    return Moved(statement.name, direction, elements, elements * size, messages)


def _words(device: Device) -> str:
    return "host" if device is None else f"gpu {device}"


def points(of: isl.Set) -> int:
    """How many elements a finite set without parameters has."""
    return sum(_in_piece(piece) for piece in sets.basic_sets(of.coalesce()))


def _in_piece(piece: isl.Set) -> int:
    sides = [sets.interval(piece, axis) for axis in range(sets.size(piece))]
    count, inside = 1, sets.universe(piece.get_space())
    for variable, side in zip(sets.variables(piece.get_space()), sides, strict=True):
        if side is None:
            return 0
        count *= side[1] - side[0] + 1
        inside = inside.intersect(sets.within(variable, side[0], side[1] + 1))
    return count if inside.is_subset(piece) else int(piece.count_val().to_python())
