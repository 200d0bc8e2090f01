"""Time of proofs: of the examples on cores, GPUs and ranks, of blame in long logs, and of the order of the loops.

scripts/bench checks [--save] [--only gpu,mpi,...] [--commands 240] [--programs N] [--seed S]

Random programs are those of ``scripts/fuzz``, kind ``whole``: legal and illegal schedules of all commands.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import tiramisu_py as tm
from benchmarks.common.stories import EXAMPLES, imported
from benchmarks.common.tables import report, table
from tests.oracle.generators.whole.scripts import random_whole_script
from tiramisu_py.lower.loops.executed_order import ExecutedOrder

FOLDERS = ("cpu", "gpu", "mpi", "cooperative", "linear", "sparse", "apps", "polybench", "reductions")
#: How many of the slowest programs the page names.
SLOWEST = 12
GOALS = """\
Goals: a program of at most 40 statements is checked within 2 s, and the command to blame is found within 3 s in a log
of 240 commands; the proof of the order of the emitted loops takes at most 20 % of the rest of lowering. Processor time
of one process, in milliseconds, on a machine that may do other work."""


@dataclass(frozen=True)
class Checked:
    """A program whose schedule was proven, or refused, and lowered: milliseconds, and how many statements it has."""

    name: str
    statements: int
    check: float
    lower: float = 0.0
    order: float = 0.0

    @property
    def share(self) -> float:
        """The time of the order's proof, in percent of the rest of lowering."""
        return 100 * self.order / (self.lower - self.order) if self.lower > self.order else 0.0


def _milliseconds(action: Callable[[], object]) -> float:
    start = time.process_time()
    action()
    return 1e3 * (time.process_time() - start)


@contextmanager
def order_proofs() -> Iterator[list[float]]:
    """The milliseconds of the proofs of order that are made inside."""
    spent: list[float] = []
    begin, end = ExecutedOrder.__init__, ExecutedOrder.executed

    def made(self: ExecutedOrder, *given: object, **named: object) -> None:
        spent.append(_milliseconds(lambda: begin(self, *given, **named)))  # type: ignore[arg-type]

    def proven(self: ExecutedOrder) -> object:
        found: list[object] = []
        spent.append(_milliseconds(lambda: found.append(end(self))))
        return found[0]

    with patch.object(ExecutedOrder, "__init__", made), patch.object(ExecutedOrder, "executed", proven):
        yield spent


def checked(name: str, f: tm.Function) -> Checked:
    """The times of a proven program."""
    check = _milliseconds(f.check)
    if not f.check().ok:
        raise SystemExit(f"{name} is refused: {f.check()}")
    with order_proofs() as spent:
        lower = _milliseconds(lambda: f.show("lowered"))
    return Checked(name, len(f.completed.statements), check, lower, sum(spent))


def examples(only: Sequence[str]) -> Iterator[tuple[str, tm.Function]]:
    """The scheduled functions of the examples, as their modules make them."""
    sys.path.append(str(EXAMPLES))  # some import what is beside their folder
    for file in (file for name in FOLDERS for file in sorted((EXAMPLES / name).glob("*.py"))):
        if "story" not in file.stem and (not only or {file.parent.name, f"{file.parent.name}/{file.stem}"} & {*only}):
            yield from _functions(file)


def _functions(file: Path) -> Iterator[tuple[str, tm.Function]]:
    module = imported(file.parent, file.stem, prefix=f"checks_{file.parent.name}_")
    for name, make in vars(module).items():
        if inspect.isfunction(make) and make.__module__ == module.__name__ and not name.startswith("_"):
            signature = inspect.signature(make)
            needs = any(each.default is each.empty for each in signature.parameters.values())
            if signature.return_annotation in ("tm.Function", tm.Function) and not needs:
                yield f"{file.parent.name}/{file.stem}.{name}", make()


# -- blame


@dataclass(frozen=True)
class Long:
    """Stencils one after another, whose innermost loop may be unrolled: what long logs are made of."""

    function: tm.Function
    stages: list[tm.Computation]
    inner: tm.Iter


def on_cores(stages: int) -> Long:
    """Each stage in loops of its own."""
    n, m = tm.params("N M")
    i, j = tm.iters("i j")
    f = tm.Function("stencils", params=[n, m], assume="N >= 200 and M >= 200")
    value: tm.Input | tm.Computation = f.input("v0", tm.float32, [n, m])
    made: list[tm.Computation] = []
    for s in range(1, stages + 1):
        term = value[i, j] + value[i + 1, j] + value[i, j - 1]
        value = f.computation(f"v{s}", {i: (s, n - s), j: (s, m - s)}, term)
        made.append(value)
    f.outputs(made[-1])
    return Long(f, made, j)


