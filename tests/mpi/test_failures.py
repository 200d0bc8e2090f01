"""What goes wrong after the ranks agreed is said, with rank, statement and other rank, and ends the program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.mpi.launching import Implementation, each
from tests.programs.loop_ir.messages import Q, box, on_ranks, post, requests, wait
from tests.programs.loop_ir.short_names import given, loop, result, size
from tiramisu_py.ir import LoopFunction

MPI = each()
pytestmark = pytest.mark.skipif(not MPI, reason="no MPI on this machine")

PROGRAM = """
import numpy as np
from mpi4py import MPI
from tests.mpi.test_failures import shortened
from tests.programs.loop_ir.messages import compiled
compiled(shortened({nonblocking}))(np.zeros(20, np.float32), N=20)
"""

MAIN = r"""
#include <stdio.h>
#include <string.h>
#include "pass_on.h"
int main(int argc, char **argv) {
  float here[8] = {0}, there[8] = {0};
  if (pass_on(MPI_COMM_WORLD, 8, here, there) != 7) return 1;
  if (strstr(pass_on_last_error(), "MPI is not running") == NULL) return 2;
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int i = 0; i < 8; i++) here[i] = (float)(10 * rank + i);
  if (size < 3) {
    if (pass_on(MPI_COMM_WORLD, 8, here, there) != 6) return 3;
    if (strstr(pass_on_last_error(), "needs 3 ranks, but the communicator has") == NULL) return 4;
    MPI_Finalize();
    if (rank == 0) puts("too few");
    return 0;
  }
  if (pass_on(MPI_COMM_NULL, 8, here, there) != 7) return 5;
  if (pass_on(MPI_COMM_WORLD, rank == 1 ? -1 : 8, here, there) != 8) return 6;
  if (pass_on(MPI_COMM_WORLD, -1, here, there) != 1) return 7;
  if (strstr(pass_on_last_error(), "N is -1, but must be at least 0 (on rank 0)") == NULL) return 8;
  if (pass_on(MPI_COMM_WORLD, 8, rank == 2 ? NULL : here, there) != 3) return 9;
  if (strstr(pass_on_last_error(), "here is NULL, but has elements (on rank 2)") == NULL) return 10;
  if (pass_on(MPI_COMM_WORLD, 8, here, here) != 4) return 11;
  for (int n = 0; n < 3; n++) {
    MPI_Comm own;
    MPI_Comm_dup(MPI_COMM_WORLD, &own);
    if (pass_on(own, 8, here, there) != 0) return 12;
    if (pass_on(own, 8, rank < 3 ? here : NULL, rank < 3 ? there : NULL) != 0) return 13;
    MPI_Comm_free(&own);
  }
  if (pass_on(MPI_COMM_WORLD, 8, here, there) != 0) return 14;
  for (int i = 0; i < 8; i++)
    if (rank < 3 && there[i] != (float)(10 * ((rank + 2) % 3) + i)) return 15;
  MPI_Finalize();
  if (rank == 0) puts("right");
  return 0;
}
"""


def pass_on(name: str = "pass_on") -> LoopFunction:
    """Three ranks, of which each gives its elements to the next."""
    whole = box(0, sides=((size("N"), (1,)),))
    return on_ranks(
        name, "N", (3,), [given("here", size("N")), result("there", size("N"))],
        requests(
            "pending", 1,
            post(False, "there", whole, (Q + 2) % 3, request=("pending", 0)),
            post(True, "here", whole, (Q + 1) % 3),
            wait("pending", 0, 1),
        ),
    )  # fmt: skip


def shortened(nonblocking: bool) -> LoopFunction:
    """Rank 0 sends more elements to rank 1 than that receives, into a temporary; the proof would refuse it."""
    size_ = size("N")
    short = box(0, sides=((size_ - 1, (1,)),))
    receive = post(False, "there", short, 0, name="down_receive", request=("pending", 0) if nonblocking else None)
    waiting = [wait("pending", 0, 1)] if nonblocking else []
    return on_ranks(
        "shortened", "N", (2,), [given("here", size_), result("there", size_)],
        requests(
            "pending", 1,
            loop("s", 1 - Q, post(True, "here", box(0, sides=((size_, (1,)),)), 1, name="down_send")),
            loop("r", Q, receive),
            *waiting,
        ),
    )  # fmt: skip


@pytest.mark.parametrize("mpi", MPI)
@pytest.mark.parametrize("nonblocking", [False, True])
def test_a_message_that_is_too_long_names_rank_statement_and_peer(
    mpi: Implementation, nonblocking: bool, tmp_path: Path
):
    if nonblocking and mpi.name == "openmpi":
        pytest.skip("Open MPI 4.1 never leaves MPI_Waitall if the message that is too long comes while it waits")
    program = PROGRAM.format(nonblocking=nonblocking)
    done = mpi.run(2, [sys.executable, "-c", program], timeout=100)
    assert done.returncode not in (0, -9), done.stdout
    call = "message_wait from rank 0: MPI_Waitall" if nonblocking else "down_receive from rank 0: MPI_Recv"
    assert f"shortened failed on rank 1: {call}: " in done.stdout
    assert "runcat" in done.stdout  # as MPI says it


@pytest.mark.parametrize("mpi", MPI)
def test_an_exported_library_is_built_linked_and_run_by_c_programs(mpi: Implementation, tmp_path: Path):
    exporting = (
        "import sys\n"
        "from tests.programs.loop_ir.messages import handed_over\n"
        "from tests.mpi.test_failures import pass_on\n"
        "handed_over(pass_on()).compile().export(sys.argv[1])\n"
    )
    folder = tmp_path / "made"
    done = mpi.run(1, [sys.executable, "-c", exporting, folder], timeout=100)
    assert done.returncode == 0, done.stdout
    text = (folder / "Makefile").read_text()
    assert "CC      := mpicc" in text
    assert str(Path(sys.prefix)) not in text
    assert "mpirun" in (folder / "README.md").read_text()
    (folder / "main.c").write_text(MAIN)
    mpicc = Path(mpi.mpirun).with_name("mpicc")
    for command in (
        ["make", "clean", "all", f"CC={mpicc}"],
        [mpicc, "-Wall", "-Werror", "main.c", "-I.", "-L.", "-lpass_on", "-Wl,-rpath,.", "-o", "shared"],
        [mpicc, "main.c", "-I.", "libpass_on.a", "-lm", "-o", "static"],
    ):
        made = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert made.returncode == 0, made.stdout + made.stderr
    for count, program, words in ((4, "shared", "right"), (3, "static", "right"), (2, "shared", "too few")):
        ran = mpi.run(count, [f"./{program}"], cwd=folder, timeout=60)
        assert ran.returncode == 0, ran.stdout
        assert words in ran.stdout
