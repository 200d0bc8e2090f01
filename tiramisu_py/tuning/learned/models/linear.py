"""Two models with a closed form: linear in the columns, and the roofline of Volkov."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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

    Arithmetic and memory take as long as their throughput says, or as their latency does where little goes on at once:
    ``t = max(i_arith max(latency / n, throughput), i_mem max(latency / n, throughput))``. In logarithms, with `o` and
    `b` those of operations and bytes, `p` the columns of the point, and `q` those of the pieces into which its numbers
    cut the sizes, of whose powers `n` is a product:
    ``log t = max(o + p w + v, b + m, c, o + q u + v', b + q u' + m')``, and ``y = o - log t``.

    Source: Volkov, "Understanding Latency Hiding on GPUs", Berkeley 2016, as in Tillet's thesis, section 4.3.1.
    """

    weights: Array
    memory: float
    least: float
    latencies: Array

    def predicted(self, columns: npt.NDArray[Any]) -> Array:
        """The value of each row."""
        found: Array = columns[:, -2] - self._sides(columns).max(axis=1)
        return found

    def _sides(self, columns: npt.NDArray[Any]) -> Array:
        of_point, pieces = len(self.weights) - 1, self.latencies.shape[1] - 1
        arithmetic = columns[:, -2] + columns[:, :of_point] @ self.weights[:-1] + self.weights[-1]
        sides = [arithmetic, columns[:, -1] + self.memory, np.full(len(columns), self.least)]
        cut = columns[:, of_point : of_point + pieces]
        for number, latency in zip((-2, -1), self.latencies, strict=False):
            sides.append(columns[:, number] + cut @ latency[:-1] + latency[-1])
        return np.stack(sides, axis=1)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything that it is made of."""
        others = np.array([self.memory, self.least])
        return {"weights": self.weights, "others": others, "latencies": self.latencies}

    @classmethod
    def of_arrays(cls, given: Mapping[str, npt.NDArray[Any]]) -> Roofline:
        """The model that `arrays` has taken apart."""
        memory, least = map(float, given["others"])
        return cls(given["weights"], memory, least, given.get("latencies", np.zeros((0, 1))))

    @classmethod
    def fitted(cls, columns: Array, values: Array, of_point: int, pieces: int = 0) -> Roofline:
        """The sides, each fitted to the samples at which it is the longest, in turns; the best turn counts.

        Source: Magnani, Boyd, "Convex piecewise-linear fitting", Optimization and Engineering 10, 2009.
        """
        point, operations, moved = columns[:, :of_point], columns[:, -2], columns[:, -1]
        cut = columns[:, of_point : of_point + pieces]
        seconds = operations - values
        start = cls(
            _least_squares(point, -values), float(np.quantile(seconds - moved, 0.1)), float(seconds.min()),
            np.zeros((0, 1)),
        )  # fmt: skip
        starts = [start]
        if pieces:  # latencies are seen where there are few pieces
            few = cut.sum(axis=1) <= np.quantile(cut.sum(axis=1), 0.25)
            both = [_least_squares(cut[few], (seconds - each)[few]) for each in (operations, moved)]
            starts.append(cls(start.weights, start.memory, start.least, np.array(both)))
        tried = [turn for each in starts for turn in each._turns(columns, seconds)]
        return min(tried, key=lambda each: float(np.sum((each.predicted(columns) - values) ** 2)))

    def _turns(self, columns: Array, seconds: Array) -> Iterator[Roofline]:
        """The model, and those of the turns: each side is fitted to the samples at which it was the longest."""
        found = self
        of_point, pieces = len(self.weights) - 1, self.latencies.shape[1] - 1
        point, cut = columns[:, :of_point], columns[:, of_point : of_point + pieces]
        for _ in range(TURNS):
            yield found
            side = found._sides(columns).argmax(axis=1)
            weights, memory, least = found.weights, found.memory, found.least
            latencies = found.latencies.copy()
            if (side == 0).sum() > of_point:
                weights = _least_squares(point[side == 0], (seconds - columns[:, -2])[side == 0])
            if (side == 1).any():
                memory = float((seconds - columns[:, -1])[side == 1].mean())
            if (side == 2).any():
                least = float(seconds[side == 2].mean())
            for number in range(len(latencies)):
                mine = side == 3 + number
                if mine.sum() > pieces:
                    latencies[number] = _least_squares(cut[mine], (seconds - columns[:, number - 2])[mine])
            found = Roofline(weights, memory, least, latencies)
        yield found


def _least_squares(columns: Array, values: Array) -> Array:
    x = np.hstack([columns, np.ones((len(columns), 1))])
    found: Array = np.asarray(np.linalg.solve(x.T @ x + RIDGE * np.eye(x.shape[1]), x.T @ values), np.float64)
    return found
