"""Two models with a closed form: linear in the columns, and the roofline of Volkov."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tiramisu_py.records import dataclass

Array = npt.NDArray[np.float64]

#: Turns of the roofline's fit, and the ridge that keeps it from dividing by nothing.
TURNS, RIDGE = 30, 1e-6


@dataclass(frozen=True, eq=False)
class LinearModel:
    """``y = x w + b``, by least squares."""

    weights: Array

    def predicted(self, columns: npt.NDArray[Any]) -> Array:
        """The value of each row."""
        found: Array = columns @ self.weights[:-1] + self.weights[-1]
        return found

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything that it is made of."""
        return {"weights": self.weights}

    @classmethod
    def of_arrays(cls, given: Mapping[str, npt.NDArray[Any]]) -> LinearModel:
        """The model that `arrays` has taken apart."""
        return cls(given["weights"])

    @classmethod
    def fitted(cls, columns: Array, values: Array) -> LinearModel:
        """The model with the least squares."""
        return cls(_least_squares(columns, values))


@dataclass(frozen=True, eq=False)
class Roofline:
    """The time is that of the arithmetic, of the memory, or a least one, whichever is longest.

    In logarithms, with `o` and `b` those of operations and bytes, and `p` the columns of the point:
    ``log t = max(o + p w + v, b + m, c)``, and ``y = o - log t``: a rate for each point, one of the memory, and the
    time of a call. It knows nothing of how the rate depends on sizes.

    Source: Volkov, "Understanding Latency Hiding on GPUs", Berkeley 2016, as in Tillet's thesis, section 4.3.1.
    """

    weights: Array
    memory: float
    least: float

    def predicted(self, columns: npt.NDArray[Any]) -> Array:
        """The value of each row."""
        found: Array = columns[:, -2] - self._sides(columns).max(axis=1)
        return found

    def _sides(self, columns: npt.NDArray[Any]) -> Array:
        point = columns[:, : len(self.weights) - 1]
        arithmetic = columns[:, -2] + point @ self.weights[:-1] + self.weights[-1]
        return np.stack([arithmetic, columns[:, -1] + self.memory, np.full(len(columns), self.least)], axis=1)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything that it is made of."""
        return {"weights": self.weights, "others": np.array([self.memory, self.least])}

    @classmethod
    def of_arrays(cls, given: Mapping[str, npt.NDArray[Any]]) -> Roofline:
        """The model that `arrays` has taken apart."""
        memory, least = map(float, given["others"])
        return cls(given["weights"], memory, least)

    @classmethod
    def fitted(cls, columns: Array, values: Array, of_point: int) -> Roofline:
        """The three sides, each fitted to the samples at which it is the longest, in turns.

        Source: Magnani, Boyd, "Convex piecewise-linear fitting", Optimization and Engineering 10, 2009.
        """
        point, operations, moved = columns[:, :of_point], columns[:, -2], columns[:, -1]
        seconds = operations - values
        found = cls(_least_squares(point, -values), float(np.quantile(seconds - moved, 0.1)), float(seconds.min()))
        for _ in range(TURNS):
            side = found._sides(columns).argmax(axis=1)
            weights, memory, least = found.weights, found.memory, found.least
            if (side == 0).sum() > of_point:
                weights = _least_squares(point[side == 0], (seconds - operations)[side == 0])
            if (side == 1).any():
                memory = float((seconds - moved)[side == 1].mean())
            if (side == 2).any():
                least = float(seconds[side == 2].mean())
            found = cls(weights, memory, least)
        return found


def _least_squares(columns: Array, values: Array) -> Array:
    x = np.hstack([columns, np.ones((len(columns), 1))])
    found: Array = np.asarray(np.linalg.solve(x.T @ x + RIDGE * np.eye(x.shape[1]), x.T @ values), np.float64)
    return found
