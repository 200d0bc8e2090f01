"""Full tiles separated from partial ones: full is a tile in which all inner loops have their full, constant extent.

Before: ``for r1 in 0 .. min(8, R - 8*r0): ...``, unrolled. After: ``if (R - 8*r0 >= 8) for r1 in 0 .. 8: ... else``
the loop as it was. The test is placed as far out as its variables are defined, and one test serves all loops of a nest,
which thus has two versions: all tiles full, or the general one (or a version for each extent, see `tile_versions`).

A tile that is partial in two dimensions which both have versions, a corner, has the general one: versions for all
combinations would be most of the code, for few tiles.

A sequential loop in which the tests hold up to some iteration is cut there. Before: ``for c0 in 0 .. (C + 15) // 16: if
(C - 16*c0 >= 16) full else general``. After: ``for c0 in 0 .. C // 16: full``, then the other iterations: general.

Tiles may be full in one of two ways that exclude each other: all lanes under a mask, or none of them. Each way has its
version then, without the loops of the other one; a sequential loop is cut where the first ends and the second begins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product

from tiramisu_py.algorithm.expressions import Binary, Const, Expr, Iter
from tiramisu_py.algorithm.types import bool_, int64
from tiramisu_py.ir import Allocate, Block, For, If, Let, Node, Store
from tiramisu_py.ir.arithmetic.build import conjunction, conjuncts
from tiramisu_py.ir.arithmetic.facts import Facts
from tiramisu_py.ir.arithmetic.linear import Key, number, operands
from tiramisu_py.ir.arithmetic.simplify import simplified, simplify
from tiramisu_py.ir.rewriting import (
    EMPTY,
    Names,
    block,
    children,
    contents,
    defined,
    loads,
    names,
    substitute,
    variables,
    walk,
    with_children,
    without_prefetches,
)
from tiramisu_py.ir.uniform_control import meets
from tiramisu_py.passes.base import About, NestPass
from tiramisu_py.passes.loops.full_tile import Conditions, full_tile, in_all_copies, largest_extent, narrowed
from tiramisu_py.passes.loops.split_at_conditions import cut_apart, cut_at, exclude, operates
from tiramisu_py.passes.loops.strip_tile import strip_tiles, with_plain_strips
from tiramisu_py.passes.loops.tile_versions import (
    TileVersions,
    by_iterations,
    by_vectors,
    is_too_long,
    special,
    without_versions,
)
from tiramisu_py.program.loops import Parallel, Unroll
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class FullTiles(NestPass):
    """Separate full tiles, whose inner loops have constant extents, from partial ones.

    ::

        for r0 in ..:                             -->   for r0 in 0 .. R // 8:
            for r1 in 0 .. min(8, R - 8*r0):                for r1 in 0 .. 8: S
                S                                       for r0 in R // 8 .. :
                                                            for r1 in 0 .. min(8, R - 8*r0): S
    """

    def apply(self, what: Node, about: About) -> Node:
        return full_tiles(what, about.taken)


def full_tiles(node: Node, taken: Names | None = None) -> Node:
    """The statement with full tiles separated from partial ones, for loops to be unrolled and short vector loops."""
    separated, pending = _separate(node, taken or Names(names(node)))
    return _guarded(separated, pending) if pending else separated


def _separate(node: Node, taken: Names) -> tuple[Node, Conditions]:
    """The statement, and the conditions of tiles inside that are not tested yet."""
    pending: dict[Key, Expr] = {}

    def inside(child: Node) -> Node:
        separated, asked = _separate(child, taken)
        pending.update(asked)
        return separated

    node = with_children(node, inside)
    name = defined(node)
    here = {key: condition for key, condition in pending.items() if name in variables(condition)}
    if here:
        later = {key: condition for key, condition in pending.items() if key not in here}
        part = _small_part(node, here)
        if part is not None:
            rest = _in_place(node, part, EMPTY)
            elsewhere = {key: each for key, each in later.items() if _has_tile(rest, {key: each})}
            return _in_place(node, part, _guarded(part, pending)), elsewhere
        cut = _cut(node, here, later, taken)
        if cut is not None:
            return cut, later
        outside = _for_all_copies(node, pending)
        node = _test_inside(node, pending)
        pending = outside
    tile = full_tile(node) if isinstance(node, For) else None
    return node, {**pending, **(tile.conditions if tile else {})}


#: A part of an iteration with less than this share of its stores is tested alone: the rest is there once.
SMALL = 1 / 8


def _small_part(node: Node, conditions: Conditions) -> Node | None:
    """The small part of an iteration that has all tiles with these conditions, if each is tested by itself.

    It has loops of its own, beside which a test takes no time. None if the tiles are most of the iteration.
    """
    if not isinstance(node, For) or node.tag is not None or For not in contents(node.body):
        return None
    part = node.body
    while isinstance(part, Block | If | Let):
        asking = [child for child in children(part) if _has_tile(child, conditions)]
        if len(asking) != 1:
            break
        (part,) = asking
    small = sum(isinstance(each, Store) for each in walk(part))
    return part if small < SMALL * sum(isinstance(each, Store) for each in walk(node.body)) else None


def _has_tile(node: Node, conditions: Conditions) -> bool:
    """Whether a tile inside is full under one of these conditions."""
    tiles = (full_tile(each) for each in walk(node) if isinstance(each, For))
    return any(not conditions.keys().isdisjoint(tile.conditions) for tile in tiles if tile)


def _in_place(node: Node, old: Node, new: Node) -> Node:
    """The statement with another one in place of a part of it."""
    return new if node is old else with_children(node, lambda child: _in_place(child, old, new))


def _for_all_copies(node: Node, conditions: Conditions) -> dict[Key, Expr]:
    """Conditions under which these hold in all copies of an unrolled loop; none if there is none for one of them."""
    found: dict[Key, Expr] = {}
    for condition in conditions.values():
        every = condition
        if defined(node) in variables(condition):
            least = in_all_copies(condition, node) if isinstance(node, For) else None
            if least is None:
                return {}
            every = least
        found[every.key()] = every
    return found


def _cut(node: Node, conditions: Conditions, later: Conditions, taken: Names) -> Node | None:
    """A sequential loop cut into iterations in which the conditions hold, and the others; None if it stays whole.

    Conditions tested `later` are those of loops around it.
    """
    if not isinstance(node, For) or node.tag is not None or node.step != 1 or operates(node):
        return None
    groups = _compatible(conditions)
    full = [simplify(_specialised(node.body, group)) for group in groups]
    loop = replace(node, body=_in_one_dimension(node.body, conditions, later))
    if len(groups) == 1:
        return cut_at(loop, list(conditions.values()), full[0], taken)
    full = [_without_empty(body, group) for body, group in zip(full, groups, strict=True)]
    first, last = (list(group.values()) for group in groups)
    return cut_apart(loop, first, last, full, taken) or cut_apart(loop, last, first, full[::-1], taken)


def _compatible(conditions: Conditions) -> list[dict[Key, Expr]]:
    """The conditions, or two parts of them if some never hold together with others: tiles that are all masked."""
    pairs = ((a, b) for a, b in combinations(conditions.items(), 2) if exclude(a[1], b[1]))
    groups: list[dict[Key, Expr]] = []
    for seed in next(pairs, tuple(conditions.items())[:1]):
        group = dict([seed])
        for key, condition in conditions.items():
            if not any(exclude(condition, other) for other in group.values()):
                group[key] = condition
        groups.append(group)
    return groups


def _without_empty(node: Node, conditions: Conditions) -> Node:
    """The statement without loops that have no iterations where these conditions hold."""
    facts = _under(conditions)

    def kept(inner: Node) -> Node:
        if isinstance(inner, For):
            ends = product(operands("max", inner.lower), operands("min", inner.upper))
            if any(facts.nonnegative(simplified(Binary("-", low, high, int64))) for low, high in ends):
                return EMPTY
        return with_children(inner, kept)

    return block([kept(node)])


def _test_inside(node: Node, conditions: Conditions) -> Node:
    """A loop with the test in its body, or in that of the innermost loop collapsed with it."""
    (body,) = children(node)
    if isinstance(body, For) and isinstance(body.tag, Parallel) and body.tag.collapse == 0:
        return with_children(node, lambda child: _test_inside(child, conditions))
    return with_children(node, lambda child: _guarded(child, conditions))


def _guarded(node: Node, conditions: Conditions) -> Node:
    result = _partial(node, conditions)
    for group in reversed(_compatible(conditions)):
        full = simplify(_specialised(node, group))
        result = If(_all(group), full if len(group) == len(conditions) else _without_empty(full, group), result)
    return result


def _all(conditions: Conditions) -> Expr:
    test = conjunction(conditions.values())
    assert test is not None
    return test


def _in_one_dimension(node: Node, conditions: Conditions, later: Conditions) -> Node:
    """The code for tiles that are not all full, with versions only where tiles are full in dimensions tested later."""
    crossing = {key: condition for key, condition in later.items() if _has_versions(node, key)}
    if not crossing or not any(_has_versions(node, key) for key in conditions):
        return _partial(node, conditions)
    versions = _partial(simplify(_specialised(node, crossing)), conditions)
    return If(_all(crossing), versions, with_plain_strips(without_versions(without_prefetches(node))))


def _has_versions(node: Node, key: Key) -> bool:
    """Whether a condition is that of tiles which have versions where they are partial."""
    return special(node, iter([key])) is not None or any(tile.full.key() == key for tile in strip_tiles(node))


def _partial(node: Node, conditions: Conditions) -> Node:
    """The code for tiles that are not all full: the general version, or one for each extent."""
    key = special(node, iter(conditions))
    if key is not None:
        own = {key: conditions[key]}
        others = {other: condition for other, condition in conditions.items() if other != key}
        if any(_has_versions(node, other) for other in others):
            full = simplify(_specialised(node, own))
            both = If(conditions[key], _partial(full, others), _in_one_dimension(node, own, others))
            return node if is_too_long(both) else both
        node = _where_not(node, own)
        return _in_versions(node, by_iterations(node, conditions[key]), others)
    found = by_vectors(node, conditions)
    if found is None:
        return _where_not(node, conditions)
    others = {other: condition for other, condition in conditions.items() if other not in found.conditions}
    if not others and isinstance(node, Block | Let) and _asks(node, conditions):
        return _by_parts(node, conditions)
    return _in_versions(node, found, others)


def _in_versions(node: Node, versions: TileVersions, others: Conditions) -> Node:
    """The version of the largest extent whose test holds; in all of them, the `others` are tested again."""
    result = versions.empty
    for test, version in versions.partial:
        result = If(test, _guarded(version, others) if others else version, result)
    if others:
        full = simplify(_specialised(node, versions.conditions))
        result = If(_all(versions.conditions), _partial(full, others), result)
    return node if is_too_long(result) else result


def _by_parts(node: Block | Let, conditions: Conditions) -> Node:
    """Versions for the parts of a sequence in turn, so that corners, which have no versions, are there once."""
    if isinstance(node, Let):
        return replace(node, body=_partial(node.body, conditions))
    parts: list[list[Node]] = [[]]
    for child in node.body:
        if _asks(child, conditions):
            parts += [[child], []]
        else:
            parts[-1].append(child)
    return block(_partial(block(part), conditions) for part in parts if part)


def _asks(node: Node, conditions: Conditions) -> bool:
    """Whether a statement tests inside whether these conditions hold."""
    key = _all(conditions).key()
    return any(isinstance(each, If) and each.condition.key() == key for each in walk(node))


def _where_not(node: Node, conditions: Conditions) -> Node:
    """The statement where these conditions do not all hold."""
    if isinstance(node, If) and node.condition.key() == _all(conditions).key():
        node = node.otherwise or EMPTY
    return with_children(node, lambda child: _where_not(child, conditions))


def _specialised(node: Node, conditions: Conditions, copied: tuple[For, ...] = ()) -> Node:
    """The code in which these conditions hold; `copied` are the unrolled loops around a part of it."""
    if isinstance(node, If):
        folded = _under(conditions).folded(node.condition)
        left = [each for each in conjuncts(folded) if not _is_known(each, conditions, copied)]
        test = conjunction(left)
        node = replace(node, condition=Const(True, bool_) if test is None else test)
    around = copied
    if isinstance(node, For):
        around = (node, *(each for each in copied if each.variable != node.variable))
    node = with_children(node, lambda child: _specialised(child, conditions, around))
    tile = full_tile(node) if isinstance(node, For) else None
    known = {key: each for key, each in tile.conditions.items() if _is_known(each, conditions, copied)} if tile else {}
    if tile is None or not known:
        return node
    assert isinstance(node, For)
    if len(known) == len(tile.conditions):
        return replace(node, lower=tile.lower, upper=tile.upper)
    return narrowed(node, tile, known)


def _is_known(condition: Expr, conditions: Conditions, copied: Sequence[For]) -> bool:
    """Whether a condition is one of these, or holds by one of them in all copies of the unrolled loops around it."""
    if condition.key() in conditions:
        return True
    for loop in copied:
        if loop.variable in variables(condition):
            least = in_all_copies(condition, loop)
            if least is None:
                return False
            condition = least
            if condition.key() in conditions:
                return True
    return False


def _under(conditions: Conditions) -> Facts:
    facts = Facts()
    for condition in conditions.values():
        facts = facts.where(condition)
    return facts


#: Loops over registers that unrolling would repeat more often than this stay loops, unless tagged Unroll.
MOST_REPEATED = 256


@dataclass(frozen=True)
class UnrollRegisters(NestPass):
    """Tag short loops that index registers to be unrolled: registers have names, not numbers.

    ::

        for u in 0 .. 4:            -->   for u in 0 .. 4:  unroll
            sum[u] = ..                       sum[u] = ..

    In kernels a loop with another bound has that of the registers beside it, where facts say that it holds.
    """

    def apply(self, what: Node, about: About) -> Node:
        facts = None if about.threads is None else about.facts.in_blocks(about.threads)
        return _Registers({}, facts).unrolled(what)[0]


@dataclass(frozen=True, eq=False)
class _Registers:
    """The extents of the registers around a statement, by name; in kernels, the facts that hold there."""

    extents: Mapping[str, tuple[Expr, ...]]
    facts: Facts | None

    def unrolled(self, node: Node) -> tuple[Node, int]:
        """The statement, and the largest number of copies of a part of it that unrolling makes."""
        inside = replace(self, facts=None if self.facts is None else self.facts.inside(node))
        if isinstance(node, Allocate) and node.register:
            inside = replace(inside, extents={**self.extents, node.buffer: node.extents})
        most = 1

        def change(child: Node) -> Node:
            nonlocal most
            changed, times = inside.unrolled(child)
            most = max(most, times)
            return changed

        node, indexed = with_children(node, change), frozenset(inside.extents)
        if not isinstance(node, For) or node.step != 1:
            return node, most
        extent = largest_extent(node)
        if extent is None and self.facts is not None and node.tag in (None, Unroll()):
            node = self._as_long_as_registers(node)
            extent = largest_extent(node)
        unrolled = isinstance(node.tag, Unroll) and node.tag.factor is None
        if extent is None or meets(node):
            return node, most
        if node.tag is None and extent * most <= MOST_REPEATED and indexes(node, indexed) and _remains(node, indexed):
            return replace(node, tag=Unroll()), extent * most
        return node, extent * most if unrolled else most

    def _as_long_as_registers(self, loop: For) -> For:
        """``for u in 0 .. (N + 3) // 4`` up to ``min(8, (N + 3) // 4)``, where N <= 32 and u indexes 8 registers."""
        assert self.facts is not None
        for name, indices in _places(loop):
            for index, extent in zip(indices, self.extents.get(name, ()), strict=False):
                if isinstance(extent, Const) and isinstance(index, Iter) and index.name == loop.variable:
                    end = simplified(Binary("+", loop.lower, extent, int64))
                    if self._is_below(loop.upper, end):
                        return replace(loop, upper=Binary("min", end, loop.upper, int64))
        return loop

    def _is_below(self, bound: Expr, end: Expr) -> bool:
        """Whether a bound, or the quotient that it is, is at most another one."""
        assert self.facts is not None
        match bound:
            case Binary(op="//", left=dividend, right=Const() as by) if by.value > 0:
                most = Binary("+", Binary("*", end, by, int64), number(int(by.value) - 1), int64)
                return self.facts.nonnegative(Binary("-", most, dividend, int64))
        return self.facts.nonnegative(Binary("-", end, bound, int64))


def _remains(loop: For, buffers: frozenset[str]) -> bool:
    """Whether a loop's variable indexes these buffers even if loops inside count from 0 (not so in a window)."""
    return indexes(replace(loop, body=simplify(_from_zero(loop.body))), buffers)


def _from_zero(node: Node) -> Node:
    node = with_children(node, _from_zero)
    if not isinstance(node, For) or node.step != 1:
        return node
    value = Binary("+", node.lower, Iter(node.variable, int64), int64)
    upper = Binary("-", node.upper, node.lower, int64)
    return replace(node, lower=number(0), upper=upper, body=substitute(node.body, {node.variable: value}))


def indexes(loop: For, buffers: frozenset[str]) -> bool:
    """Whether a loop's variable is in an index of one of these buffers."""
    return any(
        name in buffers and any(loop.variable in variables(i) for i in indices) for name, indices in _places(loop)
    )


def _places(loop: For) -> list[tuple[str, tuple[Expr, ...]]]:
    """The buffers that a loop stores to or loads from, with the indices."""
    stores = (store for store in walk(loop.body) if isinstance(store, Store))
    places = [(store.buffer, store.indices) for store in stores]
    return [*places, *((load.buffer, load.indices) for load in loads(loop.body))]
