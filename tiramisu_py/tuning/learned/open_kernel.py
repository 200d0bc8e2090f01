"""input_aware(): a kernel with open parameters, and the point that a model chooses for the sizes of each call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from tiramisu_py import Function, Kernel
from tiramisu_py.errors import ArgumentError
from tiramisu_py.public_calls import own_call
from tiramisu_py.queries import allowed_cpus
from tiramisu_py.tuning.filters import Filter, checked_filters
from tiramisu_py.tuning.learned.calling import Caller
from tiramisu_py.tuning.learned.choices import Choice, Choices
from tiramisu_py.tuning.learned.columns import require_known_values
from tiramisu_py.tuning.learned.exporting import export
from tiramisu_py.tuning.learned.fitting import FIRST, FitReport
from tiramisu_py.tuning.learned.predicting import EPOCHS, HIDDEN, Predictor
from tiramisu_py.tuning.learned.samples.candidates import named
from tiramisu_py.tuning.learned.samples.clocks import Timer
from tiramisu_py.tuning.learned.samples.collecting import Collected, CollectLimits, Collector
from tiramisu_py.tuning.learned.samples.ranges import Sizes, checked_ranges, checked_values
from tiramisu_py.tuning.learned.samples.sampling import Sampler
from tiramisu_py.tuning.learned.study import Study
from tiramisu_py.tuning.search.database import database_path
from tiramisu_py.tuning.search.requirements import (
    require_at_least_one,
    require_options,
    require_seconds,
    require_seed,
)
from tiramisu_py.tuning.search.space import Point, Space, checked_space
from tiramisu_py.tuning.search.status_line import Progress

#: Sizes that are measured have at most so many operations and bytes, unless the caller says more.
OPERATIONS, BYTES = 1e10, 2.0**31
#: The seconds that a sample may take: its first call, and the three that are measured.
LIMIT = 20.0


class InputAware:
    """A kernel with open parameters; a call runs the point that suits its sizes. `input_aware` makes it.

    ::

        product.collect(M=(16, 4096), N=(16, 4096), K=(16, 131072), minutes=40)
        print(product.fit())
        c = product(a, b)
    """

    def __init__(self, study: Study) -> None:
        self._study = study
        self._predictor = Predictor(study)
        self._caller = Caller(study, self._predictor)

    @property
    def name(self) -> str:
        """The name of the function."""
        return self._study.name

    @property
    def kernels(self) -> dict[str, Kernel]:
        """The kernels that calls have compiled, by their point."""
        return dict(self._caller.kernels)

    @property
    def report(self) -> FitReport | None:
        """The report of the model; None if there is none."""
        with self._study.opened() as store:
            model = self._predictor.model(store)
        return None if model is None else model.report

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
        limit: float | None = LIMIT,
        workers: int | None = None,
        compile_only: bool = False,
        progress: bool | None = None,
        **sizes: Any,
    ) -> Collected:
        """Measure legal points at sizes drawn from ranges, and keep each time as soon as it is known.

        ::

            product.collect(M=(16, 4096), N=(16, 4096), K=(16, 131072), minutes=40)     # killed: the same call goes on

        A size has a range, both ends included, or one value (``ranges={"points": (1, 9)}`` for names that are options,
        too). Samples are drawn by `seed`, as a naive Bayes model says of what filters and proof accept, sizes by their
        logarithms; of at most so many `points` and `shapes` (combinations of sizes), if given, and of sizes with at
        most so many `operations` (default: 10^10, with a timer no limit). `samples` is the number of samples drawn:
        those that the database has are not measured again. No sample begins after `minutes`.

        Each point is compiled once, by `workers` compilers side by side, and its values are compared with those of
        `evaluate()` at two small sizes. A time is the least of three samples, of up to six until the two least
        agree, of one if it takes more than 0.1 s. Kernels run in a process of their own, so that one that takes more
        than `limit` seconds is ended (with None, and on GPUs, they run in this process). With ``compile_only=True``
        kernels are compiled into the cache, and none is run.

        Raises `ArgumentError` for ranges that do not fit, and with the reasons counted if no point is legal;
        `TuningError` for wrong values and for a database that cannot be used.
        """
        if samples is None and minutes is None:
            raise ArgumentError("collect: give a limit, samples=2000 or minutes=40")
        given = {"samples": samples, "points": points, "shapes": shapes, "workers": workers}
        require_at_least_one(**{name: value for name, value in given.items() if value is not None})
        require_seconds("minutes", minutes)
        require_seconds("operations", operations)
        require_seconds("limit", limit)
        require_seed(seed)
        study = self._study
        checked = checked_ranges({**(ranges or {}), **sizes}, study.params, "collect")
        if study.timer is None:
            study.kernel_clock.ranges = checked
        limits = self._limits(operations)
        sampler = Sampler(study.candidates, study.filters, checked, limits, points=points, shapes=shapes, seed=seed)
        seconds = None if minutes is None else 60 * minutes
        timing = nullcontext() if study.timer is not None else study.kernel_clock.limited(limit)
        with study.opened() as store, timing:
            store.widen(checked)
            return Collector(
                self.name, sampler, study.clock, store, study.turn,
                CollectLimits(samples, seconds, workers or len(allowed_cpus()), compile_only), Progress(progress),
            ).run()  # fmt: skip

    def _limits(self, operations: float | None) -> list[tuple[str, Callable[[Sizes], float], float]]:
        """The limits of sizes that are drawn: what is limited, how much of it some sizes have, and the most."""
        study = self._study
        limits: list[tuple[str, Callable[[Sizes], float], float]] = []
        if study.algorithm.assume:
            limits.append(("what the function assumes", lambda sizes: not study.assumes(sizes), 0))
        most = OPERATIONS if operations is None and study.timer is None else operations
        if most is not None:
            limits.append(("operations", study.work.operations, most))
        if study.timer is None:
            limits.append(("bytes of arguments", study.work.bytes, BYTES))
        return limits

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

        The models are the mean of two networks of rectified linear units with these `hidden` layers, trained in so many
        `epochs`, gradient boosting with three trees for each, the mean of both, a linear model, and a roofline; each
        predicts the logarithm of operations a second. `most` takes only so many samples.
        The best one is then fitted to all samples, those kept apart too. With `prior`, samples of other machines in the
        database are taken as well, up to a factor, that of their mean.
        The model is kept in the database as plain arrays. Raises `ArgumentError` if there are too few samples.
        """
        require_at_least_one(epochs=epochs, **({} if most is None else {"most": most}))
        require_seed(seed)
        for width in hidden:
            require_at_least_one(hidden=width)
        with self._study.opened() as store:
            found = self._predictor.fit(store, hidden=hidden, epochs=epochs, most=most, prior=prior, seed=seed)
        self._caller.forget()
        return found

    def merge(self, database: str | Path) -> int:
        """Take over the samples of another database, such as one of another machine; returns how many are new.

        Raises `TuningError` for a file that cannot be used.
        """
        with self._study.opened() as store:
            return store.merge(database_path(database, Path()))

    def best(self, sizes: Mapping[str, Any] | None = None, /, *, top: int = FIRST, **named_sizes: Any) -> Choices:
        """The legal points with the least predicted times at given sizes, the best one first; nothing is run.

        ::

            print(product.best(M=64, N=64, K=131072, top=10))

        All points of the space are predicted, and proven one after another in this order. Beyond the sampled ranges,
        and without a model, it is the default point alone, with a warning. Raises `ArgumentError` for sizes that are
        missing or below 1.
        """
        require_at_least_one(top=top)
        asked = checked_values({**(sizes or {}), **named_sizes}, self._study.params, "best")
        with self._study.opened() as store:
            return self._predictor.best(asked, top, store, 3)

    def chosen(self, sizes: Mapping[str, Any] | None = None, /, **named_sizes: Any) -> Choice:
        """The point that is kept for given sizes. Raises `ArgumentError` if there was no call of these sizes."""
        asked = checked_values({**(sizes or {}), **named_sizes}, self._study.params, "chosen")
        found = self._caller.chosen(asked)
        if found is None:
            raise ArgumentError(f"{self.name} keeps no point for {named(asked)}: call it with arrays of these sizes")
        return found

    def export(self, folder: str | Path, shapes: Sequence[Mapping[str, Any]]) -> Path:
        """Write the versions that given sizes need, and a C function that chooses among them, into a folder.

        ::

            product.export("product", [{"M": 64, "N": 64, "K": 131072}, {"M": 1024, "N": 1024, "K": 1024}])
            $ make -C product && cc main.c -Iproduct product/libproduct.a -fopenmp -lm

        The version of sizes is the point that is kept for them, or the first that the model predicts; each distinct one
        has a folder of its own, as `Kernel.export` writes it. The function has the name and the arguments of a kernel,
        and runs the version whose sizes are nearest to its own by their ratios; ``product_version(M, N, K)`` says which
        one. Raises `ArgumentError` for sizes that are missing, and `ToolchainError` if the folder cannot be written.
        """
        listed = list(shapes) if isinstance(shapes, Sequence) and not isinstance(shapes, str) else []
        if not listed or not all(isinstance(each, Mapping) for each in listed):
            raise ArgumentError(f"shapes={shapes!r:.60}: give a list of sizes by name, [{{'M': 64, 'N': 64}}]")
        chosen = []
        for each in listed:
            sizes = checked_values(each, self._study.params, "shapes")
            with self._study.opened() as store:
                found = self._caller.chosen(sizes) or self._predictor.best(sizes, 1, store, 3)[0]
            chosen.append((sizes, self._study.candidates.at(found.parameters)))
        return export(self._study, Path(folder), chosen)

    def __call__(self, /, *inputs: Any, measure: int = FIRST, **given: Any) -> Any:
        """Run the point that suits the sizes of the arguments, which are those of a kernel.

        At the first call of a shape the points that are predicted to be the fastest, `measure` of them, are compiled
        and measured with these arguments, and the best one is kept on disk, for this machine; with ``measure=0`` it is
        the first one. Later calls run it at once. Raises what a kernel raises.
        """
        if not given:
            known = self._caller.final if measure else self._caller.every
            kernel = known.get(tuple([getattr(each, "shape", None) for each in inputs]))
            if kernel is not None:
                return kernel(*inputs)
        return self._caller.call(inputs, given, measure)


