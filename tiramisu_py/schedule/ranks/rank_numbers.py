"""The number of the rank itself, as an iterator without a loop of the user's: ``tm.rank``, ``tm.ranks(2)``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from tiramisu_py.algorithm.domains.extents import extents_of
from tiramisu_py.algorithm.expression_text import Pieces
from tiramisu_py.algorithm.expressions import Expr, Iter
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.errors import CommandError
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.spread import axes, ranks
from tiramisu_py.public_calls import own_call_of
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import size


@dataclass(frozen=True, eq=False, repr=False)
class RankNumber(Iter):
    """The coordinate of the rank itself along one `axis` of a process grid that has `count` axes."""

    hint: ClassVar[str] = ": a value is the same on every rank; use its indices, such as r // B"

    axis: int = 0
    count: int = 1

    def pieces(self) -> Pieces:
        return ["tm.rank" if self.count == 1 else f"tm.ranks({self.count})[{self.axis}]"]


#: The number of the rank itself, where the process grid has one axis: ``to=tm.rank + 1``.
RANK = RankNumber("rank")


@own_call_of("tm", "ranks")
def rank_numbers(count: int) -> tuple[RankNumber, ...]:
    """The coordinates of the rank itself on a process grid of `count` axes: ``p, q = tm.ranks(2)``.

    Like `tm.rank` for a single axis, they can be used in both halves of `Function.create_exchange`: in domains,
    conditions, indices and peers. A half that uses one without listing it is executed by all ranks along that axis.
    Raises `CommandError` for less than one axis.
    """
    if size(count, "the number of axes") == 1:
        return (RANK,)
    return tuple(RankNumber(f"rank{axis}", axis=axis, count=count) for axis in range(count))


def numbers_in(expressions: Iterable[object]) -> list[RankNumber]:
    """The coordinates of the rank itself that expressions use, by axis."""
    found = {
        node.axis: node
        for given in expressions
        if isinstance(given, Expr)
        for node in walk(given)
        if isinstance(node, RankNumber)
    }
    return [found[axis] for axis in sorted(found)]


def parts_of(domain: object) -> list[object]:
    """The iterators and the bounds of a domain."""
    if isinstance(domain, Mapping):
        bounds = [
            bound for given in domain.values() for bound in (given if isinstance(given, tuple | list) else [given])
        ]
        return [*domain, *bounds]
    if isinstance(domain, list | tuple):
        return [part for piece in domain for part in parts_of(piece)]
    return []


def with_ranks(program: Program, domain: object, used: Iterable[RankNumber]) -> object:
    """The domain with each rank coordinate that is used as an outermost iterator over all ranks."""
    used = list(used)
    count = axes(program)
    for number in used:
        if number.count != count:
            right = "tm.rank is its number" if count == 1 else f"name its coordinates with tm.ranks({count})"
            raise CommandError(f"{number} is for a process grid of {number.count} axes, and this has {count}: {right}")
    if isinstance(domain, list):
        return [with_ranks(program, piece, used) for piece in domain]
    if not isinstance(domain, Mapping):
        return domain
    listed = {key.name for key in domain if isinstance(key, Iter)}
    missing = [number for number in used if number.name not in listed]
    if not missing:
        return domain
    extents = program.ranks.grid or extents_of(ranks(program), program.context)
    return {**{number: extents[number.axis] for number in missing}, **domain}
