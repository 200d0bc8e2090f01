"""The dimensions of the time of a nest: positions among siblings and loops in turn."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Dimension:
    """One dimension of a nest's schedule: the loop at a depth, or the order of the siblings at a depth."""

    position: int

    @property
    def is_loop(self) -> bool:
        """Whether it is a loop."""
        return self.position % 2 == 1

    @property
    def depth(self) -> int:
        """The number of loops outside of it."""
        return self.position // 2

    @property
    def iterator(self) -> str:
        """The name that isl uses; no name of a user looks like it."""
        return f"@{self.depth}" if self.is_loop else f"@order{self.depth}"
