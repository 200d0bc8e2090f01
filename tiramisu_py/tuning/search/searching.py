"""tune(): the best schedule of a space, or of a recipe's sizes, found by measuring the legal ones."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tiramisu_py import Computation, Function
from tiramisu_py.errors import ArgumentError
from tiramisu_py.public_calls import own_call
from tiramisu_py.queries import allowed_cpus, function_of, open_cache
from tiramisu_py.tuning.search.bench import MeasuringRequest, bench_for
from tiramisu_py.tuning.search.proposals import proposals_for
from tiramisu_py.tuning.search.requirements import require_at_least_one, require_options, require_seconds, require_seed
from tiramisu_py.tuning.search.space import checked_space
from tiramisu_py.tuning.search.status_line import Progress
from tiramisu_py.tuning.search.stopwatch import Stopwatch
from tiramisu_py.tuning.search.tuned import Tuned
from tiramisu_py.tuning.search.tuner import SearchLimits, Tuner
from tiramisu_py.tuning.search.turns import Turns


def of_recipe(recipe: Callable[..., object], of: Computation | Sequence[Computation]) -> Callable[..., Function]:
    """A function of a point: the function of some computations as it is now, scheduled by a recipe.

    The recipe takes the computations, and the point as its `sizes`, or as keyword arguments. Raises `ArgumentError`.
    """
    stages = [of] if isinstance(of, Computation) else list(of) if isinstance(of, Sequence) else []
    if not callable(recipe) or not stages or not all(isinstance(each, Computation) for each in stages):
        raise ArgumentError(
            f"tune: of={of!r}: give the computations that a recipe is to schedule, "
            "tm.tune(tm.recipes.matmul, space, of=C)"
        )
    start = function_of(stages[0])
    names = [each.name for each in stages]
    takes_sizes = "sizes" in inspect.signature(recipe).parameters

    def make(**point: object) -> Function:
        f = start.copy()
        given = {"sizes": point} if takes_sizes and "sizes" not in point else point
        recipe(*(f[name] for name in names), **given)
        return f

    return make


@own_call
def tune(
    make: Callable[..., object],
    space: Mapping[str, Iterable[Any]],
    *,
    of: Computation | Sequence[Computation] | None = None,
    arguments: Any = None,
    sizes: Any = None,
    where: Callable[..., object] | None = None,
    verify: Any = True,
    points: int = 200,
    seconds: float | None = None,
    repeats: int = 7,
    search: str | None = None,
    seed: int = 0,
    workers: int | None = None,
    database: Any = None,
    progress: bool | None = None,
    **options: Any,
) -> Tuned:
    """Find the fastest schedule of a space: legal points only, measured on this machine, every result kept.

    ::

        def make(rows, lanes):
            f, down, across = blur()                        # declares the algorithm
            across.unroll_and_jam(r, rows)
            across.vectorize(c, lanes)
            ...
            return f

        result = tm.tune(make, {"rows": range(1, 9), "lanes": tm.powers_of_two(4, 32)}, arguments={"image": image})
        print(result)                                       # how many points, how many pruned, the best one
        f = make(**result.best.parameters)                  # or tm.Function.of(f.algorithm, result.best.commands)

    **Recipes.** With `of`, `make` is a recipe, which is applied to these computations in a copy of their function for
    each point: the point is its `sizes`, or its keyword arguments::

        tm.tune(tm.recipes.matmul, tm.recipes.matmul_space(C), of=C, sizes={"N": 1024})
        tm.tune(tm.recipes.stencil, {"rows": [2, 4, 8]}, of=[down, across], arguments={"image": image})

    **Points.** `space` has the values of each parameter; ``where(**parameters)`` excludes combinations beforehand. A
    point that a command or the proof refuses is pruned before anything is compiled, and keeps the reason. A space of
    up to `points` points is tried completely, in random order. In a larger one `points` are compiled and measured:
    points with values that were hardly tried, neighbours of the best one, and points that Optuna proposes
    (``pip install 'tiramisu_py[tune]'``). `search` names another way: "grid", "random" or "optuna". After `seconds` no
    further point begins; the best ones are measured again within a tenth of this time. `seed` fixes the order, the
    choice, and random inputs.

    **Measuring.** `arguments` are arrays, scalars and parameters by name; inputs that are missing are random, within
    their declared ranges. For several sizes give a list of such dicts, or `sizes`, a list of values of the parameters,
    with `arguments` as a function of these; the time of a point is then the geometric mean. Up to `workers` compilers
    run side by side (default: as many as there are cpus), then points are measured one at a time, also with respect to
    other searches of this user. A time is the least of `repeats` samples, and a sample the fastest of five calls that
    together take two milliseconds (of more, if short; of fewer, if 20 milliseconds end it). A point that is clearly
    slower than the best one, which runs beside it, is stopped early; the best ones are measured again in turns.

    **Right values.** The first results of every point are compared with those of `evaluate()`, for large sizes with
    those of a program with hardly any schedule; or with `verify`: the outputs, or a function of the arguments that
    returns them. Sums of numbers with a binary point, whose order is free, and values given by `verify` must be equal
    up to rounding, all others exactly. ``verify=False`` compares nothing. A wrong result ends the search.

    **Results.** Each outcome is committed to a SQLite file as soon as it is known: `database`, by default
    ``tuning.sqlite`` in the folder of the cache. A search that was interrupted and is started again measures only what
    is missing; all points are proven again. An outcome holds for the same generated text, arguments (shapes and types;
    contents for inputs with declared facts), machine, compiler and its flags. `progress` shows a line on the standard
    error stream (default: on a terminal). `options` are those of `Function.compile`.

    Raises `ArgumentError` for arguments that do not fit, `TuningError` for wrong values and for a database that cannot
    be used, `ToolchainError` without a compiler, and `ImportError` if Optuna is needed and missing.
    """
    make = make if of is None else of_recipe(make, of)
    checked = checked_space(space, where, make)
    require_at_least_one(points=points, repeats=repeats, workers=1 if workers is None else workers)
    require_seconds("seconds", seconds)
    require_seed(seed)
    if progress is not None and not isinstance(progress, bool):
        raise ArgumentError(f"progress={progress!r}: give True or False, or None for a line on a terminal")
    require_options("tune", options)
    proposals = proposals_for(checked, search, points, seed)
    size = sum(1 for _ in checked.points()) if checked.is_listed else None
    cache = open_cache()
    request = MeasuringRequest(arguments, sizes, verify, database, seed, options)
    tuner = Tuner(
        make, proposals, lambda f: bench_for(f, request, cache), Turns(cache.root),
        SearchLimits(points, seconds, workers or len(allowed_cpus())), Stopwatch(repeats), Progress(progress),
        options, size,
    )  # fmt: skip
    tuner.run()
    return Tuned(tuner.name or "the space", tuple(tuner.points), size, tuner.complete, tuner.elapsed)
