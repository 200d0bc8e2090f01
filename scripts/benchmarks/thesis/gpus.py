"""Sections of the page of results: the blur on GPUs, and on GPUs and cores (tables 5.2 and 5.3, figures 5-1 to 5-3)."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.common.pictures import bars
from benchmarks.common.tables import table
from benchmarks.thesis import programs
from benchmarks.thesis.cores import Found, Section, checked, in_ms, in_words, ms, time_of, times_as, verdicts_of
from benchmarks.thesis.machine import Plan, measured
from benchmarks.thesis.timelines import HEADER, overlaps, traced

SIMULATED = "simulated: right or wrong only"
SIMULATED_WORDS = """\
**On the simulated GPU.** There is none on this machine, or none was asked for: the programs are run in several timings
and compared with `evaluate()`, at small sizes. Simulated times say nothing about GPUs, and none are given."""
EACH = "a GPU each"

# -- table 5.2

TABLE_2 = {1: (30.232, 14.756), 2: (14.965, 7.500), 4: (8.447, 3.824)}


def on_gpus(plan: Plan) -> Section:
    """The blur on GPUs, copied by rows, synchronously and asynchronously."""
    found = measured(plan, "gpu", plan.gpu_ranks, plan.gpu_rows, plan.gpu_columns, plan.device)
    words = (
        f"{plan.gpu_rows} x {plan.gpu_columns} points of all ranks together, from and to page-locked memory of the "
        "host. `synchronous` and `asynchronous` copy row by row, as the thesis does, by commands; `pipelined` copies "
        f"chunks of {programs.CHUNK} rows, derived."
    )
    pictures, timelines = drawn(plan, ["synchronous", "asynchronous", "pipelined"])
    ours = times_as(time_of(found, 1, "synchronous"), time_of(found, 1, "asynchronous"))
    beside = [("asynchronous over synchronous, one GPU (table 5.2)", "2.05", SIMULATED if plan.simulated else ours)]
    if plan.simulated:
        text = f"{SIMULATED_WORDS}\n\n{words}\n\n{verdict_table(found)}\n\n{timelines}"
    else:
        text = f"{words}\n\n{gpu_times(found)}\n\n{timelines}"
        pictures = {"thesis-5.2": chart("Table 5.2: blur on GPUs", found), **pictures}
    title = "Blur on GPUs: synchronous and asynchronous"
    return Section("5.2", title, text, pictures, beside, verdicts_of(found))


def gpu_times(found: Found) -> str:
    """The table of times, and the gain of asynchronous copies."""
    rows = []
    for ranks in found:
        slow, *fast = (time_of(found, ranks, name) for name in programs.ON_GPU)
        thesis = TABLE_2[ranks][0] / TABLE_2[ranks][1]
        ratios = [times_as(slow, time) for time in fast]
        shown = [ms(time) for time in (slow, *fast)]
        rows.append([in_words(ranks, EACH), *shown, *ratios, f"{thesis:.2f}", checked(found, ranks)])
    over = [f"{name} over synchronous" for name in list(programs.ON_GPU)[1:]]
    columns = [f"{name}, ms" for name in programs.ON_GPU]
    return table(["nodes", *columns, *over, "thesis: asynchronous", "evaluate()"], rows)


def verdict_table(found: Found) -> str:
    """Right or wrong, for each program and number of ranks."""
    rows = [
        [in_words(ranks, EACH), name, verdict]
        for ranks, answer in found.items()
        for name, verdict in answer["verdicts"].items()
    ]
    return table(["nodes", "program", "evaluate()"], rows)


def chart(title: str, found: Found) -> str:
    """Bars: a group for each number of ranks, in it a bar for each program."""
    names = list(next(iter(found.values()))["times"])
    series = {name: [in_ms(time_of(found, n, name)) for n in found] for name in names}
    return bars(title, [in_words(n, EACH) for n in found], series, "ms")


# -- figures 5-1 and 5-2

#: Figure 5-1 is synchronous, 5-2 asynchronous; the others have no counterpart.
PICTURE_OF = {
    "synchronous": "thesis-5-1",
    "asynchronous": "thesis-5-2",
    "pipelined": "thesis-5-2-pipelined",
    "cooperative": "thesis-5-3-timeline",
}


def drawn(plan: Plan, names: Sequence[str]) -> tuple[dict[str, str], str]:
    """Timelines of single calls, by the names of their files, and a text on how much of them overlaps."""
    traces = {name: traced(name, plan.device, plan.gpu_columns) for name in names}
    pictures = {PICTURE_OF[name]: trace.picture() for name, trace in traces.items()}
    if plan.simulated:
        return pictures, "The timelines show what a simulated call does on which stream, in which order; not how long."
    rows = [[name, *overlaps(trace)] for name, trace in traces.items()]
    words = (
        "Of what takes less time of each pair, so much passes while the other is under way (in the timelines below):"
    )
    return pictures, f"{words}\n\n{table(HEADER, rows)}"


# -- table 5.3 and figure 5-3

TABLE_3 = {1: (12.905, 11.184, 18.130, 27.363), 2: (2.505, 4.211, 8.553, 14.452), 4: (1.195, 2.968, 5.267, 6.851)}
ALONE = ("GPU alone", "cores alone")


def cooperative(plan: Plan) -> Section:
    """The blur on a GPU and on cores at the same time."""
    size = (plan.gpu_rows, plan.gpu_columns) if plan.simulated else (plan.rows, plan.columns)
    found = measured(plan, "cooperative", plan.gpu_ranks, *size, plan.device)
    words = (
        f"{size[0]} x {size[1]} points of all ranks together. A split is rows of the GPU to rows of the cores, chosen "
        "at run time: one compiled program for all."
    )
    pictures, timelines = drawn(plan, ["cooperative"])
    gains = [gain for ranks in found if (gain := gained(found, ranks)) is not None]
    beside = [("cooperative over GPU alone, at best (table 5.3)", "3.2", f"{max(gains):.2f}" if gains else SIMULATED)]
    if plan.simulated:
        parts = [SIMULATED_WORDS, words, verdict_table(found), timelines]
    else:
        names = list(found[1]["times"])
        series = {in_words(n, EACH): [in_ms(time_of(found, n, name)) for name in names] for n in found}
        picture = bars("Figure 5-3: rows of the GPU to rows of the cores", names, series, "ms")
        pictures = {"thesis-5.3": picture, **pictures}
        balance = "`balanced` is the split that `balance()` proposes after its own short runs."
        parts = [f"{words} {balance}", split_times(found), timelines]
    parts += ["The thesis's times, as parts of its asynchronous time on GPUs alone:", of_the_thesis()]
    title = "Cooperative blur: a GPU and cores"
    return Section("5.3", title, "\n\n".join(parts), pictures, beside, verdicts_of(found))


def gained(found: Found, ranks: int) -> float | None:
    """The speedup of the best split over the GPU alone."""
    together = [time for name, time in found[ranks]["times"].items() if name not in ALONE]
    alone = time_of(found, ranks, "GPU alone")
    return None if alone is None else alone / min(together)


def split_times(found: Found) -> str:
    """The table of times for each split."""
    rows = []
    for ranks in found:
        times = found[ranks]["times"]
        rows.append([in_words(ranks, EACH), *map(ms, times.values()), f"{gained(found, ranks):.2f}",
                     checked(found, ranks)])  # fmt: skip
    columns = [f"{name}, ms" for name in found[1]["times"]]
    return table(["nodes", *columns, "best over GPU alone", "evaluate()"], rows)


def of_the_thesis() -> str:
    """Table 5.3 of the thesis over the asynchronous column of its table 5.2."""
    rows = [[str(n), *(f"{time / TABLE_2[n][1]:.2f}" for time in times)] for n, times in TABLE_3.items()]
    return table(["nodes", "14000/2000 (7 : 1)", "12000/4000 (3 : 1)", "8000/8000", "4000/12000"], rows)
