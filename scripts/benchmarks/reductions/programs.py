"""The programs of examples/reductions by name, for what is measured of the compiler itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import tiramisu_py as tm
from benchmarks.common.stories import EXAMPLES, imported

FOLDER = EXAMPLES / "reductions"
Make = Callable[[], tm.Function]


def programs() -> dict[str, Make]:
    """All of them: those whose schedules are written by hand, and the twelve sub-graphs on cores and on a GPU."""
    story = partial(imported, FOLDER)
    found: dict[str, Make] = {f"forms_{form}": partial(story("forms").scheduled, form) for form in story("forms").FORMS}
    for name in ("online_softmax", "ranks", "several_gpus", "several_values"):
        found[name] = story(name).scheduled
    figures, kernels, segments = story("figures"), story("one_kernel"), story("segments")
    found |= {f"figure_4_{place}": partial(figures.figure_4, place == "gpu") for place in ("cores", "gpu")}
    found["figure_8_gpu"] = figures.figure_8
    for made in (kernels.softmax, kernels.layer_norm):
        found[f"{made.__name__}_cores"] = partial(_of, made, kernels.on_cores)
        found[f"{made.__name__}_gpu"] = partial(_of, made, kernels.on_a_gpu)
        found[f"{made.__name__}_recipe_gpu"] = partial(_of, made, _by_recipe)
    for schedule in segments.SCHEDULES:
        found[f"segments_{schedule.__name__}"] = partial(_scheduled, segments.segments, schedule)
    found |= {"histogram_threads": segments.copies_of_threads, "histogram_blocks": segments.copies_of_blocks}
    found |= {"prefixes_cores": partial(story("prefixes").on_threads, False)}
    found |= {"prefixes_gpu": partial(story("prefixes").on_a_gpu, False)}
    for graph in story("subgraphs").SUB_GRAPHS:
        found[f"sub_graph_{graph.number}_cores"] = graph.scheduled
        found[f"sub_graph_{graph.number}_gpu"] = partial(_on_gpu, graph)
    return found


def _of(made: Callable[[], Any], schedule: Callable[[Any], tm.Function]) -> tm.Function:
    return schedule(made())


def _scheduled(made: Callable[[], tuple[tm.Function, Any]], schedule: Callable[..., None]) -> tm.Function:
    f, stage = made()
    schedule(f, stage)
    return f


def _by_recipe(story: tuple[tm.Function, object, tm.Computation]) -> tm.Function:
    f, _, result = story
    tm.recipes.reduction(result, on=tm.gpu())
    f.derive_transfers()
    return f


def _on_gpu(graph: Any) -> tm.Function:
    made: tuple[tm.Function, list[tm.Reduction]] = graph.algorithm()
    f, sums = made
    tm.recipes.reduction(*sums, on=tm.gpu())
    f.derive_transfers()
    return f
