"""The bytes that come into a cache: a model of an ideal one, counted exactly by isl.

The cache has a capacity in bytes and holds what was used last (LRU), wherever it lies (fully associative), element by
element. A *body* is everything inside some loops, for one iteration of them; its footprint are the elements that it
reads or stores. Inside a body whose footprint fits, an element comes in once. So

    fetched(capacity) = sum of the footprints of all bodies of the outermost loops whose largest footprint fits,
                        less what the iteration before of the innermost of these loops has used, too,
                        where two such footprints fit.

Statements that fit into no body count each access. Bodies with too many different shapes are not looked at (`SHAPES`,
`OPERATIONS`): those inside them are, which count more. What is counted is an upper bound of the misses of that cache,
and equals them where nothing else is used again: for whole tiles. A copy that each iteration of some loops has of an
array lies where the last one did, so it stays in the cache. One core runs all iterations in order; cores that share a
parallel loop, or a rank each, have such a cache each. That an element goes back where it was stored is not counted once
more. Work on GPUs, copies to them, and messages have no part in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import islice

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.counting.lattice_points import Class, classes, count
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.program.statement import Statement
from tiramisu_py.proof.budget import Budget

#: The accesses of a statement that have bytes: each access, and the bytes of an element.
Accesses = Sequence[tuple[MemoryAccess, int]]
Relations = dict[object, tuple[isl.Map, int]]

#: Bodies of so many different shapes are counted: isl looks at each alone.
SHAPES = 100
#: The operations of isl for the bodies of some loops.
OPERATIONS = 4_000_000


class CacheTraffic:
    """The bytes that come into caches of any capacity, for statements of the host with their accesses."""

    def __init__(self, statements: Sequence[tuple[Statement, Accesses]], sizes: Mapping[str, int]) -> None:
        used = [(statement, list(accesses)) for statement, accesses in statements if accesses]
        self._root = _Body(used, 0, sizes, whole=True)
        self._known: dict[int, int] = {}

    @property
    def accessed(self) -> int:
        """The bytes of all accesses, each time."""
        return self._root.accessed

    def fetched(self, capacity: int) -> int:
        """The bytes that come into a cache of so many bytes."""
        if capacity not in self._known:
            self._known[capacity] = self._root.fetched(capacity)
        return self._known[capacity]


class _Body:
    """The statements inside the outermost `depth` loops of some. It is `whole` if nothing else is inside these."""

    def __init__(
        self, statements: list[tuple[Statement, list[tuple[MemoryAccess, int]]]], depth: int, sizes: Mapping[str, int],
        *, whole: bool,
    ) -> None:  # fmt: skip
        self._statements, self._depth, self._sizes = statements, depth, sizes
        self._has_previous = whole and depth > 0

    def fetched(self, capacity: int) -> int:
        """The bytes that come into a cache for all iterations of the loops around."""
        footprints = self._footprints
        if footprints is not None and (largest := _largest(footprints)) <= capacity:
            again = self._shared if self._has_previous and 2 * largest <= capacity else None
            return _total(footprints) - _total(again or [])
        return sum(each.fetched(capacity) for each in self._inside) if self._inside else self.accessed

    @cached_property
    def accessed(self) -> int:
        """The bytes of all accesses, each time."""
        return sum(count(_fixed(access.domain, self._sizes)) * size for access, size in self._accesses)

    @cached_property
    def _inside(self) -> list[_Body]:
        """The bodies of the next loops, and statements without further ones."""
        groups: dict[object, list[tuple[Statement, list[tuple[MemoryAccess, int]]]]] = {}
        for statement, accesses in self._statements:
            further = len(statement.loops) > self._depth
            key = statement.loops[self._depth] if further else statement.name
            groups.setdefault(key, []).append((statement, accesses))
        if len(self._statements) == 1 and len(self._statements[0][0].loops) == self._depth:
            return []
        return [
            _Body(group, self._depth + isinstance(key, int), self._sizes, whole=isinstance(key, int))
            for key, group in groups.items()
        ]

    @property
    def _accesses(self) -> list[tuple[MemoryAccess, int]]:
        return [each for _, accesses in self._statements for each in accesses]

    @cached_property
    def _relations(self) -> Relations:
        """For each array: from an iteration of the loops to the elements that its body uses; bytes of an element."""
        found: dict[object, list[isl.Map]] = {}
        sizes: dict[object, int] = {}
        for access, size in self._accesses:
            used = access.prefix(self._depth).reverse().apply_range(sets.graph(_lying(access), access.domain))
            found.setdefault(access.home, []).append(sets.range_named(sets.fixed_map(used, self._sizes), None))
            sizes[access.home] = size
        return {home: (sets.union_of(parts).coalesce(), sizes[home]) for home, parts in found.items()}

    @cached_property
    def _footprints(self) -> list[tuple[list[Class], int]] | None:
        """The elements that an iteration uses, array by array; None if iterations have too many shapes."""
        return _counted(self._relations.values())

    @cached_property
    def _shared(self) -> list[tuple[list[Class], int]] | None:
        """The elements that an iteration uses, and the one before, too."""
        return _counted((relation.intersect(_before(relation)), size) for relation, size in self._relations.values())


def _counted(relations: Iterable[tuple[isl.Map, int]]) -> list[tuple[list[Class], int]] | None:
    """The classes of iterations of each relation, with the bytes of an element; None if they take too long."""
    found = []
    for relation, size in relations:
        try:
            with Budget(relation.get_ctx(), OPERATIONS):
                alike = list(islice(classes(relation), SHAPES + 1))
        except isl.Error:
            return None
        if len(alike) > SHAPES:
            return None
        found.append((alike, size))
    return found


def _largest(of: list[tuple[list[Class], int]]) -> int:
    """At least the bytes of the largest: the sum of the largest parts of all arrays."""
    return sum(size * max((alike.images for alike in found), default=0) for found, size in of)


def _total(of: list[tuple[list[Class], int]]) -> int:
    return sum(size * sum(alike.images * count(alike.keys) for alike in found) for found, size in of)


def _before(relation: isl.Map) -> isl.Map:
    """The relation of the iteration before, in the innermost loop."""
    space = relation.get_space().domain()
    forms = sets.variables(space)
    back = sets.function(space, None, [*forms[:-1], sets.plus(forms[-1], -1)])
    return sets.graph(back).apply_range(relation)


def _lying(access: MemoryAccess) -> isl.MultiAff:
    """Where an element lies: its place without the iteration of the loops that have a copy of the array each."""
    forms = sets.outputs(access.place)
    copies = range(access.ranks, access.ranks + len(access.buffer.scope))
    kept = [form for number, form in enumerate(forms) if number not in copies]
    return sets.function(access.place.get_space().domain(), None, kept)


def _fixed(of: isl.Set, sizes: Mapping[str, int]) -> isl.Set:
    return sets.named(sets.fixed(of, sizes), None)
