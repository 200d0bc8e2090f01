"""One rank: a host with messages; requests and memory are checked while messages use them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tiramisu_py.interpret.array_steps import ArraySteps
from tiramisu_py.interpret.checked_call import entered, left, returned
from tiramisu_py.interpret.claims import Claim
from tiramisu_py.interpret.devices.host_strand import Host
from tiramisu_py.interpret.devices.queues import MOODS, Queues
from tiramisu_py.interpret.evaluator import Evaluator, Frame, bound
from tiramisu_py.interpret.machine_faults import InterpretError
from tiramisu_py.interpret.ranks.collective_meetings import ByPeer, CollectiveMeeting, Meetings, halves
from tiramisu_py.interpret.ranks.combined_on_ranks import Seat
from tiramisu_py.interpret.ranks.traffic import MessageHalf, Network
from tiramisu_py.interpret.strands import Nested, OwnSteps, Steps
from tiramisu_py.ir import AllReduce, Collective, Complete, LoopFunction, Node, Piece, Post, Request, Requests
from tiramisu_py.program.statement import SendMode
from tiramisu_py.records import dataclass


def shape_of(function: LoopFunction, params: Mapping[str, int]) -> tuple[int, ...]:
    """The extents of the process grid; empty for a function without ranks."""
    if function.grid is None:
        return ()
    evaluate = bound({name: np.int64(value) for name, value in params.items()})
    return tuple(max(0, evaluate.integer(extent)) for extent in function.grid.extents)


@dataclass(frozen=True)
class RankPlace:
    """A rank: its number, its coordinates, and the total number of ranks."""

    number: int
    coordinates: tuple[int, ...]
    total: int

    def __str__(self) -> str:
        return f"rank {self.number if len(self.coordinates) <= 1 else self.coordinates}"


@dataclass
class RequestSlot:
    """One request: the half that uses it, and the message for which a persistent request was set up."""

    half: MessageHalf | None = None
    setup: tuple[object, ...] | None = None


class SimulatedRank(Host):
    """One rank: a host, which may have GPUs of its own."""

    def __init__(
        self,
        function: LoopFunction,
        place: RankPlace,
        given: Mapping[str, Any],
        params: Mapping[str, int],
        network: Network,
        seed: int,
        meetings: Meetings,
        threads: int | None = None,
        array_steps: ArraySteps | None = None,
    ) -> None:
        own = seed * 1009 + place.number
        queues = Queues(random.Random(own), MOODS[own % len(MOODS)])
        super().__init__(function, random.Random(own), queues, threads, array_steps)
        self.function, self.place, self.network = function, place, network
        self.shape = shape_of(function, params)
        self.requests: dict[str, list[RequestSlot]] = {}
        self.pieces: list[tuple[np.ndarray, ...]] = []
        self.by_peer: ByPeer = {}
        self.meetings, self.calls = meetings, 0
        #: The halves and meetings that it waits for; it continues when all of them have arrived.
        self.awaited: Sequence[MessageHalf | CollectiveMeeting | Seat] = []
        self.ended = False
        names = () if function.grid is None else function.grid.coordinates
        self.steps = self._whole(given, params, dict(zip(names, place.coordinates, strict=True)))

    def _whole(self, given: Mapping[str, Any], params: Mapping[str, int], at: Mapping[str, int]) -> Steps:
        frame = entered(self.function, given, params, at)
        for _ in self.run(self.function.body, frame):
            self.queues.meanwhile()
            yield None
        returned(self.function, frame)
        self.queues.rest()
        left(self.function, frame)

    @property
    def ready(self) -> bool:
        """Whether it can take a step."""
        return not self.ended and all(half.arrived for half in self.awaited)

    def advance(self, most: int) -> None:
        """Take up to `most` steps, until it must wait, or ends."""
        try:
            for _ in range(most):
                next(self.steps)
                if not self.ready:
                    return
        except StopIteration:
            self.ended = True
        except InterpretError as error:
            raise InterpretError(f"on {self.place}: {error}") from error

    # -- messages

    def visit_piece(self, node: Piece, frame: Frame) -> Steps:
        evaluate = Evaluator(frame)
        first = [evaluate.integer(index) for index in node.first]
        extents = [max(0, evaluate.integer(side.extent)) for side in node.sides]
        steps = np.indices(extents).reshape(len(extents), int(np.prod(extents)))
        columns = [np.full(int(np.prod(extents)), start) for start in first]
        for side, along in zip(node.sides, steps, strict=True):
            columns = [column + step * along for column, step in zip(columns, side.steps, strict=True)]
        pieces = self.pieces if node.peer is None else self.by_peer.setdefault(evaluate.integer(node.peer), [])
        pieces.append(tuple(columns))
        return iter(())

    def visit_collective(self, node: Collective, frame: Frame) -> Steps:
        frame.where = node.statement
        root = None if node.root is None else Evaluator(frame).integer(node.root)
        meeting = self.meetings.join(self.calls, node.statement, root)
        self.calls += 1
        parts = self._by_peer(node.sends, frame), self._by_peer(node.receives, frame)
        frame.where = node.statement
        arrays = frame.array(node.source), frame.array(node.target)
        found = list(halves(self.place.number, self.meetings.ranks, node.statement, arrays, parts, root))
        for half in found:
            self.network.post(half)
        yield from self._until([*found, meeting])
        for half in found:
            half.finish()
        yield None

    def _by_peer(self, code: Node, frame: Frame) -> ByPeer:
        self.by_peer = {}
        for _ in self.run(code, frame):
            pass
        return self.by_peer

    def visit_post(self, node: Post, frame: Frame) -> Steps:
        half = self._half(node, frame)
        if node.request is not None:
            self._take(node, node.request, half, frame)
        self.network.post(half)
        if node.request is None:
            yield from self._until([half])
            half.finish()
        yield None

    def _half(self, node: Post, frame: Frame) -> MessageHalf:
        frame.where = node.statement
        self.pieces = []
        for _ in self.run(node.elements, frame):
            pass
        frame.where = node.statement
        peer = Evaluator(frame).integer(node.peer)
        if not 0 <= peer < self.place.total:
            raise InterpretError(f"{node.statement} names rank {peer}, but there are {self.place.total} ranks")
        array = frame.array(node.array)
        if array.data.dtype != node.dtype.numpy:
            raise InterpretError(f"{node.statement} takes {node.array} as {node.dtype}; it is {array.data.dtype}")
        at = tuple(np.concatenate(columns) for columns in zip(*self.pieces, strict=True))
        count = len(at[0]) if at else len(self.pieces)
        if node.sends:
            array.read(at, node.statement)
        else:
            array.storable(at, node.statement)
        what = f"the {'send' if node.sends else 'receive'} {node.statement}"
        claim = Claim(at, not node.sends, what)
        array.claims.add(claim, array.data.shape)
        me = self.place.number
        channel = (me, peer, node.tag) if node.sends else (peer, me, node.tag)
        half = MessageHalf(node.sends, channel, node.statement, array, at, count, node.mode, claim)
        if node.sends and node.mode is SendMode.BUFFERED:
            half.values, half.arrived = half.taken(), True
        return half

    def _take(self, node: Post, request: Request, half: MessageHalf, frame: Frame) -> None:
        slots = self._slots(request.requests, node.statement)
        index = Evaluator(frame).integer(request.index)
        if not 0 <= index < len(slots):
            raise InterpretError(f"{node.statement} uses request {index} of {request.requests}, which has {len(slots)}")
        slot = slots[index]
        if slot.half is not None:
            raise InterpretError(
                f"{node.statement} uses request {index} of {request.requests}, which {slot.half.statement} still uses"
            )
        slot.half = half
        if node.persistent:
            columns = tuple(tuple(column.tolist()) for column in half.at)
            setup = (half.sends, half.channel, half.mode, id(half.array), columns)
            if slot.setup not in (None, setup):
                raise InterpretError(f"{node.statement} starts a persistent request that was set up for something else")
            slot.setup = setup

    def _slots(self, name: str, statement: str) -> list[RequestSlot]:
        if name not in self.requests:
            raise InterpretError(f"{statement} uses the requests {name}, which do not exist there")
        return self.requests[name]

    def visit_requests(self, node: Requests, frame: Frame) -> OwnSteps:
        frame.where = f"the requests {node.name}"
        count = Evaluator(frame).integer(node.count)
        self.requests[node.name] = slots = [RequestSlot() for _ in range(max(0, count))]
        yield Nested(node.body, frame)
        for slot in slots:
            if slot.half is not None:
                raise InterpretError(f"nothing waits for {slot.half.statement} (to or from rank {slot.half.peer})")
        del self.requests[node.name]

    def visit_complete(self, node: Complete, frame: Frame) -> Steps:
        frame.where = node.statement
        evaluate = Evaluator(frame)
        slots, first, count = (
            self._slots(node.requests, node.statement),
            *map(evaluate.integer, (node.first, node.count)),
        )
        if count > 0 and not 0 <= first <= first + count <= len(slots):
            raise InterpretError(
                f"{node.statement} waits for requests {first} to {first + count - 1} of {node.requests}, "
                f"which has {len(slots)}"
            )
        waiting = [slot for slot in slots[first : first + max(0, count)] if slot.half is not None]
        yield from self._until([slot.half for slot in waiting if slot.half is not None])
        for slot in waiting:
            assert slot.half is not None
            slot.half.finish()
            slot.half = None
        yield None

    def visit_allreduce(self, node: AllReduce, frame: Frame) -> Steps:
        frame.where = node.statement
        arrays = tuple(map(frame.array, node.arrays))
        yield from self._until([self.network.combinations.joined(node, self.shape, self.place, arrays)])
        yield None

    def _until(self, awaited: Sequence[MessageHalf | CollectiveMeeting | Seat]) -> Steps:
        self.awaited = awaited
        yield None
        self.awaited = []
