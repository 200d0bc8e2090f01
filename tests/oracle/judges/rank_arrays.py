"""Distributed functions in one process: whole arrays are cut into blocks, run on ranks, and joined again.

::

    lapped = run_on_ranks(f, 4, seed=1, C=201, image=image)     # what evaluate() returns, from four ranks
    ran = ran_on_ranks(f, 4, seed=1, C=201, image=image)        # .outputs, .traffic (messages, bytes), .blocks

`ranks` is the number of ranks that take part; None is as many as the function needs. A rank that holds an element of
an output must have it right: holders that differ are an `AssertionError`. `function` is loop IR to be run instead of
``lower(f.completed)``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

import tiramisu_py as tm
from tests.oracle.judges.plain import Point, integers, points
from tests.oracle.judges.plain import function as compiled
from tiramisu_py.interpret import Traffic, interpret_ranks
from tiramisu_py.ir import ArrayArgument, LoopFunction
from tiramisu_py.lower import lower
from tiramisu_py.program.machine.distribution import Dealt, Distribution, Pieces

Array = np.ndarray[Any, np.dtype[Any]]
#: What the caller's memory holds where no value is.
GARBAGE = 77


@dataclass(frozen=True)
class Ran:
    """What came of a run: whole outputs, what was sent, and the arrays of each rank by argument."""

    outputs: tuple[Array, ...]
    traffic: Traffic
    blocks: tuple[Mapping[str, Array], ...]


def run_on_ranks(
    f: tm.Function, ranks: int | None = None, seed: int = 0, *, function: LoopFunction | None = None, **given: Any
) -> Any:
    """The outputs of a distributed function, as `evaluate()` returns them; values that nobody holds are garbage."""
    outputs = ran_on_ranks(f, ranks, seed, function=function, **given).outputs
    return outputs if len(outputs) > 1 else outputs[0]


def ran_on_ranks(
    f: tm.Function, ranks: int | None = None, seed: int = 0, *, function: LoopFunction | None = None, **given: Any
) -> Ran:
    """A run of a distributed function on whole arrays."""
    loops = lower(f.completed) if function is None else function
    params = {name: int(given[name]) for name in f.program.algorithm.params}
    shape = (1,) if loops.grid is None else integers(loops.grid.extents, params)
    needed = int(np.prod(shape))
    places = list(product(*map(range, shape)))
    layout = Layout(f, loops, params)
    blocks = [layout.cut(place, given) for place in places]
    idle: list[dict[str, Array]] = [{} for _ in range((needed if ranks is None else ranks) - needed)]
    arguments = blocks if ranks is None or ranks >= needed else blocks[:ranks]
    traffic = interpret_ranks(loops, [*arguments, *idle], params, seed)
    return Ran(layout.joined(places, blocks), traffic, tuple(blocks))


@dataclass(frozen=True)
class Layout:
    """Which rank holds which elements of which argument."""

    f: tm.Function
    loops: LoopFunction
    params: Mapping[str, int]

    def cut(self, place: Point, given: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of one rank."""
        found: dict[str, Any] = {}
        for declared in self.loops.arguments:
            if not isinstance(declared, ArrayArgument):
                found[declared.name] = given[declared.name]
                continue
            held = self.held(declared, place)
            shape = self._shape(declared, place)
            if held is None:
                assert 0 in shape, f"{declared.name} has shape {shape} on {place}, which holds nothing of it"
                found[declared.name] = np.empty(shape, declared.dtype.numpy)
                continue
            own = tuple(map(len, held))
            assert own == shape, f"{declared.name} has shape {shape} on {place}, where its block is {own}"
            if declared.is_input:
                found[declared.name] = np.array(given[declared.name][np.ix_(*held)] if held else given[declared.name])
            else:
                found[declared.name] = np.full(own, GARBAGE, declared.dtype.numpy)
        return found

    def _shape(self, declared: ArrayArgument, place: Point) -> Point:
        names = () if self.loops.grid is None else self.loops.grid.coordinates
        known = {**self.params, **dict(zip(names, place, strict=False))}
        return tuple(max(0, n) for n in integers(declared.passed_extents, known))

    def held(self, declared: ArrayArgument, place: Point) -> Sequence[Sequence[int]] | None:
        """For each dimension the indices that a rank holds; None where it holds nothing at all."""
        program = self.f.program
        extents = [max(0, n) for n in integers(program.buffers[declared.name].extents, self.params)]
        indices: list[Sequence[int]] = [range(extent) for extent in extents]
        distribution = self._distribution(declared)
        for axis, spread in enumerate(distribution.axes if distribution else ()):
            if isinstance(spread, int) and place[axis] != spread:
                return None
            if isinstance(spread, Dealt):
                indices[spread.dim] = [i for i in indices[spread.dim] if _owner(spread, i) == place[axis]]
            if isinstance(spread, Pieces):
                owners = _owners_of_pieces(spread, extents[spread.dim], self.params)
                indices[spread.dim] = [i for i in indices[spread.dim] if owners[i] == place[axis]]
        return indices

    def _distribution(self, declared: ArrayArgument) -> Distribution | None:
        outputs = zip(self.f.program.algorithm.outputs, self.loops.outputs, strict=True)
        sources = [declared.name, *(name for name, argument in outputs if argument == declared.name)]
        return next((d for name, d in self.f.program.ranks.distributions.items() if name in sources), None)

    def joined(self, places: Sequence[Point], blocks: Sequence[Mapping[str, Any]]) -> tuple[Array, ...]:
        """The outputs in full, with indices of values."""
        program = self.f.program
        found = []
        for name, argument in zip(program.algorithm.outputs, self.loops.outputs, strict=True):
            declared = next(a for a in self.loops.arguments if a.name == argument)
            assert isinstance(declared, ArrayArgument)
            extents = [max(0, n) for n in integers(program.buffers[argument].extents, self.params)]
            whole, known = np.full(extents, GARBAGE, declared.dtype.numpy), np.zeros(extents, dtype=bool)
            element_of = compiled(program.storages[name].index, self.params)
            values = points(program.algorithm.computations[name].domain, self.params)
            elements = {element_of(value) for value in values}
            for place, block in zip(places, blocks, strict=True):
                held = self.held(declared, place)
                for local, element in _pairs(held) if held is not None else ():
                    if element in elements:
                        got = block[argument][local]
                        same = not known[element] or got.tobytes() == whole[element].tobytes()
                        assert same, f"{name} at {element} is {got} on {place}, and {whole[element]} elsewhere"
                        whole[element], known[element] = got, True
            missing = [element for element in sorted(elements) if not known[element]]
            assert not missing, f"no rank holds {name} at {missing[0]}"
            result = np.full(_extents(values, extents), GARBAGE, declared.dtype.numpy)
            for value in values:
                result[value] = whole[element_of(value)]
            found.append(result)
        return tuple(found)


