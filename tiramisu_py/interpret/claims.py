"""Memory in use by messages that are not complete: none of it may be written, and what is received not even read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(eq=False)
class Claim:
    """The elements (an index column for each dimension) that a message uses; `incoming` ones are still to be stored."""

    at: tuple[Any, ...]
    incoming: bool
    what: str

    def meets(self, at: tuple[Any, ...], shape: tuple[int, ...]) -> bool:
        """Whether it uses one of some elements."""
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
        """From now on the elements are in use."""
        self.held.append(claim)
        self._count(shape)

    def drop(self, claim: Claim, shape: tuple[int, ...]) -> None:
        """The elements are free again."""
        self.held.remove(claim)
        self._count(shape)

    def _count(self, shape: tuple[int, ...]) -> None:
        self._reading, self._writing = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
        for claim in self.held:
            self._writing[claim.at] = True
            if claim.incoming:
                self._reading[claim.at] = True

    def against(self, at: tuple[Any, ...], writes: bool) -> Claim | None:
        """A claim that forbids to read or write some elements."""
        if not self.held:
            return None
        forbidden = self._writing if writes else self._reading
        if not np.any(forbidden[at]):
            return None
        shape = forbidden.shape
        return next(claim for claim in self.held if (writes or claim.incoming) and claim.meets(at, shape))
