"""The order of statements: a graph of constraints, resolved to the static dimensions of the time map."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from heapq import heapify, heappop, heappush

from tiramisu_py.errors import CommandError
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.statement import Statement


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


def static_positions(statements: Mapping[str, Statement], orders: Sequence[Order]) -> dict[str, tuple[int, ...]]:
    """For each statement the static dimensions s0, s1, ..., sn of its time map (n loops give n + 1).

    At each level the nests and statements are sorted topologically, ties by declaration. Raises `CommandError`
    where the constraints contradict each other, naming the commands.
    """
    found: dict[str, list[int]] = {name: [] for name in statements}
    _sort(list(statements.values()), 0, _parting(statements, orders), found)
    return {name: tuple(position) for name, position in found.items()}


def _parting(statements: Mapping[str, Statement], orders: Sequence[Order]) -> dict[int, list[Order]]:
    by_depth: dict[int, list[Order]] = {}
    for order in orders:
        if order.before in statements and order.after in statements:
            depth = shared(statements[order.before], statements[order.after])
            by_depth.setdefault(depth, []).append(order)
    return by_depth


def _sort(group: list[Statement], depth: int, orders: dict[int, list[Order]], found: dict[str, list[int]]) -> None:
    """Number the children of one tree node (`group` shares its first `depth` loops), then go down."""
    members: dict[object, list[Statement]] = {}
    child_of: dict[str, object] = {}
    for statement in group:
        child: object = statement.loops[depth] if len(statement.loops) > depth else statement.name
        members.setdefault(child, []).append(statement)
        child_of[statement.name] = child
    edges = [o for o in orders.get(depth, ()) if o.before in child_of and o.after in child_of]
    for position, child in enumerate(_topological(list(members), child_of, edges)):
        for statement in members[child]:
            found[statement.name].append(position)
        if len(members[child]) > 1:
            _sort(members[child], depth + 1, orders, found)
        else:
            (alone,) = members[child]
            found[alone.name] += [0] * (len(alone.loops) - depth)


def _topological(children: list[object], child_of: Mapping[str, object], edges: Sequence[Order]) -> list[object]:
    """The children in an order that the edges allow; of several candidates, the one declared first comes next."""
    rank = {child: i for i, child in enumerate(children)}
    sorter = TopologicalSorter[int](dict.fromkeys(range(len(children)), ()))
    for edge in edges:
        if child_of[edge.before] != child_of[edge.after]:
            sorter.add(rank[child_of[edge.after]], rank[child_of[edge.before]])
    with suppress(CycleError):  # even then the children that are in no cycle, and follow none, become ready
        sorter.prepare()
    result: list[object] = []
    ready = list(sorter.get_ready())
    heapify(ready)
    while ready:
        first = heappop(ready)
        result.append(children[first])
        sorter.done(first)
        for following in sorter.get_ready():
            heappush(ready, following)
    if len(result) < len(children):
        stuck = dict.fromkeys(child for child in children if child not in result)
        commands = [e.command for e in edges if child_of[e.before] in stuck and child_of[e.after] in stuck]
        raise CommandError(
            "the orders asked for form a cycle: " + "; ".join(dict.fromkeys(commands)) + _together(stuck, child_of)
        )
    return result


def _together(stuck: Iterable[object], child_of: Mapping[str, object]) -> str:
    """Which statements cannot be parted because they share a loop, in words; empty where there are none."""
    nests = [[name for name, child in child_of.items() if child == one] for one in stuck]
    groups = [" and ".join(names) for names in nests if len(names) > 1]
    if not groups:
        return ""
    return f" ({'; '.join(groups)} share a loop, so nothing outside it comes between them: order inside it)"
