"""The threads of a block that copy a tile: which thread copies which element."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.program.loops import AXES, Loop
from tiramisu_py.records import dataclass

Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Spread:
    """How elements are dealt out: sequential loops with their coordinates, and a thread number for each axis x, y, z.

    A thread number comes with the name of its loop, which is empty if thread 0 does everything.
    """

    turns: tuple[tuple[Loop, isl.Aff], ...]
    numbers: tuple[tuple[str, isl.Aff], ...]


def spread(
    shape: Shape,
    iterators: Sequence[str],
    threads: Sequence[str] | None,
    at: Sequence[isl.Aff],
    extents: Sequence[int],
) -> Spread:
    """Deal out the elements `at` of a tile to the threads of a block cyclically, neighbours to neighbours.

    Each axis of the block takes one dimension, x the innermost, if the tile is large enough; otherwise the elements are
    dealt out in linear order. With `threads`, the dimensions named by these iterators are dealt out, the last one along
    x.
    """
    if threads is not None:
        axes = {len(threads) - 1 - k: iterators.index(name) for k, name in enumerate(threads)}
        widths = {a: shape[a] if shape[a] > 1 else extents[dim] for a, dim in axes.items()}
        return _by_dimensions(iterators, at, extents, axes, widths)
    used = [axis for axis, number in enumerate(shape) if number > 1]
    axes = {axis: len(extents) - 1 - k for k, axis in enumerate(used)}
    if all(dim >= 0 and extents[dim] >= shape[axis] for axis, dim in axes.items()):
        return _by_dimensions(iterators, at, extents, axes, {axis: shape[axis] for axis in axes})
    return _one_after_another(shape, iterators, at, extents)


def _by_dimensions(
    iterators: Sequence[str],
    at: Sequence[isl.Aff],
    extents: Sequence[int],
    axes: dict[int, int],
    widths: dict[int, int],
) -> Spread:
    zero = sets.constant(at[0].get_domain_space(), 0)
    numbers: list[tuple[str, isl.Aff]] = [("", zero)] * len(AXES)
    turns: list[tuple[Loop, isl.Aff]] = []
    axis_of = {dim: axis for axis, dim in axes.items()}
    for dim, (name, form) in enumerate(zip(iterators, at, strict=True)):
        axis = axis_of.get(dim)
        if axis is None:
            turns.append((Loop(0, name), form))
        elif extents[dim] <= widths[axis]:
            numbers[axis] = (name, form)
        else:
            turns.append((Loop(0, name), sets.floor_div(form, widths[axis])))
            numbers[axis] = (f"{name}_{AXES[axis]}", sets.modulo(form, widths[axis]))
    return Spread(tuple(turns), tuple(numbers))


def _one_after_another(shape: Shape, iterators: Sequence[str], at: Sequence[isl.Aff], extents: Sequence[int]) -> Spread:
    element = sets.constant(at[0].get_domain_space(), 0)
    for form, extent in zip(at, extents, strict=True):
        element = sets.scaled(element, extent).add(form)
    name = "_".join(iterators)
    numbers: list[tuple[str, isl.Aff]] = []
    before = 1
    for axis, number in enumerate(shape):
        part = sets.modulo(sets.floor_div(element, before), number)
        numbers.append((f"{name}_{AXES[axis]}" if number > 1 else "", part))
        before *= number
    turn = (Loop(0, name), sets.floor_div(element, before))
    return Spread((turn,) if prod(extents) > before else (), tuple(numbers))
