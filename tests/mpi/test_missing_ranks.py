"""A rank that does not come to a call is waited for for a bounded time, and named on the ranks that wait."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.mpi.launching import Implementation, each, implementations
from tests.mpi.test_failures import pass_on
from tests.programs.loop_ir.messages import compiled
from tiramisu_py.errors import ArgumentError
from tiramisu_py.toolchain.calls.meeting import PATIENCE, patience
from tiramisu_py.toolchain.compilers.mpi import mpi4py

MPI = each()
needs_mpi = pytest.mark.skipif(not MPI, reason="no MPI on this machine")

#: Rank 1 of three does something else than calling. The argument: what, and in which call.
PROGRAM = """
import os, sys
import numpy as np
from mpi4py import MPI
import tiramisu_py as tm

what, calls, blocks = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "blocks"
r, q, r1 = tm.iters("r q r1")
R, lo, hi = tm.params("R lo hi")
f = tm.Function("share", params=[R, lo, hi] if blocks else [], assume="R >= 1" if blocks else "")
size = R if blocks else 12
x = f.input("x", tm.int64, [size])
y = f.computation("y", {r: size}, 2 * x[r])
f.outputs(y)
if blocks:
    f.blocks(R, lo, hi)
for array in (x, y):
    array.distribute_array([r], rank=r, bounds=(lo, hi)) if blocks else array.distribute_array([r], rank=r // 4)
if blocks:
    y.tag_distribute(r, bounds=(lo, hi))
else:
    y.split(r, 4, q, r1)
    y.tag_distribute(q)
rank = MPI.COMM_WORLD.rank
kernel = f.compile()
mine = np.arange(4) + 4 * rank
for _ in range(calls):
    np.testing.assert_array_equal(kernel(mine), 2 * mine)
os.environ["TIRAMISU_PATIENCE"] = sys.argv[4]  # from here on: calls to which all come may take their time
MPI.COMM_WORLD.Barrier()
if rank == 1:
    if what == "compile":
        os.environ["CC"] = "no-such-compiler"
        f.compile()
    if what == "raise":
        raise ValueError("on this rank alone")
    if what == "exit":
        sys.exit(0)
    if what == "killed":
        os.kill(os.getpid(), 9)
try:
    kernel(mine)
except tm.TiramisuError as error:
    print(f"rank {rank} says: {error}", flush=True)
    sys.exit(3)
"""

SAID = "share: rank 1 has not come to this call within 1 s; such a rank has failed, has ended, or leaves the call out"

MAIN = r"""
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "pass_on.h"
int main(int argc, char **argv) {
  float here[8] = {0}, there[8] = {0};
  int rank, calls = atoi(argv[1]), own = atoi(argv[2]);
  unsigned late = (unsigned)atoi(argv[3]);
  MPI_Comm comm = MPI_COMM_WORLD;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (own) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  for (int n = 0; n < calls; n++)
    if (pass_on(comm, 8, here, there) != 0) return 1;
  setenv("TIRAMISU_PATIENCE", "1", 1);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank != 1) {
    if (pass_on(comm, 8, here, there) != 9) return 2;
    if (strstr(pass_on_last_error(), "pass_on: rank 1 has not come to this call within 1 s") == NULL) return 3;
    if (calls > 0 && pass_on(comm, 8, here, there) != 9) return 4;
    printf("rank %d went on\n", rank);
    fflush(stdout);
  } else
    sleep(late);
  if (own) MPI_Comm_free(&comm);
  if (getenv("FINALIZED") == NULL) MPI_Abort(MPI_COMM_WORLD, 5);
  MPI_Finalize();
  return 0;
}
"""


def started(mpi: Implementation, what: str, calls: int, kind: str, cache: Path, *, forked: bool = True) -> str:
    """What three ranks say that run the program with little patience in the end; it is a failure to run for ever."""
    command = [sys.executable, "-c", PROGRAM, what, str(calls), kind, "1"]
    done = mpi.run(3, command, timeout=200, forked=forked, TIRAMISU_CACHE_DIR=str(cache))
    assert done.returncode not in (0, -9), done.stdout
    return done.stdout


@needs_mpi
@pytest.mark.parametrize("mpi", MPI)
@pytest.mark.parametrize(
    ("what", "calls", "kind"),
    [("raise", 1, "plain"), ("exit", 0, "plain"), ("compile", 0, "plain"), ("exit", 1, "blocks")],
)
def test_a_rank_that_does_not_come_is_named_on_the_others(
    mpi: Implementation, what: str, calls: int, kind: str, tmp_path: Path
):
    said = started(mpi, what, calls, kind, tmp_path)
    named = [line for line in said.splitlines() if SAID in line]
    # Open MPI may end the others as soon as one has failed
    assert named or (what in ("raise", "compile") and mpi.name == "openmpi"), said
    if what == "raise":
        assert "on this rank alone" in said
    if what == "compile":
        assert "no-such-compiler" in said


@needs_mpi
@pytest.mark.parametrize("mpi", MPI)
def test_a_rank_that_is_killed_ends_the_others_and_mpirun_says_so(mpi: Implementation, tmp_path: Path):
    said = started(mpi, "killed", 1, "plain", tmp_path, forked=False)
    assert "signal 9" in said.lower() or "SIGNAL: 9" in said, said


@needs_mpi
def test_a_script_that_is_started_by_mpi4py_ends_all_ranks_when_one_raises(tmp_path: Path):
    mpi = next(iter(implementations().values()))
    command = [sys.executable, "-m", "mpi4py", "-c", PROGRAM, "raise", "0", "plain", "0"]
    done = mpi.run(3, command, timeout=200, TIRAMISU_CACHE_DIR=str(tmp_path))
    assert done.returncode not in (0, -9), done.stdout
    assert "on this rank alone" in done.stdout


@needs_mpi
@pytest.mark.parametrize("mpi", MPI)
def test_a_c_program_is_told_which_rank_does_not_come(mpi: Implementation, tmp_path: Path):
    exporting = (
        "import sys\n"
        "from tests.programs.loop_ir.messages import handed_over\n"
        "from tests.mpi.test_failures import pass_on\n"
        "handed_over(pass_on()).compile().export(sys.argv[1])\n"
    )
    folder = tmp_path / "made"
    done = mpi.run(1, [sys.executable, "-c", exporting, folder], timeout=200)
    assert done.returncode == 0, done.stdout
    (folder / "main.c").write_text(MAIN)
    command = [mpi.mpicc, "-Wall", "-Werror", "main.c", "-I.", "libpass_on.a", "-lm", "-o", "main"]
    made = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    for calls, own, late in [("0", "0", "0"), ("1", "0", "0"), ("1", "1", "4")]:
        ran = mpi.run(3, ["./main", calls, own, late], cwd=folder, timeout=200, FINALIZED="yes")
        said = f"{calls} {own} {late}: {ran.stdout}"
        assert {f"rank {rank} went on" for rank in (0, 2)} <= set(ran.stdout.splitlines()), said
        assert "Abort" not in ran.stdout, said


@pytest.mark.mpi(3, everywhere=True)
def test_a_rank_that_is_late_is_waited_for():
    comm = mpi4py().COMM_WORLD
    kernel = compiled(pass_on())
    here = np.arange(4, dtype=np.float32) + 10 * comm.rank
    for late in range(3):
        comm.Barrier()
        if comm.rank == late:  # the others are in the call meanwhile, and look at the clock
            subprocess.run([sys.executable, "-c", "import numpy"], check=True)
        np.testing.assert_array_equal(kernel(here), here % 10 + 10 * ((comm.rank + 2) % 3))


@pytest.mark.parametrize(
    ("given", "seconds"), [("", PATIENCE), ("2.5", 2.5), ("0", float("inf")), ("inf", float("inf"))]
)
def test_the_environment_says_how_long_ranks_wait(given, seconds, monkeypatch):
    monkeypatch.setenv("TIRAMISU_PATIENCE", given)
    assert patience() == seconds


@pytest.mark.parametrize("given", ["-1", "nan", "soon"])
def test_what_is_no_number_of_seconds_is_refused(given, monkeypatch):
    monkeypatch.setenv("TIRAMISU_PATIENCE", given)
    with pytest.raises(ArgumentError, match=r"TIRAMISU_PATIENCE='.*' is not a number of seconds, such as 60"):
        patience()
