"""Every story on the ranks there are: what test_rank_stories.py has mpirun start, with the folder of prepared stories.

Prints, on rank 0, a line of JSON for each: its name, and what is wrong with it ("" if nothing is).
"""

from __future__ import annotations

import ctypes
import json
import pickle
import sys
from pathlib import Path

import numpy as np
from mpi4py import MPI

from tests.mpi.prepared_stories import Prepared, Sent, file


class Counter:
    """What this rank has sent since it was asked last, as the library that is loaded before MPI counts it."""

    def __init__(self, library: str) -> None:
        self.library = ctypes.CDLL(library)

    def reset(self) -> Sent:
        """Bytes and messages."""
        bytes_, messages = ctypes.c_longlong(), ctypes.c_longlong()
        self.library.counted(ctypes.byref(bytes_), ctypes.byref(messages))
        return bytes_.value, messages.value


counter = Counter(sys.argv[1])


def wrong(story: Prepared, comm: MPI.Comm) -> str:
    """What a story does wrong on the ranks of `comm`."""
    counter.reset()
    found = story.kernel(**story.given[comm.rank], comm=comm)
    own = counter.reset()
    sent = tuple(comm.allreduce(np.array(own)))
    if own != story.sends[comm.rank]:
        return f"rank {comm.rank}: {own} bytes and messages instead of {story.sends[comm.rank]}"
    if sent != story.together:
        return f"{sent} bytes and messages instead of {story.together}"
    results = found if isinstance(found, tuple) else (found,)
    for output, result, part in zip(story.outputs, results, story.expected[comm.rank], strict=True):
        if not np.array_equal(result, part):
            return f"rank {comm.rank}: {output} differs"
    return ""


def main() -> None:
    """Run all of them, once all are loaded: a rank that waits for another keeps a core from it."""
    comm = MPI.COMM_WORLD
    ready: list[Prepared] = pickle.loads(file(Path(sys.argv[2]), comm.size).read_bytes())
    for story in ready:
        every = comm.gather(wrong(story, comm))
        if every is not None:
            print(json.dumps([f"{story.name} on {comm.size}", "; ".join(filter(None, every))]), flush=True)


if __name__ == "__main__":
    sys.exit(main())
