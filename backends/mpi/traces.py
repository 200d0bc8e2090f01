"""What ranks add to the event log of a function with a trace."""

from __future__ import annotations

import cgen

from tiramisu_py.backends.c.trace_calls import Log

Lines = list[cgen.Generable]


def aligned(log: Log) -> Lines:
    """All ranks come here together, and go on at nearly the same moment, from which they count."""
    if not log.kept:
        return []
    barrier = cgen.Statement('TM_MPI_OWN(&mpi, "the trace", MPI_Barrier(mpi.comm))')
    return [barrier, cgen.Assign(f"{log.variable}.begun", "tm_trace_now()")]


def message(log: Log, elements: str) -> Lines:
    """The bytes of a message of several boxes, when they have been put together."""
    return [cgen.Statement(f"tm_trace_bytes({log.place}, tm_mpi_bytes(&{elements}))")] if log.kept else []
