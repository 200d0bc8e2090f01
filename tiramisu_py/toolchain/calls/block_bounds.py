"""Blocks whose bounds are known at run time only: the bounds of each rank if the caller does not give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tiramisu_py.algorithm.domains.extents_from_arguments import extent_value, params_of
from tiramisu_py.algorithm.expressions import Binary, Param
from tiramisu_py.errors import ArgumentError
from tiramisu_py.ir import BlockBounds
from tiramisu_py.toolchain.calls.arguments import Arguments, as_size

#: The lower bound and the upper bound of a rank's block, its size in this rank's arrays, and the total extent.
Known = tuple[int | None, int | None, int | None, int | None]


def balanced(extent: int, ranks: int, rank: int, least: int) -> tuple[int, int]:
    """A rank's block in an even distribution over as many ranks as can have at least `least` indices each."""
    used = max(1, min(ranks, extent // least))
    if rank >= used:
        return extent, extent
    each, more = divmod(extent, used)
    lower = rank * each + min(rank, more)
    return lower, lower + each + (rank < more)


def with_blocks(
    arguments: Arguments, bounds: BlockBounds, comm: Any, positional: Sequence[object], named: Mapping[str, object]
) -> tuple[dict[str, object], int]:
    """The named arguments with the bounds of this rank's block (and the extent), and the number of ranks with a block.

    Collective. Bounds that are not given follow from the sizes of the ranks' arrays, in rank order; without such
    arrays, the indices are distributed evenly. Raises the same `ArgumentError` on every rank.
    """
    given = dict(named)
    known: Known = (None, None, None, None)
    fault: str | None = None
    try:
        known = _known(arguments, bounds, positional, given)
    except Exception as error:  # whatever it is, the others must not wait for this rank
        fault = str(error)
    every = comm.allgather((known, fault))
    for rank, (_, fault) in enumerate(every):
        if fault is not None:
            raise ArgumentError(f"{fault} (on rank {rank})")
    blocks = _blocks([known for known, _ in every], bounds, arguments.function.name)
    given[bounds.lower], given[bounds.upper] = blocks[comm.rank]
    if isinstance(bounds.extent, Param) and bounds.extent.name not in given:
        given[bounds.extent.name] = max(upper for _, upper in blocks)
    return given, max(1, sum(lower < upper for lower, upper in blocks))


def _known(
    arguments: Arguments, bounds: BlockBounds, positional: Sequence[object], given: Mapping[str, object]
) -> Known:
    """The data that this rank knows about its block."""
    low, high = (as_size(n, given[n]) if n in given else None for n in (bounds.lower, bounds.upper))
    values = {name: as_size(name, given[name]) for name in arguments.function.params if name in given}
    whole = extent_value(bounds.extent, values) if params_of(bounds.extent) <= set(values) else None
    passed = {**dict(zip(arguments.inputs, positional, strict=False)), **given}
    rows = None
    for name, array in arguments.arrays.items():
        shape = getattr(passed.get(name), "shape", ())
        for extent, size in zip(array.extents, shape, strict=False):
            if _is_width(extent, bounds):
                rows = int(size)
    return low, high, rows, whole


def _is_width(extent: object, bounds: BlockBounds) -> bool:
    if not (isinstance(extent, Binary) and extent.op == "-"):
        return False
    sides = (extent.left, extent.right)
    return all(isinstance(side, Param) for side in sides) and [str(side) for side in sides] == [
        bounds.upper,
        bounds.lower,
    ]


def _blocks(known: Sequence[Known], bounds: BlockBounds, name: str) -> list[tuple[int, int]]:
    """The block of each rank, from the data of all ranks."""
    count, found, at = len(known), list[tuple[int, int]](), 0
    for rank, (low, high, rows, whole) in enumerate(known):
        if low is not None and high is not None:
            block = (low, high)
        elif rows is not None:
            start = at if low is None else low
            block = (start, start + rows)
        elif whole is not None:
            block = balanced(whole, count, rank, bounds.least)
        else:
            raise ArgumentError(
                f"{name} cannot infer the block of rank {rank}: give {bounds.lower}= and {bounds.upper}="
            )
        found.append(block)
        at = block[1]
    return found
