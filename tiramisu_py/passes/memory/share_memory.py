"""Arrays that live only as long as they are used, and have memory in turns where they never live together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import TypeGuard

from tiramisu_py.algorithm.domains.extents_from_arguments import extent_value
from tiramisu_py.algorithm.expressions import Expr, Iter, Param, constant
from tiramisu_py.algorithm.stacks import deep_nest
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.algorithm.types import int64
from tiramisu_py.errors import ArgumentError, DeclarationError
from tiramisu_py.ir import (
    Allocate,
    ArrayRoom,
    BeginArray,
    Block,
    Comment,
    EndArray,
    Events,
    For,
    LoopFunction,
    MemoryBlock,
    Node,
    Requests,
)
from tiramisu_py.ir.rewriting import block, walk, with_children
from tiramisu_py.passes.base import About, FunctionPass
from tiramisu_py.passes.memory.lifetimes import Lifetime, is_concurrent, lifetimes
from tiramisu_py.program.loops import Parallel
from tiramisu_py.program.storage import Memory
from tiramisu_py.records import dataclass

#: Arrays of constant size and at most so many bytes may be on the stack.
MOST_ON_STACK = 64 * 1024
#: The value of each parameter for which sizes are compared.
SAMPLE = 1000


@dataclass(frozen=True)
class ShareMemory(FunctionPass):
    """Let arrays exist while they are used, and give memory on to the next array.

    ::

        allocate a[N], b[N], c[N]:       -->   block m of the size of a[N], c[N]:
            a = f(x)                               block n of the size of b[N]:
            b = g(a)                                   begin a in m
            c = h(b)                                   a = f(x)
            y = k(c)                                   begin b in n
                                                       b = g(a)
                                                       end a
                                                       begin c in m
                                                       c = h(b)
                                                       end b, and free n
                                                       y = k(c)
                                                       end c, and free m

    Arrays of the host and of GPUs, of a whole function or of an iteration of a loop of one thread, where fewer bytes
    exist at a time than before. Ranks agree on errors before the first message, and GPUs wait where memory is freed:
    there, blocks last from the begin to the end. Arrays in pages of their own, page-locked ones, and those of threads
    stay as they are.
    """

    def apply(self, what: LoopFunction, about: About) -> LoopFunction:
        seen = Counter(node.buffer for node in walk(what.body) if isinstance(node, Allocate))
        once = frozenset(name for name, times in seen.items() if times == 1)
        own = _Sharing(about, once, lasting=what.grid is not None)
        return replace(what, body=own.within(what.body, in_loop=False))


@dataclass
class _Sharing:
    """The rewriting of one function; the arrays of `once` have one allocation in it."""

    about: About
    once: frozenset[str]
    lasting: bool
    alone: set[int] = field(default_factory=set)  # of the scopes that are one statement of a sequence, by identity

    @deep_nest
    def within(self, node: Node, in_loop: bool, looked: bool = False) -> Node:
        """A statement, and what is in it, with shared memory; `in_loop` says whether it is in a loop, `looked` whether
        it has been part of a sequence.
        """
        if isinstance(node, For) and isinstance(node.tag, Parallel):
            return node
        if not looked and (isinstance(node, Block) or self.is_candidate(node)):
            region = _Region(self, node)
            self.alone |= region.alone
            if region.arrays and not (in_loop and any(map(is_concurrent, region.statements))):
                node = region.shared()
            looked = True
        inside = in_loop or isinstance(node, For)
        scope = (
            looked
            and isinstance(node, Block | MemoryBlock | Allocate | Events | Requests)
            and id(node) not in self.alone
        )
        return with_children(node, lambda child: self.within(child, inside, scope))

    def is_candidate(self, node: Node) -> TypeGuard[Allocate]:
        """Whether a statement is an array that may be in a block with others."""
        return isinstance(node, Allocate) and node.buffer in self.once and is_allocated(node)


def is_allocated(node: Allocate) -> bool:
    """Whether an array is in memory that is allocated for it: not a variable, on the stack, or in pages of its own."""
    if node.register or node.pages is not None or node.zeroed is not None:
        return False
    on_host = node.memory is Memory.HOST and node.device is None
    if not on_host and not (node.memory is Memory.GPU and node.device is not None):
        return False
    size = sample_bytes(node.extents, node.dtype.bytes * node.lanes)
    constant_size = all(constant(extent) is not None for extent in node.extents)
    return size is not None and not (on_host and constant_size and size <= MOST_ON_STACK)


def sample_bytes(extents: Sequence[Expr], element: int) -> int | None:
    """The size of an array where each variable is `SAMPLE`; None where that says nothing."""

    def known(e: Expr) -> Expr | None:
        return Param("each", int64) if isinstance(e, Iter | Param) else None

    try:
        sizes = [extent_value(rewrite(extent, known), {"each": SAMPLE}) for extent in extents]
    except (ArgumentError, DeclarationError):
        return None
    return element * math.prod(max(size, 1) for size in sizes)


class _Region:
    """A sequence of statements, with the arrays that are allocated in it outside of loops and guards.

    Scopes around several statements begin where they did, and end with the region: `opened`, by position.
    """

    def __init__(self, own: _Sharing, node: Node) -> None:
        self.own = own
        self.node = node
        self.statements: list[Node] = []
        self.arrays: dict[str, Allocate] = {}
        self.opened: dict[int, list[Allocate | Events | Requests]] = {}
        self.alone = set[int]()
        self._flatten(node, is_last=True)

    def _flatten(self, node: Node, is_last: bool) -> None:
        if isinstance(node, Block):
            for position, child in enumerate(node.body):
                self._flatten(child, is_last and position == len(node.body) - 1)
        elif self.own.is_candidate(node):
            self.arrays[node.buffer] = node
            self._flatten(node.body, is_last)
        elif isinstance(node, Allocate | Events | Requests) and self._opens(node, is_last):
            self.opened.setdefault(len(self.statements), []).append(node)
            self._flatten(node.body, is_last)
        else:
            self.statements.append(node)
            self.alone.add(id(node))

    def _opens(self, node: Allocate | Events | Requests, is_last: bool) -> bool:
        """Whether a scope has candidates in it, and may last until the end of the region."""
        on_stack = isinstance(node, Allocate) and node.memory is Memory.HOST and node.pages is None
        unique = not isinstance(node, Allocate) or node.buffer in self.own.once
        return unique and (is_last or on_stack) and self._has_candidates(node.body)

    def _has_candidates(self, node: Node) -> bool:
        if isinstance(node, Block):
            return any(map(self._has_candidates, node.body))
        if self.own.is_candidate(node):
            return True
        return isinstance(node, Allocate | Events | Requests) and self._has_candidates(node.body)

    def shared(self) -> Node:
        """The region with its arrays in blocks; as it was where that saves nothing."""
        lives = lifetimes(self.statements, self.arrays)
        turns: list[tuple[SharedBlock, bool]] = []
        count, saves = len(self.statements), False
        for place in dict.fromkeys((node.memory, node.device) for node in self.arrays.values()):
            here = [node for node in self.arrays.values() if (node.memory, node.device) == place]
            tenants = [Tenant(node.buffer, _size(node), lives[node.buffer]) for node in here if node.buffer in lives]
            lasting = self.own.lasting or place[0] is not Memory.HOST
            found = assigned(tenants, count, lasting)
            saves = saves or most_bytes(found, count) < sum(tenant.size for tenant in tenants)
            turns += [(turn, lasting) for turn in found]
        return self._with(turns) if saves else self.node

    def _with(self, turns: Sequence[tuple[SharedBlock, bool]]) -> Node:
        before: dict[int, list[Node]] = {}
        after: dict[int, list[Node]] = {}
        blocks: list[MemoryBlock] = []
        for turn, lasting in sorted(turns, key=lambda each: (not each[1], each[0].in_order()[0].life.first)):
            order = turn.in_order()
            nodes = [self.arrays[tenant.name] for tenant in order]
            name = self.own.about.taken.fresh("memory")
            names, padded = tuple(node.buffer for node in nodes), any(node.padded for node in nodes)
            blocks.append(MemoryBlock(name, _rooms(nodes), names, Block(()), nodes[0].device, lasting, padded))
            for tenant, node, following in zip(order, nodes, [*order[1:], None], strict=True):
                before.setdefault(self._before(tenant.life.first), []).append(_begin(node, name))
                at = _end(tenant.life, following)
                if at is not None:
                    frees = following is None and not lasting and turn.end == at
                    after.setdefault(at, []).append(EndArray(node.buffer, name, frees))
        body = self._sequence(before, after)
        for each in reversed(blocks):
            body = replace(each, body=body)
        return body

    def _before(self, position: int) -> int:
        """The position before the comments on a statement."""
        while position > 0 and isinstance(self.statements[position - 1], Comment) and position not in self.opened:
            position -= 1
        return position

    def _sequence(self, before: Mapping[int, list[Node]], after: Mapping[int, list[Node]]) -> Node:
        """The statements with those that begin and end arrays, and the scopes that begin there around the rest."""
        rest: list[Node] = []
        for position in reversed(range(len(self.statements))):
            rest = [*before.get(position, ()), self.statements[position], *after.get(position, ()), *rest]
            for scope in reversed(self.opened.get(position, ())):
                rest = [replace(scope, body=block(rest))]
        return block(rest)


def _size(node: Allocate) -> int:
    size = sample_bytes(node.extents, node.dtype.bytes * node.lanes)
    assert size is not None, "it is a candidate"
    return size


def _end(life: Lifetime, following: Tenant | None) -> int | None:
    """The statement after which the host says that an array ends; None where the next array begins before it can."""
    if life.ended is None or (following is not None and life.ended >= following.life.first):
        return None
    return life.ended


def _rooms(nodes: Sequence[Allocate]) -> tuple[ArrayRoom, ...]:
    """The different sizes of some arrays."""
    rooms = (ArrayRoom(node.extents, node.dtype, node.lanes) for node in nodes)
    return tuple({(tuple(map(str, r.extents)), r.dtype, r.lanes): r for r in rooms}.values())


def _begin(node: Allocate, name: str) -> BeginArray:
    return BeginArray(node.buffer, name, node.extents, node.dtype, node.lanes, node.device, node.ring, node.padded)


# -- turns
#
# Arrays that have one block of memory in turns: each is done before the next is used.
#
# Any such choice is right, so that sizes are only compared at sample values of the parameters. The largest array comes
# first; each goes where the most bytes that exist at a time grow least, else to the smallest block that it fits in
# (the "greedy by size" of Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020).


@dataclass(frozen=True)
class Tenant:
    """An array that wants memory: its size in bytes at sample values, and when it lives."""

    name: str
    size: int
    life: Lifetime

    def shares_with(self, other: Tenant) -> bool:
        """Whether the two never live together."""
        return self.life.before(other.life) or other.life.before(self.life)


@dataclass
class SharedBlock:
    """The arrays of one block, and the statements during which the block exists."""

    tenants: list[Tenant] = field(default_factory=list)
    size: int = 0
    first: int = 0
    end: int = -1

    def beside(self, first: int, end: int) -> tuple[tuple[int, int], ...]:
        """The statements of a span at which the block does not exist yet, before and after."""
        return (first, min(end, self.first - 1)), (max(first, self.end + 1), end)

    def in_order(self) -> list[Tenant]:
        """The arrays, in the order of their turns."""
        return sorted(self.tenants, key=lambda each: each.life.first)


def assigned(tenants: Sequence[Tenant], count: int, lasting: bool) -> list[SharedBlock]:
    """The blocks of arrays that are used in `count` statements; one for each array where sharing saves nothing.

    Blocks that are `lasting` exist all the time; others from the first use of an array in them to the end of the last.
    """
    shared = _placed(tenants, count, lasting, shares=True)
    alone = _placed(tenants, count, lasting, shares=False)
    return shared if most_bytes(shared, count) <= most_bytes(alone, count) else alone


def most_bytes(turns: Sequence[SharedBlock], count: int) -> int:
    """The most bytes that these blocks have at one of `count` statements."""
    level = _Level(count)
    for turn in turns:
        level.add(turn.size, turn.first, turn.end)
    return level.peak


def _placed(tenants: Sequence[Tenant], count: int, lasting: bool, shares: bool) -> list[SharedBlock]:
    level, turns = _Level(count), list[SharedBlock]()
    for tenant in sorted(tenants, key=lambda each: (-each.size, each.life.first)):
        first, end = (0, count - 1) if lasting else (tenant.life.first, tenant.life.until(count))
        found, least = None, level.with_more(tenant.size, ((first, end),))
        for turn in sorted(turns, key=lambda each: each.size) if shares else ():
            if all(map(tenant.shares_with, turn.tenants)):
                peak = level.with_more(turn.size, turn.beside(first, end))
                if peak < least or (peak == least and found is None):
                    found, least = turn, peak
        if found is None:
            turns.append(found := SharedBlock(size=tenant.size, first=first, end=first - 1))
        for span in found.beside(first, end):
            level.add(found.size, *span)
        found.first, found.end = min(found.first, first), max(found.end, end)
        found.tenants.append(tenant)
    return turns


class _Level:
    """The bytes that exist at each statement, and the most of them."""

    def __init__(self, count: int) -> None:
        self.bytes = [0] * count
        self.peak = 0

    def with_more(self, size: int, spans: Sequence[tuple[int, int]]) -> int:
        """The peak if `size` bytes more existed from the first to the last statement of some spans."""
        return max(self.peak, *(max(self.bytes[a : b + 1], default=-size) + size for a, b in spans))

    def add(self, size: int, first: int, last: int) -> None:
        """More bytes from one statement to another."""
        for at in range(first, last + 1):
            self.bytes[at] += size
            self.peak = max(self.peak, self.bytes[at])
