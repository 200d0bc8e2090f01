"""The page of `scripts/bench machine_code`: its tables, what they mean, and what has changed since they were saved."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from benchmarks.common.tables import table
from benchmarks.machine_code.assembly import Instruction
from benchmarks.machine_code.iterations import LEAST

if TYPE_CHECKING:
    from benchmarks.machine_code.__main__ import Found, Timed

#: What follows this heading is written by hand, and kept.
KEPT = "## The flag for the width of vectors"
ABOUT = """\
Nothing is run: each story of `examples/cpu` is compiled as `scripts/bench cpu` compiles it, for processors that need
not be here, and llvm-mca plays the usual paths of its loops on LLVM's model of the processor, with all data in the
first-level cache. Loops and conditions of the scheduled program are followed at the first size of `scripts/bench cpu`,
which counts the iterations of each innermost loop of whole vectors. Those with {least} % of the operations or more are
looked for in the machine code, by the bytes that an iteration stores; the rest (ends of rows, masked vectors, first
steps) counts as if an operation there took as long as in these loops. A point is an element of each result, in each
step. The usual path leaves out what a compiler puts elsewhere because it is seldom reached.

- cycles a point: of all these loops: cycles of an iteration in a long run of them, times iterations for a point
- loops: how many these are; the hot one takes most cycles, and points, port, bound and instructions are those of it
- points: for an iteration of the hot loop, in a program with one loop the lanes of a vector times the rows jammed
- busiest: the port that is in use longest, for how many cycles of an iteration, and the instructions that use it most
- bound by: this port; or how many operations can start in a cycle; or latency, where neither explains the cycles
- instructions: those of an iteration, by what they do; an operation that loads its operand counts as what it does
  with it
- narrower, spilled: of whole loops, all of them: what works on parts of vectors, and what keeps a vector on the stack

