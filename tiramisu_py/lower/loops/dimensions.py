"""The time dimensions of a nest, which alternate between positions among siblings and loops."""

from __future__ import annotations

from tiramisu_py.records import dataclass


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
        """The iterator's name in isl, which no user's name can equal."""
        return f"@{self.depth}" if self.is_loop else f"@order{self.depth}"
