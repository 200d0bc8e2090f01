"""The order of statements: a graph of constraints, resolved to the static dimensions of the time map."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from heapq import heapify, heappop, heappush

from tiramisu_py.errors import CommandError
from tiramisu_py.program.declared_orders import NOTHING, Pairs, Suggested
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.statement import Statement
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class Order:
    """`before` precedes `after` where their nests part; they share the loops up to `level` (None: none at all).

    `command` is the text of the command that asked for it; an order that was `derived` comes from `derive_transfers`.
    """

    before: str
    after: str
    level: LoopId | None
    command: str = ""
    derived: bool = False


def shared(a: Statement, b: Statement) -> int:
    """The number of outermost loops that two statements share."""
    count = 0
    for x, y in zip(a.loops, b.loops, strict=False):
        if x != y:
            break
        count += 1
    return count


def may_contradict(
    before: Mapping[str, Statement], old: Sequence[Order], after: Mapping[str, Statement], new: Sequence[Order]
) -> bool:
    """Whether `new` orders of the statements `after` may form a cycle, where the `old` ones of those `before` do not.

    They cannot if each order is an old one, and all statements are old ones in the same loops.
    """
    if new is not old and not set(new) <= set(old):
        return True
    return any(name not in before or before[name].loops != statement.loops for name, statement in after.items())


def static_positions(
    statements: Mapping[str, Statement], orders: Sequence[Order], wanted: Suggested = NOTHING
) -> dict[str, tuple[int, ...]]:
    """For each statement the static dimensions s0, s1, ..., sn of its time map (n loops give n + 1).

    At each level the nests and statements are sorted topologically, ties by declaration; the orders that are `wanted`
    count where the `orders` leave a choice, and together have no cycle. Raises `CommandError` where the constraints
    contradict each other, naming the commands.
    """
    found: dict[str, list[int]] = {name: [] for name in statements}
    tiers = (_parted(statements, wanted.values), _parted(statements, wanted.places))
    _sort(list(statements.values()), 0, _parting(statements, orders), tiers, found)
    return {name: tuple(position) for name, position in found.items()}


def _parting(statements: Mapping[str, Statement], orders: Sequence[Order]) -> dict[int, list[Order]]:
    by_depth: dict[int, list[Order]] = {}
    for order in orders:
        if order.before in statements and order.after in statements:
            depth = shared(statements[order.before], statements[order.after])
            by_depth.setdefault(depth, []).append(order)
    return by_depth


def _parted(statements: Mapping[str, Statement], pairs: Pairs) -> dict[int, list[tuple[str, str]]]:
    by_depth: dict[int, list[tuple[str, str]]] = {}
    for first, second in pairs:
        by_depth.setdefault(shared(statements[first], statements[second]), []).append((first, second))
    return by_depth


def _sort(
    group: list[Statement],
    depth: int,
    orders: dict[int, list[Order]],
    tiers: Sequence[dict[int, list[tuple[str, str]]]],
    found: dict[str, list[int]],
) -> None:
    """Number the children of one tree node (`group` shares its first `depth` loops), then go down."""
    members: dict[object, list[Statement]] = {}
    child_of: dict[str, object] = {}
    for statement in group:
        child: object = statement.loops[depth] if len(statement.loops) > depth else statement.name
        members.setdefault(child, []).append(statement)
        child_of[statement.name] = child
    edges = [o for o in orders.get(depth, ()) if o.before in child_of and o.after in child_of]
    wanted = [[(a, b) for a, b in tier.get(depth, ()) if a in child_of and b in child_of] for tier in tiers]
    for position, child in enumerate(_arranged(list(members), child_of, edges, wanted)):
        for statement in members[child]:
            found[statement.name].append(position)
        if len(members[child]) > 1:
            _sort(members[child], depth + 1, orders, tiers, found)
        else:
            (alone,) = members[child]
            found[alone.name] += [0] * (len(alone.loops) - depth)


#: Edges between children, by their numbers.
_Edges = set[tuple[int, int]]


def _arranged(
    children: list[object],
    child_of: Mapping[str, object],
    edges: Sequence[Order],
    wanted: Sequence[Sequence[tuple[str, str]]],
) -> list[object]:
    """The children in the first order that the edges allow, and the wanted pairs that are in no cycle with them."""
    rank = {child: i for i, child in enumerate(children)}

    def numbered(pairs: Iterable[tuple[str, str]]) -> _Edges:
        both = {(rank[child_of[a]], rank[child_of[b]]) for a, b in pairs}
        return {(a, b) for a, b in both if a != b}

    kept = numbered((edge.before, edge.after) for edge in edges)
    order = _topological(len(children), kept)
    if len(order) < len(children):
        stuck = [child for child in children if rank[child] not in order]
        commands = [e.command for e in edges if child_of[e.before] in stuck and child_of[e.after] in stuck]
        raise CommandError(
            "the orders asked for form a cycle: " + "; ".join(dict.fromkeys(commands)) + _together(stuck, child_of)
        )
    tiers = [numbered(pairs) for pairs in wanted]
    place = {child: at for at, child in enumerate(order)}
    if any(place[a] > place[b] for tier in tiers for a, b in tier):
        for tier in tiers:
            kept |= _without_cycles(tier, kept)
        order = _topological(len(children), kept)
    return [children[number] for number in order]


def _topological(count: int, edges: _Edges) -> list[int]:
    """The numbers in an order that the edges allow, of several candidates the least; without those in cycles."""
    sorter = TopologicalSorter[int](dict.fromkeys(range(count), ()))
    for before, after in edges:
        sorter.add(after, before)
    with suppress(CycleError):  # even then the children that are in no cycle, and follow none, become ready
        sorter.prepare()
    result: list[int] = []
    ready = list(sorter.get_ready())
    heapify(ready)
    while ready:
        first = heappop(ready)
        result.append(first)
        sorter.done(first)
        for following in sorter.get_ready():
            heappush(ready, following)
    return result


def _without_cycles(wanted: _Edges, kept: _Edges) -> _Edges:
    """The wanted edges that are in no cycle of wanted and kept ones."""
    after: dict[int, set[int]] = {}
    for a, b in wanted | kept:
        after.setdefault(a, set()).add(b)
    reached = {b: _reached(after, b) for _, b in wanted}
    return {(a, b) for a, b in wanted if a not in reached[b]}


def _reached(after: Mapping[int, set[int]], first: int) -> set[int]:
    """All that follows a number."""
    found, waiting = {first}, [first]
    while waiting:
        following = after.get(waiting.pop(), set()) - found
        found |= following
        waiting += following
    return found


def _together(stuck: Iterable[object], child_of: Mapping[str, object]) -> str:
    """The statements that cannot be parted because they share a loop, in words; empty where there are none."""
    nests = [[name for name, child in child_of.items() if child == one] for one in stuck]
    groups = [" and ".join(names) for names in nests if len(names) > 1]
    if not groups:
        return ""
    return f" ({'; '.join(groups)} share a loop, so nothing outside it comes between them: order inside it)"
