"""The points for given sizes, as a model predicts them: all are predicted, and proven from the best one on."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Mapping, Sequence
from random import Random

import numpy as np

from tiramisu_py.errors import ArgumentError
from tiramisu_py.tuning.learned.choices import Choice, Choices
from tiramisu_py.tuning.learned.columns import Array, Columns
from tiramisu_py.tuning.learned.fitting import FitReport, Fitted, Observations, fitted
from tiramisu_py.tuning.learned.samples.candidates import JudgedPoint, named
from tiramisu_py.tuning.learned.samples.ranges import Sizes, hull, nearest, outside, supported
from tiramisu_py.tuning.learned.samples.sample_store import SampleStore, point_of
from tiramisu_py.tuning.learned.study import Study
from tiramisu_py.tuning.search.space import LISTED, Point

_log = logging.getLogger(__name__)

#: The layers of the network, and its passes over the samples.
HIDDEN, EPOCHS = (64, 128, 64), 40


class Predictor:
    """The model of a kernel, fitted here or read from the database, and what it says of points."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._fitted: Fitted | None = None
        self._listed: tuple[list[Point], Array] | None = None

    def fit(
        self,
        store: SampleStore,
        *,
        hidden: Sequence[int] = HIDDEN,
        epochs: int = EPOCHS,
        most: int | None = None,
        prior: bool = False,
        seed: int = 0,
    ) -> FitReport:
        """Fits a model to the samples in the database, and keeps it there."""
        study = self._study
        given = observations(study, store, most=most, prior=prior, seed=seed)
        columns = study.columns(given.shapes[0])
        reached = hull({name: (n, n) for name, n in each.items()} for each in given.shapes)
        ranges = supported(store.ranges() or reached, reached)
        self._fitted = fitted(
            study.name, columns, given, ranges, study.space.values, hidden=tuple(hidden), epochs=epochs, seed=seed
        )
        if not store.ranges():
            store.widen(ranges)
        store.keep_model(columns.key, *self._fitted.packed())
        store.forget_predictions()
        self._listed = None
        return self._fitted.report

    def model(self, store: SampleStore) -> Fitted | None:
        """The model; None if there is none. A damaged one is fitted anew."""
        if self._fitted is None:
            example = {name: low for name, (low, _) in store.ranges().items()}
            if set(example) != set(self._study.params):
                return None
            columns = self._study.columns({name: example[name] for name in self._study.params})
            row = store.model(columns.key)
            if row is not None:
                self._fitted = Fitted.unpacked(*row)
                if self._fitted is None:
                    _log.warning("%s: the model in the database is damaged, and is fitted anew", self._study.name)
                    self.fit(store)
        return self._fitted

    def knows(self, sizes: Sizes, store: SampleStore) -> bool:
        """Whether there is a model that holds for the sizes."""
        model = self.model(store)
        return model is not None and not outside(sizes, model.report.ranges)

    def best(self, sizes: Sizes, top: int, store: SampleStore, level: int) -> Choices:
        """The first points for some sizes; the warnings name the caller so many calls above."""
        study = self._study
        model = self.model(store)
        if model is None:
            point = named(study.default_candidate().point)
            _warn(f"{study.name} has no model: {study.advice} and fit(); until then it runs {point}", level)
            return self.default(sizes, store)
        ranges = model.report.ranges
        beyond = outside(sizes, ranges)
        if not beyond:
            return self._predictions(model, sizes, sizes, top, store)
        said = f"{study.name} was not sampled there: {'; '.join(beyond)}; collect() wider ranges, and fit()"
        if study.default is not None:
            _warn(f"{said}; until then it runs {named(study.default_candidate().point)}", level)
            return self.default(sizes, store)
        _warn(f"{said}; until then it runs what suits the nearest sizes", level)
        return self._predictions(model, nearest(sizes, ranges), sizes, 1, store)

    def default(self, sizes: Sizes, store: SampleStore) -> Choices:
        """The point that runs without a model, alone."""
        return Choices((self._choice(self._study.default_candidate(), None, sizes, store),))

    def _predictions(self, model: Fitted, at: Sizes, sizes: Sizes, top: int, store: SampleStore) -> Choices:
        """The legal points with the least times that a model predicts for the sizes `at`."""
        study = self._study
        columns = study.columns(at)
        points, encoded = self._predictable(columns, store)
        rates = model.model.predicted(columns.at(encoded, points, at)) if points else np.zeros(0)
        seconds = columns.amount(at) / np.exp2(rates)
        found: list[Choice] = []
        for number in np.argsort(seconds, kind="stable"):
            point = points[number]
            if not all(each.allows(point, at) for each in study.filters if each.sizes):
                continue
            candidate = study.candidates.at(point)
            if candidate.function is not None:
                found.append(self._choice(candidate, float(seconds[number]) if at == sizes else None, sizes, store))
                if len(found) == top:
                    break
        return Choices(tuple(found)) if found else self.default(sizes, store)

    def _predictable(self, columns: Columns, store: SampleStore) -> tuple[list[Point], Array]:
        """The points that are predicted, encoded: all, or of a space that is too large those that have samples, and
        others drawn at random.
        """
        if self._listed is None:
            space = self._study.space
            if space.is_listed:
                points = list(space.points())
            else:
                random = Random(0)
                sampled = (point_of(parameters, space) for _, parameters in store.times())
                drawn = (space.numbered(random.randrange(space.size)) for _ in range(LISTED))
                some = [*(point for point in sampled if point is not None), *filter(space.allows, drawn)]
                points = [*{space.number(point): point for point in some}.values()]
            own = [each for each in self._study.filters if not each.sizes]
            points = [point for point in points if all(each.allows(point, {}) for each in own)]
            self._listed = points, columns.encoded(points)
        return self._listed

    def _choice(self, candidate: JudgedPoint, seconds: float | None, sizes: Sizes, store: SampleStore) -> Choice:
        assert candidate.function is not None
        text = self._study.clock.known_text(candidate.program, store)
        measured = None if text is None else store.known_time(text, sizes)
        return Choice(dict(candidate.point), seconds, measured, candidate.function.commands)


