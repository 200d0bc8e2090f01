"""The page of `scripts/bench cpu`: tables and pictures of the measurements."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.common.pictures import bars
from benchmarks.common.rounds import least, speedup
from benchmarks.common.tables import drawn, milliseconds, table, versions
from benchmarks.cpu.cost import Cost
from benchmarks.cpu.limits import Limits
from benchmarks.cpu.worker import OURS, PACKAGES
from benchmarks.cpu.workloads import Size, Workload

TITLE = "The stories of examples/cpu beside others"
PROJECTS = ("tiramisu_py", "numpy", "halide", "opencv-python-headless", "numba", "devito")
RULES = """\
One process for each program, with its own copy of the same data (huge pages where the system gives them); the
programs take turns, ours as a C function. Times are minima of all turns; ratios are of these, and behind them in
brackets the median of the ratios in each round. Before that each program computes once from the same data, and is
compared with ours: float32 up to 1e-5 of values below 1, because kernels with float32 are compiled with contraction
into fused multiply-adds (`fast=("contract",)`), as the others are; OpenCV rounds where we cut off (a difference of 1 in
bytes, 2 in edges), and interpolates between 32nds of a pixel. `Halide, usual` has the schedule of Halide's tutorials;
`Halide, best` is the fastest of all that were tried, in both orders of the stages where there are two. The limit of a
workload is its bytes at the best rate of a loop in C that moves the same streams, with ordinary or non-temporal stores;
of heat it is its vector operations at the rate of independent multiply-adds."""


@dataclass(frozen=True)
class Measured:
    """The turns of all programs at one size and number of threads, and each program's description of itself."""

    workload: Workload
    size: Size
    threads: int
    rounds: Sequence[Mapping[str, float]]
    about: Mapping[str, str]

    @property
    def key(self) -> tuple[str, Size]:
        """The workload and the size."""
        return self.workload.name, self.size

    @property
    def least(self) -> dict[str, float]:
        """Seconds of the fastest turn of each program."""
        return least(self.rounds)

    @property
    def ours(self) -> float:
        """Seconds of our schedule."""
        return self.least[OURS]

    @property
    def best_peer(self) -> str | None:
        """The fastest program of the others."""
        peers = {name: time for name, time in self.least.items() if not name.startswith(OURS)}
        return min(peers, key=lambda name: peers[name]) if peers else None

    def over(self, program: str | None) -> str:
        """The speedup of our program over another, and the median over the rounds."""
        return speedup(self.rounds, OURS, program)

    @property
    def title(self) -> list[str]:
        """The first cells of a row."""
        return [self.workload.name, f"{self.size[1]} x {self.size[0]}", str(self.threads)]


def summary(found: Sequence[Measured], limits: Mapping[int, Limits]) -> str:
    """One row for each workload, size and number of threads."""
    single = {each.key: each.ours for each in found if each.threads == 1}
    rows = []
    for each in found:
        peer = each.best_peer
        rate, unit = each.workload.rate(*each.size, each.ours)
        limit = limits[each.threads].seconds(each.workload, each.size)
        scaled = f"{single[each.key] / each.ours:.2f}" if each.threads > 1 and each.key in single else ""
        rows.append([
            *each.title, milliseconds(each.ours), f"{rate:.1f} {unit}", peer or "",
            milliseconds(each.least[peer]) if peer else "", each.over(peer), each.over("Halide, usual"),
            each.over("OpenCV"), milliseconds(limit), f"{limit / each.ours:.0%}", scaled,
        ])  # fmt: skip
    header = [
        "workload", "size", "threads", "ours, ms", "rate", "best peer", "its ms", "times as fast", "as usual Halide",
        "as OpenCV", "limit, ms", "of the limit", "over 1 thread",
    ]  # fmt: skip
    return table(header, rows)


