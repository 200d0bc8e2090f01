"""Block programs on cores beside NumPy's OpenBLAS, PyTorch, and our schedules of algorithms.

scripts/bench blocks [--save] [--threads 1,2] [--only "product;attention 1024"] [--seconds S] [--rounds N]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.blocks.workloads import DENSE, OURS, Workload, missing, workloads
from benchmarks.common.rounds import Contender, least, turns
from benchmarks.common.tables import keep, milliseconds, report, table, versions
from benchmarks.common.workloads import asked_for, command

WORKER, TITLE = "blocks.worker", "Block programs on cores"
PROJECTS = ("tiramisu_py", "numpy", "torch")
RULES = """\
The kernels are those of `examples/blocks`, scheduled by `tm.recipes.blocks(run, on=tm.cores())` alone. Blocks of
products are as `sizes_on_cores` of `gemm.py` says: with what a program keeps in half of its second-level cache, and at
least a program for each thread. Those of attention (one head, depth 64) have 64 columns, and 128 rows, or 64 if causal.
One process for each program, with its own copy of the same data (huge pages where the system gives them); the programs
take turns, ours as C functions, and times are minima of all turns. Before that each is compared with the same in
float64. Ours are compiled with contraction into fused multiply-adds (`fast=("contract",)`), which the libraries use
too. "An algorithm" is the same without programs, `tm.recipes.matmul` and `examples/linear/softmax.py`, which divides
once for each row; so does one of the two softmax kernels, and the other one divides each element. Sparse attention has
an eighth of the blocks, and is compared with our kernel of all of them. Ratios are how many times as fast ours is,
beside the goal of each."""


@dataclass(frozen=True)
class Measured:
    """The least seconds of each program for a workload, with a number of threads."""

    workload: Workload
    threads: int
    times: Mapping[str, float]


def measured(workload: Workload, threads: int, seconds: float, rounds: int) -> Measured:
    """One workload with one number of threads."""
    arguments, absent = ["--workload", workload.name], missing()
    with ExitStack() as stack:
        processes = []
        for name in (*workload.made, *(each for each in workload.others if each not in absent)):
            processes.append(Contender(WORKER, name, arguments, threads))
            stack.callback(processes[-1].close)
        return Measured(workload, threads, least(turns(processes, seconds, rounds)))


def with_dense(found: Sequence[Measured]) -> list[Measured]:
    """The sparse workloads with the time of the dense one of the same length."""
    times = {(each.workload.name, each.threads): each.times[OURS] for each in found}
    complete = []
    for each in found:
        alike = times.get((each.workload.name.removeprefix("sparse "), each.threads))
        more = {DENSE: alike} if DENSE in each.workload.beside and alike is not None else {}
        complete.append(Measured(each.workload, each.threads, {**each.times, **more}))
    return complete


def rows(found: Sequence[Measured]) -> list[list[str]]:
    """A row for each workload, number of threads and program beside ours."""
    lines = []
    for each in with_dense(found):
        own = each.times[OURS]
        for name, goal in each.workload.beside.items():
            other = each.times.get(name)
            ratio = "not measured" if other is None else f"{other / own:.2f}"
            lines.append([
                each.workload.name, str(each.threads), milliseconds(own),
                f"{each.workload.work / own / 1e9:.1f} {each.workload.unit}", name,
                "" if other is None else milliseconds(other), ratio, f"{goal:.2f}",
                "" if other is None else "yes" if other / own >= goal else "no",
            ])  # fmt: skip
    return lines


def page(found: Sequence[Measured]) -> str:
    """The whole page."""
    absent = [f"Not installed here: {', '.join(missing())}."] if missing() else []
    header = ["kernel", "threads", "ours, ms", "rate", "beside", "its ms", "times as fast", "goal", "reached"]
    return "\n\n".join([f"{versions(PROJECTS)}.", *absent, RULES, table(header, rows(found))])


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the workloads asked for, print the page, and save it if asked."""
    options = command(__doc__, "blocks", "softmax;product", 2)
    given, wanted = asked_for(options, arguments, workloads())
    found = list[Measured]()
    for threads, each in wanted:
        found.append(measured(each, threads, given.seconds, given.rounds))
        if given.save:
            keep("blocks", TITLE, page(found), "scripts/bench blocks")
    report("blocks", TITLE, page(found), given.save)


if __name__ == "__main__":
    main()