def _extents(values: Sequence[Point], at_least: Sequence[int]) -> Sequence[int]:
    if not values or len(values[0]) == len(at_least):
        return at_least
    return [max(column) + 1 for column in zip(*values, strict=True)]


def _owner(dealt: Dealt, index: int) -> int:
    number = index // dealt.block
    return number if dealt.cycle is None else number % dealt.cycle


def _owners_of_pieces(pieces: Pieces, extent: int, params: Mapping[str, int]) -> list[int]:
    """The rank of each index: that of the first piece whose point is above it, or of the last piece."""
    points = integers(pieces.points, params)
    return [
        next((rank for rank, point in zip(pieces.ranks, points, strict=False) if i < point), pieces.ranks[-1])
        for i in range(extent)
    ]


def _pairs(held: Sequence[Sequence[int]]) -> list[tuple[Point, Point]]:
    """Each element that a rank holds, by its place in the block and in the whole."""
    return list(zip(product(*(range(len(some)) for some in held)), product(*held), strict=True))


def agreed(f: tm.Function, outputs: Any, **given: Any) -> str:
    """The first value that is not what `evaluate()` says; empty where all are."""
    return differing(f, outputs, f.evaluate(**given), {name: int(given[name]) for name in f.program.algorithm.params})


def differing(f: tm.Function, outputs: Any, expected: Any, params: Mapping[str, int]) -> str:
    """The first value of an output that is not as expected; empty where all are."""
    names = f.program.algorithm.outputs
    many = len(names) > 1
    for name, got, want in zip(names, outputs if many else (outputs,), expected if many else (expected,), strict=True):
        for value in sorted(points(f.program.algorithm.computations[name].domain, params)):
            if not (got[value] == want[value] or (np.isnan(got[value]) and np.isnan(want[value]))):
                return f"{name}{list(value)} is {got[value]}, not {want[value]}"
    return ""