def on_gpu(stages: int) -> Long:
    """The same on a GPU, four columns a thread, with derived transfers."""
    long = on_cores(stages)
    i, j, j0, j1 = tm.iters("i j j0 j1")
    for s, each in enumerate(long.stages):
        each.split(j, 4, j0, j1)
        each.gpu_tile(i, j0, 16, 16, *tm.iters(f"a{s} b{s} c{s} d{s}"))
    long.function.derive_transfers()
    return Long(long.function, long.stages, j1)


def on_ranks(stages: int) -> Long:
    """The same on ranks, with derived messages."""
    long = on_cores(stages)
    i, j, q, i1 = tm.iters("i j q i1")
    long.function["v0"].distribute_array([i, j], rank=i // 64)
    long.stages[-1].distribute_array([i, j], rank=i // 64)
    for each in long.stages:
        each.split(i, 64, q, i1)
        each.tag_distribute(q)
    long.function.derive_transfers()
    return Long(long.function, long.stages, j)


def blamed(build: Callable[[int], Long], stages: int, commands: int, late: bool) -> tuple[float, str, int]:
    """The time of a check that refuses a long log, the command that it blames, and how long the log is."""
    long = build(stages)
    f, made = long.function, long.stages
    if not late:
        made[-1].before(made[0])
    for number in range(commands - len(f.commands) - late):
        made[number % len(made)].unroll(long.inner, 2 + number % 3)
    if late:
        made[-1].before(made[0])
    told: list[tm.Report] = []
    spent = _milliseconds(lambda: told.append(f.check()))
    found = told[0].violations
    if not found or ".before(" not in str(found[0].command):
        raise SystemExit(f"{build.__name__}: the wrong command is not found: {told[0]}")
    return spent, str(found[0].command), len(f.commands)


# -- random programs


def random_programs(count: int, seed: int) -> list[Checked]:
    """The times of checks of random programs, proven or refused."""
    found = []
    for number in range(seed, seed + count):
        function = random_whole_script(number).function
        spent = _milliseconds(function.check)
        found.append(Checked(f"whole {number}", len(function.completed.statements), spent))
    return found


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--save", action="store_true", help="write docs/results/checks.md")
    options.add_argument("--only", default="", help="these folders of examples, or modules: gpu/sums")
    options.add_argument("--commands", type=int, default=240, help="the length of the logs")
    options.add_argument("--programs", type=int, default=300, help="how many random programs")
    options.add_argument("--seed", type=int, default=140_000_000, help="the first of them")
    given = options.parse_args()

    measured = [checked(name, f) for name, f in examples([each for each in given.only.split(",") if each])]
    drawn = random_programs(given.programs, given.seed)
    parts = [GOALS]
    for title, listed in (("Examples", measured), ("Random programs", drawn)):
        if listed:
            parts.append(f"## {title}\n\n{_summary(listed)}")
    rows = []
    for build in (on_cores, on_gpu, on_ranks):
        for late in (False, True):
            spent, command, length = blamed(build, 8, given.commands, late)
            where = "the last" if late else "an early one"
            rows.append([build.__name__.replace("_", " "), str(length), where, f"`{command}`", f"{spent:.0f}"])
    header = ["eight stencils", "commands", "the wrong one", "blamed", "check, ms"]
    parts.append(f"## Blame in long logs\n\n{table(header, rows)}")
    report("checks", "Time of proofs", "\n\n".join(parts), given.save)


def _summary(listed: Sequence[Checked]) -> str:
    small = [each for each in listed if each.statements <= 40]
    over = sum(each.check > 2000 for each in small)
    text = (
        f"{len(listed)} programs, {len(small)} of at most 40 statements, of which {over} took more than 2 s to check."
    )
    lowered = [each for each in listed if each.lower]
    if lowered:
        whole, order = (sum(values) for values in zip(*((each.lower, each.order) for each in lowered), strict=True))
        worst = max((each for each in lowered if each.lower > 50), key=lambda each: each.share, default=lowered[0])
        text += (
            f" The order of the loops: {100 * order / (whole - order):.0f} % of the rest of lowering, all together; "
            f"the most is {worst.share:.0f} %, of {worst.name}."
        )
    header = ["the slowest", "statements", "check, ms", *(["lower, ms", "of which order, ms"] if lowered else [])]
    rows = []
    for each in sorted(listed, key=lambda each: -each.check)[:SLOWEST]:
        own = [each.name, str(each.statements), f"{each.check:.0f}"]
        rows.append(own + ([f"{each.lower:.0f}", f"{each.order:.0f}"] if lowered else []))
    return f"{text}\n\n{table(header, rows)}"


if __name__ == "__main__":
    main()
