"""Fitting: several models of the same samples, of which the best on shapes that none has seen is kept."""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tiramisu_py.records import dataclass
from tiramisu_py.tuning.learned.columns import Columns
from tiramisu_py.tuning.learned.models.boosting import Boosting
from tiramisu_py.tuning.learned.models.linear import LinearModel, Roofline
from tiramisu_py.tuning.learned.models.network import Networks, train
from tiramisu_py.tuning.learned.samples.ranges import Sizes, written
from tiramisu_py.tuning.search.space import Point

Array = npt.NDArray[np.float64]

#: The share of shapes that are kept apart, the classes of sizes in the report, and the samples of a value that are few.
APART, CLASSES, FEW = 0.2, 4, 10
#: The points of a held-out shape from which on the choice among them is looked at, and how many are measured at a call.
SEVERAL, FIRST = 5, 10
#: The trees of the boosting for each pass of a network, and the networks of which the mean is taken.
TREES, MEMBERS = 3, 2


class TimeModel(Protocol):
    """A model of logarithms of rates."""

    def predicted(self, columns: npt.NDArray[Any]) -> Array:
        """The value of each row."""

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything that it is made of."""


@dataclass(frozen=True, eq=False)
class Blend:
    """The mean of a network and of a boosting: one is smooth, the other has steps."""

    network: Networks
    boosting: Boosting

    def predicted(self, columns: npt.NDArray[Any]) -> Array:
        """The value of each row."""
        return (self.network.predicted(columns) + self.boosting.predicted(columns)) / 2

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything that it is made of."""
        parts = {"network": self.network.arrays(), "boosting": self.boosting.arrays()}
        return {f"{part}/{name}": array for part, own in parts.items() for name, array in own.items()}

    @classmethod
    def of_arrays(cls, given: Mapping[str, npt.NDArray[Any]]) -> Blend:
        """The models that `arrays` has taken apart."""
        own: dict[str, dict[str, npt.NDArray[Any]]] = {"network": {}, "boosting": {}}
        for name, array in given.items():
            part, _, rest = name.partition("/")
            own[part][rest] = array
        return cls(Networks.of_arrays(own["network"]), Boosting.of_arrays(own["boosting"]))


_OF_ARRAYS: dict[str, Callable[[Mapping[str, npt.NDArray[Any]]], TimeModel]] = {
    "blend": Blend.of_arrays,
    "network": Networks.of_arrays,
    "boosting": Boosting.of_arrays,
    "linear": LinearModel.of_arrays,
    "roofline": Roofline.of_arrays,
}


@dataclass(frozen=True)
class FitReport:
    """The report of a model: from how many `samples`, of `points` and `shapes`, and its errors on shapes that were
    kept apart.

    An error is the root of the mean square of ``log(predicted / measured)``: 0.1 is about 10 %. `errors` has that of
    each model, of which `model` is kept; `error` is its own, `error_without_logarithms` that of the network whose
    inputs are no logarithms, `by_operations` its own by the operations of a call. `chosen` is the share of the best
    time that the points predicted to be the fastest reach at shapes with several measured points: of the first one, and
    of the best of the first ten; None if there are no such shapes. `unknown` says what the samples do not tell.
    """

    name: str
    model: str
    samples: int
    points: int
    shapes: int
    error: float
    error_without_logarithms: float
    errors: Mapping[str, float]
    by_operations: Mapping[str, float]
    chosen: tuple[float, float] | None
    ranges: Mapping[str, tuple[int, int]]
    unknown: tuple[str, ...]

    def __str__(self) -> str:
        listed = ", ".join(f"{kind} {error:.3f}" for kind, error in sorted(self.errors.items(), key=lambda e: e[1]))
        lines = [
            f"{self.name}: {self.model}, of {self.samples} samples of {self.points} points and {self.shapes} shapes",
            f"  error on shapes kept apart: {self.error:.3f} (without logarithms {self.error_without_logarithms:.3f})",
            f"  models: {listed}",
        ]
        lines += [f"  {operations}: {error:.3f}" for operations, error in self.by_operations.items()]
        if self.chosen is not None:
            first, ten = self.chosen
            lines.append(f"  of the best measured rate: {first:.1%} by the first point, {ten:.1%} by the first {FIRST}")
        known = ", ".join(f"{name} from {low} to {high}" for name, (low, high) in self.ranges.items())
        lines.append(f"  known for {known}")
        return "\n".join([*lines, *(f"  unknown: {each}" for each in self.unknown)])


