"""Sections of the page of results: the thesis's tables without GPUs, 5.1, 5.4 and 5.5."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.common.pictures import bars
from benchmarks.common.tables import table
from benchmarks.thesis import programs
from benchmarks.thesis.machine import Plan, measured

NOT_HERE = "not measured here"
RIGHT = "bit for bit"
Found = Mapping[int, Mapping[str, Any]]


@dataclass
class Section:
    """A part of the page: text and tables, pictures by name, the thesis's numbers for comparison, and the checks."""

    number: str
    title: str
    text: str
    pictures: dict[str, str] = field(default_factory=dict)
    beside: list[tuple[str, str, str]] = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)


def ms(seconds: float | None) -> str:
    """Milliseconds in a table."""
    return "" if seconds is None else f"{seconds * 1e3:.2f}"


def in_ms(seconds: float | None) -> float | None:
    """Milliseconds in a picture."""
    return None if seconds is None else seconds * 1e3


def times_as(slow: float | None, fast: float | None) -> str:
    """The speedup `slow / fast`, or words where a time is missing."""
    return NOT_HERE if slow is None or fast is None else f"{slow / fast:.2f}"


def time_of(found: Found, ranks: int, name: str) -> float | None:
    """A time, or None, since simulations have no times."""
    times: Mapping[str, float] = found[ranks]["times"] if ranks in found else {}
    return times.get(name)


def verdicts_of(found: Found) -> list[str]:
    """All verdicts."""
    return [str(verdict) for each in found.values() for verdict in each["verdicts"].values()]


def checked(found: Found, ranks: int, names: Sequence[str] = ()) -> str:
    """The result of the check against `evaluate()` for one number of ranks."""
    verdicts = found[ranks]["verdicts"]
    chosen = {verdicts[name] for name in names or verdicts}
    return chosen.pop() if len(chosen) == 1 else "WRONG"


def in_words(ranks: int, each: str) -> str:
    """A number of ranks in words, with the share of each."""
    return f"{ranks} rank{'s' * (ranks > 1)}, {each}"


# -- table 5.1

TABLE_1 = {1: 18.023, 2: 7.905, 4: 7.650}


def on_cores(plan: Plan) -> Section:
    """The blur on host threads; each rank makes its own data."""
    found = measured(plan, "cpu", [n for n in plan.ranks if n <= 4], plan.rows, plan.columns)
    size = 8 * plan.rows * plan.columns
    rows = []
    for ranks in found:
        tiles, registers = (time_of(found, ranks, name) for name in programs.ON_CORES)
        rows.append(
            (
                in_words(ranks, f"{max(1, plan.cores // ranks)} threads"), ms(tiles), ms(registers),
                f"{size / tiles / 1e9:.1f}", times_as(time_of(found, 1, "tiles"), tiles),
                f"{TABLE_1[1] / TABLE_1[ranks]:.2f}", checked(found, ranks),
            )
        )  # fmt: skip
    header = (
        "nodes", "tiles, ms", "8 rows in registers, ms", "GB/s of tiles", "over one rank", "thesis", "evaluate()",
    )  # fmt: skip
    text = (
        f"{plan.rows} x {plan.columns} points of all ranks together; a rank has its rows of the picture, those around "
        "them included, and nothing is sent. The thesis's nodes add cores; ranks here share those of one machine, so "
        "that 1.00 is what to expect of a rank for each core as well. `tiles` is the thesis's schedule: tiled, "
        "parallelised, vectorised.\n\n" + table(header, rows)
    )
    series = {name: [in_ms(time_of(found, n, name)) for n in found] for name in programs.ON_CORES}
    picture = bars("Table 5.1: blur on host threads", [in_words(n, "no messages") for n in found], series, "ms")
    return Section("5.1", "Blur on host threads", text, {"thesis-5.1": picture}, [], verdicts_of(found))


# -- table 5.4

TABLE_4 = {2: (22.729, 15.152), 4: (19.336, 7.615)}


def ghost_zones(plan: Plan) -> Section:
    """The blur on ranks that send each other ghost zones."""
    found = measured(plan, "ghosts", [n for n in plan.ranks if 2 <= n <= 4], plan.rows, plan.columns)
    rows, beside = [], []
    for ranks in found:
        single, packed, derived = (time_of(found, ranks, name) for name in programs.GHOST_ZONES)
        thesis = f"{TABLE_4[ranks][0] / TABLE_4[ranks][1]:.2f}"
        ours = times_as(single, packed)
        rows.append((str(ranks), ms(single), ms(packed), ms(derived), ours, thesis, checked(found, ranks)))
        beside.append((f"packed over single messages, {ranks} ranks (table 5.4)", thesis, ours))
    header = ["ranks", "single messages, ms", "packed, ms", "derived, ms", "packed over single", "thesis", "evaluate()"]
    text = (
        f"{plan.rows} x {plan.columns} points of all ranks together; each rank but the first sends two rows of the "
        f"picture: {2 * (plan.columns + 2)} messages of 4 bytes, two packed ones, or what `derive_transfers()` makes "
        "of it. Ranks share memory here: a message costs a copy, and no network is waited for.\n\n"
        + table(header, rows)
    )
    series = {name: [in_ms(time_of(found, n, name)) for n in found] for name in programs.GHOST_ZONES}
    picture = bars("Table 5.4: ghost zones", [f"{n} ranks" for n in found], series, "ms")
    return Section("5.4", "Ghost zones: single and packed messages", text, {"thesis-5.4": picture}, beside,
                   verdicts_of(found))  # fmt: skip
