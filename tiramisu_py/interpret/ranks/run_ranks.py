"""Several ranks in one process, each with its own memory, in the least convenient order that messages allow."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import product
from typing import Any

import numpy as np

from tiramisu_py.interpret.array_steps import ArraySteps
from tiramisu_py.interpret.devices.queues import MOODS
from tiramisu_py.interpret.machine_faults import InterpretError
from tiramisu_py.interpret.ranks.collective_meetings import CollectiveMeeting, Meetings
from tiramisu_py.interpret.ranks.combined_on_ranks import Combinations, Seat
from tiramisu_py.interpret.ranks.rank import RankPlace, SimulatedRank, shape_of
from tiramisu_py.interpret.ranks.traffic import Network, Traffic
from tiramisu_py.ir import LoopFunction
from tiramisu_py.records import dataclass

#: The numbers of steps that a rank may take before another rank is scheduled.
BURSTS = (1, 10, 1_000_000)


def interpret_ranks(
    function: LoopFunction,
    arguments: Sequence[Mapping[str, Any]],
    params: Mapping[str, int],
    seed: int = 0,
    threads: int | None = None,
    array_steps: ArraySteps | None = None,
) -> Traffic:
    """Execute a function in place on several ranks, one for each mapping of arguments; returns the messages sent.

    With `threads`, each rank deals loops over partial results of threads out to so many; `array_steps` as in `run`.

    Each rank passes its own blocks of the arrays. A send is complete only when a receive takes it, unless it is
    buffered. Values are taken and stored at any moment until the wait: as late as possible, at random times, or at
    once, depending on `seed` modulo 3; the seed also selects the rank that takes the next steps.
    Raises `InterpretError` for all errors that `run` detects on one rank, and for an access to memory that a message
    uses, a request that is in use when it is used again or given up, messages that are never received, halves that do
    not match, and a deadlock.
    """
    shape = shape_of(function, params)
    if np.prod(shape, dtype=int) > len(arguments):
        raise InterpretError(f"{function.name} needs {np.prod(shape)} ranks, there are {len(arguments)}")
    network = Network(combinations=Combinations(seed))
    meetings = Meetings(int(np.prod(shape, dtype=int)))
    with np.errstate(all="ignore"):
        places = product(*map(range, shape))
        ranks = []
        for number, (place, given) in enumerate(zip(places, arguments, strict=False)):
            at = RankPlace(number, place, len(arguments))
            ranks.append(SimulatedRank(function, at, given, params, network, seed, meetings, threads, array_steps))
        Schedule(ranks, network, random.Random(seed), MOODS[seed % len(MOODS)]).run()
    for half in network.left():
        verb = "sends to" if half.sends else "receives from"
        raise InterpretError(f"{half} {verb} rank {half.peer}, which never takes part")
    network.traffic.combined = network.combinations.combined
    return network.traffic


@dataclass
class Schedule:
    """The scheduler of the ranks."""

    ranks: list[SimulatedRank]
    network: Network
    choice: random.Random
    mood: str
    steps: int = field(default=0)

    def run(self) -> None:
        """Run all ranks until they end."""
        while not all(rank.ended for rank in self.ranks):
            ready = [rank for rank in self.ranks if rank.ready]
            if self._moves_values(bool(ready)):
                self.network.arrive(self.choice.choice(self.network.flying))
            elif ready:
                self.choice.choice(ready).advance(self.choice.choice(BURSTS))
            else:
                raise InterpretError(f"deadlock: {'; '.join(self._stuck())}")
        while self.network.flying:
            self.network.arrive(self.choice.choice(self.network.flying))

    def _moves_values(self, others: bool) -> bool:
        if not self.network.flying:
            return False
        return not others or self.mood == "eager" or (self.mood == "random" and self.choice.random() < 0.5)

    def _stuck(self) -> list[str]:
        found = []
        for rank in self.ranks:
            for half in rank.awaited if not rank.ended else ():
                if isinstance(half, Seat):
                    found.append(f"{rank.place} waits in {half.words()}")
                elif isinstance(half, CollectiveMeeting):
                    if not half.arrived:
                        found.append(f"{rank.place} waits in {half.statement} for {half.missing} other ranks")
                elif not half.arrived:
                    verb = "receive" if half.sends else "send"
                    has = ", which has returned" if half.peer >= len(self.ranks) or self.ranks[half.peer].ended else ""
                    found.append(f"{rank.place} waits in {half.statement} for rank {half.peer} to {verb}{has}")
        return found
