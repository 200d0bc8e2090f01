"""One rank of some tests: python rank.py SECONDS NODEID.., under mpirun. Says what it finds in files of its own."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import TextIO

import pytest
from mpi4py import MPI

from tests.mpi.waiting import meet

#: The first rank to end ends all: so long each of them has to say where it hangs.
GRACE = 3.0


class Turns:
    """Gives each test its time, and begins none before all ranks have passed the one before it."""

    def __init__(self, seconds: float, said: TextIO, passed: Path) -> None:
        self.seconds, self.said, self.passed = seconds, said, passed
        self.failed = False

    def pytest_runtestloop(self) -> None:
        meet(MPI.COMM_WORLD)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        faulthandler.dump_traceback_later(self.seconds, file=self.said)
        signal.setitimer(signal.ITIMER_REAL, self.seconds + GRACE)
        done = yield
        if not self.failed:
            signal.setitimer(signal.ITIMER_REAL, self.seconds + 2 * GRACE)  # one that hangs is to end before this one
            meet(MPI.COMM_WORLD)
            with self.passed.open("a") as passed:
                passed.write(f"{item.path}::{item.nodeid.partition('::')[2]}\n")
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)
        return done

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed = self.failed or report.failed


def main() -> None:
    seconds, nodeids = float(sys.argv[1]), sys.argv[2:]
    folder, rank = Path(os.environ["TIRAMISU_PY_RANK_FOLDER"]), MPI.COMM_WORLD.rank
    with (folder / f"{rank}.txt").open("w") as said:
        os.dup2(said.fileno(), 1)
        faulthandler.register(signal.SIGALRM, file=said, chain=True)
        turns = Turns(seconds, said, folder / f"{rank}.passed")
        options = ["-x", "-p", "no:cacheprovider", "--import-mode=append", f"--basetemp={folder}/{rank}"]
        code = int(pytest.main([*options, *nodeids], plugins=[turns]))
        sys.stdout.flush()
    (folder / f"{rank}.code").write_text(str(code))
    if code != 0:
        time.sleep(1)  # for what other ranks have to say
        MPI.COMM_WORLD.Abort(code)
    meet(MPI.COMM_WORLD)


main()