@dataclass(frozen=True, eq=False)
class Observations:
    """Samples as they are fitted: points, sizes and seconds. The first `own` ones are of this machine."""

    points: Sequence[Point]
    shapes: Sequence[Sizes]
    seconds: Array
    own: int


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model and its report."""

    model: TimeModel
    report: FitReport

    def packed(self) -> tuple[str, bytes, str]:
        """The report, the arrays and their checksum, to be written."""
        report = json.dumps(asdict(self.report))
        target = io.BytesIO()
        np.savez(target, **self.model.arrays())  # type: ignore[arg-type]
        return report, target.getvalue(), _checksum(report, target.getvalue())

    @classmethod
    def unpacked(cls, report: str, arrays: bytes, checksum: str) -> Fitted | None:
        """The model that `packed` has written; None if it is damaged."""
        if _checksum(report, arrays) != checksum:
            return None
        given = json.loads(report)
        with np.load(io.BytesIO(arrays), allow_pickle=False) as read:
            model = _OF_ARRAYS[given["model"]]({name: read[name] for name in read.files})
        given |= {
            "ranges": {name: tuple(ends) for name, ends in given["ranges"].items()},
            "chosen": None if given["chosen"] is None else tuple(given["chosen"]),
            "unknown": tuple(given["unknown"]),
        }
        return cls(model, FitReport(**given))


def fitted(
    name: str,
    columns: Columns,
    given: Observations,
    ranges: Mapping[str, tuple[int, int]],
    values: Mapping[str, Sequence[Any]],
    *,
    hidden: Sequence[int],
    epochs: int,
    seed: int,
) -> Fitted:
    """The best of all models on the shapes kept apart, then fitted to all samples, those of these shapes too; `values`
    are those of each parameter of the space.
    """
    rows = columns.rows(given.points, given.shapes)
    amounts = np.array([columns.amount(sizes) for sizes in given.shapes])
    rates = np.log2(amounts / given.seconds)
    keys = [written(sizes) for sizes in given.shapes[: given.own]]
    held = kept_apart(keys, len(rows), seed)
    used = ~held

    def networks(x: Array, y: Array) -> Networks:
        seeds = range(MEMBERS * seed, MEMBERS * (seed + 1))
        return Networks(tuple(train(x, y, hidden, epochs=epochs, seed=each) for each in seeds))

    fits: dict[str, Callable[[Array, Array], Any]] = {
        "network": networks,
        "boosting": lambda x, y: Boosting.fitted(x, y, TREES * epochs),
        "linear": LinearModel.fitted,
        "roofline": lambda x, y: Roofline.fitted(x, y, columns.of_point, columns.pieces),
    }
    models: dict[str, TimeModel] = {kind: fit(rows[used], rates[used]) for kind, fit in fits.items()}
    models["blend"] = Blend(models["network"], models["boosting"])  # type: ignore[arg-type]
    fits["blend"] = lambda x, y: Blend(fits["network"](x, y), fits["boosting"](x, y))
    errors = {kind: _error(model.predicted(rows[held]) - rates[held]) for kind, model in models.items()}
    best = min(errors, key=lambda kind: errors[kind])
    raw = columns.rows(given.points, given.shapes, logarithms=False)
    without = _error(networks(raw[used], rates[used]).predicted(raw[held]) - rates[held])
    found = models[best].predicted(rows)
    report = FitReport(
        name, best, len(rows), len({json.dumps(dict(point), default=repr) for point in given.points}),
        len(set(map(written, given.shapes))), errors[best], without, errors,
        _by_operations(amounts[held], (found - rates)[held]), _chosen(keys, held, found, rates), dict(ranges),
        _unknown(values, given),
    )  # fmt: skip
    return Fitted(fits[best](rows, rates), report)


def kept_apart(keys: Sequence[str], count: int, seed: int) -> npt.NDArray[np.bool_]:
    """The rows of shapes that no model sees, of `count` rows of which the first ones have these shapes; without any,
    each fifth row.
    """
    held = np.zeros(count, bool)
    if keys:
        distinct = sorted(set(keys))
        order = np.random.default_rng(seed).permutation(len(distinct))
        apart = {distinct[k] for k in order[: max(1, round(APART * len(distinct)))]}
        held[: len(keys)] = [key in apart for key in keys]
    else:  # all are another machine's: nothing says how well they fit here
        held[:: round(1 / APART)] = True
    return held


def _error(differences: Array) -> float:
    """The root of the mean square, in natural logarithms."""
    return float(np.sqrt(np.mean(differences**2)) * math.log(2))


def _by_operations(amounts: Array, differences: Array) -> dict[str, float]:
    """The error of each quarter of the samples, by operations."""
    found = {}
    for part in np.array_split(np.argsort(amounts, kind="stable"), CLASSES):
        if len(part):
            found[f"{amounts[part[0]]:.2g} to {amounts[part[-1]]:.2g} operations"] = _error(differences[part])
    return found


def _chosen(keys: Sequence[str], held: npt.NDArray[Any], found: Array, rates: Array) -> tuple[float, float] | None:
    """The mean share of the best rate that the first and the first ten predicted points reach, by shape kept apart."""
    by_shape: dict[str, list[int]] = {}
    for number, key in enumerate(keys):
        if held[number]:
            by_shape.setdefault(key, []).append(number)
    several = [np.array(some) for some in by_shape.values() if len(some) >= SEVERAL]
    if not several:
        return None
    shares = []
    for some in several:
        order = some[np.argsort(-found[some], kind="stable")]
        shares.append([2.0 ** (rates[order[:count]].max() - rates[some].max()) for count in (1, FIRST)])
    first, ten = np.mean(shares, axis=0)
    return float(first), float(ten)


def _unknown(values: Mapping[str, Sequence[Any]], given: Observations) -> tuple[str, ...]:
    """The columns of which the samples say little."""
    found = []
    for name, some in values.items():
        for value in some:
            count = sum(point[name] == value and type(point[name]) is type(value) for point in given.points)
            if count < FEW:
                found.append(f"{name}={value!r} has {count or 'no'} samples")
    if given.own < len(given.points):
        found.append(f"{len(given.points) - given.own} samples are of other machines")
    return tuple(found)


def _checksum(report: str, arrays: bytes) -> str:
    return hashlib.sha256(report.encode() + b"\0" + arrays).hexdigest()