Models are no measurements. That of Ice Lake (LLVM 19 and 22) starts some operations on 64 bytes on port 1, which the
processor closes for them, and starts those of floats on port 0 alone, where servers have a second unit; that of
Sapphire Rapids has neither error, so what is slower on both is slower. Those of Zen count a gather as one operation.
No model knows that a vector which crosses a line of the cache is loaded twice. Zen 4 has the code of Ice Lake where
the compiler does not know `znver4`. Compare a row with itself, before and after a change: `scripts/bench machine_code
--compare` says by how much it changed.
"""
BESIDE = """\
Halide's schedules are all of `scripts/bench cpu`, compiled for the same processor; the one with the fewest cycles a
point stands here. Where its stages have a loop each, the cycles are those of all, by the values that each computes for
a point, and the last columns are of the loop that takes most.
"""
HEADER = (
    "workload", "processor", "cycles a point", "loops", "points", "busiest", "bound by", "most of it", "instructions",
    "narrower", "spilled",
)  # fmt: skip
OTHERS = ("workload", "processor", "cycles a point", "Halide's", "times as fast", "schedule", "its bound", "most of it")
KINDS = {
    "gather": r"vp?gather\w+",
    "shuffle": r"vp?(perm|shuf|unpck|align|insert|extract|insr|extr|broadcast|blend|compress|expand|slldq|srldq)\w*"
    r"|vmov(s[hl]dup|ddup|hl|lh)\w*|vpalignr|tbl|tbx|ext|zip[12]|uzp[12]|trn[12]|ins|dup|[us]mov|rev\d+",
    "convert": r"vpmov([sz]x|u?s?[wdq][bwd])\w*|vcvt\w+|vpack\w+|[us]?xtn2?|sqxtun2?|[us]xtl2?|[us]shll2?|shll2?"
    r"|[us]cvtf|fcvt\w+",
    "move": r"v?mov\w*|vmask\w*|ld[rpn1]\w*|ldu?r\w*|st[rpn1]\w*|stu?r\w*|kmov\w*",
}


def page(rows: Sequence[Found], tools: str, before: str) -> str:
    """The page, with the part of the one before it that is written by hand."""
    today = datetime.datetime.now(tz=datetime.UTC).date()
    head = f"# Machine code of hot loops\n\nMade with `scripts/bench machine_code --save`, {today}; {tools}.\n"
    tables = [
        ABOUT.format(least=round(100 * LEAST)),
        models(rows),
        "## Ours\n",
        table(HEADER, [_row(each) for each in rows]),
    ]
    beside = [_beside(each) for each in rows if each.halide]
    if beside:
        tables += ["\n## Beside Halide\n", BESIDE, table(OTHERS, beside)]
    _, found, kept = before.partition(KEPT)
    return "\n".join([head, *tables, ""]) + (f"\n{KEPT}{kept}" if found else "")


def models(rows: Sequence[Found]) -> str:
    """Which model stands for which processor, and what the code was made for."""
    made = dict.fromkeys(
        (each.machine.title, each.machine.model.processor, str(each.machine.processor)) for each in rows
    )
    return table(("processor", "model of LLVM", "code for"), list(made)) + "\n"


def _row(each: Found) -> tuple[str, ...]:
    ours, processor = each.ours, each.machine.processor
    assert processor is not None
    port, busy = ours.estimate.busiest
    return (
        each.workload, each.machine.title, f"{ours.cycles:.3g}", str(len(ours.parts)), f"{ours.points:.3g}",
        f"{port}: {busy:.0f}", ours.estimate.bound, _most(ours), mix(ours.loop.usual),
        str(ours.halves(processor.vector_bytes)), str(ours.spilled()),
    )  # fmt: skip


def _beside(each: Found) -> tuple[str, ...]:
    peer = each.halide
    assert peer is not None
    return (
        each.workload, each.machine.title, f"{each.ours.cycles:.3g}", f"{peer.cycles:.3g}",
        f"{peer.cycles / each.ours.cycles:.2f}", peer.name, peer.estimate.bound, _most(peer),
    )  # fmt: skip


def _most(timed: Timed) -> str:
    """The instructions that keep the busiest port busy longest, with their cycles."""
    return ", ".join(f"{name} {cycles:.0f}" for name, cycles in timed.estimate.most() if cycles >= 1)


def mix(path: Sequence[Instruction]) -> str:
    """How many instructions of each kind there are."""
    counted = Counter(kind(each) for each in path)
    return ", ".join(f"{counted[name]} {name}" for name in ("compute", *KINDS, "scalar") if counted[name])


def kind(instruction: Instruction) -> str:
    """What an instruction does: one of `KINDS`, other work on vectors, or work on single numbers."""
    if not instruction.vector_bytes:
        return "scalar"
    return next((name for name, text in KINDS.items() if re.fullmatch(text, instruction.name)), "compute")


def saved(text: str) -> dict[tuple[str, str], Mapping[str, str]]:
    """The rows of our table in a page, by workload and processor."""
    found: dict[tuple[str, str], Mapping[str, str]] = {}
    header: Sequence[str] = ()
    for line in text.partition(KEPT)[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if "points" in cells:
            header = cells
        elif header and len(cells) == len(header) and not cells[0].startswith("-"):
            found[cells[0], cells[1]] = dict(zip(header, cells, strict=True))
        else:
            header = header if cells else ()
    return found


def changes(before: Mapping[tuple[str, str], Mapping[str, str]], rows: Sequence[Found]) -> str:
    """The rows whose cycles, spilled vectors or instructions differ from the saved ones, by percent."""
    lines = []
    for each in rows:
        now = dict(zip(HEADER, _row(each), strict=True))
        was = before.get((each.workload, each.machine.title))
        if was is None:
            lines.append((*_row(each)[:2], "new", now["cycles a point"], "", now["spilled"], now["instructions"]))
        elif any(was[name] != now[name] for name in ("cycles a point", "spilled", "instructions")):
            old, new = float(was["cycles a point"]), float(now["cycles a point"])
            shown = [_changed(was[name], now[name]) for name in ("spilled", "instructions")]
            cycles = (was["cycles a point"], now["cycles a point"])
            lines.append((*_row(each)[:2], *cycles, f"{100 * (new - old) / old:+.1f} %", *shown))
    if not lines:
        return f"nothing has changed in {len(rows)} rows"
    header = ("workload", "processor", "cycles a point", "now", "change", "spilled", "instructions")
    return table(header, lines) + f"\n\n{len(lines)} of {len(rows)} rows have changed"


def _changed(before: str, now: str) -> str:
    return now if before == now else f"{before} -> {now}"
