"""Seeds of random programs: the same in every run, or others with every commit.

``TIRAMISU_FUZZ`` multiplies the number of programs. ``TIRAMISU_FUZZ_SEED`` is the first seed, or ``commit``: then each
commit has seeds of its own, and a run may fail because no program of a kind that is asked for is among them.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

TIMES = int(os.environ.get("TIRAMISU_FUZZ", "1"))
#: Seeds of one region, and how many of them a commit may use.
REGION = 1_000_000
OF_A_COMMIT = 1000


def of_commit(number: int) -> int:
    """The first seed of a commit: none is used again by the next nine hundred."""
    return number % 900 * OF_A_COMMIT


def commits() -> int:
    """How many commits lead to this one; 0 where there is no git."""
    command = ["git", "rev-list", "--count", "HEAD"]
    try:
        said = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True, timeout=60
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return 0
    return int(said)


#: One answer for all tests of a process: the tests of all workers have the same seeds.
GIVEN = os.environ.get("TIRAMISU_FUZZ_SEED", "0")
FIRST = of_commit(commits()) if GIVEN == "commit" else int(GIVEN)


def seeds(chunk: int, count: int, region: int) -> range:
    """The seeds of one of several tests alike, each of which takes so many; regions are for different questions."""
    start = FIRST + region * REGION + chunk * count
    return range(start, start + count)
