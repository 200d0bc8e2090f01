"""Ranks meet in any number, on any communicator, in call after call, and end each call alike.

By hand, with more ranks and calls: build meetings.c with mpicc, `-I` the runtimes of C and of MPI, and run
``mpirun -n 8 ./meetings 2000 500``.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.mpi.launching import ROOT, Implementation, each

MPI = each()
pytestmark = pytest.mark.skipif(not MPI, reason="no MPI on this machine")

LATE = r"""
#define _DEFAULT_SOURCE
#include <unistd.h>

#include "tm_mpi.h"
static char error[512];
static int call(MPI_Comm comm) {
  tm_mpi mpi;
  if (!tm_mpi_begin(&mpi, "call", comm, error, sizeof error)) return mpi.code;
  const int wrong = tm_mpi_agree(&mpi, 0, error, sizeof error, 0, NULL, NULL);
  if (wrong == 0) tm_mpi_end(&mpi);
  return wrong;
}
int main(int argc, char **argv) {
  int rank, got = 0, least, most;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int n = 0; n < atoi(argv[1]); n++) got += call(MPI_COMM_WORLD);
  if (got != 0) return 1;
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) usleep((unsigned)atoi(argv[2]) * 1000);
  got = call(MPI_COMM_WORLD);
  MPI_Allreduce(&got, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(&got, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (got != 0 && strstr(error, "not come to this call within 1 s") == NULL) return 2;
  const int again = call(MPI_COMM_WORLD);
  if (got != 0 && (again != TM_ABSENT || strstr(error, "in an earlier call with this communicator") == NULL)) return 3;
  MPI_Finalize();
  if (rank == 0) printf("all %d\n", least == most ? got : -1);
  return 0;
}
"""


def built(mpi: Implementation, source: Path, program: Path) -> Path:
    """A program of the runtime alone."""
    runtimes = [f"-I{ROOT / 'tiramisu_py' / 'backends' / folder}" for folder in ("c", "mpi/runtime")]
    command = [mpi.mpicc, "-O1", "-std=gnu11", "-Wall", *runtimes, source, "-lm", "-o", program]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    return program


@pytest.mark.parametrize("mpi", MPI)
def test_ranks_in_any_number_meet_on_several_communicators(mpi: Implementation, tmp_path: Path):
    program = built(mpi, Path(__file__).with_name("meetings.c"), tmp_path / "meetings")
    for count in (1, 3, 6):
        done = mpi.run(count, [program, "60", "200"], timeout=300)
        assert (done.returncode, "met" in done.stdout) == (0, True), (count, done.stdout)


@pytest.mark.parametrize("mpi", MPI)
@pytest.mark.parametrize("calls", ["0", "1"])
def test_a_rank_that_comes_when_others_have_given_up_does_not_go_on_alone(
    mpi: Implementation, calls: str, tmp_path: Path
):
    source = tmp_path / "late.c"
    source.write_text(LATE)
    program = built(mpi, source, tmp_path / "late")
    for milliseconds in ("0", "1000", "2000"):  # how it ends may depend on the machine: for all ranks alike
        done = mpi.run(3, [program, calls, milliseconds], timeout=300, TIRAMISU_PATIENCE="1")
        assert done.returncode == 0, done.stdout
        assert "all 0" in done.stdout or "all 9" in done.stdout, done.stdout
        if milliseconds == "2000":
            assert "all 9" in done.stdout