@own_call
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
    """Make a kernel with open parameters: a model, learned once for a machine, chooses them for the sizes of a call.

    ::

        product = tm.input_aware(make, space, where=lambda rows, lanes, **_: rows * lanes <= 256)
        product.collect(M=(16, 4096), N=(16, 4096), K=(16, 131072), minutes=40)
        print(product.fit())
        c = product(a, b)                   # predicts all points, measures the first 10, keeps the best one

    `make`, `space` and `where` are those of `tune`; the functions have symbolic sizes, so that one proof holds for all
    of them. `filters` (``tiramisu_py.tuning.filters``) refuse points, or points at sizes, before any proof. `features`
    returns numbers by name that the time depends on beside the sizes: ``lambda L, **_: {"blocks": L // 16}``; if it
    takes the parameters of the space too, it gets them. `default` is the point that runs without a model and beyond
    the sampled sizes; without it, the first legal point, and the one for the nearest sampled sizes.

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
    chosen = _checked_default(default, checked)
    return InputAware(Study(make, checked, named_filters, features, chosen, database, timer, options))


def _checked_default(given: object, space: Space) -> Point | None:
    if given is None:
        return None
    if not isinstance(given, Mapping) or given.keys() != space.values.keys():
        raise ArgumentError(f"default={given!r:.80}: give a value of each parameter, {', '.join(space.values)}")
    for name, value in given.items():
        if not any(type(value) is type(one) and value == one for one in space.values[name]):
            raise ArgumentError(f"default has {name}={value!r}, which the space does not have")
    return {name: given[name] for name in space.values}
