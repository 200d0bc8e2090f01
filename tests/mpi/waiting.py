"""Ranks that wait for others without work: MPI itself waits by asking again and again, and keeps a core from these."""

from __future__ import annotations

import time
from typing import Any

#: How long a rank sleeps before it asks again.
PAUSE = 0.005


def meet(comm: Any) -> None:
    """A barrier at which ranks sleep until all have come."""
    request = comm.Ibarrier()
    while not request.Test():
        time.sleep(PAUSE)
