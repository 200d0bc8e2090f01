"""Calls: the point for the sizes of the arguments, predicted, measured, kept, and run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tiramisu_py import Kernel
from tiramisu_py.errors import ArgumentError, KernelError
from tiramisu_py.queries import allowed_cpus, infer_params
from tiramisu_py.records import dataclass
from tiramisu_py.tuning.learned.choices import Choice, Choices
from tiramisu_py.tuning.learned.predicting import Predictor
from tiramisu_py.tuning.learned.samples.candidates import JudgedPoint, named
from tiramisu_py.tuning.learned.samples.ranges import Sizes
from tiramisu_py.tuning.learned.samples.sample_store import Kept, SampleStore, plain_point, point_of
from tiramisu_py.tuning.learned.study import Study


@dataclass(frozen=True, eq=False)
class Chosen:
    """A choice with its kernel. `final`: nothing is left to be measured."""

    choice: Choice
    kernel: Kernel
    final: bool


class Caller:
    """Chooses the kernel for the arguments of a call, and remembers it for their shapes."""

    def __init__(self, study: Study, predictor: Predictor) -> None:
        self._study, self._predictor = study, predictor
        self._kept: dict[tuple[int, ...], Chosen] = {}
        #: Kernels by the shapes of positional arguments: those of final choices, and all.
        self.final: dict[tuple[Any, ...], Kernel] = {}
        self.every: dict[tuple[Any, ...], Kernel] = {}
        #: The kernels that calls have compiled, by their point.
        self.kernels: dict[str, Kernel] = {}

    def forget(self) -> None:
        """Forgets what was chosen in this process."""
        self._kept, self.final, self.every = {}, {}, {}

    def call(self, inputs: tuple[Any, ...], given: Mapping[str, Any], measure: int) -> Any:
        """Runs the kernel for the arguments; it is found first."""
        if isinstance(measure, bool) or not isinstance(measure, int) or measure < 0:
            raise ArgumentError(f"measure={measure!r}: give the number of points to measure, or 0 for none")
        arguments, sizes = self._bound(inputs, given)
        key = tuple(sizes.values())
        known = self._kept.get(key)
        if known is None or (measure and not known.final):
            known = self._kept[key] = self._selected(arguments, sizes, measure)
        if not given:
            shapes = tuple([getattr(each, "shape", None) for each in inputs])
            self.every[shapes] = known.kernel
            if known.final:
                self.final[shapes] = known.kernel
        return known.kernel(*inputs, **given)

    def chosen(self, sizes: Sizes) -> Choice | None:
        """The choice that is kept for some sizes."""
        known = self._kept.get(tuple(sizes.values()))
        if known is not None:
            return known.choice
        with self._study.opened() as store:
            return self._from_disk(sizes, store)

    def _bound(self, inputs: tuple[Any, ...], given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
        """The inputs by name, and the sizes. Raises `ArgumentError` for arrays that do not fit."""
        algorithm, name = self._study.algorithm, self._study.name
        names = [*algorithm.inputs]
        if len(inputs) > len(names):
            raise ArgumentError(f"{name} takes {len(names)} inputs ({', '.join(names)}), {len(inputs)} were given")
        arguments = dict(zip(names, inputs, strict=False))
        arguments |= {label: value for label, value in given.items() if label in algorithm.inputs}
        for label in names:
            if label not in arguments:
                raise ArgumentError(f"{label} is missing: {name} takes {', '.join(names)}")
        shaped = [
            (label, declared.passed_shape, np.shape(arguments[label]))
            for label, declared in algorithm.inputs.items()
            if not declared.scalar
        ]
        sizes = {label: value for label, value in given.items() if label in algorithm.params}
        return arguments, infer_params(algorithm.params, shaped, sizes)

    def _selected(self, arguments: Mapping[str, Any], sizes: Sizes, measure: int) -> Chosen:
        """The point for some sizes: the one that is kept on disk, or the best one of the first."""
        with self._study.opened() as store:
            if min(sizes.values()) < 1:
                return Chosen(*self._first_that_runs(self._predictor.default(sizes, store), store), True)
            kept = self._from_disk(sizes, store)
            if kept is not None and (kept.measured is not None or not measure):
                return Chosen(*self._first_that_runs(Choices((kept,)), store), kept.measured is not None)
            found = self._predictor.best(sizes, max(measure, 1), store, 5)
            if found[0].seconds is None:  # it is no prediction: a later model may know better
                return Chosen(*self._first_that_runs(found, store), True)
            choice, kernel = (
                self._measured(found, arguments, sizes, store) if measure else self._first_that_runs(found, store)
            )
            text = self._study.clock.text(self._study.candidates.at(choice.parameters), store)
            store.keep_choice(sizes, Kept(plain_point(choice.parameters), text, choice.seconds, choice.measured))
        return Chosen(choice, kernel, choice.measured is not None)

    def _from_disk(self, sizes: Sizes, store: SampleStore) -> Choice | None:
        """The choice that is kept for some sizes, if it still is a point and is compiled from the same text."""
        kept = store.choice(sizes)
        point = None if kept is None else point_of(kept.parameters, self._study.space)
        if kept is None or point is None:
            return None
        candidate = self._study.candidates.at(point)
        if candidate.function is None or self._study.clock.text(candidate, store) != kept.text:
            return None
        return Choice(dict(point), kept.predicted, kept.measured, candidate.function.commands)

    def _first_that_runs(self, some: Choices, store: SampleStore) -> tuple[Choice, Kernel]:
        """The first point that can be compiled, with its kernel. Raises `KernelError` if none can."""
        for choice in some:
            (kernel,) = self._compiled([choice], store)
            if kernel is not None:
                return choice, kernel
        first = self._study.candidates.at(some[0].parameters)
        why = self._study.kernel_clock.failure(first, store)
        raise KernelError(f"no point of {self._study.name} can be compiled, such as {named(first.point)}: {why}")

    def _compiled(self, some: Sequence[Choice], store: SampleStore) -> list[Kernel | None]:
        """The kernels of points, compiled side by side, their values checked; None for one that fails."""
        clock = self._study.kernel_clock
        candidates: list[JudgedPoint] = [self._study.candidates.at(each.parameters) for each in some]
        clock.prepare(candidates, store, len(allowed_cpus()))
        found = [clock.kernels.get(clock.text(each, store)) for each in candidates]
        self.kernels |= {
            named(each.point): kernel
            for each, kernel in zip(candidates, found, strict=True)
            if kernel is not None
        }  # fmt: skip
        return found

    def _measured(
        self, some: Choices, arguments: Mapping[str, Any], sizes: Sizes, store: SampleStore
    ) -> tuple[Choice, Kernel]:
        """The fastest of some points at the arguments of a call; each time becomes a sample."""
        study = self._study
        times: list[tuple[float, Choice, Kernel]] = []
        with study.turn():
            for choice, kernel in zip(some, self._compiled([*some], store), strict=True):
                if kernel is None:
                    continue
                candidate = study.candidates.at(choice.parameters)
                text = study.clock.text(candidate, store)
                if study.clock.measures:
                    found = study.kernel_clock.timed(kernel, sizes, arguments)
                else:
                    found = study.clock.time(candidate, text, sizes)
                store.keep_one(store.kernel(text, study.name, plain_point(choice.parameters)), sizes, found)
                if found.seconds is not None:
                    times.append((found.seconds, choice, kernel))
        if not times:
            return self._first_that_runs(some, store)
        seconds, best, kernel = min(times, key=lambda each: each[0])
        return Choice(best.parameters, best.seconds, seconds, best.commands), kernel
