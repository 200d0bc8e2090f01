"""Points and sizes as rows of numbers: logarithms of what has an order, a column for each value of what has none."""

from __future__ import annotations

import enum
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tiramisu_py.errors import ArgumentError
from tiramisu_py.queries import digest
from tiramisu_py.records import dataclass
from tiramisu_py.tuning.learned.samples.ranges import Sizes
from tiramisu_py.tuning.learned.workload_size import AlgorithmWork
from tiramisu_py.tuning.search.space import Point, Space

Array = npt.NDArray[np.float64]

#: Below this, logarithms are taken of this.
LEAST = 1e-12
#: A quotient that is so little above an integer is one.
ROUNDED = 1e-9


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of a row: `numbers` and `choices` of the point, into how many pieces each number cuts each size,
    `sizes`, the caller's `features`, and in the end operations and bytes.
    """

    numbers: tuple[str, ...]
    choices: Mapping[str, tuple[str, ...]]
    sizes: tuple[str, ...]
    features: Callable[..., Mapping[str, float]] | None
    feature_names: tuple[str, ...]
    work: AlgorithmWork
    takes_points: bool = False

    @property
    def key(self) -> str:
        """The key of what the columns mean."""
        choices = {name: list(values) for name, values in self.choices.items()}
        return digest([list(self.numbers), choices, list(self.sizes), list(self.feature_names)])

    @property
    def of_point(self) -> int:
        """The number of columns that depend on the point alone; they are the first ones."""
        return len(self.numbers) + sum(map(len, self.choices.values()))

    @property
    def pieces(self) -> int:
        """The number of columns that say into how many pieces each number cuts each size; they follow."""
        return len(self.numbers) * len(self.sizes)

    def rows(self, points: Sequence[Point], shapes: Sequence[Sizes], logarithms: bool = True) -> Array:
        """A row for each point at the sizes beside it."""
        own = np.array([self._point(point) for point in points], np.float64).reshape(len(points), -1)
        around = np.array([self._sizes(point, sizes) for point, sizes in zip(points, shapes, strict=True)], np.float64)
        found = self._joined(own, around)
        if not logarithms:
            return found
        kept = found[:, len(self.numbers) : self.of_point].copy()
        found = np.log2(np.maximum(found, LEAST))
        found[:, len(self.numbers) : self.of_point] = kept
        return found

    def at(self, points: Array, given: Sequence[Point], sizes: Sizes) -> Array:
        """The rows of encoded `points`, those `given`, at the same sizes."""
        if self.takes_points:
            around = np.array([self._sizes(point, sizes) for point in given], np.float64)
        else:
            around = np.tile(np.array(self._sizes({}, sizes), np.float64), (len(points), 1))
        numbers = len(self.numbers)
        rows = self._joined(np.hstack([np.exp2(points[:, :numbers]), points[:, numbers:]]), around)
        return np.hstack([points, np.log2(np.maximum(rows[:, self.of_point :], LEAST))])

    def encoded(self, points: Sequence[Point]) -> Array:
        """The columns of points alone, in logarithms."""
        found = np.array([self._point(point) for point in points], np.float64).reshape(len(points), -1)
        numbers = len(self.numbers)
        found[:, :numbers] = np.log2(np.maximum(found[:, :numbers], LEAST))
        return found

    def amount(self, sizes: Sizes) -> float:
        """The amount that a rate counts: operations, or bytes where there are none."""
        return float(self.work.operations(sizes) or self.work.bytes(sizes) or 1)

    def _joined(self, own: Array, around: Array) -> Array:
        """The columns of points and of sizes, with the pieces between them; no logarithms."""
        numbers, sizes = own[:, : len(self.numbers)], around[:, : len(self.sizes)]
        pieces = np.ceil(sizes[:, None, :] / numbers[:, :, None] - ROUNDED)
        return np.hstack([own, pieces.reshape(len(own), -1), around])

    def _point(self, point: Point) -> list[float]:
        hot = [
            float(value_name(point[name]) == value) for name, values in self.choices.items() for value in values
        ]  # fmt: skip
        return [*(float(point[name]) for name in self.numbers), *hot]

    def _sizes(self, point: Point, sizes: Sizes) -> list[float]:
        own = [float(sizes[name]) for name in self.sizes]
        extra = []
        if self.features is not None:
            given = self.features(**sizes, **(point if self.takes_points else {}))
            extra = _checked_features(given, self.feature_names)
        return [*own, *extra, float(self.work.operations(sizes)), float(self.work.bytes(sizes))]


def columns_for(space: Space, params: Sequence[str], features: object, work: AlgorithmWork, example: Sizes) -> Columns:
    """The columns of a space at sizes; raises `ArgumentError` for features that are no numbers by name."""
    numbers = tuple(name for name in space.values if is_number(space, name))
    choices = {
        name: tuple(value_name(value) for value in values)
        for name, values in space.values.items()
        if name not in numbers
    }
    if features is None:
        return Columns(numbers, choices, tuple(params), None, (), work)
    if not callable(features):
        raise ArgumentError(f"features={features!r:.60}: give a function of the sizes that returns numbers by name")
    takes_points = _takes(features, [*params, *space.values])
    point = {name: values[0] for name, values in space.values.items()} if takes_points else {}
    found = features(**example, **point)
    if not isinstance(found, Mapping) or not found:
        raise ArgumentError(f"features returned {found!r:.60}: let it return numbers by name, {{'density': 0.1}}")
    _checked_features(found, tuple(found))
    return Columns(numbers, choices, tuple(params), features, tuple(found), work, takes_points)


def is_number(space: Space, name: str) -> bool:
    """Whether the values of a parameter are numbers above 0, which have logarithms."""
    return all(
        isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
        for value in space.values[name]
    )


def require_known_values(space: Space) -> None:
    """Raises `ArgumentError` for values that can be neither ordered nor told apart by a name."""
    for name, values in space.values.items():
        if is_number(space, name):
            continue
        seen: dict[str, Any] = {}
        for value in values:
            known = value_name(value)
            if not known:
                raise ArgumentError(
                    f"space: {name} has {value!r:.60}, which has no order and no name that lasts: give numbers, words, "
                    "or functions with a name"
                )
            if known in seen:
                raise ArgumentError(
                    f"space: {name} has {seen[known]!r:.60} and {value!r:.60}, which are both named {known}: give each "
                    "value a name of its own"
                )
            seen[known] = value


def value_name(value: object) -> str:
    """The name of a value, equal in all processes; empty if there is none."""
    if isinstance(value, enum.Enum):
        return str(value)
    if isinstance(value, str | int | float | bool | bytes) or value is None:
        return value if isinstance(value, str) else repr(value)
    if isinstance(value, tuple | list | frozenset):
        parts = sorted(map(value_name, value)) if isinstance(value, frozenset) else [value_name(each) for each in value]
        return f"({', '.join(parts)})" if all(parts) else ""
    name = str(getattr(value, "__qualname__", "") or getattr(value, "name", "") or "")
    if name:
        return "" if "<lambda>" in name else name
    text = repr(value)
    return "" if " at 0x" in text else text


def _takes(function: Callable[..., object], names: Sequence[str]) -> bool:
    try:
        inspect.signature(function).bind(**dict.fromkeys(names))
    except (TypeError, ValueError):
        return False
    return True


def _checked_features(given: Mapping[str, float], names: Sequence[str]) -> list[float]:
    found = []
    for name in names:
        value = given.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 <= value < math.inf:
            raise ArgumentError(f"features has {name} = {value!r}: give a number of at least 0")
        found.append(float(value))
    return found
