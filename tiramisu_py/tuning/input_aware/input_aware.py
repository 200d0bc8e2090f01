"""input_aware(): a kernel with open parameters, and the point that a model chooses for the sizes of each call."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from tiramisu_py.algorithm.domains.extents_from_arguments import infer_params
from tiramisu_py.build import Kernel
from tiramisu_py.build.machine.topology import allowed_cpus
from tiramisu_py.build.toolchains.cache import open_cache
from tiramisu_py.errors import ArgumentError, KernelError
from tiramisu_py.function import Function
from tiramisu_py.tuning.filters import Filter, checked_filters
from tiramisu_py.tuning.input_aware.candidates import Candidate, Candidates, named
from tiramisu_py.tuning.input_aware.choices import Choice, Choices
from tiramisu_py.tuning.input_aware.clocks import Clock, KernelClock, PretendedClock, Timer
from tiramisu_py.tuning.input_aware.collecting import Collected, Collector, CollectLimits
from tiramisu_py.tuning.input_aware.columns import Array, Columns, columns_for, require_known_values
from tiramisu_py.tuning.input_aware.fitting import FIRST, Fitted, FitReport, Observations, fitted
from tiramisu_py.tuning.input_aware.ranges import Sizes, checked_ranges, checked_values, hull, nearest, outside
from tiramisu_py.tuning.input_aware.sample_store import Kept, SampleStore, plain_point, point_of
from tiramisu_py.tuning.input_aware.sampling import Sampler
from tiramisu_py.tuning.input_aware.workload_size import AlgorithmWork
from tiramisu_py.tuning.search.database import database_path
from tiramisu_py.tuning.search.requirements import (
    require_at_least_one,
    require_options,
    require_seconds,
    require_seed,
)
from tiramisu_py.tuning.search.space import LISTED, Point, Space, checked_space
from tiramisu_py.tuning.search.status_line import Progress
from tiramisu_py.tuning.search.turns import Turns
from tiramisu_py.tuning.search.workload import Case

_log = logging.getLogger(__name__)

#: Sizes that are measured have at most so many operations and bytes, unless the caller says more.
OPERATIONS, BYTES = 1e10, 2.0**31
#: The samples of a call's time.
REPEATS = 3
#: The layers of the network, its passes over the samples, and the samples and shapes that a model needs at least.
HIDDEN, EPOCHS, SAMPLES, SHAPES = (64, 128, 64), 120, 30, 5


class InputAware:
    """A kernel with open parameters; a call runs the point that suits its sizes. `input_aware` makes it.

    ::

        product.collect(M=(16, 4096), N=(16, 4096), K=(16, 131072), minutes=40)
        print(product.fit())
        c = product(a, b)
    """

    def __init__(
        self,
        make: Callable[..., Function],
        space: Space,
        filters: Sequence[Filter],
        features: object,
        default: Point | None,
        database: object,
        timer: Timer | None,
        options: Mapping[str, Any],
    ) -> None:
        self._space, self._filters = space, filters
        self._candidates = Candidates(make, space)
        self._features, self._default = features, default
        self._database, self._timer, self._options = database, timer, options
        self._fitted: Fitted | None = None
        self._columns: Columns | None = None
        self._listed: tuple[list[Point], Array] | None = None
        self._kept: dict[tuple[int, ...], tuple[Choice, Kernel]] = {}
        self._ready: dict[tuple[Any, ...], Kernel] = {}
        self._predicted: dict[tuple[Any, ...], Kernel] = {}
        #: The kernels that calls have compiled, by their point.
        self.kernels: dict[str, Kernel] = {}

    # -- collecting and fitting

    def collect(
        self,
        ranges: Mapping[str, Any] | None = None,
        /,
        *,
        samples: int | None = None,
        minutes: float | None = None,
        points: int | None = None,
        shapes: int | None = None,
        operations: float | None = None,
        seed: int = 0,
        workers: int | None = None,
        compile_only: bool = False,
        progress: bool | None = None,
        **sizes: Any,
    ) -> Collected:
        """Measure legal points at sizes drawn from ranges, and keep each time as soon as it is known.

        ::

            product.collect(M=(16, 4096), N=(16, 4096), K=(16, 131072), minutes=40)     # killed: the same call goes on

        A size has a range, both ends included, or one value (``ranges={"points": (1, 9)}`` for names that are options,
        too). Samples are drawn by `seed`: uniform at first, sizes by their logarithms, then as a naive Bayes model of
        what the filters and the proof accept; of at most so many `points` and `shapes` (combinations of sizes), if
        given, and of sizes with at most so many `operations` (default: 10^10, with a timer no limit). `samples` is the
        number of samples drawn: those that the database has are not measured again. No sample begins after `minutes`.

        Each point is compiled once, by `workers` compilers side by side, and its values are compared with those of
        `evaluate()` at two small sizes. A time is the least of three calls, of one if it takes more than 0.1 s. With
        ``compile_only=True`` kernels are compiled into the cache, and none is run.

        Raises `ArgumentError` for ranges that do not fit, and with the reasons counted if no point is legal;
        `TuningError` for wrong values and for a database that cannot be used.
        """
        if samples is None and minutes is None:
            raise ArgumentError("collect: give a limit, samples=2000 or minutes=40")
        given = {"samples": samples, "points": points, "shapes": shapes, "workers": workers}
        require_at_least_one(**{name: value for name, value in given.items() if value is not None})
        require_seconds("minutes", minutes)
        require_seconds("operations", operations)
        require_seed(seed)
        checked = checked_ranges({**(ranges or {}), **sizes}, self._params, "collect")
        limits: list[tuple[str, Callable[[Sizes], float], float]] = []
        most = OPERATIONS if operations is None and self._timer is None else operations
        if most is not None:
            limits.append(("operations", self._work.operations, most))
        if self._timer is None:
            self._kernel_clock.ranges = checked
            limits.append(("bytes of arguments", self._work.bytes, BYTES))
        sampler = Sampler(
            self._candidates, self._filters, checked, limits, points=points, shapes=shapes, seed=seed
        )  # fmt: skip
        seconds = None if minutes is None else 60 * minutes
        with self._opened() as store:
            collector = Collector(
                self.name, sampler, self._clock, store, self._turn,
                CollectLimits(samples, seconds, workers or len(allowed_cpus()), compile_only), Progress(progress),
            )  # fmt: skip
            found = collector.run()
            if found.samples:
                store.widen(checked)
        return found

    def fit(
        self,
        *,
        hidden: Sequence[int] = HIDDEN,
        epochs: int = EPOCHS,
        most: int | None = None,
        prior: bool = False,
        seed: int = 0,
    ) -> FitReport:
        """Fit models to the samples of this machine, keep the best one, and report its errors on shapes kept apart.

        ::

            print(product.fit())            # samples, errors, what it cannot know

        The models are a network of rectified linear units with these `hidden` layers, gradient boosting, a linear
        model, and a roofline; each predicts the logarithm of operations a second. `most` takes only so many samples.
        With `prior`, samples of other machines in the database are taken as well, up to a factor, that of their mean.
        The model is kept in the database as plain arrays. Raises `ArgumentError` if there are too few samples.
        """
        require_at_least_one(epochs=epochs, **({} if most is None else {"most": most}))
        require_seed(seed)
        for width in hidden:
            require_at_least_one(hidden=width)
        with self._opened() as store:
            given = self._observations(store, prior)
            if most is not None and most < given.own:
                kept = sorted(Random(seed).sample(range(given.own), most))
                given = Observations(
                    [given.points[k] for k in kept], [given.shapes[k] for k in kept], given.seconds[kept], most
                )
            columns = self._columns_at(given.shapes[0])
            ranges = store.ranges() or hull({name: (n, n) for name, n in each.items()} for each in given.shapes)
            found = fitted(
                self.name, columns, given, ranges, self._space.values, hidden=tuple(hidden), epochs=epochs, seed=seed
            )
            store.keep_model(columns.key, *found.packed())
            store.forget_predictions()
        self._fitted = found
        self._forget()
        return found.report

    def merge(self, database: str | Path) -> int:
        """Take over the samples of another database, such as one of another machine; returns how many are new."""
        with self._opened() as store:
            return store.merge(database_path(database, Path()))

    # -- choosing

    def best(self, sizes: Mapping[str, Any] | None = None, /, *, top: int = FIRST, **named_sizes: Any) -> Choices:
        """The legal points with the least predicted times at given sizes, the best one first; nothing is run.

        ::

            print(product.best(M=64, N=64, K=131072, top=10))

        All points of the space are predicted, and proven one after another in this order. Beyond the sampled ranges,
        and without a model, it is the default point alone, with a warning. Raises `ArgumentError` for sizes that are
        missing or below 1.
        """
        require_at_least_one(top=top)
        return self._best(checked_values({**(sizes or {}), **named_sizes}, self._params, "best"), top, 3)

    def chosen(self, sizes: Mapping[str, Any] | None = None, /, **named_sizes: Any) -> Choice:
        """The point that is kept for given sizes. Raises `ArgumentError` if there was no call of these sizes."""
        asked = checked_values({**(sizes or {}), **named_sizes}, self._params, "chosen")
        known = self._kept.get(tuple(asked.values()))
        if known is not None:
            return known[0]
        with self._opened() as store:
            found = self._from_disk(asked, store)
        if found is None:
            raise ArgumentError(
                f"no point of {self.name} is kept for {named(asked)}: call it with arrays of these sizes"
            )
        return found[0]

    def __call__(self, /, *inputs: Any, measure: int = FIRST, **given: Any) -> Any:
        """Run the point that suits the sizes of the arguments, which are those of a kernel.

        At the first call of a shape the points that are predicted to be the fastest, `measure` of them, are compiled
        and measured with these arguments, and the best one is kept on disk, for this machine; with ``measure=0`` it is
        the first one. Later calls run it at once. Raises what a kernel raises.
        """
        if not given:
            known = self._ready if measure else self._predicted
            kernel = known.get(tuple([getattr(each, "shape", None) for each in inputs]))
            if kernel is not None:
                return kernel(*inputs)
        return self._called(inputs, given, measure)

    # -- what is known

    @property
    def name(self) -> str:
        """The name of the function."""
        return self._candidates.any().name

    @property
    def report(self) -> FitReport | None:
        """The report of the model; None if there is none."""
        with self._opened() as store:
            model = self._model(store)
        return None if model is None else model.report

    @cached_property
    def _params(self) -> tuple[str, ...]:
        params = tuple(self._candidates.algorithm.params)
        if not params:
            raise ArgumentError(f"{self.name} has no sizes: tm.tune finds the best point of such a function")
        return params

    @cached_property
    def _work(self) -> AlgorithmWork:
        return AlgorithmWork(self._candidates.algorithm)

    @cached_property
    def _kernel_clock(self) -> KernelClock:
        return KernelClock(self._candidates.any(), open_cache(), self._options, REPEATS)

    @cached_property
    def _clock(self) -> Clock:
        return self._kernel_clock if self._timer is None else PretendedClock(self._timer)

    @contextmanager
    def _opened(self) -> Iterator[SampleStore]:
        """The database, with the context of this algorithm, machine and compiler."""
        path = database_path(self._database, Path()) if self._database is not None else open_cache().root / FILE
        store = SampleStore(path, self._clock.machine, self._clock.compiler, {"algorithm": self._candidates.family})
        try:
            yield store
        finally:
            store.close()

    def _turn(self) -> AbstractContextManager[bool]:
        if not self._clock.measures:
            return nullcontext(True)
        return Turns(open_cache().root).turn(lambda: False, lambda: None)

    def _forget(self) -> None:
        """Forgets what was chosen in this process."""
        self._kept, self._ready, self._predicted = {}, {}, {}

    def _columns_at(self, example: Sizes) -> Columns:
        if self._columns is None:
            self._columns = columns_for(self._space, self._params, self._features, self._work, example)
        return self._columns

    # -- samples

    def _observations(self, store: SampleStore, prior: bool) -> Observations:
        """The samples of what the points of the space are now. Raises `ArgumentError` if they are too few."""
        points: list[Point] = []
        shapes: list[Sizes] = []
        seconds: list[float] = []
        for (text, parameters), times in store.times().items():
            point = point_of(parameters, self._space)
            if point is None or not self._is_current(point, text, store):
                continue
            for sizes, taken in times:
                if set(sizes) == set(self._params):
                    points.append(point)
                    shapes.append({name: sizes[name] for name in self._params})
                    seconds.append(taken)
        own = len(points)
        others = store.elsewhere()
        if not prior and (own < SAMPLES or len({tuple(each.values()) for each in shapes}) < SHAPES):
            raise ArgumentError(
                f"{self.name} has {own} samples on this machine, and a model needs {SAMPLES} of {SHAPES} shapes: "
                f"{self._advice()}"
                + ("; the database has samples of other machines, which fit(prior=True) takes" if others else "")
            )
        if prior:
            self._add_others(others.values(), points, shapes, seconds)
        if not points:
            raise ArgumentError(f"{self.name} has no samples: {self._advice()}")
        return Observations(points, shapes, np.array(seconds), own)

    def _is_current(self, point: Point, text: str, store: SampleStore) -> bool:
        """Whether a text is what the point is compiled from now."""
        program = self._candidates.program(point)
        if not program:
            return False
        known = self._clock.known_text(program, store)
        if known is None:
            candidate = self._candidates.at(point)
            known = self._clock.text(candidate, store) if candidate.function is not None else ""
        return known == text

    def _add_others(
        self,
        machines: Iterable[Mapping[str, Sequence[tuple[Sizes, float]]]],
        points: list[Point],
        shapes: list[Sizes],
        seconds: list[float],
    ) -> None:
        """Adds the samples of other machines, each machine's times by the factor that makes its mean rate this one's."""
        own = [np.log(taken / self._work.bytes(sizes)) for taken, sizes in zip(seconds, shapes, strict=True)]
        for machine in machines:
            added = [
                (point, {name: sizes[name] for name in self._params}, taken)
                for parameters, times in machine.items()
                for point in [point_of(parameters, self._space)]
                if point is not None
                for sizes, taken in times
            ]
            theirs = [np.log(taken / self._work.bytes(sizes)) for _, sizes, taken in added]
            factor = float(np.exp(np.mean(own) - np.mean(theirs))) if own and theirs else 1.0
            for point, sizes, taken in added:
                points.append(point)
                shapes.append(sizes)
                seconds.append(taken * factor)

    def _advice(self) -> str:
        ranges = ", ".join(f"{name}=(16, 4096)" for name in self._params)
        return f"measure some with collect({ranges}, minutes=10)"

    # -- points for sizes

    def _model(self, store: SampleStore) -> Fitted | None:
        if self._fitted is None:
            example = {name: low for name, (low, _) in store.ranges().items()}
            if set(example) != set(self._params):
                return None
            columns = self._columns_at({name: example[name] for name in self._params})
            row = store.model(columns.key)
            if row is not None:
                self._fitted = Fitted.unpacked(*row)
                if self._fitted is None:
                    _log.warning("%s: the model in the database is damaged, and is fitted anew", self.name)
                    self.fit()
        return self._fitted

    def _best(self, sizes: Sizes, top: int, level: int) -> Choices:
        with self._opened() as store:
            model = self._model(store)
            if model is None:
                self._warn(f"{self.name} has no model: {self._advice()} and fit(); until then it runs", level)
                return self._alone(self._default_candidate(), sizes, store)
            beyond = outside(sizes, model.report.ranges)
            if beyond:
                said = (
                    f"{self.name} was not sampled there: {'; '.join(beyond)}; widen the ranges of collect(), and fit()"
                )
                if self._default is not None:
                    self._warn(f"{said}; until then it runs", level)
                    return self._alone(self._default_candidate(), sizes, store)
                self._warn(f"{said}; until then it runs what suits the nearest sizes", level, point=False)
                return self._predictions(model, nearest(sizes, model.report.ranges), sizes, 1, store)
            return self._predictions(model, sizes, sizes, top, store)

    def _predictions(self, model: Fitted, at: Sizes, sizes: Sizes, top: int, store: SampleStore) -> Choices:
        """The legal points with the least times that a model predicts for the sizes `at`."""
        columns = self._columns_at(at)
        points, encoded = self._predictable(columns, store)
        rates = model.model.predicted(columns.at(encoded, points, at))
        seconds = columns.amount(at) / np.exp2(rates)
        found: list[Choice] = []
        for number in np.argsort(seconds, kind="stable"):
            point = points[number]
            if any(each.sizes and not each.allows(point, at) for each in self._filters):
                continue
            candidate = self._candidates.at(point)
            if candidate.function is not None:
                found.append(self._choice(candidate, float(seconds[number]) if at == sizes else None, sizes, store))
                if len(found) == top:
                    break
        if not found:
            return self._alone(self._default_candidate(), sizes, store)
        return Choices(tuple(found))

    def _predictable(self, columns: Columns, store: SampleStore) -> tuple[list[Point], Array]:
        """The points that are predicted, encoded: all, or of a space that is too large those that have samples, and
        others drawn at random.
        """
        if self._listed is None:
            if self._space.is_listed:
                points = list(self._space.points())
            else:
                random = Random(0)
                sampled = (point_of(parameters, self._space) for _, parameters in store.times())
                drawn = (self._space.numbered(random.randrange(self._space.size)) for _ in range(LISTED))
                some = [*(point for point in sampled if point is not None), *filter(self._space.allows, drawn)]
                points = [*{self._space.number(point): point for point in some}.values()]
            own = [each for each in self._filters if not each.sizes]
            points = [point for point in points if all(each.allows(point, {}) for each in own)]
            self._listed = points, columns.encoded(points)
        return self._listed

    def _default_candidate(self) -> Candidate:
        """The point that runs without a model: the caller's default, or the first legal one."""
        if self._default is None:
            self._candidates.any()
            return self._candidates.proven[0]
        found = self._candidates.at(self._default)
        if found.function is None:
            raise ArgumentError(f"default: {named(self._default)} is not legal: {found.message}")
        return found

    def _alone(self, candidate: Candidate, sizes: Sizes, store: SampleStore) -> Choices:
        return Choices((self._choice(candidate, None, sizes, store),))

    def _choice(self, candidate: Candidate, seconds: float | None, sizes: Sizes, store: SampleStore) -> Choice:
        assert candidate.function is not None
        text = self._clock.known_text(candidate.program, store)
        measured = None if text is None else store.known_time(text, sizes)
        return Choice(dict(candidate.point), seconds, measured, candidate.function.commands)

    def _warn(self, message: str, level: int, *, point: bool = True) -> None:
        shown = f"{message} {named(self._default_candidate().point)}" if point else message
        warnings.warn(shown, UserWarning, stacklevel=level + 1)

    # -- a call

    def _called(self, inputs: tuple[Any, ...], given: Mapping[str, Any], measure: int) -> Any:
        if isinstance(measure, bool) or not isinstance(measure, int) or measure < 0:
            raise ArgumentError(f"measure={measure!r}: give the number of points to measure, or 0 for none")
        arguments, sizes = self._bound(inputs, given)
        key = tuple(sizes.values())
        if key not in self._kept or (measure and self._kept[key][0].measured is None and self._is_known(sizes)):
            self._kept[key] = self._selected(arguments, sizes, measure)
        choice, kernel = self._kept[key]
        if not given:
            shapes = tuple([getattr(each, "shape", None) for each in inputs])
            self._predicted[shapes] = kernel
            if choice.measured is not None or not self._is_known(sizes):
                self._ready[shapes] = kernel
        return kernel(*inputs, **given)

    def _is_known(self, sizes: Sizes) -> bool:
        """Whether there is a model that holds for the sizes."""
        return self._fitted is not None and min(sizes.values()) > 0 and not outside(sizes, self._fitted.report.ranges)

    def _bound(self, inputs: tuple[Any, ...], given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
        """The inputs by name, and the sizes. Raises `ArgumentError` for arrays that do not fit."""
        algorithm = self._candidates.algorithm
        names = [*algorithm.inputs]
        if len(inputs) > len(names):
            raise ArgumentError(f"{self.name} takes {len(names)} inputs ({', '.join(names)}), {len(inputs)} were given")
        arguments = dict(zip(names, inputs, strict=False))
        arguments |= {name: value for name, value in given.items() if name in algorithm.inputs}
        for name in names:
            if name not in arguments:
                raise ArgumentError(f"{name} is missing: {self.name} takes {', '.join(names)}")
        shaped = [
            (name, declared.passed_shape, np.shape(arguments[name]))
            for name, declared in algorithm.inputs.items()
            if not declared.scalar
        ]
        sizes = {name: value for name, value in given.items() if name in algorithm.params}
        return arguments, infer_params(algorithm.params, shaped, sizes)

    def _selected(self, arguments: Mapping[str, Any], sizes: Sizes, measure: int) -> tuple[Choice, Kernel]:
        """The point for some sizes, with its kernel: the one that is kept on disk, or the best one of the first."""
        with self._opened() as store:
            if min(sizes.values()) < 1:
                return self._first_that_runs(self._alone(self._default_candidate(), sizes, store), store)
            kept = self._from_disk(sizes, store)
            if kept is not None and (kept[0].measured is not None or not measure):
                return self._first_that_runs(Choices((kept[0],)), store)
        found = self._best(sizes, max(measure, 1), 4)
        with self._opened() as store:
            if found[0].seconds is None:  # it is no prediction: a later model may know better
                return self._first_that_runs(found, store)
            chosen = self._measured(found, arguments, sizes, store) if measure else self._first_that_runs(found, store)
            choice = chosen[0]
            text = self._clock.text(self._candidates.at(choice.parameters), store)
            store.keep_choice(sizes, Kept(plain_point(choice.parameters), text, choice.seconds, choice.measured))
        return chosen

    def _from_disk(self, sizes: Sizes, store: SampleStore) -> tuple[Choice, Candidate] | None:
        """The point that is kept for some sizes, if it still is one and is compiled from the same text."""
        kept = store.choice(sizes)
        point = None if kept is None else point_of(kept.parameters, self._space)
        if kept is None or point is None:
            return None
        candidate = self._candidates.at(point)
        if candidate.function is None or self._clock.text(candidate, store) != kept.text:
            return None
        return Choice(dict(point), kept.predicted, kept.measured, candidate.function.commands), candidate

    def _first_that_runs(self, some: Choices, store: SampleStore) -> tuple[Choice, Kernel]:
        """The first point that can be compiled, with its kernel. Raises `KernelError` if none can."""
        for choice in some:
            self._compile([choice], store)
            kernel = self.kernels.get(named(choice.parameters))
            if kernel is not None:
                return choice, kernel
        raise KernelError(
            f"no point of {self.name} can be compiled, such as {named(some[0].parameters)}: "
            + self._kernel_clock.failure(self._candidates.at(some[0].parameters), store)
        )

    def _compile(self, some: Sequence[Choice], store: SampleStore) -> None:
        """Compiles points side by side, and checks their values."""
        candidates = [self._candidates.at(each.parameters) for each in some]
        self._kernel_clock.prepare(candidates, store, len(allowed_cpus()))
        for each in candidates:
            kernel = self._kernel_clock.kernels.get(self._kernel_clock.text(each, store))
            if kernel is not None:
                self.kernels[named(each.point)] = kernel

    def _measured(
        self, some: Choices, arguments: Mapping[str, Any], sizes: Sizes, store: SampleStore
    ) -> tuple[Choice, Kernel]:
        """The fastest of some points at the arguments of a call; each time becomes a sample."""
        times: list[tuple[float, Choice]] = []
        case = Case(self._candidates.algorithm, sizes, arguments)
        with self._turn():
            self._compile(some, store)
            for choice in some:
                kernel = self.kernels.get(named(choice.parameters))
                if kernel is None:
                    continue
                candidate = self._candidates.at(choice.parameters)
                text = self._clock.text(candidate, store)
                if self._clock.measures:
                    found = self._kernel_clock.timed(kernel, case, f"{self.name} with {named(choice.parameters)}")
                else:
                    found = self._clock.time(candidate, text, sizes)
                number = store.kernel(text, self.name, plain_point(choice.parameters))
                store.keep_one(number, sizes, found)
                if found.seconds is not None:
                    times.append((found.seconds, choice))
        if not times:
            return self._first_that_runs(some, store)
        seconds, best = min(times, key=lambda each: each[0])
        kept = Choice(best.parameters, best.seconds, seconds, best.commands)
        return kept, self.kernels[named(best.parameters)]


#: The file in the folder of the cache.
FILE = "tuning.sqlite"


def input_aware(
    make: Callable[..., Function],
    space: Mapping[str, Iterable[Any]],
    *,
    where: Callable[..., object] | None = None,
    filters: Sequence[Filter] = (),
    features: Callable[..., Mapping[str, float]] | None = None,
    default: Mapping[str, Any] | None = None,
    database: Any = None,
    timer: Timer | None = None,
    **options: Any,
) -> InputAware:
    """Make a kernel with open parameters, called with arrays of any sizes: a model, learned once for a machine, chooses.

    ::

        product = tm.input_aware(make, space, where=lambda rows, lanes, **_: rows * lanes <= 256)
        product.collect(M=(16, 4096), N=(16, 4096), K=(16, 131072), minutes=40)
        print(product.fit())
        c = product(a, b)                   # predicts all points, measures the first 10, keeps the best one

    `make`, `space` and `where` are those of `tune`; the functions have symbolic sizes, so that one proof holds for all of
    them. `filters` (``tiramisu_py.tuning.filters``) refuse points, or points at sizes, before any proof. `features`
    returns numbers by name that the time depends on beside the sizes: ``lambda L, **_: {"blocks": L // 16}``; if it takes
    the parameters of the space too, it gets them. `default` is the point that runs without a model and beyond the
    sampled sizes; without it, the first legal point, and the one for the nearest sampled sizes.

    Samples, models and choices are in the SQLite file of `tune`: `database`, by default in the folder of the cache.
    ``timer(point, sizes)`` takes the place of the clock and of the machine's name: it returns seconds, and collecting
    compiles nothing. `options` are those of `Function.compile`.

    Raises `ArgumentError` for a space that is empty or that `make` does not take, and for values that have neither an
    order nor a name.

    Source: Tillet, "Blocked Algorithms for Neural Networks", Harvard 2020, chapter 4.
    """
    checked = checked_space(space, where, make)
    require_known_values(checked)
    named_filters = checked_filters(filters, checked.values)
    if timer is not None and not callable(timer):
        raise ArgumentError(f"timer={timer!r:.60}: give a function of a point and sizes that returns seconds")
    require_options("input_aware", options)
    return InputAware(
        make, checked, named_filters, features, _checked_default(default, checked), database, timer, options
    )


def _checked_default(given: object, space: Space) -> Point | None:
    if given is None:
        return None
    if not isinstance(given, Mapping) or given.keys() != space.values.keys():
        raise ArgumentError(f"default={given!r:.80}: give a value of each parameter, {', '.join(space.values)}")
    for name, value in given.items():
        if not any(type(value) is type(one) and value == one for one in space.values[name]):
            raise ArgumentError(f"default has {name}={value!r}, which the space does not have")
    return {name: given[name] for name in space.values}
