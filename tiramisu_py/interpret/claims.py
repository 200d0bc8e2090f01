"""Memory in use by incomplete messages: it must not be written, and a receive's memory must not be read either."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np

from tiramisu_py.records import dataclass


@dataclass(eq=False)
class Claim:
    """The elements (one index column for each dimension) that a message uses; a receive's elements are `incoming`."""

    at: tuple[Any, ...]
    incoming: bool
    what: str

    def meets(self, at: tuple[Any, ...], shape: tuple[int, ...]) -> bool:
        """Whether the message uses one of the elements `at`."""
        mine = np.zeros(shape, dtype=bool)
        mine[self.at] = True
        return bool(np.any(mine[at]))


@dataclass(eq=False)
class Claims:
    """All claims on an array."""

    held: list[Claim] = field(default_factory=list)
    _reading: Any = None
    _writing: Any = None

    def add(self, claim: Claim, shape: tuple[int, ...]) -> None:
        """Mark the elements as in use."""
        self.held.append(claim)
        self._count(shape)

    def drop(self, claim: Claim, shape: tuple[int, ...]) -> None:
        """Mark the elements as free."""
        self.held.remove(claim)
        self._count(shape)

    def _count(self, shape: tuple[int, ...]) -> None:
        self._reading, self._writing = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
        for claim in self.held:
            self._writing[claim.at] = True
            if claim.incoming:
                self._reading[claim.at] = True

    def against(self, at: tuple[Any, ...], writes: bool) -> Claim | None:
        """A claim that forbids the read or write of the elements `at`; None if there is none."""
        if not self.held:
            return None
        forbidden = self._writing if writes else self._reading
        if not np.any(forbidden[at]):
            return None
        shape = forbidden.shape
        return next(claim for claim in self.held if (writes or claim.incoming) and claim.meets(at, shape))
