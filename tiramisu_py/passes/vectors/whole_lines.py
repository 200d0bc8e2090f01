"""Stores past the caches of parts of cache lines: as usual, where other stores come between the parts of a line.

A store past the caches waits in a buffer of the core until its cache line is complete. There are few such buffers, and
loads take them, too; of a line that leaves early, the rest is written by itself, several times as slow as an ordinary
store. That happens where an iteration stores parts of several lines in turn: a vector of 32 bytes of each of three
planes, or of each of eight rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tiramisu_py.algorithm.stacks import deep_nest
from tiramisu_py.algorithm.traversal import iterators
from tiramisu_py.ir import Comment, For, If, Mask, Node, Ramp, Store
from tiramisu_py.ir.arithmetic.linear import Key, linear
from tiramisu_py.ir.rewriting import NONTEMPORAL, block, children, contents, with_children
from tiramisu_py.passes.base import About, NestPass
from tiramisu_py.passes.vectors.remarks import AS_USUAL
from tiramisu_py.program.machine.instruction_costs import LINE
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class WholeLines(NestPass):
    """Store as usual what would go past the caches in parts of several cache lines in turn, and say so.

    ::

        for c by 8: (past the caches)     -->   # stored as usual: parts of 32 bytes of 3 cache lines in turn ..
            sharp[0, r, c : c + 8] = e          for c by 8:
            sharp[1, r, c : c + 8] = g              sharp[0, r, c : c + 8] = e
            sharp[2, r, c : c + 8] = h              ..
    """

    def apply(self, what: Node, about: About) -> Node:
        return whole_lines(what)


@deep_nest
def whole_lines(node: Node) -> Node:
    """The statement with parts of lines that are stored in turn stored as usual."""
    if NONTEMPORAL not in contents(node):
        return node
    if isinstance(node, For):
        places = _places(list(_own_stores(node.body)))
        parts = {id(store): count for count in places if count.is_apart(len(places), node) for store in count.stores}
        if parts:
            node = replace(node, body=_as_usual(node.body, parts, len(places)))
    return with_children(node, whole_lines)


@dataclass(frozen=True, eq=False)
class StoredRun:
    """Elements side by side that one iteration stores: their stores, from the least on, and the bytes of all."""

    stores: tuple[Store, ...]
    bytes: int

    def is_apart(self, places: int, loop: For) -> bool:
        """Whether the rest of a line is not stored next: there are other places, or the loop goes on elsewhere."""
        if self.bytes % LINE == 0:
            return False
        first = self.stores[0].indices
        across = any(loop.variable in iterators(index) for index in first[:-1])
        return places > 1 or (across and loop.variable not in iterators(first[-1]))


def side_by_side(loop: For) -> tuple[Store, ...]:
    """The stores past the caches of each iteration, if they fill cache lines one after another wherever these begin.

    They are one run, or two runs of whole lines, and the next iteration stores behind each.
    """
    places = _places(list(_own_stores(loop.body)))
    alone = len(places) == 1 or (len(places) == 2 and all(each.bytes % LINE == 0 for each in places))
    goes_on = alone and all(_goes_on(each, loop) for each in places)
    return tuple(store for each in places for store in each.stores) if goes_on else ()


def _goes_on(place: StoredRun, loop: For) -> bool:
    """Whether each iteration stores a run right behind that of the iteration before."""
    first = place.stores[0]
    *rows, last = first.indices
    assert isinstance(last, Ramp)
    steps = [factor for atom, factor in linear(last.base).terms.values() if loop.variable in iterators(atom)]
    size = first.value.dtype.bytes
    along = steps == [place.bytes // size // loop.step]
    return along and place.bytes % (size * loop.step) == 0 and not any(loop.variable in iterators(row) for row in rows)


def _own_stores(node: Node) -> Iterator[Store]:
    """The stores of whole vectors past the caches in each iteration of a loop.

    They are outside of the loops inside, and of tests, such as that for the last vector of a row.
    """
    if isinstance(node, For | If | Mask) or NONTEMPORAL not in contents(node):
        return
    if isinstance(node, Store) and node.nontemporal and node.indices and isinstance(node.indices[-1], Ramp):
        yield node
    for child in children(node):
        yield from _own_stores(child)


def _places(stores: list[Store]) -> list[StoredRun]:
    """The stores by the elements that lie side by side."""
    rows: dict[tuple[str, tuple[Key, ...], frozenset[tuple[Key, int]]], dict[int, Store]] = {}
    for store in stores:
        last = store.indices[-1]
        assert isinstance(last, Ramp)
        form = linear(last.base)
        along = frozenset((key, factor) for key, (_, factor) in form.terms.items())
        others = tuple(index.key() for index in store.indices[:-1])
        rows.setdefault((store.buffer, others, along), {})[form.constant] = store
    return [run for row in rows.values() for run in _runs(row)]


def _runs(row: dict[int, Store]) -> Iterator[StoredRun]:
    run: list[Store] = []
    end = None
    for start, store in sorted(row.items()):
        if run and start != end:
            yield _run(run)
            run = []
        run.append(store)
        end = start + _lanes(store)
    yield _run(run)


def _run(stores: list[Store]) -> StoredRun:
    return StoredRun(tuple(stores), sum(_lanes(store) * store.value.dtype.bytes for store in stores))


def _lanes(store: Store) -> int:
    last = store.indices[-1]
    assert isinstance(last, Ramp)
    return last.lanes


def _as_usual(node: Node, parts: dict[int, StoredRun], places: int) -> Node:
    """The statement with these stores as usual, each with a remark."""
    if isinstance(node, Store) and id(node) in parts:
        run, lanes = parts[id(node)], LINE // node.value.dtype.bytes
        where = "a cache line of each row" if places == 1 else f"{places} cache lines"
        text = f"{AS_USUAL}: parts of {run.bytes} bytes of {where} in turn; vectors of {lanes} are lines"
        return block([Comment(text), replace(node, nontemporal=False)])
    return with_children(node, lambda child: _as_usual(child, parts, places))
