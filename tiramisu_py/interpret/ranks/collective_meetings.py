"""Collective calls: no rank continues before all have joined, and values arrive in any order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any

import numpy as np

from tiramisu_py.interpret.claims import Claim
from tiramisu_py.interpret.machine_faults import InterpretError
from tiramisu_py.interpret.memory import Array
from tiramisu_py.interpret.ranks.traffic import TOGETHER, MessageHalf
from tiramisu_py.program.statement import SendMode
from tiramisu_py.records import dataclass

#: For each peer rank, the indices of the elements sent to it or received from it.
ByPeer = dict[int, list[tuple[Any, ...]]]


@dataclass(eq=False)
class CollectiveMeeting:
    """The k-th collective call: its statement, its root, and the number of ranks that have not joined yet."""

    statement: str
    root: int | None
    missing: int

    @property
    def arrived(self) -> bool:
        """Whether all ranks have joined."""
        return self.missing == 0

    def words(self) -> str:
        """A description of the wait, for messages."""
        return f"{self.statement} for {self.missing} other rank{'s' if self.missing > 1 else ''}"


@dataclass
class Meetings:
    """The collective calls so far, of `ranks` ranks."""

    ranks: int
    held: list[CollectiveMeeting] = field(default_factory=list)

    def join(self, number: int, statement: str, root: int | None) -> CollectiveMeeting:
        """Add a rank to the call `number`; raises `InterpretError` if other ranks make another call there."""
        if number == len(self.held):
            self.held.append(CollectiveMeeting(statement, root, self.ranks))
        meeting = self.held[number]
        if (meeting.statement, meeting.root) != (statement, root):
            raise InterpretError(
                f"it calls {statement} (root {root}), other ranks {meeting.statement} ({meeting.root})"
            )
        if root is not None and not 0 <= root < self.ranks:
            raise InterpretError(f"{statement} is a broadcast from rank {root}, but there are {self.ranks} ranks")
        meeting.missing -= 1
        return meeting


def halves(
    me: int, ranks: int, statement: str, arrays: tuple[Array, Array], parts: tuple[ByPeer, ByPeer], root: int | None
) -> Iterator[MessageHalf]:
    """The sends and receives of a rank in a collective call, as halves of messages; sends first."""
    sent, received = parts
    if root is not None:
        if (me == root) == bool(received) or (me != root and (sent or set(received) != {root})):
            raise InterpretError(f"{statement} is a broadcast from rank {root}, but another operation on rank {me}")
        sent = {peer: pieces for pieces in sent.values() for peer in range(ranks) if peer != root}
    for sends, by_peer, array in ((True, sent, arrays[0]), (False, received, arrays[1])):
        for peer, pieces in by_peer.items():
            if not 0 <= peer < ranks:
                raise InterpretError(f"{statement} names rank {peer}, but there are {ranks} ranks")
            at = tuple(np.concatenate(columns) for columns in zip(*pieces, strict=True))
            count = len(at[0]) if at else len(pieces)
            if count:
                yield _half(me, peer, statement, array, at, count, sends)


def _half(
    me: int, peer: int, statement: str, array: Array, at: tuple[Any, ...], count: int, sends: bool
) -> MessageHalf:
    if sends:
        array.read(at, statement)
    else:
        array.storable(at, statement)
    claim = Claim(at, not sends, f"the call {statement}")
    array.claims.add(claim, array.data.shape)
    channel = (me, peer, TOGETHER) if sends else (peer, me, TOGETHER)
    return MessageHalf(sends, channel, statement, array, at, count, SendMode.STANDARD, claim)
