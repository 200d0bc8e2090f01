"""Commands that say on which ranks loops run, and which ranks hold the caller's arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tiramisu_py.algorithm.expressions import Binary, Const, Expr, Iter
from tiramisu_py.errors import CommandError
from tiramisu_py.program.distribution import Dealt, Distribution, Spread
from tiramisu_py.program.loops import Combine, Rank
from tiramisu_py.program.program import Program
from tiramisu_py.schedule.selection import listed, loop_name, loops_named
from tiramisu_py.schedule.tags import tagged


def tag_distribute(
    program: Program, names: Sequence[str], loops: Sequence[object], local: bool, combine: Combine | None, command: str
) -> Program:
    """Run loops on ranks: the first along axis 0 of the process grid, the second along axis 1, and so on."""
    if not loops:
        raise CommandError("tag_distribute needs a loop")
    for axis, given in enumerate(loops):
        for _, loop in loops_named(program, names, given):
            program = tagged(program, loop, Rank(axis, local, combine), command)
    return program


def distribute(program: Program, source: str, iterators: Sequence[object], rank: object) -> Program:
    """Let the ranks hold an input or an output in parts: the element ``[iterators]`` where `rank` says."""
    names = [loop_name(iterator, "an iterator") for iterator in listed(iterators, "the list of iterators")]
    if len(set(names)) < len(names):
        raise CommandError(f"an iterator is named twice: {', '.join(names)}")
    extents = program.buffers[program.storages[source].buffer].extents
    if len(names) != len(extents):
        raise CommandError(f"{source} has {len(extents)} dimensions: name an iterator for each of them")
    at = {name: dim for dim, name in enumerate(names)}
    along = list(rank) if isinstance(rank, tuple | list) else [rank]
    distribution = Distribution(tuple(_spread(given, at) for given in along))
    return program.with_(distributions={**program.distributions, source: distribution})


def _spread(given: object, at: Mapping[str, int]) -> Spread:
    """What is held along one axis: ``r // B``, ``(r // B) % P``, a rank's coordinate, or None for every one."""
    if given is None or (isinstance(given, int) and not isinstance(given, bool) and given >= 0):
        return given
    if isinstance(given, Iter) and given.name in at:
        return Dealt(at[given.name], 1)
    if isinstance(given, Binary) and given.op == "//":
        size = _size(given.right)
        if isinstance(given.left, Iter) and given.left.name in at and size is not None:
            return Dealt(at[given.left.name], size)
    if isinstance(given, Binary) and given.op == "%":
        inner, cycle = _spread(given.left, at), _size(given.right)
        if isinstance(inner, Dealt) and inner.cycle is None and cycle is not None:
            return Dealt(inner.dim, inner.block, cycle)
    raise CommandError(
        f"rank={given}: give blocks (r // B, with a number B), blocks that go round ((r // B) % P), the coordinate of "
        "one rank, or None for all; on a grid of several axes a tuple with one of these for each"
    )


def _size(given: Expr) -> int | None:
    whole = isinstance(given, Const) and isinstance(given.value, int) and given.value > 0
    return int(given.value) if whole else None  # type: ignore[attr-defined]
