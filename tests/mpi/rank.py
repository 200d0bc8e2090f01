"""One rank of a test: python rank.py SECONDS NODEID, under mpirun. Says what it finds in files of its own."""

from __future__ import annotations

import faulthandler
import os
import sys
import time
from pathlib import Path

import pytest
from mpi4py import MPI


def main() -> None:
    seconds, nodeid = float(sys.argv[1]), sys.argv[2]
    folder, rank = Path(os.environ["TIRAMISU_PY_RANK_FOLDER"]), MPI.COMM_WORLD.rank
    with (folder / f"{rank}.txt").open("w") as said:
        os.dup2(said.fileno(), 1)
        faulthandler.dump_traceback_later(seconds, exit=True, file=said)
        code = int(pytest.main(["-p", "no:cacheprovider", "-p", "no:xdist", f"--basetemp={folder}/{rank}", nodeid]))
        sys.stdout.flush()
    (folder / f"{rank}.code").write_text(str(code))
    if code != 0:
        time.sleep(1)  # for what other ranks have to say
        MPI.COMM_WORLD.Abort(code)
    MPI.COMM_WORLD.Barrier()
    faulthandler.cancel_dump_traceback_later()


main()
