"""Every story on the ranks there are: what test_rank_stories.py has mpirun start.

Prints, on rank 0, a line of JSON for each: its name, and what is wrong with it ("" if nothing is).
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from mpi4py import MPI

import tiramisu_py as tm
from tests.programs.ranks import mpi_stories as stories

SIZE = 17


class Counter:
    """What this rank has sent since it was asked last, as the library that is loaded before MPI counts it."""

    def __init__(self, library: str) -> None:
        self.library = ctypes.CDLL(library)

    def reset(self) -> tuple[int, int]:
        """Bytes and messages."""
        bytes_, messages = ctypes.c_longlong(), ctypes.c_longlong()
        self.library.counted(ctypes.byref(bytes_), ctypes.byref(messages))
        return bytes_.value, messages.value


counter = Counter(sys.argv[1])


def parameters(f: tm.Function, whole: Mapping[str, Any]) -> dict[str, int]:
    """The parameter C of stories on pictures, from the shape."""
    if "C" not in f.algorithm.params:
        return {}
    array = next(value for value in whole.values() if isinstance(value, np.ndarray) and value.ndim > 1)
    return {"C": array.shape[1] - (2 if f.name == "blur" else 0)}


@dataclass(frozen=True)
class Prepared:
    """A story, ready to run: compiled, with its arguments and what is expected."""

    name: str
    f: tm.Function
    kernel: tm.Kernel
    whole: Mapping[str, Any]
    expected: Any


def prepared(name: str, variant: str, ranks: int) -> Prepared:
    """A story, compiled for the ranks there are."""
    story = stories.module(name)
    f = story.VARIANTS[variant](ranks, SIZE)
    whole = story.sample(variant, SIZE, 1)
    return Prepared(f"{name}: {variant}", f, f.compile(), whole, f.evaluate(**whole))


def wrong(story: Prepared, comm: MPI.Comm) -> str:
    """What a story does wrong on the ranks of `comm`."""
    f, whole, expected = story.f, story.whole, story.expected
    params = {key: value for key, value in whole.items() if not isinstance(value, np.ndarray)}
    mine = {key: f.part(key, value, comm.rank) for key, value in whole.items() if key not in params}
    counter.reset()
    found = story.kernel(**params, **mine, comm=comm)
    own = counter.reset()
    sent = comm.allreduce(np.array(own))
    predicted = f.communication(**{**parameters(f, whole), **params})
    here = predicted.of_rank(comm.rank).sent if comm.rank < predicted.ranks else None
    if own != ((here.bytes, here.messages) if here else (0, 0)):
        return f"rank {comm.rank}: {own} bytes and messages instead of {here}"
    if tuple(sent) != (predicted.bytes, predicted.messages):
        return f"{tuple(sent)} bytes and messages instead of {predicted.bytes, predicted.messages}"
    results = found if isinstance(found, tuple) else (found,)
    wanted = expected if isinstance(expected, tuple) else (expected,)
    for output, result, right in zip(f.algorithm.outputs, results, wanted, strict=True):
        part = f.part(output, right, comm.rank)
        if not np.array_equal(result, part):
            return f"rank {comm.rank}: {output} differs"
    return ""


def main() -> None:
    """Run all of them, once all are prepared: a rank that waits for another keeps a core from it."""
    comm = MPI.COMM_WORLD
    ready = [prepared(name, variant, comm.size) for name, variant in stories.variants()]
    for story in ready:
        every = comm.gather(wrong(story, comm))
        if every is not None:
            print(json.dumps([f"{story.name} on {comm.size}", "; ".join(filter(None, every))]), flush=True)


if __name__ == "__main__":
    sys.exit(main())
