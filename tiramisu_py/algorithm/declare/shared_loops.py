"""The order of values that depend on each other: loops that several computations share.

Allen and Kennedy's distribution of loops, on values. At each depth, computations whose values depend on each other in a
cycle share the loop of this depth, over a dimension of each and in the direction in which all values that are read come
first or in the same iteration, if necessary after a shift; what is read in an earlier iteration matters no more inside.
The others follow one another. Dimensions are taken in the declared order, and upwards, where that serves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.records import dataclass

#: For a reader and a source: ``value of the reader -> value of the source that it reads``.
Reads = dict[tuple[str, str], isl.Map]
#: The dimensions of each computation that have no loop yet, outermost first.
Left = Mapping[str, tuple[int, ...]]
#: So many choices of a dimension for each computation are tried at a depth.
MOST_CHOICES = 64


@dataclass(frozen=True)
class SharedLoop:
    """A loop at `depth` around the loops of `inside`, which run one after another; a loop of one name is its own.

    `dims` names the dimension of each computation's values that the loop is over. It runs backwards if it
    `is_reversed`; each computation is `delays` iterations later than the loop says.
    """

    depth: int
    dims: Mapping[str, int]
    is_reversed: bool
    delays: Mapping[str, int]
    inside: tuple[SharedLoop | str, ...]

    @property
    def members(self) -> tuple[str, ...]:
        """The computations in the loop, in order."""
        return tuple(name for each in self.inside for name in ((each,) if isinstance(each, str) else each.members))


def shared_loops(members: Iterable[str], reads: Reads, ranks: Mapping[str, int]) -> list[SharedLoop | str] | None:
    """The loops of some computations, in order; None where none is found."""
    return _nests(members, reads, {name: tuple(range(ranks[name])) for name in members}, 0)


def upward_dims(nests: Sequence[SharedLoop | str], name: str) -> list[int]:
    """The dimensions of a computation whose loops it needs, those that run upwards."""
    found: list[int] = []
    for nest in nests:
        if isinstance(nest, SharedLoop) and name in nest.members:
            found += [] if nest.is_reversed else [nest.dims[name]]
            found += upward_dims(nest.inside, name)
    return found


def is_in_order(read: isl.Map) -> bool:
    """Whether each value that a computation reads of itself comes earlier, in the order of the domain."""
    return bool(read.is_subset(isl.Map.lex_gt(read.get_space().domain())))


def _nests(members: Iterable[str], reads: Reads, left: Left, depth: int) -> list[SharedLoop | str] | None:
    """The loops inside `depth` loops that the computations share."""
    nests: list[SharedLoop | str] = []
    for cycle in _in_order(list(members), reads):
        inner = {pair: read for pair, read in reads.items() if pair[0] in cycle and pair[1] in cycle}
        if not inner:
            nests += cycle
            continue
        nest = _one_nest(cycle, inner, left, depth)
        if nest is None:
            return None
        nests.append(nest)
    return nests


def _one_nest(cycle: list[str], reads: Reads, left: Left, depth: int) -> SharedLoop | None:
    """The loop around computations whose values depend on each other: forwards, or else backwards."""
    for dims in islice(_choices(cycle, left), MOST_CHOICES):
        rest = {name: tuple(dim for dim in left[name] if dim != dims[name]) for name in cycle}
        for is_reversed in (False, True):
            delays = _delays(cycle, reads, dims, is_reversed)
            if delays is None:
                continue
            same = {pair: _same(read, pair, dims, _apart(pair, delays, is_reversed)) for pair, read in reads.items()}
            inner = {pair: read for pair, read in same.items() if not read.is_empty()}
            inside = _nests(cycle, inner, rest, depth + 1)
            if inside is not None:
                return SharedLoop(depth, dims, is_reversed, delays, tuple(inside))
    return None


def _choices(cycle: Sequence[str], left: Left) -> Iterator[dict[str, int]]:
    """A dimension of each computation: the outermost ones first, then those that are farther inside."""
    chosen = sorted(product(*(range(len(left[name])) for name in cycle)), key=sum)
    return ({name: left[name][at] for name, at in zip(cycle, places, strict=True)} for places in chosen)


def _delays(cycle: list[str], reads: Reads, dims: Mapping[str, int], is_reversed: bool) -> dict[str, int] | None:
    """The least number of iterations by which each computation is late, so that none reads from a later one."""
    least = {pair: _least(read, pair, dims, is_reversed) for pair, read in reads.items()}
    delays = dict.fromkeys(cycle, 0)
    for _ in cycle:
        for (reader, source), ahead in least.items():
            if ahead is None:
                return None
            delays[reader] = max(delays[reader], delays[source] - ahead)
    settled = all(ahead is not None and delays[r] + ahead >= delays[s] for (r, s), ahead in least.items())
    return delays if settled else None


def _apart(pair: tuple[str, str], delays: Mapping[str, int], is_reversed: bool) -> int:
    """How much greater the index of a value is than that of its reader, if they are in one iteration."""
    later = delays[pair[0]] - delays[pair[1]]
    return -later if is_reversed else later


def _least(read: isl.Map, pair: tuple[str, str], dims: Mapping[str, int], is_reversed: bool) -> int | None:
    """The least number of iterations by which values are ahead of their readers; None if there is none."""
    reader, source = (dims[name] for name in pair)
    along = sets.component(sets.component(read.reverse(), reader).reverse(), source)
    return sets.least_distance(along if is_reversed else along.reverse(), 0)


def _same(read: isl.Map, pair: tuple[str, str], dims: Mapping[str, int], apart: int) -> isl.Map:
    """The reads of values whose index is greater by a number than that of the reader."""
    return sets.ahead_at(read, dims[pair[0]], dims[pair[1]], apart)


def _in_order(members: list[str], reads: Reads) -> list[list[str]]:
    """The members by cycles of reads, sources first; of those that are ready, the one declared first."""
    needed = {name: _reached(name, reads) for name in members}
    cycles: list[list[str]] = []
    while waiting := [name for name in members if not any(name in cycle for cycle in cycles)]:
        done = {name for cycle in cycles for name in cycle}
        for name in waiting:
            cycle = [other for other in members if other == name or (other in needed[name] and name in needed[other])]
            if needed[name] <= done | set(cycle):
                cycles.append(cycle)
                break
    return cycles


def _reached(name: str, reads: Reads) -> set[str]:
    """The computations that one needs, directly or not."""
    found, waiting = set[str](), [name]
    while waiting:
        reader = waiting.pop()
        new = {source for other, source in reads if other == reader} - found
        found |= new
        waiting += new
    return found