def _warn(message: str, level: int) -> None:
    warnings.warn(message, UserWarning, stacklevel=level + 1)


# -- the samples in the database that a model is fitted to


#: The samples, and their shapes, that a model needs at least.
SAMPLES, SHAPES = 30, 5


def observations(study: Study, store: SampleStore, *, most: int | None, prior: bool, seed: int) -> Observations:
    """The samples of what the points of the space are now, `most` of them drawn by `seed`; with `prior` also those of
    other machines. Raises `ArgumentError` if they are too few.
    """
    points: list[Point] = []
    shapes: list[Sizes] = []
    seconds: list[float] = []
    for (text, parameters), times in store.times().items():
        point = point_of(parameters, study.space)
        if point is None or not _is_current(study, point, text, store):
            continue
        for sizes, taken in times:
            if set(sizes) == set(study.params):
                points.append(point)
                shapes.append({name: sizes[name] for name in study.params})
                seconds.append(taken)
    others = store.elsewhere()
    if not prior and (len(points) < SAMPLES or len({tuple(each.values()) for each in shapes}) < SHAPES):
        found = f"{len(points)} samples on this machine" if points else "no samples on this machine"
        raise ArgumentError(
            f"{study.name} has {found}, and a model needs {SAMPLES} of {SHAPES} shapes: {study.advice}"
            + ("; the database has samples of other machines, which fit(prior=True) takes" if others else "")
        )
    if most is not None and most < len(points):
        kept = sorted(Random(seed).sample(range(len(points)), most))
        points, shapes, seconds = [points[k] for k in kept], [shapes[k] for k in kept], [seconds[k] for k in kept]
    own = len(points)
    if prior:
        _add_others(study, others.values(), points, shapes, seconds)
    if not points:
        raise ArgumentError(f"{study.name} has no samples: {study.advice}")
    return Observations(points, shapes, np.array(seconds), own)


def _is_current(study: Study, point: Point, text: str, store: SampleStore) -> bool:
    """Whether a text is what the point is compiled from now."""
    program = study.candidates.program(point)
    if not program:
        return False
    known = study.clock.known_text(program, store)
    if known is None:
        candidate = study.candidates.at(point)
        known = study.clock.text(candidate, store) if candidate.function is not None else ""
    return known == text


def _add_others(
    study: Study,
    machines: Iterable[Mapping[str, Sequence[tuple[Sizes, float]]]],
    points: list[Point],
    shapes: list[Sizes],
    seconds: list[float],
) -> None:
    """Adds the samples of other machines, by a factor that makes the mean rate of each this one's."""

    def rate(sizes: Sizes, taken: float) -> float:
        return float(np.log(study.work.bytes(sizes) / taken))

    own = [rate(sizes, taken) for sizes, taken in zip(shapes, seconds, strict=True)]
    for machine in machines:
        added = [
            (point, {name: sizes[name] for name in study.params}, taken)
            for parameters, times in machine.items()
            for point in [point_of(parameters, study.space)]
            if point is not None
            for sizes, taken in times
        ]
        theirs = [rate(sizes, taken) for _, sizes, taken in added]
        factor = float(np.exp(np.mean(theirs) - np.mean(own))) if own and theirs else 1.0
        for point, sizes, taken in added:
            points.append(point)
            shapes.append(sizes)
            seconds.append(taken * factor)
