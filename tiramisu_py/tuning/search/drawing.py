"""Random points of a space, each drawn once."""

from __future__ import annotations

from random import Random

from tiramisu_py.tuning.search.space import Point, Space

#: Draws for each new point; after them, the points that are left are too few to be met by chance.
DRAWS = 1000


class Drawn:
    """Random points of a space that may be too large to list."""

    def __init__(self, space: Space, seed: int) -> None:
        self._space = space
        self._random = Random(seed)
        self._seen: set[int] = set()

    def take(self, count: int) -> list[Point]:
        drawn = (self.draw() for _ in range(count))
        return [point for point in drawn if point is not None]

    def draw(self) -> Point | None:
        """A point that has not been proposed; None if none is met."""
        for _ in range(DRAWS):
            point = self._space.numbered(self._random.randrange(self._space.size))
            if self.is_new(point):
                return point
        if not self._space.is_listed:
            return None
        left = [point for point in self._space.points() if self._space.number(point) not in self._seen]
        return left[0] if left and self.is_new(left[0]) else None

    def is_new(self, point: Point) -> bool:
        """Whether the condition allows a point that has not been proposed; it counts as proposed from now on."""
        number = self._space.number(point)
        if number in self._seen:
            return False
        self._seen.add(number)
        return self._space.allows(point)

    def tell(self, point: Point, cost: float | None) -> None:
        """Nothing follows from it."""
