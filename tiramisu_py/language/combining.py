"""How programs add to one place in turn."""

from __future__ import annotations

from enum import Enum


class InTurn(Enum):
    """ORDERED: programs add in the order of their numbers, so that the bits are those of one that adds all."""

    ORDERED = "ordered"

    def __repr__(self) -> str:
        return self.name
