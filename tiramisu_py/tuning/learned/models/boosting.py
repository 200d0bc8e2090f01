"""Gradient boosting: trees one after another, each fitted to what those before it leave, in NumPy alone.

Columns are cut into classes at quantiles, and each level of a tree looks at the sums of all classes at once.

Source: Friedman, "Greedy function approximation: a gradient boosting machine", Annals of Statistics 29(5), 2001.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tiramisu_py.records import dataclass

Array = npt.NDArray[np.float64]

#: The classes of a column, the levels of a tree, the share of each tree that counts, the samples of a leaf at least,
#: and the weight of zero in a leaf.
CLASSES, LEVELS, SHARE, LEAST, RIDGE = 32, 5, 0.18, 3, 1.0


@dataclass(frozen=True, eq=False)
class Boosting:
    """Complete trees: a row goes right at a node where its column is above the node's value; leaves are added up."""

    columns: npt.NDArray[np.int64]
    values: Array
    leaves: Array
    mean: float

    def predicted(self, columns: npt.NDArray[Any]) -> Array:
        """The value of each row."""
        flat = np.ascontiguousarray(columns, np.float64).ravel()
        first = np.arange(len(columns)) * columns.shape[1]
        total = np.full(len(columns), self.mean)
        for which, at, leaves in zip(self.columns, self.values, self.leaves, strict=True):
            node = np.zeros(len(columns), np.int64)
            for _ in range(LEVELS):
                right = flat.take(first + which.take(node)) > at.take(node)
                node = 2 * node + 1 + right
            total += leaves.take(node - (2**LEVELS - 1))
        return total

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything that it is made of."""
        return {"columns": self.columns, "values": self.values, "leaves": self.leaves, "mean": np.array(self.mean)}

    @classmethod
    def of_arrays(cls, given: Mapping[str, npt.NDArray[Any]]) -> Boosting:
        """The trees that `arrays` has taken apart."""
        return cls(given["columns"], given["values"], given["leaves"], float(given["mean"]))

    @classmethod
    def fitted(cls, columns: Array, values: Array, trees: int) -> Boosting:
        """So many trees for the least squares."""
        cuts = [np.unique(np.quantile(column, np.linspace(0, 1, CLASSES + 1)[1:-1])) for column in columns.T]
        classes = np.stack(
            [np.searchsorted(cut, column, side="left") for cut, column in zip(cuts, columns.T, strict=True)], axis=1
        )
        mean = float(values.mean())
        left = values - mean
        inner = 2**LEVELS - 1
        which, at = np.zeros((trees, inner), np.int64), np.full((trees, inner), np.inf)
        leaves = np.zeros((trees, 2**LEVELS))
        for tree in range(trees):
            node = np.zeros(len(left), np.int64)
            for level in range(LEVELS):
                first = 2**level - 1
                column, cut = _best_cuts(classes, left, node - first, 2**level)
                for k in range(2**level):
                    if cut[k] >= 0:
                        which[tree, first + k], at[tree, first + k] = column[k], cuts[column[k]][cut[k]]
                own = node - first
                right = (cut[own] >= 0) & (classes[np.arange(len(left)), column[own]] > cut[own])
                node = 2 * node + 1 + right
            leaf = node - inner
            sums = np.bincount(leaf, left, 2**LEVELS)
            leaves[tree] = SHARE * sums / (np.bincount(leaf, minlength=2**LEVELS) + RIDGE)
            left = left - leaves[tree, leaf]
        return cls(which, at, leaves, mean)


def _best_cuts(
    classes: npt.NDArray[np.int64], left: Array, node: npt.NDArray[np.int64], nodes: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The column and the class after which each node is cut, for the least squares; -1 for the class if nowhere."""
    width = classes.shape[1]
    index = ((node[:, None] * width + np.arange(width)) * CLASSES + classes).ravel()
    size = nodes * width * CLASSES
    sums = np.bincount(index, np.repeat(left, width), size).reshape(nodes, width, CLASSES).cumsum(axis=2)
    counts = np.bincount(index, minlength=size).reshape(nodes, width, CLASSES).cumsum(axis=2)
    above, many = sums[:, :, -1:] - sums, counts[:, :, -1:] - counts
    gain = sums**2 / (counts + RIDGE) + above**2 / (many + RIDGE) - sums[:, :, -1:] ** 2 / (counts[:, :, -1:] + RIDGE)
    gain[(counts < LEAST) | (many < LEAST)] = -np.inf
    best = gain.reshape(nodes, -1).argmax(axis=1)
    column, cut = best // CLASSES, best % CLASSES
    worth = gain.reshape(nodes, -1)[np.arange(nodes), best] > 0
    return column, np.where(worth, cut, -1)
