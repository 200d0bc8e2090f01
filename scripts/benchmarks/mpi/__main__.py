"""Programs on ranks: what an exchange costs beside C by hand, packed and overlapped; what many ranks would exchange.

Timed under ``mpirun -n 2`` (``--ranks``), contenders in turn, the minimum over the rounds of the slowest rank. What
many ranks exchange is computed, not measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.common.rounds import BENCHMARKS, PYTHON
from benchmarks.common.tables import report, table
from benchmarks.mpi.programs import plate

PLATE = """\
Both are compiled with the same options, and call MPI the same number of times with the same arguments: what differs is
the computation around. Inside of its border a row of 66, 1026 or 4098 points consists of whole vectors of 16; in a row
of 64 the emitted loop computes 14 of 62 points one by one, for which a compiler on its own has shorter vectors. What
overlapping would hide, a network's work, does not exist between two processes that share memory: each message is a copy
that their processors make. So it shows here what the split into inside and edges costs, not what it brings."""
CALL = """\
Before its first message a call compares sizes and errors of all ranks (one `MPI_Allreduce`), which C by hand does not.
From Python each rank's arrays are checked as well, and what is wrong with them is raised on all ranks."""
SINGLE = """\
Each rank but the first sends two rows: 2 messages, or one for each of their points."""
SCALES = (4, 64, 1024, 16384, 65536)


def scaled(ranks: int, weak: bool) -> tuple[Any, float]:
    """The communication of the plate on `ranks` ranks, and the time in seconds to compute it."""
    begin = time.perf_counter()
    f = plate(ranks, 256 if weak else 16 * 65536 // ranks)
    counted = f.cost("communication", T=100, C=4096)
    return counted, time.perf_counter() - begin


def scaling() -> str:
    """The messages and bytes of one rank, for weak and strong scaling."""
    rows = []
    for weak in (True, False):
        for ranks in SCALES:
            counted, seconds = scaled(ranks, weak)
            of_one = counted.of_rank(ranks // 2)
            rows.append(
                (
                    "weak" if weak else "strong", str(ranks), str(256 if weak else 16 * 65536 // ranks),
                    str(of_one.sent.messages), str(of_one.sent.bytes), str(counted.bytes), f"{seconds * 1e3:.0f}",
                )
            )  # fmt: skip
    header = ("scaling", "ranks", "rows a rank", "messages sent by a rank", "bytes", "bytes in total", "computed in ms")
    return table(header, rows)


def main() -> None:
    """Measure, and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--save", action="store_true", help="write docs/results/mpi.md")
    options.add_argument("--ranks", type=int, default=2)
    options.add_argument("--seconds", type=float, default=4.0, help="for each comparison")
    given = options.parse_args()
    beside = Path(sys.executable).parent / "mpirun"
    launcher = str(beside) if beside.exists() else "mpirun"
    others = os.getloadavg()[0]
    busy = f"When this began, {others:.1f} other processes wanted to run." if others >= 0.5 else ""
    program = [PYTHON, "-m", "mpi4py", BENCHMARKS, "mpi.timed", str(given.seconds)]
    command = [launcher, "-n", str(given.ranks), *program]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise SystemExit(run.stdout + run.stderr)
    version, found = json.loads(run.stdout.splitlines()[-1])
    rows = [
        (what, f"{times['by hand'] * 1e6:.2f}", f"{times['emitted'] * 1e6:.2f}",
         f"{times['emitted'] / times['by hand']:.2f}", f"{times['overlapped'] * 1e6:.2f}",
         f"{times['overlapped'] / times['by hand']:.2f}")
        for what, times in found if "emitted" in times
    ]  # fmt: skip
    packed = [
        (what, f"{times['packed'] * 1e6:.1f}", f"{times['single'] * 1e6:.1f}",
         f"{times['single'] / times['packed']:.1f}")
        for what, times in found if "packed" in times
    ]  # fmt: skip
    calls = [
        (what, *(f"{times[name] * 1e6:.1f}" for name in ("call by hand", "from C", "from Python")))
        for what, times in found if "from C" in times
    ]  # fmt: skip
    parts = [
        f"{version}, {given.ranks} ranks; times in microseconds. {busy}".rstrip(),
        "A step of heat in a plate, `rows x columns` on each rank, beside the same messages in C by hand (`halo.c`):",
        table(("plate", "by hand", "emitted", "ratio", "overlapped", "ratio"), rows),
        PLATE,
        "A call that computes one step:",
        table(("plate", "by hand", "from C", "from Python"), calls),
        CALL,
        "The blur with ghost rows in one message each, and element by element:",
        table(("picture", "packed", "single", "ratio"), packed),
        SINGLE,
        'What the plate exchanges in 100 steps of 4096 columns, counted by `f.cost("communication")`:',
        scaling(),
    ]
    report("mpi", "Ranks: exchanges beside C by hand, and what many ranks exchange", "\n\n".join(parts), given.save)


if __name__ == "__main__":
    main()
