"""Every story on the ranks there are: what test_rank_stories.py runs there, once the library that counts is loaded.

Prints, on rank 0, a line of JSON for each: its name, and what is wrong with it ("" if nothing is).
"""

from __future__ import annotations

import ctypes
import json
import pickle
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


def wrong(story: Prepared, comm: MPI.Comm, counter: Counter) -> str:
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


def run(library: str, folder: str) -> None:
    """Runs what is prepared in a folder, once all is loaded: a rank that waits for another keeps a core from it."""
    comm, counter = MPI.COMM_WORLD, Counter(library)
    ready: list[Prepared] = pickle.loads(file(Path(folder), comm.size).read_bytes())
    for story in ready:
        every = comm.gather(wrong(story, comm, counter))
        if every is not None:
            print(json.dumps([f"{story.name} on {comm.size}", "; ".join(filter(None, every))]), flush=True)
