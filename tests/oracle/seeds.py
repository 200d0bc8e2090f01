"""Seeds of random programs: the same in every run, or others with every commit.

``TIRAMISU_FUZZ`` multiplies the number of programs. ``TIRAMISU_FUZZ_SEED`` is the first seed, or ``commit``: then each
commit has seeds of its own. All tests of a process, and of all workers, have the same.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

TIMES = int(os.environ.get("TIRAMISU_FUZZ", "1"))
#: Seeds of one region, and how many of them a commit may use.
REGION = 1_000_000
OF_A_COMMIT = 1000
#: The region of `scripts/fuzz`, which tries none of those that the tests have tried.
OF_SCRIPT = 50


def of_commit(number: int) -> int:
    """The first seed of a commit: none is used again by the next nine hundred."""
    return number % 900 * OF_A_COMMIT


def commits() -> int:
    """How many commits lead to this one; 0 where there is no git."""
    said = _git("rev-list", "--count", "HEAD")
    return int(said) if said else 0


def revision() -> tuple[str, ...]:
    """The commit that the code is of, with a + where files have been changed since; nothing where there is no git."""
    said = _git("rev-parse", "--short=8", "HEAD")
    changed = said and _git("status", "--porcelain", "--untracked-files=no")
    return (f"{said}{'+' if changed else ''}",) if said else ()


def _git(*words: str) -> str:
    """What git says; nothing where there is none."""
    try:
        found = subprocess.run(
            ["git", *words], cwd=Path(__file__).parent, capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return found.stdout.strip()


GIVEN = os.environ.get("TIRAMISU_FUZZ_SEED", "0")
FIRST = of_commit(commits()) if GIVEN == "commit" else int(GIVEN)


def first_of(region: int, first: int = FIRST) -> int:
    """The first seed in a region: each of several tests alike has a region of its own."""
    return region * REGION + first