def programs(found: Sequence[Measured]) -> str:
    """One row for every program."""
    rows = []
    for each in found:
        for name, time in each.least.items():
            rate, unit = each.workload.rate(*each.size, time)
            rows.append(
                [*each.title, name, each.about[name], milliseconds(time), f"{rate:.1f} {unit}", each.over(name)]
            )
    return table(["workload", "size", "threads", "program", "how", "ms", "rate", "ours is faster by"], rows)


def costs_of(costs: Mapping[str, Cost]) -> str:
    """The table of the costs of our schedules."""
    rows = []
    for name, each in costs.items():
        parts = (each.schedule, each.check, each.emit, each.schedule + each.check + each.emit)
        rows.append([name, str(each.commands), *(f"{part:.1f}" for part in parts)])
    return table(["workload", "commands", "schedule", "check", "emit", "sum"], rows)


def machine_limits(limits: Mapping[int, Limits]) -> str:
    """The table of the machine's limits."""
    threads = list(limits)
    rows = [["fused multiply-adds, float32", "", *(f"{limits[count].flops:.0f} Gflop/s" for count in threads)]]
    for move in next(iter(limits.values())).moved:
        reads, writes, size = move
        what = f"{reads} read, {writes} written"
        rates = [" / ".join(f"{rate:.1f}" for rate in limits[count].moved[move]) for count in threads]
        rows.append([what, f"{size / 1e6:g} MB", *(f"{rate} GB/s" for rate in rates)])
    header = ["streams", "bytes of each", *(f"{count} thread{'s' * (count > 1)}" for count in threads)]
    return table(header, rows)


def page(found: Sequence[Measured], limits: Mapping[int, Limits], costs: Mapping[str, Cost]) -> str:
    """The whole page."""
    titles = {each.workload.name: each.workload.title for each in found}
    named = "\n".join(f"- {name}: {title}" for name, title in titles.items())
    missing = [name for name, package in PACKAGES.items() if importlib.util.find_spec(package) is None]
    left_out = f"Left out, not installed here: {', '.join(missing)}.\n\n" if missing else ""
    return "\n\n".join([
        f"{versions(PROJECTS)}.", f"{left_out}{RULES}", named,
        "## Ours and the best of the others", summary(found, limits),
        *(f"![{title}](pictures/{drawn(name)}.svg)" for name, title in PICTURES.items()),
        "## All programs", programs(found),
        "## What the machine can do at most", machine_limits(limits),
        "With ordinary / with non-temporal stores; bytes read and written, each counted once.",
        "## What our schedules cost to make", costs_of(costs), "Milliseconds of processor time, minima.",
    ])  # fmt: skip


PICTURES = {
    "cpu_peers": "Times as fast as the best of the others, largest size",
    "cpu_limits": "Share of what the machine can do at most, largest size",
}


def pictures(found: Sequence[Measured], limits: Mapping[int, Limits]) -> dict[str, str]:
    """Bars for each workload at its largest size, by number of threads."""
    largest = {each.workload.name: each.size for each in found}
    shown = [each for each in found if largest[each.workload.name] == each.size]
    by_place = {(each.workload.name, each.threads): each for each in shown}

    def series(value: str) -> dict[str, list[float | None]]:
        threads = dict.fromkeys(each.threads for each in shown)
        return {
            f"{count} thread{'s' * (count > 1)}": [
                ratio(by_place.get((name, count)), value, limits) for name in largest
            ]
            for count in threads
        }  # fmt: skip

    return {
        name: bars(title, list(largest), series(name), "times" if name == "cpu_peers" else "share")
        for name, title in PICTURES.items()
    }


def ratio(each: Measured | None, value: str, limits: Mapping[int, Limits]) -> float | None:
    """The value of a bar."""
    if each is None:
        return None
    if value == "cpu_limits":
        return limits[each.threads].seconds(each.workload, each.size) / each.ours
    return each.least[each.best_peer] / each.ours if each.best_peer else None
