"""Stores past the caches of parts of cache lines: as usual, where other stores come between the parts of a line.

A store past the caches waits in a buffer of the core until its cache line is complete. There are few such buffers, and
loads take them, too; of a line that leaves early, the rest is written by itself, several times as slow as an ordinary
store. That happens where an iteration stores parts of several lines in turn: a vector of 32 bytes of each of three
planes, or of each of eight rows. Where the next iteration stores the next part of each of a few lines, as many
iterations as fill a line are taken together: their results are kept until the last one, and stored line by line.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tiramisu_py.algorithm.expressions import Binary, Expr, Iter
from tiramisu_py.algorithm.stacks import deep_nest
from tiramisu_py.algorithm.traversal import iterators
from tiramisu_py.algorithm.types import int64
from tiramisu_py.ir import Allocate, Block, Comment, For, If, Let, Load, Mask, Node, Prefetch, Ramp, Store
from tiramisu_py.ir.arithmetic.linear import Key, difference, linear, number
from tiramisu_py.ir.arithmetic.simplify import Substitution, simplified, simplify
from tiramisu_py.ir.rewriting import (
    NONTEMPORAL,
    Names,
    block,
    children,
    contents,
    defined,
    expressions,
    loads_in,
    names_in,
    read_buffers,
    walk,
    with_children,
)
from tiramisu_py.passes.base import About, NestPass
from tiramisu_py.passes.loops.unroll import strip_end
from tiramisu_py.passes.vectors.begun_anywhere import along
from tiramisu_py.passes.vectors.remarks import AS_USUAL
from tiramisu_py.program.machine.instruction_costs import LINE
from tiramisu_py.records import dataclass

#: At most so many vectors wait in registers until their lines are whole, a quarter of those of AVX2.
MOST_WAITING = 4


@dataclass(frozen=True)
class WholeLines(NestPass):
    """Take iterations together whose parts of cache lines make whole ones; store other parts of several lines as usual.

    ::

        for c by 8: (past the caches)     -->   for c by 16:
            sharp[0, r, c : c + 8] = e(c)           kept_0 = e(c); kept_1 = g(c); kept_2 = h(c)
            sharp[1, r, c : c + 8] = g(c)           sharp[0, r, c : c + 8] = kept_0
            sharp[2, r, c : c + 8] = h(c)           sharp[0, r, c + 8 : c + 16] = e(c + 8)
                                                    ..
                                                for c by 8: (as usual, what is left)
                                                    sharp[0, r, c : c + 8] = e(c)
                                                    ..

        for r: (past the caches)          -->   for r:
            y[r, c : c + 8] = e                     # stored as usual: parts of 32 bytes of a cache line of each row ..
                                                    y[r, c : c + 8] = e
    """

    def apply(self, what: Node, about: About) -> Node:
        return whole_lines(what, about.taken)


@deep_nest
def whole_lines(node: Node, taken: Names) -> Node:
    """The statement without stores of parts of lines in turn, and of first lanes, past the caches."""
    if NONTEMPORAL not in contents(node):
        return node
    if isinstance(node, Mask):
        return as_usual(node)
    if isinstance(node, For):
        places = _places(list(_own_stores(node.body)))
        parts = {id(store): count for count in places if count.is_apart(len(places), node) for store in count.stores}
        if parts and len(parts) == sum(len(place.stores) for place in places):
            together = _in_lines(node, places, taken)
            if together is not None:
                return together
        if parts:
            node = replace(node, body=_as_usual(node.body, parts, len(places)))
        elif len(places) > 1 and not side_by_side(node):
            node = replace(node, along=_along(node, places))
    return with_children(node, lambda child: whole_lines(child, taken.inside(node)))


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


def line_starts(loop: For) -> dict[Store, Store]:
    """For each store of a run of whole lines in a loop's iterations, the run's first store."""
    runs = [run for run in _places(list(_own_stores(loop.body))) if run.bytes % LINE == 0]
    return {store: run.stores[0] for run in runs for store in run.stores}


def _goes_on(place: StoredRun, loop: For) -> bool:
    """Whether each iteration stores a run right behind that of the iteration before."""
    first = place.stores[0]
    *rows, last = first.indices
    assert isinstance(last, Ramp)
    steps = [factor for atom, factor in linear(last.base).terms.values() if loop.variable in iterators(atom)]
    size = first.value.dtype.bytes
    along = steps == [place.bytes // size // loop.step]
    return along and place.bytes % (size * loop.step) == 0 and not any(loop.variable in iterators(row) for row in rows)


def _along(loop: For, places: Sequence[StoredRun]) -> tuple[str, ...]:
    """The arrays along which a loop moves that stores a line of each of several rows, if it may begin anywhere."""
    sizes = {(place.bytes, place.bytes // place.stores[0].value.dtype.bytes) for place in places}
    if len(sizes) > 1 or not all(_goes_on(place, loop) for place in places):
        return ()
    ((size, elements),) = sizes
    return along(loop, elements) if size == LINE else ()


def as_usual(node: Node) -> Node:
    """The statement with all stores as usual."""
    if isinstance(node, Store):
        return replace(node, nontemporal=False) if node.nontemporal else node
    return with_children(node, as_usual)


# -- iterations taken together


def _in_lines(loop: For, places: Sequence[StoredRun], taken: Names) -> Node | None:
    """A loop whose iterations store whole lines, from as many of the loop as make one, and the iterations left over.

    None if iterations do not go on in the same lines, if these have different parts, if the order of stores counts, or
    if results that wait would find no registers: there are many, or a window has the registers.
    """
    sizes = {place.bytes for place in places}
    size = sizes.pop()
    fits = not sizes and LINE % size == 0 and all(_goes_on(place, loop) and _in_order(place, loop) for place in places)
    count = LINE // size
    stores = sum(len(place.stores) for place in places)
    if not fits or stores * (count - 1) > MOST_WAITING or not _may_wait(loop, places):
        return None
    name = taken.fresh(f"{loop.variable}_lines")
    end = Iter(name, int64)
    lines = replace(loop, upper=end, step=loop.step * count, body=_line_by_line(loop, places, count, taken))
    rest = replace(loop, lower=end, body=as_usual(loop.body), left=True)
    return Let(name, strip_end(loop.lower, loop.upper, loop.step * count), block([lines, simplify(rest)]))


def _may_wait(loop: For, places: Sequence[StoredRun]) -> bool:
    """Whether stores may come after those of other places in the next iterations, and after all that these read.

    Nothing is read that an iteration has stored for the next one.
    """
    stores = [store for place in places for store in place.stores]
    written = {store.buffer for store in stores}
    inside = list(walk(loop.body))
    if any(not isinstance(node, Allocate | Block | Comment | Let | Prefetch | Store) for node in inside):
        return False
    others = [node for node in inside if isinstance(node, Store) and node.buffer in written]
    local = {node.buffer if isinstance(node, Allocate) else defined(node) for node in inside}
    free = all(names_in(index).isdisjoint(local) for store in stores for index in store.indices)
    alone = len(others) == len(stores) and written.isdisjoint(read_buffers(loop.body))
    apart = all(_are_apart(a, b) for a, b in itertools.combinations(places, 2))
    return free and alone and apart and loop.tag is None and not loop.reductions and not _hands_on(inside)


def _hands_on(inside: Sequence[Node]) -> bool:
    """Whether statements, one after the other, read an element that they store, and not just before."""
    stored = {node.buffer for node in inside if isinstance(node, Store)}
    known: set[tuple[object, ...]] = set()
    for node in inside:
        read = (load for e in expressions(node) for load in loads_in(e) if load.buffer in stored)
        if any((load.buffer, *(index.key() for index in load.indices)) not in known for load in read):
            return True
        if isinstance(node, Store):
            known.add((node.buffer, *(index.key() for index in node.indices)))
    return False


def _in_order(place: StoredRun, loop: For) -> bool:
    """Whether an iteration makes the parts of a run from the first to the last."""
    return [store for store in _own_stores(loop.body) if store in place.stores] == list(place.stores)


def _are_apart(a: StoredRun, b: StoredRun) -> bool:
    """Whether two runs are in different arrays, or in rows of one that are known to differ."""
    one, other = a.stores[0], b.stores[0]
    pairs = zip(one.indices[:-1], other.indices[:-1], strict=False)
    return one.buffer != other.buffer or any(difference(x, y) not in (None, 0) for x, y in pairs)


def _line_by_line(loop: For, places: Sequence[StoredRun], count: int, taken: Names) -> Node:
    """`count` iterations, of which the last one stores the results of all, each line at once."""
    behind = {id(place.stores[-1]): place for place in places}
    kept = {id(store): taken.fresh("line") for place in places for store in place.stores}
    variable = Iter(loop.variable, int64)

    def at(step: int, node: Node) -> Node:
        moved = simplified(Binary("+", variable, number(step * loop.step), int64))
        return Substitution({loop.variable: moved}).statement(node) if step else node

    def earlier(node: Node, step: int) -> Node:
        if isinstance(node, Store) and id(node) in kept:
            return _kept(node, kept[id(node)], step)
        return with_children(node, lambda child: earlier(child, step))

    def last(node: Node) -> Node:
        if not isinstance(node, Store) or id(node) not in kept:
            return with_children(node, last)
        if id(node) not in behind:
            return _kept(node, kept[id(node)], count - 1)
        own = behind[id(node)].stores
        before = [_from_kept(each, kept[id(each)], step) for step in range(count) for each in own]
        return block([*(at(k // len(own) - count + 1, each) for k, each in enumerate(before[:-1])), node])

    copies = [at(step, earlier(loop.body, step)) for step in range(count - 1)]
    body = block([*copies, at(count - 1, last(loop.body))])
    for place in places:
        for store in place.stores:
            extents = (number(count), number(_lanes(store)))
            body = Allocate(kept[id(store)], extents, store.value.dtype, body, register=True)
    return body


def _kept(store: Store, name: str, step: int) -> Store:
    """The store into a register instead."""
    return replace(store, buffer=name, indices=_register(store, step), nontemporal=False)


def _from_kept(store: Store, name: str, step: int) -> Store:
    return replace(store, value=Load(name, _register(store, step), store.value.dtype))


def _register(store: Store, step: int) -> tuple[Expr, ...]:
    return (number(step), Ramp(number(0), _lanes(store)))


# -- which stores there are


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
