"""One half of an exchange, as the user gives it: the values sent or received, the peer rank, and the properties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from enum import Enum

import islpy as isl

from tiramisu_py.algorithm.domains.domain import parse_domain
from tiramisu_py.algorithm.domains.references import check_references
from tiramisu_py.algorithm.expressions import Access, Expr, as_expr
from tiramisu_py.errors import CommandError, DeclarationError, DTypeError
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.spread import axes
from tiramisu_py.program.ranks.told_ranks import told_ranks
from tiramisu_py.program.statement import Role, SendMode
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.devices.transfers import Mode
from tiramisu_py.schedule.ranks.rank_numbers import numbers_in, parts_of, with_ranks


class Property(Enum):
    """The properties of a half of an exchange; `Mode` has SYNC and ASYNC.

    BLOCK: the rank continues when the message is complete. NONBLOCK: it continues at once; a wait follows. BUFFERED:
    the values sent are copied to a buffer. PERSISTENT: the requests of nonblocking messages are set up once, and
    started in each iteration.
    """

    BLOCK = "block"
    NONBLOCK = "nonblock"
    BUFFERED = "buffered"
    PERSISTENT = "persistent"

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class ExchangeHalf:
    """One half of an exchange, as it was declared: the points at which ``access`` is sent, or received.

    `rank_dims` are the iterators that are the rank's own coordinates, with their axes. All ranks take part in a
    `collective` half together.
    """

    dims: tuple[str, ...]
    points: isl.Set
    access: Access
    peers: tuple[Expr, ...]
    asynchronous: bool = False
    mode: SendMode = SendMode.STANDARD
    persistent: bool = False
    rank_dims: Mapping[str, int] = field(default_factory=dict)
    collective: bool = False


def check_given(given: Mapping[str, object]) -> None:
    """Refuse an exchange without one of its halves."""
    missing = [name for name in ("send", "to", "recv", "source") if given[name] is None]
    if missing:
        raise CommandError(
            f"an exchange has two halves, and {', '.join(f'{name}=' for name in missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing: send= says which values go, to= to which rank; recv= "
            "which values come, source= from which rank"
        )


def together(program: Program, send: ExchangeHalf, receive: ExchangeHalf) -> tuple[ExchangeHalf, ExchangeHalf]:
    """The halves of an exchange in which all ranks take part together; raises where they cannot."""
    if told_ranks(program).unnumbered:
        raise CommandError(
            "collective=True needs blocks of a constant size: with bounds known only at run time, a rank "
            "knows only its neighbours"
        )
    for one, word in ((send, "send_props"), (receive, "recv_props")):
        if one.asynchronous or one.persistent:
            raise CommandError(
                f"{word} has tm.NONBLOCK, but all ranks take part in a collective exchange together, and go on when it "
                "is complete: leave it out, or leave out collective=True"
            )
    if send.mode is not SendMode.STANDARD:
        raise CommandError(
            f"send_props says that sends are {send.mode.value}, but a collective exchange has no sends of its own: "
            "leave it out, or leave out collective=True"
        )
    return replace(send, collective=True), replace(receive, collective=True)


def half(
    program: Program, name: str, role: Role, domain: object, access: Access, to: object, props: object, owner: object
) -> ExchangeHalf:
    """One half of an exchange, from what the user gives; `domain` may be a pair of a domain and a condition."""
    sends = role is Role.SEND
    made, to_word = f"{name}.{'send' if sends else 'recv'}", "to=" if sends else "source="
    numbered = not told_ranks(program).unnumbered
    if numbered and axes(program) == 0:
        raise CommandError(
            "there are no ranks yet: declare them with grid(...), or run a loop on them with tag_distribute"
        )
    asynchronous, mode, persistent = properties(props, sends)
    points, where = domain if isinstance(domain, tuple) and len(domain) == 2 else (domain, None)
    peers = _peers(to, to_word)
    used = numbers_in([*parts_of(points), where, *access.indices, *peers])
    if numbered:
        points = with_ranks(program, points, used)
    found = parse_domain(program.algorithm, made, points, where, owner)
    if found.guards:
        raise CommandError(f"the domain of {made} has conditions that are not affine: {found.guards[0]}")
    known = found.iterators if numbered else (*found.iterators, *(number.name for number in used))
    for peer in peers:
        check_references(program.algorithm, f"{to_word} of {name}", peer, known, owner)
    for index in access.indices:
        check_references(program.algorithm, f"{access} in {made}", index, found.iterators, owner)
    own = {number.name: number.axis for number in used if number.name in found.iterators}
    return ExchangeHalf(tuple(found.iterators), found.points, access, peers, asynchronous, mode, persistent, own)


def _peers(to: object, word: str) -> tuple[Expr, ...]:
    """The coordinates of the rank at the other end."""
    given = tuple(to) if isinstance(to, tuple | list) else (to,)
    found = []
    for one in given:
        try:
            peer = as_expr(one)
        except (DeclarationError, DTypeError) as error:
            raise CommandError(f"{word}{one!r} names no rank: {error}") from None
        if not peer.dtype.is_integer:
            raise CommandError(f"{word}{one} is not an integer: give the number of a rank, such as q + 1")
        found.append(peer)
    if not found:
        raise CommandError(f"{word}() names no rank: give a coordinate for each axis of the process grid")
    return tuple(found)


def properties(given: object, sends: bool) -> tuple[bool, SendMode, bool]:
    """Whether a half is nonblocking, when a send is complete, and whether its requests are set up once."""
    word = "send_props" if sends else "recv_props"
    if not isinstance(given, list | tuple):
        raise CommandError(f"{word}={given!r}: give a list, such as [tm.ASYNC, tm.NONBLOCK]")
    for prop in given:
        if not isinstance(prop, Mode | Property):
            raise CommandError(f"{word} has {prop!r}: choose {_choices(sends)}")
    _check_together(word, given, sends)
    mode = SendMode.SYNCHRONOUS if Mode.SYNC in given else SendMode.STANDARD
    mode = SendMode.BUFFERED if Property.BUFFERED in given else mode
    return Property.NONBLOCK in given, mode, Property.PERSISTENT in given


def _choices(sends: bool) -> str:
    modes = "tm.SYNC, tm.ASYNC, tm.BUFFERED, " if sends else ""
    return f"{modes}tm.BLOCK, tm.NONBLOCK or tm.PERSISTENT"


def _check_together(word: str, given: Sequence[object], sends: bool) -> None:
    if not sends and (Mode.SYNC in given or Property.BUFFERED in given):
        prop = "SYNC" if Mode.SYNC in given else "BUFFERED"
        raise CommandError(f"{word} has tm.{prop}, which says when a send is complete: give it in send_props")
    for one, other, why in (
        (Mode.SYNC, Mode.ASYNC, "a send is synchronous (complete when it is being received) or standard"),
        (
            Mode.SYNC,
            Property.BUFFERED,
            "a synchronous send is complete when it is being received, a buffered one at once",
        ),
        (Property.BLOCK, Property.NONBLOCK, "a rank goes on when the message is complete, or at once"),
    ):
        if one in given and other in given:
            raise CommandError(f"{word} has both tm.{one.name} and tm.{other.name}: {why}; choose one")
    if Property.PERSISTENT in given and Property.NONBLOCK not in given:
        raise CommandError(
            f"{word} has tm.PERSISTENT without tm.NONBLOCK: persistent requests are started, and waited for"
        )
