"""The samples in the database that a model is fitted to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from random import Random

import numpy as np

from tiramisu_py.errors import ArgumentError
from tiramisu_py.tuning.learned.fitting import Observations
from tiramisu_py.tuning.learned.samples.ranges import Sizes
from tiramisu_py.tuning.learned.samples.sample_store import SampleStore, point_of
from tiramisu_py.tuning.learned.study import Study
from tiramisu_py.tuning.search.space import Point

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
