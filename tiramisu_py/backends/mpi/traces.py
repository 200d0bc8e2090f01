"""The additions of ranks to the event log of a traced function."""

from __future__ import annotations

import cgen

from tiramisu_py.backends.c.trace_calls import Log

Lines = list[cgen.Generable]


def aligned(log: Log) -> Lines:
    """A barrier of all ranks; they leave it at nearly the same moment, the origin of their clocks."""
    if not log.kept:
        return []
    barrier = cgen.Statement('TM_MPI_OWN(&mpi, "the trace", MPI_Barrier(mpi.comm))')
    return [barrier, cgen.Assign(f"{log.variable}.begun", "tm_trace_now()")]


def message(log: Log, elements: str) -> Lines:
    """Logs the bytes of a message of several boxes, after they have been put together."""
    return [cgen.Statement(f"tm_trace_bytes({log.place}, tm_mpi_bytes(&{elements}))")] if log.kept else []
