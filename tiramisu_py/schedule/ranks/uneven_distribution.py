"""Arrays in uneven pieces: a dimension is cut at points, and each piece is on a rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import cast

from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Binary, Expr, Iter, Operand, as_expr
from tiramisu_py.algorithm.types import int64
from tiramisu_py.errors import CommandError, DeclarationError
from tiramisu_py.program.machine.distribution import Pieces
from tiramisu_py.program.program import Program
from tiramisu_py.program.targets import Shares
from tiramisu_py.public_calls import own_call
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import listed, loop_name, size


@dataclass(frozen=True, eq=False, repr=False)
class Cut:
    """An iterator of an array's elements, the points at which it is cut, and the rank of each piece."""

    iterator: str
    points: tuple[Expr, ...]
    ranks: tuple[int, ...]

    def __repr__(self) -> str:
        plain = self.ranks == tuple(range(len(self.ranks)))
        ranks = "" if plain else f", ranks=[{', '.join(map(str, self.ranks))}]"
        return f"tm.pieces({self.iterator}, [{', '.join(map(str, self.points))}]{ranks})"

    __str__ = __repr__


@own_call
def pieces(
    iterator: Iter,
    points: Sequence[Expr | int] | Shares,
    ranks: Sequence[int] | None = None,
    of: Expr | int | None = None,
) -> Cut:
    """A dimension of an array in pieces, for ``distribute_array(..., rank=...)``: cut at points, each piece on a rank.

    ::

        image.distribute_array([r, c], rank=tm.pieces(r, [H]))                       rows below H on rank 0, others on 1
        image.distribute_array([r, c], rank=tm.pieces(r, [G, H], ranks=[0, 0, 1]))   rows below G or H on rank 0
        image.distribute_array([r, c], rank=tm.pieces(r, tm.shares(3, 1), of=R))     rows below floor(3*R / 4) on rank 0

    Points are integers or affine in the parameters, so that they can be chosen when the function is called. An element
    is in the first piece whose point it is below, or else in the last: points out of order, or beyond the array, make
    pieces empty. With `shares` the points divide the extent `of` in these ratios. Without `ranks`, piece k is on rank
    k; a rank may have several pieces that follow one another. Raises `CommandError`.
    """
    name = loop_name(iterator, "an iterator")
    if isinstance(points, Shares):
        cuts = _by_shares(name, points, of)
    elif of is not None:
        raise CommandError(f"of={of} is for shares: tm.pieces({name}, tm.shares(3, 1), of={of})")
    else:
        cuts = tuple(_point(point) for point in listed(points, "the list of points"))
    if not cuts:
        raise CommandError(f"tm.pieces({name}, []) needs at least one point to cut at")
    chosen = range(len(cuts) + 1) if ranks is None else listed(ranks, "the list of ranks")
    own = tuple(size(rank, "a rank", 0) for rank in chosen)
    if len(own) != len(cuts) + 1:
        raise CommandError(
            f"tm.pieces({name}, [{', '.join(map(str, cuts))}], ranks={list(own)}): {len(cuts)} "
            f"point{' makes' if len(cuts) == 1 else 's make'} {len(cuts) + 1} pieces, and {len(own)} "
            f"rank{' is' if len(own) == 1 else 's are'} named: name one for each piece"
        )
    for rank in own:
        first, last = own.index(rank), len(own) - 1 - own[::-1].index(rank)
        if set(own[first : last + 1]) != {rank}:
            raise CommandError(
                f"tm.pieces({name}, ..., ranks={list(own)}): rank {rank} has pieces {first} and {last}, with those "
                "of other ranks between them: the pieces of a rank follow one another"
            )
    return Cut(name, cuts, own)


def _point(given: object) -> Expr:
    try:
        return as_expr(cast(Operand, given))
    except (DeclarationError, TypeError) as error:
        raise CommandError(f"a point is an integer, or affine in the parameters: {error}") from None


def _by_shares(name: str, shares: Shares, of: Operand | None) -> tuple[Expr, ...]:
    if of is None:
        raise CommandError(f"tm.pieces({name}, {shares}) needs the extent that is shared: of=R, say")
    whole, before, found = _point(of), Fraction(0), list[Expr]()
    for share in shares.of_whole[:-1]:
        before += share
        found.append(whole * before.numerator // before.denominator)
    return tuple(found)


def cut_up(program: Program, cut: Cut, at: Mapping[str, int]) -> Pieces:
    """The pieces of a dimension, with neighbouring pieces of one rank merged. `at` are the dimensions by iterator."""
    if cut.iterator not in at:
        raise CommandError(f"rank={cut}: {cut.iterator} is not among the iterators {', '.join(at)}")
    frame = program.algorithm.frame(None, ())
    for point in cut.points:
        try:
            Affine(frame, {}).value(point)
        except NotAffine:
            raise CommandError(
                f"rank={cut}: the point {point} is neither an integer nor affine in the parameters "
                f"({', '.join(program.algorithm.params) or 'there are none'})"
            ) from None
    points, ranks = list[Expr](), [cut.ranks[0]]
    for k, point in enumerate(cut.points):
        until = typed(point, int64)
        if k > 0 and cut.ranks[k] == cut.ranks[k - 1]:
            until = Binary("max", points.pop(), until, int64)
        points.append(until)
        if cut.ranks[k + 1] != cut.ranks[k]:
            ranks.append(cut.ranks[k + 1])
    if cut.ranks[-1] == cut.ranks[-2]:
        points.pop()
    return Pieces(at[cut.iterator], tuple(points), tuple(ranks), tuple(map(str, points)))
