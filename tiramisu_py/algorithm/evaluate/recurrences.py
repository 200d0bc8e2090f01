"""Values that read each other: computed in rounds, until all are known."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from tiramisu_py.algorithm.evaluate.computing import Computing
from tiramisu_py.algorithm.evaluate.lattice import Column, Mask
from tiramisu_py.algorithm.evaluate.valuation import Valuation
from tiramisu_py.errors import DeclarationError


def compute_together(members: Sequence[Computing], valuation: Valuation) -> None:
    """Compute a recurrence, or all computations of a group; raises `DeclarationError` if a value depends on itself.

    A value that reads an unknown value waits for it and is computed again in a later round.
    """
    sizes = [member.values.array.size for member in members]
    offsets = [0, *accumulate(sizes)]
    valuation.offsets = {member.c.name: offset for member, offset in zip(members, offsets, strict=False)}
    done = np.zeros(offsets[-1], dtype=np.bool_)
    rounds = [_Rounds(member, done, offset) for member, offset in zip(members, offsets, strict=False)]
    while any(each.attempt.size for each in rounds):
        for each in rounds:
            each.run(valuation)
        for each in rounds:
            each.find_ready()
    valuation.blocked, valuation.offsets = None, {}
    for each in rounds:
        if each.waiting.size:
            _refuse_cycle(rounds, each)


class _Rounds:
    """One computation: the values to compute in the next round, and those that wait for another value."""

    def __init__(self, computing: Computing, done: Mask, offset: int) -> None:
        self.computing, self.done, self.offset = computing, done, offset
        self.blocked = np.full(computing.count, -1, dtype=np.int64)
        self.attempt: Column = np.arange(computing.count)
        self.waiting: Column = np.arange(0)

    def run(self, valuation: Valuation) -> None:
        """Compute the values that are due; those that read an unknown value wait."""
        computing, attempt = self.computing, self.attempt
        self.attempt = np.arange(0)
        if not attempt.size:
            return
        self.blocked[attempt] = -1
        valuation.blocked = self.blocked
        result = computing.computed(attempt)
        right = self.blocked[attempt] < 0
        found = computing.flat[attempt[right]]
        values = computing.values
        assert values.done is not None
        values.array.reshape(-1)[found] = result[right]
        values.done.reshape(-1)[found] = True
        self.done[self.offset + found] = True
        self.waiting = np.concatenate([self.waiting, attempt[~right]])

    def find_ready(self) -> None:
        """The values whose missing value is known by now are due again."""
        ready = self.done[self.blocked[self.waiting]]
        self.attempt, self.waiting = self.waiting[ready], self.waiting[~ready]


def _refuse_cycle(rounds: Sequence[_Rounds], stuck: _Rounds) -> None:
    row = stuck.waiting[:1]
    needed = int(stuck.blocked[row[0]])
    holder = [each for each in rounds if each.offset <= needed][-1]
    source = holder.computing.values
    value = stuck.computing.point_text(row)
    reads = f"{source.name}[{', '.join(map(str, source.indices(needed - holder.offset)))}]"
    raise DeclarationError(f"{value} depends on itself: it reads {reads}, which waits for it or for another cycle")
