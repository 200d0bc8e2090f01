"""Vectors that are stored side by side, computed before the first of them is stored.

Rows of a stencil in one iteration share most of what they load. Where they are stored to the array that they read, such
as the next level of a time loop, a compiler has to load again behind each store, since it cannot know that the places
differ: it sees computed addresses, where the indices here differ by a known number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from math import gcd
from typing import TypeGuard

from tiramisu_py.algorithm.expressions import Binary, Expr, Iter, constant
from tiramisu_py.algorithm.traversal import kinds
from tiramisu_py.ir import Block, Comment, Declare, For, Mask, Node, Ramp, Store
from tiramisu_py.ir.arithmetic.linear import difference, linear
from tiramisu_py.ir.rewriting import Names, block, contents, loads_in, with_children
from tiramisu_py.passes.base import About, NestPass
from tiramisu_py.records import dataclass

#: At most so many results wait in registers, a quarter of those of AVX2: what they share needs the others.
MOST_WAITING = 4


@dataclass(frozen=True)
class LoadsFirst(NestPass):
    """Compute the vectors of rows that share loads before any of them is stored to the array that they read.

    ::

        for c by 8:                                      -->   for c by 8:
            a[t, r, c : c + 8] = f(a[t - 1, r, ..],                row_0 = f(a[t - 1, r, ..], a[t - 1, r + 1, ..])
                                   a[t - 1, r + 1, ..])            row_1 = f(a[t - 1, r + 1, ..], a[t - 1, r + 2, ..])
            a[t, r + 1, c : c + 8] = f(a[t - 1, r + 1, ..],        a[t, r, c : c + 8] = row_0
                                       a[t - 1, r + 2, ..])        a[t, r + 1, c : c + 8] = row_1

    The places that are stored and loaded differ by known numbers. At most four results wait in registers.
    """

    def apply(self, what: Node, about: About) -> Node:
        return loads_first(what, about.taken)


def loads_first(node: Node, taken: Names) -> Node:
    """The statement with the stores of each group behind the loads of all of it."""
    if Store not in contents(node) or For not in contents(node):
        return node
    node = with_children(node, lambda child: loads_first(child, taken.inside(node)))
    if not isinstance(node, For) or not isinstance(node.body, Block) or Mask in contents(node.body):
        return node
    return replace(node, body=block(_regrouped(node.body, taken)))


def _regrouped(body: Block, taken: Names) -> Iterator[Node]:
    """The statements of an iteration with those runs of stores regrouped whose order does not count."""
    run: list[Node] = []
    for child in body.body:
        if isinstance(child, Comment) or _is_row(child):
            run.append(child)
            continue
        yield from _grouped(run, taken)
        run = []
        yield child
    yield from _grouped(run, taken)


def _is_row(node: Node) -> TypeGuard[Store]:
    if not isinstance(node, Store) or node.nontemporal or node.atomic or not node.indices:
        return False
    return isinstance(node.indices[-1], Ramp) and not any(Ramp in kinds(index) for index in node.indices[:-1])


def _grouped(run: Sequence[Node], taken: Names) -> Iterator[Node]:
    """The stores of a run, behind its comments, in groups that share loads of what the run stores; the run as it is if
    there are none.
    """
    stores = [each for each in run if _is_row(each)]
    written = {store.buffer for store in stores}
    shared = {id(store): _loaded(store, written) for store in stores}
    groups = _groups(stores, shared)
    if len(groups) == len(stores) or not all(_are_apart(a, b) for a, b in permutations(stores, 2)):
        yield from run
        return
    yield from (each for each in run if isinstance(each, Comment))
    for group in groups:
        if len(group) == 1:
            yield from group
            continue
        names = [taken.fresh("row") for _ in group]
        for name, store in zip(names, group, strict=True):
            yield Declare(name, store.value, _lanes(store), constant=True)
        for name, store in zip(names, group, strict=True):
            yield replace(store, value=Iter(name, store.value.dtype))


def _lanes(store: Store) -> int:
    last = store.indices[-1]
    assert isinstance(last, Ramp)
    return last.lanes


def _groups(run: Sequence[Store], shared: dict[int, set[object]]) -> list[list[Store]]:
    """Stores that share loads with the one before in their group, in the order of the first ones."""
    groups: list[list[Store]] = []
    for store in run:
        mine = shared[id(store)]
        open_groups = (group for group in groups if len(group) < MOST_WAITING)
        found = next((group for group in open_groups if not mine.isdisjoint(shared[id(group[-1])])), None)
        if found is None:
            groups.append([store])
        else:
            found.append(store)
    return groups


def _loaded(store: Store, written: set[str]) -> set[object]:
    """The vectors that a store's value loads from arrays that are written."""
    return {
        (load.buffer, *(index.key() for index in load.indices))
        for load in loads_in(store.value)
        if load.buffer in written and load.indices and isinstance(load.indices[-1], Ramp)
    }


def _are_apart(store: Store, other: Store) -> bool:
    """Whether a store changes nothing that another one stores or loads."""
    places = [other.indices] if other.buffer == store.buffer else []
    places += [
        load.indices for e in (other.value, *other.indices) for load in loads_in(e) if load.buffer == store.buffer
    ]
    return all(any(map(_differ, store.indices, place)) for place in places)


def _differ(a: Expr, b: Expr) -> bool:
    """Whether two indices, or those of all lanes, are known to have no value in common.

    They differ by a constant, as ``t`` and ``t - 1``, also modulo a number, or by no multiple of the factors of what
    else is in the difference, as ``t % 2`` and ``1 - t % 2``.
    """
    if isinstance(a, Ramp) or isinstance(b, Ramp):
        first, second = (e.base if isinstance(e, Ramp) else e for e in (a, b))
        apart = difference(first, second)
        lower = b if apart is not None and apart > 0 else a
        return apart is not None and abs(apart) >= (lower.lanes if isinstance(lower, Ramp) else 1)
    if Ramp in kinds(a) or Ramp in kinds(b):
        return False
    if isinstance(a, Binary) and isinstance(b, Binary) and a.op == b.op == "%" and a.right.key() == b.right.key():
        by, apart = constant(a.right), difference(a.left, b.left)
        return bool(by and apart and apart % by)
    form = linear(a).plus(linear(b), -1)
    common = gcd(*(factor for _, factor in form.terms.values()))
    return bool(form.constant % common if common else form.constant)
