"""Networks of rectified linear units: trained by Adam on small batches, in NumPy alone.

Sources: Kingma, Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015; He et al., "Delving Deep into Rectifiers",
ICCV 2015, for the first weights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tiramisu_py.records import dataclass

Array = npt.NDArray[np.float32]

#: The decay of Adam's two means, and what keeps its quotient finite.
FIRST, SECOND, SMALL = 0.9, 0.999, 1e-8
#: The largest step, the penalty of the weights' squares, and the share of samples that says when to stop.
RATE, DECAY, APART = 4e-3, 1e-5, 0.1
#: Samples of a batch, at least this many batches an epoch. Products this small run in one thread of a BLAS: to start
#: threads takes longer than the product.
BATCH, BATCHES = 32, 8
#: Rows that are predicted at once, so that what is between layers stays in the caches.
ROWS = 4096


@dataclass(frozen=True, eq=False)
class ReluNetwork:
    """Layers ``x -> max(0, x W + b)``, the last one without the maximum; inputs and output are standardised."""

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    centre: Array
    width: Array
    mean: float
    spread: float

    def predicted(self, columns: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """The value of each row."""
        rows = [self._of(columns[start : start + ROWS]) for start in range(0, len(columns), ROWS)]
        return np.concatenate(rows) if rows else np.zeros(0)

    def _of(self, columns: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        x = ((columns - self.centre) / self.width).astype(np.float32)
        for weights, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = x @ weights
            x += bias
            np.maximum(x, 0, out=x)
        return (x @ self.weights[-1] + self.biases[-1])[:, 0].astype(np.float64) * self.spread + self.mean

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything that it is made of."""
        found: dict[str, npt.NDArray[Any]] = {
            "centre": self.centre,
            "width": self.width,
            "scale": np.array([self.mean, self.spread]),
        }
        for k, (weights, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            found |= {f"weights{k}": weights, f"bias{k}": bias}
        return found

    @classmethod
    def of_arrays(cls, given: Mapping[str, npt.NDArray[Any]]) -> ReluNetwork:
        """The network that `arrays` has taken apart."""
        count = sum(name.startswith("weights") for name in given)
        mean, spread = map(float, given["scale"])
        return cls(
            tuple(given[f"weights{k}"] for k in range(count)), tuple(given[f"bias{k}"] for k in range(count)),
            given["centre"], given["width"], mean, spread,
        )  # fmt: skip


def train(
    columns: npt.NDArray[Any], values: npt.NDArray[Any], hidden: Sequence[int], *, epochs: int, seed: int
) -> ReluNetwork:
    """The network with these `hidden` layers that has the least mean square error: its rate falls to zero within the
    epochs, and of the states at the end of epochs the one is kept that is best on a tenth of the samples.
    """
    random = np.random.default_rng(seed)
    centre, width = _standard(columns)
    mean, spread = float(values.mean()), float(values.std()) or 1.0
    x = ((columns - centre) / width).astype(np.float32)
    y = ((values - mean) / spread).astype(np.float32)[:, None]
    order = random.permutation(len(x))
    apart = max(1, int(APART * len(x))) if len(x) >= 1 / APART else 0
    held, used = order[:apart], order[apart:]
    steps = _Steps(_first_weights([x.shape[1], *hidden, 1], random))
    size = max(1, min(BATCH, len(used) // BATCHES))
    batches = math.ceil(len(used) / size)
    best, least = [each.copy() for each in steps.parameters], math.inf
    for epoch in range(epochs):
        shuffled = random.permutation(used)
        for batch in range(batches):
            chosen = shuffled[batch * size : (batch + 1) * size]
            done = (epoch + batch / batches) / epochs
            steps.step(x[chosen], y[chosen], RATE * (1 + math.cos(math.pi * done)) / 2)
        error = steps.error(x[held], y[held]) if apart else -float(epoch)
        if error < least:
            best, least = [each.copy() for each in steps.parameters], error
    return ReluNetwork(tuple(best[::2]), tuple(best[1::2]), centre, width, mean, spread)


class _Steps:
    """The parameters, weights and biases in turns, with the two means of Adam."""

    def __init__(self, parameters: list[Array]) -> None:
        self.parameters = parameters
        self._first = [np.zeros_like(each) for each in parameters]
        self._second = [np.zeros_like(each) for each in parameters]
        self._count = 0

    def forward(self, x: Array) -> list[Array]:
        """The inputs of each layer, and the output of the last one."""
        found = [x]
        last = len(self.parameters) // 2 - 1
        for k in range(last + 1):
            y = found[-1] @ self.parameters[2 * k]
            y += self.parameters[2 * k + 1]
            if k < last:
                np.maximum(y, 0, out=y)
            found.append(y)
        return found

    def error(self, x: Array, y: Array) -> float:
        """The mean square error."""
        parts = range(0, len(x), BATCH)
        return float(sum(((self.forward(x[k : k + BATCH])[-1] - y[k : k + BATCH]) ** 2).sum() for k in parts)) / len(x)

    def step(self, x: Array, y: Array, rate: float) -> None:
        """One step against the gradient of ``mean((f(x) - y)^2) / 2``."""
        values = self.forward(x)
        below = (values[-1] - y) / len(x)
        gradients: list[Array] = []
        for k in reversed(range(len(self.parameters) // 2)):
            weights = self.parameters[2 * k]
            gradients += [below.sum(axis=0), values[k].T @ below + DECAY * weights]
            if k:
                below = (below @ weights.T) * (values[k] > 0)
        self._count += 1
        scale = rate * math.sqrt(1 - SECOND**self._count) / (1 - FIRST**self._count)
        for k, gradient in enumerate(reversed(gradients)):
            first, second = self._first[k], self._second[k]
            first += (1 - FIRST) * (gradient - first)
            second += (1 - SECOND) * (gradient * gradient - second)
            self.parameters[k] -= np.float32(scale) * first / (np.sqrt(second) + np.float32(SMALL))


def _first_weights(sizes: Sequence[int], random: np.random.Generator) -> list[Array]:
    found: list[Array] = []
    for before, after in pairwise(sizes):
        drawn = random.standard_normal((before, after)) * math.sqrt(2 / before)
        found += [drawn.astype(np.float32), np.zeros(after, np.float32)]
    return found


def _standard(columns: npt.NDArray[Any]) -> tuple[Array, Array]:
    """The mean and the deviation of each column; 1 for the deviation of a constant."""
    width = columns.std(axis=0)
    return columns.mean(axis=0).astype(np.float32), np.where(width > 0, width, 1).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Networks:
    """The mean of some networks that differ in their first weights: their chance errors cancel."""

    members: tuple[ReluNetwork, ...]

    def predicted(self, columns: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """The value of each row."""
        found: npt.NDArray[np.float64] = np.mean([each.predicted(columns) for each in self.members], axis=0)
        return found

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything that they are made of."""
        return {f"{k}.{name}": array for k, each in enumerate(self.members) for name, array in each.arrays().items()}

    @classmethod
    def of_arrays(cls, given: Mapping[str, npt.NDArray[Any]]) -> Networks:
        """The networks that `arrays` has taken apart."""
        own: dict[int, dict[str, npt.NDArray[Any]]] = {}
        for name, array in given.items():
            number, _, rest = name.partition(".")
            own.setdefault(int(number), {})[rest] = array
        return cls(tuple(ReluNetwork.of_arrays(own[k]) for k in sorted(own)))
