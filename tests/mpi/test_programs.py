"""What ranks have to offer, on real ranks: one more of them than the programs need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.mpi.launching import Implementation, each
from tests.mpi.shared_work import ready
from tests.oracle.judges.rank_arrays import agreed, ran_on_ranks
from tests.programs.ranks.mpi_programs import PROGRAMS, P, blur, c, exchanged, picture, r1, time_outside
from tiramisu_py.errors import LegalityError
from tiramisu_py.lower import lower
from tiramisu_py.toolchain.compilers.mpi import mpi4py

RANKS = P + 1


def listed(results: Any) -> tuple[np.ndarray, ...]:
    """One result or several, as a tuple."""
    return results if isinstance(results, tuple) else (np.asarray(results),)


def check_on_ranks(f: tm.Function, given: dict[str, Any]) -> None:
    """Whether this rank has its part of every output, bit for bit: none of what is dealt out, beyond the grid."""
    made = ready(f, given)
    found = listed(made.kernel(**made.given, comm=mpi4py().COMM_WORLD))
    for (name, part), own in zip(made.wanted.items(), found, strict=True):
        assert own.dtype == part.dtype
        np.testing.assert_array_equal(own, part, err_msg=name)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_right_on_simulated_ranks_and_sends_what_was_counted(name: str) -> None:
    f, given = PROGRAMS[name]()
    assert f.check().ok, f.check()
    function = lower(f.completed)
    for seed in range(3):
        ran = ran_on_ranks(f, seed=seed, function=function, **given)
        assert not agreed(f, ran.outputs if len(ran.outputs) > 1 else ran.outputs[0], **given)
    counted = f.cost("communication", **{param: given[param] for param in f.algorithm.params})
    assert (ran.traffic.bytes, ran.traffic.messages) == (counted.bytes, counted.messages)


@pytest.mark.mpi(RANKS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_right_on_ranks(name: str) -> None:
    check_on_ranks(*PROGRAMS[name]())


@pytest.mark.mpi(RANKS)
def test_parts_of_all_ranks_make_up_the_whole_also_where_some_have_nothing_to_do() -> None:
    comm = mpi4py().COMM_WORLD
    f, _, _ = blur()
    f.derive_transfers()
    given = picture()
    parts = comm.allgather(f.compile()(f.part("image", given["image"], comm.rank), comm=comm))
    assert [part.shape for part in parts] == [(3, 9)] * 4 + [(0, 9)]
    np.testing.assert_array_equal(np.concatenate(parts)[1:-1], f.evaluate(**given)[1:-1])


@pytest.mark.parametrize("kept", [None, 2])
def test_a_persistent_request_is_for_one_place_and_the_message_says_how_to_have_two(kept: int | None) -> None:
    f, _ = time_outside(kept, [tm.NONBLOCK, tm.PERSISTENT])
    with pytest.raises(LegalityError, match=r"(?s)right\.send cannot be persistent: .*set_wait_access"):
        f.show("lowered")


def test_requests_that_are_used_again_before_the_wait_are_refused() -> None:
    f, bx, by, down, up = exchanged([tm.NONBLOCK], [])
    down.send.set_wait_access(c % 2)
    f.order(bx, down.send, down.recv, up.send, up.recv, down.send.wait(), up.send.wait(), by, at=tm.root)
    (found,) = f.check().violations
    assert (found.kind, dict(found.witness.params)) == ("race", {"C": 3})
    assert "down.send of bx[2, 2] uses a request on rank 0 before the wait for down.send of bx[2, 0]" in found.message


@pytest.mark.mpi(P)
def test_ranks_have_threads_of_their_own() -> None:
    comm = mpi4py().COMM_WORLD
    f, bx, by = blur()
    for stage in (bx, by):
        stage.parallelize(r1)
        stage.vectorize(c, 4)
    f.derive_transfers(overlap=True)
    given = picture(columns=13)
    kernel = f.compile(threads=2)
    wanted = f.part("by", f.evaluate(**given), comm.rank)
    for _ in range(3):
        np.testing.assert_array_equal(kernel(f.part("image", given["image"], comm.rank), comm=comm), wanted)


MAIN = r"""
#include <stdio.h>
#include <stdlib.h>
#include "stages.h"
enum { RANKS = 4, ROWS = 3, C = 9 };
static float image(int r, int c) { return (float)(7 * r + c); }
int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  float *given = malloc(sizeof(float) * ROWS * C), *by = calloc(ROWS * C, sizeof(float));
  for (int r = 0; r < ROWS; r++)
    for (int c = 0; c < C; c++) given[r * C + c] = image(rank * ROWS + r, c);
  const int code = stages(MPI_COMM_WORLD, C, given, by);
  if (code != 0) {
    fprintf(stderr, "%s\n", stages_last_error());
    MPI_Finalize();
    return code;
  }
  int wrong = 0;
  for (int r = 0; r < ROWS; r++)
    for (int c = 0; c < C; c++) {
      const int row = rank * ROWS + r;
      if (row > 0 && row < RANKS * ROWS - 1)
        wrong += by[r * C + c] != image(row - 1, c) * 0.5f + image(row, c) * 0.5f + image(row + 1, c) * 0.5f;
    }
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  free(given);
  free(by);
  MPI_Finalize();
  if (rank == 0 && wrong == 0) puts("right");
  return wrong != 0;
}
"""

EXPORT = """
import sys
from tests.programs.ranks.mpi_programs import blur
f, _, _ = blur()
f.derive_transfers()
f.compile().export(sys.argv[1])
"""


@pytest.mark.parametrize("mpi", each())
def test_a_c_program_calls_what_was_derived_with_a_communicator(mpi: Implementation, tmp_path: Path) -> None:
    folder = tmp_path / "made"
    done = mpi.run(1, [sys.executable, "-c", EXPORT, folder], timeout=100)
    assert done.returncode == 0, done.stdout
    (folder / "main.c").write_text(MAIN)
    mpicc = Path(mpi.mpirun).with_name("mpicc")
    for command in (
        ["make", "clean", "all", f"CC={mpicc}"],
        [mpicc, "-Wall", "-Werror", "main.c", "-I.", "libstages.a", "-lm", "-o", "main"],
    ):
        made = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert made.returncode == 0, made.stdout + made.stderr
    ran = mpi.run(P, ["./main"], cwd=folder, timeout=60)
    assert (ran.returncode, ran.stdout.strip()) == (0, "right")
    few = mpi.run(2, ["./main"], cwd=folder, timeout=60)
    assert few.returncode != 0
    assert "stages: needs 4 ranks, but the communicator has 2" in few.stdout
