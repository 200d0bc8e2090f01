"""A barrier of a communicator's ranks with a timeout, so that no rank waits for ever for one that has failed.

A rank that has waited for ``TIRAMISU_PATIENCE`` seconds notifies all others. They give up too; a rank that does not
answer is reported as missing. Generated C does the same (tm_mpi_meet.h).
"""

from __future__ import annotations

import math
import os
import time
from typing import Any

import numpy as np
import numpy.typing as npt

from tiramisu_py.errors import ArgumentError, KernelError
from tiramisu_py.toolchain.compilers.mpi import mpi4py

#: Seconds that ranks wait for each other.
PATIENCE = 600.0
_VARIABLE = "TIRAMISU_PATIENCE"
#: The time limit for answers of waiting ranks: its bounds in seconds.
_LEAST_ANSWER, _MOST_ANSWER = 2.0, 10.0
#: The seconds after which a waiting rank yields its processor, and its longest pause.
_AT_ONCE = 0.002
_LONGEST_PAUSE = 0.002
#: The message that a rank gives up: its tag, valid in every MPI and unused by generated programs, and its size.
_TAG, _WORD = 32767, b"it gives up.\0"
_NAMED = 8

Numbers = npt.NDArray[np.int64]


def patience() -> float:
    """The number of seconds for which ranks wait for each other (infinity: for ever), from the environment. Raises
    `ArgumentError` if it is not a number of seconds.
    """
    given = os.environ.get(_VARIABLE, "").strip()
    try:
        seconds = float(given) if given else PATIENCE
    except ValueError:
        seconds = math.nan
    if not seconds >= 0:
        raise ArgumentError(f"{_VARIABLE}={given!r} is not a number of seconds, such as 60, or 0 to wait for ever")
    return seconds or math.inf


def come(comm: Any, name: str) -> None:
    """Wait until all ranks are in the same call of the function `name`. Raises `KernelError`, naming missing ranks."""
    met(comm, name, np.zeros(1, np.int64))


def met(comm: Any, name: str, mine: Numbers) -> Numbers:
    """The minimum of each number over all ranks. Raises `KernelError`, naming the missing ranks, if a rank does not
    join this call of the function `name`.
    """
    longest = patience()
    least = np.empty_like(mine)
    request = comm.Iallreduce(mine, least, op=mpi4py().MIN)
    if not _completed(comm, request, longest):
        _keep(comm, (request, mine, least))
        raise KernelError(_given_up(comm, name, longest))
    return least


def _completed(comm: Any, request: Any, longest: float) -> bool:
    began = time.monotonic()
    while not request.Test():
        waited = time.monotonic() - began
        if waited > _AT_ONCE:
            time.sleep(min(waited / 50, _LONGEST_PAUSE))
            if waited > longest or _heard(comm) is not None:
                return False
    return _heard(comm) is None  # this rank may be the one that came too late


def _keep(comm: Any, what: object) -> None:
    """Keep memory alive as long as the communicator: MPI may still write to it."""
    key = mpi4py().Comm.Create_keyval()
    comm.Set_attr(key, what)


def _heard(comm: Any) -> int | None:
    """A rank that has notified us that it gives up; None if there is none."""
    mpi = mpi4py()
    status = mpi.Status()
    said = comm.Iprobe(source=mpi.ANY_SOURCE, tag=_TAG, status=status)
    return status.Get_source() if said and status.Get_count(mpi.BYTE) == len(_WORD) else None


def _given_up(comm: Any, name: str, longest: float) -> str:
    """Notify all ranks that this one gives up; returns a message with the missing ranks."""
    for other in range(comm.size):
        if other != comm.rank:
            comm.Isend([_WORD, mpi4py().BYTE], dest=other, tag=_TAG)
    missing = _missing(comm, min(max(longest / 10, _LEAST_ANSWER), _MOST_ANSWER))
    return (
        f"{name}: {_named(missing)} not come to this call within {longest:g} s; such a rank has failed, has ended, or "
        f"leaves the call out ({_VARIABLE} says for how many seconds ranks wait for each other, 0 for ever; started as "
        "`python -m mpi4py`, a script that fails on one rank ends all)"
    )


def _missing(comm: Any, longest: float) -> list[int]:
    """The ranks that do not answer within `longest` seconds."""
    missing = set(range(comm.size)) - {comm.rank}
    word = bytearray(len(_WORD))
    began = time.monotonic()
    while missing and time.monotonic() - began < longest:
        source = _heard(comm)
        if source is None:
            time.sleep(_LONGEST_PAUSE)
            continue
        comm.Recv([word, mpi4py().BYTE], source=source, tag=_TAG)
        missing.discard(source)
    return sorted(missing)


def _named(missing: list[int]) -> str:
    """The ranks in words: ``rank 2 has``, ``ranks 2, 5 have``, or ``some rank has`` if none is missing any more."""
    if not missing:
        return "some rank has"
    shown = ", ".join(map(str, missing[:_NAMED]))
    more = f", ... ({len(missing)} together)" if len(missing) > _NAMED else ""
    return f"{'rank' if len(missing) == 1 else 'ranks'} {shown}{more} {'has' if len(missing) == 1 else 'have'}"
