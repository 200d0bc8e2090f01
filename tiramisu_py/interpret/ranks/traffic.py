"""Messages between ranks: halves are matched in order, and the values of a matched pair arrive at any time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Any

import numpy as np

from tiramisu_py.interpret.claims import Claim
from tiramisu_py.interpret.machine_faults import InterpretError
from tiramisu_py.interpret.memory import Array
from tiramisu_py.interpret.ranks.combined_on_ranks import Combinations, Combined
from tiramisu_py.program.statement import SendMode
from tiramisu_py.records import dataclass

#: The sending rank, the receiving rank, and the tag.
Channel = tuple[int, int, int]
#: The tag of messages of collective calls; exchanges between two ranks have other tags.
TOGETHER = 0


@dataclass(eq=False)
class MessageHalf:
    """One posted send or receive of the `count` elements `at` of an array.

    `arrived` says that the values have been taken (of a send) or stored. `values` is the copy of a buffered send.
    """

    sends: bool
    channel: Channel
    statement: str
    array: Array
    at: tuple[Any, ...]
    count: int
    mode: SendMode
    claim: Claim
    values: np.ndarray | None = None
    arrived: bool = False

    @property
    def rank(self) -> int:
        """The rank that posted it."""
        return self.channel[0] if self.sends else self.channel[1]

    @property
    def peer(self) -> int:
        """The rank at the other end."""
        return self.channel[1] if self.sends else self.channel[0]

    def __str__(self) -> str:
        return f"{self.statement} on rank {self.rank}"

    def taken(self) -> np.ndarray:
        """The values that it sends, in order."""
        return np.array(np.ravel(self.array.data[self.at]))

    def finish(self) -> None:
        """Release its memory."""
        self.array.claims.drop(self.claim, self.array.data.shape)


@dataclass(frozen=True)
class Sent:
    """One message that has arrived."""

    statement: str
    source: int
    target: int
    tag: int
    elements: int
    bytes: int


@dataclass
class Traffic:
    """The messages of a run, in the order of arrival, and the partial results that ranks combined."""

    sent: list[Sent] = field(default_factory=list)
    combined: list[Combined] = field(default_factory=list)

    @property
    def messages(self) -> int:
        """The number of messages."""
        return len(self.sent) + len(self.combined)

    @property
    def elements(self) -> int:
        """The number of elements in all messages."""
        return sum(one.elements for one in self.sent) + sum(one.elements for one in self.combined)

    @property
    def bytes(self) -> int:
        """The number of bytes in all messages."""
        return sum(one.bytes for one in self.sent) + sum(one.bytes for one in self.combined)

    def sent_by(self, rank: int) -> Traffic:
        """The messages that a rank sent."""
        return Traffic([one for one in self.sent if one.source == rank], self._combined_by(rank))

    def received_by(self, rank: int) -> Traffic:
        """The messages that a rank received."""
        return Traffic([one for one in self.sent if one.target == rank], self._combined_by(rank))

    def _combined_by(self, rank: int) -> list[Combined]:
        return [one for one in self.combined if one.rank == rank]

    def of(self, statement: str) -> Traffic:
        """The messages of one send statement."""
        return Traffic([one for one in self.sent if one.statement == statement])


@dataclass
class Network:
    """All messages between the ranks: unmatched halves, and matched pairs in flight."""

    posted: dict[Channel, list[MessageHalf]] = field(default_factory=dict)
    flying: list[tuple[MessageHalf, MessageHalf]] = field(default_factory=list)
    traffic: Traffic = field(default_factory=Traffic)
    combinations: Combinations = field(default_factory=Combinations)

    def post(self, half: MessageHalf) -> None:
        """Add a half; it is matched with the first opposite half that waits on its channel."""
        waiting = self.posted.setdefault(half.channel, [])
        if not waiting or waiting[0].sends == half.sends:
            waiting.append(half)
            return
        other = waiting.pop(0)
        send, receive = (half, other) if half.sends else (other, half)
        self._check(send, receive)
        self.flying.append((send, receive))

    def _check(self, send: MessageHalf, receive: MessageHalf) -> None:
        if send.count != receive.count:
            raise InterpretError(f"{send} sends {send.count} elements, {receive} takes {receive.count}")
        types = send.array.data.dtype, receive.array.data.dtype
        if types[0] != types[1]:
            raise InterpretError(f"{send} sends elements of type {types[0]}, {receive} takes {types[1]}")

    def arrive(self, pair: tuple[MessageHalf, MessageHalf]) -> None:
        """Transfer the values of one message."""
        send, receive = pair
        self.flying.remove(pair)
        values = send.taken() if send.values is None else send.values
        into = receive.array.data[receive.at]
        receive.array.data[receive.at] = values.reshape(np.shape(into))
        receive.array.written[receive.at] = True
        send.arrived = receive.arrived = True
        if send.rank == receive.rank and send.channel[2] == TOGETHER:
            return  # a rank's message to itself in a collective call is no traffic
        self.traffic.sent.append(
            Sent(send.statement, *send.channel, elements=send.count, bytes=values.dtype.itemsize * send.count)
        )

    def left(self) -> Iterable[MessageHalf]:
        """The unmatched halves."""
        return (half for waiting in self.posted.values() for half in waiting)
